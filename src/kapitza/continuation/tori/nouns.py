"""Types of quasi-periodic motions.

They are `Torus` and `TorusBranch`, a family of tori.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kapitza.base import checks
from kapitza.base.argument_checks import Anything
from kapitza.base.arrays import Array
from kapitza.continuation.nouns import End
from kapitza.continuation.tori.circle import evaluated
from kapitza.errors import KapitzaError, Status
from kapitza.flow import Flow
from kapitza.model import Model

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Torus:
    """One quasi-periodic motion, by its invariant circle.

    The circle u(s) holds its states at the instants t = 0, T, 2T, …: P(u(s)) = u(s + ρ).

    model: at its values; circle: (M, n) states at the phases s = 0, 1/M, …; rotation: ρ, turns in one period T;
    period: T, of the excitation times `repeats` (of the first frequency for autonomous models; steps for maps);
    repeats: None for autonomous models. exponent: largest normal exponent per period, negative where the torus
    attracts. defect: largest |P(u) - u(s + ρ)| half way between the phases, in units of the circle's radius.

    Examples
    --------
    >>> import kapitza as kz
    >>> step = {"x": "(1 + mu - x**2 - y**2)*(c*x - s*y)", "y": "(1 + mu - x**2 - y**2)*(s*x + c*y)"}
    >>> model = kz.Model.from_map(step, parameters={"mu": -0.1, "c": 0.6, "s": 0.8})
    >>> branch = kz.follow(model, {"x": 0.0, "y": 0.0}, "mu", (-0.2, 0.3))
    >>> torus = kz.tori(branch.of("Neimark-Sacker")[0], (-0.2, 0.25)).torus(-1)
    >>> round(float(abs(torus.states([0.3])).max()) ** 2 + float(abs(torus.states([0.3])).min()) ** 2, 9)
    0.25
    """

    model: Model = field(repr=False)
    circle: Array = field(repr=False)
    rotation: float
    period: float
    repeats: int | None
    exponent: float
    defect: float

    @property
    def frequencies(self) -> tuple[float, float]:
        """Angular frequencies of the torus.

        2π/T and 2πρ/T (whole multiples of the first may be added to the second).
        """
        return 2 * np.pi / self.period, 2 * np.pi * self.rotation / self.period

    @property
    def stability(self) -> str:
        """ "stable", "unstable" or "unknown"."""
        return _stability(self.exponent)

    def states(self, phases: Anything) -> Array:
        """Return states (Q, n) at phases (Q,) in turns."""
        return evaluated(self.circle, checks.array("phases", phases, error=KapitzaError).ravel())

    def surface(self, phases: int = 64, instants: int = 64) -> Array:
        """Return states X(t, s) on the torus.

        The states (instants, phases, n) have the period T in t and 1 in s.
        The motion that begins at u(s) is x(t) = X(t, s + ρt/T).
        """
        checks.whole("phases", phases, least=1, error=KapitzaError)
        checks.whole("instants", instants, least=1, error=KapitzaError)
        if self.model.is_map:
            raise KapitzaError("The invariant circle of a map has no surface: see torus.states(phases).")
        times = np.arange(instants) / instants * self.period
        paths = Flow(self.model).paths(self.circle, np.tile(times, (len(self.circle), 1))).transpose(1, 0, 2)
        # The motion that began at u(s) is at the phase s + ρt/T now: interpolated back to the phases of the grid.
        grid = np.arange(phases) / phases
        turned = [evaluated(row, grid - self.rotation * t / self.period) for row, t in zip(paths, times, strict=True)]
        return np.array(turned)

    def plot(self, **settings: Anything) -> Any:
        """Plot the circle in two states.

        See `report.plot_torus`.
        """
        from kapitza.report import plot_torus

        return plot_torus(self, **settings)

    def __str__(self) -> str:
        return (
            f"Torus of {self.model.name}: rotation number {self.rotation:.10g}, period {self.period:.6g}, "
            f"{self.stability} (normal exponent {self.exponent:.4g} per period), defect {self.defect:.1e}"
        )


@dataclass(frozen=True)
class TorusBranch:
    """Family of tori along a parameter.

    With two parameters it is the curve of one rotation number.

    values: (N, k) of the parameters; rotations: (N,); periods: (N,); exponents: (N,) normal, per period; defects:
    (N,).
    nodes: (ΣM, n) of all circles, counts: (N,) phases of each. ends: why it stops at its first and its last torus.
    model: at the values of the start; repeats: None for autonomous models. end_messages: more about the ends; status:
    INTERRUPTED where it was stopped; notes: what else is worth knowing.

    Examples
    --------
    >>> import kapitza as kz
    >>> step = {"x": "(1 + mu - x**2 - y**2)*(c*x - s*y)", "y": "(1 + mu - x**2 - y**2)*(s*x + c*y)"}
    >>> model = kz.Model.from_map(step, parameters={"mu": -0.1, "c": 0.6, "s": 0.8})
    >>> branch = kz.follow(model, {"x": 0.0, "y": 0.0}, "mu", (-0.2, 0.3))
    >>> tori = kz.tori(branch.of("Neimark-Sacker")[0], (-0.2, 0.25))
    >>> tori.ends[1].name, set(tori.stability)
    ('BOUND', {'stable'})
    """

    model: Model = field(repr=False)
    parameters: tuple[str, ...]
    values: Array = field(repr=False)
    rotations: Array = field(repr=False)
    periods: Array = field(repr=False)
    exponents: Array = field(repr=False)
    defects: Array = field(repr=False)
    nodes: Array = field(repr=False)
    counts: NDArray[np.int64] = field(repr=False)
    repeats: int | None
    ends: tuple[End, End]
    end_messages: tuple[str, str] = ("", "")
    status: Status = Status.CONVERGED
    notes: tuple[str, ...] = ()

    @property
    def parameter(self) -> str:
        return self.parameters[0]

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Torus]:
        return (self.torus(i) for i in range(len(self)))

    @property
    def stability(self) -> tuple[str, ...]:
        """Return the stability of each torus.

        It is "stable", "unstable" or "unknown", from the normal exponent.
        """
        return tuple(_stability(exponent) for exponent in self.exponents.tolist())

    def circle(self, index: int) -> Array:
        """Return the states (M, n) of circle `index`."""
        count = len(self)
        index = checks.whole("The index of a torus", index, least=-count, most=count - 1, error=KapitzaError) % count
        begin = int(self.counts[:index].sum())
        return self.nodes[begin : begin + int(self.counts[index])]

    def torus(self, index: int) -> Torus:
        """Return the torus number `index`.

        Counted from the end where it is negative.
        """
        circle = self.circle(index)
        model = self.model.with_values(**dict(zip(self.parameters, self.values[index].tolist(), strict=True)))
        return Torus(
            model, circle, float(self.rotations[index]), float(self.periods[index]), self.repeats,
            float(self.exponents[index]), float(self.defects[index]),
        )  # fmt: skip

    def amplitude(self, name: str) -> Array:
        """Return half the peak-to-peak value of a state.

        The values (N,) are taken along each circle.
        """
        if name not in self.model.states:
            raise KapitzaError(f'There is no state "{name}": {", ".join(self.model.states)}.')
        column, phases = self.model.states.index(name), np.arange(512) / 512
        fine = (evaluated(self.circle(i), phases)[:, column] for i in range(len(self)))
        return np.array([np.ptp(row) / 2 for row in fine])

    def table(self) -> pd.DataFrame:
        """Return a table with one row per torus.

        Parameters, rotation number, period, normal exponent, stability, defect, phases.
        """
        import pandas as pd

        columns: dict[str, Any] = {name: self.values[:, i] for i, name in enumerate(self.parameters)}
        columns |= {"rotation number": self.rotations, "period": self.periods, "normal exponent": self.exponents}
        columns |= {"stability": self.stability, "defect": self.defects, "phases": self.counts}
        return pd.DataFrame(columns)

    def with_(self, **changes: Anything) -> TorusBranch:
        return replace(self, **changes)

    def plot(self, **settings: Anything) -> Any:
        """Plot rotation numbers, amplitudes or circles.

        The abscissa is the parameter (see `report.plot_tori`).
        """
        from kapitza.report import plot_tori

        return plot_tori(self, **settings)

    def __str__(self) -> str:
        low, high = self.values[:, 0].min(), self.values[:, 0].max()
        return "\n".join(
            [
                f"Tori of {self.model.name}: {len(self)}, {self.parameter} from {low:.6g} to {high:.6g}, "
                f"rotation number from {self.rotations[0]:.6g} to {self.rotations[-1]:.6g}",
                f"  begins: {self.ends[0].value} ({self.end_messages[0]})",
                f"  ends: {self.ends[1].value} ({self.end_messages[1]})",
            ]
        )


def _stability(exponent: float) -> str:
    if not np.isfinite(exponent) or abs(exponent) < 1e-9:
        return "unknown"
    return "stable" if exponent < 0 else "unstable"
