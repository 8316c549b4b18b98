"""A chain that starts cheap and ends efficient: no starting values needed where the equations allow it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kapitza.data import Record
from kapitza.errors import KapitzaError
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.invariant import InvariantFit
from kapitza.estimate.series import ShootingFit
from kapitza.estimate.series.checks import free_names
from kapitza.estimate.series.horizons import progressive_start
from kapitza.estimate.series.observation import observe
from kapitza.estimate.series.pieces import parts_of
from kapitza.estimate.weak import HarmonicFit
from kapitza.model import Model

STARTS = {
    "harmonic": "HarmonicFit",
    "invariant": "InvariantFit",
    "given": "the given values",
    "horizons": "progressive horizons",
}
"""Where starting values come from, and how the story calls it."""


@dataclass(frozen=True)
class Automatic:
    """Finds starting values, then ends with `ShootingFit`: what `method="auto"` does, with settings.

    shooting: the settings of the last step. starts: what is tried, in this order: "harmonic" and "invariant"
    (`HarmonicFit`, `InvariantFit`; they need no starting values), "given" (the values of the model), "horizons" (the
    values of the model on a short stretch, what comes out of it on one twice as long, and so on). The first from which
    the motion follows the data is kept. `details["chain"]` of the estimate says what was done.
    """

    shooting: ShootingFit = field(default_factory=ShootingFit)
    starts: tuple[str, ...] = tuple(STARTS)

    def fit(self, model: Model, data: Any, free: Sequence[str] | None) -> Estimate:
        if not isinstance(self.shooting, ShootingFit):
            raise KapitzaError(f"Automatic(shooting={self.shooting!r}): pass settings, such as ShootingFit().")
        if isinstance(self.starts, str) or not self.starts:
            raise KapitzaError(f"Automatic(starts={self.starts!r}): pass some of {', '.join(STARTS)} in a tuple.")
        for start in self.starts:
            if start not in STARTS:
                raise KapitzaError(f'Automatic(starts=...) names "{start}"; choose from {", ".join(STARTS)}.')
        names = free_names(model, free, started=False)
        story: list[str] = []
        failure: KapitzaError | None = None
        unfinished: list[tuple[str, Estimate]] = []
        for label, start in self._starts(model, data, names, story):
            try:
                found = self.shooting.fit(start, data, names)
            except KapitzaError as error:
                story.append(f"ShootingFit from {label}: {_first_sentence(error)}")
                failure = error
                continue
            story.append(f"ShootingFit from {label}: {found.status.value}")
            if found.status.ok:
                return self._told(found, label, model, story)
            unfinished.append((label, found))
        if unfinished:
            label, found = max(unfinished, key=lambda one: one[1].details["log_likelihood"])
            return self._told(found, label, model, story)
        raise failure or KapitzaError(
            "No start could be found: " + "; ".join(story) + ". Give starting values by model.with_values(...)."
        )

    def _told(self, found: Estimate, label: str, model: Model, story: list[str]) -> Estimate:
        """The estimate with what was done, and the values that the model had."""
        return replace(
            found,
            method=f"auto ({label} → ShootingFit)",
            start={name: model.values[name] for name in found.names},
            details={**found.details, "chain": story},
        )

    def _starts(self, model: Model, data: Any, names: tuple[str, ...], story: list[str]) -> Iterator[tuple[str, Model]]:
        """Models with starting values, made only when asked for; what could not be done goes into the story."""
        part = max(parts_of(data), key=lambda part: part[0].size)
        for start in self.starts:
            try:
                found, said = self._start(start, model, part, names)
            except KapitzaError as error:
                story.append(f"{STARTS[start]}: {_first_sentence(error)}")
                continue
            if said:
                story.append(f"{STARTS[start]}: {said}")
            yield STARTS[start], found

    def _start(
        self, start: str, model: Model, part: tuple[Record, Mapping[str, float]], names: tuple[str, ...]
    ) -> tuple[Model, str]:
        """The model with starting values of one kind, and what was found in words."""
        record, own = part
        if start in ("given", "horizons"):
            unknown = [name for name in names if not np.isfinite(model.values[name])]
            if unknown:
                raise KapitzaError(f"{', '.join(unknown)} has no starting value")
            return progressive_start(self.shooting, model, record, own, names) if start == "horizons" else (model, "")
        if start == "invariant" and not model.invariants:
            raise KapitzaError(f"{model.name} has no invariant")
        method = HarmonicFit() if start == "harmonic" else InvariantFit()
        seen = in_coordinates(model, record.split_at_gaps(), self.shooting.outputs)
        found = method.fit(model.with_values(**own), seen, names)
        values = {name: found.values[name] for name in names}
        if not np.isfinite(list(values.values())).all():
            raise KapitzaError("no finite values")
        return model.with_values(**values), ", ".join(f"{n} = {v:.4g}" for n, v in values.items())


def in_coordinates(model: Model, record: Record, outputs: Mapping[str, Any]) -> Record:
    """The record with the states that its channels combine (encoders of relative angles, say), where they are enough.

    Channels that are states already, and records whose outputs are not linear, stay as they are.
    """
    if not outputs or set(record.channels) <= set(model.states):
        return record
    observation = observe(model, [record], outputs, ())
    if observation.matrix is None:
        return record
    inverse = np.linalg.pinv(observation.matrix)
    seen = np.flatnonzero(np.isclose((inverse @ observation.matrix).diagonal(), 1.0))
    values = record.unwrapped().values(observation.channels) @ inverse.T
    return Record.from_arrays(
        record.time,
        {model.states[i]: values[:, i] for i in seen},
        angles=[model.states[i] for i in seen if model.angles[i]],
        segment=record.dataset["segment"].values,
        period=record.period,
        phase=record.dataset.attrs.get("phase"),
    )


def _first_sentence(error: KapitzaError) -> str:
    return str(error).split(". ")[0]
