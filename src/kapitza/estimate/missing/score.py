"""Score tests of many candidates from one Fisher matrix.

The algebra is small and needs no refit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg, special

from kapitza.base.arrays import Array, Flags
from kapitza.estimate.faults import NOTHING_OWN
from kapitza.estimate.missing.columns import Window
from kapitza.estimate.missing.whitening import ORDER, filtered, whitening
from kapitza.solve import scaled_inverse, symmetric_function

ALARM = 0.03
"""Target probability of an alarm on a complete model; it stays below 5 % where the noise has to be estimated too."""


WEAK = 1e-12
"""Relative information of a direction of the parameters below which the record does not determine it."""


@dataclass(frozen=True)
class JointScores:
    """Joint information (m, m) and score (m,) of candidates.

    Initial states and free parameters are eliminated. own: (m,) share of each column outside the fitted directions;
    square: sum of squared residuals of the fit; dof: their degrees of freedom. All after whitening. certainty: degrees
    of freedom with which the level of slow noise is known, infinite where nothing had to be whitened.
    """

    information: Array
    score: Array
    own: Array
    square: float
    dof: int
    certainty: float = np.inf

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the residual variance.

        Gains are compared to it; one term is added.
        """
        return float(min(self.certainty, max(self.dof - 1, 1)))

    @property
    def gains(self) -> Array:
        """Drop (m,) of the sum of squares per candidate.

        Each candidate is added alone.
        """
        power = np.diag(self.information)
        return np.where(power > 0, self.score**2 / np.where(power > 0, power, 1.0), 0.0)

    @property
    def steps(self) -> Array:
        """One-step coefficient (m,) of each candidate, added alone."""
        power = np.diag(self.information)
        return np.where(power > 0, self.score / np.where(power > 0, power, 1.0), 0.0)

    def given(self, chosen: Sequence[int]) -> JointScores:
        """Return the scores with some candidates in the model."""
        index = list(chosen)
        block = self.information[np.ix_(index, index)]
        across = self.information[:, index]
        inverse = linalg.pinvh(block)
        information = self.information - across @ inverse @ across.T
        score = self.score - across @ (inverse @ self.score[index])
        gain = float(self.score[index] @ inverse @ self.score[index])
        information[index] = information[:, index] = 0.0
        score[index] = 0.0
        # Candidates that the chosen ones reproduce would divide rounding by rounding.
        small = np.diag(information) < NOTHING_OWN * np.diag(self.information)
        information[small], information[:, small], score[small] = 0.0, 0.0, 0.0
        return JointScores(information, score, self.own, self.square - gain, self.dof - len(index), self.certainty)

    def coefficients(self, chosen: Sequence[int]) -> Array:
        index = list(chosen)
        return linalg.pinvh(self.information[np.ix_(index, index)]) @ self.score[index]


@dataclass(frozen=True)
class Products:
    """Products of all columns and the residual.

    whole: (k + m + 1, k + m + 1), initial states eliminated. raw: (m,) squares of the terms before that; rows: degrees
    of freedom; certainty: as in `JointScores`.
    """

    whole: Array
    raw: Array
    rows: int
    certainty: float = np.inf


def products_of(windows: Sequence[Window], white: bool = False) -> Products:
    """Return the products of the columns, whitened.

    By an autoregression of the residuals, unless they are taken as white.
    """
    plain = _normal_equations(windows, np.zeros((windows[0].residual.shape[1], ORDER)))
    if white:
        return plain
    filters, certainty = whitening(windows, eliminated(plain, windows[0].free.shape[2]))
    return replace(_normal_equations(windows, filters), certainty=certainty)


def shift_of(products: Products, prior: Array) -> Array:
    """Return the shift of parameters by each term.

    W m (k, m): the effect of a unit of each term on the k parameters of the fit; prior (k,): their weights by priors.
    """
    k = prior.size
    information = products.whole[:k, :k] + np.diag(prior)
    return scaled_inverse(information, WEAK) @ products.whole[:k, k:-1]


