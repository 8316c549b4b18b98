"""A chain that starts cheap and ends efficient: no starting values needed where the equations allow it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kapitza.data import Record
from kapitza.errors import KapitzaError
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.harmonic import HarmonicFit
from kapitza.estimate.invariant import InvariantFit
from kapitza.estimate.shooting import ShootingFit
from kapitza.estimate.shooting.checks import free_names
from kapitza.estimate.shooting.pieces import parts_of
from kapitza.model import Model


@dataclass(frozen=True)
class Automatic:
    """Starts from `HarmonicFit` or `InvariantFit` where they apply, ends with `ShootingFit`.

    Each start is tried in turn, the cheapest first, then the values of the model itself; the first from which the
    motion follows the data is kept. `details["chain"]` of the estimate says what was done.
    """

    shooting: ShootingFit = field(default_factory=ShootingFit)

    def fit(self, model: Model, data: Any, free: Sequence[str] | None) -> Estimate:
        names = free_names(model, free, started=False)
        record = max((part[0] for part in parts_of(data)), key=len)
        story: list[str] = []
        failure: KapitzaError | None = None
        for label, start in self._starts(model, record, names, story):
            try:
                found = self.shooting.fit(start, data, names)
            except KapitzaError as error:
                story.append(f"ShootingFit from {label}: {_first_sentence(error)}")
                failure = error
                continue
            story.append(f"ShootingFit from {label}: {found.status.value}")
            begun = {name: model.values[name] for name in names}
            return replace(
                found, method=f"auto ({label} → ShootingFit)", start=begun, details={**found.details, "chain": story}
            )
        raise failure or KapitzaError(
            "No start could be found: " + "; ".join(story) + ". Give starting values by model.with_values(...)."
        )

    def _starts(self, model: Model, record: Record, names: tuple[str, ...], story: list[str]) -> Any:
        """Models with starting values, made only when asked for; what could not be done goes into the story."""
        cheap: list[tuple[str, Any]] = []
        if record.size >= 20:
            cheap.append(("HarmonicFit", HarmonicFit()))
        if model.invariants and set(model.states) <= set(record.channels):
            cheap.append(("InvariantFit", InvariantFit()))
        for label, method in cheap:
            try:
                found = method.fit(model, record, names)
                values = {name: found.values[name] for name in names}
            except KapitzaError as error:
                story.append(f"{label}: {_first_sentence(error)}")
                continue
            if np.isfinite(list(values.values())).all():
                story.append(f"{label}: " + ", ".join(f"{n} = {v:.4g}" for n, v in values.items()))
                yield label, model.with_values(**values)
        if np.isfinite([model.values[name] for name in names]).all():
            yield "the given values", model


def _first_sentence(error: KapitzaError) -> str:
    return str(error).split(". ")[0]
