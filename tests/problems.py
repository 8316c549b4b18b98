"""Problems with known answers. Every method that applies is run on every problem (see methods.py).

Add an entry to a list; the tests that walk through the lists (test_orbit_matrix.py, test_fit_matrix.py) pick it up.
Answers come from closed forms, independent codes or cited tables, never from Kapitza's own output.

Words in `offers` say what a problem is, so that a method can ask for them or refuse them:
"forced", "autonomous", "smooth", "map", "switches", "impacts", "stiff", "measured excitation", "hamiltonian",
"kinked" (passes v = 0 where |v|v has a kink), "rotating" (an angle that winds), "linear in parameters",
"orbits" (the data are orbits), "many" (dozens of them), "profiles" (with samples along them), "series" (a Record),
"periodic" (of one period), "short" (too short for test functions), "hidden" (not every coordinate is measured),
"nonsmooth" (impacts), "exact" (no noise), "plain" (what a newcomer would do without naming a method).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kapitza import (
    Flow,
    Impact,
    Model,
    OrbitSet,
    Record,
    find_orbits,
    library,
    measure,
    simulate,
    solve_orbit,
)
from kapitza.orbits import Profile


@dataclass(frozen=True)
class OrbitProblem:
    """A model and a periodic orbit that it is known to have.

    model: makes the model. guess: state near the orbit, by name. period: excitation periods, or a time when autonomous.
    point: the section point, where known. multipliers: the Floquet multipliers, where known, in any order.
    """

    name: str
    model: Callable[[], Any]
    guess: Mapping[str, float]
    period: float
    source: str
    offers: frozenset[str] = frozenset()
    point: Mapping[str, float] = field(default_factory=dict)
    point_tolerance: float = 1e-3
    multipliers: tuple[complex, ...] = ()
    multiplier_tolerance: float = 1e-3
    winding: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class FitProblem:
    """A model, data made with known parameters (seeded), and how close an estimate must come.

    start: makes the model from which the fit begins. data: makes the data. truth: true values of the free parameters.
    tolerance: largest relative error (absolute for a truth of zero), by name, or one for all.
    """

    name: str
    start: Callable[[], Any]
    data: Callable[[], Any]
    truth: Mapping[str, float]
    source: str
    tolerance: float | Mapping[str, float] = 0.01
    offers: frozenset[str] = frozenset()


_SCIENCE = "Newton shooting at tolerance 1e-13, an independent code, against ORBITS Table 3.1"


def _pendulum_orbit(name: str, point: tuple[float, float], period: int, multipliers: tuple[float, ...], turns: int):
    state = {"phi": point[0], "phi'": point[1]}
    return OrbitProblem(
        name,
        library.parametric_pendulum,
        {"phi": point[0] + 0.01, "phi'": point[1] - 0.01},
        period,
        _SCIENCE,
        frozenset({"forced", "smooth", *(["rotating"] if turns else []), *(["kinked"] if name.endswith("4") else [])}),
        state,
        multipliers=multipliers,
        multiplier_tolerance=5e-4 * max(abs(m) for m in multipliers) if period > 1 else 6e-3,
        winding={"phi": turns},
    )


ORBIT_PROBLEMS: list[OrbitProblem] = [
    _pendulum_orbit("pendulum hanging", (0.0, 0.0), 1, (-2.005, -0.480), 0),
    _pendulum_orbit("pendulum rotating", (2.9668, 6.4066), 1, (-1.709, -0.427), 1),
    _pendulum_orbit("pendulum period 2", (2.9802, 3.3295), 2, (-2.496, -0.213), 2),
    _pendulum_orbit("pendulum period 4", (-2.3647, 7.6839), 4, (-24.94, -0.0141), 2),
    OrbitProblem(
        "lorenz AB",
        library.lorenz,
        {"x": -13.76, "y": -19.58, "z": 27.0},
        1.5586,
        "T = 1.558652210716175: D. Viswanath, Nonlinearity 16 (2003) 1035",
        frozenset({"autonomous", "smooth"}),
    ),
    OrbitProblem(
        "cart, one contact per wall",
        library.colliding_cart,
        {"x": -0.5, "x'": 0.5},
        1,
        "log det M = -b × time in contact; both shooting and collocation (test_nonsmooth.py)",
        frozenset({"forced", "switches"}),
    ),
    OrbitProblem(
        "pin joint, two impacts",
        lambda: library.pin_joint().with_values(gamma=1.0, r=0.5),
        {"x": -0.51, "x'": 0.219},
        1,
        "closed form, reproductions/_pin_joint_closed_form.py",
        frozenset({"forced", "impacts"}),
        multipliers=(2.19677649, 0.02845078),
        multiplier_tolerance=1e-7,
    ),
    OrbitProblem(
        "duffing non-resonant",
        library.duffing,
        {"x": -0.2, "x'": 0.0},
        1,
        "det M = exp(-2πk), Liouville",
        frozenset({"forced", "smooth"}),
    ),
]


def _chaotic_duffing() -> Model:
    """Two-well oscillator x'' + c x' + k1 x + k3 x³ = F cos ωt, chaotic at these values."""
    return Model.from_equations(
        "x'' + c*x' + k1*x + k3*x**3 = F*cos(omega*t)",
        parameters={"c": 0.25, "k1": -1.0, "k3": 1.0, "F": 0.3, "omega": 1.0},
        period="2*pi/omega",
        start={"x": 1.0, "x'": 0.0},
    )


def _duffing_displacement() -> Record:
    clean = simulate(_chaotic_duffing(), periods=100, samples_per_period=100)
    return measure(clean.select(["x"]), noise=1e-3, seed=1)


