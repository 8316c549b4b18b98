"""Strobing the crank pendulum of ORBITS: Kapitza, SciPy DOP853, JiTCODE and diffrax at equal measured accuracy.

Work: strobed periods of the chaotic pendulum, one core. The limit is arithmetic: some twenty Taylor steps of order 16
per period with one sine of the angle, two of the phase and a square root each; nothing is gained by more memory or
cores, as each period needs the one before.

Accuracy is measured, not set: every program strobes one period from 256 states on the attractor, the error is the
median distance from the same periods in extended precision (80-bit, tolerance 1e-18), and the tolerance of each peer
is the loosest of a ladder whose error is not larger than ours. Time is per period.
"""

from __future__ import annotations

import contextlib
import logging
import subprocess
import sys
import tempfile
from collections.abc import Callable

import numpy as np
from harness import Contender, markdown_table, measure, ratio_table
from numpy.typing import NDArray

from kapitza import Flow, library

Array = NDArray[np.float64]
Strobe = Callable[[Array, int, float], Array]
"""(state, periods, tolerance) -> states at the end of each period, (periods, 2), angles wrapped by the program."""

TOLERANCE = 1e-12
PERIODS = 2**20
TIMED = 2**15
REPEATS = 3
"""Each program is timed as the best of a few runs of about a second; the full work follows in a process of its own."""

MODEL = library.parametric_pendulum()
VALUES = MODEL.values
PERIOD = float(MODEL.period or 0.0)
LADDER = (1e-11, 1e-12, 1e-13, 3e-14)


def wrap(states: Array) -> Array:
    states[..., 0] = (states[..., 0] + np.pi) % (2 * np.pi) - np.pi
    return states


def acceleration(phi, rate, phase, sin, cos, absolute):
    """φ'' of the pendulum, written by hand as a user of each peer would; k1 = 0."""
    v = VALUES
    s = sin(phase)
    e = v["epsilon"]
    shape = cos(phase) + e * (cos(2 * phase) + e**2 * s**4) / (1 - e**2 * s**2) ** 1.5
    drag = (v["k2"] * rate + v["k3"] * rate * absolute(rate)) / (v["m"] * v["l"] ** 2)
    return -drag - (v["g"] / v["l"] - v["A"] * v["omega"] ** 2 / v["l"] * shape) * sin(phi)


def kapitza_strobe() -> Strobe:
    return lambda x, periods, tolerance: Flow(MODEL, tolerance=tolerance).strobe(x, periods).states[1:]


def scipy_strobe() -> Strobe:
    from math import cos, sin

    from scipy.integrate import solve_ivp

    omega = VALUES["omega"]

    def rates(t, y):
        return (y[1], acceleration(y[0], y[1], omega * t, sin, cos, abs))

    def strobe(x: Array, periods: int, tolerance: float) -> Array:
        result = np.empty((periods, 2))
        for i in range(periods):
            x = wrap(solve_ivp(rates, (0.0, PERIOD), x, "DOP853", rtol=tolerance, atol=tolerance).y[:, -1])
            result[i] = x
        return result

    return strobe


def jitcode_strobe() -> Strobe:
    import symengine
    from jitcode import jitcode, y
    from jitcode import t as time_symbol

    phase = VALUES["omega"] * time_symbol
    equations = [y(1), acceleration(y(0), y(1), phase, symengine.sin, symengine.cos, symengine.Abs)]
    solver = jitcode(equations, verbose=False)
    # Its build reads the pyproject.toml of the working directory, and its log settings make others talk.
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        solver.compile_C()
    logging.disable(logging.WARNING)

    def strobe(x: Array, periods: int, tolerance: float) -> Array:
        solver.set_integrator("dop853", rtol=tolerance, atol=tolerance, nsteps=100_000)
        result = np.empty((periods, 2))
        for i in range(periods):
            solver.set_initial_value(x, 0.0)
            x = wrap(np.array(solver.integrate(PERIOD)))
            result[i] = x
        return result

    return strobe


def diffrax_strobe() -> Strobe:
    import jax

    jax.config.update("jax_enable_x64", True)
    import diffrax
    import jax.numpy as jnp

    omega = VALUES["omega"]

    def rates(t, y, args):
        return jnp.stack([y[1], acceleration(y[0], y[1], omega * t, jnp.sin, jnp.cos, jnp.abs)])

    term, solver = diffrax.ODETerm(rates), diffrax.Dopri8()

    def run(x, periods, tolerance):
        control = diffrax.PIDController(rtol=tolerance, atol=tolerance)

        def one_period(y, _):
            settings = {"stepsize_controller": control, "max_steps": None, "saveat": diffrax.SaveAt(t1=True)}
            end = diffrax.diffeqsolve(term, solver, 0.0, PERIOD, 0.02, y, **settings).ys[0]
            end = end.at[0].set((end[0] + jnp.pi) % (2 * jnp.pi) - jnp.pi)
            return end, end

        return jax.lax.scan(one_period, x, length=periods)[1]

    compiled = jax.jit(run, static_argnums=1)
    return lambda x, periods, tolerance: np.asarray(compiled(jnp.asarray(x), periods, tolerance))


