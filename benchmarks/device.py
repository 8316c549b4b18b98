"""Planes of trajectories on an accelerator: basins, exponents, impacts, strobing, and the same on this processor."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
from harness import markdown_table, measure, processor_time

import kapitza as kz
from kapitza.flow.device import card

GRID = int(os.environ.get("KAPITZA_DEVICE_GRID", "2000"))
"""Points per axis of the planes; fewer to try the script out."""

COLD = """
import time
begin = time.perf_counter()
import kapitza as kz
wells = kz.Model.from_equations({equation!r}, parameters={parameters!r}, period="2*pi/w", name="wells")
found = kz.basins(wells, {region!r}, grid={grid!r}, transient=30, device="cuda")
print(time.perf_counter() - begin)
import numpy as np
np.save({path!r}, found.labels.astype(np.int8))
"""
"""What a user types in a new process; imports of the benchmark itself do not count."""

WELLS, WELLS_VALUES = "x'' + c*x' - x + x**3 = F*cos(w*t)", {"c": 0.15, "F": 0.1, "w": 1.0}

REGION = {"x": (-2.0, 2.0), "x'": (-1.5, 1.5)}


def driven_wells() -> kz.Model:
    """Two wells, four attractors, basins with fractal borders: the model of `benchmarks/ensembles.py`."""
    return kz.Model.from_equations(WELLS, parameters=WELLS_VALUES, period="2*pi/w", name="wells")


def pendulum() -> kz.Model:
    return kz.Model.from_equations(
        "phi'' + c*phi' + sin(phi) = F*cos(w*t)",
        parameters={"c": 0.5, "F": 1.2, "w": 2 / 3},
        coordinates=[kz.Coordinate("phi", angle=True)],
        period="2*pi/w",
        start={"phi": 0.2, "phi'": 0.0},
        name="forced pendulum",
    )


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds on the clock, which a card and transfers need too, and the answer."""
    found = measure(work, repeats=1, warm_up=False)
    return found.wall, found.answer


class Watched:
    """The card, with the seconds that its launches and transfers take."""

    def __init__(self, backend: card.Backend):
        self.backend, self.name, self.seconds = backend, backend.name, 0.0

    def prepare(self, source: str) -> None:
        self.backend.prepare(source)

    def follow(self, source: str, work: card.Work, found: card.Found) -> None:
        self.seconds += timed(lambda: self.backend.follow(source, work, found))[0]


