"""Costs as models grow: linked pendulums from their Lagrangian, chains of Duffing masses."""

from __future__ import annotations

import itertools
import multiprocessing
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import sympy as sp
from harness import NotMeasured, kept, markdown_table, measure, peak_memory_mb, processor_time
from scipy.integrate import solve_ivp

import kapitza as kz
from kapitza.model import rate, symbol

LINKS = (3, 4, 6, 8, 10)
JUMPING_LINKS = (3, 6, 10)
PEER_LINKS = (3, 6)
CHAINS = (5, 10, 20, 50)
SECONDS = 20.0

FIRST = {6: 4.0, 10: 8.0}
AGAIN = {6: 0.1, 10: 0.4}
"""Targets in s: the first simulation of 20 s of motion with its compilation, and the next one."""

CHAIN_TARGETS = {"HarmonicFit": (10.0, 2.0), "ShootingFit": (60.0, 4.0), "solve_orbit, first": (5.0, None)}
"""Targets for 50 masses: s and GB."""


def linked_pendulum(links: int, friction: bool = False, wall: bool = False) -> kz.Model:
    """Equal masses on equal rods, viscous joints; with dry friction at every joint, or a stop for the first rod."""
    names = [f"q{i}" for i in range(1, links + 1)]
    m, l, g, c, mu = (symbol(s) for s in ("m", "l", "g", "c", "mu"))
    across = up = height = energy = sp.Integer(0)
    for name in names:
        q, v = symbol(name), rate(name)
        across, up, height = across + l * sp.cos(q) * v, up + l * sp.sin(q) * v, height - l * sp.cos(q)
        energy += m * (across**2 + up**2) / 2 - m * g * height
    speeds = [rate(n) for n in names]
    relative = [speeds[0], *(b - a for a, b in itertools.pairwise(speeds))]
    joints = [mu * sp.sign(r) if friction else sp.Integer(0) for r in relative] + [sp.Integer(0)]
    walls = [{"surface": "sin(q1) + 0.3", "reset": {"q1'": "-0.8*q1'"}, "name": "stop"}] if wall else []
    return kz.Model.from_lagrangian(
        energy,
        names,
        angles=names,
        parameters={"m": 1.0, "l": 0.3, "g": 9.81, "c": 0.001} | ({"mu": 0.05} if friction else {}),
        dissipation=c * sum(r**2 for r in relative) / 2,
        forces={n: joints[i + 1] - joints[i] for i, n in enumerate(names)},
        impacts=walls,
        start=dict.fromkeys(names, 0.5) | {n + "'": 0.0 for n in names},
        name=f"{links} links",
    )


def duffing_chain(masses: int) -> kz.Model:
    """Masses between cubic springs, each on a soft spring to the ground; the first is driven."""
    names = [f"x{i}" for i in range(1, masses + 1)]
    equations = []
    for i, name in enumerate(names):
        left = f"({name} - {names[i - 1]})" if i else name
        right = f"({name} - {names[i + 1]})" if i + 1 < masses else "0"
        springs = " + ".join(f"k*{d} + k3*{d}**3" for d in (left, right) if d != "0")
        equations.append(f"m*{name}'' + c*{name}' + {springs} + kg*{name} = {'F*cos(w*t)' if i == 0 else '0'}")
    return kz.Model.from_equations(
        equations,
        coordinates=names,
        parameters={"m": 1.0, "c": 0.1, "k": 1.0, "k3": 0.5, "kg": 0.5, "F": 0.5, "w": 1.1},
        period="2*pi/w",
        start=dict.fromkeys(names, 0.0) | {n + "'": 0.0 for n in names},
        name=f"{masses} masses",
    )


def _fresh() -> None:
    import heyoka as hy

    hy.llvm_state.set_diskcache_enabled(False)


def simulate_links(links: int, kind: str) -> tuple[float, float, float, int]:
    """Seconds to derive, of the first simulation, of the next one; steps of the elimination."""
    _fresh()
    kz.simulate(kz.library.duffing(), x0=[0.1, 0.0], periods=1)
    times = np.linspace(0.0, SECONDS, 401)
    made = measure(lambda: linked_pendulum(links, "friction" in kind, "impact" in kind), repeats=1, warm_up=False)
    model = made.answer
    work = measure(lambda: kz.simulate(model, t=times), repeats=2)
    return made.seconds, work.first, work.seconds, len(model.structure.steps)


def peer_links(links: int) -> tuple[float, float, float]:
    """The same motion by lambdified M and h, LAPACK and SciPy's DOP853: first, again, largest difference."""
    model = linked_pendulum(links)
    structure = model.structure
    begin = processor_time()
    arguments = [symbol(s) for s in (*model.states, *model.names)]
    terms = sp.lambdify(arguments, [*structure.mass_matrix.flat(), *structure.rest], "numpy", cse=True)
    compiled = processor_time() - begin

    def rates(_: float, x: Any) -> Any:
        values = np.array(terms(*x, *model.vector))
        mass, rest = values[: links**2].reshape(links, links), values[links**2 :]
        return np.concatenate([x[links:], np.linalg.solve(mass, -rest)])

    start = model.state()
    times = np.linspace(0.0, SECONDS, 401)

    def run() -> Any:
        return solve_ivp(rates, (0.0, SECONDS), start, "DOP853", times, rtol=1e-12, atol=1e-12).y.T

    work = measure(run, repeats=2)
    found = work.answer
    ours = kz.simulate(model, t=times).values()
    return compiled + work.first, work.seconds, float(np.abs(found[:, :links] - ours[:, :links]).max())


