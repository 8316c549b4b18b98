"""Plain Python: NumPy and SciPy, or CasADi."""

from __future__ import annotations

from importlib.resources import files

import sympy as sp

from kapitza.exports.names import comment, headline
from kapitza.exports.printing import Language
from kapitza.exports.program import Body, Program
from kapitza.exports.tables import merged_knots

MARK = "# --- driver: from here on the text is written into exported files ---\n"

PYTHON = Language(
    lambda kind, i: "t" if kind == "t" else f"{kind}[{i}]",
    power="({0})**({1})",
    choice="({1} if {0} else {2})",
    absolute="abs({0})",
    sign="np.sign({0})",
    root="sqrt({0})",
    both="and",
    either="or",
    negation="not ({0})",
    define="{0} = {1}",
)

CASADI = Language(
    lambda kind, i: "t" if kind == "t" else f"{kind}[{i}]",
    power="({0})**({1})",
    choice="ca.if_else({0}, {1}, {2})",
    absolute="ca.fabs({0})",
    sign="ca.sign({0})",
    root="ca.sqrt({0})",
    both="&",
    either="|",
    negation="ca.logic_not({0})",
    define="{0} = {1}",
    functions={f: f"ca.{f.__name__}" for f in (
        sp.sin, sp.cos, sp.tan, sp.asin, sp.acos, sp.atan, sp.atan2, sp.sinh, sp.cosh, sp.tanh, sp.asinh, sp.acosh,
        sp.atanh, sp.exp, sp.log, sp.erf)},
)  # fmt: skip


def scipy_file(program: Program) -> str:
    """Return a Python file for NumPy and SciPy."""
    driver = files("kapitza.exports").joinpath("driver.py").read_text(encoding="utf-8").split(MARK)[1]
    parts = [
        _header(program, "numpy and scipy"),
        "from __future__ import annotations\n",
        "from collections.abc import Callable",
        "from math import (acos, acosh, asin, asinh, atan, atan2, atanh, cos, cosh, erf, exp, log, sin, sinh, sqrt,",
        "                  tan, tanh)",
        "from typing import Any, NamedTuple\n",
        "import numpy as np",
        "from scipy.integrate import DOP853",
        "from scipy.optimize import brentq\n",
        _constants(program),
        _function("rates", "t, x, u, p, m", program.rates, PYTHON, "Rates of the states."),
        _function(
            "surfaces", "t, x, u, du, p, m, d", program.surfaces, PYTHON, "Switching functions, rates, walls, rates."
        ),
        _resets(program),
        _function("outputs", "t, x, u, p, d", program.output_values, PYTHON, "Outputs in the order of OUTPUTS."),
        DRIVES,
        driver,
        SIMULATE,
    ]
    return "\n".join(parts)


def casadi_file(program: Program) -> str:
    """Return a Python file with CasADi functions.

    The functions are the rates, surfaces, resets and outputs.
    """
    counts = (program.states, program.parameters, program.tables, program.switches)
    sizes = f"X, P, U, M = {', '.join(str(len(c)) for c in counts)}"
    resets = ", ".join(f"_reset_{j}" for j in range(len(program.resets)))
    parts = [
        _header(program, "casadi and numpy"),
        "import casadi as ca",
        "import numpy as np\n",
        _constants(program),
        f"{sizes}\n",
        _function("_rates", "t, x, u, p, m", program.rates, CASADI, "Rates of the states.", "ca.vertcat"),
        _function(
            "_surfaces",
            "t, x, u, du, p, m, d",
            program.surfaces,
            CASADI,
            "Switches, rates, walls, rates.",
            "ca.vertcat",
        ),
        *(
            _function(f"_reset_{j}", "t, x, u, p, m", r, CASADI, "The state after an impact.", "ca.vertcat")
            for j, r in enumerate(program.resets)
        ),
        _function("_outputs", "t, x, u, p, d", program.output_values, CASADI, "Outputs.", "ca.vertcat"),
        DRIVES,
        CASADI_FUNCTIONS,
        f"RESETS = [_wrapped(f'reset_{{j}}', f, 'txupm') for j, f in enumerate([{resets}])]\n",
    ]
    return "\n".join(parts)


