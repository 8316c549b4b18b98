"""write_report: an estimate as one HTML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from kapitza.data import Part, Record, as_parts
from kapitza.estimate import Estimate
from kapitza.model import Model
from kapitza.orbits import OrbitSet, PeriodicOrbit
from kapitza.report.estimate_figures import plot_estimate
from kapitza.report.figures import plot_attractor, plot_orbits, plot_record
from kapitza.report.orbit_fit_sections import likelihood_notes, orbit_fit_sections
from kapitza.report.page import Section, write_page
from kapitza.report.verdict import scatter_word


def write_report(estimate: Estimate, path: str | Path, level: float = 0.95) -> Path:
    """Write the report of an estimate.

    Parameters with intervals, warnings, figures, the model and the data are on one self-contained page.
    Open it in any browser; it needs no network. Returns the path.
    """
    sections = [
        Section(
            "Parameters",
            parameter_notes(estimate, level),
            table=parameter_table(estimate, level),
            warnings=estimate.warnings,
        ),
        Section(
            "How sure they are",
            figure=plot_estimate(estimate, level),
            caption="Intervals, correlations of the errors, and residuals; on the line they are Gaussian.",
        ),
        *orbit_fit_sections(estimate),
        *(data_sections(as_parts(estimate.data)) if estimate.data is not None else ()),
        *model_sections(estimate.model),
    ]
    if estimate.history is not None and len(estimate.history):
        sections.append(Section("Iterations", table=estimate.history.tail(50)))
    name = getattr(estimate.model, "name", "")
    title = "Estimated parameters" if name in ("", "model") else f"Parameters of {name}"
    return write_page(title, estimate.headline, sections, path)


def parameter_table(estimate: Estimate, level: float) -> pd.DataFrame:
    """Return the table without empty columns.

    Errors are rounded to two digits.
    """
    table = estimate.table(level)
    for column in ("error", "error_%"):
        table[column] = [float(f"{value:.2g}") for value in table[column]]
    empty = [name for name in table.columns if table[name].isna().all() or (table[name].astype(str) == "").all()]
    return table.drop(columns=empty)


def parameter_notes(estimate: Estimate, level: float) -> tuple[str, ...]:
    freedom = "known noise" if estimate.dof == float("inf") else f"{estimate.dof:.0f} degrees of freedom"
    notes = [f"Columns low and high bound the {100 * level:g} % interval ({freedom})."]
    if estimate.chi2 == estimate.chi2:
        notes.append(f"Sum of squared weighted residuals: {estimate.chi2:.6g}.")
    if estimate.identifiable and estimate.identifiability is not None and not estimate.identifiability.complete:
        notes.append("These data determine only the combinations " + ", ".join(estimate.identifiable) + ".")
    if estimate.noise_alone is not None and estimate.status.ok:
        alone = estimate.noise_interval(level)
        widths = ", ".join(
            f"{name} {low:.6g} … {high:.6g}"
            for name, (low, high) in zip(alone.index, alone.to_numpy().tolist(), strict=True)
        )
        notes.append(f"Noise alone, were the model exactly right, would give {widths}.")
    if estimate.noise:
        known = ", ".join(f"{name} {value:.3g}" for name, value in estimate.noise.items())
        notes.append(f"Standard deviation of {scatter_word(estimate)}: {known}.")
    if estimate.leverage:
        unseen = "; ".join(str(fault) for fault in estimate.leverage)
        notes.append(f"Faults too small to be seen are not in the intervals: {unseen}. State them by a Sensor.")
    return (*notes, *likelihood_notes(estimate))


def data_sections(parts: Sequence[Part]) -> list[Section]:
    """Return sections that show the data.

    Single orbits with the same values are shown as one set.
    """
    orbits: dict[tuple[tuple[str, float], ...], list[PeriodicOrbit]] = {}
    for part in parts:
        if isinstance(part.source, PeriodicOrbit):
            orbits.setdefault(tuple(part.values.items()), []).append(part.source)
    sets = [Part(OrbitSet(tuple(found)), dict(values)) for values, found in orbits.items()]
    return [_with_values(s, part.values) for part in [*sets, *parts] for s in _of_source(part.source)]


def _with_values(section: Section, values: Mapping[str, float]) -> Section:
    if not values:
        return section
    text = "Its own values: " + ", ".join(f"{name} = {value:.6g}" for name, value in values.items()) + "."
    return replace(section, paragraphs=(*section.paragraphs, text))


def _of_source(data: Any) -> list[Section]:
    if isinstance(data, Record):
        text = (repr(data), f"Sampling: {data.sampling()}")
        if len(data.channels) > 1:
            return [Section("Data", text, figure=plot_attractor(data), caption="The record, channel against channel.")]
        return [Section("Data", text, figure=plot_record(data), caption="The record against time.")]
    if isinstance(data, OrbitSet) and len(data):
        text = (f"{len(data)} periodic orbits." + (f" {data.message}" if data.message else ""),)
        figure = plot_orbits(data) if len(data[0].states) > 1 else None
        caption = "The orbits fitted." if figure else ""
        return [Section("Data", text, table=orbit_table(data), figure=figure, caption=caption)]
    return []


def orbit_table(orbits: OrbitSet) -> pd.DataFrame:
    """Return one row per orbit.

    The columns include periods, code, largest multiplier and closure.
    """
    rows = [
        (
            len(orbit.points),
            orbit.code,
            ", ".join(f"{value:.5g}" for value in orbit.points[0]),
            float("nan") if orbit.multipliers is None else float(abs(orbit.multipliers[0])),
            orbit.closure,
            orbit.visits or None,
        )
        for orbit in orbits
    ]
    columns = ["periods", "code", "first point", "largest |multiplier|", "closure", "visits"]
    return pd.DataFrame(rows, columns=columns)


def model_sections(model: Any) -> list[Section]:
    """Return the equations as text.

    Empty where the model is not a `Model`.
    """
    if not isinstance(model, Model):
        return []
    equations = model.equations
    coordinates = [c.name for c in model.coordinates]
    if model.is_map:
        lines = [f"{name} -> {equation}" for name, equation in zip(coordinates, equations, strict=True)]
    else:
        lines = [f"0 = {equation}" for equation in equations]
    notes = tuple(text for text in (model.description, f"Source: {model.source}" if model.source else "") if text)
    return [Section("Model", notes, listing="\n".join(lines))]
