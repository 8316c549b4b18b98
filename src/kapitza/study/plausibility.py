"""Collect warnings on a study before any fit.

They name what looks wrong without being refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kapitza.base.cures import marked
from kapitza.base.units import dimension
from kapitza.data import Record
from kapitza.model import dimension_problems
from kapitza.signal import bad_sample_warnings, possible_step_notes
from kapitza.study.candidates import Candidate
from kapitza.study.drive import drive_warning
from kapitza.study.lookalikes import lookalike_warnings
from kapitza.study.phase import phase_warning
from kapitza.study.recordings import Recording
from kapitza.study.running import prepared
from kapitza.study.study import Study


def study_warnings(study: Study) -> tuple[str, ...]:
    """Return `Study.warnings`, each sentence once.

    Candidates often give the same one.
    """
    said: dict[str, None] = {}
    for candidate in study.candidates:
        for text in misspelt_coordinates(candidate.free, _coordinates(candidate)):
            said[f"{candidate.name}: {text}"] = None
        for text in dimension_problems(candidate.model):
            said[f"{candidate.name}: {text}"] = None
        for recording in study.fitted:
            doubts = (*_accelerations(candidate, recording), *_volts(candidate, recording))
            for text in (*recording.notes, *doubts, *_gaps(recording), *bad_sample_warnings(recording.record)):
                said.setdefault(f"{recording.name}: {marked(text)}")
            # A model with impacts expects jumps.
            steps = () if candidate.model.impacts else possible_step_notes(recording.record)
            for text in (*steps, *_of(candidate, recording)):
                said.setdefault(f"{recording.name}: {marked(text)}")
    return tuple(said)


def misspelt_coordinates(free: Iterable[str], names: Iterable[str]) -> Iterator[str]:
    """Yield a question for each parameter that looks like another name.

    One letter is missing or too many, or the case differs: "ph" beside phi. Names of one letter say nothing.
    """
    known = [name for name in dict.fromkeys(names) if len(name) > 1]
    for parameter in free:
        for name in known:
            shorter, longer = sorted((parameter, name), key=len)
            dropped = {longer[:i] + longer[i + 1 :] for i in range(len(longer))}
            near = len(longer) == len(shorter) + 1 and shorter in dropped and longer.isalpha()
            if len(shorter) > 1 and parameter != name and (near or parameter.lower() == name.lower()):
                yield f'{parameter} is a parameter to find: did you mean "{name}"?'


def _coordinates(candidate: Candidate) -> list[str]:
    model = candidate.model
    return [*(c.name for c in model.coordinates), *(s.name for s in model.signals)]


def _accelerations(candidate: Candidate, recording: Recording) -> Iterator[str]:
    """Yield a warning of accelerations that stand for a position or a velocity."""
    second = {c.name for c in candidate.model.coordinates if c.order == 2 and not candidate.model.is_map}
    for name in recording.record.channels:
        unit, coordinate = recording.record.units[name], name.rstrip("'")
        if coordinate not in second or name in recording.measures or dimension(unit) not in ACCELERATIONS:
            continue
        role = "position" if name == coordinate else "velocity"
        yield (
            f'"{name}" is in {unit}, the unit of an acceleration, but stands for a {role} in the equations. '
            f"If an accelerometer measures it, call the channel acc and write measures = {{acc = \"{coordinate}''\"}}."
        )


ACCELERATIONS = [dimension("m/s^2"), dimension("rad/s^2")]
VOLTS = [dimension("V"), dimension("A")]


def _volts(candidate: Candidate, recording: Recording) -> Iterator[str]:
    """Yield a warning of used channels that are raw signals of sensors."""
    record, drives = recording.record, {signal.name for signal in recording.signals}
    stated = {str(s) for e in candidate.model.equations for s in e.free_symbols}
    used = recording.needed(candidate.model) | (drives & stated)
    for name in record.channels:
        unit = record.units[name]
        if name in used and dimension(unit) in VOLTS and not candidate.model.units.get(name):
            example = "112.4 mV/N" if name in drives else "4 mm/V"
            yield (
                f'"{name}" is in {unit}: parameters are then per {"volt" if unit == "V" else "ampere"}. If it is the '
                f'signal of a sensor, state its sensitivity by its column: units = {{"COLUMN" = "{example}"}}, or '
                f'--unit "COLUMN={example}" of `kapitza new`.'
            )


MOST_GAPS = 4
"""Gaps that are listed with their times."""


def _gaps(recording: Recording) -> Iterator[str]:
    """Yield a warning of jumps in the time column."""
    gaps = recording.record.sampling().gaps
    if not gaps:
        return
    listed = [f"{gap.missing} after {gap.time:.6g} s" for gap in gaps[:MOST_GAPS]]
    more = f", and {len(gaps) - MOST_GAPS} more gaps" if len(gaps) > MOST_GAPS else ""
    yield (
        f"samples are missing ({', '.join(listed)}{more}), or the clock jumped there. The fit follows one motion "
        'through each gap: if the times after it cannot be trusted, cut the record there by gaps = "split" in [data].'
    )


def _longest(record: Record) -> Record:
    """Return the longest stretch without a gap: a clock that jumped would shift the line of the drive."""
    if not record.sampling().gaps:
        return record
    cut = record.split_at_gaps()
    return cut.samples(max(cut.segments(), key=lambda part: part.stop - part.start))


def _of(candidate: Candidate, recording: Recording) -> Iterator[str]:
    model = candidate.model.with_values(**recording.values)
    record = prepared(recording.record, candidate)
    drives = {signal.name for signal in recording.signals}
    known = [c for c in record.channels if c in model.states and c not in drives]
    if not known:
        return
    record = _longest(record.select(known))
    found = list(lookalike_warnings(model, record))
    yield from found
    drive = drive_warning(model, record, candidate.free)
    if drive:
        yield drive
    if found or drive:
        return  # the clock cannot be tested with a wrong unit or frequency
    phase = phase_warning(model, record, candidate.free)
    if phase:
        yield phase
