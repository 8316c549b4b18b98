"""`kapitza demo`: a noisy pendulum experiment, the orbits in it, and the parameters behind them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from kapitza.cli.console import answers, examples
from kapitza.cli.models import equation_text
from kapitza.files import replacing

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from kapitza.data import Record
    from kapitza.estimate import Estimate
    from kapitza.model import Model
    from kapitza.orbit import OrbitSet

FREE = ("l", "k2", "k3")
START = {"l": 0.8, "k2": 0.0, "k3": 0.0}
"""The guess, as a share of the truth: the length 20 % off, friction unknown."""

NOISE = 5e-4
"""Of the readings, as a share of the attractor's size."""


def demo(
    periods: Annotated[int, typer.Option(min=5000, help="Excitation periods to record.")] = 50_000,
    out: Annotated[Path, typer.Option(help="Folder for the picture and the report.")] = Path("out"),
) -> None:
    """Record a chaotic pendulum with noise, find the periodic orbits in the record, and fit the model to them."""
    from kapitza import find_orbits
    from kapitza.estimate import identify
    from kapitza.library import parametric_pendulum

    console = answers()
    truth = parametric_pendulum()
    console.print(Text(truth.description + "."))
    begin = time.perf_counter()
    record = noisy_record(truth, periods)
    recorded = time.perf_counter()
    orbits = find_orbits(record, max_period=5)
    found = time.perf_counter()
    guess = truth.with_values(**{name: share * truth.values[name] for name, share in START.items()})
    fit = identify(guess, orbits, free=FREE)
    done = time.perf_counter()
    facts = demo_facts(record, orbits, fit, (recorded - begin, found - recorded, done - found))
    table = comparison(truth, fit)
    page = write_demo_page(guess, record, orbits, fit, facts, table, out / "demo.html")
    picture = out / "demo.png"
    with replacing(picture) as draft:
        demo_figure(record, orbits).savefig(draft, dpi=160)
    for text in facts:
        console.print(Text(text))
    console.print(printed(table))
    for text in fit.warnings:
        console.print(Text(f"Warning: {text}", style="yellow"))
    console.print(Text(f"Picture: {picture}\nReport:  {page}", style="bold"))


demo.__doc__ = (demo.__doc__ or "") + examples("kapitza demo", "kapitza demo --periods 200000 --out pendulum")


def noisy_record(truth: Model, periods: int) -> Record:
    import numpy as np

    from kapitza.data import measure
    from kapitza.flow import simulate

    clean = simulate(truth, periods=periods)
    noise = {"phi": NOISE * 2 * np.pi, "phi'": NOISE * float(np.ptp(clean["phi'"]))}
    return measure(clean, noise=noise, seed=1)


def demo_facts(record: Record, orbits: OrbitSet, fit: Estimate, seconds: tuple[float, float, float]) -> tuple[str, ...]:
    """What the demo did, in sentences."""
    assert record.period is not None
    count = len(record) - 1
    hours = count * record.period / 3600
    matched = len(fit.matches.orbits) if fit.matches is not None else 0
    return (
        f"{count} excitation periods ({hours:.1f} hours of pendulum time) simulated, strobed and given "
        f"{100 * NOISE:g} % of noise in {seconds[0]:.1f} s.",
        f"The motion is chaotic, but {len(orbits)} unstable periodic orbits of up to 5 periods were found in it, "
        f"without the model, in {seconds[1]:.1f} s.",
        f"The model's orbits were matched to {matched} of them in {seconds[2]:.1f} s, starting "
        "from a length 20 % too short and no friction at all.",
    )


def comparison(truth: Model, fit: Estimate) -> pd.DataFrame:
    """Truth beside the estimate: one row per parameter."""
    import pandas as pd

    interval = fit.interval(0.95)
    low, high = interval["low"].to_dict(), interval["high"].to_dict()
    rows = [
        (
            name,
            fit.units.get(name, ""),
            truth.values[name],
            fit.start[name],
            fit.values[name],
            low[name],
            high[name],
            100 * (fit.values[name] / truth.values[name] - 1),
        )
        for name in fit.names
    ]
    columns = ["parameter", "unit", "truth", "start", "estimate", "95 % low", "95 % high", "error [%]"]
    return pd.DataFrame(rows, columns=columns)


def printed(table: pd.DataFrame) -> Table:
    """The same within 80 columns."""
    shown = Table(box=None, pad_edge=False)
    for name in ("parameter", "truth", "start", "estimate", "95 % interval", "error"):
        shown.add_column(name, justify="left" if name == "parameter" else "right", no_wrap=True)
    for name, unit, truth, start, value, low, high, error in table.itertuples(index=False):
        shown.add_row(
            f"{name} ({unit})",
            f"{truth:.5g}",
            f"{start:.4g}",
            f"{value:.5g}",
            f"{low:.5g} … {high:.5g}",
            f"{error:+.2g} %",
        )
    return shown


def demo_figure(record: Record, orbits: OrbitSet) -> Figure:
    from kapitza.report import plot_orbits

    return plot_orbits(orbits, record=record)


def write_demo_page(
    model: Model,
    record: Record,
    orbits: OrbitSet,
    fit: Estimate,
    facts: tuple[str, ...],
    table: pd.DataFrame,
    path: Path,
) -> Path:
    import pandas as pd

    from kapitza.report import Section, plot_estimate, write_page

    parameters = pd.DataFrame(
        [(p.name, fit.model.values[p.name], p.unit, p.description) for p in model.parameters],
        columns=["parameter", "value", "unit", "meaning"],
    )
    sections = [
        Section("What was done", facts),
        Section(
            "Truth and estimate",
            ("The interval should hold the truth in 95 of 100 such experiments.",),
            table=table,
            warnings=fit.warnings,
        ),
        Section(
            "The record and its orbits",
            figure=demo_figure(record, orbits),
            caption="Angle and angular velocity once per excitation period, at the top of the support; the dots are "
            "the periodic orbits found in the record, coloured by their period.",
        ),
        Section(
            "How sure the estimates are",
            figure=plot_estimate(fit),
            caption="Intervals, correlations of the errors, and weighted residuals; on the line they are Gaussian.",
        ),
        Section("How every orbit was matched", table=fit.matches.table.round(3) if fit.matches is not None else None),
        Section("The model", listing=equation_text(model), table=parameters),
    ]
    return write_page("A chaotic pendulum", f"{model.description}. Source: {model.source}.", sections, path)
