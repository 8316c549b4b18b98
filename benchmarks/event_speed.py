"""Periods and fits of models with stick, impacts and clearances: processor time against a smooth oscillator and SciPy.

Work: motions from one start, alone, with tangents by the states and two parameters, and in a batch of 10,000 starts.
The limit is the arithmetic of one Taylor step per event and per radian or two; the yardstick is a period of the smooth
Duffing oscillator in unrolled code, in the same process, the jobs taking turns.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
from harness import Comparison, comparison_table, markdown_table, measure
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

import kapitza as kz
from kapitza.flow.events import EventEngine
from kapitza.flow.kernel import tape
from kapitza.flow.kernel.engine import Kernel
from kapitza.flow.kernel.library import library

Array = NDArray[np.float64]

ROUNDS = 8
PERIODS = 128
MEMBERS = 10_000
MEMBER_PERIODS = 4
MOST = {"pin joint": 1.5, "cart": 2.0, "belt": 2.0, "Coulomb pendulum": 4.0, "gap": 6.0}
"""Wanted: a period, in periods of the Duffing oscillator."""

WITH_TANGENTS = {"Coulomb pendulum": 4.0}
"""Wanted: the limit with tangents, in limits without; 2.2 for the others."""


def models() -> dict[str, kz.Model]:
    belt = kz.Model.from_equations(
        "x'' + d*x' + x + mu*sign(x' - v) = F*cos(w*t)",
        parameters={"d": 0.05, "mu": 0.4, "v": 0.5, "F": 0.3, "w": 1.3}, period="2*pi/w", name="belt",
    )  # fmt: skip
    force = "k*sign(x - y)*max(abs(x - y) - g, 0)"
    gap = kz.Model.from_equations(
        [f"x'' + c*x' + x + {force} = F*cos(w*t)", f"y'' + c*y' + 2*y - {force} + mu*sign(y') = 0"],
        parameters={"c": 0.1, "k": 10.0, "g": 0.3, "mu": 0.02, "F": 1.0, "w": 1.1}, period="2*pi/w", name="gap",
    )  # fmt: skip
    return {
        "smooth Duffing": kz.library.duffing(), "pin joint": kz.library.pin_joint(),
        "cart": kz.library.colliding_cart(), "belt": belt,
        "Coulomb pendulum": kz.library.parametric_pendulum().with_values(k1=0.0003), "gap": gap,
    }  # fmt: skip


def start_of(model: kz.Model) -> Array:
    return np.resize([0.5, 0.3, 0.1, 0.0], len(model.states))


def taking_turns(jobs: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Least processor seconds of each job."""
    best = {name: measure(work, repeats=1).seconds for name, work in jobs.items()}
    for _ in range(ROUNDS):
        for name, work in jobs.items():
            best[name] = min(best[name], measure(work, repeats=1, warm_up=False).seconds)
    return best


def alone(found: dict[str, kz.Model], tangents: bool) -> dict[str, float]:
    """Microseconds of processor a period."""
    jobs = {}
    for name, model in found.items():
        flow = kz.Flow(model, wrt=tuple(model.names[:2]) if tangents else ())
        start, end = start_of(model), PERIODS * float(flow.period() or 0.0)
        jobs[name] = lambda f=flow, x=start, t=end: f.propagate(x, 0.0, t, tangents=tangents)
    return {name: 1e6 * seconds / PERIODS for name, seconds in taking_turns(jobs).items()}


class WatchedLibrary:
    """The compiled stepper, with the processor time that each thread spends in it."""

    def __init__(self, plain: Any):
        self.plain, self.kz_travel, self.spent = plain, plain.kz_travel, Counter[int]()

    def kz_travel_many(self, *arguments: Any) -> None:
        begin = time.thread_time()
        self.plain.kz_travel_many(*arguments)
        self.spent[threading.get_ident()] += time.thread_time() - begin


