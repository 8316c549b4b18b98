"""Progressive horizons: a short stretch first, whose parameters start a longer one, until the record is covered.

Over a short stretch even wrong parameters stay in step with the data, so the misfit has one valley; what comes out of
it lies within reach of a stretch twice as long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kapitza.data import Record
from kapitza.errors import KapitzaError, Status
from kapitza.estimate.request import Part, Request
from kapitza.model import Model

if TYPE_CHECKING:
    from kapitza.estimate.series.fit import ShootingFit

READINGS_PER_UNKNOWN = 5
"""Of the first horizon."""

LONGEST_HORIZON = 5000
"""Samples beyond which the whole record, or its window, is within reach."""


def progressive_start(method: ShootingFit, request: Request, part: Part) -> tuple[Model, str]:
    """The model with parameters from ever longer stretches of the longest segment of a record, and what was done.

    Raises KapitzaError when the first horizons give nothing.
    """
    model, names, record = request.model, request.names, part.source
    assert isinstance(record, Record)
    longest = max(record.segments(), key=lambda s: s.stop - s.start)
    available = min(longest.stop - longest.start, LONGEST_HORIZON)
    unknowns = len(model.states) + len(names)
    first = max(20, -(-READINGS_PER_UNKNOWN * unknowns // len(record.channels)))
    lengths = [first * 2**i for i in range(32) if first * 2**i < available]
    # A known initial state is that of the first sample of the record; one of many records is not told apart here.
    known = method.initial if longest.start == 0 and isinstance(method.initial, Mapping) else {}
    step = replace(method, throw=False, hold_back=0.0, initial=known)
    done: list[int] = []
    for length in lengths:
        stretch = replace(part, source=record.samples(slice(longest.start, longest.start + length)))
        try:
            found = step.fit(replace(request, model=model, parts=(stretch,)))
        except KapitzaError:
            continue
        values = {name: found.values[name] for name in names}
        if found.status is Status.CONVERGED and np.isfinite(list(values.values())).all():
            model = model.with_values(**values)
            done.append(length)
    if not done:
        raise KapitzaError(
            f"no horizon of {', '.join(map(str, lengths)) or 'this record, too short for one,'} samples could be fitted"
        )
    values = ", ".join(f"{name} = {model.values[name]:.4g}" for name in names)
    return model, f"horizons of {', '.join(map(str, done))} samples: {values}"
