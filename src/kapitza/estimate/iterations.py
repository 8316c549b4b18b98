"""Iterations of a fit, tabulated on request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Iterations:
    """One row per iteration."""

    columns: Sequence[str]
    rows: Sequence[Any]

    def table(self) -> pd.DataFrame:
        """Return the iterations as a table."""
        import pandas as pd

        return pd.DataFrame(list(self.rows), columns=list(self.columns))
