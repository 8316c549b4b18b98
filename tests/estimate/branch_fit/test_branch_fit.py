"""Parameters from measured branches: what made the points comes back, with errors as large as they should be."""

import numpy as np
import pytest
from scipy import stats

import kapitza as kz
from kapitza.continuation import Kind
from kapitza.errors import DataError
from kapitza.estimate.branch_fit.curves import Distances, _from_bifurcations

TRUTH = {"c": 0.1, "k3": 1.0, "B": 0.3}


def oscillator(**values):
    return kz.Model.from_equations(
        "x'' + c*x' + x + k3*x**3 = B*cos(omega*t)",
        parameters={**TRUTH, "omega": 1.0, **values},
        period="2*pi/omega",
        start={"x": 0.3, "x'": 0.0},
        name="duffing",
    )


@pytest.fixture(scope="module")
def response():
    return kz.follow(oscillator(omega=0.8), None, "omega", (0.8, 2.1), direction=1)


@pytest.fixture(scope="module")
def measured(response):
    """Points of the response through both folds, the unstable part included, with noise in both directions."""
    chosen = np.linspace(2, len(response) - 3, 30).astype(int)
    random = np.random.default_rng(1)
    omega = response.values[chosen, 0] + 2e-3 * random.standard_normal(30)
    amplitude = response.amplitude("x", 256)[chosen] + 5e-3 * random.standard_normal(30)
    return kz.MeasuredBranch("response", "omega", omega, amplitude, "x", value_noise=2e-3, amplitude_noise=5e-3)


def test_a_response_gives_damping_and_stiffness(measured):
    start = oscillator(c=0.12, k3=0.9)
    fit = kz.identify(start, measured, free=["c", "k3"], method=kz.BranchFit(bounds=(0.75, 2.15)))
    assert fit.status.ok
    for name in ("c", "k3"):
        assert abs(fit[name] - TRUTH[name]) < 4 * fit.deviations[name]
        assert fit.deviations[name] < 0.05 * TRUTH[name]
    assert fit.chi2 == pytest.approx(28, abs=4 * np.sqrt(2 * 28))
    assert not fit.warnings


def test_folds_alone_give_two_parameters(response):
    places = [b.value for b in response.of(Kind.FOLD)]
    folds = kz.MeasuredBranch("fold", "omega", places, value_noise=1e-4)
    fit = kz.identify(oscillator(c=0.11, k3=0.95), folds, free=["c", "k3"], method=kz.BranchFit(bounds=(0.8, 2.3)))
    assert fit["c"] == pytest.approx(0.1, rel=1e-5)
    assert fit["k3"] == pytest.approx(1.0, rel=1e-5)


def test_a_response_and_its_folds_share_their_branch(measured, response):
    places = [b.value for b in response.of(Kind.FOLD)]
    folds = kz.MeasuredBranch("fold", "omega", places[::-1], value_noise=1e-3)
    method = kz.BranchFit(bounds=(0.75, 2.2))
    fit = kz.identify(oscillator(c=0.11, k3=0.95), [measured, folds], free=["c", "k3"], method=method)
    assert fit.chi2 == pytest.approx(30, abs=4 * np.sqrt(2 * 30))
    for name in ("c", "k3"):
        assert abs(fit[name] - TRUTH[name]) < 4 * fit.deviations[name]


def test_two_measured_folds_are_two_folds_of_the_model(response):
    """Both near the upper one: the second still belongs to the lower one, and the data do not fit."""
    folds = kz.MeasuredBranch("fold", "omega", [1.78, 1.77], value_noise=1e-2)
    distances = _from_bifurcations(folds, response)
    assert distances == pytest.approx([(1.7797195243 - 1.78) / 1e-2, (1.3242362008 - 1.77) / 1e-2], abs=1e-6)


def test_a_doubling_gives_the_damping_of_a_hanging_pendulum():
    """The hanging state loses its stability to half the frequency at a force that grows with the pendulum's damping."""
    model = kz.library.pendulum_on_spring()
    rest = {"y": 0, "theta": 0, "y'": 0, "theta'": 0}
    place = 0.01320818105 * np.hypot(13 * 0.1, 200.0)
    seen = kz.MeasuredBranch("period doubling", "a", [place], value_noise=1e-3)
    truth = model.values["kappa"]
    method = kz.BranchFit(bounds=(2.2, 3.2), start=rest)
    fit = kz.identify(model.with_values(kappa=0.97 * truth), seen, free="kappa", method=method)
    assert fit["kappa"] == pytest.approx(truth, rel=1e-6)
    # One place, one parameter: the interval is the noise over the slope.
    ahead = kz.follow(model.with_values(a=2.2, kappa=1.001 * truth), rest, "a", (2.2, 3.2), direction=1)
    slope = (ahead.of(Kind.DOUBLING)[0].value - place) / (1e-3 * truth)
    assert fit.deviations["kappa"] == pytest.approx(abs(1e-3 / slope), rel=1e-2)


