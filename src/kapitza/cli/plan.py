"""`kapitza plan`: which experiment next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from kapitza.cli.console import answers, examples
from kapitza.cli.fits import FitArgument, Name, chosen_fit, estimate_of
from kapitza.errors import DataError

if TYPE_CHECKING:
    from kapitza.estimate import Estimate
    from kapitza.planning import Choice, Plan

Vary = Annotated[
    list[str] | None,
    typer.Option(
        "--vary",
        help="What may be chosen: NAME=LOW:HIGH for a range, NAME=A,B,C for a list. Repeat. Default: as [plan] says.",
    ),
]
Limit = Annotated[
    list[str] | None, typer.Option("--limit", help='Largest value of an expression of states: "abs(x)=1.2". Repeat.')
]
Noise = Annotated[
    list[str] | None,
    typer.Option(
        "--measure", help="Channel, or CHANNEL=NOISE with its standard deviation. Default: as fitted. Repeat."
    ),
]
Want = Annotated[
    list[str] | None, typer.Option("--want", help="Parameter or expression that should become narrow. Repeat.")
]
Missing = Annotated[
    list[str] | None, typer.Option("--missing", help='Law that the equations may lack, such as "quadratic x". Repeat.')
]


def plan_command(
    study: FitArgument,
    vary: Vary = None,
    limit: Limit = None,
    measure: Noise = None,
    want: Want = None,
    missing: Missing = None,
    duration: Annotated[float | None, typer.Option(help="Length of a run [s]. Default: that of the recording.")] = None,
    step: Annotated[float | None, typer.Option(help="Time between samples [s]. Default: as recorded.")] = None,
    sheet: Annotated[Path | None, typer.Option(help="Write the run sheet: .csv or .toml.")] = None,
    draw: Annotated[
        Path | None, typer.Option("--map", help="Draw the map of expected widths: .png, .svg or .pdf.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write the plan as a page: .html.")] = None,
    name: Name = None,
) -> None:
    """Rank the next experiments.

    They are ranked by the information they would give, with the intervals to expect.
    """
    from kapitza.planning import plan

    fit = estimate_of(chosen_fit(study, name))
    found = (
        _by_section(study, fit)
        if not vary
        else plan(
            fit,
            {key: _range(key, text) for key, text in _pairs("--vary", vary)},
            _measured(fit, measure),
            want,
            {key: _number("--limit", key, text) for key, text in _pairs("--limit", limit or [])},
            _run(fit, duration, step),
            tuple(missing or ()),
        )
    )
    answers().print(Text(str(found)))
    if sheet is not None:
        found.sheet(sheet)
    if draw is not None:
        found.plot(path=draw)
    if report is not None:
        found.report(report)


def _by_section(path: Path, fit: Estimate) -> Plan:
    """Return the plan of a study's [plan] section."""
    from kapitza.study import read_study

    asked = read_study(path).next_run if path.suffix.lower() == ".toml" else None
    if asked is None:
        raise DataError(f'"{path.name}" has no section [plan]: name what may be chosen, --vary F=0.02:0.5.')
    return asked.plan(fit)


def _pairs(option: str, texts: list[str]) -> list[tuple[str, str]]:
    """Split NAME=VALUE at the last "=".

    Expressions may hold others.
    """
    for text in texts:
        if "=" not in text:
            raise DataError(f'{option} "{text}": write NAME=VALUE.')
    return [(text.rpartition("=")[0].strip(), text.rpartition("=")[2].strip()) for text in texts]


def _number(option: str, name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise DataError(f'{option} {name}: "{text}" is not a number.') from None


def _range(name: str, text: str) -> Any:
    if ":" in text:
        low, _, high = text.partition(":")
        return (_number("--vary", name, low), _number("--vary", name, high))
    several = [part.strip() for part in text.split(",")]
    return several if name == "approach" else [_number("--vary", name, part) for part in several]


def _measured(fit: Estimate, given: list[str] | None) -> dict[str, float] | None:
    if given is None:
        return None
    found = {}
    for text in given:
        name, _, noise = text.partition("=")
        if not noise and name not in fit.noise:
            raise DataError(f'--measure {name}: the fit knows no noise of it; write "{name}=0.01".')
        found[name] = _number("--measure", name, noise) if noise else fit.noise[name]
    return found


def _run(fit: Estimate, duration: float | None, step: float | None) -> Choice | None:
    from dataclasses import replace

    from kapitza.planning import template_of

    if duration is None and step is None:
        return None
    run = template_of(fit)
    return replace(
        run, duration=run.duration if duration is None else duration, step=run.step if step is None else step
    )


plan_command.__doc__ = (plan_command.__doc__ or "") + examples(
    "kapitza plan run.toml",
    "kapitza plan run.toml --vary F=0.02:0.5 --vary omega=0.5:2",
    'kapitza plan run-results --vary F=0.02:0.5 --limit "abs(x)=1.2" --missing "quadratic x" --sheet runs.csv',
    "kapitza plan fit.nc --vary phi=0.1:3 --want k1 --duration 30 --map map.png",
)
