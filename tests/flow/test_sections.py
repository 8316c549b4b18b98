"""Sections, knots of measured signals, maps, projection, and records made by simulate."""

import numpy as np
import pytest

from kapitza import Flow, Map, Model, Signal, library, simulate
from kapitza.errors import ModelError
from kapitza.flow import invariants, project
from kapitza.flow.simulation import start_of


def test_section_of_an_oscillator_is_at_its_zeros():
    model = Model.from_equations("x'' + 4*x = 0", coordinates=["x"], name="oscillator")
    times, states = Flow(model).section([0.0, 1.0], "x", 5)
    assert times == pytest.approx(np.pi * np.arange(1, 6), abs=1e-12)
    assert states[:, 1] == pytest.approx(np.ones(5), abs=1e-12)
    both = Flow(model).section([0.0, 1.0], "x", 4, direction=0)
    assert both.times == pytest.approx(np.pi / 2 * np.arange(1, 5), abs=1e-12)
    assert both.directions.tolist() == [-1, 1, -1, 1]


def test_section_at_an_angle_counts_modulo_a_turn():
    """A rotor at constant speed passes phi = 1 once per turn."""
    model = Model.from_equations("phi'' = 0", angles=["phi"], name="rotor")
    crossings = Flow(model).section([0.0, -2.0], "phi - 1", 3, direction=-1)
    assert crossings.times == pytest.approx((2 * np.pi * np.arange(1, 4) - 1) / 2, abs=1e-11)
    assert crossings.states[:, 0] == pytest.approx(1 - 2 * np.pi * np.arange(1, 4), abs=1e-11)


def test_section_in_step_with_the_excitation_loses_nothing():
    """x = -cos t crosses zero at the same phase of every period."""
    model = Model.from_equations("x'' = cos(t)", coordinates=["x"], period="2*pi", name="shaken mass")
    times, _ = Flow(model).section([-1.0, 0.0], "x", 300)
    assert times == pytest.approx(np.pi / 2 + 2 * np.pi * np.arange(300), abs=1e-6)


def test_a_section_on_the_surface_of_a_switch_loses_nothing():
    """The surface x' = 0 is also that of |x'|, so a switch changes its mode at each crossing."""
    model = Model.from_equations("x'' + 0.2*x' + x - 0.28*abs(x)*abs(x') = 0", name="dashpot")
    flow, start = Flow(model), [0.9, 0.4]
    found = flow.section(start, "x'", 6, direction=0)
    times = np.linspace(0.0, found.times[-1] + 0.1, 4001)
    speeds = flow.trajectory(start, times)[:, 1]
    before = np.flatnonzero(speeds[1:] * speeds[:-1] < 0)
    assert found.times == pytest.approx((times[before] + times[before + 1]) / 2, abs=times[1])
    assert found.directions.tolist() == np.sign(speeds[before + 1]).tolist()


@pytest.mark.parametrize("degree", [0, 1, 3])
def test_measured_force_integrates_to_its_polynomials(degree):
    """x'' = F(t) with F piecewise polynomial: the velocity is the antiderivative, exactly, at any time."""
    period = 2.0
    times = np.linspace(0.0, period, 12, endpoint=False)
    values = np.random.default_rng(degree).normal(size=12)
    signal = Signal("F", times, values, period, degree=degree)
    model = Model.from_equations("x'' = c*F", coordinates=["x"], parameters={"c": 1.5}, signals=[signal], name="m")
    flow = Flow(model, wrt=("c",))
    velocity = signal.polynomials.antiderivative()
    once = float(velocity(period))
    for t0, t1 in ((0.0, 0.7), (0.31, 1.99), (0.4, 2 * period + 0.9), (3.7, 1.2)):
        run = flow.propagate([0.0, 0.0], t0, t1)
        expected = sum(s * (np.floor(t / period) * once + velocity(t % period)) for s, t in ((1, t1), (-1, t0)))
        assert run.state[1] == pytest.approx(1.5 * expected, abs=1e-12)
        assert run.sensitivity[1, 0] == pytest.approx(expected, abs=1e-12)
        assert run.jacobian == pytest.approx(np.array([[1.0, t1 - t0], [0.0, 1.0]]), abs=1e-12)
    strobe = flow.strobe([0.0, 0.0], 3)
    assert strobe.states[:, 1] == pytest.approx(1.5 * once * np.arange(4), abs=1e-12)


def test_fourier_signal_equals_the_written_one():
    times = np.linspace(0.0, 2 * np.pi, 32, endpoint=False)
    signal = Signal("F", times, 0.3 * np.cos(times) - 0.1 * np.sin(2 * times), 2 * np.pi, "fourier", harmonics=3)
    common = {"coordinates": ["x"], "parameters": {"k": 0.1}}
    measured = Model.from_equations("x'' + k*x' + x**3 = F", signals=[signal], name="measured", **common)
    written = Model.from_equations(
        "x'' + k*x' + x**3 = 0.3*cos(t) - 0.1*sin(2*t)", period="2*pi", name="written", **common
    )
    ends = [Flow(model).propagate([0.2, 0.1], 0.4, 9.0).state for model in (measured, written)]
    assert ends[0] == pytest.approx(ends[1], abs=1e-12)


def test_strobing_many_equals_strobing_each():
    flow = Flow(library.parametric_pendulum())
    starts = np.random.default_rng(1).uniform(-3.0, 3.0, (5, 2))
    many = flow.strobe_many(starts, 4)
    for i, x in enumerate(starts):
        one = flow.strobe(x, 4)
        assert many.states[:, i] == pytest.approx(one.states, abs=1e-10)
        assert (many.turns[:, i] == one.turns).all()


