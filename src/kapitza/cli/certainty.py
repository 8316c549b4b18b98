"""Implement `kapitza profile`, `posterior` and `ensemble`.

How certain the answer of a study is.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from kapitza.base.csv_tables import write_table
from kapitza.base.files import replacing
from kapitza.cli.console import answers, examples, table
from kapitza.cli.fits import FitArgument, Name, chosen_fit, estimate_of
from kapitza.errors import KapitzaError, nearest_name

Level = Annotated[float, typer.Option(help="Probability of the intervals.")]
Some = Annotated[
    list[str] | None, typer.Option("--parameter", "-p", help="A free parameter; repeatable, by default all of them.")
]
Out = Annotated[Path | None, typer.Option(help="Write the numbers into this .csv file.")]
Plot = Annotated[Path | None, typer.Option(help="Draw them into this .png or .svg.")]
Seed = Annotated[int, typer.Option(min=0, help="Of everything random.")]


def profile_command(
    study: FitArgument,
    parameter: Some = None,
    points: Annotated[int, typer.Option(min=3, help="Values of each parameter that are tried.")] = 11,
    level: Level = 0.95,
    out: Out = None,
    plot: Plot = None,
    name: Name = None,
) -> None:
    """Compute the profile likelihood of parameters.

    A parameter is held at values around its estimate, all others are fitted again.
    """
    import pandas as pd

    from kapitza.estimate import profile_curve, profile_interval
    from kapitza.report import draw_profiles

    estimate = estimate_of(chosen_fit(study, name))
    names = list(parameter or estimate.names)
    for one in names:
        if one not in estimate.names:
            known = ", ".join(estimate.names)
            raise KapitzaError(f'"{one}" was not free; {known} were.{nearest_name(one, estimate.names)}')
    curves = [profile_curve(estimate, one, points, level=level) for one in names]
    ends = estimate.ends(level)
    listing = table("parameter", "value", "profile low", "high", "stated low", "high", right=("value",))
    for one in names:
        low, high = profile_interval(estimate, one, level)
        numbers = (estimate.values[one], low, high, *ends[one])
        listing.add_row(Text(one, style="bold"), *("-" if math.isnan(v) else f"{v:.6g}" for v in numbers))
    answers().print(listing)
    if out is not None:
        rows = [
            {"parameter": c.name, "value": v, "rise": r} for c in curves for v, r in zip(c.values, c.rise, strict=True)
        ]
        write_table(pd.DataFrame(rows), out)
        answers().print(Text(f"Curves written to {out}"))
    if plot is not None:
        with replacing(plot) as draft:
            draw_profiles(curves, estimate).savefig(draft)
        answers().print(Text(f"Figure written to {plot}"))


profile_command.__doc__ = (profile_command.__doc__ or "") + examples(
    "kapitza profile run.toml --plot profiles.png", "kapitza profile run-results -p c -p k3 --points 15"
)


def posterior_command(
    study: FitArgument,
    draws: Annotated[int, typer.Option(min=10, help="Steps of every walker that are kept.")] = 1000,
    level: Level = 0.95,
    seed: Seed = 0,
    out: Annotated[
        Path | None, typer.Option(help="Write the draws: .csv, one column per parameter, or .nc for ArviZ.")
    ] = None,
    name: Name = None,
) -> None:
    """Draw from the posterior of the parameters.

    The sampler is emcee: install the extra kapitza[bayes].
    """
    import numpy as np
    import pandas as pd

    from kapitza.estimate import posterior

    estimate = estimate_of(chosen_fit(study, name))
    if out is not None and out.suffix.lower() not in (".csv", ".nc"):
        raise KapitzaError(f'Draws are written as .csv or .nc, not as "{out.name}".')
    found = posterior(estimate, draws=draws, seed=seed)
    samples = {one: np.asarray(found.posterior[one]).ravel() for one in estimate.names}
    listing = table("parameter", "mean", "deviation", "low", "high", right=("mean", "deviation", "low", "high"))
    tail = (1 - level) / 2
    for one, values in samples.items():
        low, high = np.quantile(values, [tail, 1 - tail])
        numbers = (f"{values.mean():.6g}", f"{values.std():.2g}", f"{low:.6g}", f"{high:.6g}")
        listing.add_row(Text(one, style="bold"), *numbers)
    answers().print(listing)
    if out is not None:
        if out.suffix.lower() == ".csv":
            write_table(pd.DataFrame(samples), out)
        else:
            with replacing(out) as draft:
                found.to_netcdf(draft)
        answers().print(Text(f"{next(iter(samples.values())).size} draws written to {out}"))


posterior_command.__doc__ = (posterior_command.__doc__ or "") + examples(
    "kapitza posterior run.toml --draws 2000 --out draws.csv"
)


def ensemble_command(
    study: FitArgument,
    runs: Annotated[int, typer.Option(min=2, help="Repetitions.")] = 50,
    level: Level = 0.95,
    seed: Seed = 0,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes on this machine.")] = None,
    out: Out = None,
    name: Name = None,
) -> None:
    """Repeat the fit with fresh noise.

    The fitted motion is used: the command shows how the answer scatters and how often intervals hold.
    """
    from kapitza.study import repeated_fits

    found = repeated_fits(chosen_fit(study, name), runs, level, seed, workers)
    listing = table(
        "parameter", "fitted", "bias", "scatter", "stated error", "inside", right=("fitted", "bias", "scatter")
    )
    for one, row in found.table().iterrows():
        scatter = math.sqrt(max(row["rms error"] ** 2 - row["bias"] ** 2, 0.0))
        share = f"{100 * row['inside']:.0f} % ({100 * row['from']:.0f} to {100 * row['to']:.0f} %)"
        numbers = (f"{row['true']:.6g}", f"{row['bias']:.2g}", f"{scatter:.2g}", f"{row['stated deviation']:.2g}")
        listing.add_row(Text(str(one), style="bold"), *numbers, share)
    page = answers()
    page.print(listing)
    failed = f"; {len(found.fits.failures)} of {runs} fits failed" if found.fits.failures else ""
    page.print(Text(f"{len(found.fits)} repetitions; intervals of {100 * level:g} %{failed}"))
    if out is not None:
        write_table(found.fits.table(), out)
        page.print(Text(f"Repetitions written to {out}"))


ensemble_command.__doc__ = (ensemble_command.__doc__ or "") + examples(
    "kapitza ensemble run.toml --runs 100 --workers 4 --out repetitions.csv"
)
