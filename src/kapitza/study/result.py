"""Hold what a study found.

It is kept in the results folder.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kapitza.base import checks
from kapitza.base.csv_tables import write_table
from kapitza.base.cures import in_study
from kapitza.base.display import Shown
from kapitza.base.files import replacing, settle
from kapitza.errors import DataError, KapitzaError, nearest_name
from kapitza.estimate import TIE, Estimate, compare_fits
from kapitza.planning import Plan
from kapitza.saving import load, save
from kapitza.study.fits import StudyFit, read_fit
from kapitza.study.folder import FITS, PLAN, RESULT
from kapitza.study.plain import read_json, write_json

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class StudyResult(Shown):
    r"""Hold what a study found.

    It holds its fits, the first of the chosen candidate being the answer.

    ``result["cubic"]`` is the `Estimate` of a candidate, ``result["cubic, harmonic"]`` that of one of its methods.

    versions, checksums, seed, study (its text): what a repetition needs. data: texts on the recordings; models: the
    equations by candidate. title, folder: of the study, and where it wrote; fits: one for each candidate and method;
    level: of the intervals; warnings: about the study as a whole. plan: the next experiments, where the study has a
    section [plan]; plan_problem: why there are none.

    Examples
    --------
    >>> import numpy as np, kapitza as kz, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> motion = kz.simulate(kz.library.lorenz(), x0=[1, 1, 20], t=np.arange(300) * 0.01)
    >>> _ = kz.write(kz.measure(motion, noise=0.1, seed=1), folder / "run.csv")
    >>> text = '[model]\nlibrary = "lorenz"\n[data]\nfile = "run.csv"\n[fit]\nfree = ["rho"]\nmethod = "shooting"'
    >>> _ = (folder / "rig.toml").write_text(text)
    >>> result = kz.read_study(folder / "rig.toml").run()
    >>> bool(abs(result["lorenz"]["rho"] - 28) < 0.5)
    True
    """

    title: str
    folder: Path
    fits: tuple[StudyFit, ...]
    seed: int
    level: float
    versions: Mapping[str, str] = field(default_factory=dict)
    checksums: Mapping[str, str] = field(default_factory=dict)
    data: tuple[str, ...] = ()
    models: Mapping[str, str] = field(default_factory=dict)
    study: str = field(default="", repr=False)
    warnings: tuple[str, ...] = ()
    plan: Plan | None = field(default=None, repr=False)
    plan_problem: str = ""

    @property
    def succeeded(self) -> tuple[StudyFit, ...]:
        return tuple(fit for fit in self.fits if fit.ok)

    @property
    def chosen(self) -> StudyFit | None:
        """Return the fit that answers the study.

        It is that of the candidate with the most evidence, by its first method.
        """
        table = self.comparison()
        for name, method in table["method"].items() if len(table) else ():
            for fit in self.succeeded:
                if fit.candidate == name and fit.method == method:
                    return fit
        return self.succeeded[0] if self.succeeded else None

    @property
    def best(self) -> Estimate | None:
        """Return the estimate of the chosen fit.

        It is None where no fit succeeded.
        """
        return None if self.chosen is None else self.chosen.answer

    def __getitem__(self, name: str) -> Estimate:
        """Return the estimate of a candidate.

        The first method that succeeded is taken, or the one in "candidate, method".
        """
        named = [fit for fit in self.fits if name in (fit.candidate, fit.label)]
        if not named:
            known = [*(fit.candidate for fit in self.fits), *(fit.label for fit in self.fits)]
            listed = "; ".join(fit.label for fit in self.fits)
            raise DataError(f'There is no fit "{name}".{nearest_name(name, known)} There are {listed}.')
        return next((fit for fit in named if fit.ok), named[0]).answer

    def comparison(self) -> pd.DataFrame:
        """Return candidates by evidence, see `compare_fits`.

        Empty for a single one, or where no likelihood can be compared.
        Fits that did not end well count with what they reached, and say so under "status": a model that cannot follow
        the data loses. held back: prediction error of the held-back data over their spread.
        """
        import pandas as pd

        groups: dict[tuple[str, int], dict[str, StudyFit]] = {}
        for fit in self.fits:
            known = None if fit.estimate is None else fit.estimate.likelihood
            if known is not None and math.isfinite(known.log_likelihood):
                groups.setdefault((fit.method, known.readings), {})[fit.candidate] = fit
        group = max(groups.values(), key=len, default={})
        if len(group) < 2:
            return pd.DataFrame()
        table = compare_fits({name: fit.estimate for name, fit in group.items() if fit.estimate is not None})
        table.insert(0, "method", next(iter(group.values())).method)
        table["held back"] = [group[str(name)].held_back for name in table.index]
        return table

    def verdict(self) -> str:
        """Return one sentence on the candidates, or nothing."""
        table = self.comparison()
        if not len(table):
            return ""
        first, second = table.index[0], table.index[1]
        gap = abs(float(table["dAIC"].iloc[1] - table["dAIC"].iloc[0]))
        if float(table["dAIC"].iloc[1]) < TIE:
            said = f"{first} and {second} explain the data about equally well (AIC differs by {gap:.1f})"
            if table["free"].iloc[0] < table["free"].iloc[1]:
                said += f"; the smaller model, {first}, is taken"
        else:
            said = f"{first} explains the data best: AIC is {gap:.4g} lower than that of {second}"
        held = table["held back"].dropna()
        if len(held) > 1:
            winner = held.idxmin()
            agrees = "also" if winner == first else "but"
            said += f"; {agrees} {winner} predicts the held-back data best ({100 * held.min():.2g} % of their spread)"
        return said + "."

    def disagreements(self) -> tuple[str, ...]:
        """Return sentences on methods that disagree.

        They name parameters whose intervals by different methods do not overlap.
        """
        said = []
        for fit in self.succeeded:
            for other in self.succeeded:
                if other.candidate == fit.candidate and other.method > fit.method:
                    said += _disagreements(fit, other, self.level)
        return tuple(said)

    def sentence(self) -> str:
        """Return the answer in one sentence."""
        chosen = self.chosen
        if chosen is None:
            return "No fit succeeded; the reasons are below."
        best = chosen.answer
        shown = ", ".join(f"{name} = {quantity(best, name)}" for name in best.names[:6])
        more = f" and {len(best.names) - 6} more" if len(best.names) > 6 else ""
        follows = f"; the model {chosen.follows}" if chosen.follows else ""
        return f"{shown}{more} (± one standard error; {chosen.candidate} by {best.method}){follows}."

    def table(self) -> pd.DataFrame:
        """Return one row per parameter and fit.

        It holds parameters that were found or follow from those found.
        """
        import pandas as pd

        columns = ["model", "method", "parameter", "value", "unit", "error", "low", "high", "start", "follows"]
        tables = [pd.DataFrame(columns=columns)]
        for fit in self.succeeded:
            own = fit.answer.table(self.level).drop(columns=["error_%"]).reset_index(names="parameter")
            own = own[own.pop("role") != "fixed"]
            own = own.assign(model=fit.candidate, method=fit.method, follows=fit.follows)
            tables.append(own[columns])
        return pd.concat([t for t in tables if len(t)] or tables, ignore_index=True)

    def plot(self) -> Any:
        """Draw data, fitted motion and residuals.

        The figure is by Matplotlib and shows the chosen fit.
        """
        from kapitza.report import plot_fit

        chosen = self.chosen
        if chosen is None:
            raise DataError("No fit succeeded: there is nothing to draw.")
        if chosen.moving is None:
            raise DataError(f"{chosen.label} has no motion along the data to draw.")
        return plot_fit(chosen.moving, chosen.validation)

    def __str__(self) -> str:
        lines = [f"{self.title}: {self.sentence()}"]
        lines += [text for text in (self.verdict(), *self.disagreements()) if text]
        lines += [f"{fit.label}: {fit.failure}" for fit in self.fits if fit.failure]
        lines += [str(self.plan)] if self.plan is not None else []
        lines += [f"No plan: {self.plan_problem}"] if self.plan_problem else []
        return "\n".join(lines)


def _disagreements(one: StudyFit, other: StudyFit, level: float) -> list[str]:
    first, second = one.answer.interval(level), other.answer.interval(level)
    said = []
    for name in (n for n in one.answer.names if n in other.answer.names):
        low = max(float(first["low"][name]), float(second["low"][name]))
        if low > min(float(first["high"][name]), float(second["high"][name])):
            said.append(
                f"{one.method} and {other.method} disagree on {name} of {one.candidate}: {quantity(one.answer, name)} "
                f"against {quantity(other.answer, name)}, beyond both intervals. The equations, the data, or one of "
                "the methods is wrong here."
            )
    return said


def quantity(estimate: Estimate, name: str) -> str:
    """Return value and standard error with significant digits.

    0.1470(12) m is written as "0.1470 ± 0.0012 m".
    """
    value, error = estimate.values[name], estimate.deviations.get(name, math.nan)
    unit = estimate.units.get(name, "")
    if not (math.isfinite(error) and error > 0):
        return f"{value:.5g} {unit}".rstrip()
    digits = max(0, 1 - math.floor(math.log10(error)))
    if digits > 7 or abs(value) >= 1e6:
        return f"{value:.6g} ± {error:.2g} {unit}".rstrip()
    return f"{value:.{digits}f} ± {error:.{digits}f} {unit}".rstrip()


def as_plain(result: StudyResult) -> dict[str, Any]:
    """Return the answer for programs.

    It is in result.json, and `kapitza identify --json` prints it.
    """
    chosen, comparison = result.chosen, result.comparison()
    return {
        "title": result.title,
        "sentence": result.sentence(),
        "best": None if chosen is None else {"model": chosen.candidate, "method": chosen.method},
        "parameters": _rows(result.table()),
        "comparison": _rows(comparison.reset_index()) if len(comparison) else [],
        "verdict": result.verdict(),
        "disagreements": result.disagreements(),
        "held_back": {
            fit.label: {"share": fit.held_back, "said": str(fit.validation)}
            for fit in result.succeeded
            if fit.validation is not None
        },
        "follows": {fit.label: fit.follows for fit in result.succeeded},
        "misses": chosen is not None and chosen.misses,
        "missing": {fit.label: str(fit.missing) for fit in result.succeeded if fit.missing is not None},
        "before": result.warnings,
        "warnings": {fit.label: [in_study(text) for text in fit.answer.warnings] for fit in result.succeeded},
        "failures": {fit.label: fit.failure for fit in result.fits if fit.failure},
        "plan": [] if result.plan is None else [result.plan.words(one.choice) for one in result.plan],
        "plan_problem": result.plan_problem,
        "checksums": result.checksums,
        "versions": result.versions,
    }


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows of a table for JSON.

    None in place of numbers that are not finite.
    """
    rows = table.to_dict(orient="records")
    return [
        {str(k): None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()} for row in rows
    ]


