"""Running a study: every candidate by every method, step by step, each kept when it is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kapitza.data import Record
from kapitza.errors import KapitzaError
from kapitza.estimate import (
    Automatic,
    Estimate,
    HarmonicFit,
    InvariantFit,
    OrbitFit,
    ShootingFit,
    identify,
    profile_curve,
    suggest,
)
from kapitza.executor import Executor, Shared, in_order, require_executor
from kapitza.model import CLOCK, Model
from kapitza.monitor import Monitor, Task, watch
from kapitza.orbit import OrbitSet
from kapitza.orbits import find_orbits
from kapitza.speech import spoken
from kapitza.study.candidates import Candidate, driven
from kapitza.study.folder import begin, checksums, publish, step_path, versions
from kapitza.study.forces import forces_of
from kapitza.study.motions import in_units_of, motion_along
from kapitza.study.outcome import (
    AskedTerm,
    Motion,
    OrbitSketch,
    Outcome,
    ProfileSketch,
    SectionSketch,
    read_outcome,
    write_outcome,
)
from kapitza.study.phase import best_shift
from kapitza.study.recordings import Recording
from kapitza.study.result import StudyResult, write_result
from kapitza.study.study import Study

STROBED = 0.9
"""A sampling interval longer than this share of the excitation period: one sample per period."""

ENOUGH_RETURNS = 2000
"""Strobed samples from which on the orbits in a record are worth looking for."""

ASKED = 8
"""Terms that a result keeps of those the residuals were asked about."""

SHOWN_RETURNS = 4000
"""Points of a section that a picture shows."""

Fitted = tuple[Estimate, tuple[str, ...], SectionSketch | None]
Data = Record | list[tuple[Record, dict[str, float]]]


@dataclass(frozen=True)
class Step:
    """One fit: a candidate by a method; optional ones are tried where they apply and left out silently otherwise."""

    candidate: Candidate
    method: str
    optional: bool = False


def run_study(study: Study, monitor: Monitor | None, resume: bool, executor: Executor | None = None) -> StudyResult:
    """See `Study.run`."""
    executor = None if executor is None else require_executor(executor)
    with watch(monitor, f"study {study.title}") as task:
        return _run(study, resume, task, executor)
    # The steps that are done lie in the working folder: a run with resume=True goes on from them.
    raise KeyboardInterrupt


def _run(study: Study, resume: bool, task: Task, executor: Executor | None) -> StudyResult:
    steps = planned_steps(study)
    working = begin(study, resume)
    outcomes: list[Outcome] = []
    waiting = [s for s in steps if not step_path(working, s.candidate.name, s.method).with_suffix(".json").is_file()]
    shared = Shared(study)
    made = in_order(executor, run_shared_step, [(shared, step) for step in waiting])
    for number, step in enumerate(steps):
        path = step_path(working, step.candidate.name, step.method)
        if path.with_suffix(".json").is_file():
            outcome = read_outcome(path)
        else:
            task.reach(number, f"{step.candidate.name} by {step.method}", len(steps))
            outcome = next(made)
            # A fit that was stopped is no outcome.
            task.check()
            write_outcome(outcome, path)
        if not (step.optional and outcome.failure):
            outcomes.append(outcome)
    task.reach(len(steps), "results", len(steps))
    result = StudyResult(
        title=study.title,
        folder=study.folder,
        outcomes=tuple(outcomes),
        seed=study.seed,
        level=study.level,
        versions=versions(),
        checksums=checksums(study),
        data=tuple(f"{recording.name}: {recording.record}" for recording in study.recordings),
        models={c.name: equations_text(c.model) for c in study.candidates},
        study=study.text,
        warnings=study.warnings(),
    )
    write_result(result, working, study.report)
    publish(working, study.folder)
    return result


def equations_text(model: Model) -> str:
    """The equations in plain text, one line each."""
    if model.is_map:
        return "\n".join(f"{c.name} -> {e}" for c, e in zip(model.coordinates, model.equations, strict=True))
    return "\n".join(f"{equation} = 0" for equation in model.equations)


def planned_steps(study: Study) -> list[Step]:
    """Every candidate by every method named; for "auto" the chain, and beside it what else applies."""
    steps = []
    for candidate in study.candidates:
        if study.methods != ("auto",):
            steps += [Step(candidate, method) for method in study.methods]
            continue
        if _once_per_period(study, candidate):
            steps += [Step(candidate, "orbits"), Step(candidate, "auto", optional=True)]
            continue
        steps.append(Step(candidate, "auto"))
        if not candidate.model.is_map:
            steps.append(Step(candidate, "harmonic", optional=True))
        if candidate.model.invariants:
            steps.append(Step(candidate, "invariant", optional=True))
    return steps


def _once_per_period(study: Study, candidate: Candidate) -> bool:
    """Whether the recordings are long and sampled once per excitation period, with the whole state seen."""
    for recording in study.fitted:
        record = prepared(recording.record, candidate)
        if (
            record.period is None
            or record.size < ENOUGH_RETURNS
            or not set(candidate.model.states) <= set(record.channels)
        ):
            return False
        if float(np.median(np.diff(record.time))) < STROBED * record.period:
            return False
    return not candidate.model.is_map


def prepared(record: Record, candidate: Candidate) -> Record:
    """The record in the model's units, with its excitation period where it has none and that is not to be found."""
    model = candidate.model
    record = in_units_of(model, record)
    if record.period is not None or model.excitation is None or model.excitation.signals:
        return record
    if {s.name for s in model.excitation.period.free_symbols} & set(candidate.free):
        return record
    return record.with_attributes(period=model.period)


