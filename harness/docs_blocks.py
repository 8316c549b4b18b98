"""Code blocks of the documentation: run page by page, the output that is shown compared in full.

Blocks of a page run one after the other, in one working directory and one namespace:

- ```python runs as it stands; a ```text block right after it is what it prints;
- ```console holds commands after "$ ", each followed by all that it prints;
- ```sh holds commands; those of `kapitza` run, others (pip, git, make, dask) are for the reader;
- ```toml is kept as the text `toml`;
- a comment <!-- run ... --> is Python that readers do not see: the recording or fit that a page goes on from. It may
  set `stands_for`, a table of texts of the page and what the runner puts in their place (addresses, ports).

A page with the comment <!-- blocks: make docs --> or <!-- blocks: make test-device --> runs there, since it takes too
long for the tests or needs a device; every other page runs in tests/test_docs_blocks.py. "make docs, with NAME" needs
the environment variable NAME: KAPITZA_DATA, the folder of measured recordings, or KAPITZA_LONG for minutes of work.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "jobs").glob("*.md")])
PART = re.compile(r"^```(\w*)\n(.*?)^```[^\S\n]*$|^<!-- run\n(.*?)^-->", re.DOTALL | re.MULTILINE)
MAKER = re.compile(r"^<!-- blocks: (make [\w-]+)(?:, with (\w+))? -->$", re.MULTILINE)
NUMBER = re.compile(r"(\d+)(?:\.(\d+))?(?:e([+-]\d+))?")
RUN = ("python", "console", "sh")
"""Kinds of blocks that hold code."""


@dataclass(frozen=True)
class Block:
    """Code or a file of a page, with the output that the page shows right after it."""

    kind: str
    text: str
    line: int
    shown: str | None = None


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page in their order; hidden code has the kind "hidden"."""
    text = page.read_text(encoding="utf-8")
    found = list(PART.finditer(text))
    made: list[Block] = []
    for i, part in enumerate(found):
        kind, code = ("hidden", part[3]) if part[3] is not None else (part[1], part[2])
        follows = i > 0 and not text[found[i - 1].end() : part.start()].strip()
        if kind in ("text", "") and follows and made[-1].kind in ("python", "hidden"):
            before = made.pop()
            made.append(Block(before.kind, before.text, before.line, code))
        else:
            made.append(Block(kind, code, text.count("\n", 0, part.start()) + 1))
    return made


def maker(page: Path) -> str:
    """Return the command that runs the blocks of a page; "" for a page without code."""
    if not any(block.kind in RUN for block in blocks(page)):
        return ""
    named = MAKER.search(page.read_text(encoding="utf-8"))
    return named[1] if named else "make test"


def needs(page: Path) -> str:
    """Return the environment variable that names the data of a page; "" for a page that needs none."""
    named = MAKER.search(page.read_text(encoding="utf-8"))
    return (named[2] or "") if named else ""


def same_output(shown: str, printed: str) -> bool:
    """Compare texts word by word; numbers agree within one unit of the last digit that is shown."""
    a, b = ([line.split() for line in text.rstrip().splitlines()] for text in (shown, printed))
    if [len(line) for line in a] != [len(line) for line in b]:
        return False
    words = ((x, y) for left, right in zip(a, b, strict=True) for x, y in zip(left, right, strict=True))
    return all(x == y or _same_word(x, y) for x, y in words)


def _same_word(shown: str, printed: str) -> bool:
    if NUMBER.sub("0", shown) != NUMBER.sub("0", printed):
        return False
    for x, y in zip(NUMBER.finditer(shown), NUMBER.finditer(printed), strict=True):
        if not x[2] and not x[3] and x[0] != y[0]:
            return False  # a count
        unit = 10.0 ** (int(x[3] or 0) - len(x[2] or ""))
        if abs(float(x[0]) - float(y[0])) > 1.01 * unit:
            return False
    return True


def run_page(page: Path) -> None:
    """Run the blocks of a page in the present working directory; a difference raises AssertionError."""
    from matplotlib import pyplot

    space: dict[str, Any] = {"__name__": "__main__", "stands_for": {}, "printed_by": printed_by}
    with contextlib.ExitStack() as closing:
        space["closing"] = closing  # servers that hidden code starts
        for block in blocks(page):
            where = f"{page.name}:{block.line}"
            text = block.text
            for old, new in space["stands_for"].items():
                text = text.replace(old, new)
            if block.kind in ("python", "hidden"):
                out = io.StringIO()
                with contextlib.redirect_stdout(out):
                    exec(compile("\n" * block.line + text, str(page), "exec"), space)  # noqa: S102 - our own text
                if block.shown is not None and not same_output(block.shown, out.getvalue()):
                    raise AssertionError(f"{where} shows\n{block.shown}\nand prints\n{out.getvalue()}")
            elif block.kind == "console":
                for command, shown in commands(text):
                    found = printed_by(command)
                    if not same_output(shown, found):
                        raise AssertionError(f"{where} shows for {command}\n{shown}\nand prints\n{found}")
            elif block.kind == "sh":
                for line in text.splitlines():
                    if line.startswith("kapitza "):
                        printed_by(line.partition(" #")[0])
            elif block.kind == "toml":
                space["toml"] = text
    pyplot.close("all")


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Commands of a console block, each with what it prints."""
    parts = re.split(r"^\$ (.*)\n", text, flags=re.MULTILINE)
    if parts[0]:
        raise AssertionError(f"A console block begins with a command, not {parts[0]!r}.")
    return zip(parts[1::2], parts[2::2], strict=True)


def printed_by(command: str, codes: tuple[int, ...] = (0, 3)) -> str:
    """Run a command of `kapitza` in this process and return what it prints; 3 is an answer with a warning."""
    from kapitza.cli import main

    words = shlex.split(command)
    if words[0] != "kapitza":
        raise AssertionError(f"{command!r} is not a command of kapitza.")
    out, code = io.StringIO(), 0
    with contextlib.redirect_stdout(out):
        try:
            main(words[1:])
        except SystemExit as ended:
            code = ended.code or 0
    if code not in codes:
        raise AssertionError(f"{command} ended with {code}:\n{out.getvalue()}")
    return out.getvalue()


def main(wanted: list[str]) -> None:
    """Run the pages of `make docs`, or those that are named, in two processes."""
    pages = [p for p in PAGES if (p.stem in wanted if wanted else maker(p) == "make docs")]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for told in pool.map(_told, pages):
            print(told, flush=True)


def _told(page: Path) -> str:
    """Run a page in an empty folder and say so."""
    os.environ["MPLBACKEND"] = "Agg"
    where = page.relative_to(ROOT)
    if (needed := needs(page)) and not os.environ.get(needed):
        return f"{where}: NOT RUN, set {needed}"
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        run_page(page)
    return f"{where}: blocks run, {time.process_time() - began:.1f} s of processor"


if __name__ == "__main__":
    main(sys.argv[1:])
