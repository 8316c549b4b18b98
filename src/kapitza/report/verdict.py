"""Write the verdict of a study.

One sentence with a grade, and what to do next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kapitza.data import Record
from kapitza.estimate import Estimate, negative_frictions
from kapitza.report.motions import recorded_units
from kapitza.study import StudyFit, StudyResult, fitted_settings

WEAK = 0.1
"""Relative standard error from which a parameter counts as weak."""

DIFFERENT = 0.9
"""Correlation of two parameters from which they are named: their single intervals hide that they trade off."""

GRADES = {"good": "Good", "fair": "Use with care", "bad": "Not right yet"}
"""Words beside the colour of each grade: a colour alone says nothing in print or to the colour-blind."""


@dataclass(frozen=True)
class Verdict:
    """Hold the grade and sentence of a study.

    grade: a key of GRADES; sentence: how the model follows, how far it predicts, which parameters are weak.
    """

    grade: str
    sentence: str
    steps: tuple[str, ...]

    @property
    def word(self) -> str:
        return GRADES[self.grade]


def verdict_of(result: StudyResult) -> Verdict:
    """Return the verdict on the answer of a study."""
    chosen = result.chosen
    if chosen is None:
        return Verdict("bad", "No fit succeeded.", ("Read the reasons below; each names what to change.",))
    weak, tied = weak_parameters(chosen), tied_parameters(chosen)
    parts = [chosen.follows or "was not tested against the noise"]
    held, outside = prediction_words(chosen)
    parts += [held] if held else []
    if weak:
        count = "one parameter is" if len(weak) == 1 else f"{_counted(len(weak))} parameters are"
        parts.append(f"{count} weak ({', '.join(weak)})")
    elif chosen.answer.names and not chosen.misses:
        parts.append("every parameter is known to better than 10 %")
    feeding = negative_frictions(chosen.answer)
    if feeding:
        parts.append(f"a friction feeds energy in ({', '.join(feeding)} below zero)")
    disagree = bool(result.disagreements())
    if disagree:
        parts.append("two methods disagree")
    lacking = chosen.missing is not None and chosen.missing.missing
    if chosen.missing is not None and lacking:
        names = chosen.missing.to_try
        parts.append("a term is missing" + (f" (try {' or '.join(names[:2])})" if names else ""))
    doubts = weak or feeding or outside or disagree or lacking or not _white(chosen)
    grade = "bad" if chosen.misses else "fair" if doubts else "good"
    sentence = "; ".join(parts)
    return Verdict(grade, f"The model {sentence}.", steps_after(chosen, weak, tied, bool(feeding), outside, disagree))


def _white(chosen: StudyFit) -> bool:
    misfit = chosen.answer.misfit
    return misfit is None or misfit.to_the_noise


def scatter_word(estimate: Estimate) -> str:
    """Return what the standard deviations of an estimate's channels are.

    They come from the residuals, which are not noise where the model misses the data.
    """
    missed = estimate.misfit is not None and estimate.misfit.misses
    return "what the model leaves, larger than the noise of the sensors" if missed else "the noise"


def _counted(number: int) -> str:
    words = ("no", "one", "two", "three", "four", "five", "six")
    return words[number] if number < len(words) else str(number)


def weak_parameters(chosen: StudyFit) -> list[str]:
    """Return free parameters with large standard errors.

    The error exceeds a tenth of the value, or is not known.
    """
    best = chosen.answer
    found = []
    for name, error in best.deviations.items():
        size = abs(best.values[name])
        if not math.isfinite(error) or error > WEAK * size:
            found.append(name)
    return found


def tied_parameters(chosen: StudyFit) -> list[tuple[str, str, float]]:
    """Return pairs of parameters whose errors are strongly correlated."""
    best = chosen.answer
    if len(best.names) < 2 or not np.isfinite(best.covariance).all():
        return []
    table = best.correlation
    rows, columns = np.triu_indices(len(best.names), 1)
    strong = np.abs(table[rows, columns]) > DIFFERENT
    return [
        (best.names[i], best.names[j], float(table[i, j])) for i, j in zip(rows[strong], columns[strong], strict=True)
    ]


def prediction_words(chosen: StudyFit) -> tuple[str, bool]:
    """Return how far held-back data are predicted.

    The text is in the unit of the recording; the flag says whether a prediction ends early.
    """
    test = None if chosen.validation is None else chosen.validation.prediction
    if test is None or chosen.validation is None or not np.isfinite(test.error).any():
        return "", False
    record = chosen.validation.record
    channel = test.channels[0]
    size = float(np.sqrt(np.nanmean(test.error[:, :, 0] ** 2)))
    unit = record.units.get(channel, "")
    size, unit = _as_recorded(record, _fitted_record(chosen), channel, size, unit)
    span = float(test.lead[-1])
    ended = bool(np.any(~test.whole[:, 1])) if test.whole.size else True
    early = f", ends before {float(np.median(test.horizon_signal)):.2g} s" if ended else ""
    # A prediction that reaches the end of its stretch may last longer.
    reach = "" if ended or len(test.starts) == 1 else "at least "
    return f"predicts held-back {channel} {reach}{span:.2g} s ahead to {size:.2g} {unit}".rstrip() + early, ended


def _fitted_record(chosen: StudyFit) -> Record | None:
    found = fitted_settings(chosen.answer)
    return found[0][0] if found else None


def _as_recorded(record: Record, fitted: Record | None, channel: str, size: float, unit: str) -> tuple[float, str]:
    for one in (record, fitted):
        if one is not None and channel in one.channels:
            change = recorded_units(one).get(channel)
            if change is not None:
                return change.spread(size), change.unit
    return size, unit


def steps_after(
    chosen: StudyFit,
    weak: Sequence[str],
    tied: Sequence[tuple[str, str, float]],
    feeding: bool,
    outside: bool,
    disagree: bool,
) -> tuple[str, ...]:
    """Return what to do next, the most useful first."""
    steps = []
    if chosen.missing is None and (chosen.misses or not _white(chosen)):
        steps.append(
            "Read the warnings on the parameters: they say what the fit leaves, and whether the noise of the drive "
            "explains it. Look at the residuals against position and velocity."
        )
    elif chosen.misses or not _white(chosen) or (chosen.missing is not None and chosen.missing.missing):
        steps.append(
            'Look at "What is missing?" and at the residuals against position and velocity; add the term to the '
            "equations as a second candidate ([[model]]) and run kapitza compare."
        )
    if feeding:
        steps.append(
            "Do not use a friction below zero: it stands for another law, for example one that grows faster with the "
            "speed. Give it the bound 0 and add that law, or check the sign, the drive and the clock."
        )
    if chosen.validation is None:
        steps.append("Hold a part of the recording back (hold_back = 0.2) to see whether the model predicts.")
    if outside:
        steps.append("The prediction ends early: for chaotic motion that is natural, otherwise the model is not right.")
    for first, second, value in [pair for pair in tied if {*pair[:2]} & set(weak)][:2]:
        steps.append(
            f"{first} and {second} trade off (correlation {value:.3f}): fix one of them by a separate measurement, "
            "or excite the rig at other amplitudes and frequencies."
        )
    if weak:
        steps.append(f"Excite what tells {', '.join(weak)}: larger amplitudes, other frequencies, a longer recording.")
    if disagree:
        steps.append("Read why two methods disagree: the equations, the data, or one of the methods is wrong here.")
    if not chosen.misses:
        steps.append(
            "Test the model on another recording: kapitza validate STUDY OTHER.csv. Then use it: kapitza predict, "
            "follow, frequency-response, export."
        )
    return tuple(steps)
