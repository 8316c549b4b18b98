"""Information of runs and orbits: against closed forms, finite differences and the Cramér-Rao bound."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import DataError


@pytest.fixture(scope="module")
def duffing():
    return kz.Model.from_equations(
        "x'' + c*x' + k*x + k3*x**3 = F*cos(w*t)",
        parameters={"c": 0.1, "k": 1.0, "k3": 1.0, "F": 0.3, "w": 1.0},
        period="2*pi/w",
    )


@pytest.fixture(scope="module")
def two_wells():
    return kz.Model.from_equations(
        "x'' + c*x' - k*x + k3*x**3 = F*cos(w*t)",
        parameters={"c": 0.15, "k": 1.0, "k3": 1.0, "F": 0.3, "w": 1.0},
        period="2*pi/w",
    )


FREE = ["c", "k", "k3"]


def test_decay_with_an_unknown_start_has_its_closed_form():
    """x = x0 exp(-a t): rows [e, -x0 t e]; the start is eliminated by its Schur complement."""
    model = kz.Model.from_equations("x' = -a*x", parameters={"a": 0.7})
    run = kz.Choice(start={"x": 2.0}, duration=5.0, step=0.05, channels={"x": 0.1})
    t = np.arange(run.samples) * run.step
    rows = np.stack([np.exp(-0.7 * t), -2.0 * t * np.exp(-0.7 * t)], axis=1) / 0.1
    full = rows.T @ rows
    expected = full[1, 1] - full[0, 1] ** 2 / full[0, 0]
    assert kz.information(model, run, ["a"])[0, 0] == pytest.approx(expected, rel=1e-9)


def test_a_regular_run_has_the_cramer_rao_bound(duffing):
    run = kz.Choice({"F": 0.3, "w": 1.0}, start={"x": 0.5}, duration=60.0, step=0.1, channels={"x": 0.01})
    states = kz.simulate(duffing, x0=[0.5, 0.0], t=np.arange(run.samples) * 0.1)
    bound = kz.cramer_rao(duffing, states, {"x": 0.01}, FREE)
    assert np.linalg.inv(kz.information(duffing, run, FREE)) == pytest.approx(bound.to_numpy(), rel=1e-5)


def test_a_chaotic_run_is_never_better_than_the_bound_and_close_to_it(two_wells):
    """One elimination over 200 s would promise a fraction of the bound; windows lose a few per cent."""
    run = kz.Choice({"F": 0.3, "w": 1.0}, start={"x": 0.5}, duration=200.0, step=0.1, channels={"x": 0.01})
    states = kz.simulate(two_wells, x0=[0.5, 0.0], t=np.arange(run.samples) * 0.1)
    bound = np.sqrt(np.diag(kz.cramer_rao(two_wells, states, {"x": 0.01}, FREE)))
    width = np.sqrt(np.diag(np.linalg.inv(kz.information(two_wells, run, FREE))))
    assert (width / bound > 0.99).all()
    assert (width / bound < 1.2).all()


def test_batches_equal_single_runs_and_draws_lead_the_members(duffing):
    runs = [kz.Choice({"F": f, "w": 1.2}, duration=20.0, step=0.1, channels={"x": 0.01}) for f in (0.1, 0.2, 0.3)]
    draws = np.array([[0.1, 1.0, 1.0], [0.12, 0.9, 1.3]])
    batch = kz.information(duffing, runs, FREE, draws)
    assert batch.shape == (3, 2, 3, 3)
    for i, run in enumerate(runs):
        for j, draw in enumerate(draws):
            alone = kz.information(duffing.with_values(c=draw[0], k=draw[1], k3=draw[2]), run, FREE)
            assert batch[i, j] == pytest.approx(alone, rel=1e-6)


def test_at_rest_nothing_is_told(duffing):
    run = kz.Choice({"F": 0.0, "w": 1.0}, duration=10.0, step=0.1, channels={"x": 0.01})
    assert kz.information(duffing, run, FREE) == pytest.approx(np.zeros((3, 3)))


def test_a_motion_that_runs_away_is_not_a_number():
    model = kz.Model.from_equations("x' = a*x**2", parameters={"a": 1.0})
    run = kz.Choice(start={"x": 1.0}, duration=3.0, step=0.1, channels={"x": 0.01})
    assert np.isnan(kz.information(model, run, ["a"])).all()


def test_dry_friction_agrees_with_differences():
    model = kz.Model.from_equations("x'' + r*sign(x') + x = 0", parameters={"r": 0.05})
    run = kz.Choice(start={"x": 1.0}, duration=9.0, step=0.05, channels={"x": 0.01})
    t = np.arange(run.samples) * run.step

    def motion(r: float, x0: float, v0: float) -> np.ndarray:
        return kz.simulate(model.with_values(r=r), x0=[x0, v0], t=t)["x"]

    h = 1e-5
    rows = np.stack(
        [
            (motion(0.05, 1 + h, 0) - motion(0.05, 1 - h, 0)) / (2 * h),
            (motion(0.05, 1, h) - motion(0.05, 1, -h)) / (2 * h),
            (motion(0.05 + h, 1, 0) - motion(0.05 - h, 1, 0)) / (2 * h),
        ],
        axis=1,
    )
    full = rows.T @ rows / 0.01**2
    expected = 1 / np.linalg.inv(full)[2, 2]
    assert kz.information(model, run, ["r"])[0, 0] == pytest.approx(expected, rel=1e-3)


def test_a_forced_orbit_agrees_with_differences_of_solved_orbits(two_wells):
    two_wells = two_wells.with_values(F=0.05)
    orbit = kz.solve_orbit(two_wells, {"x": -0.025, "x'": 0.002})  # the linear response about the saddle
    assert orbit.stability == "unstable"
    run = kz.Choice({"F": 0.05, "w": 1.0}, duration=orbit.period * 10, step=orbit.period / 64, channels={"x": 0.01})
    with pytest.raises(kz.errors.DataError, match="at least one free parameter"):
        kz.orbit_information(two_wells, orbit, [], run)
    told = kz.orbit_information(two_wells, orbit, FREE, run)
    t = np.arange(64) * orbit.period / 64
    rows = []
    for name in FREE:
        ends = []
        for sign in (1, -1):
            model = two_wells.with_values(**{name: two_wells.values[name] + sign * 1e-5})
            ends.append(kz.Flow(model).trajectory(kz.solve_orbit(model, orbit).points[0], t)[:, 0])
        rows.append((ends[0] - ends[1]) / 2e-5)
    expected = 10 * np.stack(rows) @ np.stack(rows).T / 0.01**2
    size = np.sqrt(np.diag(expected))
    assert told / np.outer(size, size) == pytest.approx(expected / np.outer(size, size), abs=1e-4)


def test_a_free_orbit_tells_its_period():
    """A van der Pol cycle held for R periods: the period alone gives at least Σ over crossings of (r dT/dθ ẋ)²."""
    model = kz.Model.from_equations("x'' - mu*(1 - x**2)*x' + w2*x = 0", parameters={"mu": 0.5, "w2": 1.0})
    orbit = kz.solve_orbit(model, {"x": 2.0, "x'": 0.0}, 6.4)
    narrow, wide = (
        kz.orbit_information(model, orbit, ["w2"], kz.Choice(duration=d, step=0.1, channels={"x": 0.01}))[0, 0]
        for d in (orbit.period * 40, orbit.period * 10)
    )
    # The phase error grows with time, so information grows as its cube for long records.
    assert 30 < narrow / wide < 80


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"channels": {"x": 0.0}}, "above 0"),
        ({"duration": -1.0}, "both must be above 0"),
        ({"settle": -1.0}, "negative time"),
        ({"approach": "from below"}, "needs the setting to sweep"),
    ],
)
def test_bad_choices_are_refused(change, message):
    with pytest.raises(DataError, match=message):
        kz.Choice(**({"duration": 10.0, "step": 0.1, "channels": {"x": 0.01}} | change))


def test_unknown_names_are_refused_with_the_nearest(duffing):
    run = kz.Choice({"Fo": 0.3}, duration=10.0, step=0.1, channels={"x": 0.01})
    with pytest.raises(DataError, match='No parameter "Fo"'):
        kz.information(duffing, run, FREE)
    with pytest.raises(DataError, match="No channel is named"):
        kz.information(duffing, kz.Choice(duration=10.0, step=0.1), FREE)
    with pytest.raises(DataError, match="not measured"):
        kz.information(duffing, kz.Choice(duration=10.0, step=0.1, channels={"y": 0.01}), FREE)
