"""Run sheets, and the journal of a campaign.

Both are TOML, read as data.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w

from kapitza.base import checks
from kapitza.base.csv_tables import write_table
from kapitza.base.files import replacing
from kapitza.data import Record, read, write
from kapitza.errors import DataError, WriteError
from kapitza.planning.choice import Choice

if TYPE_CHECKING:
    from kapitza.planning.result import Plan

LARGEST_JOURNAL = 16 * 2**20
JOURNAL = "journal.toml"
KIND = "kapitza campaign"
"""First entry of a journal: other files of this name are left alone."""
FIELDS = ("duration", "step", "settle", "approach", "begin", "drive")


@dataclass(frozen=True)
class Entry:
    """Run of a campaign.

    It holds its number, the experiment, and the relative widths promised before and reached after it.
    """

    number: int
    choice: Choice
    promised: Mapping[str, float]
    reached: Mapping[str, float]

    @property
    def file(self) -> str:
        return f"run_{self.number:03d}.csv"


def as_table(choice: Choice) -> dict[str, Any]:
    """Convert the choice to a TOML table."""
    table: dict[str, Any] = {
        name: value for name in FIELDS if (value := _field(choice, name)) not in (0.0, "state", "")
    }
    table["settings"], table["start"], table["channels"] = (
        dict(choice.settings),
        dict(choice.start),
        dict(choice.channels),
    )
    if choice.sweep is not None:
        table["sweep"] = list(choice.sweep)
    return table


def _field(choice: Choice, name: str) -> Any:
    return {
        "duration": choice.duration,
        "step": choice.step,
        "settle": choice.settle,
        "approach": choice.approach,
        "begin": choice.begin,
        "drive": choice.drive,
    }[name]


def from_table(table: Mapping[str, Any]) -> Choice:
    """Read a choice from a TOML table.

    Anything else in it is refused.
    """
    known = {*FIELDS, "settings", "start", "channels", "sweep"}
    for name in table:
        if name not in known:
            raise DataError(f"A run has no entry {checks.shown(name)}; it has {', '.join(sorted(known))}.")
    numbers = {
        n: checks.number(n, table[n], error=DataError) for n in FIELDS if n in table and n not in ("approach", "drive")
    }
    approach = table.get("approach", "state")
    if approach not in ("state", "from below", "from above"):
        raise DataError(f"approach = {checks.shown(approach)}: there are state, from below, from above.")
    sweep = table.get("sweep")
    if sweep is not None:
        name, low, high = checks.items("sweep", sweep, error=DataError)
        sweep = (str(name), checks.number("sweep", low, error=DataError), checks.number("sweep", high, error=DataError))
    return Choice(
        _numbers(table, "settings"),
        _numbers(table, "start"),
        channels=_numbers(table, "channels"),
        approach=approach,
        sweep=sweep,
        drive=checks.text("drive", table.get("drive", ""), error=DataError),
        **numbers,
    )


def _numbers(table: Mapping[str, Any], name: str) -> dict[str, float]:
    """Read a table of numbers by name.

    The table is inside another one; the result is empty where there is none.
    """
    inside = checks.table(name, table.get(name, {}), error=DataError)
    return {
        key: checks.number(f'{name} of "{key}"', value, finite=False, error=DataError) for key, value in inside.items()
    }


def write_sheet(plan: Plan, path: str | os.PathLike[str]) -> None:
    """Write the experiments of a plan.

    A .csv is a table for people, a .toml is for scripts and `read_sheet`.
    """
    import pandas as pd

    target = Path(path)
    if target.suffix.lower() == ".toml":
        rows = [
            {"rank": rank, "experiment": plan.words(one.choice), **as_table(one.choice)}
            for rank, one in enumerate(plan.expected, 1)
        ]
        with replacing(target) as draft:
            draft.write_bytes(tomli_w.dumps({"run": rows}).encode())
    elif target.suffix.lower() == ".csv":
        rows = []
        for rank, one in enumerate(plan.expected, 1):
            begun = {f"{name}(0)": value for name, value in one.choice.start.items()}
            after = {
                f"{n} after [%]": 100 * w / s
                for n, w, s in zip(plan.wanted.labels, one.after, plan.wanted.scale, strict=True)
            }
            rows.append(
                {
                    "rank": rank,
                    **one.choice.settings,
                    **begun,
                    **({"drive": one.choice.drive} if one.choice.drive else {}),
                    "approach": one.choice.approach,
                    "settle [s]": one.choice.settle,
                    "duration [s]": one.choice.duration,
                    "step [s]": one.choice.step,
                    "measure": ", ".join(one.choice.channels),
                    **after,
                    "file": "",
                }
            )
        write_table(pd.DataFrame(rows), target)
    else:
        raise WriteError(f'"{checks.shown(str(path))}" is not a run sheet: end it with .csv or .toml.')


def read_sheet(path: str | os.PathLike[str]) -> list[Choice]:
    """Read the experiments of a run sheet, by rank.

    Parameters
    ----------
    path : path
        A file that `Plan.sheet` wrote, or one in that form.

    Returns
    -------
    list of Choice
        The experiments.

    Examples
    --------
    >>> import tempfile, pathlib, kapitza as kz
    >>> folder = tempfile.TemporaryDirectory()
    >>> place = pathlib.Path(folder.name) / "runs.toml"
    >>> _ = place.write_text("[[run]]\\nduration = 60.0\\nstep = 0.1\\nsettings = {F = 0.3}\\nchannels = {x = 0.01}")
    >>> kz.read_sheet(place)[0].settings
    {'F': 0.3}
    >>> folder.cleanup()
    """
    _, tables = checks.toml_file("run sheet", Path(path), LARGEST_JOURNAL)
    rows = checks.items("run", tables.get("run", ()), error=DataError)
    return [
        from_table(
            {k: v for k, v in checks.table("run", row, error=DataError).items() if k not in ("rank", "experiment")}
        )
        for row in rows
    ]


def write_run(folder: Path, entry: Entry, record: Record) -> None:
    """Write the recording of a run.

    It is written before the journal names it: a kill between both leaves a file, not a gap.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write(record, folder / entry.file)


