"""Coverage of intervals, measured by repeated fits.

Many fits are made to one motion, with fresh noise each time, and the intervals that hold the true value are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kapitza.base import checks
from kapitza.base.ensembles import Ensemble, ensemble
from kapitza.base.monitor import Interrupted, Monitor
from kapitza.base.workers import Executor
from kapitza.data import Noise, Record, measure
from kapitza.errors import ConvergenceError, DataError, Status
from kapitza.estimate.identify import identify
from kapitza.estimate.method import Estimator
from kapitza.model import Model

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Coverage:
    """Fits to the same motion with fresh noise.

    truth: name -> value that made the motion; level: of the intervals; fits: every fit, with columns NAME, NAME low,
    NAME high and NAME deviation; failures are in fits.failures.

    Examples
    --------
    >>> import numpy as np, kapitza as kz
    >>> model = kz.Model.from_equations("x'' + c*x' + x = 0", parameters={"c": 0.1}, start={"x": 1.0, "x'": 0.0})
    >>> motion = kz.simulate(model, t=np.arange(100) * 0.1)
    >>> found = kz.coverage(model, motion, 0.01, ["c"], kz.ShootingFit(), fits=4)
    >>> len(found.fits), found.truth
    (4, {'c': 0.1})
    """

    truth: dict[str, float]
    level: float
    fits: Ensemble

    def table(self) -> pd.DataFrame:
        """Return bias, errors and coverage of each parameter.

        Columns: bias, root mean square error, mean stated deviation, share of intervals that hold the truth. from, to:
        95 % range of that share, given the number of fits (Clopper-Pearson).
        """
        import pandas as pd
        from scipy.stats import beta

        rows = {}
        for name, true in self.truth.items():
            found, columns = self.fits.columns[name], self.fits.columns
            inside = (columns[f"{name} low"] <= true) & (true <= columns[f"{name} high"])
            hits, count = int(inside.sum()), len(inside)
            # Clopper-Pearson: quantiles of the beta distribution.
            low = beta.ppf(0.025, hits, count - hits + 1) if hits else 0.0
            high = beta.ppf(0.975, hits + 1, count - hits) if hits < count else 1.0
            rows[name] = {
                "true": true,
                "bias": float(found.mean() - true),
                "rms error": float(np.sqrt(np.mean((found - true) ** 2))),
                "stated deviation": float(columns[f"{name} deviation"].mean()),
                "inside": hits / count,
                "from": float(low),
                "to": float(high),
            }
        return pd.DataFrame.from_dict(rows, orient="index")


def coverage(
    model: Model,
    record: Record,
    noise: Noise,
    free: Sequence[str],
    method: Estimator | None = None,
    fits: int = 200,
    level: float = 0.9,
    seed: int = 0,
    workers: int | None = None,
    executor: Executor | None = None,
    keep: str | Path | None = None,
    monitor: Monitor | None = None,
) -> Coverage:
    """Count how often intervals hold the truth.

    The model is fitted to a clean record of its own motion with fresh noise, again and again.

    Parameters
    ----------
    model : Model
        With the true values, from which every fit starts.
    record : Record
        A motion of the model, simulated without noise.
    noise : float or mapping
        Standard deviation of every channel, or of each by name, in the unit of the channel.
    free : sequence of str
        Parameters to fit.
    method : optional
        As in `identify`.
    fits : int
        Number of fits; those that do not converge count as failures.
    level : float
        Of the intervals, 0 … 1.
    seed, workers, executor, keep, monitor
        As in `ensemble`: the result is the same to the last bit on one worker and on forty.

    Returns
    -------
    Coverage
        Every fit, and `table()`: bias, errors, share of intervals that hold the truth.

    Examples
    --------
    >>> import numpy as np
    >>> import kapitza as kz
    >>> model = kz.Model.from_equations("x'' + c*x' + k*x = 0", parameters={"c": 0.2, "k": 4.0})
    >>> record = kz.simulate(model, x0=[1.0, 0.0], t=np.arange(0, 20, 0.05)).select(["x"])
    >>> found = kz.coverage(model, record, 0.01, ["c", "k"], kz.HarmonicFit(), fits=10)
    >>> found.table().columns.tolist()
    ['true', 'bias', 'rms error', 'stated deviation', 'inside', 'from', 'to']
    """
    names = tuple(checks.texts("free", free))
    if not isinstance(record, Record):
        raise DataError("record: give one clean Record of the motion, made by simulate without noise.")
    for name in names:
        model.check(name)
    fits = checks.whole("fits", fits, least=1)
    level = checks.number("level", level, above=0.0, high=1.0)
    # Sent once to every worker; each fit draws its own noise.
    shared = (model, record, noise, names, method, level)
    found = ensemble(
        _fit_once, range(fits), shared=shared, seed=seed, workers=workers, executor=executor, keep=keep, monitor=monitor
    )
    if not len(found):
        raise DataError(f"None of {fits} fits succeeded: the study was stopped before.")
    return Coverage({name: model.values[name] for name in names}, level, found)


def _fit_once(_: int, shared: tuple, generator: np.random.Generator) -> dict[str, float]:
    model, record, noise, names, method, level = shared
    noisy = measure(record, noise=noise, seed=int(generator.integers(2**31)))
    fit = (
        identify(model, noisy, free=list(names), method=method) if method else identify(model, noisy, free=list(names))
    )
    if fit.status is Status.INTERRUPTED:
        raise Interrupted
    if not fit.status.ok:
        raise ConvergenceError(fit.status.value, fit)
    intervals = fit.interval(level)
    low, high = intervals["low"].to_dict(), intervals["high"].to_dict()
    row: dict[str, float] = {}
    for name in names:
        row[name] = fit.values[name]
        row[f"{name} low"], row[f"{name} high"] = float(low[name]), float(high[name])
        row[f"{name} deviation"] = fit.deviations[name]
    return row
