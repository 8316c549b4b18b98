"""Collect warnings on a study before any fit.

What looks wrong without being refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapitza.base.cures import marked
from kapitza.model import dimension_problems
from kapitza.signal import bad_sample_warnings
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
            for text in bad_sample_warnings(recording.record):
                said.setdefault(f"{recording.name}: {marked(text)}")
            for text in _of(candidate, recording):
                said.setdefault(f"{recording.name}: {marked(text)}")
    return tuple(said)


def _of(candidate: Candidate, recording: Recording) -> Iterator[str]:
    model = candidate.model.with_values(**recording.values)
    record = prepared(recording.record, candidate)
    drives = {signal.name for signal in recording.signals}
    known = [c for c in record.channels if c in model.states and c not in drives]
    if not known:
        return
    record = record.select(known)
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
