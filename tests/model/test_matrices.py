"""Models given by matrices, whole and reduced to a few modes."""

import numpy as np
import pytest
from scipy import sparse

import kapitza as kz
from kapitza.errors import ModelError
from kapitza.flow import Flow


def chain(n: int, k: float = 4.0):
    """Consistent mass and stiffness of a rod of n elements, clamped at one end, as finite elements give them."""
    mass = sparse.diags([np.full(n, 4.0), np.ones(n - 1), np.ones(n - 1)], [0, 1, -1]).toarray() / 6
    stiffness = k * sparse.diags([np.full(n, 2.0), -np.ones(n - 1), -np.ones(n - 1)], [0, 1, -1]).toarray()
    mass[-1, -1], stiffness[-1, -1] = 2 / 6, k
    return mass, stiffness


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, lambda a: a.tolist()])
def test_rates_are_those_of_the_matrices(kind):
    mass, stiffness = chain(5)
    damping = 0.1 * mass + 0.02 * stiffness
    model = kz.Model.from_matrices(
        kind(mass),
        kind(damping),
        kind(stiffness),
        parameters={"k3": 0.7, "F": 2.0, "w": 1.5},
        nonlinear={"x3": "k3*x3**3"},
        forces={"x5": "F*cos(w*t)"},
        period="2*pi/w",
    )
    states = np.random.default_rng(0).uniform(-1, 1, (10, 10))
    x, v = states[:, :5], states[:, 5:]
    force = np.zeros((10, 5))
    force[:, 4], force[:, 2] = 2.0 * np.cos(1.5 * 0.3), -0.7 * x[:, 2] ** 3
    expected = np.linalg.solve(mass, (force - v @ damping.T - x @ stiffness.T).T).T
    assert np.abs(Flow(model).rates(states, 0.3)[:, 5:] - expected).max() < 1e-12 * np.abs(expected).max()


def test_parameters_in_the_entries_and_in_front_of_matrices():
    entries = kz.Model.from_matrices(
        [["m", 0], [0, "2*m"]], [["c", 0], [0, 0]], [["k1 + k2", "-k2"], ["-k2", "k2"]],
        parameters={"m": 1.5, "c": 0.2, "k1": 3.0, "k2": 2.0},
    )  # fmt: skip
    sums = kz.Model.from_matrices(
        {"m": np.diag([1.0, 2.0])},
        {"c": np.diag([1.0, 0.0])},
        {"k1": np.diag([1.0, 0.0]), "k2": [[1, -1], [-1, 1]]},
        parameters={"m": 1.5, "c": 0.2, "k1": 3.0, "k2": 2.0},
    )
    states = np.random.default_rng(1).uniform(-1, 1, (5, 4))
    assert np.abs(Flow(entries).rates(states) - Flow(sums).rates(states)).max() < 1e-14
    squares = np.linalg.eigvals(np.linalg.solve(np.diag([1.5, 3.0]), [[5.0, -2.0], [-2.0, 2.0]]))
    undamped = entries.with_values(c=0.0)
    assert undamped.linearise().frequencies == pytest.approx(np.sqrt(np.sort(squares)), rel=1e-12)
    assert sums.linear_terms(["k1", "k2"])[0][1].keys() == {"k1", "k2"}


def test_many_coordinates_with_a_full_mass_matrix_move_as_their_modes():
    """A free vibration in the third mode of a rod of 40 elements stays in it, at its frequency."""
    mass, stiffness = chain(40)
    model = kz.Model.from_matrices(mass, None, stiffness)
    reduction = kz.modal_reduction(mass, stiffness, 3)
    shape, omega = reduction.shapes[:, 2], reduction.frequencies[2]
    states = Flow(model).trajectory(np.concatenate([shape, 0 * shape]), np.linspace(0.0, 5.0, 6))
    expected = np.cos(omega * np.linspace(0.0, 5.0, 6))[:, None] * shape
    assert np.abs(states[:, :40] - expected).max() < 1e-11


