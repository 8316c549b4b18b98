"""Say which model a branch belongs to, whether it is still that of the study, and why it ends.

These are functions of the study and its results, without a page.
"""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kapitza.continuation import End
from kapitza.studio.candidates import models_of, title_of

if TYPE_CHECKING:
    from kapitza.continuation import Branch
    from kapitza.model import Model
    from kapitza.study import StudyResult


@dataclass(frozen=True)
class Source:
    """Model that can be followed: a candidate, at its fitted values where the fit is that of the present study."""

    name: str
    fitted: bool
    mark: str
    """Changes with the equations and values of the model."""

    @property
    def label(self) -> str:
        return f"{self.name}, {'as fitted' if self.fitted else 'at its start values'}"


def sources(content: Mapping[str, Any], result: StudyResult | None) -> list[Source]:
    """Return what can be followed, by candidate.

    A fit counts where its candidate was not changed since.
    """
    before = fitted_tables(result)
    found = []
    for number, table in enumerate(models_of(content)):
        name = title_of(table, number)
        fits = [fit for fit in result.succeeded if fit.candidate == name] if result is not None else []
        fitted = bool(fits) and before.get(name) == table
        values = dict(fits[0].answer.model.values) if fitted else {}
        mark = hashlib.sha256(json.dumps([table, values], sort_keys=True, default=str).encode()).hexdigest()[:16]
        found.append(Source(name, fitted, mark))
    return found


def fitted_tables(result: StudyResult | None) -> dict[str, dict[str, Any]]:
    """Return the tables of the candidates in the study that was fitted, by name."""
    try:
        tables = models_of(tomllib.loads(result.study)) if result is not None else []
    except tomllib.TOMLDecodeError:
        return {}
    return {title_of(table, number): table for number, table in enumerate(tables)}


def usual(found: list[Source], result: StudyResult | None) -> int:
    """Return the number of the candidate that answers the study; without a fit the first."""
    chosen = None if result is None else result.chosen
    names = [one.name for one in found]
    return names.index(chosen.candidate) if chosen is not None and chosen.candidate in names else 0


def model_of(source: Source, model: Model | None, result: StudyResult | None) -> Model | None:
    """Return a source's model with the values that a branch of it begins at."""
    if source.fitted and result is not None:
        return next(fit.answer.model for fit in result.succeeded if fit.candidate == source.name)
    return model


def old_branch(request: Mapping[str, Any], found: list[Source]) -> str:
    """Return why a branch is not that of the present study; nothing where it is."""
    mark, name = request.get("mark"), request.get("candidate")
    if mark is None or any(one.mark == mark for one in found if one.name == name):
        return ""
    return f'Below: the branch of "{name}" as it was before. The study has changed since; press Follow.'


def wrong_range(parameter: str, low: float, high: float, value: float) -> str:
    """Return what is wrong with a range; its ends may be in either order."""
    if low == high:
        return f"{high:g} leaves no range: give two different numbers."
    if math.isfinite(value) and not min(low, high) <= value <= max(low, high):
        return f"The branch begins at {parameter} = {value:.6g}: take it into the range, or change it under Model."
    return ""


def suggested_range(value: float) -> tuple[str, str] | None:
    """Return a range about a value; None where there is none to begin with."""
    if not math.isfinite(value) or value == 0:
        return None
    low, high = sorted((0.5 * value, 1.5 * value))
    return f"{low:.4g}", f"{high:.4g}"


def ends_of(branch: Branch) -> str:
    """Return where and why a branch ends before its range does; nothing where it fills the range."""
    places = (float(branch.values[0, 0]), float(branch.values[-1, 0]))
    found = []
    for value, end, message in zip(places, branch.ends, branch.end_messages, strict=True):
        if end is not End.BOUND:
            more = f" ({message})" if message else ""
            found.append(f"It ends at {branch.parameter} = {value:.6g}: {end.value}{more}.")
    return " ".join(found)
