"""Phase-locked intervals (Arnold tongues) of a family of tori.

Where the rotation number of a family passes p/q, the motion is locked in an interval of the parameter: the torus holds
orbits of q periods, a stable and an unstable one, which meet in folds at both edges. As the phase at which such an
orbit begins goes along the circle, the parameter goes from one edge to the other and back: the orbits are one closed
family.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, floor, gcd
from typing import Any

import numpy as np

from kapitza.base import checks
from kapitza.base.argument_checks import Anything, Count
from kapitza.base.arrays import Array
from kapitza.base.monitor import Monitor, watch
from kapitza.continuation.branch import Branch
from kapitza.continuation.cycles import along_cycle, cycle_family
from kapitza.continuation.family import Node
from kapitza.continuation.frame import FreeParameter, branch_flow, orbit_frame, parameter_size
from kapitza.continuation.motion import Section, ShootingFamily
from kapitza.continuation.nouns import Bifurcation, Kind
from kapitza.continuation.path import corrected_at
from kapitza.continuation.tori.circle import evaluated, resampled, spectrum
from kapitza.continuation.tori.nouns import TorusBranch
from kapitza.continuation.trace import Stepping, Trace
from kapitza.continuation.walker import Walker
from kapitza.errors import ConvergenceError, KapitzaError
from kapitza.model import Model
from kapitza.solve import ByEffort

NARROWEST = 1e-11
"""Width, relative to the size of the parameter, below which the edges of a tongue differ by rounding only."""

PHASES = 5
"""Phases at which locked orbits are looked for first."""

MOST_POINTS = 400
"""Orbits on the closed family of a tongue, at most."""

AHEAD = 0.02
"""Distance of a ratio p/q from the rotation number at an end of a family up to which its tongue is looked for."""


@dataclass(frozen=True)
class Tongue:
    """Interval of phase locking.

    In it the motion is locked to p turns in q periods.
    turns, periods: p and q; parameter, low, high: where; edges: the folds at which the locked orbits meet, in the
    order of their values (none where the interval is narrower than rounding resolves); branch: the locked orbits, which
    are a closed family. follow(tongue.edges[0], ("omega", "F")) is one border of the tongue in two parameters.

    Examples
    --------
    >>> import kapitza as kz
    >>> step = {"x": "r*x*(1 - y)", "y": "x"}
    >>> model = kz.Model.from_map(step, parameters={"r": 1.9}, start={"x": 0.45, "y": 0.45}, name="delayed logistic")
    >>> branch = kz.follow(model, None, "r", (1.8, 2.3))
    >>> tori = kz.tori(branch.of("Neimark-Sacker")[0], (1.8, 2.12))
    >>> [str(tongue.ratio) for tongue in kz.tongues(tori, most=13)]
    ['2/13']
    """

    turns: int
    periods: int
    parameter: str
    low: float
    high: float
    edges: tuple[Bifurcation, ...] = field(repr=False)
    branch: Branch = field(repr=False)

    @property
    def ratio(self) -> Fraction:
        """p/q, the rotation number in the tongue."""
        return Fraction(self.turns, self.periods)

    @property
    def width(self) -> float:
        return self.high - self.low

    @property
    def resolved(self) -> bool:
        """Are both edges located as folds?"""
        return len(self.edges) == 2 and all(edge.verified for edge in self.edges)

    def plot(self, **settings: Anything) -> Any:
        """Plot the locked orbits over the parameter.

        Stable orbits are solid, unstable ones dashed (see `report.plot_branch`).
        """
        return self.branch.plot(**{"measure": "point", **settings})

    def __str__(self) -> str:
        where = f"{self.turns}/{self.periods} locked at {self.parameter} = "
        if self.resolved:
            return f"{where}{self.low:.10g} … {self.high:.10g} (width {self.width:.3g})"
        return f"{where}{0.5 * (self.low + self.high):.10g} (narrower than rounding)"


def tongues(tori: TorusBranch, most: Count = 8, monitor: Monitor | None = None) -> tuple[Tongue, ...]:
    """Find intervals of phase locking of tori.

    Parameters
    ----------
    tori : TorusBranch
        Along one parameter.
    most : int
        Periods of the locked orbits, at most: the ratios p/q with q ≤ most that the rotation number passes, or that it
        is next to at an end of the family.
    monitor : Monitor, optional
        May stop the search.

    Returns
    -------
    tuple of Tongue
        In the order of the family. Intervals that are locked on another sheet, or away from the family, are not found.

    Examples
    --------
    >>> import kapitza as kz
    >>> step = {"x": "r*x*(1 - y)", "y": "x"}
    >>> model = kz.Model.from_map(step, parameters={"r": 1.9}, start={"x": 0.45, "y": 0.45}, name="delayed logistic")
    >>> branch = kz.follow(model, None, "r", (1.8, 2.3))
    >>> found = kz.tongues(kz.tori(branch.of("Neimark-Sacker")[0], (1.8, 2.12)), most=13)
    >>> found[0].branch.repeats
    13
    """
    if len(tori.parameters) != 1:
        raise KapitzaError("tongues takes a family of tori along one parameter, such as tori(bifurcation).")
    found: list[Tongue] = []
    crossings = list(_crossings(tori, checks.whole("most", most, least=1, error=KapitzaError)))
    with watch(monitor, f"locked motions of {tori.model.name}") as task:
        for number, share, ratio in crossings:
            try:
                found.append(_tongue(tori, number, share, ratio))
            except ConvergenceError as problem:
                task.advance(1, str(problem))
                continue
            task.advance(1, str(found[-1]))
    return tuple(found)


def _crossings(tori: TorusBranch, most: int) -> list[tuple[int, float, Fraction]]:
    """Return where the rotation number passes p/q.

    (i, share, p/q) between tori i and i + 1, or next to an end.
    """
    places: list[tuple[int, float, Fraction]] = []
    for i in range(len(tori) - 1):
        first, last = tori.rotations[i : i + 2].tolist()
        places += [(i, (float(r) - first) / (last - first), r) for r in _ratios(first, last, most)]
    if len(tori) > 1:
        for i, (inner, outer) in ((len(tori) - 2, (-2, -1)), (0, (1, 0))):
            first, last = float(tori.rotations[inner]), float(tori.rotations[outer])
            beyond = _ratios(last, last + (AHEAD if last > first else -AHEAD), most)
            # The first one that would be met: those behind it are beyond its tongue.
            nearest = sorted(beyond, key=lambda r: abs(float(r) - last))[:1]
            if tori.ends[outer].name in ("LOCKED", "ROUGH", "STEP"):
                places += [(i, 1.0 if outer == -1 else 0.0, r) for r in nearest]
    return places


def _ratios(first: float, last: float, most: int) -> list[Fraction]:
    """Return ratios between two rotation numbers.

    They are p/q with q ≤ most, in the order from the first to the last.
    """
    low, high = min(first, last), max(first, last)
    found = [
        Fraction(p, q)
        for q in range(1, most + 1)
        for p in range(ceil(low * q), floor(high * q) + 1)
        if gcd(p, q) == 1 and low < p / q <= high
    ]
    return sorted(found, reverse=first > last)


def _tongue(tori: TorusBranch, number: int, share: float, ratio: Fraction) -> Tongue:
    """Return the locked orbits at a ratio.

    The ratio is passed between two tori.
    """
    count = int(tori.counts[number : number + 2].max())
    circle, after = (resampled(tori.circle(i), count) for i in (number, number + 1))
    circle = circle + share * (after - circle)
    value, period = ((1 - share) * a[number] + share * a[number + 1] for a in (tori.values[:, 0], tori.periods))
    guess = _Guess(tori, circle, float(value), float(period), ratio)
    # The locked orbits repeat, shifted, when the phase has gone 1/q round the circle.
    nodes = [guess.locked(k / (PHASES * ratio.denominator)) for k in range(PHASES)]
    found = [node for node in nodes if node is not None]
    if not found:
        raise ConvergenceError(f"No orbit locked at {ratio} was reached near {tori.parameter} = {value:.6g}.")
    values = np.array([node.value for node in found])
    # Next to a fold the family returns to its start from the same side, which a crossing does not show.
    start = found[int(np.abs(values - 0.5 * (values.min() + values.max())).argmin())]
    narrow = len(found) > 1 and float(np.ptp(values)) <= NARROWEST * guess.size
    radius = 2 * float(spectrum(circle, guess.sizes)[1:].max())
    # About 12 steps to the part of the circle after which the locked orbits repeat.
    longest = float(np.clip(2 * np.pi * radius / ratio.denominator / 12, 1e-4, 0.1))
    branch = _closed_family(start, guess.limits, longest, narrow)
    along = branch.values[:, 0]
    folds = tuple(sorted(branch.of(Kind.FOLD), key=lambda b: b.value))
    if narrow or len(folds) < 2:
        return Tongue(*ratio.as_integer_ratio(), tori.parameter, float(along.min()), float(along.max()), (), branch)
    return Tongue(
        *ratio.as_integer_ratio(), tori.parameter, folds[0].value, folds[-1].value, (folds[0], folds[-1]), branch
    )


@dataclass(frozen=True)
class _Guess:
    """Circle whose rotation number is nearly p/q.

    Its points are nearly those of locked orbits.
    """

    tori: TorusBranch
    circle: Array
    value: float
    period: float
    ratio: Fraction

    @property
    def model(self) -> Model:
        return self.tori.model.with_values(**{self.tori.parameter: self.value})

    @property
    def limits(self) -> tuple[float, float]:
        low, high = self.model.parameter(self.tori.parameter).bounds
        return max(low, self.value - self.reach), min(high, self.value + self.reach)

    @property
    def reach(self) -> float:
        return float(np.ptp(self.tori.values[:, 0])) or abs(self.value) or 1.0

    @property
    def size(self) -> float:
        return parameter_size(self.value, self.limits)

    @property
    def free(self) -> FreeParameter:
        return FreeParameter((self.tori.parameter,), (self.size,), (self.reach,))

    @property
    def sizes(self) -> Array:
        size = np.abs(self.circle).max(axis=0)
        return np.maximum(size, 1e-3 * float(size.max()))

    def locked(self, phase: float) -> Node | None:
        """Return the locked orbit at a phase.

        Its points have this phase on the circle; the parameter is free.
        """
        q = self.ratio.denominator
        phases = phase + np.arange(float(q)) * float(self.ratio)
        nodes, along = evaluated(self.circle, phases), evaluated(self.circle, phases, 1)
        family, z = self._cycles(nodes) if self.model.is_map else self._orbits(nodes)
        steps = (self.tori.repeats or 1) if self.model.is_map else 1
        weighted = np.zeros((q * steps, nodes.shape[1]))
        weighted[::steps] = along / self.sizes**2
        row = np.zeros(z.size)
        row[: weighted.size] = weighted.ravel()
        row /= np.linalg.norm(row * family.scale)
        return corrected_at(family, z, row[None], np.array([float(row @ z)]), 1e-11).point

    def _orbits(self, nodes: Array) -> tuple[ShootingFamily, Array]:
        """Return the family of orbits of q periods.

        It goes through nodes (q, n); the unknowns there are returned too.
        """
        q, model, name = len(nodes), self.model, self.tori.parameter
        flow = branch_flow(model, (name,))
        repeats = None if self.tori.repeats is None else q * self.tori.repeats
        reference = np.stack([nodes[0], flow.rates(nodes[0], 0.0)]) if repeats is None else None
        frame = orbit_frame(model, self.free, repeats, self.sizes, q * self.period, flow)
        section = Section(float(repeats or 1), reference=reference)
        family = ShootingFamily(frame, np.arange(q) / q, section)
        return family, family.pack(nodes, q * self.period, np.array([self.value]))

    def _cycles(self, nodes: Array) -> tuple[ShootingFamily, Array]:
        """Return the family of map cycles.

        All of their points are unknowns.
        """
        model, steps, nothing = self.model, self.tori.repeats or 1, np.zeros(nodes.shape[1])
        points = np.concatenate([along_cycle(model, node, nothing, steps)[0] for node in nodes])
        return cycle_family(model, points, self.free)


def _closed_family(start: Node, limits: tuple[float, float], longest: float, narrow: bool) -> Branch:
    """Trace the closed family of locked orbits.

    Once round its loop; a few of them where it is narrow.
    """
    points = PHASES if narrow else MOST_POINTS
    stepping = Stepping(rule=ByEffort(longest / 2, 1e-8, longest, wanted=5), max_points=points)
    walker = Walker(Trace(start, limits, stepping, start.at.images(start.z), detect=not narrow))
    for _ in walker:
        continue
    return walker.branch