def test_all_modes_give_the_motion_of_the_whole_and_few_say_what_they_leave_out():
    mass, stiffness = chain(6)
    given = {
        "parameters": {"k3": 0.5, "F": 1.0, "w": 0.9, "alpha": 0.05},
        "nonlinear": {"x6": "k3*x6**3"},
        "forces": {"x6": "F*cos(w*t)"},
        "period": "2*pi/w",
    }
    whole = kz.Model.from_matrices(mass, {"alpha": mass}, stiffness, **given)
    modal = kz.Model.from_matrices(mass, {"alpha": mass}, stiffness, modes=6, **given)
    few = kz.Model.from_matrices(mass, {"alpha": mass}, stiffness, modes=2, **given)
    times = np.linspace(0.0, 20.0, 50)
    moved = Flow(whole).trajectory(np.zeros(12), times)[:, 5]
    shapes = kz.modal_reduction(mass, stiffness, 6).shapes
    exact = Flow(modal).trajectory(np.zeros(12), times)[:, :6] @ shapes[5]
    rough = Flow(few).trajectory(np.zeros(4), times)[:, :2] @ shapes[5, :2]
    better = kz.Model.from_matrices(mass, {"alpha": mass}, stiffness, modes=4, **given)
    close = Flow(better).trajectory(np.zeros(8), times)[:, :4] @ shapes[5, :4]
    assert np.abs(exact - moved).max() < 1e-11
    assert np.abs(moved).max() > np.abs(rough - moved).max() > 1.5 * np.abs(close - moved).max() > 1e-3
    assert few.description.startswith("2 of 6 modes are kept")
    assert "missing (at x6)" in few.description
    assert set(few.outputs) == {f"x{i}" for i in range(1, 7)}


def test_a_reduced_model_says_where_its_modes_hold():
    mass, stiffness = chain(6)
    local = np.zeros((6, 6))
    local[0, 0] = 1.0
    given = {"parameters": {"k": 1.0, "ka": 0.5, "w": 0.3}, "forces": {"x6": "cos(w*t)"}, "period": "2*pi/w"}
    model = kz.Model.from_matrices(mass, None, {"k": stiffness, "ka": local}, modes=2, **given)
    assert "The modes are those at k = 1, ka = 0.5" in model.description
    assert "lies above" not in model.description
    given["parameters"]["w"] = 4.0
    fast = kz.Model.from_matrices(mass, None, {"k": stiffness, "ka": local}, modes=2, **given)
    assert "0.6366 Hz, lies above all modes that are kept" in fast.description
    # All modes: nothing is left out, whatever the values.
    assert "those at" not in kz.Model.from_matrices(mass, None, {"k": stiffness}, modes=6, **given).description
    springs = np.array([[1.0, -1, 0], [-1, 2, -1], [0, -1, 1]])
    free = kz.Model.from_matrices(np.eye(3), None, springs, modes=2, forces={"x1": 1.0})
    assert "can move freely" in free.description


def test_what_is_missing_is_the_static_displacement_of_the_modes_left_out():
    mass, stiffness = chain(8)
    reduction = kz.modal_reduction(mass, stiffness, 3)
    kept = (reduction.shapes**2 / reduction.frequencies**2).sum(axis=1)
    whole = np.diag(np.linalg.inv(stiffness))
    assert reduction.flexibility == pytest.approx(whole, rel=1e-10)
    assert reduction.missing == pytest.approx(1 - kept / whole, abs=1e-10)
    assert reduction.left_out.size == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"M": np.ones((2, 3))}, r"M has the shape \(2, 3\)"),
        ({"K": np.eye(3)}, r"K has the shape \(3, 3\), but M has 2 rows"),
        ({"K": [[1, np.nan], [0, 1]]}, r"K\[1, 2\] is nan"),
        ({"K": [["k", 0], [0, "q"]]}, r'K\[2, 2\].*"q"'),
        ({"nonlinear": {"x9": "x1**3"}}, r'"x9", which is none of x1, x2'),
        ({"coordinates": ["a"]}, "1 coordinates for matrices of 2 rows"),
        ({"M": np.zeros((2, 2))}, "singular"),
        ({"modes": 1, "coordinates": ["q2", "q1"]}, '"q1" is the name of a modal amplitude'),
        ({"modes": 3}, "modes = 3; give a whole number from 1 to 2"),
        ({"modes": 1, "K": [["unknown", 0], [0, 1]], "parameters": ["unknown"]}, "give unknown a value"),
        ({"modes": 1, "K": [[1, 2], [0, 1]]}, "K is not symmetric"),
        ({"modes": 1, "K": -np.eye(2)}, "buckles in 2 modes"),
        ({"modes": 1, "M": np.diag([1.0, 0.0])}, "positive definite mass matrix"),
    ],
)
def test_refusals(change, message):
    given = {"M": np.eye(2), "C": None, "K": np.eye(2), "parameters": {"k": 1.0}} | change
    with pytest.raises(ModelError, match=message):
        _ = kz.Model.from_matrices(**given).structure