def _header(program: Program, needs: str) -> str:
    return (
        f'"""{headline(program.name, program.description)}\n\n'
        f"Written by kapitza; needs {needs}. Angles are not wrapped.\n"
        '"""\n'
    )


def _constants(program: Program) -> str:
    knots = merged_knots(program)
    lines = [
        f"STATES = {tuple(q.name for q in program.states)!a}",
        f"START = {[q.value for q in program.states]!r}",
        f"PARAMETERS = {tuple(q.name for q in program.parameters)!a}",
        f"VALUES = {[q.value for q in program.parameters]!r}",
        f"OUTPUTS = {tuple(q.name for q in program.outputs)!a}",
        f"PERIOD = {program.period!r}",
        "# Time of a fitted start under a drive (None: it may begin at any time).",
        f"START_AT, OTHER_START = {program.fitted_at!r}, {program.other_start!r}",
        "# Span of a first run, and where measured drives that do not repeat are known (None: everywhere).",
        f"SPAN = {program.span!r}",
        f"REACH = {program.reach!r}",
        f"LIMIT = {comment(program.limit)!a}",
        f"CAN_STICK = {tuple(s.can_stick for s in program.switches)!r}",
        f"CAN_VANISH = {tuple(s.can_vanish for s in program.switches)!r}",
        f"WALLS = {tuple(comment(w) for w in program.walls)!a}",
        "# Measured drives: period (0: none), knots, coefficients of (t - knot)**k on each interval.",
        f"TABLES = [{', '.join(_table(t.period, t.knots.tolist(), t.coefficients.tolist()) for t in program.tables)}]",
        f"KNOTS = {'None' if knots is None else f'np.array({knots.tolist()!r})'}\n",
    ]
    return "\n".join(lines)


def _table(period: float, knots: list[float], coefficients: list[list[float]]) -> str:
    return f"({period!r}, np.array({knots!r}), np.array({coefficients!r}))"


def _function(name: str, arguments: str, body: Body, language: Language, doc: str, stack: str = "np.array") -> str:
    lines = language.lines(body, lambda i, text: f"r{i} = {text}")
    results = ", ".join(f"r{i}" for i in range(len(body.results)))
    end = f"return {stack}([{results}], float)" if stack == "np.array" else f"return {stack}({results})"
    return "\n    ".join([f"\ndef {name}({arguments}):", f'"""{doc}"""', *lines, end]) + "\n"


def _resets(program: Program) -> str:
    found = [
        _function(f"_reset_{j}", "t, x, u, p, m", r, PYTHON, "The state after an impact.")
        for j, r in enumerate(program.resets)
    ]
    names = ", ".join(f"_reset_{j}" for j in range(len(program.resets)))
    found.append(f"\nRESETS = [{names}]\n")
    return "\n".join(found)


DRIVES = '''
def require_known(first, last):
    """Refuse times at which the measured drives are not known."""
    if REACH is not None:
        near = 1e-9 * (REACH[1] - REACH[0])
        for t in (first, last):
            if not REACH[0] - near <= t <= REACH[1] + near:
                raise ValueError(f"t = {t:.9g} s: {LIMIT}.")


def drives(t, at):
    """Measured drives and their rates at t, by the polynomials that hold at the time `at` nearby."""
    require_known(at, at)
    u, du = np.empty(len(TABLES)), np.empty(len(TABLES))
    for i, (period, knots, coefficients) in enumerate(TABLES):
        turns = np.floor(at / period) if period else 0.0
        k = min(max(int(np.searchsorted(knots, at - turns * period, side="right")) - 1, 0), len(coefficients) - 1)
        local, c = t - turns * period - knots[k], coefficients[k]
        u[i] = du[i] = 0.0
        for j in range(len(c) - 1, -1, -1):
            u[i] = u[i] * local + c[j]
            if j > 0:
                du[i] = du[i] * local + j * c[j]
    return u, du

'''

