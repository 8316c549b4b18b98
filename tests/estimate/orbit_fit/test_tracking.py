"""Orbits keep period, code and winding while the parameters move; starts where Newton alone fails; what is reported."""

from dataclasses import replace

import numpy as np
import pytest

import kapitza as kz
from kapitza.data import as_parts
from kapitza.estimate.orbit_fit.matching import close_from_data, lost_character, sort_out
from kapitza.estimate.orbit_fit.solver import Solver
from kapitza.estimate.orbit_fit.task import prepare, weights_of
from kapitza.estimate.request import make_request


def posed(pendulum, orbits, unknowns):
    """The fit of m, l to these orbits, solved at the true values, but with the unknowns moved to other orbits."""
    task = prepare(make_request(pendulum, as_parts(list(orbits)), ["m", "l"], kz.OrbitFit()), kz.OrbitFit())
    theta = np.array([pendulum.values["m"], pendulum.values["l"]])
    weights = weights_of(task, task.problem, task.deviations)
    solver = Solver(task.problem, weights, task.low, task.high, task.typical)
    true = solver.solve(theta, task.problem.starts(), soft=False)
    return task.problem, weights, replace(true, unknowns=unknowns, blocks=task.problem.evaluate(unknowns, theta))


def test_a_period_2_orbit_on_twice_the_period_1_orbit_is_detected_and_put_back(pendulum, exact):
    """The orbit of period 2 was born from the rotating one by doubling: on it the iteration closes as well."""
    once, twice = exact[0].points, exact[3].points
    problem, weights, collapsed = posed(pendulum, [exact[3]], [np.vstack([once, once]).ravel()])
    assert np.abs(collapsed.blocks[0].gap).max() < 1e-9
    assert lost_character(problem, 0, collapsed.unknowns[0], collapsed.blocks[0]) == (
        "collapsed onto an orbit of period 1"
    )
    found = sort_out(problem, weights, (0,), collapsed)
    assert found.returned == (0,)
    assert not found.reasons
    np.testing.assert_allclose(found.matched[0].reshape(2, 2), twice, atol=1e-8)


def test_another_orbit_of_the_same_period_is_told_by_its_code(pendulum, exact):
    other = exact[1].points  # the mirror image: code D for A
    problem, weights, jumped = posed(pendulum, [exact[0].with_(winding=())], [other.ravel()])
    assert "has the code D, the measured orbit A" in lost_character(problem, 0, jumped.unknowns[0], jumped.blocks[0])
    found = sort_out(problem, weights, (0,), jumped)
    np.testing.assert_allclose(found.matched[0], exact[0].points.ravel(), atol=1e-8)


def test_another_winding_is_told_where_the_data_show_theirs(pendulum):
    forth, back = (kz.solve_orbit(pendulum, (s * 2.9668, s * 6.4066)) for s in (1, -1))
    assert forth.winding[0] == -back.winding[0] != 0
    blind = replace(pendulum, partition=(), letters="")
    task = prepare(make_request(blind, as_parts([forth]), ["m", "l"], kz.OrbitFit()), kz.OrbitFit(profiles=True))
    theta = np.array([pendulum.values["m"], pendulum.values["l"]])
    grid = task.problem.targets[0].node_times / task.problem.targets[0].period
    z = back.loop(grid).ravel()
    block = task.problem.evaluate([z], theta)[0]
    assert "winds (-1, 0) times, the measured orbit (1, 0)" in lost_character(task.problem, 0, z, block)
    assert not lost_character(task.problem, 0, *close_from_data(task.problem, 0, theta))


def test_without_putting_orbits_back_the_fit_ends_elsewhere(pendulum, noisy):
    """Friction twenty times too large: the orbits of period 2 do not exist there, and the nested form loses them."""
    start = pendulum.with_values(k2=20 * pendulum.values["k2"])
    settings = {"formulation": "nested", "restarts": 0, "throw": False}
    lost = kz.identify(start, noisy(0), ["k2"], kz.OrbitFit(set_aside=False, **settings))
    assert not lost.status.ok
    fit = kz.identify(start, noisy(0), ["k2"], kz.OrbitFit(**settings))
    assert fit.status.ok
    assert {"3: period 2 AA", "4: period 2 DD"} <= set(fit.matches.put_back)
    assert abs(fit["k2"] - pendulum.values["k2"]) < 4 * fit.deviations["k2"]


