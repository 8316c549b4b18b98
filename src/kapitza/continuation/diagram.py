"""Bifurcation diagrams, and unconnected branches by deflation.

Diagrams go to a depth of branch switches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from kapitza.base import checks
from kapitza.base.angles import difference
from kapitza.base.argument_checks import Anything
from kapitza.base.arrays import Array
from kapitza.base.monitor import Interrupted, Monitor, Silent, watch
from kapitza.continuation.branch import Branch
from kapitza.continuation.follow import follow
from kapitza.continuation.nouns import Bifurcation, End, Kind
from kapitza.continuation.switch import SWITCHES, switch_branch
from kapitza.continuation.trace import Stepping
from kapitza.errors import ConvergenceError, FlowError, KapitzaError, Status
from kapitza.model import Model
from kapitza.orbits import PeriodicOrbit
from kapitza.orbits.of_models import Guess, OrbitSolver, solve_orbit
from kapitza.solve import ByEffort

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Diagram:
    """Branches that leave each other at bifurcations.

    branches: in the order they were found; parents: for each the index of its parent (-1 for the first); levels: how
    many switches lead to it; failed: bifurcations at which no branch was reached, with the reason; origins: the
    bifurcation at which each left its parent (None for the first). status: INTERRUPTED where it was stopped.

    Examples
    --------
    >>> import kapitza as kz
    >>> model = kz.library.duffing()
    >>> tree = kz.diagram(model, {"x": -0.2, "x'": 0.0}, "B", (0.15, 0.25), depth=1)
    >>> tree.parents[0], tree.levels[0], tree.status.name
    (-1, 0, 'CONVERGED')
    """

    branches: tuple[Branch, ...]
    parents: tuple[int, ...]
    levels: tuple[int, ...]
    failed: tuple[tuple[Bifurcation, str], ...] = ()
    status: Status = Status.CONVERGED
    origins: tuple[Bifurcation | None, ...] = ()

    def __iter__(self) -> Iterator[Branch]:
        return iter(self.branches)

    def __len__(self) -> int:
        return len(self.branches)

    def table(self) -> pd.DataFrame:
        """Return one row per bifurcation of every branch."""
        import pandas as pd

        tables = [b.bifurcation_table().assign(branch=i, level=self.levels[i]) for i, b in enumerate(self.branches)]
        return pd.concat([t for t in tables if len(t)], ignore_index=True) if any(len(t) for t in tables) else tables[0]

    def cascade(self) -> Array:
        """Return values of the longest chain of doublings.

        Each value is that of the first doubling on a branch; the next branch left at it.
        The chain may begin on any branch, such as that of the orbits born at a Hopf point of the first one.
        """
        chains = [self._chain(at) for at in range(len(self.branches)) if not self._doubled(at)]
        return np.array(max(chains, key=len, default=list[float]()), float)

    def _doubled(self, at: int) -> bool:
        origin = self.origins[at] if self.origins else None
        return origin is not None and origin.kind is Kind.DOUBLING

    def _chain(self, at: int) -> list[float]:
        """Return values of doublings from a branch on."""
        doublings = self.branches[at].of(Kind.DOUBLING)
        chains: list[list[float]] = []
        for point in doublings:
            children = [i for i, o in enumerate(self.origins) if self.parents[i] == at and _same(o, point)]
            chains += [[point.value, *self._chain(i)] for i in children] or [[point.value]]
        # Of equally long chains that of the first doubling counts.
        return max(chains, key=len, default=list[float]())

    def __str__(self) -> str:
        parts: list[str] = []
        for at, branch in enumerate(self.branches):
            origin = self.origins[at] if self.origins else None
            head = f"{at}: " if origin is None else f"{at}, from {self.parents[at]} at {origin}: "
            parts += [head + str(branch)]
        parts += [f"not reached from {point}: {reason}" for point, reason in self.failed]
        return "\n".join(parts)

    def plot(self, **settings: Anything) -> Any:
        from kapitza.report import plot_diagram

        return plot_diagram(self, **settings)


def diagram(
    model: Model,
    start: Guess,
    parameter: str,
    bounds: tuple[float, float] | None = None,
    *,
    depth: int = 2,
    max_branches: int = 40,
    max_points: int = 400,
    period: float | None = None,
    direction: int = 0,
    method: Anything = None,
    half_map: bool = False,
    equilibrium: bool = False,
    stepping: Stepping | None = None,
    monitor: Monitor | None = None,
) -> Diagram:
    """Follow a branch and all that leave it.

    Branches are switched to at every bifurcation, and again on the new branches, up to `depth` switches.

    Steps and first amplitudes shrink with the level (0.4 and 0.3 each), because each doubling of a cascade lives in a
    range several times shorter than the one before. A branch that returns to one already there is not followed twice.

    Parameters
    ----------
    model : Model
        The equations.
    start
        An orbit, or anything that `solve_orbit` takes for a guess.
    parameter : str
        Along which the branches are followed.
    bounds : (float, float), optional
        Between which it may move.
    depth : int
        Switches, one after the other, up to which branches are followed.
    max_branches, max_points : int
        After so many branches, and points of each, the search ends.
    period, direction, method, half_map, equilibrium : optional
        Of the first branch, as in `follow`.
    stepping : Stepping, optional
        Of the first branch.
    monitor : Monitor, optional
        Cancelled or interrupted by Ctrl-C, the diagram holds what was found.

    Returns
    -------
    Diagram
        The branches, which left which, and the bifurcations at which none was reached.

    Examples
    --------
    >>> import kapitza as kz
    >>> tree = kz.diagram(kz.library.duffing(), {"x": -0.2, "x'": 0.0}, "B", (0.15, 0.25), depth=1)
    >>> len(tree.branches) >= 1
    True
    """
    for what, value, least in (("depth", depth, 0), ("max_branches", max_branches, 1), ("max_points", max_points, 1)):
        checks.whole(what, value, least=least, error=KapitzaError)
    branches: list[Branch] = []
    parents, levels, origins = [-1], [0], cast(list[Bifurcation | None], [None])
    failed: list[tuple[Bifurcation, str]] = []
    place = 0
    with watch(monitor, f"diagram of {model.name}") as task:
        first = follow(
            model, start, parameter, bounds, period=period, direction=direction, method=method, half_map=half_map,
            equilibrium=equilibrium, stepping=stepping, monitor=Silent(),
        )  # fmt: skip
        branches.append(first)
        _go_on_after(branches[0])
        while place < len(branches) and len(branches) < max_branches:
            level = levels[place]
            for point in branches[place].bifurcations if level < depth else ():
                if point.kind not in SWITCHES or len(branches) >= max_branches or _is_end(branches, point):
                    continue
                task.advance(1, f"{len(branches)} branches, leaving at {point}")
                try:
                    child = _left(point, bounds, level, max_points)
                except (ConvergenceError, FlowError) as problem:
                    failed.append((point, str(problem)))
                    continue
                if not any(_retraced(child, known) for known in branches):
                    branches.append(child)
                    parents.append(place)
                    levels.append(level + 1)
                    origins.append(point)
                _go_on_after(child)
            place += 1
    return Diagram(tuple(branches), tuple(parents), tuple(levels), tuple(failed), task.status, tuple(origins))


def _same(origin: Bifurcation | None, point: Bifurcation) -> bool:
    return origin is not None and origin.kind is point.kind and origin.value == point.value


def _is_end(branches: list[Branch], point: Bifurcation) -> bool:
    """Return whether a known branch ends here.

    If so, that branch is the one that leaves at this bifurcation.
    """
    for branch in branches:
        if End.HOPF not in branch.ends and End.MERGED not in branch.ends:
            continue
        size = max(float(np.abs(branch.points).max()), 1e-300)
        for other in branch.bifurcations:
            same = other.kind is point.kind and np.isclose(other.value, point.value, rtol=1e-7, atol=1e-12)
            near = same and np.abs(other.point - point.point).max() < 1e-5 * size
            if near and str(other) in branch.end_messages:
                return True
    return False


def _go_on_after(branch: Branch) -> None:
    """Stop the diagram when a branch was interrupted.

    Ctrl-C interrupts it; the part of the branch that was followed is kept.
    """
    if branch.status is Status.INTERRUPTED:
        raise Interrupted


def _left(point: Bifurcation, bounds: Any, level: int, max_points: int) -> Branch:
    shrink = 0.3**level
    # Longer steps skip the next doubling of a cascade.
    largest = 0.3 * 0.4 ** (level + 1)
    rule = ByEffort(min(1e-3 * shrink, largest), min(1e-10, 1e-3 * largest), largest, wanted=6)
    stepping = Stepping(rule=rule, max_points=max_points)
    return switch_branch(point, bounds, amplitude=1e-3 * shrink, stepping=stepping, monitor=Silent())


def _retraced(child: Branch, known: Branch) -> bool:
    """Return whether a new branch is known.

    Its middle is compared, because both ends of a bridge are bifurcations.
    """
    if child.repeats != known.repeats or len(child) < 3 or child.subject != known.subject:
        return False
    # The ends of a branch are bifurcations, which belong to other branches too.
    middle = len(child) // 2
    value = child.values[middle, 0]
    column = known.values[:, 0]
    for i in np.flatnonzero((column[:-1] - value) * (column[1:] - value) <= 0):
        span = column[i + 1] - column[i]
        share = 0.0 if span == 0 else (value - column[i]) / span
        there = known.points[i] + share * (known.points[i + 1] - known.points[i])
        size = np.maximum(np.abs(known.points).max(axis=0), 1e-6)
        step = np.abs(difference(known.points[i + 1], known.points[i], known.model.angles) / size).max()
        near = np.abs(difference(child.points[middle], there, known.model.angles) / size).max()
        if near < 0.1 * step + 1e-6:
            return True
    return False


@dataclass(frozen=True)
class Deflated:
    """Deflated shooting equations.

    The equations are x(T) - x = 0 multiplied by Π (1/|x - x_k|² + 1): known solutions x_k no longer attract Newton.
    The factor is that of P. E. Farrell, Á. Birkisson, S. W. Funke, SIAM J. Sci. Comput. 37 (2015) A2026, on shooting.
    """

    solver: OrbitSolver
    known: tuple[Array, ...]
    sizes: Array
    angles: NDArray[np.bool_]
    parameters: Any = None
    found: list[Array] = field(default_factory=list[Array])

    def search(self, starts: Array, max_iterations: int = 40) -> list[Array]:
        """Return new fixed points (n,) from starts (M, n)."""
        new: list[Array] = []
        for start in starts:
            point = self._newton(np.array(start, float), [*self.known, *new], max_iterations)
            if point is not None:
                new.append(point)
        return new

    def _newton(self, x: Array, known: list[Array], max_iterations: int) -> Array | None:
        flow, period = self.solver.problem.flow, self.solver.problem.period
        for _ in range(max_iterations):
            try:
                run = flow.propagate(x, 0.0, period, self.parameters)
            except FlowError:
                return None
            assert run.jacobian is not None
            gap = difference(run.state, x, self.angles)
            try:
                step = -np.linalg.solve(run.jacobian - np.eye(x.size), gap)
            except np.linalg.LinAlgError:
                return None
            # Newton on m(x) F(x) is the plain step over 1 - (∇m/m)·step (Sherman-Morrison).
            pull = 0.0
            for other in known:
                away = difference(x, other, self.angles) / self.sizes
                square = float(away @ away) + 1e-300
                # Derivative of ln Π(1/|x - x_k|² + 1) along the step.
                pull += float(-2 * (away / self.sizes) @ step / (square * (1 + square)))
            # The deflation may turn or stretch the step without limit.
            factor = 1.0 / (1.0 - pull) if abs(1.0 - pull) > 1e-8 else 1e8
            move = step * factor
            size = float(np.abs(move / self.sizes).max())
            # Steps beyond twice the size of the orbits leave the region of interest.
            x = x + move * min(1.0, 2.0 / max(size, 1e-300))
            if not np.isfinite(x).all():
                return None
            if float(np.abs(step / self.sizes).max()) < 1e-10 and size < 1e-8:
                near = [np.abs(difference(x, other, self.angles) / self.sizes).max() for other in known]
                return None if near and min(near) < 1e-6 else x
        return None


def other_orbits(
    model: Model,
    known: list[PeriodicOrbit],
    period: int = 1,
    starts: int = 40,
    spread: float = 1.5,
    seed: int = 0,
    monitor: Monitor | None = None,
) -> list[PeriodicOrbit]:
    """Find further orbits of the same period.

    Those that are not among the known ones, by deflation from random starts around them.

    Each can begin a branch that is not connected to the known ones. Only forced models: the phase of autonomous orbits
    is not deflated.

    Parameters
    ----------
    model : Model
        A forced one.
    known : list of PeriodicOrbit
        Orbits to stay away from.
    period : int
        Excitation periods after which the others repeat.
    starts : int
        How many random starts.
    spread : float
        How far around the known orbits, in units of their size.
    seed : int
        Of the starts.
    monitor : Monitor, optional
        Progress; when it is stopped, the orbits that are found are returned.

    Returns
    -------
    list of PeriodicOrbit
        Those found, each once.

    Examples
    --------
    >>> import kapitza as kz
    >>> model = kz.Model.from_equations("x'' + 0.3*x' - x + x**3 = 0.02*cos(t)", period="2*pi")
    >>> first = kz.solve_orbit(model, {"x": 1.0, "x'": 0.0})
    >>> [round(float(o.points[0, 0])) for o in kz.other_orbits(model, [first], starts=20, spread=3.0)]
    [0, -1]
    """
    model.needs_period("orbits")
    if model.period is None:
        raise KapitzaError(f'"{model.name}" is autonomous: look for other orbits with find_orbits(model).')
    checks.whole("starts", starts, least=1, error=KapitzaError)
    checks.number("spread", spread, above=0, error=KapitzaError)
    known = checks.items("known", known, error=KapitzaError)
    given: list[object] = [*known]
    for orbit in given:
        if not isinstance(orbit, PeriodicOrbit):
            raise KapitzaError(f"known holds {checks.shown(orbit)}; give orbits, as solve_orbit gives them.")
        if orbit.points.shape[1] != len(model.states):
            raise KapitzaError(
                f'known holds an orbit of {", ".join(orbit.states)}; "{model.name}" has the states '
                f"{', '.join(model.states)}: give orbits of this model."
            )
    solver = OrbitSolver(model, period)
    points = [p for orbit in known for p in orbit.points]
    sizes = np.maximum(np.abs(np.array(points)).max(axis=0), 1e-3) if points else np.ones(len(model.states))
    sizes = np.maximum(sizes, 0.1 * sizes.max())
    angles = np.array(model.angles, bool)
    sizes[angles] = np.pi / max(spread, 1e-3)
    random = np.random.default_rng(checks.seed(seed, error=KapitzaError))
    # Other orbits may be much larger or smaller than those that are known.
    reach = np.where(angles, 1.0, 10.0 ** random.uniform(-0.5, 1.0, (starts, 1)))
    around = sizes * spread * reach * random.uniform(-1, 1, (starts, sizes.size))
    search = Deflated(solver, tuple(np.array(p) for p in points), sizes, angles)
    found: list[PeriodicOrbit] = []
    with watch(monitor, f"other orbits of {model.name}", starts) as task:
        for start in around:
            seen = [*points, *(p for orbit in found for p in orbit.points)]
            new = replace(search, known=tuple(seen)).search(start[None])
            if new:
                orbit = solve_orbit(model, new[0], period, throw=False, profile=False)
                if orbit.status.ok:
                    found.append(orbit)
            task.advance(1, f"{len(found)} orbits")
    return found
