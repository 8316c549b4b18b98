"""Run a study.

Every candidate is fitted by every method, step by step; each step is kept when it is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from kapitza.base.cures import in_study
from kapitza.base.files import locked
from kapitza.base.monitor import Monitor, Silent, Task, under_way, watch
from kapitza.base.workers import Executor, Shared, in_order, require_executor
from kapitza.data import Part, Record
from kapitza.errors import ConvergenceError, DataError, KapitzaError
from kapitza.estimate import (
    Automatic,
    Estimate,
    HarmonicFit,
    InvariantFit,
    OrbitFit,
    ProfileCurve,
    ShootingFit,
    Suggestion,
    Validation,
    identify,
    profile_curve,
    record_in_model_units,
    suggest,
    validate,
    with_drive_noise,
)
from kapitza.model import CLOCK, Model
from kapitza.orbits.find_orbits import find_orbits
from kapitza.study.candidates import Candidate, driven
from kapitza.study.exclusions import without_excluded
from kapitza.study.fits import StudyFit, fit_files, has_fit, read_fit, write_fit
from kapitza.study.folder import FITS, begin, identity, publishing
from kapitza.study.motions import follow_record
from kapitza.study.phase import best_shift
from kapitza.study.recordings import Recording
from kapitza.study.result import StudyResult, write_result
from kapitza.study.study import Study

STROBED = 0.9
"""A sampling interval longer than this share of the excitation period: one sample per period."""

ENOUGH_RETURNS = 2000
"""Strobed samples from which on the orbits in a record are worth looking for."""


@dataclass(frozen=True)
class Step:
    """Describe one fit.

    A candidate by a method; optional ones are tried where they apply and left out without a message otherwise.
    """

    candidate: Candidate
    method: str
    optional: bool = False


def run_study(study: Study, monitor: Monitor | None, resume: bool, executor: Executor | None = None) -> StudyResult:
    """See `Study.run`."""
    executor = None if executor is None else require_executor(executor)
    # A stopped fit has no use in a study: the stop passes through every verb inside.
    with watch(monitor, f"study {study.title}", partial=False) as task, locked(study.folder):
        return _run(study, resume, task, executor)
    # The finished steps are in the working folder: a run with resume=True continues from them.
    raise KeyboardInterrupt


def _run(study: Study, resume: bool, task: Task, executor: Executor | None) -> StudyResult:
    own = identity(study)
    steps = planned_steps(study)
    working = begin(study, resume, own)
    fits = _fits(study, steps, working / FITS, task, executor)
    task.reach(len(steps), "results", len(steps))
    result = StudyResult(
        title=study.title,
        folder=study.folder,
        fits=tuple(fit for step, fit in zip(steps, fits, strict=True) if not (step.optional and fit.failure)),
        seed=study.seed,
        level=study.level,
        versions=own["versions"],
        checksums=own["files"],
        data=tuple(f"{recording.name}: {recording.record}" for recording in study.recordings),
        models={c.name: equations_text(c.model) for c in study.candidates},
        study=study.text,
        warnings=study.warnings(),
    )
    result = _planned(study, result)
    with publishing(study, working, own, [name for fit in result.fits for name in fit_files(fit)]) as draft:
        write_result(result, draft, study.report)
    return result


def _planned(study: Study, result: StudyResult) -> StudyResult:
    """Add the next experiments to the result.

    Where there are none, the reason is added.
    """
    if study.next_run is None:
        return result
    if result.best is None:
        return replace(result, plan_problem="no fit succeeded that a plan could start from.")
    try:
        return replace(result, plan=study.next_run.plan(result.best))
    except KapitzaError as error:
        return replace(result, plan_problem=in_study(error))


def _fits(study: Study, steps: Sequence[Step], folder: Path, task: Task, executor: Executor | None) -> list[StudyFit]:
    """Return the fit of every step.

    Read where a stopped run has finished it, else made and kept.
    """
    kept = [_kept(folder, step) for step in steps]
    shared = Shared(study)
    made = in_order(executor, run_shared_step, [(shared, s) for s, fit in zip(steps, kept, strict=True) if fit is None])
    found = []
    for number, (step, fit) in enumerate(zip(steps, kept, strict=True)):
        if fit is None:
            task.reach(number, f"{step.candidate.name} by {step.method}", len(steps))
            fit = next(made)
            # A fit that was stopped is not a result.
            task.check()
            write_fit(fit, folder)
        found.append(fit)
    return found


def _kept(folder: Path, step: Step) -> StudyFit | None:
    """Return a finished step of a stopped run.

    None where there is none, or its files are damaged.
    """
    names = step.candidate.name, step.method
    try:
        return read_fit(folder, *names) if has_fit(folder, *names) else None
    except DataError:
        return None


def equations_text(model: Model) -> str:
    """Return the equations in plain text, one line each."""
    if model.is_map:
        return "\n".join(f"{c.name} -> {e}" for c, e in zip(model.coordinates, model.equations, strict=True))
    return "\n".join(f"{equation} = 0" for equation in model.equations)


def planned_steps(study: Study) -> list[Step]:
    """Return every candidate by every method.

    "auto" gives the chain, and the other methods that apply.
    """
    steps = []
    for candidate in study.candidates:
        if study.methods != ("auto",):
            steps += [Step(candidate, method) for method in study.methods]
            continue
        if _once_per_period(study, candidate):
            steps += [Step(candidate, "orbits"), Step(candidate, "auto", optional=True)]
            continue
        steps.append(Step(candidate, "auto"))
        # The weak form takes samples as they are: errors of sensors would bias it.
        if not candidate.model.is_map and not any(recording.sensors for recording in study.fitted):
            steps.append(Step(candidate, "harmonic", optional=True))
        if candidate.model.invariants:
            steps.append(Step(candidate, "invariant", optional=True))
    return steps


def _once_per_period(study: Study, candidate: Candidate) -> bool:
    """Return whether recordings are strobed.

    They are long, sampled once per excitation period, with the whole state measured.
    """
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
    """Return the record in the model's units.

    It gets its excitation period where it has none and that is not to be found.
    """
    model = candidate.model
    record = record_in_model_units(model, record)
    if record.period is not None or model.excitation is None or model.excitation.signals:
        return record
    if model.excitation.timing & set(candidate.free):
        return record
    return record.with_attributes(period=model.period)


def _started(study: Study, candidate: Candidate) -> Candidate:
    """Return the candidate with its clock started.

    Where the clock is free, it begins at the start of the excitation that fits best.
    """
    if CLOCK not in candidate.free or candidate.model.values[CLOCK]:
        return candidate
    recording = study.fitted[0]
    found = best_shift(
        candidate.model.with_values(**recording.values), prepared(recording.record, candidate), candidate.free
    )
    return candidate if found is None else replace(candidate, model=candidate.model.with_values(clock=found[0]))


def run_shared_step(study: Shared[Study], step: Step) -> StudyFit:
    """Return the fit of one step, in any process.

    The study is sent once to each.
    """
    if under_way() is not None:
        return run_step(study.value, step)
    # In a worker no study is under way. Ctrl-C, which reaches workers too, must not leave half a fit there.
    with watch(Silent(), "one fit", partial=False):
        return run_step(study.value, step)
    raise KeyboardInterrupt


def run_step(study: Study, step: Step) -> StudyFit:
    """Return one fit with its tests.

    The tests are on the data fitted and on those held back.
    """
    candidate = _started(study, step.candidate)
    parts = [fitted_part(study, recording, candidate) for recording in study.fitted]
    try:
        estimate = fitted(study, candidate, step.method, parts)
    except KapitzaError as error:
        unfinished = error.result if isinstance(error, ConvergenceError) else None
        estimate = _light(unfinished) if isinstance(unfinished, Estimate) else None
        return StudyFit(candidate.name, step.method, estimate, in_study(error))
    estimate = with_drive_noise(estimate)
    followed, notes = _followed(study, estimate, parts[0])
    validation, problem = _validated(study, candidate, estimate)
    return StudyFit(
        candidate.name,
        step.method,
        _light(estimate),
        validation=validation,
        missing=_missing_terms(estimate),
        profiles=_profiles(estimate, study.level) if study.profiles else (),
        followed=followed,
        notes=(*estimate.chain, *notes, *problem),
    )


def _light(estimate: Estimate) -> Estimate:
    """Return the estimate as it is saved.

    It is sent between processes in this form too.
    """
    return estimate.with_(workings=None)


def _profiles(estimate: Estimate, level: float) -> tuple[ProfileCurve, ...]:
    """Profile likelihoods of the parameters that have one."""
    made = []
    for name in estimate.names:
        try:
            made.append(profile_curve(estimate, name, points=9, level=level))
        except KapitzaError:
            continue
    return tuple(made)


def _missing_terms(estimate: Estimate) -> Suggestion | None:
    """Return terms that the residuals suggest.

    None where the method has no motion to test, or it cannot be followed.
    """
    if estimate.motion is None or not estimate.names:
        return None
    try:
        return suggest(estimate)
    except (KapitzaError, np.linalg.LinAlgError):
        return None


def fitted_part(study: Study, recording: Recording, candidate: Candidate) -> Part:
    """Return the fitted part with its own values."""
    record = prepared(recording.record, candidate)
    drives = {signal.name for signal in recording.signals}
    known = {*recording.needed(candidate.model), *drives}
    record = record.select([channel for channel in record.channels if channel in known])
    if recording.held_back:
        record = record.samples(np.flatnonzero(~recording.held(record)))
    elif study.hold_back:
        record = record.samples(slice(0, _cut(record, study.hold_back)))
    return Part(record, dict(recording.values))


def _cut(record: Record, hold_back: float) -> int:
    return record.size - round(hold_back * record.size)


def fitted(study: Study, candidate: Candidate, method: str, data: Sequence[Part]) -> Estimate:
    """Return the estimate of one method."""
    model, free, settings = candidate.model, list(candidate.free), study.settings
    outputs = study.outputs
    if method == "auto":
        return identify(model, data, free, Automatic(ShootingFit(outputs=outputs, **settings["shooting"])))
    if method == "shooting":
        return identify(model, data, free, ShootingFit(outputs=outputs, **settings["shooting"]))
    if method == "harmonic":
        return identify(model, data, free, HarmonicFit(**settings["harmonic"]))
    if method == "invariant":
        return identify(model, data, free, InvariantFit(**settings["invariant"]))
    found, said = [], []
    for part in data:
        orbits = without_excluded(find_orbits(part.source, max_period=study.max_period), study.exclude)
        if not len(orbits):
            source = part.record.content.attrs.get("source", "a recording") if part.record else "a recording"
            raise KapitzaError(f"No periodic orbits were found in {source}: {orbits.message}")
        found.append(replace(part, source=orbits))
        said.append(f"{len(orbits)} periodic orbits of up to {study.max_period} periods")
    estimate = identify(model, found, free, OrbitFit(outputs=outputs, **settings["orbits"]))
    return estimate.with_(chain=tuple(said))


def _followed(study: Study, estimate: Estimate, part: Part) -> tuple[Estimate | None, tuple[str, ...]]:
    """Return the motion along the first recording.

    Methods that fit none need it. Where there is none, the reason is returned.
    """
    model, record = estimate.model, part.source
    assert isinstance(record, Record)
    if estimate.motion is not None or model.is_map or not np.isfinite(model.vector).all():
        return None, ()
    recording = study.fitted[0]
    try:
        return _light(follow_record(model.with_values(**part.values), record, recording.measures)), ()
    except KapitzaError as error:
        return None, (f"No motion of the fitted model follows the data: {in_study(error)}",)


def _validated(study: Study, candidate: Candidate, estimate: Estimate) -> tuple[Validation | None, tuple[str, ...]]:
    """Test the fit on data not fitted.

    The data are a recording, or a part of one; where that fails, the reason is returned.
    """
    if study.checks:
        recording = study.checks[0]
        record = prepared(recording.record, candidate)
        if recording.signals:
            estimate = estimate.with_(model=driven(estimate.model, recording.signals))
    elif any(recording.held_back for recording in study.fitted):
        recording = next(one for one in study.fitted if one.held_back)
        record = prepared(recording.record, candidate)
        record = record.samples(np.flatnonzero(recording.held(record)))
    elif study.hold_back:
        recording = study.fitted[0]
        record = prepared(recording.record, candidate)
        record = record.samples(slice(_cut(record, study.hold_back), None))
    else:
        return None, ()
    known = recording.needed(candidate.model)
    # Errors of sensors were fitted along with the parameters: the estimate has them.
    outputs = None if recording.sensors else recording.measures
    try:
        record = record.select([channel for channel in record.channels if channel in known])
        return validate(estimate, (record, dict(recording.values)), outputs=outputs), ()
    except KapitzaError as error:
        return None, (f"Held-back data could not be tested: {in_study(error)}",)