def test_continuation_from_a_solvable_case_arrives_where_newton_from_the_data_fails(pendulum, noisy):
    """Mass halved, length 2.5 times too long; each orbit is solved by Newton from its points in the data."""
    start = pendulum.with_values(m=0.5 * pendulum.values["m"], l=2.5 * pendulum.values["l"])
    plain = kz.identify(start, noisy(0), ["m", "l"], kz.OrbitFit(formulation="nested", restarts=0, throw=False))
    assert not plain.status.ok
    fit = kz.identify(start, noisy(0), ["m", "l"], kz.OrbitFit(formulation="nested", restarts=1))
    assert fit.matches.begun == "continuation from the given values"
    assert abs(fit["l"] - pendulum.values["l"]) < 4 * fit.deviations["l"]


def test_orbits_set_aside_on_the_way_are_taken_back_at_the_end(pendulum, noisy):
    fit = kz.identify(pendulum.with_values(l=30.0), noisy(0), ["m", "l"])
    assert not fit.matches.unmatched
    assert abs(fit["l"] - pendulum.values["l"]) < 4 * fit.deviations["l"]


def test_a_hidden_state_is_found_by_continuation_where_the_start_has_no_orbit():
    """The force of a lagging spring T is not measured, and with negative damping the motion settles nowhere."""
    truth = kz.Model.from_equations(
        ["x'' + k*x' + x**3 + c*T = B*cos(t)", "T' = a*(x - T)"],
        parameters={"k": 0.15, "B": 0.4, "a": 0.5, "c": 0.5},
        period="2*pi",
        start={"x": 0.0, "x'": 0.0, "T": 0.0},
        coordinates=["x", "T"],
    )
    states = kz.solve_orbit(truth).loop(np.arange(60) / 60)
    clean = kz.Record.from_arrays(np.arange(60) * truth.period / 60, {"x": states[:, 0]}, period=truth.period)
    start = truth.with_values(k=-0.1, B=0.5)  # solve_orbit(start) fails
    fit = kz.identify(start, kz.measure(clean, noise=1e-4, seed=0), ["k", "B"], kz.OrbitFit())
    for name in ("k", "B"):
        assert abs(fit[name] - truth.values[name]) < 4 * fit.deviations[name]


@pytest.mark.parametrize(("periods", "guess"), [(2, (-0.448, 0.293)), (3, (-0.075, 0.052))])
def test_positions_of_a_subharmonic_motion_are_enough_from_far_starts(periods, guess):
    truth = kz.library.duffing().with_values(k=0.08, B=0.2)
    orbit = kz.solve_orbit(truth, guess, periods)
    count = 60 * periods
    x = orbit.loop(np.arange(count) / count)[:, 0]
    clean = kz.Record.from_arrays(np.arange(count) * orbit.period / count, {"x": x}, period=truth.period)
    record, rng = kz.measure(clean, noise=1e-3, seed=1), np.random.default_rng(3)
    for _ in range(5):
        shares = 1 + 0.6 * rng.uniform(-1, 1, 2)
        fit = kz.identify(truth.with_values(k=0.08 * shares[0], B=0.2 * shares[1]), record, ["k", "B"],
                          kz.OrbitFit(period=periods))  # fmt: skip
        for name in ("k", "B"):
            assert abs(fit[name] - truth.values[name]) < 5 * fit.deviations[name]


def test_several_spurious_orbits_do_not_hide_the_good_ones(pendulum, noisy):
    rng, good = np.random.default_rng(0), noisy(1)
    wrong = [o.with_(points=o.points + rng.choice([-1, 1], 2) * np.array([0.5, -2.0])) for o in good[:3]]
    fit = kz.identify(pendulum.with_values(m=0.1, l=0.3), [*good, *wrong], ["m", "l"])
    assert len(fit.matches.unmatched) == 3
    assert any("only 5 of 8 orbits are matched" in text for text in fit.warnings)
    assert abs(fit["l"] - pendulum.values["l"]) < 4 * fit.deviations["l"]


