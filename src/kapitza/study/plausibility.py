"""Collect warnings on a study before any fit.

They name what looks wrong without being refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapitza.base.cures import marked
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
        for text in dimension_problems(candidate.model):
            said[f"{candidate.name}: {text}"] = None
        for recording in study.fitted:
            for text in (*_gaps(recording), *bad_sample_warnings(recording.record)):
                said.setdefault(f"{recording.name}: {marked(text)}")
            # A model with impacts expects jumps.
            steps = () if candidate.model.impacts else possible_step_notes(recording.record)
            for text in (*steps, *_of(candidate, recording)):
                said.setdefault(f"{recording.name}: {marked(text)}")
    return tuple(said)


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