def timed_on_card(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Seconds in all, those of launches and transfers, and the answer."""
    plain, watched = card.cuda, Watched(card.cuda())
    card.cuda = lambda: watched  # type: ignore[assignment]
    try:
        seconds, found = timed(work)
    finally:
        card.cuda = plain
    return seconds, watched.seconds, found


def basin_rows() -> list[tuple[Any, ...]]:
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"kapitza-labels-{os.getpid()}.npy")
    script = COLD.format(equation=WELLS, parameters=WELLS_VALUES, region=REGION, grid=GRID, path=path)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=dict(os.environ))
    assert done.returncode == 0, done.stderr[-2000:]
    cold, labels = float(done.stdout), np.load(path)
    model = driven_wells()
    kz.basins(model, REGION, grid=64, transient=30, device="cuda")
    warm, inside, found = timed_on_card(lambda: kz.basins(model, REGION, grid=GRID, transient=30, device="cuda"))
    before = processor_time()
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        wall, here = timed(lambda: kz.basins(model, REGION, grid=GRID, transient=30, executor=pool))
    used = processor_time() - before
    differ = int((here.labels != labels).sum())
    target = "" if GRID < 2000 else (" (target 3)" if cold <= 3 else " (target 3: **missed**)")
    return [
        (
            f"basins {GRID}², cold start [s]",
            f"{cold:.2f}{target}",
            f"{used / 2:.1f} on two cores ({used:.0f} processor s)",
        ),
        (
            f"basins {GRID}², warm [s]",
            f"{warm:.2f}, of which on the card {inside:.2f}",
            f"{wall:.1f} on {os.cpu_count()} cores",
        ),
        (f"labels that differ, of {labels.size}", differ, f"handed back: {found.followed}"),
    ]


def exponent_rows() -> list[tuple[Any, ...]]:
    model, plane = pendulum(), {"F": (0.9, 1.5), "w": (0.5, 0.9)}
    unit = 2 * np.pi / model.values["w"]
    settings = {"plane": plane, "length": 200 * unit, "transient": 50 * unit, "blocks": 8}
    kz.exponents(model, grid=4, device="cuda", **settings)
    seconds, inside, chart = timed_on_card(lambda: kz.exponents(model, grid=GRID, device="cuda", **settings))
    before = processor_time()
    small = kz.exponents(model, grid=24, **settings)
    rate = 24 * 24 * 250 / (processor_time() - before)
    two_cores = GRID * GRID * 250 / (2 * rate)
    again = kz.exponents(model, grid=24, device="cuda", **settings)
    target = "" if GRID < 2000 else (" (target 5)" if seconds <= 5 else " (target 5: **missed**)")
    return [
        (
            f"exponents {GRID}² × 250 periods [s]", f"{seconds:.2f}{target}, of which on the card {inside:.2f}",
            f"{two_cores:.0f} on two cores, from {rate:.3g} periods per processor s: ratio {two_cores / seconds:.0f}",
        ),
        ("periods per second", f"{GRID * GRID * 250 / seconds:.3g}", f"handed back: {chart.followed}"),
        agreement("24² points", small.largest, again.largest),
    ]  # fmt: skip


def agreement(label: str, here: np.ndarray, there: np.ndarray) -> tuple[str, str, str]:
    """A row: how far largest exponents of this processor and of the card differ."""
    regular = (here < -0.02) & (there < -0.02)
    off = np.abs(here - there)[regular]
    signs = float((np.sign(here) == np.sign(there)).mean())
    shown = (
        f"{np.median(off):.2g} (99 %: {np.quantile(off, 0.99):.2g}, of {off.size})" if off.size else "none is regular"
    )
    return f"{label}: median difference where regular", shown, f"same sign at {signs:.1%} of the points"


def ueda() -> kz.Model:
    return kz.Model.from_equations(
        "x'' + c*x' + x**3 = B*cos(t)",
        parameters={"c": 0.1, "B": 9.0},
        period="2*pi",
        start={"x": 2.5, "x'": 0.0},
        name="Ueda's oscillator",
    )


def van_der_pol() -> kz.Model:
    return kz.Model.from_equations(
        "x'' + mu*(x**2 - 1)*x' + x = F*cos(w*t)",
        parameters={"mu": 2.0, "F": 1.2, "w": 1.4},
        period="2*pi/w",
        start={"x": 0.5, "x'": 0.0},
        name="driven van der Pol",
    )


HELD_OUT = (
    (ueda, {"c": (0.05, 0.4), "B": (5.0, 12.0)}),
    (van_der_pol, {"F": (0.2, 3.0), "w": (0.6, 2.4)}),
)
"""Planes kept apart: the tolerance of exponents on a card was chosen on the pendulum, Lorenz's flow and the wells."""


def held_out_rows() -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for make, plane in HELD_OUT:
        model = make()
        settings = {"plane": plane, "length": 200 * model.period, "transient": 50 * model.period, "blocks": 8}
        here, there = (kz.exponents(model, grid=24, device=device, **settings) for device in (None, "cuda"))
        rows.append(agreement(f"held out: {model.name}, 24² points", here.largest, there.largest))
    return rows


def impact_rows() -> list[tuple[Any, ...]]:
    model = kz.library.pin_joint()
    count = 1_000_000 if GRID >= 2000 else 10_000
    states = np.random.default_rng(1).uniform(-0.95, 0.95, (count, 2))
    # Neighbours take similar steps: sorted starts keep the threads of a warp together.
    states = states[np.lexsort((states[:, 1], np.round(states[:, 0], 2)))]
    flow, end = kz.Flow(model, tolerance=1e-12), 50 * model.period
    flow.propagate_many(states[:64], 0.0, end, device="cuda", throw=False)
    seconds, there = timed(lambda: flow.propagate_many(states, 0.0, end, device="cuda", throw=False))
    short = 5 * model.period
    some = states[:: count // 2000]
    near = flow.propagate_many(some, 0.0, short, device="cuda", throw=False)
    before = processor_time()
    here = flow.propagate_many(some, 0.0, short, throw=False)
    rate = len(some) * 5 / (processor_time() - before)
    off = np.abs(here.state - near.state).max(axis=1)
    return [
        (f"impacts, {count} starts × 50 periods [s]", f"{seconds:.2f}", f"handed back: {there.followed}"),
        ("periods per second, these included", f"{count * 50 / seconds:.3g}", f"{rate:.3g} per processor s"),
        ("error after 5 periods, median / 99 %", f"{np.median(off):.1g} / {np.quantile(off, 0.99):.1g}", len(some)),
    ]  # fmt: skip


def accuracy_rows() -> list[tuple[Any, ...]]:
    model, count = driven_wells(), 1 << (20 if GRID >= 2000 else 12)
    side = int(np.sqrt(count))
    axes = np.meshgrid(np.linspace(-2, 2, side), np.linspace(-1.5, 1.5, side), indexing="ij")
    states = np.stack([a.ravel() for a in axes], axis=1)
    some = slice(None, None, max(1, len(states) // 2000))
    exact = kz.Flow(model).propagate_many(states[some], 0.0, 5 * model.period).state
    rows = []
    for tolerance in (1e-9, 1e-12):
        flow = kz.Flow(model, tolerance=tolerance)
        flow.propagate_many(states[:64], 0.0, 5 * model.period, device="cuda")
        seconds, found = timed(lambda flow=flow: flow.propagate_many(states, 0.0, 5 * model.period, device="cuda"))
        off = np.abs(found.state[some] - exact).max(axis=1)
        rows.append(
            (f"{len(states)} starts × 5 periods at {tolerance:g} [s]", f"{seconds:.3f} with transfers",
             f"error {np.median(off):.1g} / {np.quantile(off, 0.99):.1g} (median / 99 %)")
        )  # fmt: skip
    strobed = kz.Flow(model, tolerance=1e-12)
    few, periods = states[:: max(1, len(states) // 10_000)][:10_000], 2000 if GRID >= 2000 else 20
    seconds, found = timed(lambda: strobed.strobe_many(few, periods, device="cuda"))
    rows.append(
        (f"{len(few)} starts × {periods} periods strobed [s]", f"{seconds:.2f}", f"handed back: {found.followed}")
    )
    return rows


def main() -> str:
    name = card.cuda().name
    head = ["work", name, "this processor"]
    table = markdown_table(head, [*basin_rows(), *exponent_rows(), *held_out_rows(), *impact_rows(), *accuracy_rows()])
    return (
        f"# On an accelerator\n\nCard: {name}. Kernels: DOP853, one thread per trajectory, double precision. "
        "Python bytecode is present. Times "
        "from call to answer, with transfers and the share of the processor. The processor is that of the machine with "
        f"the card; its seconds are processor time.\n\n{table}"
    )