def _started(study: Study, candidate: Candidate) -> Candidate:
    """The candidate with its clock, where that is free, begun at the start of the excitation that fits best."""
    if CLOCK not in candidate.free or candidate.model.values[CLOCK]:
        return candidate
    recording = study.fitted[0]
    found = best_shift(
        candidate.model.with_values(**recording.values), prepared(recording.record, candidate), candidate.free
    )
    return candidate if found is None else replace(candidate, model=candidate.model.with_values(clock=found[0]))


def run_shared_step(study: Shared[Study], step: Step) -> Outcome:
    """One fit, by whoever works: the study travels once to each."""
    return run_step(study.value, step)


def run_step(study: Study, step: Step) -> Outcome:
    """One fit, with its motion over the data and over what was held back."""
    candidate = _started(study, step.candidate)
    parts = [_fitted_part(study, recording, candidate) for recording in study.fitted]
    data: Data = parts[0][0] if len(parts) == 1 and not parts[0][1] else parts
    failure, estimate, notes, section = "", None, (), None
    try:
        estimate, notes, section = fitted(study, candidate, step.method, data)
    except KapitzaError as error:
        failure = spoken(str(error))
        unfinished = getattr(error, "result", None)
        estimate = unfinished if isinstance(unfinished, Estimate) else None
    if estimate is None:
        return Outcome(candidate.name, step.method, failure=failure, level=study.level)
    outcome = replace(outcome_of(estimate, candidate.name, step.method, study.level), failure=failure, notes=notes)
    outcome = replace(outcome, section=section)
    if failure:
        return outcome
    outcome = replace(
        with_missing_terms(outcome, estimate), path={n: tuple(v.tolist()) for n, v in estimate.path.items()}
    )
    if study.profiles:
        outcome = replace(outcome, profiles=_profiles(estimate, study.level))
    return _with_motions(study, candidate, outcome)


def _profiles(estimate: Estimate, level: float) -> tuple[ProfileSketch, ...]:
    """Profile likelihoods of the parameters that have one."""
    made = []
    for name in estimate.names:
        try:
            curve = profile_curve(estimate, name, points=9, level=level)
        except KapitzaError:
            continue
        made.append(ProfileSketch(name, tuple(curve.values.tolist()), tuple(curve.rise.tolist()), curve.threshold))
    return tuple(made)


def with_missing_terms(outcome: Outcome, estimate: Estimate) -> Outcome:
    """What the residuals still ask for; nothing where the method has no motion to ask, or it cannot be followed."""
    if estimate.motion is None or not estimate.names:
        return outcome
    try:
        found = suggest(estimate)
    except (KapitzaError, np.linalg.LinAlgError):
        return outcome
    shown = found.alternatives or found.terms
    asked = [
        AskedTerm(t.name, t.notation.format(c="c"), t.gain, t.log10_p, t.coefficient, t.error, t.detectable)
        for t in dict.fromkeys((*shown, *found.terms))
    ]
    return replace(outcome, missing=spoken(str(found)), asked=tuple(asked[:ASKED]))


def _fitted_part(study: Study, recording: Recording, candidate: Candidate) -> tuple[Record, dict[str, float]]:
    """The part of a recording that is fitted, and the values it brings."""
    record = prepared(recording.record, candidate)
    drives = {signal.name for signal in recording.signals}
    known = {*candidate.model.states, *candidate.model.outputs, *recording.measures, *drives}
    record = record.select([channel for channel in record.channels if channel in known])
    if study.hold_back:
        record = record.samples(slice(0, _cut(record, study.hold_back)))
    return record, dict(recording.values)


def _cut(record: Record, hold_back: float) -> int:
    return record.size - round(hold_back * record.size)