def write_result(result: StudyResult, folder: Path, report: bool) -> None:
    """Write everything but the fits.

    The fits are there already; the file that marks the folder comes last.
    """
    with replacing(folder / "study.toml") as draft:
        draft.write_text(result.study, encoding="utf-8")
    write_table(result.table(), folder / "parameters.csv")
    comparison = result.comparison()
    if len(comparison):
        write_table(comparison, folder / "comparison.csv", index=True)
    if result.plan is not None:
        save(result.plan, folder / PLAN)
        result.plan.sheet(folder / "runs.csv")
        result.plan.sheet(folder / "runs.toml")
    if report:
        from kapitza.report import write_study_report

        write_study_report(result, folder / "report.html")
    facts = {
        "format": FORMAT,
        "fits": [[fit.candidate, fit.method] for fit in result.fits],
        "seed": result.seed,
        "level": result.level,
        "data": result.data,
        "models": result.models,
    }
    write_json(as_plain(result) | facts, folder / RESULT)


FORMAT = 2
"""Version of results folders. 1 kept its fits as .json and .npz."""


def read_results(folder: str | Path) -> StudyResult:
    """Read the result of a study from its folder.

    Parameters
    ----------
    folder : path
        The one that `Study.run` wrote.

    Returns
    -------
    StudyResult
        As `Study.run` gave it; its fits are `Estimate`s to profile, plot, validate and save.

    Examples
    --------
    >>> import numpy as np, kapitza as kz, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> motion = kz.simulate(kz.library.lorenz(), x0=[1, 1, 20], t=np.arange(300) * 0.01)
    >>> _ = kz.write(kz.measure(motion, noise=0.1, seed=1), folder / "run.csv")
    >>> text = '[model]\\nlibrary = "lorenz"\\n[data]\\nfile = "run.csv"\\n[fit]\\nfree = ["rho"]\\nmethod = "shooting"'
    >>> _ = (folder / "rig.toml").write_text(text)
    >>> result = kz.read_study(folder / "rig.toml").run()
    >>> fit = kz.read_results(result.folder)["lorenz"]
    >>> fit.values == result["lorenz"].values
    True
    """
    folder = settle(folder)
    while True:
        before = _number(folder)
        try:
            result = _read_once(folder)
        except DataError:
            if _number(folder) == before:
                raise
            continue
        # Where a run has replaced the folder in the meantime, what was read may be half of each.
        if _number(folder) == before:
            return result


