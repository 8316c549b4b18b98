"""Read the section [plan] of a study.

What the next experiment may be, checked before any work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kapitza.errors import DataError, KapitzaError
from kapitza.estimate import Estimate
from kapitza.model import Model, parse_expression, with_laws
from kapitza.planning import Choice, Plan, Search, check_choices, check_limits, plan, template_of
from kapitza.study.candidates import Candidate
from kapitza.study.keys import NUMBER
from kapitza.study.prediction import drive_of
from kapitza.study.problems import Notebook

OF_RUN = ("duration", "step", "settle")


@dataclass(frozen=True)
class NextRun:
    """Hold what [plan] requests.

    Choices, limits, what is wanted, and the run that everything else is taken from.
    fields: duration, step and settle where given; measure: channels, with their noise where it is given.
    """

    vary: Mapping[str, Any]
    limits: Mapping[str, float] = field(default_factory=dict)
    measure: Mapping[str, float] | tuple[str, ...] | None = None
    want: tuple[str, ...] | None = None
    missing: tuple[str, ...] = ()
    aim: float | None = None
    criterion: Any = "mean log"
    fields: Mapping[str, float] = field(default_factory=dict)
    settings: Mapping[str, float] = field(default_factory=dict)
    start: Mapping[str, float] = field(default_factory=dict)
    drives: Mapping[str, Any] = field(default_factory=dict)
    points: int = Search().points

    def plan(self, fit: Estimate) -> Plan:
        """Rank the experiments by their expected information.

        What they would add to a fit.
        """
        return plan(
            fit,
            self.vary,
            self.measure,
            self.want,
            self.limits,
            self.run(fit),
            self.missing,
            self.aim,
            self.criterion,
            Search(points=self.points),
            self.drives or None,
        )

    def run(self, fit: Estimate) -> Choice:
        """Return the fit's run with the section's changes."""
        if fit.motion is None and not {"duration", "step"} <= set(self.fields):
            raise DataError(
                f"A fit by {fit.method} holds no run to take the length and sampling from: give duration and step in "
                "[plan]."
            )
        run = template_of(fit) if fit.motion is not None else Choice(channels=dict(fit.noise))
        return replace(run, settings={**run.settings, **self.settings}, start=dict(self.start), **dict(self.fields))


def read_plan(
    table: Mapping[str, Any], candidates: Sequence[Candidate], folder: Path, notes: Notebook
) -> NextRun | None:
    """Read the section [plan].

    None where there is none; problems are noted with their line.
    """
    if not table:
        return None
    if not table.get("vary"):
        notes.add(("plan",), "nothing may vary: name what can be chosen, vary = {F = [0.02, 0.5]}.")
        return None
    vary = {name: _axis(name, given, notes) for name, given in table["vary"].items()}
    asked = NextRun(
        vary={name: given for name, given in vary.items() if given is not None},
        limits={name: float(value) for name, value in table.get("limits", {}).items()},
        measure=_measured(table.get("measure")),
        want=tuple(table["want"]) if "want" in table else None,
        missing=tuple(table.get("missing", ())),
        aim=table.get("aim"),
        criterion=table.get("criterion", "mean log"),
        fields={name: float(table[name]) for name in OF_RUN if name in table},
        settings=dict(table.get("settings", {})),
        start=dict(table.get("start", {})),
        drives=_drives(table.get("drives", {}), candidates, folder, notes),
        points=int(table.get("points", Search().points)),
    )
    for key in (*OF_RUN, "aim", "points"):
        least = 0 if key == "settle" else None
        if key in table and not (table[key] > 0 or table[key] == least):
            notes.add(("plan", key), f"{table[key]} must be above 0.")
    for candidate in candidates:
        _check(asked, candidate, notes)
    return asked


def _axis(name: str, given: Any, notes: Notebook) -> Any:
    """Return a range as tuple, options as list.

    None where it is neither.
    """
    if isinstance(given, list) and len(given) == 2 and all(map(NUMBER.accepts, given)):
        return (float(given[0]), float(given[1]))
    if isinstance(given, list) and given and not any(map(NUMBER.accepts, given)):
        return given
    if isinstance(given, dict) and set(given) == {"values"} and isinstance(given["values"], list) and given["values"]:
        return given["values"]
    notes.add(
        ("plan", "vary", name),
        f"{given!r} is neither a range, [low, high], nor options, {{values = [0.1, 0.2, 0.4]}} or a list of names.",
    )
    return None


def _measured(given: Any) -> dict[str, float] | tuple[str, ...] | None:
    if given is None:
        return None
    return {n: float(v) for n, v in given.items()} if isinstance(given, dict) else tuple(given)


def _drives(
    given: Mapping[str, str], candidates: Sequence[Candidate], folder: Path, notes: Notebook
) -> dict[str, dict[str, Any]]:
    """Return drives by label.

    Each comes from a file beside the study or a formula of t.
    """
    found: dict[str, dict[str, Any]] = {}
    signals = candidates[0].model.signals if candidates else ()
    for label, text in given.items():
        if len(signals) != 1:
            notes.add(("plan", "drives", label), f"drives replace one measured drive; the model has {len(signals)}.")
            continue
        place = folder / text
        try:
            found[label] = {
                signals[0].name: drive_of(signals[0].name, str(place) if place.is_file() else text, signals[0].unit)
            }
        except KapitzaError as error:
            notes.add(("plan", "drives", label), error)
    return found


def _check(asked: NextRun, candidate: Candidate, notes: Notebook) -> None:
    """Check every name of the section against one candidate."""
    model = candidate.model
    _check_names(asked, model, notes)
    for name, given in asked.vary.items():
        # Sweeps take the setting from the other choices: these are checked together below.
        alone = {name: given} if name != "approach" else dict(asked.vary)
        try:
            check_choices(model, _template(asked, model), alone, candidate.free, tuple(asked.drives))
        except KapitzaError as error:
            notes.add(("plan", "vary", name), error)
    for text, bound in asked.limits.items():
        try:
            check_limits(model, {text: bound})
        except KapitzaError as error:
            notes.add(("plan", "limits", text), error)
    for text in asked.want or ():
        try:
            parse_expression(text, model.names)
        except KapitzaError as error:
            notes.add(("plan", "want"), error)
    try:
        if asked.missing:
            with_laws(model, list(asked.missing))
    except KapitzaError as error:
        notes.add(("plan", "missing"), error)


def _check_names(asked: NextRun, model: Model, notes: Notebook) -> None:
    for name in asked.settings:
        try:
            model.check(name)
        except KapitzaError as error:
            notes.add(("plan", "settings", name), error)
    try:
        model.state(dict(asked.start))
    except KapitzaError as error:
        notes.add(("plan", "start"), error)


def _template(asked: NextRun, model: Model) -> Choice:
    """Return a run with every channel.

    It has every one that may be measured; choices are checked against it.
    """
    names = tuple(asked.measure or (*model.states, *model.outputs))
    fields = {name: value for name, value in asked.fields.items() if value > 0}
    step = fields.get("step", 0.1)
    duration = max(fields.get("duration", 1.0), step)
    return Choice(duration=duration, step=step, channels=dict.fromkeys(names, 1.0), settle=fields.get("settle", 0.0))
