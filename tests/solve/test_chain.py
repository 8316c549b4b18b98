import numpy as np
import pytest

from kapitza.solve import ChainProgram


@pytest.fixture
def program():
    rng = np.random.default_rng(4)
    count, n, k = 7, 2, 3
    root = rng.normal(size=(count, n, n))
    linked = np.array([True, True, False, True, True, True, False])
    data = {
        "hessian": root @ np.swapaxes(root, 1, 2) + np.eye(n),
        "gradient": rng.normal(size=(count, n)),
        "propagators": rng.normal(size=(count, n, n)),
        "gaps": rng.normal(size=(count, n)),
        "mixed": 0.1 * rng.normal(size=(count, n, k)),
        "influence": rng.normal(size=(count, n, k)),
        "parameter_hessian": np.eye(k),
        "parameter_gradient": rng.normal(size=k),
        "linked": linked,
    }
    return data


def penalised(data, slack):
    """Dense Hessian and gradient of the same program with the links as penalties."""
    count, n = data["gradient"].shape
    k = data["parameter_gradient"].size
    size = count * n + k
    hessian, gradient = np.zeros((size, size)), np.zeros(size)
    p = slice(count * n, size)
    for i in range(count):
        x = slice(i * n, i * n + n)
        hessian[x, x] += data["hessian"][i]
        hessian[x, p] += data["mixed"][i]
        hessian[p, x] += data["mixed"][i].T
        gradient[x] += data["gradient"][i]
        if data["linked"][i]:
            row = np.zeros((n, size))
            row[:, x], row[:, p] = data["propagators"][i], data["influence"][i]
            row[:, i * n + n : i * n + 2 * n] -= np.eye(n)
            hessian += row.T @ (row / slack[:, None])
            gradient -= row.T @ (data["gaps"][i] / slack)
    hessian[p, p] += data["parameter_hessian"]
    gradient[p] += data["parameter_gradient"]
    return hessian, gradient


def test_slack_is_a_penalty_on_the_links(program):
    slack = np.array([0.3, 2.0])
    hessian, gradient = penalised(program, slack)
    expected = np.linalg.solve(hessian, -gradient)
    step = ChainProgram(**program, slack=slack).solve()
    np.testing.assert_allclose(np.concatenate([step.nodes.ravel(), step.parameters]), expected, rtol=1e-10)
    k = step.parameters.size
    np.testing.assert_allclose(step.covariance, np.linalg.inv(hessian)[-k:, -k:], rtol=1e-10)


def test_limits_on_parameters_satisfy_the_optimality_conditions(program):
    slack = np.ones(2)
    free = ChainProgram(**program, slack=slack).solve()
    low, high = np.full(3, -np.inf), np.full(3, np.inf)
    high[0] = free.parameters[0] - 0.5
    step = ChainProgram(**program, slack=slack).solve_within(low, high)
    assert step.parameters[0] == pytest.approx(high[0])
    hessian, gradient = penalised(program, slack)
    slope = hessian @ np.concatenate([step.nodes.ravel(), step.parameters]) + gradient
    inner = np.delete(slope, -3)
    np.testing.assert_allclose(inner, 0, atol=1e-10)
    assert slope[-3] < 0
    assert step.covariance[0, 0] == 0


@pytest.mark.parametrize("closed", [False, True])
def test_nodes_respond_to_parameters_as_they_are_solved_for(program, closed):
    program["linked"] = program["linked"] | closed
    made = ChainProgram(**program)
    still = made.solve_given(np.zeros(3)).nodes
    moved = np.stack([made.solve_given(unit).nodes - still for unit in np.eye(3)], axis=2)
    assert made.response == pytest.approx(moved, abs=1e-10)


def test_pieces_without_links_between_them_are_reduced_by_one_factorisation(program):
    """Each piece has the information and the pull that it has as a chain alone."""
    program["linked"][2] = False
    edges = np.array([0, 3, 7])
    hessian, gradient = program.pop("parameter_hessian"), program.pop("parameter_gradient")
    reduced = ChainProgram(**program).reduced(edges)
    for (first, last), (less, pull) in zip(((0, 3), (3, 7)), reduced, strict=True):
        own = {name: values[first:last] for name, values in program.items()}
        alone = ChainProgram(**own, parameter_hessian=hessian, parameter_gradient=gradient)
        np.testing.assert_allclose(hessian - less, alone.information, rtol=1e-11)
        np.testing.assert_allclose(pull - gradient, alone.pull, rtol=1e-11)


def fading(length: int) -> ChainProgram:
    """Contraction by two, then growth by two: in the middle past and future both determine the state."""
    growth = np.repeat([0.5, 2.0], length)
    count = growth.size + 1
    return ChainProgram(
        np.ones((count, 1, 1)),
        np.zeros((count, 1)),
        np.append(growth, 0.0)[:, None, None],
        np.zeros((count, 1)),
        influence=np.cos(np.arange(count))[:, None, None],
        linked=np.arange(count) < count - 1,
    )


def test_a_chain_without_a_solution_in_floating_point_says_where_it_contradicts_itself():
    assert fading(10).torn is None
    program = fading(400)
    assert program.torn is not None
    assert abs(program.torn - 400) <= 60  # multipliers of one size all around the middle


def test_a_torn_chain_without_its_worst_link_is_solved():
    count = 801
    growth = np.append(np.repeat([0.5, 2.0], 400), 0.0)
    influence = np.cos(np.arange(count))
    linked = np.arange(count) < count - 1
    torn = fading(400).torn
    assert torn is not None
    linked[torn] = False
    program = ChainProgram(
        np.ones((count, 1, 1)), np.zeros((count, 1)), growth[:, None, None], np.zeros((count, 1)),
        influence=influence[:, None, None], linked=linked,
    )  # fmt: skip
    assert program.torn is None
    made = program.response[:, 0, 0]
    rows = np.flatnonzero(linked)
    links = np.zeros((rows.size, count))
    links[np.arange(rows.size), rows] = growth[rows]
    links[np.arange(rows.size), rows + 1] = -1.0
    # The shortest response with these links: a pseudo-inverse, by an independent program.
    expected = np.linalg.lstsq(links, -influence[rows], rcond=None)[0]
    np.testing.assert_allclose(made, expected, atol=1e-9 * np.abs(expected).max())
    assert program.information[0, 0] == pytest.approx(expected @ expected, rel=1e-9)