def chain_job(masses: int, job: str) -> tuple[float, float]:
    """Seconds and peak memory in GB of one job in a process of its own."""
    _fresh()
    model = duffing_chain(masses)
    if job.startswith("solve_orbit"):
        begin = processor_time()
        kz.solve_orbit(model)
        if job.endswith("again"):
            begin = processor_time()
            kz.solve_orbit(model)
        return processor_time() - begin, peak_memory_mb() / 1e3
    record = kz.simulate(model, periods=50, samples_per_period=200, noise=1e-3, seed=1).select(model.states[:masses])
    if job == "simulate":
        begin = processor_time()
        kz.simulate(model, periods=50, samples_per_period=200)
        return processor_time() - begin, peak_memory_mb() / 1e3
    start = model.with_values(c=0.12, k=1.1, k3=0.45)
    method = kz.HarmonicFit() if job == "HarmonicFit" else kz.ShootingFit()
    begin = processor_time()
    fit = kz.identify(start, record, free=["c", "k", "k3"], method=method)
    assert all(abs(fit.values[n] - model.values[n]) < 5 * fit.deviations[n] for n in ("c", "k", "k3"))
    return processor_time() - begin, peak_memory_mb() / 1e3


def apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """The function in a process of its own: its memory and its compilations are its own.

    Answers are kept until the commit changes: a run that was interrupted goes on.
    """

    def work() -> Any:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            return pool.apply(function, arguments)

    return kept("growth", " ".join(map(str, (function.__name__, *arguments))), work)


def verdict(seconds: float, target: float | None) -> str:
    return "" if target is None else ("met" if seconds <= target else "**missed**")


def links_table() -> str:
    rows, again = [], {}
    for kind in ("smooth", "friction", "impact", "friction and impact"):
        for links in LINKS if kind == "smooth" else JUMPING_LINKS:
            try:
                derive, first, later, steps = apart(simulate_links, links, kind)
            except NotMeasured:
                rows.append((kind, links, "not run", "", "", "", ""))
                continue
            if kind == "smooth":
                again[links] = later
            judged = " ".join(filter(None, (verdict(first, FIRST.get(links)), verdict(later, AGAIN.get(links)))))
            rows.append((kind, links, f"{derive:.2f}", f"{first:.2f}", f"{later:.3f}", steps, judged))
    exponent = np.polyfit(np.log(list(again)), np.log(list(again.values())), 1)[0]
    peers = []
    for links in PEER_LINKS:
        try:
            first, later, difference = apart(peer_links, links)
        except NotMeasured:
            continue
        peers.append((links, f"{first:.1f}", f"{later:.1f}", f"{later / again[links]:.0f}", f"{difference:.1e}"))
    header = ["joints", "links", "derive [s]", "first simulate [s]", "again [s]", "steps", "targets: first, again"]
    other = ["links", "first [s]", "again [s]", "times ours", "largest difference [rad]"]
    return (
        "## Linked pendulums\n\nFrom the Lagrangian; 20 s of motion from 0.5 rad, caches of compiled code off. "
        "With friction every joint sticks and slips, with an impact the first rod strikes a stop: one event after "
        "another is located and settled.\n\n"
        + markdown_table(header, rows)
        + f"\nTime of a motion grows as N^{exponent:.1f} (target: at most N⁴).\n\n"
        + "The same motion by lambdified matrices, LAPACK and SciPy's DOP853 (1e-12):\n\n"
        + markdown_table(other, peers)
    )


def chains_table() -> str:
    rows = []
    for job in ("simulate", "solve_orbit, first", "solve_orbit, again", "HarmonicFit", "ShootingFit"):
        for masses in CHAINS if job == "ShootingFit" else (*CHAINS, 200):
            try:
                seconds, memory = apart(chain_job, masses, job)
            except NotMeasured:
                rows.append((job, masses, "not run", "", ""))
                continue
            goal = CHAIN_TARGETS.get(job, (None, None)) if masses == 50 else (None, None)
            judged = " ".join(filter(None, (verdict(seconds, goal[0]), verdict(memory, goal[1]))))
            rows.append((job, masses, f"{seconds:.2f}", f"{memory:.2f}", judged))
    header = ["job", "masses", "seconds", "peak memory [GB]", "targets: time, memory"]
    return (
        "## Chains of Duffing masses\n\nThree parameters from 10,000 samples of every mass, 1 ‰ noise; each job in a "
        "process of its own, caches of compiled code off.\n\n" + markdown_table(header, rows)
    )


def main() -> str:
    # One thread: the libraries of the processes that do the jobs read this when they start.
    for library in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(library, "1")
    return (
        "# Growth with the degrees of freedom\n\nTimes are seconds of processor time of one thread.\n\n"
        f"{links_table()}\n{chains_table()}"
    )