def together(model: kz.Model) -> tuple[float, float, float]:
    """Microseconds a period of a batch: of processor, by the clock, and on cores that do nothing else.

    The last is the time of the longer thread in the stepper and of everything around it, which a busy machine does not
    change: threads that share the work evenly and wait for nothing take so long.
    """
    flow = kz.Flow(model)
    starts = start_of(model) + 0.05 * np.random.default_rng(1).normal(size=(MEMBERS, len(model.states)))
    end = MEMBER_PERIODS * float(flow.period() or 0.0)
    work = measure(lambda: flow.propagate_many(starts, 0.0, end))
    used = flow.core.engine(np.array(list(model.values.values())))
    assert isinstance(used, EventEngine)
    kernel, quiet = used.kernel(False), np.inf
    for _ in range(3):
        watched = WatchedLibrary(library())
        with patch.object(kernel, "library", watched):
            total = measure(lambda: flow.propagate_many(starts, 0.0, end), repeats=1, warm_up=False).seconds
        quiet = min(quiet, total - sum(watched.spent.values()) + max(watched.spent.values()))
    return tuple(1e6 * t / MEMBERS / MEMBER_PERIODS for t in (work.seconds, work.wall, quiet))  # type: ignore[return-value]


def scipy_belt(periods: int, values: dict[str, float], tolerance: float) -> Array:
    """The mass on the belt by DOP853 with terminal events, as a user would write it: slip, stick, slip."""
    d, mu, v, force, w = (values[n] for n in ("d", "mu", "v", "F", "w"))

    def pull(t: float, x: float) -> float:
        return force * np.cos(w * t) - d * v - x

    def slip(t: float, z: Array, side: float) -> list[float]:
        return [z[1], force * np.cos(w * t) - d * z[1] - z[0] - mu * side]

    def reached(t: float, z: Array, side: float) -> float:
        return side * (z[1] - v)

    def let_go(t: float, z: Array, side: float) -> float:
        return mu - abs(pull(t, z[0]))

    for event in (reached, let_go):
        event.terminal, event.direction = True, -1  # type: ignore[attr-defined]
    t, end, z = 0.0, periods * 2 * np.pi / w, np.array([0.5, 0.3])
    side = 1.0 if z[1] > v else -1.0
    while t < end:
        options = {"method": "DOP853", "rtol": tolerance, "atol": tolerance, "args": (side,)}
        if side:
            run = solve_ivp(slip, (t, end), z, events=reached, **options)
        else:
            run = solve_ivp(lambda t, z, side: [v, 0.0], (t, end), z, events=let_go, max_step=0.1, **options)
        t, z = float(run.t[-1]), run.y[:, -1]
        if t >= end:
            break
        if side and abs(pull(t, z[0])) < mu:
            z[1], side = v, 0.0
        elif side:
            side = -side
        else:
            side = float(np.sign(pull(t, z[0])))
            # A moment later the mass has left the surface on its side.
            z = z + 1e-9 * np.array(slip(t, z, side))
            t += 1e-9
    return z


def against_scipy(ours: float) -> Comparison:
    model, periods = models()["belt"], 20
    flow = kz.Flow(model)
    exact = flow.propagate([0.5, 0.3], 0.0, periods * float(flow.period() or 0.0), tangents=False).state
    work = measure(lambda: scipy_belt(periods, dict(model.values), 1e-11))
    theirs, spent = work.answer, 1e6 * work.seconds / periods
    error = float(np.abs(theirs - exact).max())
    return Comparison(
        "SciPy DOP853 with events, belt: its time over ours", f"{spent:.0f} µs", f"{spent / ours:.0f} ×", "150 ×",
        spent / ours >= 150, f"SciPy's end differs by {error:.0e} at tolerance 1e-11",
    )  # fmt: skip


def friction_record(count: int) -> tuple[kz.Model, kz.Record]:
    model = kz.Model.from_equations(
        "x'' + c*x' + k*x + f*sign(x') = F*cos(w*t)",
        parameters={"c": 0.1, "k": 1.0, "f": 0.2, "F": 1.0, "w": 1.3}, period="2*pi/w", name="dry friction",
    )  # fmt: skip
    clean = kz.simulate(model, x0=[0.5, 0.1], t=np.arange(count) * 0.05).select(["x"])
    return model.with_values(c=0.15, k=1.1, f=0.15), kz.measure(clean, noise=0.005, seed=4)


