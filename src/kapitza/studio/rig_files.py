"""Keep the points of a rig, run by run.

A run N has its points in rig-N.json and the journal of its measurements in rig-N.jsonl; no run is written over another.
rig.json and rig.jsonl, which earlier versions wrote over again and again, are shown as run 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kapitza.base.files import replacing


def points_file(folder: Path, number: int) -> Path:
    """Return the file of a run's points."""
    return folder / (f"rig-{number}.json" if number else "rig.json")


def journal_file(folder: Path, number: int) -> Path:
    """Return the file of a run's measurements."""
    return points_file(folder, number).with_suffix(".jsonl")


def rig_runs(folder: Path) -> list[int]:
    """Return the numbers of the runs on disk, the newest first."""
    return sorted((number for number in _numbers(folder) if points_file(folder, number).is_file()), reverse=True)


def new_run(folder: Path) -> int:
    """Claim the number of a new run; its file exists afterwards."""
    number = max(_numbers(folder), default=0)
    while True:
        number += 1
        try:
            # Two servers may begin at once: only one of them can make the file.
            points_file(folder, number).open("x").close()
        except FileExistsError:
            continue
        return number


def rig_points(folder: Path, number: int | None = None) -> dict[str, Any]:
    """Return the request, points and state of a run, by default the newest.

    {} where there is none.
    """
    if number is None:
        runs = rig_runs(folder)
        if not runs:
            return {}
        number = runs[0]
    try:
        found = json.loads(points_file(folder, number).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def last_along(folder: Path, parameter: str) -> dict[str, Any]:
    """Return the newest run with points along a parameter; {} where there is none."""
    for number in rig_runs(folder):
        found = rig_points(folder, number)
        if found.get("points") and found.get("request", {}).get("parameter") == parameter:
            return found
    return {}


def write_points(
    folder: Path, number: int, request: Mapping[str, Any], points: Sequence[Mapping[str, Any]], state: str, message: str
) -> None:
    """Write the points of a run so far; the token of a served rig is left out."""
    asked = {key: value for key, value in request.items() if key != "token"}
    with replacing(points_file(folder, number)) as draft:
        draft.write_text(
            json.dumps({"request": asked, "points": list(points), "state": state, "message": message}), encoding="utf-8"
        )


def give_up(folder: Path, number: int) -> bool:
    """Remove a run that has measured nothing; return whether it was removed."""
    if journal_file(folder, number).is_file():
        return False
    points_file(folder, number).unlink(missing_ok=True)
    return True


def can_go_on(folder: Path, number: int) -> bool:
    """Return whether a run can be gone on from: its journal holds the two points that give a direction."""
    return len(rig_points(folder, number).get("points", ())) > 1 and journal_file(folder, number).is_file()


def run_label(number: int, run: Mapping[str, Any]) -> str:
    """Return a run as one line of a menu."""
    request = run.get("request", {})
    count = len(run.get("points", ()))
    state = {"running": "interrupted"}.get(str(run.get("state")), run.get("state", "not readable"))
    points = "1 point" if count == 1 else f"{count} points"
    return f"run {number}: {points} of {request.get('rig', '?')} along {request.get('parameter', '?')}, {state}"


def _numbers(folder: Path) -> set[int]:
    names = [one.name for one in folder.glob("rig*.json*") if one.suffix in (".json", ".jsonl")]
    stems = {name.partition(".")[0] for name in names}
    return {int(stem[4:]) for stem in stems if stem[4:].isdigit()} | ({0} if "rig" in stems else set())