@pytest.mark.parametrize(
    ("system", "dt"), [(library.henon_heiles, 1.0), (library.planar_double_pendulum, 0.25)], ids=["HH", "pendulum"]
)
def test_energy_stays_on_its_value_for_ten_thousand_time_units(system, dt):
    model = system()
    record = simulate(model, t=np.arange(0.0, 1e4 + dt / 2, dt))
    energy = invariants(model, record.values(model.states))[:, 0]
    assert np.abs(energy - energy[0]).max() / abs(energy[0]) < 1e-12


def test_projection_finds_the_nearest_point():
    """On a circle of radius 2, the nearest point lies on the ray."""
    model = Model.from_equations(
        ["x' = y", "y' = -x"], coordinates=["x", "y"], invariants={"r2": "x**2 + y**2"}, name="circle"
    )
    states = np.array([[2.1, 0.3], [-1.9, 0.4]])
    expected = 2 * states / np.linalg.norm(states, axis=1, keepdims=True)
    assert project(model, states, [4.0]) == pytest.approx(expected, abs=1e-3)
    assert (project(model, states, [4.0]) ** 2).sum(axis=1) == pytest.approx([4.0, 4.0], rel=1e-15)


@pytest.mark.parametrize(("c", "r"), [(1e-3, 1.0), (1e-9, 1.0), (0.0, 0.9)])
def test_an_invariant_that_is_not_conserved_is_never_projected_onto(c, r):
    """Projection would undo friction, or an impact that costs energy, without a word."""
    ball = Model.from_equations(
        "x'' + c*x' + 9.81 = 0",
        coordinates=["x"],
        parameters={"c": 0.0, "r": 1.0},
        impacts=[{"name": "floor", "surface": "x", "reset": {"x'": "-r*x'"}}],
        invariants={"E": "x'**2/2 + 9.81*x"},
        name="ball",
    )
    times = np.arange(0, 3, 0.05)
    with pytest.raises(ModelError, match='"E" but does not conserve it'):
        simulate(ball.with_values(c=c, r=r), x0=[1.0, 0.0], t=times)
    kept = simulate(ball, x0=[1.0, 0.0], t=times)
    # free fall from 1 m and back, period 2 sqrt(2/g)
    half = np.sqrt(2 / 9.81)
    fall = np.mod(times + half, 2 * half) - half
    assert kept["x"] == pytest.approx(1 - 9.81 * fall**2 / 2, abs=1e-9)


def trace_orbit(angles: tuple[float, float], steps: int):
    """x_n = cos 2πθ_n with θ_{n+1} = θ_n + θ_{n-1}: an orbit of x' = 2xy - z, in 60 digits."""
    import mpmath

    with mpmath.workdps(60):
        theta = [mpmath.mpf(a) for a in angles]
        while len(theta) < steps + 3:
            theta.append(theta[-1] + theta[-2])
        return [mpmath.cos(2 * mpmath.pi * a) for a in theta]


def test_trace_map_in_extended_precision_follows_the_cosines():
    orbit = trace_orbit((0.12, 0.17), 60)
    mapping = Map(library.trace_map())
    start = dict(zip(mapping.model.states, (orbit[2], orbit[1], orbit[0]), strict=True))
    exact = np.array([float(x) for x in orbit[2:]])
    assert mapping.iterate(start, 60, precision=50)[:, 0] == pytest.approx(exact, abs=1e-13)
    double = mapping.iterate({name: float(value) for name, value in start.items()}, 60)[:, 0]
    assert double[:15] == pytest.approx(exact[:15], abs=1e-9)
    assert np.abs(double - exact).max() > 1e-6  # the orbit is unstable: doubles alone cannot follow it


def test_map_tangents_equal_differences():
    mapping = Map(library.trace_map(), wrt=("a", "b", "c"))
    x, values, h = np.array([0.3, -0.2, 0.5]), mapping.model.values, 1e-5
    for steps in (1, 5, 6):
        jacobian, sensitivity = mapping.jacobian(x, steps), mapping.sensitivity(x, steps)
        for i, unit in enumerate(np.eye(3)):
            ends = [mapping.iterate(x + s * h * unit, steps)[-1] for s in (1, -1)]
            assert (ends[0] - ends[1]) / (2 * h) == pytest.approx(jacobian[:, i], rel=1e-6, abs=1e-7)
        for i, name in enumerate(mapping.wrt):
            ends = [mapping.iterate(x, steps, {name: values[name] + s * h})[-1] for s in (1, -1)]
            assert (ends[0] - ends[1]) / (2 * h) == pytest.approx(sensitivity[:, i], rel=1e-6, abs=1e-7)


def test_simulated_record_carries_names_angles_and_period():
    model = library.parametric_pendulum()
    record = simulate(model, periods=20, samples_per_period=5, noise=0.01, seed=4)
    assert record.channels == model.states
    assert record.angles == model.angles
    assert record.period == pytest.approx(2 * np.pi / 9.09)
    assert record.size == 101
    clean = simulate(model, periods=20, samples_per_period=5)
    assert (record["phi'"] - clean["phi'"]).std() == pytest.approx(0.01, rel=0.4)
    again = simulate(model, periods=20, samples_per_period=5, noise=0.01, seed=4)
    assert (again["phi'"] == record["phi'"]).all()
    assert simulate(library.trace_map(), x0=[0.1, 0.2, 0.3], periods=7).size == 8
    assert start_of(model).tolist() == [0.5, 1.0]