def reference(states: Array) -> Array:
    """One period from each state in 80-bit precision."""
    import heyoka as hy

    from kapitza.flow.compiled import equations
    from kapitza.flow.system import system_of

    system = system_of(MODEL, frozenset({"k1"}))
    number = np.longdouble
    mode_row = len(system.parameters)

    class Flip:
        def __call__(self, integrator, sign):
            integrator.pars[mode_row] = number(sign)
            return True

    rate = hy.expression(system.states[1].name)
    flips = [hy.t_event(rate, callback=Flip(), fp_type=number)]
    zero = [number(0)] * 2
    integrator = hy.taylor_adaptive(equations(system), zero, fp_type=number, tol=number(1e-18), t_events=flips)
    ends = np.empty_like(states)
    for i, state in enumerate(states):
        integrator.time = number(0)
        integrator.state[:] = state.astype(number)
        integrator.pars[:mode_row] = MODEL.vector.astype(number)
        integrator.pars[mode_row] = number(1 if state[1] >= 0 else -1)
        integrator.propagate_until(number(PERIOD))
        ends[i] = integrator.state.astype(float)
    return wrap(ends)


def measured_error(strobe: Strobe, tolerance: float, starts: Array, truth: Array) -> float:
    ends = np.array([strobe(x, 1, tolerance)[-1] for x in starts])
    gap = ends - truth
    gap[:, 0] = (gap[:, 0] + np.pi) % (2 * np.pi) - np.pi
    return float(np.median(np.linalg.norm(gap, axis=1)))


def peer(name: str, strobe: Strobe, ours: float, starts: Array, truth: Array, periods: int, target: float) -> Contender:
    """The loosest tolerance that is as accurate as we are, timed."""
    tolerance, error = LADDER[0], float("inf")
    for tolerance in LADDER:
        error = measured_error(strobe, tolerance, starts[:64], truth[:64])
        if error <= ours:
            break
    seconds = measure(lambda: strobe(starts[0], periods, tolerance), REPEATS).seconds
    note = f"tolerance {tolerance:g}, {periods} periods"
    return Contender(name, 1e6 * seconds / periods, error, target, note)


FRESH = """
import resource, sys, time
import heyoka
heyoka.llvm_state.set_diskcache_enabled(False)
from kapitza import Flow, library
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
flow = Flow(library.parametric_pendulum(), tolerance=1e-12)
begin = time.process_time()
flow.strobe([0.5, 1.0], 1)
first = time.process_time() - begin
begin = time.process_time()
strobe = flow.strobe([0.5, 1.0], int(sys.argv[1]))
seconds = time.process_time() - begin
print(first, seconds, before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, abs(strobe.states[:, 1]).max())
"""


def fresh_process(periods: int) -> tuple[float, float, float, float, float]:
    """In a new process, disk cache off: seconds to compile, seconds to strobe, MB before and at most, largest |φ'|."""
    done = subprocess.run([sys.executable, "-c", FRESH, str(periods)], capture_output=True, text=True, check=True)
    compiling, strobing, before, most, fastest = (float(word) for word in done.stdout.split())
    return compiling, strobing, before * 1024 / 1e6, most * 1024 / 1e6, fastest


def main() -> str:
    ours = kapitza_strobe()
    starts = ours(np.array([0.5, 1.0]), 1000 + 256, TOLERANCE)[1000:]
    truth = reference(starts)
    error = measured_error(ours, TOLERANCE, starts, truth)
    compiling, strobing, before, most, fastest = fresh_process(PERIODS)
    seconds = measure(lambda: ours(starts[0], TIMED, TOLERANCE), REPEATS).seconds
    note = f"tolerance {TOLERANCE:g}, {TIMED} periods"
    kapitza = Contender("Kapitza", 1e6 * seconds / TIMED, error, note=note)
    peers = [
        peer("SciPy DOP853", scipy_strobe(), error, starts, truth, 64, 100.0),
        peer("JiTCODE dop853", jitcode_strobe(), error, starts, truth, 1024, 10.0),
        peer("diffrax Dopri8", diffrax_strobe(), error, starts, truth, 8192, 4.0),
    ]
    verdict = "met" if most < 300 else "**missed**"
    facts = [
        ("2^20 strobed periods", f"{strobing:.1f} s", ""),
        ("compilation, disk cache off", f"{compiling:.2f} s", ""),
        ("memory, peak of the process", f"{most:.0f} MB", f"< 300 MB: {verdict}"),
        ("memory, of this after the imports", f"{before:.0f} MB", ""),
        ("largest speed on the attractor", f"{fastest:.2f} rad/s", "14.64 rad/s by an independent code"),
    ]
    further = markdown_table(["what", "measured", "expected"], facts)
    return "\n\n".join([ratio_table(kapitza, peers, "µs per period"), further])


if __name__ == "__main__":
    print(main())