SIMULATE = '''

FUNCTIONS = Functions(
    rates, surfaces, lambda j, *a: RESETS[j](*a), drives, CAN_STICK, CAN_VANISH, WALLS, KNOTS, REACH is None,
    PERIOD / 50 if CAN_STICK and PERIOD else np.inf,
)


def simulate(times, x0=None, parameters=None, tolerance=1e-12):
    """States (N, n) at the times (N,); x0 is the state at the first of them, parameters change values by name."""
    values = dict(zip(PARAMETERS, VALUES))
    unknown = sorted(set(parameters or {}) - set(values))
    if unknown:
        raise ValueError(f"No parameters {unknown}; there are {PARAMETERS}.")
    p = np.array([{**values, **(parameters or {})}[name] for name in PARAMETERS], float)
    require_known(times[0], times[-1])
    if x0 is None and START_AT is not None and abs(times[0] - START_AT) > 1e-9 * max(1.0, abs(START_AT)):
        raise ValueError(OTHER_START)
    return run(FUNCTIONS, times, START if x0 is None else x0, p, tolerance)


def measured(times, states, parameters=None):
    """Outputs (N, k) of simulated states, in free motion."""
    p = np.array([{**dict(zip(PARAMETERS, VALUES)), **(parameters or {})}[name] for name in PARAMETERS], float)
    motion = Motion(FUNCTIONS, p, 1e-12)
    rows = []
    for t, x in zip(times, states):
        motion.at = t
        motion.stuck[:] = False
        motion.left.clear()
        motion.begin(t, x)
        rows.append(outputs(t, x, drives(t, t)[0], p, motion.rates(t, x)))
    return np.array(rows)


if __name__ == "__main__":
    instants = np.linspace(*SPAN, 11)
    for instant, state in zip(instants, simulate(instants)):
        print(f"t = {instant:.6g} s: " + ", ".join(f"{n} = {v:.6g}" for n, v in zip(STATES, state)), flush=True)
'''

CASADI_FUNCTIONS = '''
_SIZES = {"t": 1, "x": X, "u": U, "v": U, "p": P, "m": M, "d": X}


def _wrapped(name, function, arguments):
    symbols = [ca.MX.sym(a, _SIZES[a]) for a in arguments]
    return ca.Function(name, symbols, [ca.vertcat(function(*symbols))], [a for a in arguments], ["result"])


# Arguments: t time, x states, u measured drives, v their rates, p parameters, m modes (+1, -1), d rates.
rates = _wrapped("rates", _rates, "txupm")
surfaces = _wrapped("surfaces", _surfaces, "txuvpmd")
outputs = _wrapped("outputs", _outputs, "txupd")


def modes(t, x, p=VALUES):
    """Signs of the switching functions at a state: the modes of the motion there."""
    m = np.ones(M)
    u, du = drives(t, t)
    for _ in range(M):
        s = np.array(surfaces(t, x, u, du, p, m, np.zeros(X))).ravel()[:M]
        m = np.where(s >= 0.0, 1.0, -1.0)
    return m


def integrator(t0, times, p=VALUES, tolerance=1e-12):
    """CVODES from t0 over a grid of times, for models without switches, walls and measured drives."""
    if M or WALLS or U:
        raise ValueError("Switches, walls and measured drives need a loop over events; use `rates` and `surfaces`.")
    t, x = ca.MX.sym("t"), ca.MX.sym("x", X)
    ode = {"x": x, "t": t, "ode": rates(t, x, ca.DM.zeros(0, 1), ca.DM(p), ca.DM.zeros(0, 1))}
    settings = {"reltol": tolerance, "abstol": tolerance, "max_num_steps": 10**7}
    return ca.integrator("motion", "cvodes", ode, float(t0), [float(v) for v in times], settings)
'''
