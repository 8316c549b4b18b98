"""Chain of estimators that ends in a shooting fit.

It starts cheap and ends efficient; no starting values are needed where the equations allow it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from kapitza.base.cures import By, Fit, Set
from kapitza.base.monitor import stage
from kapitza.base.part_fields import Former
from kapitza.data import Noise, Part, Record
from kapitza.errors import KapitzaError, Status
from kapitza.estimate.accelerometer import measured_accelerations, values_from_accelerations
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.harmonic_fit import HarmonicFit
from kapitza.estimate.invariant_fit import InvariantFit
from kapitza.estimate.method import Accepts, Estimator
from kapitza.estimate.observation import Output, linear_rows, observe
from kapitza.estimate.redundancy import refuse_redundant
from kapitza.estimate.request import Request, make_request
from kapitza.estimate.shooting_fit import ShootingFit
from kapitza.model import Model
from kapitza.signal import without_possible_steps

STARTS = {
    "accelerations": "integrated accelerations",
    "harmonic": "HarmonicFit",
    "invariant": "InvariantFit",
    "given": "the given values",
    "horizons": "progressive horizons",
}
"""Sources of starting values, and their names in `chain` of the estimate."""

READINGS_PER_UNKNOWN = 5
"""Samples per unknown of the first horizon."""

LONGEST_HORIZON = 5000
"""Longest horizon in samples; from there the fit of the whole record, or of its window, converges."""


@dataclass(frozen=True)
class Automatic(Estimator):
    """Find starting values, then fit by `ShootingFit`.

    These are the settings behind ``method="auto"``.

    Parameters
    ----------
    shooting : ShootingFit
        Settings of the last step.
    start_from : tuple of str
        Sources of starting values, tried in this order: "accelerations" (a regression, where accelerometers
        measure every coordinate), "harmonic" and "invariant" (`HarmonicFit`, `InvariantFit`; these need no starting
        values), "given" (the values of the model), "horizons" (a fit from the values of the model on a
        short stretch, then from its result on one twice as long, and so on). The first source from which the motion
        follows the data is taken; `chain` of the estimate lists the steps.

    Examples
    --------
    >>> import numpy as np, kapitza as kz
    >>> truth = kz.library.lorenz()
    >>> record = kz.measure(kz.simulate(truth, x0=[1, 1, 20], t=np.arange(1000) * 0.01), noise=0.1, seed=1)
    >>> unknown = truth.with_values(rho=float("nan"))
    >>> fit = kz.identify(unknown, record, free=["rho"], method=kz.Automatic(start_from=("harmonic", "horizons")))
    >>> fit.method
    'auto (HarmonicFit → ShootingFit)'
    """

    accepts: ClassVar[Accepts] = ShootingFit.accepts

    shooting: ShootingFit = field(default_factory=ShootingFit)
    start_from: tuple[str, ...] = tuple(STARTS)

    starts = Former[tuple[str, ...]]("start_from")

    @property
    def noise(self) -> Noise:
        return self.shooting.noise

    @property
    def outputs(self) -> Mapping[str, Output]:
        return self.shooting.outputs

    @property
    def last(self) -> ShootingFit:
        return self.shooting

    def with_outputs(self, outputs: Mapping[str, Output]) -> Automatic:
        return replace(self, shooting=replace(self.shooting, outputs=outputs))

    def __post_init__(self) -> None:
        if not isinstance(self.shooting, ShootingFit):
            raise KapitzaError(f"{Fit('auto', shooting=self.shooting)}: pass settings, such as {Fit('shooting')}.")
        if isinstance(self.start_from, str) or not self.start_from:
            raise KapitzaError(
                f"{Fit('auto', start_from=self.start_from)}: pass some of {', '.join(STARTS)} in a tuple."
            )
        for start in self.start_from:
            if start not in STARTS:
                raise KapitzaError(f'{Fit("auto", start_from=...)} names "{start}"; choose from {", ".join(STARTS)}.')

    def fit(self, request: Request) -> Estimate:
        """Fit by shooting from the first successful start.

        A start is successful if the motion follows the data. If none is, the fit with the largest likelihood is
        returned.
        """
        if self.shooting.throw and not self.shooting.initial:
            records = [record for record, _ in request.records]
            # Refused once here: every step of the chain would otherwise fail for the same reason.
            refuse_redundant(request, observe(request.model, records, self.outputs, request.names).expressions)
        story: list[str] = []
        failure: KapitzaError | None = None
        unfinished: list[tuple[str, Estimate]] = []
        for label, start in self._starts(request, story):
            try:
                with stage(f"ShootingFit from {label}"):
                    found = self.shooting.fit(request.at(start))
            except KapitzaError as error:
                story.append(f"{By('shooting')} from {label}: {_first_sentence(error)}")
                failure = error
                continue
            story.append(f"{By('shooting')} from {label}: {found.status.value}")
            unfinished.append((label, found))
            # An acceleration jumps with friction, and the cost has many minima: other starts are tried then too.
            follows = label != STARTS["accelerations"] or found.misfit is None or found.misfit.to_the_noise
            if found.status.ok and follows:
                break
        if unfinished:
            # Without a start that converged, the most likely of the unfinished fits is returned with its status.
            label, found = max(unfinished, key=lambda one: (one[1].status.ok, _log_likelihood(one[1])))
            return self._with_chain(found, label, request.model, story)
        raise failure or KapitzaError(
            "No start could be found: " + "; ".join(story) + f". Give starting values by {Set('values')}."
        )

    def _with_chain(self, found: Estimate, label: str, model: Model, story: list[str]) -> Estimate:
        """Return the estimate with its chain of steps.

        `start` holds the values that the model had before the chain.
        """
        return found.with_(
            method=f"auto ({label} → ShootingFit)",
            settings=self,
            start={name: model.values[name] for name in found.names},
            chain=tuple(story),
        )

    def _starts(self, request: Request, story: list[str]) -> Iterator[tuple[str, Model]]:
        """Yield models with starting values, one per source.

        Each is made only when the loop requests it; a source that fails is noted in `story`.
        """
        # Starting values come from one record, the longest, because HarmonicFit and InvariantFit are only a start.
        longest = int(np.argmax([record.size for record, _ in request.records]))
        part = request.parts[longest]
        for start in self.start_from:
            if start == "accelerations":
                record, _ = request.records[longest]
                if not measured_accelerations(request.model, record, self.outputs):
                    continue
            try:
                with stage(f"start by {STARTS[start]}"):
                    found, said = self._start(start, request, part)
            except KapitzaError as error:
                story.append(f"{STARTS[start]}: {_first_sentence(error)}")
                continue
            if said:
                story.append(f"{STARTS[start]}: {said}")
            yield STARTS[start], found

    def _start(self, start: str, request: Request, part: Part) -> tuple[Model, str]:
        """Return the model with starting values of one source.

        The text lists the values found.
        """
        model, names, record = request.model, request.names, part.source
        assert isinstance(record, Record)
        if start != "given" and not names:
            raise KapitzaError("no parameter is free")
        if start in ("given", "horizons"):
            unknown = [name for name in names if not np.isfinite(model.values[name])]
            if unknown:
                raise KapitzaError(f"{', '.join(unknown)} has no starting value")
            return progressive_start(self.shooting, request, part) if start == "horizons" else (model, "")
        # InvariantFit needs a declared conserved quantity.
        if start == "invariant" and not model.invariants:
            raise KapitzaError(f"{model.name} has no invariant")
        if start == "accelerations":
            accelerometers = measured_accelerations(model, record, self.outputs)
            values = values_from_accelerations(model.with_values(**part.values), record, accelerometers, names)
            if not values:
                raise KapitzaError("the equations are not linear in the free parameters")
            return model.with_values(**values), ", ".join(f"{n} = {v:.4g}" for n, v in values.items())
        method = HarmonicFit() if start == "harmonic" else InvariantFit()
        seen = in_coordinates(model, record.split_at_gaps(), self.shooting.outputs)
        if not model.impacts:
            # One step of a sensor moves weak-form estimates to any place; the shooting finds it by its residuals.
            seen = without_possible_steps(seen, model.states)
        found = method.fit(make_request(model.with_values(**part.values), [Part(seen)], names, method))
        values = {name: found.values[name] for name in names}
        if not np.isfinite(list(values.values())).all():
            raise KapitzaError("no finite values")
        return model.with_values(**values), ", ".join(f"{n} = {v:.4g}" for n, v in values.items())


def progressive_start(method: ShootingFit, request: Request, part: Part) -> tuple[Model, str]:
    """Return the model fitted to stretches of increasing length.

    The stretches start at the beginning of the longest segment of the record. Over a short stretch even wrong
    parameters stay in step with the data, so the cost has one minimum; the fit to it is a good start on a stretch twice
    as long. The text lists the horizons and the values. Raises KapitzaError when no horizon could be fitted.
    """
    model, names, record = request.model, request.names, part.source
    assert isinstance(record, Record)
    longest = max(record.segments(), key=lambda s: s.stop - s.start)
    # The fit of the whole record follows anyway, so the last horizon is shorter than the record.
    available = min(longest.stop - longest.start, LONGEST_HORIZON)
    unknowns = len(model.states) + len(names)
    first = max(20, -(-READINGS_PER_UNKNOWN * unknowns // len(record.channels)))
    lengths = [first * 2**i for i in range(32) if first * 2**i < available]
    # A known initial state belongs to the first sample of a record. A list, one per record, is ignored here because
    # this function does not know which record the part is.
    known = method.initial if longest.start == 0 and isinstance(method.initial, Mapping) else {}
    step = replace(method, throw=False, hold_back=0.0, initial=known)
    done: list[int] = []
    for length in lengths:
        stretch = replace(part, source=record.samples(slice(longest.start, longest.start + length)))
        try:
            with stage(f"{length} samples"):
                found = step.fit(replace(request, model=model, parts=(stretch,)))
        # A horizon that fails is skipped: the next one starts from the last values that worked.
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


def in_coordinates(model: Model, record: Record, outputs: Mapping[str, Any]) -> Record:
    """Return the record in states that its channels combine.

    This undoes encoders of relative angles, for example, as far as the channels determine the states. Channels that are
    states already, and records whose outputs are not linear, stay as they are.
    """
    if not outputs or set(record.channels) <= set(model.states):
        return record
    observation = observe(model, [record], outputs, ())
    linear, gains = linear_rows(model, observation)
    # The gains depend on parameters, which have no value yet where they are NaN.
    if not linear.all() or not np.isfinite([model.values[n] for n in model.names]).all():
        return record
    inverse = np.linalg.pinv(gains)
    # A state is determined by the channels where its diagonal entry of the resolution matrix is 1.
    seen = np.flatnonzero(np.isclose((inverse @ gains).diagonal(), 1.0))
    # Outputs may depend on time, which counts from the start of the excitation in the model.
    times = record.time - record.excitation_start
    at_rest = observation.value(np.zeros((record.size, len(model.states))), times, model.vector)
    values = (record.unwrapped().values(observation.channels) - at_rest) @ inverse.T
    return Record.from_arrays(
        record.time,
        {model.states[i]: values[:, i] for i in seen},
        angles=[model.states[i] for i in seen if model.angles[i]],
        segment=record.content.segment,
        period=record.period,
        phase=record.content.attrs.get("phase"),
    )


def _log_likelihood(estimate: Estimate) -> float:
    return -np.inf if estimate.likelihood is None else estimate.likelihood.log_likelihood


def _first_sentence(error: KapitzaError) -> str:
    return str(error).split(". ")[0]
