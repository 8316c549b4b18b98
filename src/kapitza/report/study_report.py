"""write_study_report: what a study found, as one self-contained interactive HTML file."""

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

from kapitza.data import replacing
from kapitza.report.force_figures import force_figure, surface_figure
from kapitza.report.interactive import (
    check_figure,
    convergence_figure,
    decay_figure,
    fit_figure,
    interval_figure,
    portrait_figure,
    profile_figure,
    residual_figure,
    section_figure,
)
from kapitza.report.page import table_cells
from kapitza.study import Outcome, StudyResult

METHODS = {
    "auto": "automatic chain, ending with maximum likelihood on the raw series",
    "shooting": "maximum likelihood on the raw series (multiple shooting)",
    "harmonic": "equations integrated against test functions (weak form, harmonic balance)",
    "orbits": "periodic orbits found in the recording, matched by orbits of the model",
    "invariant": "conserved quantity of the model, held constant along the data",
}
"""Methods in words for people who do not know the package."""


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
    """The answer first, then how well it predicts, pictures, warnings, candidates and provenance. Returns the path.

    The file holds everything, Plotly included, and asks nothing of any network. truth: values known beforehand (of a
    simulated recording), shown beside those found.
    """
    from kapitza import __version__

    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    environment = Environment(loader=PackageLoader("kapitza.report"), autoescape=True, undefined=StrictUndefined)
    parts = study_parts(result, truth or {})
    text = environment.get_template("study.html").render(
        title=result.title,
        answer=result.sentence(),
        verdicts=[text for text in (result.verdict(), prediction_sentence(result.best)) if text],
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
    """The figure as JSON that cannot end the script element it stands in."""
    content = json.loads(str(figure.to_json()))
    content["layout"].pop("template", None)
    text = json.dumps(content, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def study_parts(result: StudyResult, truth: Mapping[str, float]) -> list[Part]:
    best = result.best
    parts: list[Part] = [Part("Before the fit", warnings=result.warnings)] if result.warnings else []
    if best is not None:
        parts.append(parameter_part(best, truth))
        parts += picture_parts(best)
        parts += missing_parts(best)
    else:
        parts.append(Part("What happened", warnings=[f"{o.label}: {o.failure}" for o in result.outcomes if o.failure]))
    parts += comparison_parts(result)
    parts += provenance_parts(result)
    return parts


def parameter_part(best: Outcome, truth: Mapping[str, float]) -> Part:
    rows = []
    for name in (*best.names, *(n for n in best.values if n not in best.names)):
        error = best.deviations.get(name, math.nan)
        value = best.values[name]
        relative = 100 * error / abs(value) if value else math.nan
        role = "found" if name in best.names else "derived"
        low, high = best.low.get(name, math.nan), best.high.get(name, math.nan)
        start = best.start.get(name, math.nan)
        rows.append((name, value, best.units.get(name, ""), _two(error), _two(relative), low, high, start, role))
    rows += [(n, v, best.units.get(n, ""), *[math.nan] * 5, "held") for n, v in best.fixed.items()]
    columns = ["parameter", "value", "unit", "standard error", "error [%]", "low", "high", "start", "role"]
    table = pd.DataFrame(rows, columns=columns)
    if truth:
        table.insert(1, "truth", [truth.get(name, math.nan) for name in table["parameter"]])
    empty = [c for c in table.columns if table[c].isna().all() or (table[c].astype(str) == "").all()]
    notes = [
        f"Method: {METHODS.get(best.method, best.method)}. "
        f"Columns low and high bound the {100 * best.level:g} % interval."
    ]
    if best.identifiable and set(best.identifiable) != set(best.names):
        notes.append("These data determine only the combinations " + ", ".join(best.identifiable) + ".")
    if best.noise:
        noise = ", ".join(f"{name} {value:.3g}" for name, value in best.noise.items())
        notes.append(f"Standard deviation of the noise: {noise}.")
    return Part("Parameters", notes, best.warnings, table.drop(columns=empty))


def _two(value: float) -> float:
    """Rounded to two digits."""
    return float(f"{value:.2g}") if math.isfinite(value) else value


def prediction_sentence(best: Outcome | None) -> str:
    """How well the fit follows what it has not seen."""
    if best is None:
        return ""
    if best.check is None:
        return f"Held-back data: {best.check_failure}" if best.check_failure else ""
    said = ", ".join(
        f"{channel} to {best.check.rms(channel):.3g} {best.check.units.get(channel, '')}".rstrip()
        + f" ({100 * best.check.share(channel):.2g} % of its spread)"
        for channel in best.check.measured
    )
    pieces = "" if best.check.complete else f", in pieces of {best.check.length:.3g} s"
    return f"Data that were not fitted are followed{pieces}: {said}, root mean square."


def picture_parts(best: Outcome) -> list[Part]:
    """The figures that this fit has."""
    # one sample per period joins to no curve: the section shows it
    strobed, pieces = best.section is not None, ""
    if best.motion is not None and not best.motion.complete:
        pieces = " The motion is chaotic or the model a little wrong: it was followed in pieces of "
        pieces += f"{best.motion.length:.3g} s."
    figures = [
        ("Fit over the data", None if strobed else fit_figure(best), "The motion of the fitted model from the initial "
         "state that follows the data best; at most 3000 samples are drawn." + pieces),
        ("Prediction of a recording that was not fitted", check_figure(best), "Parameters from the fit; only the "
         "initial state is found from this recording."),
        ("Residuals", residual_figure(best), "Predicted minus measured, against time, the value itself and its rate; "
         "without structure when the equations are complete."),
        ("Phase portrait", None if strobed else portrait_figure(best), "Velocity against position along the fitted "
         "motion."),
        ("Forces", force_figure(best.forces), "Force per mass against position (at rest) and against velocity (at "
         "zero), over the range of the data, with the 95 % band that the errors of the parameters give."),
        ("Restoring-force surface", surface_figure(best.surfaces, best.motion), "The same force over position and "
         "velocity together; hover for its value and half its 95 % band. Far from the motion of the fit (dark) the "
         "surface is what the equations say, not what the data showed."),
        ("Free decay", decay_figure(best), "Amplitude of each half cycle against time, and frequency against amplitude "
         "(backbone): data and fitted motion."),
        ("Profile likelihoods", profile_figure(best), "How much worse the fit gets when one parameter is held "
         "elsewhere and the others follow; a parabola where the interval is Gaussian. The line marks its ends."),
        ("Convergence", convergence_figure(best), "How the parameters came to their values."),
        ("Section and orbits", None if best.section is None else section_figure(best.section), "One point per "
         "excitation period, and the periodic orbits found in it; hover one for its code, period and multipliers."),
    ]  # fmt: skip
    return [Part(title, figure=figure, caption=caption) for title, figure, caption in figures if figure is not None]


def missing_parts(best: Outcome) -> list[Part]:
    """What the residuals still ask for, and what would have been seen."""
    if not best.missing:
        return []
    rows = [
        (t.name, t.add, t.coefficient, _two(t.error), _two(t.gain), t.log10_p, _two(t.detectable)) for t in best.asked
    ]
    columns = ["term", "added to the equation", "coefficient", "error", "gain", "log10 p", "would have been seen"]
    explained = (
        "gain: by how much the sum of squared residuals would fall, in variances of the noise. p: chance of it "
        "in a complete model, the search paid for. All without a refit."
    )
    notes = [*best.missing.splitlines(), explained]
    return [Part("What is missing?", notes, table=pd.DataFrame(rows, columns=columns))]


def comparison_parts(result: StudyResult) -> list[Part]:
    parts = []
    table = result.comparison()
    if len(table):
        shown = table.copy()
        shown["held back [%]"] = 100 * shown.pop("held back")
        notes = (
            "AIC and BIC weigh the fit against the number of parameters; smaller is better. weight: evidence for each "
            "model among these. held back: error on data that were not fitted, in per cent of their spread.",
        )
        parts.append(Part("Candidates", notes, table=shown.dropna(axis=1, how="all")))
    several = list(result.succeeded)
    if result.best is not None and sum(o.candidate == result.best.candidate for o in several) > 1:
        # other candidates mean other things by the same names: they are in the table above
        several = [o for o in several if o.candidate == result.best.candidate]
    failures = [f"{o.label}: {o.failure}" for o in result.outcomes if o.failure] if result.best is not None else []
    if len(several) > 1:
        parts.append(
            Part(
                "All fits side by side",
                warnings=result.disagreements(),
                figure=interval_figure(several),
                caption="Intervals of every fit. A wide one runs out of its panel instead of flattening the others.",
            )
        )
    elif several:
        parts.append(Part("Intervals", figure=interval_figure(several)))
    if failures:
        parts.append(Part("Fits that gave no answer", warnings=failures))
    return parts


def provenance_parts(result: StudyResult) -> list[Part]:
    """What a repetition needs."""
    equations = "\n\n".join(f"{name}\n{text}" for name, text in result.models.items())
    notes = [f"{o.label}: {note}" for o in result.outcomes for note in o.notes]
    files = pd.DataFrame(list(result.checksums.items()), columns=["file", "SHA-256"])
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    return [
        Part("Equations", listing=equations),
        Part("Data", result.data, table=files),
        Part("How it was made", [*notes, f"Versions: {versions}. Seed {result.seed}."], listing=result.study,
             folded="The study file"),
    ]  # fmt: skip
