"""Census of autonomous models.

Close returns to a section are joined into cycles and corrected.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import sympy as sp

from kapitza.base.arrays import Array
from kapitza.base.monitor import Monitor, watch
from kapitza.base.workers import Executor, Shared, in_order
from kapitza.errors import FlowError, KapitzaError, Status
from kapitza.flow import Flow
from kapitza.model import Model, compile_expressions, parse_expression, symbol
from kapitza.orbits import OrbitSet, PeriodicOrbit
from kapitza.orbits.of_models.codes import canonical, spelled
from kapitza.orbits.of_models.loop import FlowLoop
from kapitza.orbits.of_models.problem import Problem
from kapitza.orbits.of_models.shooting import MultipleShooting
from kapitza.orbits.of_models.solve_orbit import solve_orbit


@dataclass(frozen=True)
class SectionReport:
    """Report of a census on a section.

    The section used, the crossings recorded, and how many returns were tried for each number of crossings.
    """

    section: str
    crossings: int
    tried: dict[int, int]
    seed: int


@dataclass(frozen=True)
class _Record:
    """Crossings of a long trajectory.

    times (N,), states (N, n), letters (N,).
    """

    times: Array
    states: Array
    letters: str


def autonomous_census(
    model: Model,
    max_period: int,
    min_period: int,
    section: str | None,
    starts: int,
    seed: int,
    executor: Executor | None,
    monitor: Monitor | None,
) -> OrbitSet:
    """Find orbits by their number of section crossings.

    A long trajectory is cut at its crossings. For every number p of crossings its stretches are grouped by their word
    (where the model has a partition) and the ones that return closest are corrected by multiple shooting with a
    node at every crossing; the orbit's own word is read off its crossings, and orbits with equal period and word are
    one.
    """
    surface: sp.Expr | None = None
    found: list[PeriodicOrbit] = []
    tried: dict[int, int] = {}
    crossings = 0
    with watch(monitor, f"orbits of {model.name}") as task:
        surface = _surface(model, section, seed)
        record = _long_record(model, surface, starts, seed)
        crossings = record.times.size
        shared = Shared((model, surface, record))
        jobs = [
            (shared, count, word, places)
            for count in range(min_period, max_period + 1)
            for word, places in sorted(_stretches(record, count).items())
            if not _repeats(word)
        ]
        for number, (job, (orbits, attempts)) in enumerate(zip(jobs, in_order(executor, _search, jobs), strict=True)):
            for orbit in orbits:
                _keep(orbit, found)
            tried[job[1]] = tried.get(job[1], 0) + attempts
            task.reach(number + 1, f"{job[1]} crossings: {len(found)} orbits in all", len(jobs))
    # Symmetric partners have one period up to rounding; their words decide.
    found.sort(key=lambda orbit: (float(f"{orbit.period:.9e}"), orbit.code))
    words = ", ".join(o.code for o in found if o.code)
    message = f"{len(found)} orbits: {words}" if words else ""
    return OrbitSet(
        tuple(found), model.angles, (), ("Interrupted. " if task.interrupted else "") + message,
        SectionReport("" if surface is None else str(surface), crossings, tried, seed), status=task.status,
    )  # fmt: skip


def _surface(model: Model, section: str | None, seed: int) -> sp.Expr:
    if section is not None:
        return parse_expression(section, (*model.states, *model.names))
    path = _settled(model, seed)
    name = model.states[-1]
    return symbol(name) - sp.Float(float(path[:, -1].mean()))


def _settled(model: Model, seed: int) -> Array:
    """Return samples of a settled trajectory.

    The trajectory begins at the model's start; its first half is dropped.
    """
    rng = np.random.default_rng(seed)
    start = np.array([float(model.start.get(name, 0.0)) for name in model.states])
    start = start + 0.1 * rng.normal(size=start.size) * np.maximum(np.abs(start), 0.1)
    path = Flow(model).trajectory(start, np.linspace(0.0, 200.0, 4001))
    if np.ptp(path[2000:], axis=0).max() < 1e-6 * (1 + np.abs(path).max()):
        raise KapitzaError(f'"{model.name}" comes to rest from its start: no recurrent motion to search.')
    return path[2000:]


def _long_record(model: Model, surface: sp.Expr, starts: int, seed: int) -> _Record:
    flow = Flow(model)
    start = _settled(model, seed)[-1]
    cut = flow.section(start, surface, max(starts, 64), direction=1)
    letters = ""
    if model.partition and model.letters:
        letters = spelled(model, np.asarray(cut.states))
    return _Record(np.asarray(cut.times), np.asarray(cut.states), letters)


def _stretches(record: _Record, count: int) -> dict[str, list[int]]:
    """Return starts of stretches by their word.

    Stretches of `count` crossings; those that return closest come first.
    """
    scale = np.maximum(np.ptp(record.states, axis=0), 1e-9)
    gaps = np.linalg.norm((record.states[count:] - record.states[:-count]) / scale, axis=1)
    by_word: dict[str, list[int]] = {}
    for i in np.argsort(gaps, kind="stable"):
        word = canonical(record.letters[i : i + count]) if record.letters else ""
        group = by_word.setdefault(word, [])
        # Without letters all stretches of one length share a group, which then needs more candidates.
        if len(group) < (12 if record.letters else 60):
            group.append(int(i))
    return by_word


def _search(
    shared: Shared[tuple[Model, sp.Expr, _Record]], count: int, word: str, places: list[int]
) -> tuple[list[PeriodicOrbit], int]:
    """Search orbits from the stretches of one word.

    The search ends at the first orbit that has this word itself; the number tried is returned too.
    """
    model, surface, record = shared.value
    found: list[PeriodicOrbit] = []
    for tried, i in enumerate(places, 1):
        orbit = _correct(model, record.states[i : i + count], record.times[i : i + count + 1])
        if orbit is None:
            continue
        own = _own_word(model, surface, orbit)
        found.append(orbit.with_(code=own))
        if word and own == word:
            return found, tried
    return found, len(places)


def _own_word(model: Model, surface: sp.Expr, orbit: PeriodicOrbit) -> str:
    """Return the word of an orbit.

    It holds its letters where it rises through the section, and is empty without a partition.
    """
    loop = orbit.loop
    assert loop is not None
    # The order of crossings is read from samples; their exact instants are not needed.
    fractions = np.linspace(0.0, 1.0, 4001)
    states = loop(fractions)
    height = compile_expressions([surface], model.states, model.names)(np.ascontiguousarray(states.T), model.vector)[0]
    rises = np.flatnonzero((height[:-1] < 0) & (height[1:] >= 0))
    return canonical(spelled(model, states[rises])) if model.partition and model.letters and rises.size else ""


def _repeats(word: str) -> bool:
    """Test whether a word repeats a shorter one.

    Its orbits were found before.
    """
    return any(len(word) % k == 0 and word == word[:k] * (len(word) // k) for k in range(1, len(word)))


def _correct(model: Model, states: Array, times: Array) -> PeriodicOrbit | None:
    period = float(times[-1] - times[0])
    problem = Problem(model, None, period)
    winding = np.zeros(states.shape[1])
    loop = FlowLoop(problem.flow, (times[:-1] - times[0]) / period, states, period, problem.parameters, winding)
    try:
        orbit = solve_orbit(model, loop, period, MultipleShooting(), throw=False)
    except FlowError:
        return None
    # A period far from that of the stretch belongs to another orbit.
    near = abs(orbit.period - period) < 0.2 * period
    return orbit if orbit.status is Status.CONVERGED and near else None


def _keep(orbit: PeriodicOrbit, found: list[PeriodicOrbit]) -> None:
    """Add an orbit unless it is known.

    An orbit is known where period, word and extent agree.
    """

    def extent(o: PeriodicOrbit) -> Array:
        assert o.profile is not None
        return np.concatenate([o.profile.states.min(axis=0), o.profile.states.max(axis=0)])

    for known in found:
        same_time = abs(known.period - orbit.period) < 1e-8 * orbit.period
        if same_time and known.code == orbit.code:
            mine, other = extent(orbit), extent(known)
            if orbit.code or np.abs(mine - other).max() < 1e-2 * np.abs(mine).max():
                return
    found.append(orbit)