def scale_of(scores: JointScores) -> float:
    """Return the residual variance after the best term."""
    return max((scores.square - float(scores.gains.max(initial=0.0))) / max(scores.dof - 1, 1), 1e-300)


def _normal_equations(windows: Sequence[Window], filters: Array) -> Products:
    free, count = windows[0].free.shape[2], windows[0].terms.shape[2]
    whole = np.zeros((free + count + 1, free + count + 1))
    raw, rows = np.zeros(count), 0
    for window in windows:
        block, initial = _whitened(window, filters)
        # Lost samples are no degrees of freedom: counted as such, they would make the noise look too small.
        known = len(block) - _lost_unknowns(window.lost, filters, len(block))
        # The window has no more rows than unknown initial states: it carries no information.
        if known <= initial.shape[1]:
            continue
        raw += (block[:, free : free + count] ** 2).sum(axis=0)
        block, rank = _without(initial, block)
        whole += block.T @ block
        rows += known - rank
    return Products(whole, raw, rows)


def _without(initial: Array, block: Array) -> tuple[Array, int]:
    """Project the initial-state columns out of a block.

    initial: (R, n). The second value is the number of dimensions removed.
    """
    basis = linalg.orth(initial / np.maximum(np.linalg.norm(initial, axis=0), 1e-300))  # any sign: Q Qᵀ
    return block - basis @ (basis.T @ block), basis.shape[1]


def eliminated(products: Products, free: int) -> JointScores:
    """Return the scores with `free` columns eliminated.

    The first `free` columns are those of the free parameters.
    """
    whole = products.whole
    size = np.sqrt(np.maximum(np.diag(whole)[:free], 1e-300))
    inner = linalg.pinvh(whole[:free, :free] / np.outer(size, size)) / np.outer(size, size) if free else whole[:0, :0]
    left = whole[free:, free:] - whole[free:, :free] @ inner @ whole[:free, free:]
    information, score, square = left[:-1, :-1], left[:-1, -1], float(left[-1, -1])
    with np.errstate(over="ignore"):  # a term without any effect divides by the smallest number
        own = np.diag(information) / np.maximum(products.raw, 1e-300)
    known = own < NOTHING_OWN
    information[known], information[:, known], score[known] = 0.0, 0.0, 0.0
    dof = max(products.rows - free, 1)
    return JointScores(information, score, np.where(known, 0.0, own), square, dof, products.certainty)


def _whitened(window: Window, filters: Array) -> tuple[Array, Array]:
    """Return filtered rows of a window.

    They are columns and residual (R, k + m + 1), and initial states (R, n). A lost sample is an unknown with a column
    of its own, which is projected out: that is generalised least squares on the samples that are left.
    """
    every, initial = window.stacked()
    both = np.concatenate([every, initial], axis=2)
    if not filters.any() or len(both) <= 3 * ORDER:
        flat = both.reshape(-1, both.shape[2])
    else:
        made = filtered(both, filters)
        for c in np.flatnonzero(window.lost.any(axis=0) & filters.any(axis=1)):
            made[:, c] -= _of_lost(window.lost[:, c], filters[c], made[:, c])
        flat = made.reshape(-1, both.shape[2])
    split = every.shape[2]
    return flat[:, :split], flat[:, split:]


def _lost_unknowns(lost: Flags, filters: Array, rows: int) -> int:
    """Count the lost samples that filtered rows contain.

    lost: (N, c); rows: of all channels. A filter reaches back to samples before its first row.
    """
    first = len(lost) - rows // lost.shape[1]
    if not first:
        return int(np.count_nonzero(lost))
    reach = [int(np.max(np.flatnonzero(taps), initial=-1)) + 1 for taps in filters]
    return sum(int(np.count_nonzero(lost[first - far :, c])) for c, far in enumerate(reach))


