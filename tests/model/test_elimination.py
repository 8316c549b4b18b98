"""Large mass matrices: elimination by named steps, definite or not, and what refuses it."""

import numpy as np
import pytest
import sympy as sp

import kapitza as kz
from kapitza.errors import FlowError, ModelError
from kapitza.flow import Flow
from kapitza.model import compile_derivatives, compile_expressions
from kapitza.orbits.of_models import VectorField
from linkages import linked_pendulum

TURNING = (
    "sin(q)*q'' + cos(q)*r'' + 0.5*s'' = 1",
    "cos(q)*q'' - sin(q)*r'' = 2 - r",
    "0.5*q'' - 2*s'' = s + q'**2",
)
"""Symmetric and regular everywhere, its corner zero at q = 0, with eigenvalues of both signs."""


def by_numbers(model: kz.Model, states):
    """Accelerations by LAPACK from the mass matrix and the rest."""
    structure = model.structure
    size = len(model.coordinates)
    f = compile_expressions([*structure.mass_matrix.flat(), *structure.rest], model.states, model.names)
    values = f(states.T, model.vector).T
    mass, rest = values[:, : size**2].reshape(-1, size, size), values[:, size**2 :]
    return -np.linalg.solve(mass, rest[..., None])[..., 0]


def test_the_number_of_steps_grows_as_the_cube():
    counts = {n: len(linked_pendulum(n).structure.steps) for n in (3, 6)}
    assert counts[6] < 8 * counts[3]


def test_an_indefinite_matrix_is_solved_where_its_first_pivot_vanishes():
    model = kz.Model.from_equations(TURNING, coordinates=["q", "r", "s"])
    assert not model.structure.elimination.is_definite
    states = np.random.default_rng(1).uniform(-1, 1, (50, 6))
    states[:10, 0] = 0.0
    found = Flow(model).rates(states)[:, 3:]
    assert np.abs(found - by_numbers(model, states)).max() < 1e-12 * np.abs(found).max()


@pytest.mark.parametrize("flip", [(1, 1, 1), (-1, -1, -1), (1, -1, 1)])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_sign_and_order_of_the_equations_do_not_matter(flip, order):
    plain = linked_pendulum(3)
    equations = [flip[i] * plain.equations[i] for i in order]
    model = kz.Model.from_equations(equations, coordinates=plain.coordinates, parameters=plain.parameters)
    states = np.random.default_rng(2).uniform(-1, 1, (20, 6))
    expected = Flow(plain).rates(states)
    assert np.abs(Flow(model).rates(states) - expected).max() < 1e-12 * np.abs(expected).max()
    if order == (0, 1, 2):
        assert model.structure.elimination.is_definite


def test_masses_of_the_wrong_sign_take_the_safe_steps_or_are_refused():
    model = linked_pendulum(3)
    negative = model.with_values(m2=-3.0)
    assert model.structure.elimination.is_definite
    assert not negative.structure.elimination.is_definite
    states = np.random.default_rng(3).uniform(-1, 1, (20, 6))
    expected = by_numbers(negative, states)
    assert np.abs(Flow(negative).rates(states)[:, 3:] - expected).max() < 1e-11 * np.abs(expected).max()
    with pytest.raises(FlowError, match=r"not definite at .*m2 = -3"):
        Flow(model).propagate(states[0], 0.0, 0.1, {"m2": -3.0})
    back = Flow(negative.with_values(m2=model.values["m2"])).rates(states)
    assert np.abs(back - Flow(model).rates(states)).max() < 1e-11 * np.abs(back).max()


def test_dependent_equations_of_three_coordinates_are_refused():
    equations = ["x'' + y'' + z'' = 1", "x'' + y'' - z'' = 2", "2*x'' + 2*y'' + 3*z'' = 4"]
    with pytest.raises(ModelError, match=r"singular: the equations for x'', y'', z''"):
        _ = kz.Model.from_equations(equations, coordinates=["x", "y", "z"]).structure


def test_a_signal_may_be_all_the_force_there_is():
    """A bare symbol of the rest gives way to the coefficients of the signal."""
    signal = kz.Signal("f", np.linspace(0, 1, 21), np.sin(2 * np.pi * np.linspace(0, 1, 21)), 1.0, degree=3)
    equations = ["2*x'' + y'' + f = 0", "x'' + 3*y'' + z'' = 0", "y'' + 2*z'' + z = 0"]
    model = kz.Model.from_equations(equations, coordinates=["x", "y", "z"], signals=[signal])
    mass = np.array([[2.0, 1, 0], [1, 3, 1], [0, 1, 2]])
    run = Flow(model).propagate(np.zeros(6), 0.0, 0.5, tangents=False).state
    gain = np.linalg.solve(mass, [-1.0, 0, 0])
    # ∫∫ sin over half a period; z moves too little by then to answer (its own force is of fourth order in time).
    assert run[3] == pytest.approx(gain[0] / np.pi, abs=3e-3)


def test_small_motions_of_a_linkage():
    model = linked_pendulum(4)
    found = model.linearise().frequencies
    structure = model.structure
    rest = {sp.Symbol(s, real=True): 0 for s in model.states}
    values = {sp.Symbol(n, real=True): v for n, v in model.values.items()}
    mass = np.array(structure.mass_matrix.subs(rest).subs(values), float)
    stiffness = sp.Matrix(structure.rest).jacobian([sp.Symbol(f"q{i}", real=True) for i in range(1, 5)])
    stiffness = np.array(stiffness.subs(rest).subs(values), float)
    assert found == pytest.approx(np.sqrt(np.sort(np.linalg.eigvals(np.linalg.solve(mass, stiffness)).real)), rel=1e-10)


def test_derivatives_at_many_points_are_those_of_differences():
    model = linked_pendulum(3, damping=0.1)
    field = VectorField(model, wrt=("l2", "c"))
    states = np.random.default_rng(4).uniform(-1, 1, (6, 6))
    found = field.derivatives(states, np.zeros(6))
    step = 1e-6
    for k in range(6):
        ahead, behind = (field.rates(states + s * step * np.eye(6)[k], np.zeros(6)) for s in (1, -1))
        assert np.abs((ahead - behind) / (2 * step) - found.by_state[:, :, k]).max() < 1e-6
    for k, name in enumerate(("l2", "c")):
        ahead, behind = (
            field.rates(states, np.zeros(6), model.with_values(**{name: model.values[name] + s * step}).vector)
            for s in (1, -1)
        )
        assert np.abs((ahead - behind) / (2 * step) - found.by_parameter[:, :, k]).max() < 1e-6


def test_an_accelerometer_on_a_linkage_is_differentiated_through_the_steps():
    model = linked_pendulum(3, outputs={"a": "l1*q1'' + g*sin(q1)"})
    structure = model.structure
    inputs = (structure.states, structure.parameters, structure.steps)
    f = compile_derivatives([structure.outputs["a"]], structure.states, *inputs, structure.elimination)
    g = compile_expressions([structure.outputs["a"]], *inputs)
    state = np.array([0.4, -0.3, 0.2, 1.0, -0.5, 0.3])
    slopes = f(state, model.vector)[1:]
    step = 1e-6
    differences = [g(state + e, model.vector)[0] - g(state - e, model.vector)[0] for e in step * np.eye(6)]
    assert slopes == pytest.approx(np.array(differences) / (2 * step), abs=1e-6)
