"""The library: names and values of the sources, symmetries that hold, invariants that are conserved."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

from kapitza import library
from kapitza.errors import ModelError
from kapitza.model import Signal, compile_expressions, symbol

PARAMETERS = {
    "parametric_pendulum": "m l k1 k2 k3 A epsilon omega g",
    "base_excited_double_pendulum": "B11 B12 B13 B14 B21 B22 B23 B24 C11 C12 C2",
    "planar_double_pendulum": "lambda_ mu omega1",
    "henon_heiles": "m1 m2 omega1 omega2 a b c d",
    "trace_map": "a b c",
    "duffing": "k B",
    "colliding_cart": "k b gamma omega",
    "pin_joint": "gamma r",
    "oleo": " ".join(f"theta{n}" for n in range(1, 15)),
    "oleo_simple": " ".join(f"theta{n}" for n in range(1, 11)) + " g",
    "pendulum_on_spring": "M C K m l kappa a Omega g",
    "horizontally_excited_pendulum": "c r f",
    "lorenz": "sigma rho beta",
    "rossler": "a b c",
}
STATES = {
    "parametric_pendulum": ("phi", "phi'"),
    "base_excited_double_pendulum": ("phi1", "phi2", "phi1'", "phi2'"),
    "planar_double_pendulum": ("phi1", "phi2", "phi1'", "phi2'"),
    "henon_heiles": ("q1", "q2", "p1", "p2"),
    "trace_map": ("x", "y", "z"),
    "oleo": ("u", "T", "u'"),
    "pendulum_on_spring": ("y", "theta", "y'", "theta'"),
}


def rates_at(model, values, times):
    """(n, N) rates, or new values of a map, at states (n, N); measured signals at the same times."""
    structure = model.structure
    signals = [s(times) for s in model.excitation.signals] if model.excitation else []
    inputs = [*structure.states, *structure.signals, "t"]
    f = compile_expressions(structure.rates, inputs, structure.parameters, structure.steps)
    return f(np.vstack([values, *signals, times]), model.vector)


def evaluate(model, expressions, values):
    return compile_expressions(expressions, model.states, model.names)(values, model.vector)


def random_states(model, count=50):
    """States near the start, where every system is defined."""
    start = model.state()
    spread = 0.1 * np.abs(start) + 0.05
    return start[:, None] + spread[:, None] * np.random.default_rng(2).uniform(-1, 1, (start.size, count))


@pytest.mark.parametrize("system", library.SYSTEMS, ids=lambda f: f.__name__)
def test_every_system_is_complete(system):
    model = system()
    assert model.name == system.__name__
    assert list(model.names) == PARAMETERS[model.name].split()
    assert model.states == STATES.get(model.name, model.states)
    assert np.isfinite(model.vector).all()
    assert all(p.description for p in model.parameters)
    assert all(p.bounds[0] <= p.value <= p.bounds[1] for p in model.parameters)
    assert model.source
    assert model.description
    assert set(model.start) == set(model.states)
    assert "=" in (system.__doc__ or "")
    assert (model.period is None) == (model.structure.is_autonomous or model.is_map)
    assert np.isfinite(rates_at(model, random_states(model), np.linspace(0, 3, 50))).all()


def test_the_tuple_of_systems_is_the_library():
    assert {f.__name__ for f in library.SYSTEMS} == set(PARAMETERS)
    assert {f.__name__ for f in library.SYSTEMS} | {"SYSTEMS", "model_named", "sampled_force"} == set(library.__all__)


@pytest.mark.parametrize("system", [s for s in library.SYSTEMS if s().symmetries], ids=lambda f: f.__name__)
def test_symmetries_map_motions_to_motions(system):
    """f(S x, t + shift T) = S f(x, t) for linear S."""
    model = system()
    times = np.linspace(0, 9, 50)
    values = random_states(model)
    for symmetry in model.symmetries:
        images = [symmetry.map.get(name, symbol(name)) for name in model.states]
        matrix = np.array(sp.Matrix(images).jacobian([symbol(n) for n in model.states]), float)
        later = times + symmetry.shift * (model.period or 0.0)
        expected = matrix @ rates_at(model, values, times)
        np.testing.assert_allclose(rates_at(model, matrix @ values, later), expected, atol=1e-9)


@pytest.mark.parametrize("system", [library.henon_heiles, library.planar_double_pendulum], ids=lambda f: f.__name__)
def test_invariants_of_flows_are_conserved(system):
    """dI/dt = ∇I · f = 0, also away from the default values."""
    model = system()
    model = model.with_values(**{n: 1.1 * v + 0.1 for n, v in zip(model.names, model.vector, strict=True)})
    values = random_states(model)
    (invariant,) = model.structure.invariants.values()
    gradient = evaluate(model, [sp.diff(invariant, symbol(s)) for s in model.states], values)
    rates = rates_at(model, values, np.zeros(values.shape[1]))
    assert np.abs((gradient * rates).sum(axis=0)).max() < 1e-12 * np.abs(gradient * rates).max()


def test_invariant_of_the_trace_map():
    model = library.trace_map().with_values(a=0.3, b=-0.2, c=1.7)
    values = random_states(model)
    before = evaluate(model, [model.invariants["I"]], values)
    after = evaluate(model, [model.invariants["I"]], rates_at(model, values, np.zeros(values.shape[1])))
    np.testing.assert_allclose(after, before, atol=1e-13)
    fibonacci = library.trace_map()
    assert evaluate(fibonacci, [fibonacci.invariants["I"]], fibonacci.state())[0] == pytest.approx(1.0, abs=1e-14)


def test_quadrants_of_the_pendulum():
    """A B above C D, cut by φ' = 0 and φ = π, with φ in [0, 2π)."""
    model = library.parametric_pendulum()
    states = np.array([[1.0, 4.0, 1.0, 4.0], [1.0, 1.0, -1.0, -1.0]])
    signs = evaluate(model, model.partition, states) > 0
    letters = [model.letters[2 * (not up) + (not left)] for up, left in signs.T]
    assert letters == ["A", "B", "C", "D"]


