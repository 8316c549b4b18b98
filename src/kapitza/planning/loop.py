"""Measure, fit, plan, until intervals are narrow enough.

This is the loop of `kz.experiment`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kapitza.base.argument_checks import Anything
from kapitza.base.display import Shown
from kapitza.base.fingerprint import fingerprint
from kapitza.base.locks import locked
from kapitza.base.monitor import Monitor, checkpoint, watch
from kapitza.data import Record
from kapitza.errors import DataError, KapitzaError
from kapitza.estimate import Estimate, identify
from kapitza.model import Model
from kapitza.planning.choice import Choice
from kapitza.planning.criteria import Want, check_aim
from kapitza.planning.plan import known_and_wanted, plan
from kapitza.planning.result import Plan
from kapitza.planning.rigs import rig_measurer
from kapitza.planning.search import Search
from kapitza.planning.sheet import Entry, begin_journal, read_journal, write_journal, write_run
from kapitza.rig import Rig

if TYPE_CHECKING:
    import pandas as pd

Measure = Callable[[Choice], Record]
"""Makes an experiment and returns its recording."""


class Ending(Enum):
    """Why a campaign ended."""

    REACHED = "every wanted interval is as narrow as asked"
    SPENT = "the budget is spent before every interval is narrow enough"
    MISSES = "the model does not follow the data: further runs would narrow intervals around a wrong model"
    NOTHING = "no allowed experiment improves what is wanted"
    STOPPED = "stopped; what was measured is kept"
    FAILED = "the rig or a fit failed; what was measured is kept"


@dataclass(frozen=True)
class Campaign(Shown):
    """Result of `kapitza.experiment`.

    ending: why it ended; detail: a further sentence; fit: of all runs, None where there is none; entries: what was
    measured, in order, with the widths promised and reached; plan: the last one, None where nothing was planned.

    Examples
    --------
    >>> import kapitza as kz
    >>> c = kz.Parameter("c", 0.1, prior=kz.Prior(0.12, 0.03))
    >>> model = kz.Model.from_equations("x'' + c*x' + x = F*cos(w*t)", parameters=[c, "F", "w"], period="2*pi/w")
    >>> def measure(choice):
    ...     at = model.with_values(**choice.settings)
    ...     states = kz.simulate(at, x0=[0, 0], t=[choice.step * i for i in range(choice.samples)])
    ...     return kz.measure(kz.Record.from_arrays(states.time, {"x": states["x"]}), noise=0.01, seed=1)
    >>> run = kz.Choice({"F": 0.1}, duration=30.0, step=0.1, channels={"x": 0.01})
    >>> found = kz.experiment(measure, model, {"w": [0.5, 1.0]}, run, search=kz.Search(points=2))
    >>> found.runs, found.ending.name
    (1, 'REACHED')
    """

    ending: Ending
    detail: str
    fit: Estimate | None
    entries: tuple[Entry, ...]
    plan: Plan | None = field(default=None, repr=False)

    @property
    def runs(self) -> int:
        return len(self.entries)

    def table(self) -> pd.DataFrame:
        """Return a table with one row per run.

        A row holds the experiment and the relative widths [%] promised and reached.
        """
        import pandas as pd

        rows = []
        for entry in self.entries:
            row: dict[str, Any] = {"experiment": str(entry.choice)}
            for name in entry.promised:
                row[f"{name} promised [%]"], row[f"{name} reached [%]"] = (
                    100 * entry.promised[name],
                    100 * entry.reached.get(name, np.nan),
                )
            rows.append(row)
        return pd.DataFrame(rows, index=pd.RangeIndex(1, len(rows) + 1, name="run"))

    def __str__(self) -> str:
        lines = [f"{self.runs} runs: {self.ending.value}" + (f" ({self.detail})" if self.detail else "")]
        return "\n".join([*lines, *([str(self.fit)] if self.fit is not None else [])])


def experiment(
    rig: Rig | Measure,
    source: Model | Estimate,
    vary: Mapping[str, Anything],
    run: Choice,
    aim: float = 0.01,
    budget: int = 10,
    want: Sequence[Want] | Want | None = None,
    limits: Mapping[str, float] | None = None,
    missing: Sequence[str] = (),
    folder: str | os.PathLike[str] | None = None,
    search: Search | None = None,
    monitor: Monitor | None = None,
) -> Campaign:
    """Measure, fit and plan until intervals are reached.

    Every run is written to `folder` before it is fitted, so a campaign that was stopped or killed goes on from there
    when it is called again. It ends early when the model does not follow the data.

    Parameters
    ----------
    rig : Rig, or a function of a Choice that returns a Record
        What is measured. A rig gets the settings of a choice as its parameters, and is left in its safe state.
    source : Model or Estimate
        A model whose free parameters have priors, or a fit of what was measured before.
    vary, run, want, limits, missing, search
        As `plan` takes them.
    aim : float
        Relative standard error that is enough, for everything wanted.
    budget : int
        Runs that may be made.
    folder : path, optional
        Where runs and the journal are kept.
    monitor : Monitor, optional
        Progress and cancelling.

    Returns
    -------
    Campaign
        Why it ended, the last fit, and every run with the widths promised and reached.

    Examples
    --------
    >>> import kapitza as kz
    >>> c = kz.Parameter("c", 0.1, prior=kz.Prior(0.12, 0.03))
    >>> model = kz.Model.from_equations("x'' + c*x' + x = F*cos(w*t)", parameters=[c, "F", "w"], period="2*pi/w")
    >>> def measure(choice):
    ...     at = model.with_values(**choice.settings)
    ...     states = kz.simulate(at, x0=[0, 0], t=[choice.step * i for i in range(choice.samples)])
    ...     return kz.measure(kz.Record.from_arrays(states.time, {"x": states["x"]}), noise=0.01, seed=1)
    >>> run = kz.Choice({"F": 0.1}, duration=30.0, step=0.1, channels={"x": 0.01})
    >>> found = kz.experiment(measure, model, {"w": [0.5, 1.0]}, run, search=kz.Search(points=2))
    >>> found.runs, found.ending.name
    (1, 'REACHED')
    """
    check_aim(aim)
    if budget < 0:
        raise DataError(f"budget is {budget}: give the number of runs that may be made.")
    measure = rig if callable(rig) and not isinstance(rig, Rig) else rig_measurer(rig, _model(source), limits or {})
    kept = None if folder is None else Path(folder)
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
    asked = _Asked(source, dict(vary), run, want, dict(limits or {}), tuple(missing), aim, search or Search())
    with locked(kept) if kept is not None else nullcontext(), watch(monitor, "experiment", budget, partial=False):
        return _campaign(measure, asked, budget, kept)


def _model(source: Model | Estimate) -> Model:
    return source.model if isinstance(source, Estimate) else source


@dataclass(frozen=True)
class _Asked:
    source: Model | Estimate
    vary: dict[str, Any]
    run: Choice
    want: Sequence[Want] | Want | None
    limits: dict[str, float]
    missing: tuple[str, ...]
    aim: float
    search: Search

    @cached_property
    def fingerprint(self) -> str:
        """Fingerprint of a campaign.

        It covers what runs in one folder must have in common; aim and search may change from call to call.
        """
        before = self.source.data if isinstance(self.source, Estimate) else None
        asked = (self.vary, self.run, self.want, self.limits, self.missing)
        return fingerprint(_model(self.source), self.free, before, *asked)

    @property
    def free(self) -> tuple[str, ...]:
        if isinstance(self.source, Estimate):
            return self.source.names
        return tuple(p.name for p in self.source.parameters if p.prior is not None)

    def fit(self, runs: Sequence[tuple[Record, Mapping[str, float]]]) -> Model | Estimate:
        """Fit everything measured so far.

        Returns the prior knowledge where nothing is measured.
        """
        if not runs:
            return self.source
        before = [self.source.data] if isinstance(self.source, Estimate) else []
        data = [*before, *((record, dict(own)) for record, own in runs)]
        # A setting may have no value in the model itself; each run has its own. Values that the model has are those
        # of what was measured before: they stay.
        model = _model(self.source)
        model = model.with_values(**{n: v for n, v in runs[0][1].items() if np.isnan(model.values.get(n, np.nan))})
        # Sensors and noise of the fit so far; methods for orbits or responses do not take these recordings.
        source = self.source
        method = source.settings if isinstance(source, Estimate) and source.motion is not None else None
        return identify(model, data, free=list(self.free), method=method)

    def plan(self, known: Model | Estimate) -> Plan:
        return plan(
            known, self.vary, None, self.want, self.limits, self.run, self.missing, self.aim, "mean log", self.search
        )


def _campaign(measure: Measure, asked: _Asked, budget: int, folder: Path | None) -> Campaign:
    if folder is not None:
        begin_journal(folder, asked.fingerprint)
    entries, runs = read_journal(folder) if folder is not None else ([], [])
    fit: Estimate | None = asked.source if isinstance(asked.source, Estimate) else None
    made: Plan | None = None
    try:
        while True:
            checkpoint(text=f"fit of {len(runs)} runs")
            known = asked.fit(runs)
            fit = known if isinstance(known, Estimate) else fit
            if isinstance(known, Estimate) and known.misfit is not None and known.misfit.misses:
                return Campaign(Ending.MISSES, known.misfit.verdict, fit, tuple(entries), made)
            knowledge, sought = known_and_wanted(known, asked.want, asked.aim, asked.search.seed)
            if entries and not entries[-1].reached:
                widths = sought.widths(knowledge.information) / sought.scale
                entries[-1] = replace(entries[-1], reached=dict(zip(sought.labels, widths.tolist(), strict=True)))
                if folder is not None:
                    write_journal(folder, asked.fingerprint, entries)
            # Before the plan, which costs most: a campaign that has ended needs none.
            if runs and sought.reached(knowledge.information):
                return Campaign(Ending.REACHED, "", fit, tuple(entries), made)
            made = asked.plan(known)
            if len(runs) >= budget:
                return Campaign(Ending.SPENT, f"{budget} runs", fit, tuple(entries), made)
            if not made.expected:
                return Campaign(Ending.NOTHING, "none stays within the limits", fit, tuple(entries), made)
            best = made.expected[0]
            checkpoint(text=str(best.choice), steps=1.0)
            record = measure(best.choice)
            if not isinstance(record, Record):
                raise DataError(f"The experiment returned {type(record).__name__}; it must return a Record.")
            # Before it is written: a run that no fit can take would end the campaign at every further call.
            lost = [name for name in best.choice.channels if name not in record.channels]
            if lost:
                raise DataError(
                    f"The experiment returned {', '.join(record.channels)} without {', '.join(lost)}, which the run "
                    "measures."
                )
            promised = dict(zip(made.wanted.labels, (best.after / made.wanted.scale).tolist(), strict=True))
            entry = Entry(len(entries) + 1, best.choice, promised, {})
            if folder is not None:
                # The recording is written before the journal, and both before the fit.
                write_run(folder, entry, record)
            entries.append(entry)
            runs.append((record, best.choice.settings))
            if folder is not None:
                write_journal(folder, asked.fingerprint, entries)
    except KeyboardInterrupt:
        return Campaign(Ending.STOPPED, "", fit, tuple(entries), made)
    except KapitzaError as problem:
        return Campaign(Ending.FAILED, str(problem), fit, tuple(entries), made)
