"""Define the jobs of a worker.

Results go to disk; a job returns only their names.
A job is `job(arguments, emit, monitor) -> dict`: arguments are plain, `emit` writes one line of its own to the page,
`monitor` goes to the verbs. No job imports the web server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from kapitza.base.monitor import Monitor
from kapitza.studio.work import find_orbits_of, follow_branch, follow_rig

Emit = Callable[[Mapping[str, Any]], None]
Job = Callable[[Mapping[str, Any], Emit, Monitor], Mapping[str, Any]]


def preload() -> None:
    """Import what jobs need.

    The first job then starts without waiting.
    """
    import kapitza

    for name in kapitza.__all__:
        getattr(kapitza, name)


def identify(arguments: Mapping[str, Any], emit: Emit, monitor: Monitor) -> Mapping[str, Any]:
    """Run a study as `kapitza identify` does.

    study: its path, resume: whether to go on after a stopped run.
    """
    from kapitza.study import finished_before, keeping_copy, read_study

    study = read_study(Path(arguments["study"]))
    warnings = study.warnings()
    if warnings:
        emit({"event": "warnings", "texts": list(warnings)})
    if monitor.cancelled:
        raise KeyboardInterrupt
    before = None if arguments.get("replace") else finished_before(study)
    if before:
        return {"folder": str(study.folder), "unchanged": True}
    with keeping_copy(study.folder) if before is False else nullcontext() as kept:
        result = study.run(monitor, bool(arguments.get("resume")))
    return {"folder": str(study.folder), "kept": kept.name if kept else "", "sentence": result.sentence()}


def inspect_recording(arguments: Mapping[str, Any], emit: Emit, monitor: Monitor) -> Mapping[str, Any]:
    """Inspect a study's first recording.

    The job does what `kapitza inspect` does.
    """
    del emit
    from kapitza.base.cures import in_study
    from kapitza.orbits.in_records import inspect
    from kapitza.studio.loading import shown_record

    record = shown_record(dict(arguments["data"]), Path(arguments["folder"]))
    # Columns that the study ignores, such as a second clock, would be taken for motions.
    columns = [name for name in arguments.get("columns") or () if name in record.channels]
    if columns:
        record = record.select(columns)
    if arguments.get("from") is not None:
        record = record.between(arguments["from"], arguments["to"])
    found = inspect(record, monitor=monitor)
    return {"lines": in_study(str(found)).splitlines()}


JOBS: dict[str, Job] = {
    "identify": identify,
    "inspect": inspect_recording,
    "orbits": find_orbits_of,
    "branch": follow_branch,
    "rig": follow_rig,
}
"""Jobs by the name that the page gives them."""