def test_values_of_the_rig_and_of_the_simulation():
    rig = library.parametric_pendulum(experiment=True).values
    assert (rig["m"], rig["l"], rig["k1"]) == (0.0854, 0.318, 6.88e-4)
    assert library.parametric_pendulum().values["k1"] == 0.0
    assert library.lorenz().values == {"sigma": 10.0, "rho": 28.0, "beta": 8 / 3}


def test_sets_of_values_of_the_shaken_double_pendulum():
    assert library.base_excited_double_pendulum().values["C11"] == 0.0
    assert library.base_excited_double_pendulum("true").values["B23"] == -0.2913
    table1 = library.base_excited_double_pendulum("table1").values
    # B12/B15 = B22/B25 = g / ((2π f_e)² a), the check of HARMONIC that its physical set-up obeys.
    expected = 9.81 / ((2 * np.pi * 5) ** 2 * 0.0115)
    assert table1["B12"] / -table1["B13"] == pytest.approx(expected, rel=2e-3)
    assert table1["B22"] / -table1["B23"] == pytest.approx(expected, rel=2e-3)
    with pytest.raises(ModelError, match=r'"tabel9"; choose one of .* Did you mean "table9"'):
        library.base_excited_double_pendulum("tabel9")


def test_forcing_of_the_pendulum_on_a_spring():
    p = library.pendulum_on_spring().values
    assert p["a"] / np.hypot(p["Omega"] * p["C"], p["K"]) == pytest.approx(0.01, rel=1e-3)


def test_landing_gear_takes_a_measured_force():
    default = library.oleo().excitation
    assert default is not None
    (signal,) = default.signals
    assert signal.times.size == 200
    steps = np.abs(np.diff(signal.values))
    assert steps.max() > 5 * np.median(steps)
    measured = Signal("load_cell", [0.0, 0.5, 1.0], [3000.0, 3500.0, 3200.0], 1.5)
    for system in (library.oleo, library.oleo_simple):
        model = system(measured)
        assert model.period == 1.5
        assert model.excitation is not None
        assert model.excitation.signals[0].name == "F"
    assert library.oleo(values="estimation").values["theta9"] == 1000.0
    with pytest.raises(ModelError, match="orbits"):
        library.oleo(values="orbit")


def test_landing_gear_at_rest_stays_inside_its_stroke():
    for system in (library.oleo, library.oleo_simple):
        model = system()
        found = model.equilibrium(model.start)
        assert 0.05 < found["u"] < 0.25
