"""The function `identify`: parameters of a model from data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from kapitza.base import checks
from kapitza.base.argument_checks import Anything
from kapitza.base.cures import Code, Fit, Give, marked
from kapitza.base.monitor import Monitor, watch
from kapitza.base.workers import Executor, require_executor
from kapitza.data import MeasuredBranch, Part, Record, StoredRecord, as_parts
from kapitza.errors import DataError, KapitzaError, ModelError, Status
from kapitza.estimate.automatic import Automatic
from kapitza.estimate.branch_fit import BranchFit
from kapitza.estimate.channel_units import in_model_units
from kapitza.estimate.combinations import combinations_of, in_combinations
from kapitza.estimate.energy import energy_warnings
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.method import Estimator
from kapitza.estimate.orbit_fit import OrbitFit
from kapitza.estimate.own_parameters import with_own, without_common
from kapitza.estimate.request import Request, make_request
from kapitza.estimate.result import make_estimate
from kapitza.estimate.sensor_delay import long_delays
from kapitza.estimate.sensors import with_sensors, without_zeros
from kapitza.estimate.stored_fit import identify_parts
from kapitza.model import Model
from kapitza.signal import bad_sample_warnings, possible_step_notes, without_bad_samples


def identify(
    model: Model,
    data: Anything,
    free: Sequence[str] | str | None = None,
    method: Estimator | str | None = None,
    monitor: Monitor | None = None,
    executor: Executor | None = None,
    own: Sequence[str] | str = (),
) -> Estimate:
    """Estimate parameters of a model from data.

    Parameters
    ----------
    model : Model
        The equations, with starting values, bounds and priors of the parameters.
    data : Record, OrbitSet, PeriodicOrbit, MeasuredBranch, or a list of these
        What was measured; a pandas DataFrame or xarray Dataset is read as by `Record.from_frame`. A pair
        ``(data, {name: value})`` states parameter values of one recording, such as its excitation amplitude. Channels
        enter in the units of the model's states (a record in mm serves a model in m); a channel whose unit is of
        another kind is refused. A `StoredRecord` is fitted part by part, by HarmonicFit or InvariantFit.
    free : list of str, optional
        Parameters to estimate, all of them when left out. Combinations such as ``"k2/m"`` and derived parameters may be
        free too. With ``free=[]`` `ShootingFit` fits the motion alone.
    method : settings of an estimator, optional
        Such as ``HarmonicFit()``. By default orbits are fitted by ``OrbitFit()``, measured branches by ``BranchFit()``
        and records by ``"auto"``: a chain that starts cheap and ends efficient.
    monitor : Monitor, optional
        Shown the progress. Cancelled, or after Ctrl-C, the last iterate comes back without intervals, its status
        INTERRUPTED.
    executor : optional
        Does what is repeated (the other starts of `OrbitFit`, the resampled fits of `InvariantFit`): anything with
        ``submit``, as in concurrent.futures. The result does not depend on it.
    own : list of str, optional
        Free parameters that differ between recordings: ``own=["F"]`` gives F_0, F_1, … of the recordings in their
        order, beside the parameters that they share.

    Returns
    -------
    Estimate
        Values, covariance, intervals, what was fixed, and warnings in plain words.

    Examples
    --------
    >>> import numpy as np, kapitza as kz
    >>> truth = kz.library.lorenz()
    >>> record = kz.measure(kz.simulate(truth, x0=[1, 1, 20], t=np.arange(500) * 0.01), noise=0.1, seed=1)
    >>> fit = kz.identify(truth.with_values(rho=30.0), record, free=["rho"])
    >>> bool(abs(fit["rho"] - 28) < 4 * fit.deviations["rho"])
    True
    """
    parts = as_parts(data)
    free = None if free is None else checks.texts("free", free, error=ModelError)
    several = checks.texts("own", own, error=ModelError)
    if any(isinstance(part.source, StoredRecord) for part in parts):
        return identify_parts(identify, model, _only(parts, several), free, method, monitor)
    method = _chosen(method, parts)
    # Kept as the user gave them: sensors are rewritten below, and the estimate reports the originals.
    given = dict(method.outputs)
    parts = tuple(part.change(without_bad_samples) for part in in_model_units(model, parts, method))
    asked = with_sensors(model, parts, free, method)
    fitter = asked.method
    model, parts, free = with_own(asked.model, asked.parts, asked.free, several)
    combined = combinations_of(model, free)
    executor = None if executor is None else require_executor(executor)
    request = make_request(model, parts, free if combined is None else combined.names, fitter, executor)
    found: Estimate | None = None
    with watch(monitor, f"fitting {model.name}") as task:
        found = fitter.fit(request)
    # The monitor was cancelled, or Ctrl-C was pressed: `watch` swallowed the interrupt and kept the last iterate.
    if found is None:
        found = _stopped(request, fitter.name, task.partial)
    found = found.with_(sensors=given, warnings=without_zeros(found.warnings, given)) if given else found
    found = without_common(found, several) if several else found
    if asked.late and found.status.ok:
        found = found.with_(warnings=(*found.warnings, *long_delays(found, asked.late)))
    found = found.with_(
        warnings=(*_bad_samples(parts), *_still_true(found), *_steps_left(found, parts), *energy_warnings(found))
    )
    # Last, because all warnings above refer to the parameters that were fitted.
    return found if combined is None else in_combinations(found, combined)


def _only(parts: Sequence[Part], own: Sequence[str]) -> Part:
    """Return the one recording on disk.

    Several data, or parameters that differ between them, are refused.
    """
    if len(parts) > 1:
        raise DataError("A recording on disk is fitted alone, part by part: fit the others by separate calls.")
    if own:
        raise ModelError(f"{Give(own=list(own))}: there is one recording only; name what is unknown of it in free.")
    return parts[0]


def _chosen(method: Estimator | str | None, parts: Sequence[Part]) -> Estimator:
    """Return the settings to fit by.

    The default suits the first of the data.
    """
    if method is None or method == "auto":
        first = parts[0].source
        return (
            BranchFit()
            if isinstance(first, MeasuredBranch)
            else Automatic()
            if isinstance(first, Record)
            else OrbitFit()
        )
    if isinstance(method, str):
        raise KapitzaError(
            f'The only method with a name is "auto", not "{method}": pass settings such as {Fit("harmonic")}.'
        )
    if isinstance(method, type):
        raise KapitzaError(f"Pass settings, not their class: {Give(method=Code(method.__name__ + '()'))}.")
    if not isinstance(method, Estimator):
        raise KapitzaError(f"{method!r} is not a method of identification: pass settings such as {Fit('harmonic')}.")
    return method


def _still_true(found: Estimate) -> Iterator[str]:
    """Yield the warnings that hold for the final errors.

    Errors widened or narrowed later make some warnings untrue.
    """
    known = {f"{name} is smaller than its own": abs(found.values[name]) >= error
             for name, error in found.deviations.items()}  # fmt: skip
    for text in found.warnings:
        if not any(untrue and text.startswith(head) for head, untrue in known.items()):
            yield text


def _bad_samples(parts: Sequence[Part]) -> tuple[str, ...]:
    """Return warnings on bad samples found before the fit."""
    records = [part.source for part in parts if isinstance(part.source, Record)]
    heads = [f"record {number}: " if len(records) > 1 else "" for number in range(len(records))]
    return tuple(
        head + marked(text) for head, one in zip(heads, records, strict=True) for text in bad_sample_warnings(one)
    )


def _steps_left(found: Estimate, parts: Sequence[Part]) -> Iterator[str]:
    """Yield notes on steps of sensors that a fit which misses the data has not taken off."""
    misses = found.misfit is not None and not found.misfit.to_the_noise
    if not misses or found.model is None or found.model.impacts or any(" jumps by " in text for text in found.warnings):
        return
    records = [part.source for part in parts if isinstance(part.source, Record)]
    for number, one in enumerate(records):
        head = f"record {number}: " if len(records) > 1 else ""
        yield from (head + marked(text) for text in possible_step_notes(one))


def _stopped(request: Request, method: str, partial: Mapping[str, float] | Estimate | None) -> Estimate:
    """Return the estimate of an interrupted fit.

    `partial` is an estimate, or values without errors. Raises KeyboardInterrupt where there is neither.
    """
    if isinstance(partial, Estimate):
        words = "stopped by the user after the fit, before its intervals were made anew: they are those of the fit."
        return partial.with_(status=Status.INTERRUPTED, warnings=(words, *partial.warnings))
    theta = np.array(list((partial or {}).values()))
    if partial is None or not np.isfinite(theta).all():
        raise KeyboardInterrupt
    unknown = np.full((theta.size, theta.size), np.nan)
    words = "stopped by the user: the values are those of the last iteration, and have no intervals."
    return make_estimate(
        request, method, theta, unknown, names=tuple(partial), status=Status.INTERRUPTED, warnings=(words,)
    )
