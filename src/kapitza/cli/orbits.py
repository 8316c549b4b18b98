"""Implement `kapitza orbits`.

It finds the periodic orbits of a recording, without a model.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from kapitza.base.csv_tables import write_table
from kapitza.base.suffixes import SUFFIXES
from kapitza.cli.console import GroupOption, UnitOption, answers, examples, show_json, table, units_given


def orbits_command(
    path: Annotated[Path, typer.Argument(help=f"Recording: {' '.join(SUFFIXES)}")],
    max_period: Annotated[int, typer.Option(help="Longest orbits, in excitation periods or returns.")] = 5,
    period: Annotated[float | None, typer.Option(help="Period of the excitation [s], when it is forced.")] = None,
    channel: Annotated[list[str] | None, typer.Option(help="Only these channels; repeatable.")] = None,
    time: Annotated[str | None, typer.Option(help="Name or position (from 0) of the time column.")] = None,
    angle: Annotated[list[str] | None, typer.Option(help="Channels that are angles; repeatable.")] = None,
    unit: UnitOption = None,
    group: GroupOption = None,
    out: Annotated[Path | None, typer.Option(help="Write the orbits into this .csv file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw them over the recording into this .png or .svg.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The orbits as JSON on standard output.")] = False,
) -> None:
    """Find the periodic orbits of a recording.

    They are those that it visits, stable or not.
    """
    from kapitza import find_orbits
    from kapitza.data import read, replacing
    from kapitza.report import orbit_table, plot_orbits

    record = read(
        path,
        time=int(time) if time and time.isdigit() else time,
        channels=[int(c) if c.isdigit() else c for c in channel or ()] or None,
        period=period,
        angles=angle,
        units=units_given(unit),
        group=group,
    )
    orbits = find_orbits(record, max_period=max_period)
    listing = orbit_table(orbits) if len(orbits) else None
    if as_json:
        rows = [] if listing is None else json.loads(listing.to_json(orient="records"))
        show_json({"orbits": rows, "message": orbits.message})
    else:
        console = answers()
        console.print(Text(f"{len(orbits)} periodic orbits. {orbits.message}".rstrip()))
        if listing is not None:
            columns = [str(name) for name in listing.columns]
            shown = table(*columns, right=tuple(columns[2:]))
            for row in listing.itertuples(index=False):
                shown.add_row(*(Text(f"{v:.5g}" if isinstance(v, float) else str(v)) for v in row))
            console.print(shown)
    if out is not None and listing is not None:
        write_table(listing, out)
    if plot is not None and len(orbits):
        with replacing(plot) as draft:
            plot_orbits(orbits, record=record).savefig(draft)
    if not len(orbits):
        raise typer.Exit(1)


orbits_command.__doc__ = (orbits_command.__doc__ or "") + examples(
    "kapitza orbits section.csv --max-period 6", "kapitza orbits run.csv --period 0.691 --angle phi --plot orbits.png"
)
