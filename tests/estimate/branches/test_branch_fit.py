"""Parameters from measured branches: what made the points comes back, with errors as large as they should be."""

import numpy as np
import pytest
from scipy import stats

import kapitza as kz
from kapitza.continuation import Kind
from kapitza.errors import DataError
from kapitza.estimate.branches.fit import _Distances, _from_bifurcations

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
    with pytest.raises(DataError, match="not on record 0"):
        kz.identify(oscillator(), record, free=["c"], method=kz.BranchFit())
    orbit = kz.solve_orbit(oscillator())
    for data in (measured, [orbit, measured]):
        with pytest.raises(DataError, match="OrbitFit works on orbits and records, not on measured branch"):
            kz.identify(oscillator(), data, free=["c"], method=kz.OrbitFit())


def test_moments_of_distances_at_a_tip_are_those_of_a_circle():
    """A point on a circle of radius R, with unit noise in both directions, is |p| from the middle: Rice's law."""
    angle = np.linspace(0.0, 2 * np.pi, 6000)
    for radius in (3.0, 10.0):
        circle = radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        mean, deviation = _Distances(np.zeros(1), 0.0, circle, np.array([2000])).moments()
        law = stats.rice(radius)
        # Counter-clockwise the left is inside.
        assert mean[0] == pytest.approx(radius - law.mean(), rel=0.02)
        assert deviation[0] == pytest.approx(law.std(), rel=0.02)