def test_multipliers_that_disagree_are_reported_with_their_sign(pendulum, exact):
    deviation = 1e-2 * np.abs(exact[0].multipliers)
    wrong = exact[0].with_(multipliers=1.3 * exact[0].multipliers, multiplier_deviation=deviation)
    flipped = exact[1].with_(multipliers=-exact[1].multipliers, multiplier_deviation=deviation)
    fit = kz.identify(pendulum.with_values(m=0.09), [wrong, flipped, *exact[2:]], ["m", "l"])
    text = " ".join(fit.warnings)
    assert "orbit 0: period 1 A is matched, but its multipliers are not" in text
    assert "30 σ" in text
    assert "orbit 1: period 1 D is matched, but its multipliers are not: a multiplier of -1.7" in text
    assert fit.matches.table.set_index("orbit").loc["0: period 1 A", "multiplier mismatch"] == pytest.approx(30)


def test_other_answers_that_fit_as_well_are_named():
    """One section point of the pin joint and two parameters: several branches pass through it exactly."""
    joint = kz.library.pin_joint().with_values(gamma=1.0, r=0.5)
    orbit = kz.solve_orbit(joint, {"x": -0.51, "x'": 0.219})
    data = [orbit.with_(covariance=1e-6 * np.eye(2), profile=None)]
    fit = kz.identify(joint.with_values(gamma=0.8, r=0.4), data, ["gamma", "r"])
    answers = [{name: fit[name] for name in fit.names}, *fit.matches.alternatives]
    assert min(abs(a["gamma"] - 1.0) + abs(a["r"] - 0.5) for a in answers) < 0.01
    assert any("χ² cannot show whether the model is right" in text for text in fit.warnings)


def test_a_wrong_model_shows_in_the_residuals():
    """Data of a spring with a quadratic term, fitted without it: the noise is not white, and the estimate says so."""
    truth = kz.Model.from_equations(
        "x'' + k*x' + x**3 + 0.2*x**2 = B*cos(t)", parameters={"k": 0.08, "B": 0.2}, period="2*pi", start={"x": 0.0}
    )
    x = kz.solve_orbit(truth).loop(np.arange(60) / 60)[:, 0]
    record = kz.Record.from_arrays(np.arange(60) * truth.period / 60, {"x": x}, period=truth.period)
    noisy = kz.Record.from_arrays(
        record.time, {"x": x + 1e-4 * np.random.default_rng(0).standard_normal(60)}, period=truth.period
    )
    duffing = kz.library.duffing().with_values(k=0.08, B=0.2)
    fit = kz.identify(duffing, noisy, ["k", "B"], kz.OrbitFit(estimator="maximum likelihood", throw=False))
    assert any("the orbits miss the data" in text for text in fit.warnings)


def test_orbits_that_the_record_does_not_show_are_listed_with_the_reason(pendulum):
    """Of the eight orbits of period 2 (census, six seeds) and the six of period 1 a short record shows some."""
    record = kz.measure(kz.simulate(pendulum, periods=6000), noise={"phi": 3e-3, "phi'": 1.5e-2}, seed=1)
    orbits = kz.find_orbits(record, max_period=2)
    fit = kz.identify(pendulum.with_values(m=0.09), orbits, ["m", "l"])
    table = kz.missing_orbits(fit, starts=256, rounds=3)
    shown = table["found"].value_counts()
    assert shown["matched"] == len(fit.matches.orbits)
    upright = table[table["first point"].str.startswith(("3.14", "-3.14")) & (table["period"] == 1)]
    assert list(upright["found"]) == ["missing"]
    assert upright["|μ|"].iloc[0] == pytest.approx(37.47, rel=0.02)  # science: multipliers 37.47, 0.026
    assert table[table["found"] == "missing"]["why"].str.contains("visited").all()
