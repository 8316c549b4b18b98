"""Result of a validation and its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kapitza.base.arrays import Array, Flags
from kapitza.base.cures import keep_cures
from kapitza.base.display import drawn
from kapitza.base.rounded import chance_text, p_text
from kapitza.data import Record
from kapitza.errors import Status
from kapitza.estimate.missing import REST, ModelTest
from kapitza.model import Model
from kapitza.signal import Lyapunov

if TYPE_CHECKING:
    import pandas as pd

NOISES = 4.0
"""Errors beyond so many standard deviations of the sensor end a prediction."""

SHARE = 0.5
"""Errors beyond this share of the signal's standard deviation end a prediction too."""


@dataclass(frozen=True)
class PredictionTest:
    """Prediction of held-back stretches.

    The state is fitted to the beginning of each, then continued.

    starts: (S,) time at which each prediction begins [s]; lead: (L,) time since then [s]; error: (S, L, c) predicted
    minus measured, NaN beyond a stretch. noise: (c,) sensor noise, spread: (c,) standard deviation of the signal.
    fit_misfit, fit_share: (S,) root mean square of the fitted beginnings in units of the noise and of the spread.
    horizon_noise, horizon_signal: (S,) how long [s] every channel stays within `noises` times the noise, and within
    `share` of the spread; whole: (S, 2) True where it did so to the end of the stretch. failed: stretches that no
    motion of the model follows even at their beginning, with the reason. drive_noise: whether `noise` includes what the
    noise of a measured drive adds to the motion.
    """

    channels: tuple[str, ...]
    starts: Array
    lead: Array
    error: Array
    noise: Array
    spread: Array
    fit_misfit: Array
    fit_share: Array
    horizon_noise: Array
    horizon_signal: Array
    whole: Flags
    failed: Mapping[float, str] = field(default_factory=dict)
    noises: float = NOISES
    share: float = SHARE
    drive_noise: bool = False

    @property
    def source(self) -> str:
        """Name of the noise that errors are compared with."""
        return "noise of sensor and drive" if self.drive_noise else "sensor noise"

    @property
    def course(self) -> tuple[Array, Array]:
        """Root mean square error (L,) against lead time.

        The mean is over stretches and channels, in units of the noise and of the spread.
        """
        squares = self.error**2
        with np.errstate(invalid="ignore"):
            count = np.isfinite(squares).sum(axis=(0, 2))
            noises = np.sqrt(np.nansum(squares / self.noise**2, axis=(0, 2)) / np.maximum(count, 1))
            shares = np.sqrt(np.nansum(squares / self.spread**2, axis=(0, 2)) / np.maximum(count, 1))
        return np.where(count > 0, noises, np.nan), np.where(count > 0, shares, np.nan)


@dataclass(frozen=True)
class SectionTest:
    """Section points, measured and modelled, and their distance.

    names: of the coordinates; measured (M, k), modelled (M', k). distance: energy distance in units of the measured
    spread; floor: three standard deviations above the distances between runs of the model as long as the record.
    """

    names: tuple[str, ...]
    kind: str
    measured: Array
    modelled: Array
    distance: float
    floor: float

    @property
    def agrees(self) -> bool:
        return self.distance <= self.floor


@dataclass(frozen=True)
class OrbitCheck:
    """Periodic orbit of the data and the model's nearest.

    distance: largest, in units of the spread; deviations: the same in standard errors of the data's orbit (NaN where it
    carries none); of a free motion those of its period.
    """

    label: str
    matched: bool
    distance: float
    deviations: float
    reason: str = ""


@dataclass(frozen=True)
class Exponents:
    """Largest Lyapunov exponents [1/s].

    measured, modelled: estimated by the same method from the record and from the model's motion with noise, None where
    this is not possible. tangents: of the model's motion by its tangents, over a time as long as the record.
    """

    measured: Lyapunov | None
    modelled: Lyapunov | None
    tangents: float

    @property
    def agree(self) -> bool | None:
        """Whether the intervals overlap.

        None where one of them is not known.
        """
        if self.measured is None or self.modelled is None:
            return None
        return self.measured.low <= self.modelled.high and self.modelled.low <= self.measured.high


