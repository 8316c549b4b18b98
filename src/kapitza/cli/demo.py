"""`kapitza demo`: a chaotic pendulum, strobed, with its picture and a report."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer
from matplotlib.figure import Figure
from rich.text import Text

from kapitza.cli.console import answers, examples
from kapitza.cli.models import equation_text
from kapitza.cli.simulate import simulate_periods
from kapitza.data import Record
from kapitza.library import parametric_pendulum
from kapitza.model import Model
from kapitza.orbit import OrbitSet, PeriodicOrbit, circle_difference
from kapitza.periodic import solve_orbit
from kapitza.report import Section, plot_orbits, write_page


def demo(
    periods: Annotated[int, typer.Option(min=1000, help="Excitation periods to strobe.")] = 50_000,
    out: Annotated[Path, typer.Option(help="Folder for the picture and the report.")] = Path("out"),
) -> None:
    """Simulate a pendulum on a shaken support into chaos, strobe it, find an orbit inside, and draw it all."""
    console = answers()
    model = parametric_pendulum()
    console.print(Text(model.description + "."))
    begin = time.perf_counter()
    record = simulate_periods(model, None, periods, 1)
    seconds = time.perf_counter() - begin
    orbit = solve_orbit(model, closest_rotation(record))
    facts = demo_facts(record, seconds, orbit)
    page = write_demo_page(model, record, orbit, facts, out / "demo.html")
    picture = out / "demo.png"
    demo_figure(record, orbit).savefig(picture, dpi=160)
    for text in facts:
        console.print(Text(text))
    console.print(Text(f"Picture: {picture}\nReport:  {page}", style="bold"))


demo.__doc__ = (demo.__doc__ or "") + examples("kapitza demo", "kapitza demo --periods 200000 --out pendulum")


def closest_rotation(record: Record) -> np.ndarray:
    """The sample of a fast motion that comes back nearest to itself after one period."""
    points = record.values(["phi", "phi'"])
    scale = np.ptp(points, axis=0)
    gap = np.linalg.norm(circle_difference(points[1:], points[:-1], (True, False)) / scale, axis=1)
    rotating = points[:-1, 1] > 0.2 * points[:, 1].max()
    return points[:-1][rotating][np.argmin(gap[rotating])]


def demo_facts(record: Record, seconds: float, orbit: PeriodicOrbit) -> tuple[str, ...]:
    """What the demo found, in sentences."""
    assert record.period is not None
    assert orbit.multipliers is not None
    count = len(record) - 1
    hours = count * record.period / 3600
    speed = np.abs(record["phi'"]).max()
    phi, rate = orbit.points[0]
    growth, decay = (complex(value).real for value in orbit.multipliers)
    return (
        f"{count} excitation periods ({hours:.1f} hours of pendulum time) simulated and strobed in {seconds:.1f} s.",
        f"The motion is chaotic: it never repeats, and |φ'| reaches {speed:.2f} rad/s.",
        f"Inside it lies a rotation that does repeat, one turn per period, through φ = {phi:.4f} rad, "
        f"φ' = {rate:.4f} rad/s. It is unstable, with Floquet multipliers {growth:.3f} and {decay:.3f}: "
        f"a disturbance grows {abs(growth):.1f} times in every period.",
    )


def demo_figure(record: Record, orbit: PeriodicOrbit) -> Figure:
    return plot_orbits(OrbitSet((orbit,), record.angles), record=record)


def write_demo_page(model: Model, record: Record, orbit: PeriodicOrbit, facts: tuple[str, ...], path: Path) -> Path:
    parameters = pd.DataFrame(
        [(p.name, model.values[p.name], p.unit, p.description) for p in model.parameters],
        columns=["parameter", "value", "unit", "meaning"],
    )
    sections = [
        Section(
            "The section",
            facts,
            figure=demo_figure(record, orbit),
            caption="Angle and angular velocity once per excitation period, at the top of the support; "
            "the large dot is the orbit.",
        ),
        Section("The model", listing=equation_text(model), table=parameters),
    ]
    return write_page("A chaotic pendulum", f"{model.description}. Source: {model.source}.", sections, path)
