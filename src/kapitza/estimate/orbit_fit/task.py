"""Setup of an orbit fit.

It checks names, turns data into targets, sets scales and weights, and tests identifiability.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import block_diag

from kapitza.base.arrays import Array
from kapitza.base.cures import PRIOR, By, Code, Give, Set, marked
from kapitza.errors import DataError, FlowError, IdentifiabilityError, KapitzaError, ModelError
from kapitza.estimate.derived import derived_parameters
from kapitza.estimate.identifiability import Identifiability
from kapitza.estimate.observation import DifferenceQuotient, Output
from kapitza.estimate.orbit_fit.multipliers import known_multipliers
from kapitza.estimate.orbit_fit.problem import Channels, OrbitProblem, Target, channels_of, lay_out
from kapitza.estimate.orbit_fit.solver import normal_equations, reduce_block
from kapitza.estimate.orbit_fit.targets import Reader, common_channels, items_of, whitening
from kapitza.estimate.priors import no_priors
from kapitza.estimate.redundancy import identifiable
from kapitza.estimate.request import Request, Task
from kapitza.flow import Flow
from kapitza.model import Model
from kapitza.orbits import PeriodicOrbit

if TYPE_CHECKING:
    from kapitza.estimate.orbit_fit.fit import OrbitFit

FLOW_TOLERANCE = 1e-14
"""Tolerance of the integration, far below the noise of any sample."""


@dataclass(frozen=True)
class OrbitTask(Task):
    """Problem and settings of an orbit fit.

    estimator: the one in force; deviations: first noise level per channel; low, high: bounds; typical: sizes of the
    parameters.
    """

    problem: OrbitProblem
    estimator: str
    deviations: Array
    low: Array
    high: Array
    typical: Array

    @property
    def noise_known(self) -> bool:
        return self.estimator == "weighted"


def prepare(request: Request, settings: OrbitFit) -> OrbitTask:
    """Check a request and set up the problem.

    Everything that can be refused is refused here, before anything is iterated.
    """
    model, names = request.model, request.names
    _refuse_names(request)
    items = items_of(request)
    channels, angles = common_channels(items)
    noise = request.positive_noise
    for name in request.outputs:
        if name not in channels:
            raise DataError(f'"{name}" is not a channel of the data: {", ".join(channels)}.')
    # Only to refuse expressions that cannot be evaluated before the fit.
    derived_parameters(model, names, np.zeros((len(names), len(names))), settings.derived, strict=False)
    seen = channels_of(model, channels, angles, request.outputs, names)
    reader = Reader(
        model, seen, names, settings.period, settings.nodes, settings.profiles, noise, settings.start_orbits
    )
    targets = tuple(_inverted(model, reader.targets(items), request.outputs))
    _refuse_useless(settings, targets, noise)
    scale, channel_scale = _spreads(model, seen, targets)
    weigh = _estimator(settings.estimator, targets)
    check_freedom(targets, names, weigh == "weighted", model.excitation is None)
    priors = request.priors
    if settings.estimator == "bayes" and not priors.weight.any():
        raise ModelError(f'estimator = "bayes" needs a prior: {PRIOR}.')
    if settings.estimator not in ("auto", "bayes"):
        priors = no_priors(len(names))
    flow = Flow(model, wrt=names, tolerance=FLOW_TOLERANCE)
    problem = OrbitProblem(
        model, names, seen, targets, flow, scale, channel_scale, priors, lay_out(seen, targets)
    )  # fmt: skip
    low, high = request.bounds
    return OrbitTask(request, problem, weigh, 0.01 * channel_scale, low, high, typical_sizes(problem, request.start))


def _refuse_names(request: Request) -> None:
    """Refuse maps and a free excitation period.

    Maps have no flow, and the period of the excitation is not fitted.
    """
    model = request.model
    if model.is_map:
        raise ModelError(f"{model.name} is a map; {By('orbits')} fits orbits of flows. Use {By('invariant')}.")
    request.require_free()
    model.needs_repetition("periodic orbits")
    period: set[str] = set() if model.excitation is None else model.excitation.timing
    for name in request.names:
        if name in period:
            raise ModelError(
                f"{name} sets the period of the excitation, which the data fix already ({model.period:.6g} s): "
                f"set {name} by {Set('values', **{name: ...})} and leave it out of free."
            )
    request.require_start()


def _refuse_useless(settings: OrbitFit, targets: Sequence[Target], noise: Mapping[str, float]) -> None:
    """Refuse settings without an effect.

    Such settings are misunderstandings.
    """
    bare = [t.label for t in targets if isinstance(t.source, PeriodicOrbit) and t.rows is not None]
    if settings.profiles and bare:
        raise DataError(
            f"{Give(profiles=True)}, but orbit {bare[0]} has no profile: leave profiles out, or sample the orbit first."
        )
    carried = all(isinstance(t.source, PeriodicOrbit) and t.source.covariance is not None for t in targets)
    if noise and carried and not settings.profiles:
        raise DataError(
            "noise is given, but every orbit carries its own covariance, which is used: leave noise out, or drop the "
            f"covariances by {Set('orbit', covariance=None)}."
        )
    if settings.multipliers and not any(known_multipliers(t).any() for t in targets):
        raise DataError(
            f"{Give(multipliers=True)}, but no orbit carries the uncertainty of its multipliers: set "
            f"{Set('orbit', multiplier_deviation=...)}, or leave multipliers out."
        )


def check_freedom(targets: Sequence[Target], names: Sequence[str], noise_known: bool, autonomous: bool) -> None:
    """Refuse too few samples to estimate the noise.

    With unknown noise the residuals need degrees of freedom.
    """
    count = sum(t.times.size for t in targets)
    used = len(names) + (2 * len(targets) if autonomous else 0)
    if not noise_known and count <= used:
        raise DataError(
            f"{count} samples are to determine {used} unknowns "
            f"({', '.join(names)}{', period and phase of each orbit' if autonomous else ''}) and the noise: give "
            f"more data, or the noise by {Give(noise=Code('{channel: deviation}'))}."
        )


def typical_sizes(problem: OrbitProblem, theta: Array) -> Array:
    """Return the size of every parameter.

    It is the start value, or from zero a change that moves the samples by 1 % of their spread.
    """
    if (theta != 0).all():
        return np.abs(theta)
    try:
        information = _information(problem, theta, _plain_weights(problem))
    except FlowError:
        return np.where(theta != 0, np.abs(theta), 1.0)
    felt = 1e-2 * np.sqrt(sum(t.times.size for t in problem.targets) / np.maximum(np.diag(information), 1e-300))
    return np.where(theta != 0, np.abs(theta), np.minimum(felt, 1e3))


def _plain_weights(problem: OrbitProblem) -> list[Array]:
    weights = [1.0 / problem.channel_scale[t.channel] for t in problem.targets]
    pairs = zip(weights, problem.targets, strict=True)
    return [np.append(w, 1 / t.period) if t.period_deviation else w for w, t in pairs]


def _estimator(name: str, targets: Sequence[Target]) -> str:
    known = all(t.covariance is not None for t in targets)
    if name == "weighted" and not known:
        missing = next(t.label for t in targets if t.covariance is None)
        raise DataError(
            f'estimator = "weighted": orbit {missing} has no covariance; give '
            f"{Give(noise=Code('{channel: deviation}'))}."
        )
    if name in ("auto", "bayes"):
        return "weighted" if known else "maximum likelihood"
    return name


def _inverted(model: Model, targets: Sequence[Target], outputs: Mapping[str, Output]) -> list[Target]:
    """Invert difference quotients at the nodes.

    Where a rate is measured as a difference quotient, the state at the node is found from the two positions.
    """
    pairs = [
        (model.states.index(name), model.states.index(o.output), o.step)
        for name, o in outputs.items()
        if isinstance(o, DifferenceQuotient) and name in model.states and o.output in model.states
    ]
    if not pairs:
        return list(targets)
    flow, result = Flow(model, tolerance=FLOW_TOLERANCE), []
    for target in targets:
        nodes = target.nodes.copy()
        vectors = np.broadcast_to(target.vector, (len(nodes), target.vector.size))
        for _ in range(6):
            for rate, position, step in pairs:
                try:
                    run = flow.propagate_many(nodes, target.node_times, target.node_times + step, vectors)
                except FlowError:
                    break
                # Fixed-point iteration: the rate is corrected by the error of its quotient.
                quotient = (run.state[:, position] - nodes[:, position]) / step
                nodes[:, rate] -= quotient - target.nodes[:, rate]
        result.append(replace(target, nodes=nodes))
    return result


def _spreads(model: Model, channels: Channels, targets: Sequence[Target]) -> tuple[Array, Array]:
    """Return typical sizes of states (n,) and channels (c,).

    Angles are measured in radians.
    """
    channel = np.concatenate([t.channel for t in targets])
    values = np.concatenate([t.values for t in targets])
    by_channel = np.array([_size(values[channel == c]) for c in range(len(channels.names))])
    by_channel[channels.angles] = 1.0
    nodes = np.concatenate([t.nodes for t in targets])
    by_state = np.array([_size(column) for column in nodes.T])
    for i, name in enumerate(model.states):
        if name in channels.names:
            # The nodes of few orbits may have a small spread by accident.
            by_state[i] = max(by_state[i], by_channel[channels.names.index(name)])
    by_state[np.array(model.angles)] = 1.0
    return by_state, by_channel


def _size(values: Array) -> float:
    spread = float(values.std())
    largest = float(np.abs(values).max(initial=0.0))
    return spread if spread > 1e-6 * largest and spread > 0 else largest or 1.0


def weights_of(
    task: OrbitTask, problem: OrbitProblem, deviations: Array, inflation: Array | None = None
) -> list[Array]:
    """Return W of every orbit.

    It follows from its covariance, or from the noise of the channels (1 for plain least squares).
    """
    result = []
    for i, target in enumerate(problem.targets):
        if task.estimator == "weighted":
            assert target.covariance is not None
            weight = whitening(target.covariance)
        else:
            weight = 1.0 / deviations[target.channel]
        if target.period_deviation is not None and len(weight) == target.times.size:
            own = 1.0 / target.period_deviation
            weight = np.append(weight, own) if weight.ndim == 1 else block_diag(weight, own)
        result.append(weight if inflation is None else weight / np.sqrt(inflation[i]))
    return result


def identifiability(task: OrbitTask, starts: Iterable[Array]) -> Identifiability:
    """Return the identifiability before any iteration.

    Rank of the sensitivities of all samples, orbits eliminated.
    starts: the given values, then others, of which the first is taken at which the model can be run. Parameters that
    start at zero are moved off it, to where they affect the samples: at zero friction, for instance, no motion depends
    on the mass.
    """
    problem, trouble, information, theta = task.problem, "", None, np.zeros(len(task.names))
    for start in starts:
        theta = np.clip(np.where(start != 0, start, task.typical), task.low, task.high)
        try:
            information = _information(problem, theta, _plain_weights(problem))
            break
        except FlowError as error:
            trouble = trouble or marked(error)
    if information is None:
        raise KapitzaError(
            f"The model cannot be run from the states in the data at {start_text(task)}, nor at values around it "
            f"({trouble}): start elsewhere."
        )
    # The smallest sensible size of a parameter is what a sample of one per cent of the spread would resolve.
    least = 1e-6 / np.sqrt(np.maximum(np.diag(information), 1e-300))
    # Plain weights are in units of the spread. With errors of 1 % of it the information would be 1e4 times larger, so
    # priors are scaled down by as much.
    prior = np.diag(problem.priors.weight) * 1e-4
    size = np.clip(np.abs(theta), np.minimum(least, 1e6), None) * np.where(theta < 0, -1.0, 1.0)
    return identifiable(task.request, theta, information + prior, size, problem.channels.observation.expressions)


def _information(problem: OrbitProblem, theta: Array, weights: list[Array]) -> Array:
    blocks = problem.evaluate(problem.starts(), theta)
    reduced = [reduce_block(b, w) for b, w in zip(blocks, weights, strict=True)]
    return normal_equations(no_priors(theta.size), theta, reduced)[0]


def start_text(task: OrbitTask) -> str:
    """Return the starting values as text.

    With the bounds of those that are outside.
    """
    parts = []
    for name, low, high in zip(task.names, task.low, task.high, strict=True):
        value = task.model.values[name]
        outside = "" if low <= value <= high else f" (outside its bounds, {low:g} to {high:g})"
        parts.append(f"{name} = {value:.6g}{outside}")
    return ", ".join(parts)


def refuse_unidentifiable(task: OrbitTask, found: Identifiability) -> None:
    if not found.complete:
        raise IdentifiabilityError(f"{found.message()} (Tested at the start, {start_text(task)}.)")
