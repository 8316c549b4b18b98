"""Branches measured in a laboratory.

They hold points of a response or a backbone, or places of bifurcations, with noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kapitza.base import checks
from kapitza.base.arrays import Array
from kapitza.errors import DataError

KINDS = ("response", "backbone", "cycle", "fold", "period doubling")


@dataclass(frozen=True)
class MeasuredBranch:
    """Measured points of a family, as data for `identify`.

    kind: "response" (amplitude over a parameter, stable and unstable points alike), "backbone" (amplitude over the
    frequency of free vibrations), "cycle" (limit cycles of a model without drive, amplitude over a parameter), or
    "fold" and "period doubling" (values of the parameter where they were seen).
    parameter: what was moved, such as "omega". values: (N,) of it. amplitudes: (N,) half peak-to-peak values of
    `state`, for curves. value_noise, amplitude_noise: standard deviations of both, one for all points or (N,).
    force, damping: for backbones, the parameters that are zero there.
    periods: (N,) [s] of limit cycles, where they were measured, with period_noise.
    phases: (N,) [rad] of responses, φ in a cos(ωt + φ), the first harmonic of `state` at the frequency of the drive,
    with t = 0 as in the model; with phase_noise. Without them the sign of a force is not known.

    Examples
    --------
    >>> import kapitza as kz
    >>> curve = kz.MeasuredBranch("response", "omega", [0.8, 1.2], [0.5, 0.9], state="x", amplitude_noise=0.01)
    >>> len(curve)
    2
    """

    kind: str
    parameter: str
    values: Array
    amplitudes: Array | None = None
    state: str = ""
    value_noise: float | Array = 1e-3
    amplitude_noise: float | Array = 1e-2
    force: str = ""
    damping: str = ""
    periods: Array | None = None
    period_noise: float | Array = 1e-3
    phases: Array | None = None
    phase_noise: float | Array = 1e-2

    def __post_init__(self):
        checks.choice("kind", self.kind, KINDS, error=DataError)
        for name in ("parameter", "state", "force", "damping"):
            checks.text(name, getattr(self, name), error=DataError)
        values = np.atleast_1d(checks.array(f"The values of {self.parameter}", self.values, error=DataError))
        object.__setattr__(self, "values", values)
        if values.ndim != 1 or not values.size or not np.isfinite(values).all():
            raise DataError(f"The values of {self.parameter} must be finite numbers in one row, not {self.values!r}.")
        for name in ("value_noise", "amplitude_noise", "period_noise", "phase_noise"):
            self._check_noise(name, values.size)
        for name, kind in (("periods", "cycle"), ("phases", "response")):
            self._check_more(name, kind, values.size)
        if not self.curve:
            return
        if self.amplitudes is None or not self.state:
            raise DataError(f"A {self.kind} needs amplitudes and the state they belong to.")
        amplitudes = np.atleast_1d(checks.array("amplitudes", self.amplitudes, error=DataError))
        object.__setattr__(self, "amplitudes", amplitudes)
        if amplitudes.shape != values.shape or not np.isfinite(amplitudes).all():
            raise DataError(f"{values.size} values of {self.parameter} and {amplitudes.size} amplitudes do not pair.")
        if self.kind == "backbone" and not (self.force and self.damping):
            raise DataError("A backbone needs the names of force and damping, which are zero on it.")

    def _check_noise(self, name: str, count: int) -> None:
        """Check the noise of the points.

        It is one standard deviation for all points, or one for each.
        """
        given = getattr(self, name)
        if np.ndim(given) == 0:
            checks.number(f"{name} (a standard deviation)", given, above=0, error=DataError)
            return
        each = checks.array(name, given, error=DataError)
        if each.shape != (count,) or not np.isfinite(each).all() or not (each > 0).all():
            raise DataError(
                f"{name} has the shape {each.shape} for {count} points: give one standard deviation, or one for each "
                "point, all of them more than 0."
            )
        object.__setattr__(self, name, each)

    def _check_more(self, name: str, kind: str, count: int) -> None:
        """Check the periods or phases of the points.

        Cycles have periods, responses phases: one for each point.
        """
        if getattr(self, name) is None:
            return
        if self.kind != kind:
            raise DataError(f'{name} belong to points of kind "{kind}", not of "{self.kind}".')
        each = np.atleast_1d(checks.array(name, getattr(self, name), error=DataError))
        if each.shape != (count,) or not np.isfinite(each).all():
            raise DataError(f"{count} values of {self.parameter} and {each.size} {name} do not pair.")
        object.__setattr__(self, name, each)

    @property
    def curve(self) -> bool:
        """Return whether it is a curve of amplitudes."""
        return self.kind in ("response", "backbone", "cycle")

    @property
    def coordinates(self) -> Array:
        """Return the points (N, d).

        Columns: values, amplitudes, and periods or phases where there are any: d = 2 or 3.
        """
        assert self.amplitudes is not None
        more = [each for each in (self.periods, self.phases) if each is not None]
        return np.stack([self.values, self.amplitudes, *more], axis=1)

    @property
    def noises(self) -> Array:
        """Return the standard deviations (N, d) of the coordinates."""
        more = [
            noise
            for noise, each in ((self.period_noise, self.periods), (self.phase_noise, self.phases))
            if each is not None
        ]
        columns = [self.value_noise, self.amplitude_noise, *more]
        return np.stack([np.broadcast_to(np.asarray(c, float), self.values.shape) for c in columns], axis=1)

    def __len__(self) -> int:
        return int(self.values.size)
