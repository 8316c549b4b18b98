"""Least squares along a motion whose measured drive has noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kapitza.base.arrays import Array
from kapitza.estimate.missing.columns import Window
from kapitza.estimate.missing.drive_filter import pulls_of, scatter_of
from kapitza.estimate.missing.score import WEAK, Products, products_of, shift_of
from kapitza.solve import scaled_inverse


@dataclass(frozen=True)
class Weighted:
    """Gauss-Newton step of generalised least squares.

    With rows filtered to unit covariance and the initial states eliminated: step (k,) = (JᵀJ)⁻¹ Jᵀ r with covariance
    (k, k). square: sum of squared residuals after it; rows: degrees of freedom left; log_det: log |C|/2.
    """

    step: Array
    covariance: Array
    square: float
    rows: int
    log_det: float
    products: Products

    @classmethod
    def of(cls, windows: Sequence[Window], weight: Array, pull: Array) -> Weighted:
        """Return the step from filtered windows.

        weight, pull: (k,) weights of priors, and the derivative of their cost.
        """
        products, k = products_of(windows, white=True), weight.size
        towards = products.whole[:k, -1] - pull
        covariance = scaled_inverse(products.whole[:k, :k] + np.diag(weight), WEAK)
        step = covariance @ towards
        log_det = sum(window.log_det for window in windows)
        square = float(products.whole[-1, -1] - towards @ step)
        return cls(step, covariance, square, max(products.rows - k, 1), log_det, products)

    @property
    def deviations(self) -> Array:
        return np.sqrt(np.clip(np.diag(self.covariance), 0.0, None))

    @property
    def level(self) -> float:
        """Mean square of the residuals, in variances of both noises."""
        return self.square / self.rows

    def shifts(self, weight: Array) -> Array:
        """Return the shift (k, m) of parameters by a unit of each term."""
        return shift_of(self.products, weight)


def shifts_by_drives(windows: Sequence[Window]) -> tuple[Array, float]:
    """Return the covariance of least-squares shifts by drive noise.

    cov δθ = J⁺ G Gᵀ J⁺ᵀ (k, k), the initial states of each window being fitted too; and the root mean square that the
    noise adds to the residuals, in standard deviations of the sensors: of (1 - J J⁺) G e.
    """
    k = windows[0].free.shape[2]
    information, moment = np.zeros((k, k)), np.zeros((k, k))
    added, absorbed, count = 0.0, 0.0, 0
    for window in windows:
        assert window.kicks is not None
        free, initial = (part.reshape(-1, part.shape[2]) for part in (window.free, window.initial))
        size = np.maximum(np.linalg.norm(initial, axis=0), np.finfo(float).tiny)
        across, inverse = free.T @ (initial / size), np.linalg.pinv((initial / size).T @ (initial / size), rcond=WEAK)
        information += free.T @ free - across @ inverse @ across.T
        pulls = pulls_of(window)
        pulls = pulls.reshape(-1, pulls.shape[2])
        of_start = pulls[:, k:] / size
        own = pulls[:, :k] - of_start @ inverse @ across.T
        moment += own.T @ own
        added += float(scatter_of(window.kicks).sum())
        absorbed += float(np.einsum("ij,jk,ik->", of_start, inverse, of_start))
        count += int(np.count_nonzero(~window.lost))
    covariance = scaled_inverse(information, WEAK)
    absorbed += float(np.sum(covariance * moment))
    return covariance @ moment @ covariance, float(np.sqrt(max(added - absorbed, 0.0) / max(count, 1)))
