"""Shooting and multiple shooting on orbits whose period, multipliers or determinant are known."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import ConvergenceError, FlowError, KapitzaError, Status
from kapitza.flow import count_builds
from kapitza.orbits.of_models import OrbitSolver

AB = (-13.763610682134, -19.578751942452, 27.0)


@pytest.mark.parametrize("method", [kz.Shooting(), kz.MultipleShooting(), kz.MultipleShooting(nodes=7)])
def test_lorenz_ab_has_the_published_period(method):
    orbit = kz.solve_orbit(kz.library.lorenz(), AB, 1.5586, method=method)
    assert orbit.period == pytest.approx(1.558652210716175, abs=1e-12)
    assert orbit.certificate.trivial < 1e-8
    assert orbit.closure < 1e-12
    assert orbit.stability == "unstable"
    # Liouville: the product of the multipliers is exp of -(σ + 1 + β) T; only multiple shooting resolves 1.2e-10.
    product = np.prod(orbit.multipliers)
    assert product.real == pytest.approx(np.exp(-(10 + 1 + 8 / 3) * orbit.period), rel=1e-4)


def test_lorenz_aab_has_the_published_period():
    """T = 2.3059072639398 for AAB (Viswanath 2003, and D. Barrio's tables to more digits)."""
    start = (-12.595115397689, -16.970525307084, 27.0)
    orbit = kz.solve_orbit(kz.library.lorenz(), start, 2.3059, method=kz.MultipleShooting())
    assert orbit.period == pytest.approx(2.3059072639398, abs=1e-10)
    assert orbit.certificate.defect < 1e-8


def test_linear_oscillator_is_solved_in_closed_form():
    """x'' + 2ζ x' + x = F cos ωt: the periodic motion and the multipliers exp(λT) are elementary."""
    model = kz.Model.from_equations(
        "x'' + 0.2*x' + x = F*cos(omega*t)", coordinates=["x"], parameters={"F": 0.7, "omega": 1.3}, period="2*pi/omega"
    )
    orbit = kz.solve_orbit(model, {"x": 3.0, "x'": -2.0})
    amplitude = 0.7 / (1 - 1.3**2 + 0.2j * 1.3)
    np.testing.assert_allclose(orbit.points[0], [amplitude.real, -1.3 * amplitude.imag], atol=1e-12)
    roots = np.roots([1, 0.2, 1])
    exact = np.exp(roots * 2 * np.pi / 1.3)
    np.testing.assert_allclose(np.sort_complex(orbit.multipliers), np.sort_complex(exact), atol=1e-11)
    assert orbit.stability == "stable"
    assert orbit.certificate.determinant < 1e-12


def test_sensitivity_of_the_linear_oscillator_is_exact():
    """Derivatives of the point and of the multipliers by F and ω, the period changing with ω."""
    model = kz.Model.from_equations(
        "x'' + 0.2*x' + x = F*cos(omega*t)", coordinates=["x"], parameters={"F": 0.7, "omega": 1.3}, period="2*pi/omega"
    )

    def point(force, rate):
        amplitude = force / (1 - rate**2 + 0.2j * rate)
        return np.array([amplitude.real, -rate * amplitude.imag])

    for method in (kz.Shooting(), kz.MultipleShooting(nodes=5)):
        orbit = kz.solve_orbit(model, {"x": 0.0}, method=method, wrt=["F", "omega"])
        found = orbit.sensitivity
        h = 1e-5
        np.testing.assert_allclose(found.points[0][:, 0], point(1.0, 1.3), atol=1e-10)
        np.testing.assert_allclose(
            found.points[0][:, 1], (point(0.7, 1.3 + h) - point(0.7, 1.3 - h)) / (2 * h), atol=1e-8
        )
        roots = np.roots([1, 0.2, 1])
        exact = np.array([m * roots[np.argmin(np.abs(np.exp(roots * orbit.period) - m))] for m in orbit.multipliers])
        np.testing.assert_allclose(found.multipliers[:, 1], exact * -2 * np.pi / 1.3**2, rtol=1e-6)
        np.testing.assert_allclose(found.multipliers[:, 0], 0, atol=1e-8)


def test_autonomous_sensitivity_follows_the_family():
    """dT/dρ of the Lorenz orbit AB against orbits at ρ ± h."""
    model = kz.library.lorenz()
    orbit = kz.solve_orbit(model, AB, 1.5586, wrt=["rho"])
    h = 1e-3
    near = [kz.solve_orbit(model.with_values(rho=28 + s * h), orbit).period for s in (1, -1)]
    assert orbit.sensitivity.period[0] == pytest.approx((near[0] - near[1]) / (2 * h), rel=1e-6)


def test_wrong_period_is_named():
    model = kz.library.parametric_pendulum()
    with pytest.raises(ConvergenceError, match="shorter period") as caught:
        kz.solve_orbit(model, {"phi": 2.9668, "phi'": 6.4066}, period=2)
    assert caught.value.result.status is Status.WRONG_PERIOD


def test_equilibrium_of_an_autonomous_model_is_not_an_orbit():
    model = kz.Model.from_equations("x'' + 0.5*x' + x = 0", coordinates=["x"])
    with pytest.raises(ConvergenceError):
        kz.solve_orbit(model, {"x": 1.0}, period=6.0)


def test_an_orbit_that_does_not_exist_is_refused_with_a_cure():
    """x'' = 1 + 0.1 cos t has no bounded motion."""
    model = kz.Model.from_equations("x'' = 1 + 0.1*cos(t)", coordinates=["x"], period="2*pi")
    failed = kz.solve_orbit(model, {"x": 0.0}, throw=False)
    assert failed.status in (Status.SINGULAR, Status.STALLED, Status.DIVERGED)
    with pytest.raises(ConvergenceError, match="No orbit of"):
        kz.solve_orbit(model, {"x": 0.0})


def test_input_that_contradicts_itself_is_refused():
    duffing, lorenz = kz.library.duffing(), kz.library.lorenz()
    with pytest.raises(KapitzaError, match="excitation periods"):
        kz.solve_orbit(duffing, {"x": 0.0}, period=1.5)
    with pytest.raises(KapitzaError, match="autonomous"):
        kz.solve_orbit(lorenz, AB)
    with pytest.raises(KapitzaError, match="does not fit"):
        kz.solve_orbit(duffing, np.zeros(3))
    with pytest.raises(KapitzaError, match="names q"):
        kz.solve_orbit(duffing, {"q": 0.0})
    with pytest.raises(KapitzaError, match=r"give a Method|not a periodic solver"):
        kz.solve_orbit(duffing, {"x": 0.0}, method="shooting")


def test_the_solver_for_sweeps_takes_parameters():
    """One compiled solver at other values gives what solve_orbit gives for the changed model."""
    model = kz.library.duffing()
    solver = OrbitSolver(model)
    here = solver.solve(np.array([-0.2, 0.0]))
    there = solver.solve(here.point, parameters={"B": 0.25})
    other = kz.solve_orbit(model.with_values(B=0.25), there.point)
    assert there.status.ok
    assert there.point == pytest.approx(other.points[0], abs=1e-10)
    assert np.abs(there.point - here.point).max() > 1e-3


@pytest.mark.parametrize("name", ["duffing", "parametric_pendulum"])
def test_a_sweep_looks_along_no_orbit_until_it_is_asked_to_and_then_once(name, monkeypatch):
    """Profile, change of volume and closure share one run, which a sweep that wants the points alone does not make."""
    model = getattr(kz.library, name)()
    orbit = kz.solve_orbit(model)
    runs = []
    core = type(kz.Flow(model).core)
    sample = core.sample
    monkeypatch.setattr(core, "sample", lambda *given, **named: runs.append(1) or sample(*given, **named))
    compiled = count_builds()
    for factor in (1.001, 1.002, 1.003):
        values = {n: factor * v for n, v in model.values.items() if n in ("B", "m")}
        orbit = kz.solve_orbit(model.with_values(**values), orbit.points)
    assert runs == []
    assert orbit.profile is not None
    assert orbit.certificate is not None
    assert orbit.closure < 1e-12
    assert len(runs) == 1
    assert count_builds() == compiled


def test_a_record_brings_its_period_along():
    """The circle of radius 1 is the limit cycle, its period 2 pi."""
    model = kz.Model.from_equations(["x' = x - y - x*(x**2 + y**2)", "y' = x + y - y*(x**2 + y**2)"])
    time = np.arange(100) * 0.0625
    record = kz.Record.from_arrays(time, {"x": 1.1 * np.cos(time), "y": np.sin(time)}, period=6.25)
    assert kz.solve_orbit(model, record).period == pytest.approx(2 * np.pi, rel=1e-8)
    with pytest.raises(KapitzaError, match="autonomous: give an approximate period"):
        kz.solve_orbit(model, kz.Record.from_arrays(time, {"x": np.cos(time), "y": np.sin(time)}))


@pytest.mark.parametrize("omega", [0.5, 1.0, 2.0])
def test_an_orbit_is_found_though_the_motion_from_the_start_grows_without_limit(omega):
    """A hardening spring with negative damping makes the motion faster and faster: 300 periods took a minute."""
    text = "x'' + c*x' + x + k*x**3 + q*x'*abs(x') = F*cos(omega*t)"
    values = {"c": -0.03, "k": 0.02, "q": 0.0, "F": 0.25, "omega": omega}
    model = kz.Model.from_equations(text, parameters=values, period="2*pi/omega", start={"x": 0.1, "x'": 0.0})
    orbit = kz.solve_orbit(model)
    # Liouville: a period multiplies areas by exp(-c T).
    assert np.prod(orbit.multipliers).real == pytest.approx(np.exp(0.03 * orbit.period), rel=1e-6)


def test_a_trial_with_a_frequency_below_zero_is_shortened_and_not_an_error_of_the_model():
    """Leaving on the branch of a doubling tried one: "the period is -10.9, check the parameters"."""
    from kapitza.orbits.of_models.problem import pose
    from kapitza.orbits.of_models.shooting import ShootingEquations

    model = kz.Model.from_equations(
        "x'' + 0.2*x' + x = cos(omega*t)", parameters={"omega": 1.2}, period="2*pi/omega", start={"x": 0.1, "x'": 0.0}
    )
    problem = pose(model, None, None, None, ("omega",))
    equations = ShootingEquations(problem, np.zeros(1), None, kz.Flow(model, wrt=("omega",)), ("omega",))
    assert np.isfinite(equations.residual(np.array([0.1, 0.0, 1.2]))).all()
    with pytest.raises(FlowError, match="period"):
        equations.residual(np.array([0.1, 0.0, -1.2]))


def test_a_start_beside_an_unstable_rest_still_leads_to_the_attractor():
    """The motion grows by a thousand after its first periods, and settles."""
    text = "x'' + 0.1*x' - 0.002*x + x**3 = 1e-7*cos(2*t)"
    model = kz.Model.from_equations(text, period="pi", start={"x": 1e-6, "x'": 0.0})
    assert abs(kz.solve_orbit(model).points[0, 0]) == pytest.approx(np.sqrt(0.002), rel=1e-3)
