"""Search for orbits in one record.

Chooses the section and the search, and refuses arguments that do not apply.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from kapitza.base.cures import Give
from kapitza.base.monitor import Monitor, watch
from kapitza.data import Record
from kapitza.errors import DataError, refuse_unknown
from kapitza.orbits import OrbitSet
from kapitza.orbits.in_records.control import Control, control_of
from kapitza.orbits.in_records.dense_returns import ReturnSearch
from kapitza.orbits.in_records.embedded import CutSettings, best_cut, delay_of
from kapitza.orbits.in_records.find import SectionSearch
from kapitza.orbits.in_records.from_record import samples_per_period, section_phase
from kapitza.orbits.in_records.preparation import better_period, chosen_channels, require_count, without_gaps
from kapitza.orbits.in_records.profiles import with_profiles
from kapitza.orbits.in_records.section import Section
from kapitza.orbits.in_records.sheets import without_folds
from kapitza.signal import bad_sample_warnings, cut_at_bad_runs, without_bad_samples

DENSE = 10.0
"""Samples per excitation period from which the neighbours of a sample predict it."""

SHOWN = 20_000  # points of the section kept for pictures
CONTROLLED = "held by control: whether it is stable without is not known from this record"


def find_orbits_in_record(
    record: Record,
    max_period: int = 6,
    *,
    channels: Sequence[str] | None = None,
    method: SectionSearch | ReturnSearch | None = None,
    phase: float | None = None,
    delay: int | None = None,
    dimension: int | None = None,
    kind: str | None = None,
    noise: Any = None,
    controlled: bool | str | None = None,
    monitor: Monitor | None = None,
    **settings: Any,
) -> OrbitSet:
    """Find unstable periodic orbits that a record visited.

    Each orbit has its uncertainty.
    record: forced (it has a period), strobed once per excitation period or denser (then cut at `phase`, a share of the
    period; each orbit keeps it in seconds as `section_phase`); or autonomous (no period): the section is then
    where the first channel turns, see `turning_section`.
    channels: the state variables to use, all by default; delay, dimension: delay coordinates of each channel. Where
    the channels are not a state by themselves (a velocity alone), delays are added, and the message reports them.
    controlled: whether a control force held the motion during the recording (True, False), or the channel of the
    control signal. By default channels named "control" are taken for it: where they are not small beside the
    acceleration of the motion, an orbit on which it stays is not called stable, and the message reports this.
    noise: standard deviation per channel; known noise of the record, else estimated.
    method: `SectionSearch` (its fields may be given directly: tolerance=0.01, ...), or `ReturnSearch` for dense forced
    records whose state is too large for local maps.
    monitor: shown the progress; cancelled, or after Ctrl-C, the orbits found so far are returned, Status.INTERRUPTED.
    """
    require_count("max_period", max_period, 1)
    _check_arguments(method, settings, phase=phase, delay=delay, dimension=dimension, kind=kind, noise=noise)
    control = control_of(record, channels, controlled) if isinstance(record, Record) else Control()
    if control.channels and channels is None:
        channels = [name for name in record.channels if name not in control.channels]
    names = chosen_channels(record, channels)
    if record.period is None and phase is not None:
        raise DataError(f"{Give('phase')} belongs to forced records; this one has no excitation period.")
    if record.period is not None and kind is not None:
        raise DataError(f"{Give('kind')} belongs to autonomous records; this one is cut once per excitation period.")
    orbits = OrbitSet((), record.select(names).angles, message="Interrupted before the search began.", source=record)
    with watch(monitor, "looking for orbits") as task:
        record, marked = _without_bad_samples(record, names)
        record, note = without_gaps(record)
        note = f"{note} {marked}".strip()
        if isinstance(method, ReturnSearch):
            orbits = _held(_with_note(method.search(record, max_period, names, task), note), control)
        else:
            if record.period is None:
                # Turning points carry the noise of a window: such a section is less sharp than a strobed one.
                settings = {"tolerance": 0.02, **settings}
            search = method or SectionSearch(**settings)
            cut = best_cut(
                record, names, CutSettings(phase, delay, dimension, kind, noise, max_period, search.tolerance)
            )
            orbits = search.search(cut.section, max_period, task, cut.character)
            between = delay_of(cut.section, record, names)
            if between is not None:
                orbits = without_folds(orbits, cut.section, record, names, between)
            orbits = _placed(orbits, record, names, cut.section, phase, f"{note} {cut.note}")
            orbits = _held(with_profiles(orbits, record, names), control)
    return replace(orbits, status=task.status)


def _without_bad_samples(record: Record, names: tuple[str, ...]) -> tuple[Record, str]:
    """Bridge spikes and cut at longer bad runs.

    Returns the record and a sentence on the bad samples.
    A strobed record stays as it is: its neighbours do not predict a sample.
    """
    if record.period is not None and samples_per_period(record) < DENSE:
        return record, ""
    marked = without_bad_samples(record)
    return cut_at_bad_runs(marked), " ".join(bad_sample_warnings(marked.select(list(names))))


def _held(orbits: OrbitSet, control: Control) -> OrbitSet:
    """Mark orbits of a record under control.

    A motion that control holds on an orbit does not show the stability of the orbit.
    """
    orbits = _with_note(orbits, control.words)
    if not control.held:
        return orbits
    noted = tuple(
        orbit.with_(stability="unknown", notes=(*orbit.notes, CONTROLLED)) if orbit.multipliers is None else orbit
        for orbit in orbits
    )
    return replace(orbits, orbits=noted)


def _placed(
    orbits: OrbitSet, record: Record, names: tuple[str, ...], section: Section, phase: float | None, note: str
) -> OrbitSet:
    """Add section phase, record and section points to orbits."""
    if record.period is not None:
        when = section_phase(record, phase) * record.period
        noted = tuple(orbit.with_(section_phase=when) for orbit in orbits)
        orbits = replace(orbits, orbits=noted)
        note += "" if len(orbits) else _drift_note(record, names)
    thin = section.physical(section.unit[:: max(1, section.size // SHOWN)])
    return replace(_with_note(orbits, note), source=record, section_points=thin)


def _check_arguments(method: Any, settings: dict[str, Any], **more: Any) -> None:
    """Refuse settings that would be ignored.

    Unknown settings, and settings beside a method that has its own.
    """
    if method is not None and not isinstance(method, (SectionSearch, ReturnSearch)):
        raise DataError(f"method = {method!r}: pass a SectionSearch or a ReturnSearch (in Python).")
    known = [field.name for field in fields(SectionSearch)]
    refuse_unknown("find_orbits in a record", settings, [*known, *more, "channels", "method"])
    if method is not None and settings:
        raise DataError(
            f"{', '.join(settings)} and {Give('method')} are both given: put it into {type(method).__name__}(...)."
        )
    given = [name for name, value in more.items() if value is not None]
    if isinstance(method, ReturnSearch) and given:
        own = [name for name in given if name in ("delay", "dimension")]
        cure = f"put {own[0]} into ReturnSearch(...)." if own else "it compares whole stretches at every phase."
        raise DataError(f"{', '.join(given)} is not used by ReturnSearch: {cure}")


def _with_note(orbits: OrbitSet, note: str) -> OrbitSet:
    return replace(orbits, message=f"{orbits.message} {note.strip()}") if note else orbits


def _drift_note(record: Record, names: tuple[str, ...]) -> str:
    """Report a drift of the excitation, if any.

    Where no orbit was found, the excitation may drift from the given period.
    """
    if samples_per_period(record) < 4:
        return ""
    better = better_period(record, names)
    if better is None:
        return ""
    return (
        f" The strongest line near the excitation has the period {better[0]:.8g} s: with {record.period:.8g} s the "
        f"phase of the section drifts by {better[1]:.3g} periods over the record. Correct the period."
    )