def _lorenz_series(channels: tuple[str, ...] = ("x", "y", "z")) -> Record:
    clean = simulate(library.lorenz(), x0=[1, 1, 20], t=np.arange(2000) * 0.01)
    return measure(clean.select(list(channels)), noise=0.1, seed=2)


def _duffing_period() -> Record:
    """Sixty readings of the position over one period of the steady state."""
    model = library.duffing()
    orbit = solve_orbit(model, profile=False)
    times = np.arange(60) / 60 * orbit.period
    states = Flow(model).trajectory(orbit.points[0], times)
    clean = Record.from_arrays(times, {"x": states[:, 0]}, period=model.period, phase=0.0)
    return measure(clean, noise=1e-4, seed=3)


def _duffing_orbits() -> OrbitSet:
    """Two stable orbits with 256 samples along each."""
    model, found = library.duffing(), []
    for start in ([-0.25, 0.1], [1.0, 0.5]):
        orbit = solve_orbit(model, start, profile=False)
        times = np.arange(256) * orbit.period / 256
        states = Flow(model).trajectory(orbit.points[0], np.append(times, orbit.period))[:-1]
        found.append(orbit.with_(profile=Profile(times, states), covariance=None))
    return OrbitSet(tuple(found), (False, False))


def _ball(**values: float) -> Model:
    """A ball that falls with drag and bounces: h'' = -g - c h', h' → -r h' at the floor."""
    return Model.from_equations(
        "h'' + c*h' + g = 0",
        parameters={"g": 9.81, "c": 0.1, "r": 0.8},
        impacts=[Impact("h", {"h'": "-r*h'"})],
        start={"h": 1.0, "h'": 0.0},
    ).with_values(**values)


def _bounces() -> Record:
    clean = simulate(_ball(), t=np.arange(0.0, 2.5, 0.005))
    return measure(clean.select(["h"]), noise=1e-3, seed=4)


def _henon_heiles_points() -> Record:
    return simulate(library.henon_heiles(), t=np.arange(0.0, 100.0, 1.0))


def _pendulum_orbits() -> Any:
    record = measure(
        simulate(library.parametric_pendulum(), periods=12000), noise={"phi": 3e-3, "phi'": 1.5e-2}, seed=1
    )
    return find_orbits(record, max_period=4)


FIT_PROBLEMS: list[FitProblem] = [
    FitProblem(
        "duffing displacement",
        lambda: _chaotic_duffing().with_values(c=1.0, k1=1.0, k3=0.1),
        _duffing_displacement,
        {"c": 0.25, "k1": -1.0, "k3": 1.0},
        "simulated with these values; noise 0.1 % of the amplitude",
        tolerance=0.005,
        offers=frozenset({"series", "forced", "linear in parameters", "plain"}),
    ),
    FitProblem(
        "lorenz series",
        lambda: library.lorenz().with_values(sigma=9.0, rho=30.0, beta=2.5),
        _lorenz_series,
        {"sigma": 10.0, "rho": 28.0, "beta": 8 / 3},
        "simulated with these values; noise 1.3 % of the spread of x",
        tolerance=0.01,
        offers=frozenset({"series", "autonomous", "linear in parameters", "plain"}),
    ),
    FitProblem(
        "lorenz from x alone",
        lambda: library.lorenz().with_values(sigma=9.5, rho=29.0, beta=2.6),
        lambda: _lorenz_series(("x",)),
        {"sigma": 10.0, "rho": 28.0, "beta": 8 / 3},
        "simulated with these values",
        tolerance=0.01,
        offers=frozenset({"series", "autonomous", "linear in parameters", "hidden"}),
    ),
    FitProblem(
        "one period of a duffing oscillator",
        lambda: library.duffing().with_values(k=0.1, B=0.23),
        _duffing_period,
        {"k": 0.08, "B": 0.2},
        "the values of the library",
        tolerance=0.01,
        offers=frozenset({"series", "forced", "periodic", "short"}),
    ),
    FitProblem(
        "bouncing ball",
        lambda: _ball(g=9.0, c=0.15, r=0.75),
        _bounces,
        {"g": 9.81, "c": 0.1, "r": 0.8},
        "simulated with these values; noise 1 mm",
        tolerance={"g": 0.01, "c": 0.2, "r": 0.01},
        offers=frozenset({"series", "autonomous", "impacts", "nonsmooth"}),
    ),
    FitProblem(
        "duffing orbits with profiles",
        lambda: library.duffing().with_values(k=0.1, B=0.22),
        _duffing_orbits,
        {"k": 0.08, "B": 0.2},
        "the values of the library; samples without noise",
        tolerance=1e-6,
        offers=frozenset({"orbits", "profiles", "linear in parameters", "exact", "plain"}),
    ),
    FitProblem(
        "henon-heiles points",
        lambda: library.henon_heiles().with_values(m2=1.5, omega1=0.7, b=0.5, d=-0.5),
        _henon_heiles_points,
        {"m2": 1.0, "omega1": 1.0, "b": 1.0, "d": -1 / 3},
        "INVARIANT: six digits from ideal data",
        tolerance=1e-6,
        offers=frozenset({"series", "autonomous", "hamiltonian", "exact"}),
    ),
    FitProblem(
        "pendulum orbits",
        lambda: library.parametric_pendulum().with_values(m=0.1287, l=0.2536),
        _pendulum_orbits,
        {"m": 0.0858, "l": 0.317},
        "simulated with these values; ORBITS found m within 0.76 % and l within 0.05 % from noise-free data",
        tolerance={"m": 0.0076, "l": 0.0005},
        offers=frozenset({"orbits", "many", "plain"}),
    ),
]
