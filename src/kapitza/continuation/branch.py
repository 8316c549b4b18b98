"""Branch of motions with stability and bifurcations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kapitza.base import checks
from kapitza.base.argument_checks import Anything
from kapitza.base.arrays import Array
from kapitza.continuation.nouns import Bifurcation, End, Kind
from kapitza.errors import KapitzaError, Status
from kapitza.flow import Flow
from kapitza.model import Model
from kapitza.orbits import PeriodicOrbit

if TYPE_CHECKING:
    import pandas as pd


ON_CIRCLE = 1e-5
"""Multipliers of conservative orbits this close to the circle are on it: at nodes they are known to 1e-6."""

EQUILIBRIUM_FOLDS = "fold of equilibria"
"""Subject of a curve of folds of equilibria."""

RESTING = ("equilibrium", Kind.HOPF.value, EQUILIBRIUM_FOLDS)
"""Subjects whose points are states at rest, with eigenvalues in the place of multipliers."""


@dataclass(frozen=True)
class BranchPoint:
    """One point of a branch.

    point is the state (n,) at t = 0; period is 0 for an equilibrium.
    """

    index: int
    value: float
    point: Array
    period: float
    multipliers: NDArray[np.complex128]
    stability: str


@dataclass(frozen=True)
class Branch:
    """Family of motions along a parameter.

    Along `parameters[0]`; a curve of bifurcations has two parameters.
    values: (N, k) of the parameters; points: (N, n) states at t = 0; periods: (N,), 0 for equilibria; multipliers:
    (N, n) of the whole orbit, largest first (eigenvalues for equilibria); arclength: (N,); sequences: events of each
    point as a word. nodes: (ΣJ, n) and fractions: (ΣJ,) of all shooting nodes, counts: (N,) of each point, so that
    strongly unstable orbits can be computed again. ends: why the branch stops at its first and its last point.
    subject: "orbit", "equilibrium", or the kind of bifurcation that a curve follows.
    deviations: (N, n) standard deviations of the points at fixed parameter from the posterior of a fit, or None.
    model: at the values of the start; repeats: excitation periods of an orbit, None for free motions and equilibria.
    end_messages: sentences about the ends; method: of the corrector; status: INTERRUPTED where it was stopped;
    notes: further remarks.

    Examples
    --------
    >>> import kapitza as kz
    >>> model = kz.Model.from_equations(
    ...     "x'' + c*x' + x + x**3 = B*cos(omega*t)", parameters={"c": 0.1, "B": 0.3, "omega": 1.0}, period="2*pi/omega"
    ... )
    >>> branch = kz.follow(model, None, "omega", bounds=(0.9, 1.2))
    >>> [end.name for end in branch.ends]
    ['BOUND', 'BOUND']
    >>> bool(branch.amplitude("x").max() > 0.5)
    True
    """

    model: Model = field(repr=False)
    parameters: tuple[str, ...]
    values: Array = field(repr=False)
    points: Array = field(repr=False)
    periods: Array = field(repr=False)
    multipliers: NDArray[np.complex128] = field(repr=False)
    repeats: int | None
    arclength: Array = field(repr=False)
    bifurcations: tuple[Bifurcation, ...]
    ends: tuple[End, End]
    end_messages: tuple[str, str] = ("", "")
    sequences: tuple[str, ...] = field(default=(), repr=False)
    nodes: Array = field(default_factory=lambda: np.zeros((0, 0)), repr=False)
    fractions: Array = field(default_factory=lambda: np.zeros(0), repr=False)
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64), repr=False)
    subject: str = "orbit"
    method: str = "Shooting"
    status: Status = Status.CONVERGED
    deviations: Array | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()

    @property
    def parameter(self) -> str:
        return self.parameters[0]

    @property
    def autonomous(self) -> bool:
        return self.repeats is None

    @property
    def resting(self) -> bool:
        """Whether the points are equilibria.

        They may be on a branch or on a curve of their bifurcations.
        """
        return self.subject in RESTING

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[BranchPoint]:
        stability = self.stability
        for i in range(len(self)):
            yield BranchPoint(
                i, float(self.values[i, 0]), self.points[i], float(self.periods[i]), self.multipliers[i], stability[i]
            )

    @property
    def stability(self) -> tuple[str, ...]:
        """Stability of each point.

        It is "stable", "unstable" or "unknown", from multipliers (or eigenvalues) in doubles.
        Free vibrations on a backbone are called stable when no multiplier is outside of the circle.
        """
        return tuple(self._judged(row) for row in self.multipliers)

    def _judged(self, row: NDArray[np.complex128]) -> str:
        if not np.isfinite(row).all() or not row.size:
            return "unknown"
        if self.resting:
            return "stable" if row.real.max() < 0 else "unstable"
        if self.subject == "backbone":
            # The double multiplier 1 of orbits in families splits by the root of its error: it is left out.
            rest = np.delete(row, np.argsort(np.abs(row - 1), kind="stable")[:2])
            return "stable" if np.abs(rest).max(initial=0.0) < 1 + ON_CIRCLE else "unstable"
        # The trivial multiplier of an autonomous orbit is 1 and does not decide.
        rest = np.delete(row, np.argmin(np.abs(row - 1))) if self.autonomous and row.size > 1 else row
        largest = float(np.abs(rest).max())
        # Doubles do not decide on which side of the circle such a multiplier is.
        return "unknown" if abs(largest - 1) < 1e-9 else "stable" if largest < 1 else "unstable"

    def table(self) -> pd.DataFrame:
        """Return a table with one row per point.

        Parameters, states, period, largest multiplier, stability, bifurcation after it.
        """
        import pandas as pd

        columns: dict[str, Any] = {name: self.values[:, i] for i, name in enumerate(self.parameters)}
        columns |= {name: self.points[:, i] for i, name in enumerate(self.model.states)}
        if not self.resting:
            columns["period [steps]" if self.model.is_map else "period [s]"] = self.periods
        for i in range(self.multipliers.shape[1]):
            columns[f"multiplier {i + 1}"] = self.multipliers[:, i]
        columns["stability"] = self.stability
        names = [""] * len(self)
        for bifurcation in self.bifurcations:
            if 0 <= bifurcation.position < len(self):
                before = names[bifurcation.position]
                names[bifurcation.position] = f"{before}, {bifurcation.name}" if before else bifurcation.name
        columns["then"] = names
        return pd.DataFrame(columns)

    def bifurcation_table(self) -> pd.DataFrame:
        """Return a table with one row per bifurcation.

        The columns include kind, value, interval, critical multiplier and defect.
        """
        import pandas as pd

        rows: list[dict[str, object]] = []
        for b in self.bifurcations:
            row: dict[str, object] = {
                "kind": b.name,
                b.parameter: b.value,
                "period [s]": b.period,
                "critical": b.critical,
            }
            row |= {"distance": b.distance, "defect": b.defect, "note": b.note}
            if b.interval is not None:
                row |= {"low": b.interval[0], "high": b.interval[1]}
            rows.append(row)
        return pd.DataFrame(rows)

    def of(self, *kinds: Kind | str) -> tuple[Bifurcation, ...]:
        """Return the bifurcations of these kinds, in order."""
        words = [kind.value for kind in Kind]
        wanted = {
            kind if isinstance(kind, Kind) else Kind(checks.choice("kind", kind, words, error=KapitzaError))
            for kind in kinds
        }
        return tuple(b for b in self.bifurcations if b.kind in wanted)

    def _place(self, index: int) -> int:
        """Return the index of a point.

        Counted from the end where it is negative.
        """
        count = len(self)
        return checks.whole("The index of a point", index, least=-count, most=count - 1, error=KapitzaError) % count

    def vector(self, index: int) -> Array:
        """Return all parameters of the model at a point."""
        return self._vectors()[self._place(index)]

    def _vectors(self) -> Array:
        """Return all parameters of the model at all points."""
        # A model per point would take longer than the continuation itself.
        vectors = np.tile(self.model.vector, (len(self), 1))
        vectors[:, [self.model.names.index(name) for name in self.parameters]] = self.values
        return vectors

    def orbit(self, index: int) -> PeriodicOrbit:
        """Return the orbit at a point.

        It has certified multipliers, profile and closure (computed on demand).
        """
        if self.resting:
            raise KapitzaError(f"A branch of {self.subject} points holds no orbits: its points are states.")
        from kapitza.continuation.orbit_at import orbit_at

        return orbit_at(self, self._place(index))

    def nodes_of(self, index: int) -> tuple[Array, Array]:
        """Return fractions (J,), nodes (J, n) of a point."""
        index = self._place(index)
        if self.counts.size == 0:
            raise KapitzaError(f"A branch of {self.subject} points holds no nodes: its points are states.")
        begin = int(self.counts[:index].sum())
        stop = begin + int(self.counts[index])
        return self.fractions[begin:stop], self.nodes[begin:stop]

    def extent(self, name: str, samples: int = 128) -> tuple[Array, Array]:
        """Return smallest and largest values along each orbit.

        Both are (N,), of a state or coordinate; for equilibria both are its value.
        """
        if name not in self.model.states:
            raise KapitzaError(f'There is no state "{name}": {", ".join(self.model.states)}.')
        column = self.model.states.index(name)
        if self.resting:
            return self.points[:, column], self.points[:, column]
        if self.model.is_map:
            own = self.nodes[:, column].reshape(len(self), -1)
            return own.min(axis=1), own.max(axis=1)
        states = self.profiles(samples)
        own = states[:, :, column]
        # Newton on the rate needs smooth rates and a state that returns: the samples serve elsewhere.
        if self.sequences or self.model.impacts or self.model.angles[column]:
            return own.min(axis=1), own.max(axis=1)
        low, high = (self._extremum(states, column, places) for places in (own.argmin(axis=1), own.argmax(axis=1)))
        return np.minimum(low, own.min(axis=1)), np.maximum(high, own.max(axis=1))

    def _extremum(self, states: Array, column: int, places: NDArray[np.intp]) -> Array:
        """Refine extreme values by Newton on the rate.

        The result is the extreme values (N,) of a state next to samples (N,) of profiles (N, samples, n).
        """
        from kapitza.orbits.of_models import VectorField

        flow, field, count = Flow(self.model), VectorField(self.model), len(self)
        vectors = self._vectors()
        reach = self.periods / states.shape[1]
        # Every run begins at the sample before and goes forwards, as motions with switches must.
        before = (places - 1) % states.shape[1]
        begun, begins = states[np.arange(count), before], before * reach
        x, moved = states[np.arange(count), places], reach.copy()
        for _ in range(4):
            times = begins + moved
            steps = np.zeros(count)
            for i in range(count):
                at = field.derivatives(x[i : i + 1], times[i : i + 1], vectors[i])
                bend = float(at.by_state[0, column] @ at.rates[0] + at.by_time[0, column])
                steps[i] = -at.rates[0, column] / bend if bend else 0.0
            # A Newton step must not leave the two intervals beside the extreme sample.
            steps = np.clip(moved + steps, 0.0, 2 * reach) - moved
            if np.abs(steps).max(initial=0.0) <= 1e-12 * reach.max(initial=0.0):
                break
            moved = moved + steps
            x = flow.propagate_many(begun, begins, begins + moved, vectors).state
        return x[:, column]

    def profiles(self, samples: int = 128) -> Array:
        """Return states over one period of each orbit.

        They are (N, samples, n), with continuous angles.
        """
        checks.whole("samples", samples, least=1, error=KapitzaError)
        if self.resting:
            raise KapitzaError(f"A branch of {self.subject} points holds no orbits, and no profiles.")
        if self.model.is_map:
            raise KapitzaError("Cycles of a map have no profiles between their points: see branch.nodes_of(index).")
        flow, count = Flow(self.model), len(self)
        grid = np.arange(samples) / samples
        vectors = self._vectors()
        # One run from the start serves while growth over the orbit is small.
        single = self.counts.size == 0 or (self.counts == 1).all()
        if single and not self.model.impacts and not self.sequences:
            times = np.multiply.outer(self.periods, grid)
            return flow.paths(self.points, times, vectors)
        result = np.empty((count, samples, self.points.shape[1]))
        for i in range(count):
            fractions, nodes = self.nodes_of(i) if not single else (np.zeros(1), self.points[i : i + 1])
            edges = np.append(fractions, 1.0)
            for j in range(len(nodes)):
                inside = (grid >= edges[j]) & (grid < edges[j + 1])
                if inside.any():
                    times = np.append(edges[j], grid[inside]) * self.periods[i]
                    distinct, back = np.unique(times, return_inverse=True)
                    if distinct.size > 1:
                        result[i, inside] = flow.trajectory(nodes[j], distinct, vectors[i])[back][1:]
                    else:
                        result[i, inside] = nodes[j]
        return result

    def amplitude(self, name: str, samples: int = 128) -> Array:
        """Return half the peak-to-peak value of a state.

        The values (N,) are taken along each orbit.
        """
        low, high = self.extent(name, samples)
        return (high - low) / 2

    def with_(self, **changes: Anything) -> Branch:
        return replace(self, **changes)

    def __str__(self) -> str:
        low, high = self.values[:, 0].min(), self.values[:, 0].max()
        lines = [
            f"Branch of {self.model.name} ({self.subject}): {len(self)} points, "
            f"{self.parameter} from {low:.6g} to {high:.6g}",
            *(f"  {bifurcation}" for bifurcation in self.bifurcations),
            f"  begins: {self.ends[0].value} ({self.end_messages[0]})",
            f"  ends: {self.ends[1].value} ({self.end_messages[1]})",
        ]
        return "\n".join(lines)

    def plot(self, **settings: Anything) -> Any:
        """Plot the branch over its parameter.

        Lines are solid where stable, dashed where not (see `report.plot_branch`).
        """
        from kapitza.report import plot_branch

        return plot_branch(self, **settings)

    def waterfall(self, **settings: Anything) -> Any:
        """Plot profiles along the branch (see `report.plot_waterfall`)."""
        from kapitza.report import plot_waterfall

        return plot_waterfall(self, **settings)

    def report(self, path: str | Path, **settings: Anything) -> Any:
        """Write an interactive HTML page.

        Click a point to see the orbit and its multipliers.
        """
        from kapitza.report import write_branch_page

        return write_branch_page(self, path, **settings)
