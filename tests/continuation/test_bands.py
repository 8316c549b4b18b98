"""How bifurcations and points move with the other parameters: implicit derivatives against following again."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.continuation import Kind
from kapitza.continuation.bands import bifurcation_gradient
from kapitza.continuation.curves import moving_family
from kapitza.errors import Status


def oscillator(**changes):
    values = {"c": 0.1, "k3": 1.0, "B": 0.3, "omega": 1.2, **changes}
    return kz.Model.from_equations(
        "x'' + c*x' + x + k3*x**3 = B*cos(omega*t)",
        parameters=values,
        period="2*pi/omega",
        start={"x": 0.3, "x'": 0.0},
        name="duffing",
    )


def estimate(model, covariance, names=("c", "k3")):
    made = kz.Estimate(names, {n: model.values[n] for n in names}, np.array(covariance), "by hand")
    return made.with_(model=model)


def folds(model):
    return kz.follow(model, None, "omega", (1.1, 2.2), direction=1).of(Kind.FOLD)


def test_folds_move_as_differences_say():
    names, step = ("c", "k3", "B"), 1e-5
    base = folds(oscillator())
    for i in range(2):
        slopes = bifurcation_gradient(base[i], names)
        for name, slope in zip(names, slopes, strict=True):
            value = oscillator().values[name]
            ahead = folds(oscillator(**{name: value + step}))[i].value
            behind = folds(oscillator(**{name: value - step}))[i].value
            assert slope == pytest.approx((ahead - behind) / (2 * step), rel=1e-5, abs=1e-7)


def steep(model, rate=3.0):
    """The oscillator with a follower y whose disturbances grow by exp(3 t): folds and points in x stay."""
    values = {**model.values, "s": rate}
    return kz.Model.from_equations(
        ["x'' + c*x' + x + k3*x**3 = B*cos(omega*t)", "y' - s*y - x = 0"],
        parameters=values,
        period="2*pi/omega",
        name="duffing with an unstable follower",
    )


def test_on_several_nodes_everything_moves_as_on_one():
    names, covariance = ("c", "k3"), np.diag([1e-6, 4e-6])
    plain, model = oscillator(), steep(oscillator())
    x, v = kz.solve_orbit(plain).points[0]
    start = {"x": x, "x'": v, "y": -x / 3}
    branch = kz.follow(model, start, "omega", (1.1, 2.0), direction=1, posterior=estimate(model, covariance))
    assert branch.counts.max() > 4
    assert len(branch) < 150
    expected = folds(plain)
    for fold, known in zip(branch.of(Kind.FOLD), expected, strict=True):
        assert np.abs(fold.multipliers).max() > 1e4
        assert moving_family(fold, names)[0].inner.fractions.size > 4
        assert bifurcation_gradient(fold, names) == pytest.approx(bifurcation_gradient(known, names), rel=1e-8)
        assert fold.value == pytest.approx(known.value, abs=1e-10)
    assert np.isfinite(branch.deviations).all()
    place = len(branch) // 2
    omega = float(branch.values[place, 0])
    same = kz.follow(oscillator(omega=omega), branch.points[place, [0, 2]], "omega", (0.99 * omega, 1.01 * omega),
                     direction=1, posterior=estimate(plain, covariance))  # fmt: skip
    assert branch.deviations[place, [0, 2]] == pytest.approx(same.deviations[0], rel=1e-6)
    # The follower: y moves by the same parameters, as differences say.
    slopes = []
    for name in names:
        moved = [
            kz.solve_orbit(
                model.with_values(**{name: model.values[name] + d, "omega": omega}),
                branch.points[place],
                method=kz.MultipleShooting(nodes=8),
            ).points[0, 1]
            for d in (1e-5, -1e-5)
        ]
        slopes.append((moved[0] - moved[1]) / 2e-5)
    expected_y = np.sqrt(np.array(slopes) @ covariance @ np.array(slopes))
    assert branch.deviations[place, 1] == pytest.approx(expected_y, rel=1e-4)


def test_a_hopf_point_moves_as_the_closed_form_says():
    """ρ_H = σ(σ + β + 3)/(σ - β - 1)."""
    model = kz.library.lorenz().with_values(rho=23.0)
    x = np.sqrt(8 / 3 * 22)
    rest = kz.follow(model, {"x": x, "y": x, "z": 22.0}, "rho", (22, 26), equilibrium=True, direction=1)
    slopes = bifurcation_gradient(rest.of(Kind.HOPF)[0], ("sigma", "beta"))

    def place(sigma, beta):
        return sigma * (sigma + beta + 3) / (sigma - beta - 1)

    exact = [
        (place(10 + 1e-6, 8 / 3) - place(10 - 1e-6, 8 / 3)) / 2e-6,
        (place(10, 8 / 3 + 1e-6) - place(10, 8 / 3 - 1e-6)) / 2e-6,
    ]
    assert slopes == pytest.approx(exact, rel=1e-5)


def test_a_doubling_moves_as_differences_say():
    model = kz.library.pendulum_on_spring().with_values(a=2.4)
    rest = {"y": 0, "theta": 0, "y'": 0, "theta'": 0}

    def doubling(**changes):
        branch = kz.follow(model.with_values(**changes), rest, "a", (2.3, 3.0), direction=1)
        return branch.of(Kind.DOUBLING)[0]

    (slope,) = bifurcation_gradient(doubling(), ("kappa",))
    step = 1e-6
    ahead, behind = doubling(kappa=7.5e-3 + step).value, doubling(kappa=7.5e-3 - step).value
    assert slope == pytest.approx((ahead - behind) / (2 * step), rel=1e-4)


def test_a_branch_carries_the_uncertainty_of_its_fit():
    model = oscillator()
    covariance = np.diag([1e-6, 4e-6])
    branch = kz.follow(model, None, "omega", (1.1, 2.2), direction=1, posterior=estimate(model, covariance))
    fold = branch.of(Kind.FOLD)[0]
    slopes = bifurcation_gradient(fold, ("c", "k3"))
    deviation = np.sqrt(slopes @ covariance @ slopes)
    assert fold.deviation == pytest.approx(deviation)
    assert fold.interval == pytest.approx((fold.value - 1.6449 * deviation, fold.value + 1.6449 * deviation), rel=1e-6)
    assert branch.deviations.shape == branch.points.shape
    # A point away from folds moves as solving again says.
    other = kz.solve_orbit(oscillator(k3=1.0 + 1e-4, omega=float(branch.values[0, 0])), branch.points[0])
    one = kz.follow(model, None, "omega", (1.1, 1.3), direction=1, posterior=estimate(model, [[1e-8]], ("k3",)))
    assert one.deviations[0] == pytest.approx(np.abs(other.points[0] - branch.points[0]), rel=1e-2, abs=1e-9)


def test_a_posterior_that_does_not_fit_the_branch_is_refused():
    model = oscillator()
    with pytest.raises(kz.KapitzaError, match="was not followed at the estimate"):
        kz.follow(model, None, "omega", (1.1, 1.3), posterior=estimate(oscillator(c=0.2), np.eye(2)))
    failed = kz.Estimate(("c",), {"c": 0.1}, np.eye(1), "by hand", status=Status.DIVERGED)
    with pytest.raises(kz.KapitzaError, match="no posterior"):
        kz.follow(model, None, "omega", (1.1, 1.3), posterior=failed)
    with pytest.raises(kz.KapitzaError, match="takes an Estimate"):
        kz.follow(model, None, "omega", (1.1, 1.3), posterior={"c": 0.1})
