"""Implement `kapitza suggest`.

It lists the terms that the residuals of a fit suggest.
"""

from __future__ import annotations

from rich.text import Text

from kapitza.cli.console import answers, examples
from kapitza.cli.fits import FitArgument, Name, chosen_fit, estimate_of, warn_of_drive


def suggest_command(study: FitArgument, name: Name = None) -> None:
    """List what the equations miss.

    The terms that a fitted model lacks are listed with the evidence, or that nothing is missing.
    """
    from kapitza.estimate import Estimate, suggest

    fit = chosen_fit(study, name)
    kept = None if isinstance(fit, Estimate) else fit.missing
    estimate = estimate_of(fit)
    if kept is None:
        warn_of_drive(estimate)
    found = suggest(estimate) if kept is None else kept
    answers().print(Text(str(found)))
    shown = found.table().head(10)[["add", "gain", "log10 p", "coefficient", "error", "detectable"]]
    answers().print(Text(shown.to_string(float_format=lambda value: f"{value:.3g}")))


suggest_command.__doc__ = (suggest_command.__doc__ or "") + examples(
    "kapitza suggest run.toml", 'kapitza suggest run-results --fit "cubic, shooting"', "kapitza suggest fit.nc"
)
