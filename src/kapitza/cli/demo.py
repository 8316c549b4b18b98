"""Implement `kapitza demo`.

It writes a noisy pendulum experiment as a recording, a study of it, and the report with the truth beside.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from kapitza.base.files import replacing
from kapitza.cli.console import answers, examples

if TYPE_CHECKING:
    import pandas as pd

    from kapitza.data import Record
    from kapitza.estimate import Estimate
    from kapitza.model import Model

FREE = ("l", "k2", "k3")
START = {"l": 0.8, "k2": 0.0, "k3": 0.0}
"""The guess, as a share of the truth: the length 20 % off, friction unknown."""

NOISE = 5e-4
"""Noise of the samples, as a share of the attractor's size."""

RUNS = 50
"""Runs that the demo records; they are simulated side by side."""

SETTLING = 40
"""Periods after which a run is on the attractor: the start differs by 1e-3 and grows by e in a period."""

STRETCH = 4
"""Periods from one rounding of the states to the next: rounding errors grow to 1e-13 over them."""

DIGITS = 5
"""Decimals that states are rounded to. Two processors round one differently once in 1e8: in one demo of a thousand."""

STUDY = """\
# The study behind `kapitza demo`. Change it and run it again: kapitza identify pendulum.toml
title = "A chaotic pendulum"

[model]
library = "parametric_pendulum"
# the length 20 % too short, and no friction at all
values = {{{values}}}

[data]
file = "pendulum.csv"            # angle and angular velocity once per excitation period

[fit]
free = [{free}]
method = "orbits"                # unstable periodic orbits in the recording, matched by those of the model
max_period = 5
"""


def demo(
    periods: Annotated[int, typer.Option(min=5000, help="Excitation periods to record.")] = 50_000,
    out: Annotated[Path, typer.Option(help="Folder for recording, study, picture and report.")] = Path("out"),
) -> None:
    """Identify a simulated chaotic pendulum.

    It is recorded with noise; a study of it is written and run for its length and friction.
    """
    from kapitza.data import write
    from kapitza.library import parametric_pendulum
    from kapitza.report import write_study_report
    from kapitza.study import read_study

    console = answers()
    truth = parametric_pendulum()
    console.print(Text(truth.description + "."))
    begin = time.perf_counter()
    out.mkdir(parents=True, exist_ok=True)
    record = noisy_record(truth, periods)
    write(record, out / "pendulum.csv")
    start = {name: share * truth.values[name] for name, share in START.items()}
    values = ", ".join(f"{name} = {value:.6g}" for name, value in start.items())
    with replacing(out / "pendulum.toml") as draft:
        free = ", ".join(f'"{name}"' for name in FREE)
        draft.write_text(STUDY.format(values=values, free=free), encoding="utf-8")
    recorded = time.perf_counter()
    result = read_study(out / "pendulum.toml").run()
    done = time.perf_counter()
    best = result.best
    if best is None:
        console.print(Text(str(result)))
        raise typer.Exit(1)
    page = write_study_report(result, out / "demo.html", truth=truth.values)
    picture = out / "demo.png"
    with replacing(picture) as draft:
        section_picture(best).savefig(draft, dpi=160)
    for text in demo_facts(record, best, (recorded - begin, done - recorded)):
        console.print(Text(text))
    console.print(printed(comparison(truth, best)))
    for text in best.warnings:
        console.print(Text(f"Warning: {text}", style="yellow"))
    console.print(Text(f"Study:   {out / 'pendulum.toml'}\nPicture: {picture}\nReport:  {page}", style="bold"))


demo.__doc__ = (demo.__doc__ or "") + examples("kapitza demo", "kapitza demo --periods 200000 --out pendulum")


