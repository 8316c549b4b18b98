"""Implement `kapitza follow`, `diagram` and `frequency-response`.

They compute families of motions of the fitted model of a study.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from kapitza.base.csv_tables import write_table
from kapitza.base.files import replacing
from kapitza.cli.console import answers, examples, table
from kapitza.cli.fits import FitArgument, Name, chosen_fit
from kapitza.cli.simulate import assignments, initial_state
from kapitza.errors import KapitzaError, ModelError, nearest_name

if TYPE_CHECKING:
    from kapitza.model import Model

Along = Annotated[str, typer.Option("--parameter", "-p", help="Parameter along which motions are followed.")]
Low = Annotated[float, typer.Option("--from", help="Its lower end.")]
High = Annotated[float, typer.Option("--to", help="Its upper end.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="Another value, NAME=VALUE; repeatable.")]
Start = Annotated[
    list[str] | None, typer.Option(help="State near the first motion, NAME=VALUE; otherwise the model settles.")
]
Drive = Annotated[
    str | None,
    typer.Option(help="Measured drive to replace by NAME_level*cos(omega*t); needed only where there are several."),
]
Out = Annotated[Path | None, typer.Option(help="Write the points into this .csv file.")]
Plot = Annotated[Path | None, typer.Option(help="Draw them into this .png or .svg.")]
Rest = Annotated[bool, typer.Option("--rest", help="Follow a rest state instead of a periodic motion.")]
Period = Annotated[
    float | None, typer.Option(help="Periods of the excitation; without excitation the period [s], roughly.")
]


def prepared_model(
    study: Path,
    name: str | None,
    set_: list[str] | None,
    drive: str | None,
    within: dict[str, tuple[float, float]] | None = None,
) -> Model:
    """Return the model that a study fitted.

    Its measured drive is replaced by a harmonic one. within: ranges in which followed parameters begin.
    """
    from kapitza.study import model_to_follow

    return model_to_follow(chosen_fit(study, name), assignments(set_, "--set"), drive, within=within)


def require_parameter(model: Model, name: str) -> None:
    if name not in model.names:
        known = ", ".join(model.names)
        raise ModelError(f'{model.name} has no parameter "{name}"; it has {known}.{nearest_name(name, model.names)}')


def range_of(low: float, high: float) -> tuple[float, float]:
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise KapitzaError(f"--from {low:g} --to {high:g}: give two numbers, the smaller first.")
    return low, high


def follow_command(
    study: FitArgument,
    parameter: Along,
    low: Low,
    high: High,
    set_: Set = None,
    start: Start = None,
    drive: Drive = None,
    rest: Rest = False,
    period: Period = None,
    out: Out = None,
    plot: Plot = None,
    name: Name = None,
) -> None:
    """Follow the fitted model along a parameter.

    The periodic motion is shown with its stability; bifurcations have intervals.
    """
    from kapitza.study import Family, follow_fit

    fit = chosen_fit(study, name)
    family = Family(parameter, range_of(low, high), assignments(set_, "--set"), drive, rest, period)
    model = prepared_model(study, name, set_, drive)
    require_parameter(model, parameter)
    branch = follow_fit(fit, family, initial_state(model, assignments(start, "--start")))
    page = answers()
    page.print(Text(str(branch)))
    if branch.bifurcations:
        page.print(bifurcation_listing(branch.bifurcation_table(), parameter))
    written(out, plot, branch.table, branch.plot)


follow_command.__doc__ = (follow_command.__doc__ or "") + examples(
    "kapitza follow run.toml --parameter omega --from 5 --to 14 --plot branch.png",
    "kapitza follow run-results -p F_level --from 0.1 --to 2 --set omega=9.5 --out branch.csv",
)


def diagram_command(
    study: FitArgument,
    parameter: Along,
    low: Low,
    high: High,
    depth: Annotated[int, typer.Option(min=0, help="Switches of branch, one after the other.")] = 2,
    set_: Set = None,
    start: Start = None,
    drive: Drive = None,
    out: Out = None,
    plot: Plot = None,
    name: Name = None,
) -> None:
    """Compute the bifurcation diagram of the fitted model.

    A branch is followed and left at every bifurcation, and so on.
    """
    from kapitza import diagram

    bounds = range_of(low, high)
    model = prepared_model(study, name, set_, drive, {parameter: bounds})
    require_parameter(model, parameter)
    x0 = initial_state(model, assignments(start, "--start"))
    tree = diagram(model, x0, parameter, bounds, depth=depth)
    page = answers()
    branches = "1 branch" if len(tree) == 1 else f"{len(tree)} branches"
    page.print(Text(f"{branches}, up to {max(tree.levels)} switches from the first."))
    bifurcations = tree.table()
    if len(bifurcations):
        page.print(bifurcation_listing(bifurcations, parameter))
    for point, reason in tree.failed:
        page.print(Text(f"No branch was reached at {point.name}, {parameter} = {point.value:.6g}: {reason}"))
    written(out, plot, tree.table, tree.plot)


diagram_command.__doc__ = (diagram_command.__doc__ or "") + examples(
    "kapitza diagram run.toml --parameter B --from 0.1 --to 0.3 --depth 3 --plot diagram.png"
)


def frequency_response_command(
    study: FitArgument,
    low: Annotated[float, typer.Option("--from", help="Lowest frequency of the drive, in Hz.")],
    high: Annotated[float, typer.Option("--to", help="Highest frequency, in Hz.")],
    frequency: Annotated[str, typer.Option(help="Name of the angular frequency of the drive [rad/s].")] = "omega",
    force: Annotated[str | None, typer.Option(help="Name of the amplitude of the drive.")] = None,
    level: Annotated[list[float] | None, typer.Option(help="Amplitude of the drive; repeatable.")] = None,
    damping: Annotated[
        list[str] | None, typer.Option(help="Damping parameters, set to zero for the backbone; repeatable.")
    ] = None,
    set_: Set = None,
    drive: Drive = None,
    out: Out = None,
    plot: Plot = None,
    name: Name = None,
) -> None:
    """Compute the response to a harmonic drive.

    The fitted model is followed over the frequency: folds, jumps, hysteresis, backbone.
    """
    from kapitza import frequency_response

    model = prepared_model(study, name, set_, drive)
    force = force or next((n for n in model.names if n.endswith("_level")), None)
    if force is None:
        raise KapitzaError("Name the amplitude of the drive: --force B.")
    for one in (frequency, force, *(damping or ())):
        require_parameter(model, one)
    turn = 2 * math.pi
    limits = range_of(low, high)
    found = frequency_response(
        model, frequency, (turn * limits[0], turn * limits[1]), force=force, damping=damping or None,
        levels=level or None,
    )  # fmt: skip
    page = answers()
    for amount in dict.fromkeys(found.forces):
        branches = [b for b, level in zip(found.branches, found.forces, strict=True) if level == amount]
        page.print(Text(f"{force} = {amount:g}: {response_sentence(branches, limits)}"))
    written(out, plot, lambda: response_table(found, force), found.plot)


frequency_response_command.__doc__ = (frequency_response_command.__doc__ or "") + examples(
    "kapitza frequency-response run.toml --from 5 --to 20 --level 0.5 --level 2 --plot response.png",
    "kapitza frequency-response run.toml --from 1 --to 3 --force B --damping c --out response.csv",
)


def response_sentence(branches: list[Any], limits: tuple[float, float]) -> str:
    """Return one line on the responses to one level.

    It names their peak, and the frequencies [Hz] between which two of them are stable.
    """
    model, turn = branches[0].model, 2 * math.pi
    coordinate = model.coordinates[0].name
    size, hertz = max(
        (pair for b in branches for pair in zip(b.amplitude(coordinate), b.values[:, 0] / turn, strict=True)),
    )
    text = f"largest {coordinate} {size:.4g} {model.units.get(coordinate, '')}".rstrip() + f" at {hertz:.5g} Hz"
    folds = sorted(fold.value / turn for b in branches for fold in b.of("fold"))
    if len(branches) > 1:
        # The branches meet outside of the range: both are there from the fold inside to the end that they leave by. A
        # hardening resonance leaves above, a softening one below, where the first branch then returns to its start.
        along = branches[0].values[:, 0]
        low, high = limits
        if folds and abs(along[-1] - along[0]) < 0.5 * abs(along[-1] - turn * limits[1]):
            high = folds[-1]
        elif folds:
            low = folds[0]
        where = f"{low:.5g} and {high:.5g} Hz, and beyond: widen --from or --to to see where they meet"
        return f"{text}; hysteresis: two stable responses between {where}"
    if len(folds) >= 2:
        return f"{text}; hysteresis: two stable responses between {folds[0]:.5g} and {folds[-1]:.5g} Hz"
    if folds:
        return f"{text}; fold at {folds[0]:.5g} Hz"
    return f"{text}; no fold (a response that only begins outside of this range is not seen)"


def response_table(found: Any, force: str) -> Any:
    """Return all responses in one table.

    The columns are frequency [Hz], amplitude of every coordinate and stability; responses are one below the other.
    """
    import pandas as pd

    tables = []
    for amount, branch in zip(found.forces, found.branches, strict=True):
        columns: dict[str, Any] = {force: amount, "frequency [Hz]": branch.values[:, 0] / (2 * math.pi)}
        for coordinate in branch.model.coordinates:
            unit = branch.model.units.get(coordinate.name, "")
            columns[f"{coordinate.name} amplitude" + (f" [{unit}]" if unit else "")] = branch.amplitude(coordinate.name)
        tables.append(pd.DataFrame({**columns, "stability": branch.stability}))
    return pd.concat(tables, ignore_index=True)


def bifurcation_listing(rows: Any, parameter: str) -> Any:
    """Return bifurcations as a table.

    The terminal shows kind, value, and interval where there is one.
    """
    bands = "low" in rows.columns
    columns = ["bifurcation", parameter, *(("low", "high") if bands else ())]
    listing = table(*columns, right=tuple(columns[1:]))
    for row in rows.to_dict("records"):
        ends = [row.get("low", math.nan), row.get("high", math.nan)] if bands else []
        numbers = ("-" if math.isnan(value) else f"{value:.6g}" for value in (row[parameter], *ends))
        listing.add_row(Text(str(row["kind"]), style="bold"), *numbers)
    return listing


def written(out: Path | None, plot: Path | None, rows: Callable[[], Any], draw: Callable[[], Any]) -> None:
    """Write the requested table and figure.

    The paths are printed.
    """
    if out is not None:
        if out.suffix.lower() != ".csv":
            raise KapitzaError(f'Points are written as .csv, not as "{out.name}".')
        write_table(rows(), out)
        answers().print(Text(f"Points written to {out}"))
    if plot is not None:
        with replacing(plot) as draft:
            draw().savefig(draft)
        answers().print(Text(f"Figure written to {plot}"))
