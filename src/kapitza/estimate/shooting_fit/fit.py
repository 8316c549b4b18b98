"""Settings of `ShootingFit`: maximum likelihood from raw series.

The series may be chaotic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from kapitza.base import checks
from kapitza.base.argument_checks import Anything
from kapitza.base.cures import SELECT, Code, Fit
from kapitza.data import FITTED, Noise, Record, is_number
from kapitza.errors import ConvergenceError, DataError, IdentifiabilityError, KapitzaError, ModelError, Status
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.method import Accepts, Estimator
from kapitza.estimate.redundancy import equivalents, refuse_redundant
from kapitza.estimate.request import Request
from kapitza.estimate.result import workings_of
from kapitza.estimate.shooting_fit.bent import Better, with_bent_errors
from kapitza.estimate.shooting_fit.noise import SensorNoise
from kapitza.estimate.shooting_fit.outliers import outlier_warnings, without_outliers
from kapitza.estimate.shooting_fit.pieces import Samples
from kapitza.estimate.shooting_fit.result import MotionWorkings, estimate_of
from kapitza.estimate.shooting_fit.search import (
    Found,
    exchanged_fits,
    finish,
    fitter_for,
    in_best_windows,
    rivals_of,
    search,
    single_fit,
)
from kapitza.estimate.shooting_fit.steps import step_warnings, with_step_sizes, without_steps
from kapitza.estimate.shooting_fit.task import MotionTask, prepare
from kapitza.estimate.shooting_fit.torn import as_torn, torn_warnings

NEARLY = 15.0
"""Excess of -2 log L up to which another minimum is reported; the likelihood is then up to 2,000 times smaller."""

SECOND_SEARCH = 20_000
"""Most samples for which other minima of a fit with unmeasured states are searched, by single motions."""

BETTER_PLACES = 3
"""Most restarts of a fit from a better point that a profile has found."""


@dataclass(frozen=True)
class ShootingFit(Estimator):
    """Fit trajectories by multiple shooting.

    States at the nodes and parameters are fitted together, with continuity as constraint.

    Minimises Σ (h(x(t_i), θ) - y_i)²/σ² (and the priors of the parameters) subject to x being a motion of the model
    over each piece of the record (H. G. Bock 1981; E. Baake et al., Phys. Rev. A 45 (1992) 5524).

    Parameters
    ----------
    outputs : mapping
        What a channel measures where its name is neither a state nor an output of the model, in plain notation:
        ``{"theta2": "phi2 - phi1"}``.
    noise : float or mapping, optional
        Standard deviation for all channels or by channel; otherwise the record's own, otherwise (and where it is 0)
        estimated for each record.
    spacing : int, optional
        Samples per shooting interval at the end (default: by the growth of the tangents, at most 10).
    window, windows : int
        Samples of the first fit of a long record, from which the whole is fitted (fewer where the states are dozens);
        and, instead of the whole, only so many windows: those that together determine the parameters best (0: the
        whole).
    softness : float
        How far the links may stretch at the start, in units of each state's spread.
    process_noise : bool or mapping
        Standard deviation per state and sampling step of kicks that the motion really has (their variance grows with
        the time over lost samples), or True to estimate one common relative size.
    robust : bool
        Huber's loss beyond 1.345 standard deviations, against outliers.
    initial : mapping or list of mappings
        The state at the first sample of a record, where it is known; a list holds one for each record.
    hold_back : float
        Fraction of the last samples of each record that is left out of the fit to test its prediction.
    max_gap : float
        Gaps longer than this many median steps cut the record.
    bridge : bool
        Segments separated by fewer lost samples than that are one motion; False for trials that share a clock.
    tolerance, max_iterations, throw
        Of the last relative step; of the iteration; raise where it does not converge.

    Examples
    --------
    >>> import numpy as np, kapitza as kz
    >>> model = kz.Model.from_equations("x'' + c*x' + x = 0", parameters={"c": 0.1}, start={"x": 1.0, "x'": 0.0})
    >>> record = kz.measure(kz.simulate(model, t=np.arange(300) * 0.1).select(["x"]), noise=0.01, seed=1)
    >>> fit = kz.identify(model.with_values(c=0.3), record, free=["c"], method=kz.ShootingFit(hold_back=0.2))
    >>> bool(abs(fit["c"] - 0.1) < 4 * fit.deviations["c"])
    True
    >>> fit.motion.states.shape[1]
    2
    """

    accepts: ClassVar[Accepts] = Accepts(
        sources=(Record,), unknown=tuple(e.name for e in FITTED), lost_samples=True, likelihood="motion"
    )

    outputs: Mapping[str, Anything] = field(default_factory=dict)
    noise: Noise = None
    spacing: int | None = None
    window: int = 5000
    windows: int = 0
    softness: float = 0.05
    process_noise: bool | Mapping[str, float] = False
    robust: bool = False
    initial: Mapping[str, float] | Sequence[Mapping[str, float]] = field(default_factory=dict)
    hold_back: float = 0.0
    max_gap: float = 20.0
    bridge: bool = True
    tolerance: float = 1e-9
    max_iterations: int = 100
    throw: bool = True

    def __post_init__(self) -> None:
        if self.spacing is not None:
            checks.whole("spacing, in samples,", self.spacing, least=1)
        checks.whole("window, in samples,", self.window, least=20)
        checks.whole("windows", self.windows, least=0)
        checks.whole("max_iterations", self.max_iterations, least=1)
        checks.number("softness", self.softness, above=0)
        checks.number("tolerance", self.tolerance, above=0)
        checks.number("max_gap, in median steps,", self.max_gap, low=1)
        checks.number("hold_back, a fraction of the record,", self.hold_back, low=0, high=np.nextafter(1.0, 0.0))
        for name in ("robust", "bridge", "throw"):
            checks.flag(name, getattr(self, name))
        wanted = {
            "outputs": (isinstance(self.outputs, Mapping), 'a mapping of channels, {"theta2": "phi2 - phi1"}'),
            "initial": (
                isinstance(self.initial, Mapping | list | tuple),
                "a mapping of states, or a list with one for each record",
            ),
            "process_noise": (
                isinstance(self.process_noise, bool) or _sizes_by_name(self.process_noise),
                "True, False, or the standard deviations of the kicks by state, none negative and one positive: "
                '{"phi\'": 0.1}',
            ),
        }
        for name, (good, rule) in wanted.items():
            if not good:
                raise KapitzaError(f"{Fit('shooting', **{name: Code(getattr(self, name))})}: it must be {rule}.")

    def fit(self, request: Request) -> Estimate:
        """Fit the most likely parameters and motion.

        Without free parameters it fits the motion alone.
        """
        task = prepare(self, request)
        check_motion(task.problem.samples, task.sensors, task.observation.channels)
        # A prior, or a known component of an initial state, counts as one sample.
        prior = int(np.count_nonzero(task.problem.priors.weight)) + task.problem.held_count
        states = len(request.model.states)
        check_unknowns(task.problem.samples, states, len(request.names), prior, task.sensors.all_known)
        # Known initial states can make parameters identifiable that the outputs alone do not determine.
        if self.throw and not self.initial:
            refuse_redundant(request, task.observation.expressions)
        task = in_best_windows(task)
        task, found = without_steps(task, search(task))
        if found.solution.status is not Status.CONVERGED:
            return self._last_resort(task, found)
        task, found = without_outliers(task, found)
        task, found = with_step_sizes(as_torn(task, found), found)
        estimate = self._judged(task, found)
        if _ambiguous(task, estimate):
            task, found, estimate = self._second_search(task, found, estimate)
        for _ in range(BETTER_PLACES):
            bent = with_bent_errors(estimate) if estimate.status.ok else estimate
            if not isinstance(bent, Better):
                return bent
            # The profile has found a higher likelihood: the fit is continued from there.
            fitter = fitter_for(task, task.settings.softness)
            fitter.sensors = found.sensors
            again = finish(task, fitter, fitter.go_on(bent.theta, bent.states, found.solution.nodes, None))
            if again.solution.status is not Status.CONVERGED or again.objective > found.objective:
                break
            task, found = with_step_sizes(task, replace(again, rivals=found.rivals, second=found.second))
            estimate = self._judged(task, found)
        return estimate

    def _second_search(self, task: MotionTask, found: Found, estimate: Estimate) -> tuple[MotionTask, Found, Estimate]:
        """Search other minima, from single motions.

        Returns the most likely one; another is kept where it is nearly as likely. Soft links let unmeasured states
        absorb a part of the error of the parameters, which may end in another minimum; so may exchanged parameters.
        """
        alone = single_fit(task, found.solution.theta) if _doubtful(estimate) else None
        for other in (*([] if alone is None else [alone]), *exchanged_fits(task, found)):
            task, found, estimate = self._more_likely(task, found, estimate, other)
        return task, found, estimate

    def _more_likely(
        self, task: MotionTask, found: Found, estimate: Estimate, other: Found
    ) -> tuple[MotionTask, Found, Estimate]:
        """Return the more likely of two minima.

        It carries the other one where that is nearly as likely.
        """
        if not rivals_of(found, [other.solution.theta]):
            return task, found, estimate
        other_task, other = with_step_sizes(task, other)
        try:
            judged = self._judged(other_task, other)
        except KapitzaError:
            return task, found, estimate
        assert judged.likelihood is not None
        assert estimate.likelihood is not None
        gain = 2 * (judged.likelihood.log_likelihood - estimate.likelihood.log_likelihood)
        # An earlier minimum that is nearer in likelihood is kept.
        nearest = min(NEARLY, np.inf if found.second is None else found.second[1])
        if gain > 0:
            if gain < NEARLY:
                other = replace(other, second=(found.solution.theta, gain))
                judged = self._judged(other_task, other)
            return other_task, other, judged
        if -gain < nearest:
            found = replace(found, second=(other.solution.theta, -gain))
            estimate = self._judged(task, found)
        return task, found, estimate

    def _last_resort(self, task: MotionTask, found: Found) -> Estimate:
        """Fit by simpler methods where intervals do not close.

        The result is a fit without kicks or by single shooting, or else the failed fit.
        """
        if self.process_noise:
            try:
                estimate = replace(self, process_noise=False).fit(task.request)
            except ConvergenceError:
                return self._judged(task, found)
            words = "with process_noise no motion was found that follows the data: this is the best one without kicks."
            return estimate.with_(warnings=(words, *estimate.warnings))
        alone = None if self.initial else single_fit(task, found.solution.theta)
        return self._judged(task, found if alone is None else alone)

    def _judged(self, task: MotionTask, found: Found) -> Estimate:
        """Return the estimate with its warnings.

        Raises where it did not converge or does not determine the parameters.
        """
        estimate = estimate_of(task, found)
        about_data = *step_warnings(task), *outlier_warnings(task), *torn_warnings(task)
        estimate = estimate.with_(warnings=(*about_data, *estimate.warnings))
        if self.throw and found.solution.status is not Status.CONVERGED:
            raise ConvergenceError(estimate.post_mortem, estimate)
        # At a bound a term may vanish, which leaves its other parameters undetermined. Such a fit is returned with
        # its warnings.
        loose = estimate.identifiability is not None and not estimate.identifiability.complete
        if self.throw and loose and not found.solution.at_bound.any():
            assert estimate.identifiability is not None
            raise IdentifiabilityError(estimate.identifiability.message())
        return _with_equivalents(task, estimate)


def _ambiguous(task: MotionTask, estimate: Estimate) -> bool:
    """Return whether there may be other minima.

    Unmeasured states cause them, unless something else is known of them or of the parameters.
    """
    informed = bool(task.settings.initial) or bool(task.problem.priors.weight.any())
    plain = not (task.settings.process_noise or task.settings.robust or informed)
    if estimate.identifiability is not None and estimate.identifiability.equivalents:
        return False  # exact exchanges are known without a search
    if not plain or not task.hidden.any() or not estimate.status.ok or task.problem.samples.size > SECOND_SEARCH:
        return False
    return not _fixed_by_the_path(task)


def _fixed_by_the_path(task: MotionTask) -> bool:
    """Return whether a measured path has one set of parameters.

    Every coordinate is measured, so that only rates are hidden, and g(u, u', u'', t) = g_0 + Σ θ_i g_i: for a given
    path u(t) the equations are linear in the parameters θ.
    """
    model = task.model
    hidden = {name for name, unseen in zip(model.states, task.hidden, strict=True) if unseen}
    if hidden & {coordinate.name for coordinate in model.coordinates}:
        return False
    try:
        model.linear_terms(task.names)
    except ModelError:
        return False
    return True


def _doubtful(estimate: Estimate) -> bool:
    """Return whether the minimum may be false.

    Signs of it are a misfit, a fault, and a likelihood that is not parabolic.
    """
    misfit = estimate.misfit
    wrong = misfit is not None and (not misfit.to_the_noise or misfit.fault is not None)
    return wrong or bool(workings_of(estimate, MotionWorkings).curved)


def _with_equivalents(task: MotionTask, estimate: Estimate) -> Estimate:
    """Return the estimate with equivalent parameter values.

    They give the same outputs; states without a sensor may allow them.
    """
    request, found = task.request, estimate.identifiability
    informed = bool(task.settings.initial) or any(request.model.parameter(n).prior is not None for n in request.names)
    # Equivalent values are searched only where states are unmeasured and nothing else is known of the parameters.
    if task.known.all() or informed or found is None or not found.complete or not estimate.status.ok:
        return estimate
    theta = np.array([estimate.values[n] for n in request.names])
    settings = [part.values for part in request.parts]
    twins = equivalents(request.model_at(theta), task.observation.expressions, request.names, settings)
    if not twins:
        return estimate
    found = replace(found, equivalents=twins)
    text = (
        f"{len(twins) + 1} sets of values give exactly the same outputs: this one, and {found.exchanges()}. No data of "
        "these channels can tell which is right: bounds, a prior or a further sensor can."
    )
    return estimate.with_(identifiability=found, warnings=(*estimate.warnings, text))


def _sizes_by_name(sizes: Any) -> bool:
    if not isinstance(sizes, Mapping) or not all(is_number(size) for size in sizes.values()):
        return False
    return min(sizes.values(), default=-1.0) >= 0 and max(sizes.values(), default=0.0) > 0


def check_motion(samples: Samples, sensors: SensorNoise, channels: Sequence[str]) -> None:
    """Refuse constant channels of unknown noise.

    They are dead sensors, or a system at rest.
    """
    dead, alive = [], []
    for s, c in enumerate(sensors.channel):
        readings = samples.values[samples.sensor[:, c] == s, c]
        # A constant channel would get zero estimated noise, and an infinite weight.
        still = readings.size > 0 and not np.ptp(readings)
        name = channels[c] if sensors.record.max() == 0 else f"{channels[c]} of record {sensors.record[s]}"
        (dead if still and not sensors.known[s] else alive).append((name, readings[:1]))
    if not alive:
        raise DataError(
            "No channel changes over the whole record: a motion at rest does not determine its parameters. Check the "
            "sensors, or record a moving system."
        )
    if dead:
        name, first = dead[0]
        raise DataError(
            f"{name} reads {first[0]:.6g} throughout while {', '.join(other for other, _ in alive)} moves: a dead "
            f"sensor would count as an exact one. Leave it out by {SELECT}, or give its noise if it "
            "is really at rest."
        )


def check_unknowns(samples: Samples, states: int, free: int, known: int, noise_known: bool) -> None:
    """Refuse fewer samples than unknowns.

    Prior knowledge counts as samples, the size of the noise as an unknown.
    """
    unknowns, pieces = states * len(samples.pieces) + free, len(samples.pieces)
    if samples.readings + known == unknowns and not noise_known:
        raise DataError(
            f"{samples.readings} samples determine {unknowns} unknowns ({states} initial states for each of {pieces} "
            f"pieces and {free} parameters) and leave none to estimate the noise: give the noise, or record longer."
        )
    if samples.readings + known < unknowns:
        raise DataError(
            f"{samples.readings} samples cannot determine {unknowns} unknowns ({states} initial states for each of "
            f"{pieces} pieces and {free} parameters): record longer, free fewer parameters, or give priors."
        )
