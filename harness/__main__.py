"""`python -m harness`: rewrite what is written from lists: docs/results/index.md, docs/api.md and the type stub."""

from harness.public_names import write_public_names
from harness.runner import write_index

write_index()
write_public_names()
