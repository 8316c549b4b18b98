"""Implement `kapitza inspect`.

What is in a recording, before anything is fitted to it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from kapitza.base.cures import in_study
from kapitza.base.files import replacing
from kapitza.base.suffixes import SUFFIXES
from kapitza.cli.console import GroupOption, UnitOption, answers, channel_table, examples, units_given
from kapitza.errors import DataError

EXAMPLES = examples(
    "kapitza inspect run.csv",
    "kapitza inspect run7.txt --time 1 --plot run7.png",
    "kapitza inspect SNLS80mV.csv --interval 0.0016384",
    "kapitza inspect pendulum.csv --period 0.69122 --angle phi --findings pendulum.png",
)


def inspect_file(
    path: Annotated[Path, typer.Argument(help=f"Recording: {' '.join(SUFFIXES)}")],
    time: Annotated[str | None, typer.Option(help="Name or position (from 0) of the time column.")] = None,
    interval: Annotated[float | None, typer.Option(help="Sampling interval [s] of a file without times.")] = None,
    channel: Annotated[list[str] | None, typer.Option(help="Only these channels; repeatable.")] = None,
    period: Annotated[float | None, typer.Option(help="Period of the excitation [s], when it is forced.")] = None,
    angle: Annotated[list[str] | None, typer.Option(help="Channels that are angles in rad; repeatable.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the channels into this .png or .svg file.")] = None,
    findings: Annotated[
        Path | None, typer.Option(help="Draw spectra, delay, dimension, returns and divergence into this file.")
    ] = None,
    segment: Annotated[
        str | None, typer.Option(help="Name or position of a column whose changes mark interruptions (trials).")
    ] = None,
    unit: UnitOption = None,
    group: GroupOption = None,
    missing: Annotated[str, typer.Option(help='"refuse" values that are not numbers, or "drop" them.')] = "refuse",
) -> None:
    """Show what a recording holds.

    The report covers channels, range, sampling, gaps, noise, delay, dimension, returns, and whether it is chaotic.
    """
    from kapitza.data import read
    from kapitza.orbits.in_records import inspect

    for target in (plot, findings):
        _check_figure(target)
    keys = [int(name) if name.isdigit() else name for name in channel or ()]
    record = read(
        path,
        time=int(time) if time and time.isdigit() else time,
        channels=keys or None,
        interval=interval,
        period=period,
        angles=angle,
        segment=int(segment) if segment and segment.isdigit() else segment,
        missing=missing,
        units=units_given(unit),
        group=group,
    )
    console = answers()
    console.print(Text(repr(record)))
    console.print(Text(f"Sampling: {record.sampling()}"))
    console.print(channel_table(record))
    if record.sampling().gaps:
        console.print(
            Text(
                'A study follows one motion through the gaps, or cuts it there: gaps = "split" in [data].', style="dim"
            )
        )
    inspection = inspect(record)
    # The record and its sampling are printed above.
    for line in in_study(str(inspection)).splitlines()[1 + len(inspection.sampling.splitlines()) :]:
        console.print(Text(line))
    if findings is not None:
        inspection.plot(findings)
        console.print(Text(f"Drawn into {findings}"))
    if plot is not None:
        from kapitza.report import plot_record

        with replacing(plot) as draft:
            plot_record(record).savefig(draft)
        console.print(Text(f"Drawn into {plot}"))


def _check_figure(target: Path | None) -> None:
    """Refuse early a figure that cannot be written."""
    known = (".png", ".svg", ".pdf")
    if target is None:
        return
    if target.suffix.lower() not in known:
        raise DataError(f'A figure cannot be written as "{target.name}": end the name in {", ".join(known)}.')
    if not target.parent.is_dir():
        raise DataError(f"There is no folder {target.parent} for {target.name}: make it first.")


inspect_file.__doc__ = (inspect_file.__doc__ or "") + EXAMPLES
