"""Hold one fit of a study.

It is the estimate with its tests, kept in a results folder.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kapitza.data import Record, as_parts
from kapitza.errors import DataError
from kapitza.estimate import Estimate, ProfileCurve, Suggestion, Validation
from kapitza.orbits import OrbitSet
from kapitza.saving import load, save

SUFFIX = ".nc"
CHECKS = ".checks.nc"
"""Ends of the two files of a fit: the estimate, and what else is known of it, written last."""


@dataclass(frozen=True)
class StudyFit:
    """A candidate fitted by one method.

    estimate: what `identify` gave, None where it gave nothing; failure: why there is no answer. validation: the test on
    data that were not fitted; missing: terms that the residuals ask for; profiles: likelihoods, where the study asks
    for them. followed: for methods that fit no motion themselves, the motion of the fitted model along the data.
    """

    candidate: str
    method: str
    estimate: Estimate | None = None
    failure: str = ""
    validation: Validation | None = field(default=None, repr=False)
    missing: Suggestion | None = field(default=None, repr=False)
    profiles: tuple[ProfileCurve, ...] = field(default=(), repr=False)
    followed: Estimate | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return self.estimate is not None and not self.failure

    @property
    def label(self) -> str:
        return f"{self.candidate}, {self.method}"

    @property
    def answer(self) -> Estimate:
        """The estimate of a fit that succeeded."""
        if self.estimate is None or self.failure:
            raise DataError(f"{self.label} gave no answer: {self.failure or 'it was not fitted'}")
        return self.estimate

    @property
    def moving(self) -> Estimate | None:
        """Return the estimate that carries a motion.

        The motion runs along the data; None where there is none.
        """
        return self.estimate if self.estimate is not None and self.estimate.motion is not None else self.followed

    @property
    def misses(self) -> bool:
        """Return whether the model misses beyond the noise."""
        misfit = None if self.estimate is None else self.estimate.misfit
        return misfit is not None and misfit.misses

    @property
    def follows(self) -> str:
        """Return how well the model follows the data.

        "" where that was not tested.
        """
        misfit = None if self.estimate is None else self.estimate.misfit
        return "" if misfit is None else misfit.verdict

    @property
    def held_back(self) -> float:
        """Return the prediction error of held-back data.

        Root mean square error over the spread of the data; NaN where none were held back.
        """
        test = None if self.validation is None else self.validation.prediction
        if test is None or not np.isfinite(test.error).any():
            return math.nan
        return float(np.sqrt(np.nanmean((test.error / test.spread) ** 2)))


def fitted_settings(estimate: Estimate) -> list[tuple[Record, Mapping[str, float]]]:
    """Return the records fitted, with their own values.

    For orbits these are the records they were found in.
    """
    parts = as_parts(estimate.data) if estimate.data is not None else ()
    return [(part.record, part.values) for part in parts if part.record is not None]


def fitted_orbits(estimate: Estimate | None) -> OrbitSet | None:
    """Return the first set of orbits fitted.

    None where there is none.
    """
    parts = () if estimate is None or estimate.data is None else as_parts(estimate.data)
    return next((part.source for part in parts if isinstance(part.source, OrbitSet)), None)


def fit_name(candidate: str, method: str) -> str:
    """Return the file name of a fit, without suffix.

    It is readable, and unique for every name of a candidate.
    """
    wanted = f"{candidate}-{method}"
    plain = re.sub(r"[^A-Za-z0-9-]+", "_", wanted).strip("_")[:60]
    # A file system may not tell capitals from small letters.
    if plain == wanted.lower():
        return plain
    digest = hashlib.sha256(f"{candidate}\n{method}".encode()).hexdigest()[:8]
    return f"{plain}-{digest}"


def write_fit(fit: StudyFit, folder: Path) -> None:
    """Write the files of one fit.

    Each appears complete or not at all; the checks are written last.
    """
    path = folder / fit_name(fit.candidate, fit.method)
    if fit.estimate is not None:
        save(fit.estimate, path.with_name(path.name + SUFFIX))
    checks = {
        "candidate": fit.candidate,
        "method": fit.method,
        "fitted": fit.estimate is not None,
        "failure": fit.failure,
        "validation": fit.validation,
        "missing": fit.missing,
        "profiles": fit.profiles,
        "followed": fit.followed,
        "notes": fit.notes,
    }
    save(checks, path.with_name(path.name + CHECKS))


def fit_files(fit: StudyFit) -> list[str]:
    """Return the names of the files of one fit."""
    name = fit_name(fit.candidate, fit.method)
    return [name + suffix for suffix in ((CHECKS,) if fit.estimate is None else (SUFFIX, CHECKS))]


def has_fit(folder: Path, candidate: str, method: str) -> bool:
    return (folder / (fit_name(candidate, method) + CHECKS)).is_file()


def read_fit(folder: Path, candidate: str, method: str) -> StudyFit:
    """Read what `write_fit` wrote."""
    name = fit_name(candidate, method)
    checks = load(folder / (name + CHECKS))
    kinds: dict[str, Any] = {
        "candidate": str, "method": str, "fitted": bool, "failure": str, "validation": Validation | None,
        "missing": Suggestion | None, "profiles": tuple, "followed": Estimate | None, "notes": tuple,
    }  # fmt: skip
    right = isinstance(checks, dict) and set(checks) == set(kinds)
    if not right or not all(isinstance(checks[key], kind) for key, kind in kinds.items()):
        raise DataError(f"{name}{CHECKS} does not hold the tests of a fit: run the study again.")
    if (checks["candidate"], checks["method"]) != (candidate, method):
        raise DataError(f"{name}{CHECKS} is of another fit: run the study again.")
    estimate = load(folder / (name + SUFFIX)) if checks.pop("fitted") else None
    if estimate is not None and not isinstance(estimate, Estimate):
        raise DataError(f"{name}{SUFFIX} holds no estimate: run the study again.")
    if estimate is not None and not set(estimate.names) <= set(estimate.values):
        raise DataError(f"{name}{SUFFIX} lacks values of parameters that were fitted: run the study again.")
    return StudyFit(estimate=estimate, **checks)