def fitted(study: Study, candidate: Candidate, method: str, data: Data) -> Fitted:
    """The estimate of one method, what was done in words, and the section where orbits were sought."""
    model, free, settings = candidate.model, list(candidate.free), study.settings
    measures = study.measures
    if method == "auto":
        chain = Automatic(ShootingFit(outputs=measures, **settings["shooting"]))
        estimate = identify(model, data, free, chain)
        return estimate, tuple(estimate.chain), None
    if method == "shooting":
        return identify(model, data, free, ShootingFit(outputs=measures, **settings["shooting"])), (), None
    if method == "harmonic":
        return identify(model, _list(data), free, HarmonicFit(**settings["harmonic"])), (), None
    if method == "invariant":
        return identify(model, _list(data), free, InvariantFit(**settings["invariant"])), (), None
    pairs = data if isinstance(data, list) else [(data, {})]
    found: list[Any] = [(find_orbits(record, max_period=study.max_period), own) for record, own in pairs]
    for (record, _), (orbits, _) in zip(pairs, found, strict=True):
        if not len(orbits):
            source = record.dataset.attrs.get("source", "a recording")
            raise KapitzaError(f"No periodic orbits were found in {source}: {orbits.message}")
    said = tuple(f"{len(orbits)} periodic orbits of up to {study.max_period} periods" for orbits, _ in found)
    orbits = found[0][0] if len(found) == 1 and not found[0][1] else found
    estimate = identify(model, orbits, free, OrbitFit(outputs=measures, **settings["orbits"]))
    return estimate, said, section_sketch(pairs[0][0], found[0][0])


def section_sketch(record: Record, orbits: OrbitSet) -> SectionSketch | None:
    """The section through two channels, with its orbits."""
    states = tuple(orbits[0].states[:2])
    if len(states) < 2 or not set(states) <= set(record.channels) or record.period is None:
        return None
    points = record.strobed(0.0).values(states)
    points = points[:: max(1, len(points) // SHOWN_RETURNS)]
    sketches = [
        OrbitSketch(
            len(orbit.points),
            orbit.code or "",
            "" if orbit.multipliers is None else ", ".join(f"{m:.3g}" for m in orbit.multipliers),
            tuple(tuple(float(v) for v in point[:2]) for point in orbit.points),
        )
        for orbit in orbits
    ]
    return SectionSketch(states, tuple(tuple(float(v) for v in p) for p in points), tuple(sketches))


def _list(data: Data) -> Any:
    """Several recordings without values of their own as a plain list, for methods that take no pairs."""
    if isinstance(data, list) and not any(own for _, own in data):
        return [record for record, _ in data]
    return data


def outcome_of(estimate: Estimate, candidate: str, method: str, level: float) -> Outcome:
    """The numbers of an estimate that a results folder keeps."""
    interval = estimate.interval(level)
    low, high = interval["low"].to_dict(), interval["high"].to_dict()
    known = estimate.likelihood
    return Outcome(
        candidate=candidate,
        method=method,
        title=estimate.method,
        status=estimate.status.value,
        names=tuple(estimate.names),
        values={name: float(value) for name, value in estimate.values.items()},
        deviations={name: float(value) for name, value in (estimate.deviations | dict(estimate.derived)).items()},
        low={name: float(low[name]) for name in estimate.names},
        high={name: float(high[name]) for name in estimate.names},
        level=level,
        units={name: unit for name, unit in estimate.units.items() if unit},
        fixed={name: float(value) for name, value in estimate.fixed.items()},
        start={name: float(value) for name, value in estimate.start.items()},
        correlation=tuple(tuple(float(v) for v in row) for row in estimate.correlation),
        warnings=tuple(spoken(text) for text in estimate.warnings),
        identifiable=tuple(estimate.identifiable),
        noise={name: float(value) for name, value in estimate.noise.items()},
        log_likelihood=float("nan") if known is None else known.log_likelihood,
        fitted=0 if known is None else known.fitted,
        readings=0 if known is None else known.readings,
    )


def _with_motions(study: Study, candidate: Candidate, outcome: Outcome) -> Outcome:
    """Motions over the data fitted and over what was held back."""
    values = {name: outcome.values[name] for name in outcome.names if name in candidate.model.names}
    if candidate.model.is_map or not np.isfinite(list(values.values())).all():
        return outcome
    model = candidate.model.with_values(**values)
    first = study.fitted[0]
    motion, said = _try_motion(model, _fitted_part(study, first, candidate)[0], first, study)
    outcome = replace(outcome, motion=motion, notes=(*outcome.notes, *said))
    if motion is not None:
        found = forces_of(model, outcome, motion, study.seed)
        outcome = replace(outcome, forces=found.curves, surfaces=found.surfaces)
    if study.checks:
        recording = study.checks[0]
        record = prepared(recording.record, candidate)
        shown = driven(model, recording.signals) if recording.signals else model
    elif study.hold_back:
        recording, shown = first, model
        record = prepared(first.record, candidate)
        record = record.samples(slice(_cut(record, study.hold_back), None))
    else:
        return outcome
    check, problem = _try_motion(shown, record, recording, study)
    return replace(outcome, check=check, check_failure="; ".join(problem))


def _try_motion(
    model: Model, record: Record, recording: Recording, study: Study
) -> tuple[Motion | None, Sequence[str]]:
    drives = {signal.name for signal in recording.signals}
    channels = [c for c in record.channels if c not in drives]
    try:
        own = model.with_values(**recording.values)
        known = {*model.states, *model.outputs, *recording.measures}
        return motion_along(own, record.select([c for c in channels if c in known]), recording.measures), ()
    except KapitzaError as error:
        return None, (f"No motion of the fitted model follows the data: {spoken(str(error))}",)
