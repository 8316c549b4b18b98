"""Misfit: how well a model follows its data.

Size and place of the residuals are described in the same terms for all estimators.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from kapitza.base.arrays import Array
from kapitza.base.rounded import p_text
from kapitza.estimate.faults import MOST_OF_IT, Fault, Scores

ALARM = 1e-3
"""Probability below which noise alone does not explain the residuals."""

FOLLOWS_NOT = 0.3
"""Residuals beyond the noise, as a share of the signal, from which a model does not follow the data."""

NOTHING = 0.01
"""Residuals beyond the noise, in units of it, below which no number is printed."""

SMALLEST_BAND = 1
"""Bins of the narrowest band of frequencies that is tested; each next band is four times as wide."""


@dataclass(frozen=True)
class Misfit:
    """Residuals of a fit compared with noise and signal.

    size: root mean square of the residuals beyond the noise, in units of the noise (0: none). share: the same in
    units of the signal (the spread of what was measured, or the terms of the equations). chance: probability that
    noise alone leaves as much. what: who misses the data ("the equations", "the motion"); where: at which place most.
    noise: where the size of the noise comes from. fault: of the measurement (a gain, the clock, …) that the residuals
    indicate, None where they indicate none.

    Examples
    --------
    >>> from kapitza.estimate import Misfit
    >>> print(Misfit(size=12.0, share=0.03, chance=0.0, what="the equations", where="equation 2 at large |phi'|"))
    follows the data to 3 % of the signal
    """

    size: float
    share: float
    chance: float
    what: str = "the model"
    where: str = ""
    noise: str = "the noise stated"
    fault: Fault | None = None

    @property
    def to_the_noise(self) -> bool:
        """Whether noise alone explains the residuals."""
        return self.chance >= ALARM and self.fault is None

    @property
    def misses(self) -> bool:
        """Whether the misfit is larger than the noise itself."""
        return self.chance < ALARM and self.size >= 1.0

    @property
    def verdict(self) -> str:
        """Verdict with the size of the misfit.

        The text states whether the model follows the data.
        """
        if not self.misses:
            return str(self)
        return f"misses the data by {self.size:.2g} times the noise ({_percent(self.share)} of the signal)"

    def __str__(self) -> str:
        if self.to_the_noise:
            return "follows the data to the noise"
        if not self.misses:
            return f"follows the data to the noise, with {self.fault or 'structure'} left in it"
        if not self.share < FOLLOWS_NOT:
            return "does not follow the data"
        return f"follows the data to {_percent(self.share)} of the signal"

    def warnings(self) -> Iterator[str]:
        """Yield a warning where noise alone explains too little."""
        if self.to_the_noise:
            return
        if self.chance >= ALARM:
            # Too weak for a test of all directions: only a test of this one fault detects it.
            assert self.fault is not None
            moves = self.fault.moves
            effect = (
                "but the values may be far off" if moves is None
                else f"and it moves no value by more than {moves:.1g} standard errors" if moves < HARMLESS
                else f"but it moves a value by {_digits(moves)} standard errors"
            )  # fmt: skip
            yield (
                f"{self.what} would follow the data better with {self.fault}: noise alone would give as much with a "
                f"probability of {self.fault.chance:.1g}. The residuals are too small for other tests, {effect}: check "
                "the measurement, or free the fault by a Sensor."
            )
            return
        if not self.misses:
            beyond = (
                f"{self.size:.2g} times the noise beyond it" if self.size >= NOTHING else "no larger than the noise"
            )
            yield (
                f"the residuals of {self.what}, {beyond}, are not white "
                f"({p_text(self.chance, 1)}): a small term is missing, the drive, a gain or the clock is off, or noise "
                "is coloured. The intervals count how much parts of the data differ, for motions like these."
                + ("" if self.fault is None else f" Most of it would go with {self.fault}.")
            )
            return
        where = self.where if self.where.startswith(("at ", "in ")) else f"in {self.where}"
        place = f", most {where}" if self.where else ""
        known = "" if self.noise == "the noise stated" else f" (by {self.noise})"
        yield (
            f"{self.what} {'miss' if self.what.endswith('s') else 'misses'} the data by {self.size:.2g} times the "
            f"noise{known}{place}: a term is missing, the drive, a gain or the clock is off, or the noise is not "
            "white. The intervals count how much parts of the data differ; they hold for motions like these, and other "
            "motions may give other values."
            + ("" if self.fault is None else f" Most of it would go with {self.fault}.")
        )


HARMLESS = 1.0
"""Standard errors below which the shift by a fault is no more than that by noise."""


def _digits(value: float) -> str:
    return f"{value:.2g}" if value < 100 else f"{value:.0f}"


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share >= 1e-4 else "under 0.01 %"


def worst(found: Sequence[Misfit]) -> Misfit | None:
    """Return the most significant misfit.

    Its probability is corrected for the number of misfits compared.
    """
    if not found:
        return None
    first = min(found, key=lambda one: (one.chance, -one.size))
    # Bonferroni's correction; the size is the largest, which may belong to another channel.
    return replace(first, chance=min(1.0, first.chance * len(found)), size=max(one.size for one in found))


def with_fault(misfit: Misfit, fault: Fault | None, level: float, excess: float) -> Misfit:
    """Return the misfit with a fault of the measurement.

    The fault is dropped where it is a small part of a large misfit. level: mean square of the weighted rows; excess: by
    how much the sum of these squares exceeds that of noise alone.
    """
    if fault is None:
        return misfit
    # (size/error)² is the drop of the sum of squares by this fault, in units of the level.
    if misfit.chance < ALARM and level * (fault.size / fault.error) ** 2 < MOST_OF_IT * excess:
        return misfit
    return replace(misfit, fault=fault)


def chance_of_level(level: float, dof: float, freedom: float) -> float:
    """Return the p-value of a mean square.

    It is the probability that noise has a larger one: F distribution over `dof` numbers where the size of the noise has
    `freedom` degrees of freedom itself, χ² where it is known.
    """
    if np.isfinite(freedom):
        return float(special.fdtrc(dof, freedom, level))
    return float(special.chdtrc(dof, level * dof))


def structure(residual: Array) -> float:
    """Return the p-value of structure in residuals (N,).

    It is the probability that white noise has any band of frequencies as strong as these residuals. The periodogram of
    white noise has independent exponential ordinates. Bands of 1, 4, 16, … neighbouring bins are
    compared with all the rest (F distribution); single lines show a drive or a clock that is off, wide bands a missing
    term in a chaotic motion. Pieces may be laid end to end: white noise stays white. The smallest probability counts,
    corrected for the number of bands and of widths.
    """
    residual = np.asarray(residual, float)
    count = residual.size
    # Too few bins for a band and the rest to compare it with.
    if count < 16 or not np.any(residual):
        return 1.0
    power = np.abs(np.fft.rfft(residual - residual.mean())) ** 2
    # Without the mean and the Nyquist bin, whose ordinates have another distribution.
    power = power[1 : (count - 1) // 2 + 1]
    total, bins = float(power.sum()), power.size
    best, widths, width = 1.0, 0, SMALLEST_BAND
    while width <= bins // 4:
        bands = bins // width
        sums = power[: bands * width].reshape(bands, width).sum(axis=1)
        strongest = float(sums.max())
        ratio = (strongest / width) / max((total - strongest) / (bins - width), np.finfo(float).tiny)
        chance = float(special.fdtrc(2 * width, 2 * (bins - width), ratio))
        # 1 - (1 - p)^bands: probability that the strongest of as many independent bands exceeds the ratio.
        best = min(best, -np.expm1(bands * np.log1p(-min(chance, 1 - 1e-16))))
        widths, width = widths + 1, 4 * width
    return float(min(1.0, best * max(widths, 1)))


def scores_of(columns: Array, explained: Array, residual: Array, drawn: tuple[Array, Array] | None = None) -> Scores:
    """Return the scores of columns outside the fit.

    columns: (n, m); explained: columns (n, k) of the fit; residual: (n,). The part of a column that the fit explains is
    subtracted first. drawn: draws (d, k), (d, m) of what noise of second order pulls at the columns of either kind;
    their mean is subtracted, their variance added.
    """
    size = np.maximum(np.linalg.norm(explained, axis=0), np.finfo(float).tiny)
    basis, corner = np.linalg.qr(explained / size)  # any sign: Q Qᵀ and R⁻¹ Qᵀ
    held = basis.T @ columns
    own = columns - basis @ held
    power, whole = (own**2).sum(axis=0), (columns**2).sum(axis=0)
    pull, variance = own.T @ residual, power
    if drawn is not None and drawn[0].shape[1] == explained.shape[1]:
        at_fitted, at_columns = drawn
        draws = at_columns - (at_fitted / size) @ np.linalg.lstsq(corner, held, rcond=None)[0]
        count = len(draws)
        pull = pull - draws.mean(axis=0)
        spread = draws.var(axis=0, ddof=1) if count > 1 else draws[0] ** 2
        variance = variance + spread * (1.0 + 1.0 / count)
    # Residuals larger than the noise also scatter the pull; smaller ones do not make it more certain.
    level = max(float(residual @ residual) / max(residual.size - explained.shape[1], 1), 1.0)
    return Scores(pull, power, whole, level * variance)


def floor_of(residual: Array) -> float:
    """Return the noise floor of residuals (N,).

    It is the standard deviation of their white part, by the median of the upper half of their periodogram; the median
    of an exponential ordinate is log 2 times its mean.
    """
    residual = np.asarray(residual, float)
    if residual.size < 16:
        return float(residual.std())
    power = np.abs(np.fft.rfft(residual - residual.mean())) ** 2 / residual.size
    # The upper half of the spectrum: motions and drifts are slow.
    return float(np.sqrt(np.median(power[power.size // 2 :]) / np.log(2.0)))


def place_of(squares: Array, signals: dict[str, Array]) -> str:
    """Return where squared residuals (N,) are largest.

    It is "at large |x|" or "at small |x|" of one of the signals (N,), "" if nowhere. A fifth of the samples at either
    end of each signal is compared with the mean; a place is named when it holds half as much again as its share.
    """
    # Half as much again as its share: below, random differences between samples would name a place.
    total, best, name = float(squares.mean()), 1.5, ""
    if not total > 0:
        return name
    for label, signal in signals.items():
        size = np.abs(signal)
        low, high = np.quantile(size, [0.2, 0.8])
        if not high > low:
            continue
        for word, chosen in (("large", size >= high), ("small", size <= low)):
            ratio = float(squares[chosen].mean()) / total
            if ratio > best:
                best, name = ratio, f"at {word} |{label}|"
    return name