def stick_slip_record(count: int) -> tuple[kz.Model, kz.Record]:
    model = kz.Model.from_equations(
        "x'' + c*x' + k*x + f*sign(x' - v)*(1 + q*exp(-abs(x' - v))) = F*cos(w*t)",
        parameters={"c": 0.05, "k": 1.0, "f": 0.4, "q": 0.3, "v": 0.5, "F": 0.3, "w": 1.3}, period="2*pi/w",
        name="belt",
    )  # fmt: skip
    clean = kz.simulate(model, x0=[0.5, 0.1], t=np.arange(count) * 0.05).select(["x"])
    return model.with_values(c=0.07, k=1.05, f=0.35), kz.measure(clean, noise=0.005, seed=4)


def fitted(model: kz.Model, record: kz.Record) -> kz.Estimate:
    return kz.identify(model, record, ["c", "k", "f"], kz.ShootingFit(throw=False))


@contextmanager
def decided_in_python() -> Iterator[None]:
    """Let the event logic decide every event; the stepper integrates and locates only."""
    flags, made = tape.switch_flags, {}

    def own(engine: EventEngine, with_tangents: bool) -> Kernel:
        # Kernels that were made before know other flags.
        if (engine, with_tangents) not in made:
            made[engine, with_tangents] = Kernel(engine.geometry, engine.wrt if with_tangents else None, engine.observe)
        return made[engine, with_tangents]

    delicate = patch.object(tape, "switch_flags", lambda geometry: [f | tape.DELICATE for f in flags(geometry)])
    with delicate, patch.object(EventEngine, "kernel", own):
        yield


def fits() -> list[Comparison]:
    rows = []
    jobs = (("dry friction", friction_record, 11_400, 5.0), ("stick-slip", stick_slip_record, 6776, 1.5))
    for name, make, count, most in jobs:
        fitted(*make(600))
        model, record = make(count)
        work = measure(lambda model=model, record=record: fitted(model, record), repeats=1, warm_up=False)
        estimate, seconds = work.answer, work.seconds
        rows.append(
            Comparison(
                f"ShootingFit, {name}, {count} samples, 3 parameters", "", f"{seconds:.2f} s", f"{most} s",
                seconds <= most and estimate.status.ok,
            )
        )  # fmt: skip
        model, record = make(600)
        one = fitted(model, record)
        with decided_in_python():
            other = fitted(model, record)
        apart = max(abs(one.values[n] - other.values[n]) / one.deviations[n] for n in ("c", "k", "f"))
        rows.append(
            Comparison(
                "the same on 600 samples, events decided in Python: difference in standard errors", "",
                f"{apart:.0e}", "1e-6", apart <= 1e-6,
            )
        )  # fmt: skip
    return rows


def main() -> str:
    found = models()
    plain, tangent = alone(found, False), alone(found, True)
    yardstick = plain["smooth Duffing"]
    rows, table = [], []
    for name, most in MOST.items():
        ratio, limit = plain[name] / yardstick, most * WITH_TANGENTS.get(name, 2.2)
        processor, clock, quiet = together(found[name])
        times = (plain[name], tangent[name], processor, clock, quiet)
        table.append([name, *(f"{t:.1f}" for t in times)])
        share = 100 * quiet / plain[name]
        cores = f"{name}, batch of {MEMBERS} on {os.cpu_count()} cores, % of alone"
        rows.append(Comparison(cores, "", f"{share:.0f}", "60", share <= 60))
        rows.append(Comparison(f"{name}, alone", "", f"{ratio:.2f}", f"{most:g}", ratio <= most))
        ratio = tangent[name] / yardstick
        rows.append(Comparison(f"{name}, with tangents", "", f"{ratio:.2f}", f"{limit:g}", ratio <= limit))
    rows.append(against_scipy(plain["belt"]))
    batch = f"batch of {MEMBERS}, processor [µs]"
    head = ["model", "alone [µs]", "with tangents [µs]", batch, "by the clock [µs]", "on quiet cores [µs]"]
    return (
        f"A period of the smooth Duffing oscillator: {yardstick:.1f} µs. Ratios to it, and fits:\n\n"
        + comparison_table([*rows, *fits()], "SciPy")
        + f"\n\nA period, least of {ROUNDS} rounds (batch: of 3). The clock of a batch counts other programs on the "
        "cores too; on quiet cores: the processor time of the longest thread in the stepper and of all around it.\n\n"
        + markdown_table(head, table)
    )