AGAIN = "run the study again, `kapitza identify STUDY`."


def _number(folder: Path) -> tuple[int, int] | None:
    """Return numbers that distinguish a replaced folder."""
    try:
        found = folder.stat()
    except (OSError, ValueError):
        return None
    return found.st_ino, found.st_mtime_ns


def _read_once(folder: Path) -> StudyResult:
    if not (folder / RESULT).is_file():
        raise DataError(f"{folder} is not a results folder of a study: it has no {RESULT}.")
    try:
        return _read(folder)
    except KapitzaError:
        raise
    except Exception as problem:
        # A folder is data from anywhere: whatever is wrong with it is said as such.
        raise DataError(
            f"{folder} is not a results folder as studies write them ({type(problem).__name__}: {problem}). "
            f"{AGAIN[0].upper()}{AGAIN[1:]}"
        ) from None


def _read(folder: Path) -> StudyResult:
    content = read_json(folder / RESULT)
    version = int(content.get("format", 1))
    if version != FORMAT:
        made = "an earlier" if version < FORMAT else "a newer"
        raise DataError(
            f"{folder} was written by {made} version of Kapitza, whose fits this one does not read: {AGAIN}"
        )
    pairs: Sequence[Sequence[str]] = content["fits"]
    return StudyResult(
        title=str(content["title"]),
        folder=folder,
        fits=tuple(read_fit(folder / FITS, candidate, method) for candidate, method in pairs),
        seed=int(content["seed"]),
        level=checks.number("level", content["level"], error=DataError, above=0.0, below=1.0),
        versions=dict(content["versions"]),
        checksums=dict(content["checksums"]),
        data=tuple(map(str, content["data"])),
        models=dict(content["models"]),
        study=(folder / "study.toml").read_text(encoding="utf-8"),
        warnings=tuple(map(str, content["before"])),
        plan=_plan(folder),
        plan_problem=str(content.get("plan_problem", "")),
    )


def _plan(folder: Path) -> Plan | None:
    if not (folder / PLAN).is_file():
        return None
    found = load(folder / PLAN)
    if not isinstance(found, Plan):
        raise DataError(f"{PLAN} holds no plan: {AGAIN}")
    return found
