"""Branches as a laboratory has them: points of a response or a backbone, or places of bifurcations, with noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kapitza import gate
from kapitza.errors import DataError

Array = NDArray[np.float64]

KINDS = ("response", "backbone", "fold", "period doubling")


@dataclass(frozen=True)
class MeasuredBranch:
    """Measured points of a family, as data for `identify`.

    kind: "response" (amplitude over a parameter, stable and unstable points alike), "backbone" (amplitude over the
    frequency of free vibrations), or "fold" and "period doubling" (values of the parameter where they were seen).
    parameter: what was moved, such as "omega". values: (N,) of it. amplitudes: (N,) half peak-to-peak values of
    `state`, for responses and backbones. value_noise, amplitude_noise: standard deviations of both.
    force, damping: for backbones, the parameters that are zero there.

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
    value_noise: float = 1e-3
    amplitude_noise: float = 1e-2
    force: str = ""
    damping: str = ""

    def __post_init__(self):
        gate.choice("kind", self.kind, KINDS, error=DataError)
        for name in ("parameter", "state", "force", "damping"):
            gate.text(name, getattr(self, name), error=DataError)
        values = np.atleast_1d(gate.array(f"The values of {self.parameter}", self.values, error=DataError))
        object.__setattr__(self, "values", values)
        if values.ndim != 1 or not values.size or not np.isfinite(values).all():
            raise DataError(f"The values of {self.parameter} must be finite numbers in one row, not {self.values!r}.")
        for name in ("value_noise", "amplitude_noise"):
            gate.number(f"{name} (a standard deviation)", getattr(self, name), above=0, error=DataError)
        if not self.curve:
            return
        if self.amplitudes is None or not self.state:
            raise DataError(f"A {self.kind} needs amplitudes and the state they belong to.")
        amplitudes = np.atleast_1d(gate.array("amplitudes", self.amplitudes, error=DataError))
        object.__setattr__(self, "amplitudes", amplitudes)
        if amplitudes.shape != values.shape or not np.isfinite(amplitudes).all():
            raise DataError(f"{values.size} values of {self.parameter} and {amplitudes.size} amplitudes do not pair.")
        if self.kind == "backbone" and not (self.force and self.damping):
            raise DataError("A backbone needs the names of force and damping, which are zero on it.")

    @property
    def curve(self) -> bool:
        """Is it a curve of amplitudes?"""
        return self.kind in ("response", "backbone")

    def __len__(self) -> int:
        return int(self.values.size)