def _of_lost(lost: Flags, coefficients: Array, rows: Array) -> Array:
    """Return the part that lost samples reproduce.

    rows: (R, m), filtered. The part is
    D (DᵀD)⁻¹ Dᵀ rows, D the filtered unit columns of the lost samples: a band matrix.
    """
    from scipy import sparse
    from scipy.sparse.linalg import splu

    count, taps = len(lost), np.r_[1.0, -coefficients]
    band = sparse.diags_array(taps, offsets=-np.arange(taps.size), shape=(count, count)).tocsc()
    columns = band[count - len(rows) :][:, np.flatnonzero(lost)]
    columns = columns[:, np.flatnonzero(abs(columns).sum(axis=0))].tocsc()
    if not columns.shape[1]:
        return np.zeros_like(rows)
    return np.asarray(columns @ splu((columns.T @ columns).tocsc()).solve(columns.T @ rows), np.float64)


def effective_tests(information: Array, draws: int = 4000, seed: int = 0) -> float:
    """Return the effective number of independent tests.

    Scores are drawn from their distribution under the fitted model; with q the quantile ALARM of the smallest of their
    p, T follows from 1 - (1 - q)^T = ALARM. The quantile is the one tested at: the median gives too few.
    """
    from scipy import stats

    power = np.diag(information)
    live = power > 0
    if live.sum() < 2:
        return float(live.sum())
    size = np.sqrt(power[live])
    # Correlation of the scores under the fitted model.
    correlation = information[np.ix_(live, live)] / np.outer(size, size)
    # The symmetric root: draws would depend on the signs and the order of eigenvectors otherwise.
    root = symmetric_function((correlation + correlation.T) / 2, lambda values: np.sqrt(np.clip(values, 0.0, None)))
    drawn = np.random.default_rng(seed).standard_normal((draws, len(root))) @ root
    smallest = stats.chi2.sf((drawn**2).max(axis=1), 1)
    quantile = float(np.quantile(smallest, ALARM))
    return float(np.clip(np.log1p(-ALARM) / np.log1p(-quantile), 1.0, live.sum()))


def log_chance(gain: Array | float, scale: float, tests: float, freedom: float = np.inf) -> Array:
    """Return the logarithm of the corrected p-value.

    The p-value is that of a gain; a logarithm because strong evidence underflows. freedom: degrees of freedom of
    the scale. The gain of the strongest term over the variance that it leaves is the square of Student's t.
    """
    size = np.sqrt(np.maximum(np.asarray(gain, float) / scale, 0.0))
    alone = np.log(2.0) + (special.log_ndtr(-size) if np.isinf(freedom) else _log_tail(size, freedom))
    with np.errstate(divide="ignore"):
        exact = np.log(-np.expm1(tests * np.log1p(-np.exp(np.minimum(alone, -1e-12)))))
    return np.where(alone < -20, np.minimum(alone + np.log(tests), 0.0), np.minimum(exact, 0.0))


def _log_tail(size: Array, freedom: float) -> Array:
    """Return the logarithm of Student's upper tail.

    The tail is beyond `size`, and finite also where the probability underflows. P(T > t) = I_x(a, ½)/2 with a =
    ν/2, x = ν/(ν + t²); I_x(a, ½) = xᵃ √(1 - x) F(a + ½, 1; a + 1; x)/(a B(a, ½)).
    """
    a = 0.5 * freedom
    x = freedom / (freedom + np.asarray(size, float) ** 2)
    with np.errstate(divide="ignore"):
        plain = np.log(0.5 * special.betainc(a, 0.5, x))
    far = plain < -600.0
    near = np.where(far, x, 0.5)
    series = a * np.log(near) + 0.5 * np.log1p(-near) + np.log(special.hyp2f1(a + 0.5, 1.0, a + 1.0, near))
    return np.where(far, series - np.log(2.0 * a) - special.betaln(a, 0.5), plain)
