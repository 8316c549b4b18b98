"""Sets of measurements.

Measurements are periodic orbits held on a rig, runs, and single quantities such as a fold.
A set is more informative than its best member twice where the members leave different combinations of parameters
unknown: most unstable orbits of a pendulum have a correlation of -1 between two dampings, a pair of them has not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from kapitza.base.arrays import Array, Indices
from kapitza.base.cures import Code, Give
from kapitza.base.display import Shown, percent
from kapitza.base.monitor import Interrupted, Monitor, checkpoint, watch
from kapitza.continuation import Bifurcation, moved_bifurcation
from kapitza.errors import DataError, KapitzaError
from kapitza.estimate import Estimate, observe_channels
from kapitza.flow import Flow
from kapitza.model import Model
from kapitza.orbits import OrbitSet, PeriodicOrbit
from kapitza.orbits.of_models import solve_orbit
from kapitza.planning.choice import Choice
from kapitza.planning.criteria import Criterion, Want, Wanted, wanted
from kapitza.planning.experiments import Experiments
from kapitza.planning.knowledge import Knowledge, known_from, outputs_of
from kapitza.planning.search import Search

if TYPE_CHECKING:
    import pandas as pd

STEP = 1e-4
"""Step of the derivative of a measured quantity, in standard errors of the parameter."""

TRIED = 200_000
"""Sets that are all compared; of more, members are exchanged one by one until none improves."""


@dataclass(frozen=True)
class Reading:
    """One number that an experiment gives.

    It is a function of the model, with the standard deviation of its error.

    label: for tables; value: the function; noise: the standard deviation. Such as the frequency at a fold, the
    amplitude at resonance, the modulus of a multiplier.

    Examples
    --------
    >>> import kapitza as kz
    >>> kz.Reading("stiffness per mass", lambda model: model.values["k"] / model.values["m"], 0.01).noise
    0.01
    """

    label: str
    value: Callable[[Model], float]
    noise: float

    def __post_init__(self) -> None:
        if not 0 < self.noise < np.inf:
            raise DataError(f'The error of "{self.label}" is {self.noise}: give its standard deviation, above 0.')

    @classmethod
    def of(cls, bifurcation: Bifurcation, noise: float, label: str = "") -> Reading:
        """Return the measured place of a bifurcation.

        The place along its parameter, such as a fold or a doubling, is what a rig measures.
        noise: standard deviation of the measured place. It is followed to other values of the parameters.
        """
        here = dict(zip(bifurcation.model.names, np.asarray(bifurcation.values).tolist(), strict=True))

        def place(model: Model) -> float:
            moved = {n: v for n, v in model.values.items() if n in here and n != bifurcation.parameter and v != here[n]}
            return moved_bifurcation(bifurcation, moved) if moved else bifurcation.value

        said = f"{bifurcation.kind.value} at {bifurcation.parameter} = {bifurcation.value:.4g}"
        return cls(label or said, place, noise)


Item = Choice | PeriodicOrbit | Reading


@dataclass(frozen=True)
class ItemSet:
    """Measurements that are made together.

    Their numbers, and the widths (w,) of what is wanted after them.
    """

    numbers: tuple[int, ...]
    after: Array
    score: float


@dataclass(frozen=True)
class SetPlan(Shown):
    """Result of `kapitza.best_set`: sets of measurements, the best first.

    labels: of the items; wanted, now (w,): widths before; sets: the best ones; single (I,): score of each item alone;
    lost: items that could not be computed at all, with the reason.

    Examples
    --------
    >>> import kapitza as kz
    >>> known = [kz.Parameter(name, 1.0, prior=kz.Prior(1.0, 0.5)) for name in ("a", "b")]
    >>> model = kz.Model.from_equations("x'' + a*x' + b*x = 0", parameters=known)
    >>> sums = [kz.Reading(f"a + {s} b", lambda m, s=s: m.values["a"] + s * m.values["b"], 0.01) for s in (1, 1.01, -1)]
    >>> kz.best_set(model, sums, size=2).best
    (1, 2)
    """

    labels: tuple[str, ...]
    wanted: Wanted
    now: Array
    sets: tuple[ItemSet, ...]
    single: Array
    lost: tuple[str, ...] = field(default=(), repr=False)

    @property
    def best(self) -> tuple[int, ...]:
        """Numbers of the items of the best set."""
        if not self.sets:
            raise DataError("No item could be computed: " + "; ".join(self.lost[:3]))
        return self.sets[0].numbers

    def table(self) -> pd.DataFrame:
        """Return a table with one row per set.

        A row holds the members and every wanted width before and after [%].
        """
        import pandas as pd

        rows = []
        for one in self.sets:
            row: dict[str, Any] = {"measure": " + ".join(self.labels[i] for i in one.numbers)}
            for i, label in enumerate(self.wanted.labels):
                unit = 100 / self.wanted.scale[i]
                row[f"{label} now [%]"], row[f"{label} after [%]"] = unit * self.now[i], unit * one.after[i]
            rows.append(row)
        return pd.DataFrame(rows, index=pd.RangeIndex(1, len(rows) + 1, name="rank"))

    def __str__(self) -> str:
        lines = ["Measure together, the best set first:"]
        for rank, one in enumerate(self.sets, 1):
            units = 100 / self.wanted.scale
            said = [
                f"{n} ± {percent(u * b)} → ± {percent(u * a)}"
                for n, u, b, a in zip(self.wanted.labels, units, self.now, one.after, strict=True)
            ]
            lines.append(f"  {rank}. {' + '.join(self.labels[i] for i in one.numbers)}: {', '.join(said)}")
        return "\n".join(lines)


def best_set(
    source: Estimate | Model,
    items: Sequence[Item] | OrbitSet,
    size: int = 2,
    run: Choice | None = None,
    want: Sequence[Want] | Want | None = None,
    criterion: Criterion = "mean log",
    search: Search | None = None,
    monitor: Monitor | None = None,
) -> SetPlan:
    """Return the most informative sets of measurements.

    Parameters
    ----------
    source : Estimate or Model
        What is known: a fit, or a model whose free parameters have priors.
    items : list of PeriodicOrbit, Choice or Reading; or an OrbitSet
        What can be measured. Orbits are followed to every draw of the parameters.
    size : int
        Members of a set. The time of `run` is shared evenly among the orbits of a set.
    run : Choice, optional
        For orbits: how long they are measured in all, the sampling, the channels with their noise.
    want, criterion, search, monitor
        As `plan` takes them.

    Returns
    -------
    SetPlan
        The ten best sets.

    Examples
    --------
    >>> import kapitza as kz
    >>> known = [kz.Parameter(name, 1.0, prior=kz.Prior(1.0, 0.5)) for name in ("a", "b")]
    >>> model = kz.Model.from_equations("x'' + a*x' + b*x = 0", parameters=known)
    >>> sums = [kz.Reading(f"a + {s} b", lambda m, s=s: m.values["a"] + s * m.values["b"], 0.01) for s in (1, 1.01, -1)]
    >>> kz.best_set(model, sums, size=2).best
    (1, 2)
    """
    several = list(items)
    if not 1 <= size <= len(several):
        raise DataError(
            f"Sets of {size} out of {len(several)} items: give at least as many items as a set has members."
        )
    search = search or Search()
    model = source.model if isinstance(source, Estimate) else source
    knowledge = known_from(source, None, None, search.seed)
    wants = [want] if isinstance(want, str) or callable(want) else want
    sought = wanted(model, knowledge.names, knowledge.values, knowledge.widths(), wants, None)
    draws = knowledge.some(search.draws)
    told, lost = [], []
    with watch(monitor, "best set", len(several), partial=False) as task:
        for number, item in enumerate(several):
            checkpoint(steps=1.0)
            try:
                told.append(_information_of(source, knowledge, item, run, draws, size))
            except KapitzaError as problem:
                lost.append(f"{_label(item, number)}: {problem}")
                told.append(np.full((len(draws), draws.shape[1], draws.shape[1]), np.nan))
    if task.interrupted:
        raise Interrupted  # sets of the items so far would be ranked as if they were all
    information: Array = np.array(told)
    # An orbit alone has the time of all orbits of a set.
    alone = np.array([size if isinstance(item, PeriodicOrbit) else 1 for item in several])
    single = sought.score(knowledge.information + alone[:, None, None, None] * information, criterion)
    usable = np.flatnonzero(np.isfinite(single))
    ranked = _ranked(
        lambda rows: sought.score(knowledge.information + information[rows].sum(axis=1), criterion), usable, size
    )
    sets = []
    for numbers, score in ranked:
        widths = sought.widths(knowledge.information + information[list(numbers)].sum(axis=0))
        sets.append(ItemSet(numbers, np.exp(np.log(widths).mean(axis=0)), score))
    labels = tuple(_label(item, number) for number, item in enumerate(several))
    return SetPlan(labels, sought, sought.widths(knowledge.information), tuple(sets), single, tuple(lost))


def _ranked(
    score: Callable[[Indices], Array], usable: Indices, size: int, most: int = 10
) -> list[tuple[tuple[int, ...], float]]:
    """Return the best sets with their scores.

    All sets are compared where that is quick, else members are exchanged.
    """
    if usable.size < size:
        return []
    # The number of sets, n over k.
    count = np.prod([(usable.size - i) / (i + 1) for i in range(size)])
    every = count <= TRIED
    rows = np.array(list(combinations(usable.tolist(), size))) if every else _exchanged(score, usable, size)
    scores = np.concatenate([score(part) for part in np.array_split(rows, max(1, len(rows) // 4096))])
    order = np.argsort(scores, kind="stable")[:most]
    return [(tuple(int(i) for i in rows[place]), float(scores[place])) for place in order]


def _exchanged(score: Callable[[Indices], Array], usable: Indices, size: int) -> Indices:
    """Search sets by exchange of members.

    Sets (S, size) seen by a search that adds the best member, then exchanges members while that improves.
    """
    seen: list[Indices] = []
    members: list[int] = []
    for _ in range(size):
        # On 68 orbits of the ORBITS pendulum the pair built in this order was the best of all 2278.
        rows = np.array([[*members, int(i)] for i in usable if i not in members])
        members = rows[int(np.argmin(score(rows)))].tolist()
    best = float(score(np.array([members]))[0])
    while True:
        rows = np.array(
            [[*members[:j], int(i), *members[j + 1 :]] for j in range(size) for i in usable if i not in members]
        )
        seen.append(np.sort(rows, axis=1))
        scores = score(rows)
        if not scores.min() < best - 1e-9:
            return np.unique(np.concatenate([*seen, np.sort([members], axis=1)]), axis=0)
        best, members = float(scores.min()), rows[int(np.argmin(scores))].tolist()


def _label(item: Item, number: int) -> str:
    if isinstance(item, Reading):
        return item.label
    if isinstance(item, Choice):
        return str(item)
    return f"orbit {number}" + (f" ({item.repeats} {item.code})".replace(" )", ")") if item.repeats else "")


def _information_of(
    source: Estimate | Model, knowledge: Knowledge, item: Item, run: Choice | None, draws: Array, share: int
) -> Array:
    """Return the information (D, k, k) of one item.

    D counts the draws of the parameters, k the parameters.
    """
    model = source.model if isinstance(source, Estimate) else source
    if isinstance(item, Choice):
        outputs = outputs_of(source, item.channels)
        return Experiments(model, knowledge.names, outputs=outputs).run([item], draws).information[0]
    if isinstance(item, Reading):
        return _of_reading(model, knowledge, item, draws)
    if run is None:
        raise DataError(
            f"Orbits need the time, sampling and channels of their measurement: {Give(run=Code('Choice'))}(...)."
        )
    outputs = outputs_of(source, run.channels)
    return (
        np.array(
            [
                orbit_information(
                    model.with_values(**dict(zip(knowledge.names, row.tolist(), strict=True))),
                    item,
                    knowledge.names,
                    run,
                    outputs,
                )
                for row in draws
            ]
        )
        / share
    )


def _of_reading(model: Model, knowledge: Knowledge, item: Reading, draws: Array) -> Array:
    steps = STEP * knowledge.widths()
    told = []
    for row in draws:
        slope = []
        for i, step in enumerate(steps):
            ends = []
            for sign in (1, -1):
                values = row.copy()
                values[i] += sign * step
                ends.append(
                    float(item.value(model.with_values(**dict(zip(knowledge.names, values.tolist(), strict=True)))))
                )
            slope.append((ends[0] - ends[1]) / (2 * step))
        told.append(np.outer(slope, slope) / item.noise**2)
    return np.array(told)


def orbit_information(
    model: Model,
    orbit: PeriodicOrbit,
    free: Sequence[str],
    run: Choice,
    outputs: Mapping[str, str] | None = None,
) -> Array:
    """Return the Fisher information of a held orbit.

    Its points move with the parameters as dx/dθ = (1 - M)⁻¹ S, M the monodromy matrix and S the sensitivity of the
    return; along the orbit J dx/dθ + S. A period that the model chooses itself moves too, and the time at which the
    recording begins is then unknown. The samples repeat over `run.duration`.

    Parameters
    ----------
    model : Model
        At the values of its parameters.
    orbit : PeriodicOrbit
        Near one of the model: it is solved again at these values.
    free : list of str
        The parameters.
    run : Choice
        How long it is measured, the sampling, the channels with their noise, and settings.
    outputs : mapping, optional
        What channels measure, in plain notation, where they are not states or outputs of the model.

    Returns
    -------
    array
        (k, k)

    Examples
    --------
    >>> import kapitza as kz
    >>> model = kz.library.duffing()
    >>> run = kz.Choice(duration=60.0, step=0.1, channels={"x": 0.01})
    >>> kz.orbit_information(model, kz.solve_orbit(model), ["k"], run).shape
    (1, 1)
    """
    names = tuple(free)
    if not names:
        raise DataError("orbit_information needs at least one free parameter.")
    at = model.with_values(**dict(run.settings))
    found = solve_orbit(at, orbit, orbit.repeats or 1) if orbit.repeats else solve_orbit(at, orbit)
    flow = Flow(at, wrt=names)
    count = max(8, int(np.ceil(found.period / run.step)))
    times = np.linspace(0.0, found.period, count + 1)
    states, jacobians, slopes = flow.trajectory_tangents(found.points[0], times)
    k = len(names)
    rates = flow.rates(states, times)
    shift, period = _moved(jacobians[-1], slopes[-1], rates[-1], at.excitation is None)
    along = jacobians @ shift + slopes
    channels = tuple(run.channels)
    observation = observe_channels(at, channels, [False] * len(channels), outputs or {}, names)
    _, by_state, direct = observation.linearise(states[:-1], times[:-1], at.vector)
    rows = by_state @ along[:-1] + direct
    weight = np.array([1 / run.channels[name] for name in observation.channels])
    repeats = run.duration / found.period
    samples = run.duration / run.step / count / repeats
    if at.excitation is not None:
        flat = (rows * weight[:, None]).reshape(-1, k)
        return flat.T @ flat * repeats * samples
    # After r periods the phase is off by r dT/dθ; the time of the beginning is one more unknown.
    moving = by_state @ rates[:-1, :, None]
    turns = np.arange(max(1, int(np.ceil(repeats - 1e-9))))
    every = [
        # The last turn may be cut short by the end of the recording.
        (np.concatenate([moving, rows - r * moving * period], axis=2) * weight[:, None])[
            times[:-1] + r * found.period < run.duration * (1 + 1e-9)
        ]
        for r in turns
    ]
    flat = np.concatenate(every).reshape(-1, 1 + k) * np.sqrt(samples)
    upper = np.asarray(np.linalg.qr(flat, mode="r"))[1:, 1:]  # any sign: RᵀR
    return upper.T @ upper


def _moved(monodromy: Array, slope: Array, rate: Array, free_period: bool) -> tuple[Array, Array]:
    """Return derivatives of start and period.

    dx/dθ (n, k) of the starting point and dT/dθ (k,) of the period, which is 0 for a forced motion.
    """
    n, k = slope.shape
    if not free_period:
        return np.asarray(np.linalg.solve(np.eye(n) - monodromy, slope), float), np.zeros(k)
    # (1 - M) dx - f dT = S with f·dx = 0: the point moves at right angles to the flow.
    bordered = np.block([[np.eye(n) - monodromy, -rate[:, None]], [rate[None], np.zeros((1, 1))]])
    solved = np.asarray(np.linalg.solve(bordered, np.vstack([slope, np.zeros((1, k))])), float)
    return solved[:n], solved[n]
