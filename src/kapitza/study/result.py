"""StudyResult: what a study found, kept in its results folder."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kapitza.data import replacing
from kapitza.errors import DataError, KapitzaError
from kapitza.shown import Shown
from kapitza.study.folder import MARK
from kapitza.study.outcome import Outcome, read_json, read_outcome, write_json


@dataclass(frozen=True, eq=False)
class StudyResult(Shown):
    """Outcomes of all fits, the first of the chosen candidate being the answer.

    versions, checksums, seed, study (its text): what a repetition needs. data: the recordings in words; models: the
    equations by candidate. title, folder: of the study, and where it wrote; outcomes: one for each fit; level: of the
    intervals; warnings: about the study as a whole.

    Examples
    --------
    >>> import numpy as np, kapitza as kz, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> motion = kz.simulate(kz.library.lorenz(), x0=[1, 1, 20], t=np.arange(300) * 0.01)
    >>> _ = kz.write(kz.measure(motion, noise=0.1, seed=1), folder / "run.csv")
    >>> text = '[model]\\nlibrary = "lorenz"\\n[data]\\nfile = "run.csv"\\n[fit]\\nfree = ["rho"]\\nmethod = "shooting"'
    >>> _ = (folder / "rig.toml").write_text(text)
    >>> result = kz.read_study(folder / "rig.toml").run()
    >>> bool(abs(result.best.values["rho"] - 28) < 0.5)
    True
    """

    title: str
    folder: Path
    outcomes: tuple[Outcome, ...]
    seed: int
    level: float
    versions: Mapping[str, str] = field(default_factory=dict)
    checksums: Mapping[str, str] = field(default_factory=dict)
    data: tuple[str, ...] = ()
    models: Mapping[str, str] = field(default_factory=dict)
    study: str = field(default="", repr=False)
    warnings: tuple[str, ...] = ()

    @property
    def succeeded(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.ok)

    @property
    def best(self) -> Outcome | None:
        """The answer: of several candidates the one with the most evidence, by the first method that succeeded."""
        table = self.comparison()
        for name, method in table["method"].items() if len(table) else ():
            for outcome in self.succeeded:
                if outcome.candidate == name and outcome.method == method:
                    return outcome
        return self.succeeded[0] if self.succeeded else None

    def comparison(self) -> pd.DataFrame:
        """Candidates by evidence, the best first; empty for a single one, or where no likelihood can be compared.

        Fits that did not end well count with what they reached, and say so under "ended": a model that cannot follow
        the data loses. weight: exp(-dAIC/2), normalised. held back: root mean square error over the spread of the
        held-back channels.
        """
        groups: dict[tuple[str, int], list[Outcome]] = {}
        for outcome in self.outcomes:
            if math.isfinite(outcome.log_likelihood):
                groups.setdefault((outcome.method, outcome.readings), []).append(outcome)
        group = max(groups.values(), key=len, default=[])
        if len(group) < 2:
            return pd.DataFrame()
        rows = {
            o.candidate: (o.method, len(o.names), o.readings, o.log_likelihood, o.aic, o.bic, check_share(o), o.status)
            for o in group
        }
        columns = ["method", "free", "readings", "log L", "AIC", "BIC", "held back", "ended"]
        table = pd.DataFrame.from_dict(rows, orient="index", columns=columns).sort_values("AIC")
        table.insert(5, "dAIC", table["AIC"] - table["AIC"].min())
        table.insert(7, "dBIC", table["BIC"] - table["BIC"].min())
        evidence = np.exp(-0.5 * table["dAIC"])
        table.insert(6, "weight", evidence / evidence.sum())
        table.index.name = "model"
        return table

    def verdict(self) -> str:
        """One sentence on the candidates, or nothing."""
        table = self.comparison()
        if not len(table):
            return ""
        first, second = table.index[0], table.index[1]
        gap = float(table["dAIC"].iloc[1])
        if gap < 2:
            said = f"{first} and {second} explain the data about equally well (AIC differs by {gap:.1f})"
        else:
            said = f"{first} explains the data best: AIC is {gap:.4g} lower than that of {second}"
        held = table["held back"].dropna()
        if len(held) > 1:
            winner = held.idxmin()
            agrees = "also" if winner == first else "but"
            said += f"; {agrees} {winner} predicts the held-back data best ({100 * held.min():.2g} % of their spread)"
        return said + "."

    def disagreements(self) -> tuple[str, ...]:
        """Parameters whose intervals by different methods do not meet, in words."""
        said = []
        for outcome in self.succeeded:
            for other in self.succeeded:
                if other.candidate != outcome.candidate or other.method <= outcome.method:
                    continue
                for name in outcome.names:
                    text = _disagreement(name, outcome, other)
                    said += [text] if text else []
        return tuple(said)

    def sentence(self) -> str:
        """The answer in one sentence."""
        best = self.best
        if best is None:
            return "No fit succeeded; the reasons are below."
        shown = ", ".join(f"{name} = {quantity(best, name)}" for name in best.names[:6])
        more = f" and {len(best.names) - 6} more" if len(best.names) > 6 else ""
        return f"{shown}{more} (± one standard error; {best.candidate} by {best.title})."

    def table(self) -> pd.DataFrame:
        """One row per parameter of every fit."""
        rows = [
            (o.candidate, o.method, n, o.values[n], o.units.get(n, ""), o.deviations.get(n, math.nan),
             o.low.get(n, math.nan), o.high.get(n, math.nan), o.start.get(n, math.nan))
            for o in self.succeeded
            for n in (*o.names, *(d for d in o.values if d not in o.names))
        ]  # fmt: skip
        columns = ["model", "method", "parameter", "value", "unit", "error", "low", "high", "start"]
        return pd.DataFrame(rows, columns=columns)

    def plot(self) -> Any:
        """Fit, prediction and residuals of the answer, as a Matplotlib figure."""
        from kapitza.report import plot_fit

        if self.best is None:
            raise DataError("No fit succeeded: there is nothing to draw.")
        return plot_fit(self.best)

    def __str__(self) -> str:
        lines = [f"{self.title}: {self.sentence()}"]
        lines += [text for text in (self.verdict(), *self.disagreements()) if text]
        lines += [f"{o.label}: {o.failure}" for o in self.outcomes if o.failure]
        return "\n".join(lines)


def _disagreement(name: str, one: Outcome, other: Outcome) -> str:
    if name not in other.names:
        return ""
    low, high = max(one.low[name], other.low[name]), min(one.high[name], other.high[name])
    if not low > high:
        return ""
    return (
        f"{one.method} and {other.method} disagree on {name} of {one.candidate}: {quantity(one, name)} against "
        f"{quantity(other, name)}, beyond both intervals. The equations, the data, or one of the methods is wrong here."
    )


def check_share(outcome: Outcome) -> float:
    """Error on the held-back data over their spread, the worst channel; NaN where there are none."""
    if outcome.check is None:
        return math.nan
    return max(outcome.check.share(channel) for channel in outcome.check.measured)


def quantity(outcome: Outcome, name: str) -> str:
    """Value and standard error with the digits that mean something: 0.1470(12) m as "0.1470 ± 0.0012 m"."""
    value, error = outcome.values[name], outcome.deviations.get(name, math.nan)
    unit = outcome.units.get(name, "")
    if not (math.isfinite(error) and error > 0):
        return f"{value:.5g} {unit}".rstrip()
    digits = max(0, 1 - math.floor(math.log10(error)))
    if digits > 7 or abs(value) >= 1e6:
        return f"{value:.6g} ± {error:.2g} {unit}".rstrip()
    return f"{value:.{digits}f} ± {error:.{digits}f} {unit}".rstrip()


def write_result(result: StudyResult, folder: Path, report: bool) -> None:
    """Everything but the fits themselves, which are there already; the file that marks the folder comes last."""
    with replacing(folder / "study.toml") as draft:
        draft.write_text(result.study, encoding="utf-8")
    with replacing(folder / "parameters.csv") as draft:
        result.table().to_csv(draft, index=False)
    comparison = result.comparison()
    if len(comparison):
        with replacing(folder / "comparison.csv") as draft:
            comparison.to_csv(draft)
    if report:
        from kapitza.report import write_study_report

        write_study_report(result, folder / "report.html")
    write_json(
        {
            "title": result.title,
            "sentence": result.sentence(),
            "verdict": result.verdict(),
            "disagreements": result.disagreements(),
            "fits": [[outcome.candidate, outcome.method] for outcome in result.outcomes],
            "seed": result.seed,
            "level": result.level,
            "versions": result.versions,
            "checksums": result.checksums,
            "data": result.data,
            "models": result.models,
            "warnings": result.warnings,
        },
        folder / MARK,
    )


def read_results(folder: str | Path) -> StudyResult:
    """The result of a study that was run, from its results folder.

    Parameters
    ----------
    folder : path
        The one that `Study.run` wrote.

    Returns
    -------
    StudyResult
        As `Study.run` gave it.

    Examples
    --------
    >>> import numpy as np, kapitza as kz, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> motion = kz.simulate(kz.library.lorenz(), x0=[1, 1, 20], t=np.arange(300) * 0.01)
    >>> _ = kz.write(kz.measure(motion, noise=0.1, seed=1), folder / "run.csv")
    >>> text = '[model]\\nlibrary = "lorenz"\\n[data]\\nfile = "run.csv"\\n[fit]\\nfree = ["rho"]\\nmethod = "shooting"'
    >>> _ = (folder / "rig.toml").write_text(text)
    >>> result = kz.read_study(folder / "rig.toml").run()
    >>> kz.read_results(result.folder).title == result.title
    True
    """
    folder = Path(folder)
    if not (folder / MARK).is_file():
        raise DataError(f"{folder} is no results folder of a study: it has no {MARK}.")
    try:
        return _read(folder)
    except KapitzaError:
        raise
    except Exception as problem:
        # A folder is data from anywhere: whatever is wrong with it is said as such.
        raise DataError(
            f"{folder} is not a results folder as studies write them ({type(problem).__name__}: {problem}). "
            "Run the study again."
        ) from None


def _read(folder: Path) -> StudyResult:
    from kapitza.study.folder import step_path

    content = read_json(folder / MARK)
    pairs: Sequence[Sequence[str]] = content["fits"]
    return StudyResult(
        title=content["title"],
        folder=folder,
        outcomes=tuple(read_outcome(step_path(folder, candidate, method)) for candidate, method in pairs),
        seed=content["seed"],
        level=content["level"],
        versions=content["versions"],
        checksums=content["checksums"],
        data=tuple(content["data"]),
        models=content["models"],
        study=(folder / "study.toml").read_text(encoding="utf-8"),
        warnings=tuple(content.get("warnings", ())),
    )