def test_a_backbone_gives_the_cubic_stiffness():
    spine = kz.backbone(oscillator(), "omega", force="B", damping="c", bounds=(0.9, 1.8))
    chosen = np.arange(2, len(spine), 3)
    data = kz.MeasuredBranch(
        "backbone", "omega", spine.values[chosen, 0], spine.points[chosen, 0], "x", 1e-3, 1e-3, force="B", damping="c"
    )
    method = kz.BranchFit(bounds=(0.9, 1.85))
    fit = kz.identify(oscillator(k3=0.8), data, free="k3", method=method)
    assert fit["k3"] == pytest.approx(1.0, rel=1e-3)


def test_what_is_no_branch_is_refused(measured):
    with pytest.raises(DataError, match="kind = 'cusp'"):
        kz.MeasuredBranch("cusp", "omega", [1.0])
    with pytest.raises(DataError, match="do not pair"):
        kz.MeasuredBranch("response", "omega", [1.0, 2.0], [1.0], "x")
    with pytest.raises(DataError, match="needs amplitudes"):
        kz.MeasuredBranch("response", "omega", [1.0, 2.0])
    with pytest.raises(DataError, match="force and damping"):
        kz.MeasuredBranch("backbone", "omega", [1.0], [1.0], "x")
    with pytest.raises(DataError, match="more than 0"):
        kz.MeasuredBranch("fold", "omega", [1.0], value_noise=0.0)
    with pytest.raises(DataError, match="cannot be free"):
        kz.identify(oscillator(), measured, free=["omega"])
    record = kz.simulate(oscillator(), periods=2)
    with pytest.raises(DataError, match="not on a record"):
        kz.identify(oscillator(), record, free=["c"], method=kz.BranchFit())
    orbit = kz.solve_orbit(oscillator())
    for data in (measured, [orbit, measured]):
        with pytest.raises(DataError, match=r"OrbitFit works on .*, not on a measured branch: .*BranchFit"):
            kz.identify(oscillator(), data, free=["c"], method=kz.OrbitFit())


def test_moments_of_distances_at_a_tip_are_those_of_a_circle():
    """A point on a circle of radius R, with unit noise in both directions, is |p| from the middle: Rice's law."""
    angle = np.linspace(0.0, 2 * np.pi, 6000)
    for radius in (3.0, 10.0):
        circle = radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        foot = 2000
        normal = np.array([[-np.cos(angle[foot])], [-np.sin(angle[foot])]])[None]  # counter-clockwise the left
        mean, deviation = Distances(np.zeros(1), 0.0, circle, np.ones((1, 2)), np.array([foot]), normal).moments()
        law = stats.rice(radius)
        assert mean[0] == pytest.approx(radius - law.mean(), rel=0.02)
        assert deviation[0] == pytest.approx(law.std(), rel=0.02)


def test_limit_cycles_through_their_fold_give_growth_and_frequency():
    """r' = r (μ + r² - a r⁴), φ' = w + b r²: a r² = (1 ± √(1 + 4 a μ))/2, with a fold of cycles at μ = -1/(4 a)."""
    truth = {"a": 1.0, "w": 1.0, "b": 0.3}
    model = kz.Model.from_equations(
        ["x' = x*(mu + x**2 + y**2 - a*(x**2 + y**2)**2) - y*(w + b*(x**2 + y**2))",
         "y' = y*(mu + x**2 + y**2 - a*(x**2 + y**2)**2) + x*(w + b*(x**2 + y**2))"],
        parameters={**truth, "mu": -0.1}, start={"x": 1.0, "y": 0.0}, name="subcritical",
    )  # fmt: skip
    random = np.random.default_rng(4)
    square = np.concatenate([np.linspace(0.15, 0.45, 6), np.linspace(0.55, 1.05, 8)])
    noise = np.where(square < 0.5, 2e-3, 4e-3)
    mu = square**2 - square + 1e-3 * random.standard_normal(square.size)
    radius = np.sqrt(square) + noise * random.standard_normal(square.size)
    periods = 2 * np.pi / (1 + 0.3 * square) + 5e-3 * random.standard_normal(square.size)
    data = kz.MeasuredBranch(
        "cycle", "mu", mu, radius, "x", 1e-3, noise, periods=periods, period_noise=5e-3,
    )  # fmt: skip
    fit = kz.identify(model.with_values(a=1.1, w=0.95, b=0.36), data, free=list(truth))
    assert fit.status.ok
    assert fit.misfit.to_the_noise
    for name, value in truth.items():
        assert abs(fit[name] - value) < 3.5 * fit.deviations[name]
        assert fit.deviations[name] < 0.05 * value
    with pytest.raises(DataError, match="do not pair"):
        kz.MeasuredBranch("cycle", "mu", mu, radius, "x", periods=[1.0])
    with pytest.raises(DataError, match='belong to points of kind "response"'):
        kz.MeasuredBranch("cycle", "mu", mu, radius, "x", phases=radius)
    with pytest.raises(DataError, match="one for each"):
        kz.MeasuredBranch("cycle", "mu", mu, radius, "x", [1e-3, 1e-3])


