"""Differences, collocation and harmonic balance: orders of convergence, agreement, what they say when too coarse."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import ConvergenceError, KapitzaError, Status
from kapitza.orbits.of_models.loop import fourier_series


@pytest.fixture(scope="module")
def duffing():
    model = kz.library.duffing().with_values(k=0.08, B=0.2)
    return model, kz.solve_orbit(model, {"x": -1.2, "x'": 0.3})


def errors(model, orbit, methods):
    return [np.abs(kz.solve_orbit(model, orbit, method=m).points[0] - orbit.points[0]).max() for m in methods]


@pytest.mark.parametrize("order", [2, 4])
def test_differences_converge_at_their_order(duffing, order):
    coarse, fine = errors(*duffing, [kz.Differences(order=order, points=n) for n in (101, 303)])
    assert np.log(coarse / fine) / np.log(3) == pytest.approx(order, abs=0.25)


@pytest.mark.parametrize("degree", [2, 3, 4])
def test_collocation_superconverges_at_the_nodes(duffing, degree):
    """Order 2m at mesh points (C. de Boor and B. Swartz, SIAM J. Numer. Anal. 10 (1973) 582)."""
    sizes = {2: (20, 40), 3: (16, 32), 4: (20, 40)}[degree]
    coarse, fine = errors(*duffing, [kz.Collocation(degree, n, adapt=False) for n in sizes])
    assert np.log2(coarse / fine) == pytest.approx(2 * degree, abs=0.5)


@pytest.mark.parametrize("method", [kz.Collocation(4, 20, adapt=False), kz.Differences(points=101)])
def test_a_grid_that_is_never_refined_has_no_change_to_report(duffing, method):
    model, orbit = duffing
    assert np.isnan(kz.solve_orbit(model, orbit, method=method).solver.change)


def test_smooth_methods_agree(duffing):
    model, orbit = duffing
    others = [kz.MultipleShooting(), kz.Collocation(), kz.Differences(), kz.HarmonicBalance()]
    for method in others:
        found = kz.solve_orbit(model, orbit, method=method)
        assert np.abs(found.points - orbit.points).max() < 1e-8
        assert np.abs(np.sort_complex(found.multipliers) - np.sort_complex(orbit.multipliers)).max() < 1e-8
        assert found.closure < 1e-10
        assert found.certificate.determinant < 1e-8


@pytest.mark.parametrize("method", [kz.Collocation(), kz.Differences(), kz.HarmonicBalance()])
def test_autonomous_orbit_and_its_trivial_multiplier(method):
    start = (-13.763610682134, -19.578751942452, 27.0)
    orbit = kz.solve_orbit(kz.library.lorenz(), start, 1.5586, method=method)
    assert orbit.period == pytest.approx(1.558652210716175, abs=1e-11)
    assert orbit.certificate.trivial < 1e-8


@pytest.mark.parametrize("method", [kz.Collocation(), kz.Differences(points=801), kz.HarmonicBalance()])
def test_sensitivities_agree_with_shooting(method):
    """A winding orbit and the drive frequency, which changes the period too."""
    model = kz.library.parametric_pendulum()
    start = {"phi": 2.9668, "phi'": 6.4066}
    names = ["omega", "l"]
    shot = kz.solve_orbit(model, start, wrt=names).sensitivity
    found = kz.solve_orbit(model, start, method=method, wrt=names).sensitivity
    np.testing.assert_allclose(found.points, shot.points, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(found.multipliers, shot.multipliers, rtol=1e-4)


def test_too_few_harmonics_are_named(duffing):
    model, orbit = duffing
    with pytest.raises(ConvergenceError, match="Too few harmonics") as caught:
        kz.solve_orbit(model, orbit, method=kz.HarmonicBalance(harmonics=3))
    assert caught.value.result.status is Status.UNRESOLVED
    assert kz.solve_orbit(model, orbit, method=kz.HarmonicBalance(harmonics=3, tolerance=0.1)).status.ok


def test_settings_out_of_range_are_refused():
    for make in (
        lambda: kz.Collocation(degree=8),
        lambda: kz.Collocation(elements=1),
        lambda: kz.Differences(order=3),
        lambda: kz.Differences(points=2),
        lambda: kz.HarmonicBalance(harmonics=0),
        lambda: kz.MultipleShooting(nodes=0),
    ):
        with pytest.raises(KapitzaError):
            make()


def test_guesses_of_every_kind_lead_to_the_same_orbit(duffing):
    model, orbit = duffing
    series = fourier_series(orbit.profile.states, orbit.period, np.zeros(2))
    record = kz.Record.from_arrays(orbit.profile.times, {"x": orbit.profile.states[:, 0]})
    for guess in (
        orbit,
        series,
        orbit.profile.states,
        orbit.points[0],
        record,
        dict(zip(model.states, orbit.points[0], strict=True)),
    ):
        for method in (kz.Shooting(), kz.HarmonicBalance()):
            found = kz.solve_orbit(model, guess, method=method)
            assert np.abs(found.points - orbit.points).max() < 1e-10


def test_a_start_from_nothing_finds_an_attractor():
    orbit = kz.solve_orbit(kz.library.duffing().with_values(k=0.3, B=0.2))
    assert orbit.stability == "stable"


def test_representations_convert_without_loss(duffing):
    """Each solver's own curve, handed to the flow node by node, stays within rounding of the orbit."""
    model, orbit = duffing
    grid = np.linspace(0, 1, 50)
    shot = orbit.loop(grid)
    for method in (kz.Collocation(), kz.HarmonicBalance()):
        curve = kz.solve_orbit(model, orbit, method=method).loop
        np.testing.assert_allclose(curve(grid), shot, atol=1e-7)
    series = kz.solve_orbit(model, orbit, method=kz.HarmonicBalance()).loop
    back = fourier_series(series(np.arange(400) / 400), series.period, series.winding, series.harmonics)
    np.testing.assert_allclose(back.cosines, series.cosines, atol=1e-14)