@dataclass(frozen=True)
class Frequency:
    """Frequency of a channel [Hz], measured and modelled.

    It counts oscillations per second. deviation: standard error of the difference.
    """

    channel: str
    measured: float
    modelled: float
    deviation: float

    @property
    def agrees(self) -> bool:
        return abs(self.measured - self.modelled) <= 3 * self.deviation


@dataclass(frozen=True)
class Validation:
    """Result of `kapitza.validate`.

    Each part is None (or empty) where it does not apply, with the reason in `notes`.

    model, record: what was compared. prediction: errors against lead time; section: both motions on one section;
    orbits: those of the record looked for in the model; exponents: largest Lyapunov exponents; frequencies: of the
    spectra; simulated: the model's own record; oscillation: a typical period [s]; status: INTERRUPTED
    where it was stopped; test: of the model against terms that it could lack, with its power; unexplained: how
    the residuals of fitted states differ from noise, "" where they do not.

    Examples
    --------
    >>> import numpy as np, kapitza as kz
    >>> model = kz.library.lorenz()
    >>> record = kz.measure(kz.simulate(model, x0=[1, 1, 20], t=np.arange(4000) * 0.01), noise=0.1, seed=1)
    >>> check = kz.validate(model, record, parts=["prediction"])
    >>> bool(np.median(check.prediction.horizon_signal) > 1.0)
    True
    """

    model: Model
    record: Record
    prediction: PredictionTest | None = None
    section: SectionTest | None = None
    orbits: tuple[OrbitCheck, ...] = ()
    exponents: Exponents | None = None
    frequencies: tuple[Frequency, ...] = ()
    simulated: Record | None = field(default=None, repr=False)
    oscillation: float = float("nan")
    notes: tuple[str, ...] = ()
    status: Status = Status.CONVERGED
    test: ModelTest | None = None
    unexplained: str = ""

    def __post_init__(self) -> None:
        keep_cures(self, "notes")

    @property
    def rejected(self) -> bool | None:
        """Whether the model is rejected at 5 %.

        None where it was not tested.
        """
        return None if self.test is None else self.test.rejected

    def table(self) -> pd.DataFrame:
        """Return one row per test.

        The columns are measured value, value of the model, and whether they agree.
        """
        import pandas as pd

        rows: list[tuple[str, str, str, str]] = []
        if self.test is not None:
            rows += _test_rows(self.test)
        if self.prediction is not None:
            rows += self._prediction_rows(self.prediction)
        if self.section is not None:
            text = f"{self.section.distance:.3g} (noise floor {self.section.floor:.3g})"
            rows.append(("distance of sections", "", text, _said(self.section.agrees)))
        for check in self.orbits:
            text = f"{100 * check.distance:.2g} % of the spread away" if np.isfinite(check.distance) else check.reason
            if np.isfinite(check.deviations):
                text += f", {check.deviations:.2g} standard errors"
            beyond = ", but beyond its errors" if check.deviations > SURELY else ""
            verdict = f"matched{beyond}" if check.matched else "not matched"
            rows.append((f"orbit {check.label}", "", text, verdict))
        if self.exponents is not None:
            pair = self.exponents
            # Noise or a short record can hide the exponent.
            verdict = "not to be read from the record" if pair.agree is None else _said(pair.agree)
            same_way = "" if pair.modelled is None else f", read as from the record {pair.modelled}"
            measured = "" if pair.measured is None else str(pair.measured)
            rows.append(("Lyapunov exponent", measured, f"{pair.tangents:.4g} 1/s by tangents{same_way}", verdict))
        for line in self.frequencies:
            rows.append((
                f"frequency of {line.channel}", f"{line.measured:.5g} Hz",
                f"{line.modelled:.5g} Hz (difference known to {line.deviation:.1g})", _said(line.agrees),
            ))  # fmt: skip
        return pd.DataFrame(rows, columns=["test", "measured", "modelled", "verdict"]).set_index("test")

    def _prediction_rows(self, test: PredictionTest) -> list[tuple[str, str, str, str]]:
        rows = []
        total = len(test.starts) + len(test.failed)
        if test.failed:
            rows.append(("stretches followed", "", f"{len(test.starts)} of {total}", next(iter(test.failed.values()))))
        if not len(test.starts):
            return rows
        misfit = float(np.sqrt((test.fit_misfit**2).mean()))
        share = 100 * float(np.sqrt((test.fit_share**2).mean()))
        size = f"residuals {misfit:.2g} times the {test.source}, {share:.2g} % of the signal"
        rows.append(("states fitted, parameters held", "", size,
                     "follows to the noise" if misfit < FOLLOWS else "does not follow to the noise"))  # fmt: skip
        for label, values, whole in (
            (f"horizon, {test.noises:g} times the {test.source}", test.horizon_noise, test.whole[:, 0]),
            (f"horizon, {test.share:g} of the signal's spread", test.horizon_signal, test.whole[:, 1]),
        ):
            middle = float(np.median(values))
            # The median stretch was followed to its end: its horizon is a lower bound.
            more = "at least " if whole[np.argsort(values, kind="stable")[len(values) // 2]] else ""
            turns = f" ({middle / self.oscillation:.3g} oscillations)" if np.isfinite(self.oscillation) else ""
            low, high = np.quantile(values, [0.25, 0.75])
            rows.append((label, "", f"{more}{middle:.4g} s{turns}", f"half of the stretches {low:.3g} … {high:.3g} s"))
        return rows

    def __str__(self) -> str:
        table = self.table()
        lines = [f"{self.model.name} on a record of {self.record.size} samples, parameters held:"]
        for test, row in table.iterrows():
            against = f"measured {row['measured']}, modelled " if row["measured"] else ""
            lines.append(f"  {test}: {against}{row['modelled']}; {row['verdict']}")
        if self.test is not None:
            lines.insert(1, f"  {self._verdict(self.test)}")
            lines.append(f"  power: {self.test.power}")
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])

    def _verdict(self, test: ModelTest) -> str:
        if test.rejected:
            return f"rejected ({p_text(test.chance)}): {'; '.join(test.reasons)}."
        if self.unexplained:
            return (
                f"not rejected by a term ({p_text(test.chance)}), but {self.unexplained}: something is missing that "
                "none of these terms explains, or the noise is coloured."
            )
        return f"not rejected ({p_text(test.chance)})."

    def plot(self, path: str | Path | None = None) -> Any:
        """Plot errors, sections and spectra.

        Errors against lead time, the sections over each other, and the spectra; saved when a path is given.
        """
        from kapitza.report import plot_validation

        return drawn(plot_validation(self), path)


SURELY = 6.0
"""Largest distance of an orbit from the model's, in standard errors over all coordinates, that errors explain."""

FOLLOWS = 1.3
"""Residuals of the fitted beginnings, in units of the noise, up to which the model follows the data."""


def _test_rows(test: ModelTest) -> list[tuple[str, str, str, str]]:
    rows = []
    if test.terms.terms:
        best = test.terms.terms[0]
        strongest = f"strongest of {len(test.terms.terms)} terms: {best.name}, {chance_text(best.log10_p)}"
        rows.append(("missing terms", "", strongest, "missing" if test.missing else "none of them is missing"))
    if np.isfinite(test.parameters):
        rows.append(("parameters that either record prefers", "", p_text(test.parameters),
                     _said(test.parameters >= REST)))  # fmt: skip
    rows.append(("residuals, parameters refitted", "", p_text(test.residuals),
                 "white" if test.residuals >= REST else "not white"))  # fmt: skip
    return rows


def _said(agrees: bool) -> str:
    return "agree" if agrees else "differ"
