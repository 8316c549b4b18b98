"""Read a study file.

It is checked as a whole before any work.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kapitza.base import checks
from kapitza.base.cures import marked
from kapitza.data import Record, read
from kapitza.errors import DataError, KapitzaError, nearest_name, no_such
from kapitza.estimate import read_output, record_in_model_units
from kapitza.model import Model, Signal
from kapitza.public import RENAMED_ARGUMENTS
from kapitza.study.candidates import Candidate, check_candidates, check_idle
from kapitza.study.folder import model_files, results_folder_problem
from kapitza.study.keys import FIT, METHODS, REPEATED, SECTIONS, TOP, Key, setting_names
from kapitza.study.next_run import read_plan
from kapitza.study.problems import Notebook, Problem, StudyError
from kapitza.study.problems import Path as Place
from kapitza.study.recordings import KeptRecords, Recording, one_recording, read_recordings
from kapitza.study.study import Study

LARGEST_FILE = 5_000_000


def read_study(path: str | Path, text: str | None = None) -> Study:
    """Read a study from a TOML file.

    Relative paths in it are relative to the file.

    Models are built, recordings read and every name compared before this returns: StudyError lists all that is wrong,
    each with its line and what to change.

    Parameters
    ----------
    path : path
        The file; docs/studies.md lists its keys.
    text : str, optional
        What the file is to hold, to check it before it is written; the file itself is not read then.

    Returns
    -------
    Study
        Ready to `run()`.

    Examples
    --------
    >>> import numpy as np, kapitza as kz, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> motion = kz.simulate(kz.library.lorenz(), x0=[1, 1, 20], t=np.arange(300) * 0.01)
    >>> _ = kz.write(kz.measure(motion, noise=0.1, seed=1), folder / "run.csv")
    >>> text = '[model]\\nlibrary = "lorenz"\\n[data]\\nfile = "run.csv"\\n[fit]\\nfree = ["rho"]\\nmethod = "shooting"'
    >>> _ = (folder / "rig.toml").write_text(text)
    >>> kz.read_study(folder / "rig.toml").candidates[0].free
    ('rho',)
    """
    return study_of(checks.path("A study", path), text)


def study_of(path: Path, text: str | None = None, kept: KeptRecords | None = None) -> Study:
    """Read a study, see `read_study`.

    kept: records that earlier checks have read, for a page that checks while the user types.
    """
    text, content = _read(path, text)
    notes = Notebook(path.name, text)
    sections = _check_keys(content, notes)
    folder = path.resolve().parent
    recordings: list[Recording] = []
    for number, table in enumerate(sections["data"]):
        recordings += read_recordings(table, folder, ("data", number), notes, kept)
    fit, output = sections["fit"][0], sections["output"][0]
    fitted = [r for r in recordings if r.use == "fit"]
    signals = _signals(fitted, notes) or unread_signals(sections["data"], recordings)
    candidates = check_candidates(sections["model"], fit, folder, signals, notes)
    measured = [str(text) for table in sections["data"] for text in table.get("measures", {}).values()]
    check_idle(candidates, sections["model"], measured, notes)
    _check_data(recordings, candidates, len(sections["model"]), sections["data"], notes)
    methods = _methods(fit, notes)
    target = folder / output.get("folder", f"{path.stem}-results")
    read = [path, *(recording.path for recording in recordings), *model_files(path.resolve(), sections)]
    next_run = read_plan((sections["plan"] or [{}])[0], candidates, folder, notes)
    problem = results_folder_problem(target, read)
    if problem:
        notes.add(("output", "folder"), problem)
    notes.raise_if_any()
    return Study(
        path=path.resolve(),
        text=text,
        content=content,
        title=content.get("title", path.stem.replace("_", " ")),
        seed=int(content.get("seed", 0)),
        candidates=tuple(candidates),
        recordings=tuple(recordings),
        methods=methods,
        settings={name: dict(fit.get(name, {})) for name in METHODS},
        hold_back=float(fit.get("hold_back", 0.0)),
        max_period=int(fit.get("max_period", 5)),
        level=float(output.get("level", 0.95)),
        folder=target,
        report=bool(output.get("report", True)),
        profiles=bool(output.get("profiles", False)),
        next_run=next_run,
        exclude=tuple(fit.get("exclude", ())),
    )


def _read(path: Path, text: str | None) -> tuple[str, dict[str, Any]]:
    """Return text and tables of the file.

    Where `text` is given, they are those of the text that the file is to hold.
    """
    try:
        if text is not None:
            return checks.toml_bytes("study", path.name, text.encode("utf-8", "surrogatepass"), LARGEST_FILE)
        return checks.toml_file("study", path, LARGEST_FILE)
    except checks.UnreadableToml as problem:
        near = []
        if text is None and path.parent.is_dir() and not path.is_file():
            near = sorted(p.name for p in path.parent.glob("*.toml"))[:5]
        more = f" In that folder: {', '.join(near)}." if near else ""
        raise StudyError(path.name, [Problem((), problem.line, f"{problem}{more}", (), problem.column)]) from None


ALIKE = ("time", "interval", "names", "angles", "segment", "missing", "group", "separator", "decimal", "period",
         "channels", "units", "drive", "drive_degree", "ignore", "bad_samples")  # fmt: skip
"""Keys of [data] that hold for other recordings of the same rig."""


def is_study(path: Path) -> bool:
    """Return whether a TOML file is a study.

    A study names data, a model does not.
    """
    try:
        return "data" in checks.toml_file("study", path, LARGEST_FILE)[1]
    except checks.UnreadableToml:
        return False


def read_alike(study: Path, path: Path, time: str | None = None, only: str | None = None) -> Record:
    """Read another recording as a study reads its first.

    Columns, units and group are those of its [data]; a file that names its columns as the model does is read by them.
    only: the one channel to read, under its name in the model.
    """
    tables = checks.toml_file("study", study, LARGEST_FILE)[1]["data"]
    first = tables[0] if isinstance(tables, list) else tables
    # Spans, values and phases belong to the recording that was fitted.
    settings = {k: v for k, v in first.items() if k in ALIKE} | ({} if time is None else {"time": time})
    if only is not None:
        settings = _of_one(settings, only)
    try:
        return one_recording(settings, path).record
    except DataError as problem:
        try:
            return read(path, time=time)
        except DataError:
            raise problem from None


def columns_of(study: Path) -> dict[str, str]:
    """Return the columns that a study names, and their names in the equations."""
    tables = checks.toml_file("study", study, LARGEST_FILE)[1]["data"]
    named = (tables[0] if isinstance(tables, list) else tables).get("channels")
    return dict(named) if isinstance(named, Mapping) else {}


def _of_one(settings: Mapping[str, Any], channel: str) -> dict[str, Any]:
    """Return settings of [data] that read one channel alone."""
    named = settings.get("channels")
    columns = {old for old, new in named.items() if new == channel} if isinstance(named, Mapping) else set[str]()
    known = {channel, *columns, settings.get("time")}
    units = {name: unit for name, unit in settings.get("units", {}).items() if name in known}
    left = {k: v for k, v in settings.items() if k not in ("drive", "drive_degree", "ignore", "angles")}
    return left | {"channels": dict.fromkeys(columns, channel) or [channel], "units": units}


def _check_keys(content: Mapping[str, Any], notes: Notebook) -> dict[str, list[dict[str, Any]]]:
    """Return every section as a list of tables.

    Their keys are known and of the right kind; the others are noted.
    """
    _check_table(content, TOP, (), notes, skip=tuple(SECTIONS))
    sections: dict[str, list[dict[str, Any]]] = {}
    for name, keys in SECTIONS.items():
        given = content.get(name, [] if name in REPEATED else {})
        listed = given if isinstance(given, list) and name in REPEATED else [given]
        tables: list[dict[str, Any]] = [table for table in listed if isinstance(table, dict)]
        if len(tables) < len(listed):
            notes.add((name,), f"it must be a table: write [{name}] on a line of its own, its keys below.")
        sections[name] = []
        for number, table in enumerate(tables):
            place: Place = (name, number) if name in REPEATED else (name,)
            wrong = _check_table(table, keys, place, notes)
            sections[name].append({key: value for key, value in table.items() if key not in wrong})
    for name in ("model", "data"):
        if not content.get(name):
            cure = 'library = "duffing", or equations' if name == "model" else 'file = "run.csv"'
            notes.add((), f"there is no [{name}]: add one with {cure}.")
            sections[name] = []
    sections["fit"] = sections["fit"] or [{}]
    sections["output"] = sections["output"] or [{}]
    level = sections["output"][0].get("level", 0.95)
    if not 0 < level < 1:
        notes.add(
            ("output", "level"), f"{level} is not a level of an interval: it lies between 0 and 1, 0.95 is usual."
        )
    return sections


def _check_table(
    table: Mapping[str, Any], keys: Mapping[str, Key], place: Place, notes: Notebook, skip: Sequence[str] = ()
) -> set[str]:
    """Note unknown keys and wrong kinds.

    The keys that cannot be used are returned.
    """
    wrong = set()
    for name, value in table.items():
        if name in skip:
            continue
        if name not in keys:
            where = f"[{place[0]}]" if place else "a study"
            notes.add((*place, name), no_such(where, "key", name, keys))
            wrong.add(name)
        elif not keys[name].kind.accepts(value):
            notes.add((*place, name), f"it must be {keys[name].kind.words}, not {_shown(value)}.")
            wrong.add(name)
        elif keys[name].choices and isinstance(value, str) and value not in keys[name].choices:
            known = ", ".join(keys[name].choices)
            hint = nearest_name(value, keys[name].choices)
            notes.add((*place, name), f'"{value}" is none of {known}.{hint}')
            wrong.add(name)
    return wrong


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 60 else text[:57] + "..."


def _signals(fitted: Sequence[Recording], notes: Notebook) -> tuple[Signal, ...]:
    """Return drives of the fitted recording.

    One recording only: a model holds one drive.
    """
    driven = [recording for recording in fitted if recording.signals]
    if driven and len(fitted) > 1:
        notes.add(
            (*driven[0].place, "drive"),
            "a measured drive belongs to one recording, and several are to be fitted: keep one, and give the others "
            'use = "check".',
        )
    return driven[0].signals if driven else ()


def unread_signals(tables: Sequence[Mapping[str, Any]], recordings: Sequence[Recording]) -> tuple[Signal, ...]:
    """Return stand-ins for the drives of recordings that could not be read.

    The study is refused for these already; without a drive its name would be unknown in the equations too.
    """
    read = {recording.place[1] for recording in recordings}
    names = [
        name
        for number, table in enumerate(tables)
        if number not in read and table.get("use", "fit") == "fit"
        for name in table.get("drive", ())
    ]
    times = np.arange(4.0)
    return tuple(Signal(name, times, np.zeros(4), degree=1) for name in dict.fromkeys(names))


def _check_data(
    recordings: Sequence[Recording],
    candidates: Sequence[Candidate],
    models: int,
    tables: Sequence[Mapping[str, Any]],
    notes: Notebook,
) -> None:
    """Check every recording against every candidate; models: the number of [model] tables."""
    fitted = [recording for recording in recordings if recording.use == "fit"]
    if recordings and not fitted:
        notes.add((*recordings[0].place, "use"), 'every recording is there to check: leave use = "check" out of one.')
    # A candidate that could not be built may hold the drive.
    for recording in fitted if len(candidates) == models else ():
        _check_drives(recording, candidates, notes)
    for recording in recordings:
        for candidate in candidates:
            _check_pair(recording, candidate, tables[int(recording.place[1])], notes)


def _check_drives(recording: Recording, candidates: Sequence[Candidate], notes: Notebook) -> None:
    """Refuse a measured drive that no candidate holds: it would drive nothing."""
    held = {s.name for c in candidates for e in c.model.equations for s in e.free_symbols}
    for signal in recording.signals:
        if signal.name not in held and not any(signal.name in text for text in recording.measures.values()):
            names = sorted({n for c in candidates for n in c.model.names})
            notes.add(
                (*recording.place, "drive"),
                f'"{signal.name}" drives, but no equation holds it: write it into the equation under this name, or '
                f"leave it out of drive. The parameters are {', '.join(names)}.",
            )


def _check_pair(recording: Recording, candidate: Candidate, table: Mapping[str, Any], notes: Notebook) -> None:
    """Check one recording against one candidate.

    Its channels, values and measures must belong to the model.
    """
    model, place = candidate.model, recording.place
    drives = {signal.name for signal in recording.signals}
    known = {*recording.needed(model), *drives}
    used = [channel for channel in recording.record.channels if channel in known - drives]
    if not used:
        channels = ", ".join(c for c in recording.record.channels if c not in drives)
        notes.add(
            (*place, "channels"),
            f"none of the channels {channels} of {recording.name} is a state of {candidate.name} "
            f'({", ".join(model.states)}): name them, channels = {{column = "{model.states[0]}"}}, or say what they '
            f'measure, measures = {{channel = "expression"}}.',
        )
    elif "channels" in table:
        strangers = [c for c in recording.record.channels if c not in known]
        for channel in strangers:
            notes.add(
                (*place, "channels"),
                f'"{channel}" is not a state of {candidate.name} ({", ".join(model.states)}): rename it, say what it '
                f"measures, or leave it out.{nearest_name(channel, model.states)}",
            )
    try:
        record_in_model_units(model, recording.record.select(used) if used else recording.record)
    except KapitzaError as error:
        notes.add((*place, "units"), error)
    _ask_units(recording, model, used, notes)
    for name in recording.values:
        try:
            model.check(name)
        except KapitzaError as error:
            notes.add((*place, "values", name), error)
        if name in candidate.free:
            notes.add((*place, "values", name), f"{name} is free: leave it out of free, or of these values.")
    for channel, text in recording.measures.items():
        problem = _measure_problem(model, text, recording.record.channels)
        if problem:
            notes.add((*place, "measures", channel), problem)


def _ask_units(recording: Recording, model: Model, used: Sequence[str], notes: Notebook) -> None:
    """Request units of channels whose states have one.

    They are never guessed. Angles are in rad by convention.
    """
    for name in used:
        wanted = model.units.get(name, "")
        angle = recording.record.angles[recording.record.channels.index(name)] or wanted == "rad"
        if wanted and not recording.record.units[name] and not angle:
            notes.add(
                (*recording.place, "units"),
                f'{recording.name} does not say in which unit "{name}" is, and {model.name} counts it in {wanted}: say '
                f'it, units = {{"{name}" = "{wanted}"}} if it is so.',
            )


def _measure_problem(model: Model, text: str, channels: Sequence[str]) -> str:
    try:
        read_output(text, model, channels)
    except KapitzaError as error:
        return marked(error)
    return ""


def _methods(fit: Mapping[str, Any], notes: Notebook) -> tuple[str, ...]:
    given = fit.get("method", "auto")
    methods = (given,) if isinstance(given, str) else tuple(given)
    for name in methods:
        if name not in FIT["method"].choices:
            notes.add(("fit", "method"), f'"{name}" is none of {", ".join(FIT["method"].choices)}.')
    if not methods or len(set(methods)) < len(methods) or ("auto" in methods and len(methods) > 1):
        notes.add(("fit", "method"), '"auto" stands alone, and each method once: method = ["harmonic", "shooting"].')
    hold_back = fit.get("hold_back", 0.0)
    if not 0 <= hold_back <= 0.9:
        notes.add(
            ("fit", "hold_back"), f"{hold_back} is not a share of a recording to hold back: 0 to 0.9, 0.2 is usual."
        )
    if fit.get("max_period", 1) < 1:
        notes.add(("fit", "max_period"), "orbits have at least 1 period.")
    for name in fit.get("exclude", ()):
        if not re.fullmatch(r"[1-9]\d*[a-z]+", name):
            words = f'"{name}" is not the name of an orbit: write period and letter, "3b" for the second of period 3.'
            notes.add(("fit", "exclude"), words)
    for method in METHODS:
        _check_settings(method, fit.get(method, {}), notes)
    return methods


def _check_settings(method: str, settings: Mapping[str, Any], notes: Notebook) -> None:
    known = setting_names(method)
    # Former names are taken too; the settings themselves warn of them.
    former = RENAMED_ARGUMENTS.get(METHODS[method].__name__, {})
    unknown = [name for name in settings if former.get(name, name) not in known]
    for name in unknown:
        notes.add(("fit", method, name), no_such(METHODS[method].__name__, "setting", name, known))
    if settings and not unknown:
        try:
            METHODS[method](**settings)
        except (KapitzaError, TypeError, ValueError) as error:
            notes.add(("fit", method), error)
