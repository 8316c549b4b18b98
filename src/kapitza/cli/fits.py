"""Find the fit that a command uses.

A saved one, or the answer of a study that was run.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from kapitza.cli.console import answers
from kapitza.errors import KapitzaError

if TYPE_CHECKING:
    from kapitza.estimate import Estimate
    from kapitza.study import StudyFit

FitArgument = Annotated[
    Path, typer.Argument(help="Study (.toml) that was run, its results folder, or a saved fit (.nc).")
]
Name = Annotated[
    str | None, typer.Option("--fit", help='Which fit of a study: a model, or "model, method"; by default the answer.')
]


def chosen_fit(path: Path, name: str | None = None) -> StudyFit | Estimate:
    """Return the fit of a study or file.

    The path is that of a study, of its results folder, or of a saved estimate.
    """
    from kapitza.estimate import Estimate
    from kapitza.saving import load
    from kapitza.study import read_results, read_study

    if path.suffix.lower() == ".nc":
        found = load(path)
        if not isinstance(found, Estimate):
            raise KapitzaError(f'"{path.name}" holds a {type(found).__name__}, not a fit.')
        return found
    if not path.is_dir() and path.suffix.lower() != ".toml":
        raise KapitzaError(f'"{path.name}" is neither a study (.toml), nor a results folder, nor a saved fit (.nc).')
    result = read_results(path if path.is_dir() else read_study(path).folder)
    if name is not None:
        result[name]  # an unknown name is refused with the nearest one
        return next(fit for fit in result.fits if fit.ok and name in (fit.candidate, fit.label))
    if result.chosen is None:
        raise KapitzaError(f"No fit of {path.name} succeeded: there is nothing to go on with.")
    return result.chosen


def study_of(path: Path) -> Path | None:
    """Return the study file of a study or results folder; None of a saved fit or model."""
    from kapitza.study import is_study

    study = path / "study.toml" if path.is_dir() else path
    return study if study.suffix.lower() == ".toml" and is_study(study) else None


def estimate_of(fit: StudyFit | Estimate) -> Estimate:
    from kapitza.estimate import Estimate

    return fit if isinstance(fit, Estimate) else fit.answer


def warn_of_drive(estimate: Estimate) -> None:
    """Print that noise of the drive explains the residuals.

    Nothing is printed where it does not.
    """
    from kapitza.estimate import EXPLAINS, drive_effect

    # A fit that counts the noise of its drives has tests that count it too.
    if estimate.motion is not None and estimate.motion.drive_noise:
        return
    effect = drive_effect(estimate)
    if effect is not None and effect.explained(estimate) > EXPLAINS:
        noise = ", ".join(f"{n} (± {v:.2g})" for n, v in effect.noise.items())
        words = (
            f"The noise of the measured drive {noise} explains what the fit leaves: the terms below may be its traces."
        )
        answers().print(Text(words, style="yellow"))
