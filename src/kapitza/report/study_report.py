"""Write what a study found as one HTML file.

The file is self-contained and interactive.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from kapitza.base.cures import in_study
from kapitza.base.files import replacing
from kapitza.estimate import Estimate
from kapitza.report.force_figures import force_figure, surface_figure
from kapitza.report.forces import forces_of
from kapitza.report.interactive import (
    convergence_figure,
    decay_figure,
    fit_figure,
    interval_figure,
    lead_figure,
    portrait_figure,
    profile_figure,
    residual_figure,
    section_figure,
)
from kapitza.report.motions import Motion, as_recorded, motion_of_test, motions_of, recorded_units
from kapitza.report.page import table_cells
from kapitza.report.plan_page import LONG, duration_table, map_figure, plan_answers, plan_sentences, plan_table
from kapitza.report.spectrum_figures import correlation_figure, response_figure, spectrum_figure
from kapitza.report.verdict import scatter_word, verdict_of
from kapitza.study import StudyFit, StudyResult, fitted_orbits, fitted_settings

METHODS = {
    "auto": "automatic chain, ending with maximum likelihood on the raw series",
    "shooting": "maximum likelihood on the raw series (multiple shooting)",
    "harmonic": "equations integrated against test functions (weak form, harmonic balance)",
    "orbits": "periodic orbits found in the recording, matched by orbits of the model",
    "invariant": "conserved quantity of the model, held constant along the data",
}
"""Describe methods for readers who do not know the package."""

MOST_RECORDINGS = 4
"""Recordings that are drawn, of those fitted together."""

ASKED = 8
"""Terms of those tested for that a table shows."""


@dataclass(frozen=True)
class Part:
    """A section of the page."""

    title: str
    paragraphs: Sequence[str] = ()
    warnings: Sequence[str] = ()
    table: pd.DataFrame | None = None
    figure: go.Figure | None = None
    caption: str = ""
    listing: str = ""
    folded: str = ""


def write_study_report(result: StudyResult, path: str | Path, truth: Mapping[str, float] | None = None) -> Path:
    """Write the report of a study; return its path.

    The answer comes first, then how well it predicts, pictures, warnings, candidates and provenance.
    The file holds everything, Plotly included, and asks nothing of any network. truth: values known before (of a
    simulated recording), shown beside those found.
    """
    from kapitza import __version__

    path = Path(path)
    environment = Environment(loader=PackageLoader("kapitza.report"), autoescape=True, undefined=StrictUndefined)
    parts = study_parts(result, truth or {})
    text = environment.get_template("study.html").render(
        title=result.title,
        answer=result.sentence(),
        verdict=verdict_of(result),
        verdicts=[text for text in (result.verdict(), *held_back_sentences(result.chosen)) if text],
        sections=[part_values(part, number) for number, part in enumerate(parts)],
        plotly=Markup(get_plotlyjs()),
        footer=f"Kapitza {__version__}, {datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC",
    )
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8")
    return path


def part_values(part: Part, number: int) -> dict[str, Any]:
    return {
        "title": part.title,
        "identifier": f"figure{number}",
        "paragraphs": part.paragraphs,
        "warnings": part.warnings,
        "table": None if part.table is None else table_cells(part.table),
        "figure": None if part.figure is None else figure_json(part.figure),
        "caption": part.caption,
        "listing": part.listing,
        "folded": part.folded,
    }


def figure_json(figure: go.Figure) -> Markup:
    """Return the figure as JSON for a script.

    The text cannot end the script element that holds it.
    """
    content = json.loads(str(figure.to_json()))
    content["layout"].pop("template", None)
    text = json.dumps(content, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def study_parts(result: StudyResult, truth: Mapping[str, float]) -> list[Part]:
    """Return the sections of a study's report.

    Parameters, pictures, missing terms, candidates, provenance.
    """
    chosen = result.chosen
    parts: list[Part] = [Part("Before the fit", warnings=result.warnings)] if result.warnings else []
    if chosen is not None:
        parts.append(parameter_part(chosen, result.level, truth))
        parts += candidate_parts(result)
        parts += picture_parts(chosen, result)
        parts += missing_parts(chosen)
        parts += plan_parts(result)
    else:
        parts.append(Part("What happened", warnings=[f"{fit.label}: {fit.failure}" for fit in result.fits]))
    parts += comparison_parts(result)
    parts += provenance_parts(result)
    return parts


ROLES = {"free": "found", "fixed": "held"}


def parameter_part(chosen: StudyFit, level: float, truth: Mapping[str, float]) -> Part:
    best = chosen.answer
    table = best.table(level).reset_index(names="parameter")
    table["role"] = [ROLES.get(role, role) for role in table["role"]]
    for column in ("error", "error_%"):
        table[column] = [_two(value) for value in table[column]]
    table = table.rename(columns={"error": "standard error", "error_%": "error [%]"})
    if truth:
        table.insert(1, "truth", [truth.get(name, math.nan) for name in table["parameter"]])
    empty = [c for c in table.columns if table[c].isna().all() or (table[c].astype(str) == "").all()]
    how = METHODS.get(chosen.method, chosen.method)
    notes = [f"Method: {how}. Columns low and high bound the {100 * level:g} % interval."]
    if best.identifiable and set(best.identifiable) != set(best.names):
        notes.append("These data determine only the combinations " + ", ".join(best.identifiable) + ".")
    if best.noise:
        noise = ", ".join(_noise_words(best, name, value) for name, value in best.noise.items())
        notes.append(f"Standard deviation of {scatter_word(best)}: {noise}.")
    if best.leverage:
        unseen = "; ".join(str(fault) for fault in best.leverage)
        notes.append(f"Faults of the measurement too small to be seen are not in the intervals: {unseen}.")
    return Part("Parameters", notes, [in_study(text) for text in best.warnings], table.drop(columns=empty))


def _noise_words(best: Estimate, name: str, value: float) -> str:
    """Return a channel's noise in the recording's unit."""
    records = [record for record, _ in fitted_settings(best) if name in record.channels]
    change = recorded_units(records[0]).get(name) if records else None
    unit = records[0].units.get(name, "") if records else ""
    if change is not None:
        value, unit = change.spread(value), change.unit
    return f"{name} {value:.3g} {unit}".rstrip()


def _two(value: float) -> float:
    """Return a number rounded to two digits."""
    return float(f"{value:.2g}") if math.isfinite(value) else value


def held_back_sentences(chosen: StudyFit | None) -> list[str]:
    """Return a sentence on predictions of held-back data."""
    if chosen is None or chosen.validation is None:
        return []
    rows = chosen.validation.table().head(2)
    said = "; ".join(f"{test}: {row['modelled']}, {row['verdict']}" for test, row in rows.iterrows())
    return [f"Data that were not fitted: {said}."] if said else []


def held_back_parts(chosen: StudyFit) -> list[Part]:
    """Return all tests on data that were not fitted."""
    if chosen.validation is None:
        return []
    table = chosen.validation.table().reset_index()
    table = table.drop(columns=[c for c in table.columns if not any(table[c])])
    lead = lead_figure(chosen.validation.prediction)
    caption = (
        "Error of the predictions of data that were not fitted against the time since the last fitted sample, in "
        "standard deviations of the noise; above the dashed line a prediction has ended."
    )
    return [
        Part(
            "Data that were not fitted", chosen.validation.notes, table=table, figure=lead, caption=caption * bool(lead)
        )
    ]


def picture_parts(chosen: StudyFit, result: StudyResult) -> list[Part]:
    """Return the figures that this fit has."""
    best, moving = chosen.answer, chosen.moving
    motions = [] if moving is None else motions_of(moving)
    test, section = motion_of_test(chosen.validation), section_figure(fitted_orbits(best))
    plain = motions[0] if motions else None
    forces = forces_of(best, motions, result.seed)
    records = [record for record, _ in fitted_settings(best)]
    motions = [as_recorded(m, records[i] if i < len(records) else None) for i, m in enumerate(motions)]
    if test is not None and chosen.validation is not None:
        test = as_recorded(test, chosen.validation.record)
    first, record = motions[0] if motions else None, records[0] if records else None
    own = {} if plain is None else plain.units
    known = {**own, **{state: unit for state, unit in best.model.units.items() if unit}}
    if record is not None:
        forces, known = forces.as_recorded(record, known)
    drives = [signal.name for signal in best.model.signals]
    driven = bool(drives) or best.model.period is not None
    parts = [] if section is not None else fit_parts(chosen, motions, test)
    figures = [
        ("Residuals", residual_figure(first), "Predicted minus measured at every sample, thinned by extremes, against "
         "time, the value itself and its rate; without structure when the equations are complete. The band is twice "
         "the noise; outliers are marked." + _of_drive(best)),
        ("Spectrum", None if section is not None else spectrum_figure(first), "Power density of data, model and "
         "residuals. Lines of the data that the model lacks stand in the residuals."),
        ("Frequency response", response_figure(first, record, drives), "Response to the measured drive, from "
         "the samples of the data and of the model in the same way. For a nonlinear rig it holds for this drive; "
         "kapitza frequency-response computes it for others, with folds and hysteresis."),
        ("Phase portrait", None if section is not None else portrait_figure(first), "Velocity against position along "
         "the fitted motion."),
        ("Forces", force_figure(forces.curves, known), "Force per mass against position (at rest) and against "
         "velocity (at zero), over the range of the data, with the 95 % band that the errors of the parameters give."),
        ("Restoring-force surface", surface_figure(forces.surfaces, first, known), "The same force over position and "
         "velocity together; hover for its value and half its 95 % band. Far from the motion of the fit (dark) the "
         "surface is what the equations say, not what the data showed."),
        # Behind a resonance a driven motion shrinks too.
        ("Free decay", None if driven else decay_figure(first), "Amplitude of each half cycle against time, "
         "and frequency against amplitude (backbone): data and fitted motion."),
        ("Profile likelihoods", profile_figure(chosen.profiles, best, result.level), "How much worse the fit gets when "
         "one parameter is held elsewhere and the others follow; a parabola where the interval is Gaussian. The line "
         "marks its ends."),
        ("Correlation of the parameters", correlation_figure(best), "Near 1 or -1 two parameters trade off: a "
         "combination of them is known better than each."),
        ("Convergence", convergence_figure(best), "How the parameters came to their values."),
        ("Section and orbits", section, "One point per "
         "excitation period, and the periodic orbits found in it; hover one for its code, period and multipliers."),
    ]  # fmt: skip
    parts += held_back_parts(chosen)
    return [*parts, *(Part(title, figure=f, caption=caption) for title, f, caption in figures if f is not None)]


def _of_drive(best: Estimate) -> str:
    """Return a sentence on residuals by noise of the drive, else ""."""
    if best.motion is None or not best.motion.drive_noise:
        return ""
    return " They contain the response to the noise of the drive, which the verdict and the intervals count."


def fit_parts(chosen: StudyFit, motions: Sequence[Motion], test: Motion | None) -> list[Part]:
    """Return sections on data and fitted motion.

    Each recording that was fitted has one, and one recording that was not.
    """
    own = chosen.estimate is not None and chosen.estimate.motion is not None
    said = "Data and the motion that was fitted to them"
    if not own:
        said = "This method fits no motion: drawn is that of the fitted model from the states that follow the data best"
    caption = f"{said}; all of the record, thinned by extremes. Samples left out of the fit and outliers are marked."
    later = test is not None and bool(motions) and float(test.time[0]) >= float(motions[0].time[-1])
    parts = []
    for number, motion in enumerate(motions[:MOST_RECORDINGS]):
        title = "Fit over the data" + (f", recording {number + 1}" if len(motions) > 1 else "")
        figure = fit_figure(motion, test if later and number == 0 else None)
        parts.append(Part(title, figure=figure, caption=caption))
    if test is not None and not later:
        caption = "Parameters from the fit; only states are fitted, to the beginning of each stretch."
        parts.append(Part("Prediction of a recording that was not fitted", figure=fit_figure(test), caption=caption))
    return parts


def missing_parts(chosen: StudyFit) -> list[Part]:
    """Return what residuals suggest and what was testable.

    Terms that the equations may lack, and how large a term would have been found.
    """
    found = chosen.missing
    if found is None:
        return []
    shown = list(dict.fromkeys((*(found.alternatives or found.terms), *found.terms)))[:ASKED]
    rows = [
        (t.name, t.notation.format(c="c"), t.coefficient, _two(t.error), _two(t.gain), t.log10_p, _two(t.detectable))
        for t in shown
    ]
    columns = ["term", "added to the equation", "coefficient", "error", "gain", "log10 p", "would have been seen"]
    explained = (
        "gain: by how much the sum of squared residuals would fall, in variances of the noise. p: probability of such "
        "a gain in a complete model, corrected for the number of terms tested. All without a refit."
    )
    notes = [*str(found).splitlines(), explained]
    return [Part("What is missing?", notes, table=pd.DataFrame(rows, columns=columns))]


def plan_parts(result: StudyResult) -> list[Part]:
    """Return the next experiment, where the study requests it."""
    plan = result.plan
    if plan is None:
        return [Part("The next experiment", warnings=[result.plan_problem])] if result.plan_problem else []
    parts = [Part("The next experiment", plan_sentences(plan), table=plan_table(plan) if plan.expected else None)]
    if not plan.expected:
        return parts
    figure = map_figure(plan)
    caption = (
        "Mean relative width of what is wanted after the run, the other choices as in the best experiment. Stars: "
        "experiments of the table by rank; squares: measured; grey: beyond a limit. Hover for the width."
    )
    if figure is not None:
        parts.append(Part("Map of the next experiment", figure=figure, caption=caption))
    parts.append(Part("How long is long enough", [LONG], table=duration_table(plan)))
    parts.append(Part("Sensors, and what cannot be improved", plan_answers(plan)))
    return parts


LEAST_WEIGHT = 1e-6
"""Evidence for a candidate below which its digits say nothing."""


def candidate_parts(result: StudyResult) -> list[Part]:
    """Return the candidates by evidence, and what each of them gives for the parameters."""
    parts = []
    table = result.comparison()
    if len(table):
        # The same for all: said once, not in a column.
        method, readings = table["method"].iloc[0], table["readings"].iloc[0]
        shown = table.drop(columns=["chi2", "dof", "F", "p", "method", "readings", "log L"])
        shown["weight"] = ["< 1e-6" if w < LEAST_WEIGHT else f"{w:.3g}" for w in shown["weight"]]
        shown["held back [%]"] = [_two(100 * share) for share in shown.pop("held back")]
        for column in ("AIC", "BIC", "dAIC", "dBIC"):
            shown[column] = shown[column].round(1)
        notes = (
            f"Fits by {method} to {readings} readings. AIC and BIC weigh the fit against the number of parameters; "
            "smaller is better. weight: evidence for each model among these. held back: prediction error of data that "
            "were not fitted, in per cent of their spread.",
        )
        parts.append(Part("Candidates", notes, table=shown.dropna(axis=1, how="all")))
    if len({fit.candidate for fit in result.fits if _has_values(fit)}) > 1:
        note = f"Value, and in brackets the ends of its {100 * result.level:g} % interval."
        parts.append(Part("Parameters of every candidate", [note], table=estimate_table(result)))
    return parts


def _has_values(fit: StudyFit) -> bool:
    return fit.estimate is not None and bool(fit.estimate.names)


def estimate_table(result: StudyResult) -> pd.DataFrame:
    """Return the parameters found, one row per fit, also of those that lose or did not end well.

    A cell holds the value and the ends of its interval.
    """
    rows = []
    for fit in result.fits:
        if fit.estimate is None or not fit.estimate.names:
            continue
        ends, units = fit.estimate.interval(result.level), fit.estimate.units
        row = {"model": fit.candidate, "method": fit.method}
        for name in fit.estimate.names:
            unit = units.get(name, "")
            low, high = float(ends["low"][name]), float(ends["high"][name])
            row[f"{name} [{unit}]" if unit else name] = with_ends(float(fit.estimate.values[name]), low, high)
        rows.append(row)
    table = pd.DataFrame(rows).fillna("")
    return table.drop(columns="method") if table["method"].nunique() == 1 else table


def with_ends(value: float, low: float, high: float) -> str:
    """Return a value with the ends of its interval, to two digits of its width.

    >>> with_ends(64.06324, 64.04762, 64.07893)
    '64.063 (64.048 to 64.079)'
    >>> with_ends(0.09, -0.001, 0.19)
    '0.09 (0.00 to 0.19)'
    >>> with_ends(0.0, math.nan, math.nan)
    '0 (no interval)'
    """
    if not (math.isfinite(low) and math.isfinite(high) and high > low):
        return f"{value:.6g} (no interval)"
    digits = max(0, 1 - math.floor(math.log10(high - low)))
    if digits > 7 or max(abs(low), abs(high)) >= 1e6:
        return f"{value:.6g} ({low:.6g} to {high:.6g})"
    # A rounded -0.001 is 0.00, not -0.00.
    value, low, high = (round(number, digits) + 0.0 for number in (value, low, high))
    return f"{value:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def comparison_parts(result: StudyResult) -> list[Part]:
    parts = []
    several, chosen = list(result.succeeded), result.chosen
    if chosen is not None and sum(fit.candidate == chosen.candidate for fit in several) > 1:
        # other candidates mean other things by the same names: they are in the table above
        several = [fit for fit in several if fit.candidate == chosen.candidate]
    failures = [f"{fit.label}: {fit.failure}" for fit in result.fits if fit.failure] if chosen is not None else []
    shown = {fit.label: fit.answer for fit in several}
    if len(several) > 1:
        parts.append(
            Part(
                "All fits side by side",
                warnings=result.disagreements(),
                figure=interval_figure(shown, result.level),
                caption="Intervals of every fit. A wide one runs out of its panel instead of flattening the others.",
            )
        )
    elif several:
        parts.append(Part("Intervals", figure=interval_figure(shown, result.level)))
    if failures:
        parts.append(Part("Fits that gave no answer", warnings=failures))
    return parts


def provenance_parts(result: StudyResult) -> list[Part]:
    """Return what a repetition needs."""
    equations = "\n\n".join(f"{name}\n{text}" for name, text in result.models.items())
    notes = [f"{fit.label}: {note}" for fit in result.fits for note in fit.notes]
    files = pd.DataFrame(list(result.checksums.items()), columns=["file", "SHA-256"])
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    return [
        Part("Equations", listing=equations),
        Part("Data", result.data, table=files),
        Part("How it was made", [*notes, f"Versions: {versions}. Seed {result.seed}."], listing=result.study,
             folded="The study file"),
    ]  # fmt: skip