def noisy_record(truth: Model, periods: int) -> Record:
    """Return noisy strobed runs of a chaotic pendulum.

    They have the same numbers on every processor.
    Differences of rounding between processors, 1e-15, grow by e in every period: one long run would be another motion
    on another processor. States are rounded to DIGITS decimals every STRETCH periods, far below the noise and far above
    those differences.
    """
    import numpy as np

    from kapitza.base.angles import wrap
    from kapitza.data import Record, measure
    from kapitza.flow import Flow

    flow, each = Flow(truth), -(-periods // RUNS) + 1
    # Starts a little apart: chaos spreads them over the attractor while they settle.
    states = truth.state(None) + 1e-3 * np.arange(RUNS)[:, None]
    stretches = []
    for _ in range(-(-(SETTLING + each) // STRETCH)):
        strobed = flow.strobe_many(states, STRETCH).states
        stretches.append(strobed[:-1])
        states = np.round(strobed[-1], DIGITS)
    whole = np.concatenate(stretches)[SETTLING : SETTLING + each].transpose(1, 0, 2).reshape(RUNS * each, -1)
    period = float(flow.period() or 0.0)
    clean = Record.from_arrays(
        period * np.arange(RUNS * each, dtype=float), {"phi": wrap(whole[:, 0]), "phi'": whole[:, 1]}, angles=["phi"],
        segment=np.repeat(np.arange(RUNS), each), period=period, phase=0.0, name=truth.name, source="simulated",
    )  # fmt: skip
    noise = {"phi": NOISE * 2 * np.pi, "phi'": NOISE * round(float(np.ptp(clean["phi'"])), DIGITS)}
    return measure(clean, noise=noise, seed=1)


def demo_facts(record: Record, best: Estimate, seconds: tuple[float, float]) -> tuple[str, ...]:
    """Return what the demo did, in sentences."""
    assert record.period is not None
    count = len(record) - RUNS
    hours = count * record.period / 3600
    orbits = len(best.data)
    return (
        f"{count} excitation periods ({hours:.1f} hours of pendulum time) in {RUNS} runs simulated, strobed, given "
        f"{100 * NOISE:g} % of noise and written as a recording in {seconds[0]:.1f} s.",
        f"The motion is chaotic, but {orbits} unstable periodic orbits of up to 5 periods were found in it without the "
        f"model, and matched by orbits of the model, in {seconds[1]:.1f} s, starting from a length 20 % too short and "
        "no friction.",
    )


def comparison(truth: Model, best: Estimate) -> pd.DataFrame:
    """Return truth and estimate, one row per parameter."""
    import pandas as pd

    interval = best.interval(0.95)
    rows = [
        (
            name,
            best.units.get(name, ""),
            truth.values[name],
            best.start[name],
            best.values[name],
            *interval.loc[name],
            100 * (best.values[name] / truth.values[name] - 1),
        )
        for name in best.names
    ]
    columns = ["parameter", "unit", "truth", "start", "estimate", "95 % low", "95 % high", "error [%]"]
    return pd.DataFrame(rows, columns=columns)


def section_picture(best: Estimate):
    """Draw the recording's section with its orbits."""
    from kapitza.report import plot_orbits

    return plot_orbits(best.data)


def printed(table: pd.DataFrame) -> Table:
    """Return the comparison within 80 columns."""
    shown = Table(box=None, pad_edge=False)
    for name in ("parameter", "truth", "start", "estimate", "95 % interval", "error"):
        shown.add_column(name, justify="left" if name == "parameter" else "right", no_wrap=True)
    for name, unit, truth, start, value, low, high, error in table.itertuples(index=False):
        # Digits that the interval leaves open would differ between processors: a fit ends within 0.01 standard errors.
        places = max(0, math.ceil(-math.log10((high - low) / 6)))
        shown.add_row(
            f"{name} ({unit})",
            f"{truth:.5g}",
            f"{start:.4g}",
            f"{value:.{places}f}",
            f"{low:.{places}f} … {high:.{places}f}",
            f"{error:+.2g} %",
        )
    return shown
