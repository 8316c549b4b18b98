"""Orbits of the fitted model without a measured counterpart.

And the reasons why the data do not show them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kapitza.base.angles import difference, wrap_states
from kapitza.base.argument_checks import Anything
from kapitza.base.arrays import Array
from kapitza.data import Record
from kapitza.errors import KapitzaError
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.orbit_fit.result import OrbitWorkings
from kapitza.estimate.orbit_fit.task import OrbitTask
from kapitza.estimate.result import workings_of
from kapitza.flow import Flow
from kapitza.model import Model
from kapitza.orbits import OrbitSet, PeriodicOrbit, distance
from kapitza.orbits.in_records import Section, count_visits, strobe_record
from kapitza.orbits.of_models import find_orbits_of_model

if TYPE_CHECKING:
    import pandas as pd

SAME = 0.02
"""Orbits closer than this share of the spread are the same; windows of find_orbits are as wide."""


def missing_orbits(
    estimate: Estimate, max_period: int | None = None, *, starts: int = 512, rounds: int = 4, **census: Anything
) -> pd.DataFrame:
    """Compare orbits of the fitted model with the data.

    All up to a period: which are missing in the data, and why.

    Parameters
    ----------
    estimate : Estimate
        Made by `OrbitFit`, of one excitation.
    max_period : int, optional
        Excitation periods of the longest orbit looked for, by default of the longest in the data.
    starts, rounds, **census
        Settings of the census ``find_orbits(model, ...)``, among them monitor and executor.

    Returns
    -------
    pandas.DataFrame
        Points are at the phase of the data's section. Columns: period, code, first point, |μ| (the largest), found
        ("matched", "set aside" or "missing"), nearest (how near the record comes to the point it visits least, as a
        share of the attractor), visits (passes along the whole orbit), why. A missing orbit is either not visited,
        which the expected number of passes N / |μ| explains, or visited and refused or overlooked by the search.

    Examples
    --------
    >>> import numpy as np, kapitza as kz
    >>> model = kz.library.duffing()
    >>> orbit = kz.solve_orbit(model, [-0.2, 0.1], profile=False).with_(covariance=1e-6 * np.eye(2))
    >>> table = kz.missing_orbits(kz.identify(model, [orbit], free=["k"]), starts=32, rounds=1)
    >>> "matched" in set(table["found"])
    True
    """
    import pandas as pd

    workings = workings_of(estimate, OrbitWorkings)
    task, outcome = workings.task, workings.outcome
    if estimate.model.period is None:
        raise KapitzaError("The census of missing orbits needs a forced model: its orbits have points once per period.")
    if task.request.own:
        raise KapitzaError(
            f"The census is of one excitation; these data have their own {', '.join(sorted(task.request.own))}: fit "
            "the orbits of one excitation alone."
        )
    counts = [t.repeats for t in task.problem.targets if t.repeats]
    longest = max_period or max(counts, default=1)
    model = find_orbits_of_model(estimate.model, longest, starts=starts, rounds=rounds, details=False, **census)
    matched = list(estimate.matches.orbits if estimate.matches is not None else ())
    # Orbits of the census and of the data must be compared at the same instant.
    phase = _common_phase(matched, estimate.model.period)
    aside = [task.problem.targets[i].source for i in outcome.reasons]
    sources = [part.source for part in task.request.parts]
    data = sources[0] if len(sources) == 1 and isinstance(sources[0], OrbitSet) else None
    section = _section(data, task, phase)
    rows = [_row(_carried(orbit, estimate.model, phase), task, matched, aside, data, section) for orbit in model]
    table = pd.DataFrame(rows)
    order = {"missing": 0, "set aside": 1, "matched": 2}
    return table.sort_values(["found", "period"], key=lambda c: c.map(order) if c.name == "found" else c,
                             ignore_index=True)  # fmt: skip


def _common_phase(orbits: list[PeriodicOrbit], period: float) -> float:
    """Return the common section phase of all orbits [s].

    The instant within the excitation period at which they have their points.
    """
    phases = np.array([orbit.section_phase or 0.0 for orbit in orbits] or [0.0])
    if np.abs((phases - phases[0] + period / 2) % period - period / 2).max() > 1e-6 * period:
        raise KapitzaError("The orbits are on sections at different phases: fit those of one section alone.")
    return float(phases[0] % period)


def _carried(orbit: PeriodicOrbit, model: Model, phase: float) -> PeriodicOrbit:
    """Return an orbit of the census at another phase.

    The census has its points at the start of the period.
    """
    if phase == 0:
        return orbit
    begin = float(model.period or 0.0) * np.arange(len(orbit.points))
    points = Flow(model).propagate_many(orbit.points, begin, begin + phase).state
    return orbit.with_(points=wrap_states(points, model.angles), section_phase=phase)


def _section(data: OrbitSet | None, task: OrbitTask, phase: float) -> Section | None:
    """Return the strobed record behind the orbits.

    None where it is not available or does not contain all states.
    """
    record = None if data is None else data.source
    if not isinstance(record, Record) or record.period is None or not set(task.model.states) <= set(record.channels):
        return None
    # The section is used for distances only, not for errors.
    quiet = np.zeros(len(task.model.states))
    return strobe_record(record, list(task.model.states), phase=phase / record.period, noise=quiet)


def _row(
    orbit: PeriodicOrbit, task: OrbitTask, matched: list[PeriodicOrbit], aside: list[Any], data: OrbitSet | None,
    section: Section | None,
) -> dict[str, Any]:  # fmt: skip
    largest = float(np.abs(orbit.multipliers).max()) if orbit.multipliers is not None else float("nan")
    row: dict[str, Any] = {
        "period": len(orbit.points), "code": orbit.code,
        "first point": ", ".join(f"{v:.4g}" for v in orbit.points[0]), "|μ|": largest,
    }  # fmt: skip
    angles, scale = task.model.angles, task.problem.scale
    if any(distance(orbit, other, angles, scale) < SAME for other in matched):
        return row | {"found": "matched", "why": ""}
    near = [o for o in aside if isinstance(o, PeriodicOrbit) and o.states == orbit.states]
    if any(distance(orbit, other, angles, scale) < SAME for other in near):
        return row | {"found": "set aside", "why": "in the data, but not matched by the fit"}
    row["found"] = "missing"
    if section is None:
        return row | {"why": "not known: the record behind the orbits is not available"}
    points = section.canonical(orbit.points / section.scale)
    gaps = section.nearest(points, 1)[0]
    visits, _ = count_visits(section, points, SAME)
    row |= {"nearest": float(np.max(gaps)), "visits": visits}
    return row | {"why": _reason(orbit, row, largest, len(section.starts), data, angles, scale)}


def _reason(
    orbit: PeriodicOrbit, row: dict[str, Any], largest: float, size: int, data: OrbitSet | None,
    angles: tuple[bool, ...], scale: Array,
) -> str:  # fmt: skip
    if row["nearest"] > SAME:
        return f"not visited: the record stays {100 * row['nearest']:.2g} % of the attractor away from a point of it"
    refused = [
        reason
        for other, reason in (data.rejected if data is not None else ())
        if other.points.shape == orbit.points.shape and _close(other, orbit, angles, scale)
    ]
    if refused:
        return f"visited {row['visits']} times, found and refused: {refused[0]}"
    if not row["visits"]:
        return (
            f"not visited: the record comes near each point but never follows it for a whole period (it multiplies "
            f"errors by {largest:.3g}; of {size} points about {size * SAME**2 / largest:.2g} would stay)"
        )
    return f"visited {row['visits']} times, but too few neighbours agree on its place"


def _close(first: PeriodicOrbit, second: PeriodicOrbit, angles: tuple[bool, ...], scale: Array) -> bool:
    shifts = [
        np.abs(difference(np.roll(second.points, k, axis=0), first.points, angles) / scale).max()
        for k in range(len(first.points))
    ]
    return min(shifts) < 2 * SAME