LINEAR = {"c": 0.2, "k": 1.0, "B": 0.3}


def linear(**values):
    return kz.Model.from_equations(
        "x'' + c*x' + k*x = B*cos(omega*t)", parameters={**LINEAR, "omega": 0.6, **values}, period="2*pi/omega",
        start={"x": 0.3, "x'": 0.0},
    )  # fmt: skip


def transfer(omega, k3=0.0):
    return LINEAR["B"] / (LINEAR["k"] - omega**2 + 1j * LINEAR["c"] * omega)


def test_amplitudes_leave_the_sign_of_a_force_and_phases_tell_it():
    """x = Re(B e^{iωt}/(k - ω² + i c ω)): the sign of B is that of the phase alone."""
    omega = np.linspace(0.6, 1.5, 12)
    exact = transfer(omega)
    random = np.random.default_rng(2)
    heights = np.abs(exact) + 2e-3 * random.standard_normal(12)
    angles = np.angle(exact) + 4e-3 * random.standard_normal(12) + 2 * np.pi * random.integers(-1, 2, 12)
    method = kz.BranchFit(bounds=(0.5, 1.6))
    plain = kz.MeasuredBranch("response", "omega", omega, heights, "x", 1e-3, 2e-3)
    fit = kz.identify(linear(c=0.3, B=-0.2), plain, free=list(LINEAR), method=method)
    assert fit["B"] == pytest.approx(-0.3, rel=0.05)
    whole = kz.MeasuredBranch("response", "omega", omega, heights, "x", 1e-3, 2e-3, phases=angles, phase_noise=4e-3)
    told = kz.identify(linear(c=0.3, B=0.2), whole, free=list(LINEAR), method=method)
    for name, value in LINEAR.items():
        assert abs(told[name] - value) < 3.5 * told.deviations[name]
        assert told.deviations[name] < fit.deviations[name]


def test_a_model_that_is_a_little_wrong_gets_a_verdict_and_wider_intervals():
    """Points of a hardening spring for a linear one: halves of the response prefer other stiffnesses."""
    branch = kz.follow(oscillator(omega=0.5, c=0.4, k3=0.12), None, "omega", (0.5, 1.6), direction=1)
    chosen = np.linspace(1, len(branch) - 2, 16).astype(int)
    random = np.random.default_rng(3)
    heights = branch.amplitude("x")[chosen] + 2e-3 * random.standard_normal(16)
    data = kz.MeasuredBranch("response", "omega", branch.values[chosen, 0], heights, "x", 1e-4, 2e-3)
    start = linear(c=0.4, B=0.3)
    fit = kz.identify(start, data, free=["c", "k"], method=kz.BranchFit(bounds=(0.45, 1.65)))
    assert fit.status.ok
    assert not fit.misfit.to_the_noise
    assert any("miss the data" in text for text in fit.warnings)
    assert fit.dof < 20
    wide, narrow = fit.interval(0.9), fit.noise_interval(0.9)
    assert (wide.high - wide.low > 2 * (narrow.high - narrow.low)).all()


def test_points_that_do_not_tell_parameters_apart_give_values_without_intervals():
    """Amplitudes over a force that only the product of two parameters sets."""
    model = kz.Model.from_equations(
        "x'' + 0.3*x' + x = F*G*cos(omega*t)", parameters={"F": 0.5, "G": 0.6, "omega": 0.6}, period="2*pi/omega"
    )
    omega = np.linspace(0.6, 1.4, 8)
    heights = 0.3 / np.abs(1 - omega**2 + 0.3j * omega)
    data = kz.MeasuredBranch("response", "omega", omega, heights, "x", 1e-4, 1e-3)
    fit = kz.identify(model, data, free=["F", "G"], method=kz.BranchFit(bounds=(0.5, 1.5)))
    assert np.isinf(fit.deviations["F"])
    assert any("do not determine F, G" in text for text in fit.warnings)
    assert fit["F"] * fit["G"] == pytest.approx(0.3, rel=1e-3)
