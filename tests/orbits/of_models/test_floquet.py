"""Multipliers of long products, stability at the circle, certificates, the low-level solver, figures."""

import matplotlib
import mpmath
import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import KapitzaError, Status
from kapitza.orbits.of_models import OrbitSolver, certify
from kapitza.orbits.of_models.floquet import certificate, log_determinant, match, monodromy, stability
from kapitza.report import plot_multipliers, plot_profile

matplotlib.use("Agg")


def similar_segments(values, count, seed=0):
    """Segments X_{j+1} D X_j⁻¹ around a cycle: the product is X_0 D^count X_0⁻¹."""
    rng = np.random.default_rng(seed)
    frames = np.linalg.qr(rng.normal(size=(count, len(values), len(values))))[0]
    ahead = np.roll(frames, -1, axis=0)
    return ahead @ np.diag(values) @ np.swapaxes(frames, 1, 2)


def test_multipliers_of_a_product_that_doubles_cannot_hold():
    """20^40 = 1e52 beside 0.05^40 = 1e-52: relative errors stay at the rounding of the factors."""
    found = monodromy(similar_segments([20.0, 1.0, 0.05], 40)).multipliers
    exact = np.array([20.0, 1.0, 0.05]) ** 40
    np.testing.assert_allclose(found.real, exact, rtol=1e-11)


def test_small_multipliers_of_one_factor_keep_the_digits_it_holds():
    """Those of the matrix as it is, by arithmetic of 60 digits: the smallest lies far below the rounding of doubles."""
    mixing = np.random.default_rng(1).normal(size=(3, 3))
    factor = mixing @ np.diag([1e5, 1.0, 1e-9]) @ np.linalg.inv(mixing)
    with mpmath.workdps(60):
        exact = sorted((complex(v) for v in mpmath.eig(mpmath.matrix(factor.tolist()))[0]), key=abs, reverse=True)
    plain = np.linalg.eigvals(factor)
    plain, found = plain[np.argsort(-np.abs(plain))], monodromy(factor[None]).multipliers
    np.testing.assert_allclose(found[:2], exact[:2], rtol=1e-13)
    assert abs(found[2] - exact[2]) < 0.01 * abs(plain[2] - exact[2])


def test_pairs_of_multipliers_stay_conjugate():
    turn = np.array([[0.3, -2.0, 0.1], [1.7, 0.4, 0.2], [0.0, 0.3, 1e-6]])
    found = monodromy(turn[None]).multipliers
    assert found[0] == found[1].conj() != found[1]
    assert found[2].imag == 0


def test_eigenvectors_belong_to_the_multipliers():
    segments = similar_segments([3.0, 0.2], 6, seed=4)
    result = monodromy(segments)
    product = np.linalg.multi_dot(list(segments[::-1]))
    for i, value in enumerate(result.multipliers):
        vector = result.right[:, i]
        np.testing.assert_allclose(product @ vector, value * vector, atol=1e-10 * abs(result.multipliers[0]))
    np.testing.assert_allclose(result.left.conj().T @ result.right, np.eye(2), atol=1e-10)


def test_singular_segments_give_a_zero_multiplier():
    segments = np.stack([np.diag([2.0, 0.0]), np.diag([1e4, 5.0])])
    np.testing.assert_allclose(np.abs(monodromy(segments).multipliers), [2e4, 0.0])
    assert np.isnan(log_determinant(segments))


def test_stability_is_unknown_inside_the_defect():
    values = np.array([1.0 + 1e-6, 0.5], complex)
    assert stability(values, 1e-8, trivial=False) == "unstable"
    assert stability(values, 1e-5, trivial=False) == "unknown"
    assert stability(np.array([1.0, 0.5], complex), 1e-8, trivial=True) == "stable"
    assert stability(np.array([np.nan, 0.5], complex), 0.0, trivial=False) == "unknown"


def test_certificate_measures_each_defect():
    trust = certificate(np.array([1 + 1e-7, 0.3], complex), -1.0, -1.0 - 1e-6, trivial=True)
    assert trust.trivial == pytest.approx(1e-7)
    assert trust.determinant == pytest.approx(1e-6, rel=1e-3)
    assert trust.defect == pytest.approx(1e-6, rel=1e-3)
    assert match(np.array([2.0, 1j]), np.array([1j, 2.0 + 2e-3])) == pytest.approx(1e-3, rel=1e-2)


def test_certify_compares_two_methods():
    model = kz.library.duffing()
    orbit = certify(model, kz.solve_orbit(model, {"x": -0.2}))
    assert orbit.certificate.agreement < 1e-9
    with pytest.raises(KapitzaError, match="no multipliers"):
        certify(model, orbit.with_(multipliers=None))


def test_low_level_solver_gives_the_same_orbit():
    pendulum, lorenz = kz.library.parametric_pendulum(), kz.library.lorenz()
    for model, start, period in ((pendulum, (2.9668, 6.4066), 1), (lorenz, (-13.76, -19.58, 27.0), 1.5586)):
        full = kz.solve_orbit(model, start, period)
        quick = OrbitSolver(model, period).solve(np.array(start))
        assert quick.status is Status.CONVERGED
        np.testing.assert_allclose(quick.point, full.points[0], atol=1e-9)
        assert quick.period == pytest.approx(full.period, abs=1e-11)
        np.testing.assert_allclose(quick.multipliers[:2], full.multipliers[:2], rtol=1e-7)
    assert OrbitSolver(pendulum).solve(np.array([np.nan, 0.0])).status is not Status.CONVERGED


def test_figures_are_drawn():
    import matplotlib.pyplot as plt

    model = kz.library.parametric_pendulum()
    orbits = [kz.solve_orbit(model, s) for s in ({"phi": 0.0}, {"phi": 2.9668, "phi'": 6.4066})]
    assert len(plot_profile(orbits[1]).axes) == 2
    assert plot_multipliers(orbits).axes[0].get_xlabel() == "Re μ"
    with pytest.raises(KapitzaError, match="no state"):
        plot_profile(orbits[0], ["psi"])
    with pytest.raises(KapitzaError, match="profile"):
        plot_profile(orbits[0].with_(profile=None))
    plt.close("all")
