"""Test functions with compact support, and their integrals.

The functions are φ_0(x) = (1 - x²)^p on |x| < 1 and its products with cos and sin of whole numbers of half turns.
Moving derivatives from the data onto φ costs no boundary terms: φ and its first p - 1 derivatives vanish at both ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kapitza.base.arrays import Numbers

BLOCK = 8192
"""Samples of a long record that are evaluated together."""


FEW_PRODUCTS = 250_000
"""Multiplications of a matrix product that OpenBLAS does not share between threads (its limit is 262,144).

Threads wait for each other with the processor busy: they took four fifths of the processor time of long records.
"""


@dataclass(frozen=True)
class Windows:
    """Test functions in overlapping windows.

    Each covers `parts` strides of `stride` samples; one window starts every stride.
    modulation: number of harmonics that multiply the bump, so each window carries 1 + 2 modulation functions.
    """

    stride: int
    parts: int
    modulation: int
    step: float
    power: int = 6

    @property
    def width(self) -> int:
        """Samples under one test function."""
        return self.stride * self.parts

    @property
    def functions(self) -> int:
        return 1 + 2 * self.modulation

    @cached_property
    def values(self) -> Numbers:
        """Return test functions and their first and second derivatives.

        They are (3, functions, width); derivatives are by time.
        """
        # Midpoint rule: the samples are symmetric about the middle of the window.
        x = (np.arange(self.width) + 0.5) / self.width * 2.0 - 1.0
        p, inner = self.power, 1.0 - x**2
        bump = np.stack(
            [
                inner**p,
                -2 * p * x * inner ** (p - 1),
                -2 * p * inner ** (p - 1) + 4 * p * (p - 1) * x**2 * inner ** (p - 2),
            ]
        )
        rows = [bump]
        for order in range(1, self.modulation + 1):
            w = np.pi * order
            for wave in (
                np.stack([np.cos(w * x), -w * np.sin(w * x), -(w**2) * np.cos(w * x)]),
                np.stack([np.sin(w * x), w * np.cos(w * x), -(w**2) * np.sin(w * x)]),
            ):
                rows.append(
                    np.stack(
                        [
                            bump[0] * wave[0],
                            bump[1] * wave[0] + bump[0] * wave[1],
                            bump[2] * wave[0] + 2 * bump[1] * wave[1] + bump[0] * wave[2],
                        ]
                    )
                )
        # Derivatives by x are converted to derivatives by time.
        half_length = self.width * self.step / 2.0
        return _consistent(np.stack(rows, axis=1), x) / half_length ** np.arange(3.0)[:, None, None]

    def count(self, samples: int) -> int:
        """Return the number of windows in a stretch.

        samples: of the stretch.
        """
        # Windows start every stride and cover `parts` strides.
        return max(0, samples // self.stride - self.parts + 1)

    def integrate(self, series: Numbers, order: int = 0) -> Numbers:
        """Return ∫ φ f dt in every window.

        series (..., n) gives (..., windows, functions); with `order` the result is (-1)^order ∫ φ^(order) f dt.
        The latter is ∫ φ f^(order) dt without any derivative of f having been taken.
        Sums over blocks of one stride are formed once and shared by the windows that overlap there.
        """
        count = self.count(series.shape[-1])
        weights = self._weights[order]
        strides = series[..., : (count + self.parts - 1) * self.stride].reshape(*series.shape[:-1], -1, self.stride)
        sums = np.empty((*strides.shape[:-1], self.parts * self.functions))
        few = max(1, FEW_PRODUCTS // weights.size)
        for first in range(0, strides.shape[-2], few):
            here = slice(first, first + few)
            sums[..., here, :] = strides[..., here, :] @ weights
        sums = sums.reshape(*strides.shape[:-1], self.parts, self.functions)
        total = np.zeros((*series.shape[:-1], count, self.functions))
        for part in range(self.parts):
            total += sums[..., part : part + count, part, :]
        return total

    @cached_property
    def _weights(self) -> list[Numbers]:
        """Weights (stride, parts x functions) of the samples of one stride in the windows that hold it, by order."""
        shape = self.functions, self.parts, self.stride
        return [
            np.ascontiguousarray(
                self.step * (-1.0) ** order * values.reshape(shape).transpose(2, 1, 0).reshape(self.stride, -1)
            )
            for order, values in enumerate(self.values)
        ]

    def blocks(self, samples: int) -> Iterator[tuple[slice, slice]]:
        """Yield runs of windows and the samples under them.

        What is computed of one run stays in the cache. A run is longer than the samples that it shares with the next.
        """
        count, run = self.count(samples), max(8 * self.parts, BLOCK // self.stride)
        for first in range(0, count, run):
            last = min(first + run, count)
            yield slice(first, last), slice(first * self.stride, (last + self.parts - 1) * self.stride)


def _consistent(values: Numbers, x: Numbers) -> Numbers:
    """Correct φ' and φ'' to treat straight lines exactly.

    Small multiples of φ are added, so that in sums Σ φ' = 0, Σ φ' x = -Σ φ, Σ φ'' = 0, Σ φ'' x = 0. An angle that
    has wound up to thousands of radians then adds nothing to a row, however few samples the window has.
    """
    phi, bump = values[0], values[0, 0]
    shapes = np.stack([bump, bump * x])
    moments = shapes @ np.stack([np.ones_like(x), x]).T
    wanted = {1: np.stack([np.zeros(len(phi)), -phi.sum(axis=1)]), 2: np.zeros((2, len(phi)))}
    for order, target in wanted.items():
        have = np.stack([values[order].sum(axis=1), values[order] @ x])
        values[order] += np.linalg.solve(moments.T, target - have).T @ shapes
    return values