def begin_journal(folder: Path, campaign: str) -> None:
    """Begin a journal where there is none.

    A folder with runs of something else is refused.
    campaign: fingerprint of the request. Runs of one campaign in the journal of another would be fitted with the
    wrong model, or counted as its own.
    """
    place = folder / JOURNAL
    if place.exists():
        _, tables = checks.toml_file("journal", place, LARGEST_JOURNAL)
        if tables.get("kind") != KIND:
            raise DataError(f"{checks.shown(str(place))} is not the journal of a campaign: choose another folder.")
        if tables.get("campaign") != campaign:
            raise DataError(
                f"{checks.shown(str(folder))} holds another campaign: its model, free parameters, earlier data, run, "
                "limits, or what may vary or is wanted, differ. Choose another folder. Aim, budget, search may change."
            )
        return
    others = sorted(place.name for place in folder.glob("run_*.csv"))
    if others:
        raise DataError(
            f"The folder {checks.shown(str(folder))} has {others[0]} and no journal of a campaign: its runs would be "
            "written over. Choose another folder."
        )
    write_journal(folder, campaign, [])


def write_journal(folder: Path, campaign: str, entries: Sequence[Entry]) -> None:
    """Write the journal, complete or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {"file": e.file, "promised": dict(e.promised), "reached": dict(e.reached), "choice": as_table(e.choice)}
        for e in entries
    ]
    with replacing(folder / JOURNAL) as draft:
        draft.write_bytes(tomli_w.dumps({"kind": KIND, "campaign": campaign, "run": rows}).encode())


def read_journal(folder: Path) -> tuple[list[Entry], list[tuple[Record, Mapping[str, float]]]]:
    """Return entries and recordings of a campaign.

    `begin_journal` found or began the campaign here.
    """
    _, tables = checks.toml_file("journal", folder / JOURNAL, LARGEST_JOURNAL)
    entries, runs = [], []
    for number, row in enumerate(checks.items("run", tables.get("run", ()), error=DataError), 1):
        table = checks.table("run", row, error=DataError)
        choice = from_table(checks.table("choice", table.get("choice"), error=DataError))
        entry = Entry(number, choice, _numbers(table, "promised"), _numbers(table, "reached"))
        # The name of the file follows from the number: a journal cannot point elsewhere.
        record = read(folder / entry.file)
        entries.append(entry)
        runs.append((record, choice.settings))
    return entries, runs
