"""`kapitza predict`: what the fitted model does next, or would do under other settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from kapitza.cli.console import answers, examples
from kapitza.cli.simulate import assignments, initial_state, sample_times
from kapitza.errors import KapitzaError


def predict_command(
    study: Annotated[Path, typer.Argument(help="Study that was run by `kapitza identify`.")],
    out: Annotated[Path, typer.Option(help="File to write: .csv")],
    duration: Annotated[float, typer.Option(help="Time to predict [s].")],
    interval: Annotated[float, typer.Option(help="Sampling interval [s].")] = 0.01,
    set_: Annotated[list[str] | None, typer.Option("--set", help="Another value, NAME=VALUE; repeatable.")] = None,
    start: Annotated[
        list[str] | None, typer.Option(help="Initial state, NAME=VALUE; otherwise the end of the recording.")
    ] = None,
) -> None:
    """Carry the fitted model on from the end of the recording, with bands from the errors of its parameters."""
    from kapitza.data import replacing
    from kapitza.study import predicted_table, read_results, read_study

    found = read_study(study)
    if out.suffix.lower() != ".csv":
        raise KapitzaError(f'A prediction is written as .csv, not as "{out.name}".')
    result = read_results(found.folder)
    best = result.best
    if best is None:
        raise KapitzaError(f"No fit of {study.name} succeeded: there is nothing to predict with.")
    given = assignments(start, "--start")
    candidate = next(c for c in found.candidates if c.name == best.candidate)
    x0 = initial_state(candidate.model, given) if given else None
    times = sample_times(duration, interval)
    table = predicted_table(found, best, times, x0, assignments(set_, "--set"))
    with replacing(out) as draft:
        table.to_csv(draft, index=False)
    answers().print(Text(f"{best.candidate} by {best.title}: {len(table)} samples written to {out}"))


predict_command.__doc__ = (predict_command.__doc__ or "") + examples(
    "kapitza predict run.toml --duration 20 --out next.csv",
    "kapitza predict run.toml --duration 20 --set omega=3.1 --start x=0.1 --out other.csv",
)
