"""What kernels must give, whatever runs them: `test_device.py` runs them by the C compiler, `on_card.py` on a card."""

from __future__ import annotations

import numpy as np

import kapitza as kz


def wells(**values: float) -> kz.Model:
    settings = {"c": 0.3, "F": 0.1, "w": 1.0} | values
    return kz.Model.from_equations(
        "x'' + c*x' - x + x**3 = F*cos(w*t)", parameters=settings, period="2*pi/w", name="wells"
    )


def pendulum() -> kz.Model:
    return kz.Model.from_equations(
        "phi'' + c*phi' + sin(phi) = F*cos(w*t)",
        parameters={"c": 0.5, "F": 1.2, "w": 2 / 3},
        coordinates=[kz.Coordinate("phi", angle=True)],
        period="2*pi/w",
        start={"phi": 0.2, "phi'": 0.0},
        name="forced pendulum",
    )


def henon() -> kz.Model:
    return kz.Model.from_map(
        {"x": "1 - a*x**2 + y", "y": "b*x"}, parameters={"a": 1.4, "b": 0.3}, start={"x": 0.1, "y": 0.1}, name="henon"
    )


def random_states(count: int, n: int, half: float) -> np.ndarray:
    return np.random.default_rng(0).uniform(-half, half, (count, n))


def compare(flow: kz.Flow, states, t0, t1, limit: float, slope_limit: float, parameters=None) -> int:
    """Ends within a limit of those of the processor, relative to how a motion magnifies errors; how many came back."""
    here = flow.propagate_many(states, t0, t1, parameters, tangents=True)
    there = flow.propagate_many(states, t0, t1, parameters, tangents=True, device="cuda")
    magnified = 1.0 + np.abs(here.jacobian).max(axis=(1, 2))
    off = np.abs(here.state - there.state).max(axis=1) / magnified
    slopes = np.abs(here.jacobian - there.jacobian).max(axis=(1, 2)) / magnified
    assert off.max() < 100 * limit, off.max()
    assert np.median(off) < limit, np.median(off)
    assert np.median(slopes) < slope_limit, np.median(slopes)
    assert (here.turns == there.turns).all()
    assert np.abs(here.log_determinant - there.log_determinant).max() < 1e-4
    return there.followed


def smooth_ends():
    """Forced, from any phase, over whole and broken periods; no start is handed back."""
    states = random_states(60, 2, 1.5)
    assert compare(kz.Flow(wells(), tolerance=1e-13), states, 0.3, 33.0, 1e-11, 1e-10) == 0
    coarse = kz.Flow(wells(), tolerance=1e-9)
    assert compare(coarse, states, 0.3, 33.0, 1e-6, 1e-5) == 0


def each_with_its_own_times_and_parameters():
    """The period depends on a parameter that differs from row to row."""
    model = wells()
    rows = np.tile(model.vector, (40, 1))
    rows[:, model.names.index("w")] = np.linspace(0.7, 1.3, 40)
    rows[:, model.names.index("c")] = np.linspace(0.1, 0.5, 40)
    flow, states = kz.Flow(model, tolerance=1e-13), random_states(40, 2, 1.5)
    assert compare(flow, states, np.linspace(0, 3, 40), np.linspace(3, 20, 40), 1e-11, 1e-10, rows) == 0


def angles_turn():
    states = random_states(40, 2, 3.0) * [1.0, 3.0]
    assert compare(kz.Flow(pendulum(), tolerance=1e-13), states, 0.0, 30.0, 1e-9, 1e-8) == 0


def free_motion():
    lorenz = kz.library.lorenz()
    assert compare(kz.Flow(lorenz, tolerance=1e-13), random_states(40, 3, 10.0), 0.0, 1.0, 1e-10, 1e-9) == 0


def many_states():
    """Steps named in the equations, poles that no motion reaches, 20 equations with the tangents."""
    spring = kz.library.pendulum_on_spring()
    states = random_states(20, 4, 0.5)
    assert compare(kz.Flow(spring, tolerance=1e-13), states, 0.0, 3.0, 1e-10, 1e-9) == 0


def impacts():
    """Rigid walls; a few chatter or graze and are handed back."""
    flow = kz.Flow(kz.library.pin_joint(), tolerance=1e-13)
    assert compare(flow, random_states(300, 2, 0.9), 0.0, 31.0, 1e-11, 1e-8) <= 6


def jumping_forces():
    flow = kz.Flow(kz.library.colliding_cart(), tolerance=1e-13)
    assert compare(flow, random_states(300, 2, 1.5), 0.0, 31.0, 1e-11, 1e-8) <= 6


def sticking_is_handed_back():
    """Dry friction: motions that stick are followed by the processor, to the same bits, and counted."""
    model = kz.Model.from_equations(
        "x'' + 0.1*x' + x + mu*sign(x') = 0.6*cos(t/2)", parameters={"mu": 0.5}, period="4*pi"
    )
    flow, states = kz.Flow(model), random_states(50, 2, 1.0)
    here, there = (flow.propagate_many(states, 0.0, 25.0, device=d) for d in (None, "cuda"))
    assert there.followed > 25
    assert np.abs(here.state - there.state).max() < 1e-9


def divergence():
    model = kz.Model.from_equations("x'' - x**3 = 0.1*cos(t)", period="2*pi")
    flow, states = kz.Flow(model), np.array([[1.0, 1.0], [-2.0, 0.0]])
    found = flow.propagate_many(states, 0.0, 50.0, throw=False, device="cuda")
    assert np.isnan(found.state).all()


def rest_at_zero():
    """A start at rest at the origin stays there; its neighbours move."""
    states = np.array([[0.0, 0.0], [1e-100, 0.0], [1e-8, 0.0], [1.0, 0.0]])
    ends = kz.Flow(wells(F=0.0)).propagate_many(states, 0.0, 6.0, tangents=True, device="cuda")
    assert ends.followed == 0
    assert (ends.state[0] == 0.0).all()
    assert np.allclose(ends.state[3], states[3], atol=1e-13)
    # Near the origin the motion is that of x'' + c x' - x = 0.
    first, second = np.roots([1.0, 0.3, -1.0])
    grown = (first * np.exp(second * 6.0) - second * np.exp(first * 6.0)) / (first - second)
    assert np.allclose(ends.state[1:3, 0], grown * states[1:3, 0], rtol=1e-10)
    assert np.allclose(ends.jacobian[:3, 0, 0], grown, rtol=1e-10)


def bursts_after_rest():
    """What acts after long rest is met: the velocity is the integral of the force."""
    force = "exp(-((t - a)/b)**2)"
    model = kz.Model.from_equations(f"x'' = F*{force}", parameters={"F": 3.0, "a": 50.0, "b": 0.1})
    widths = np.array([1e-3, 0.01, 0.1, 1.0])
    rows = np.tile(model.vector, (4, 1))
    rows[:, [p.name for p in model.parameters].index("b")] = widths
    ends = kz.Flow(model).propagate_many(np.zeros((4, 2)), 0.0, 60.0, rows, device="cuda")
    assert ends.followed == 0
    assert np.allclose(ends.state[:, 1], 3.0 * np.sqrt(np.pi) * widths, rtol=1e-10)
    assert np.allclose(ends.state[:, 0], 30.0 * np.sqrt(np.pi) * widths, rtol=1e-10)


def windows_within_a_step():
    """A switch that is passed and passed back within a long step, over a parabola of time: both crossings are found."""
    model = kz.Model.from_equations("x'' = max(1 - (t - 41.3)**2, 0)")
    ends = kz.Flow(model).propagate_many(np.array([[0.0, 0.0], [0.0, 1.0]]), 0.0, 60.0, device="cuda")
    assert ends.followed == 0
    assert np.allclose(ends.state[:, 1], [4 / 3, 7 / 3], rtol=1e-8)
    assert np.allclose(ends.state[:, 0], [4 / 3 * 18.7, 60 + 4 / 3 * 18.7], rtol=1e-8)


def strobing():
    flow, states = kz.Flow(pendulum(), tolerance=1e-13), random_states(30, 2, 2.0)
    here, there = (flow.strobe_many(states, 4, phase=0.5, device=d) for d in (None, "cuda"))
    assert here.states.shape == there.states.shape
    assert np.median(np.abs(here.continuous[-1] - there.continuous[-1])) < 1e-10
    assert (here.turns == there.turns).all()
    assert np.array_equal(here.times, there.times)
    assert there.followed == 0


def labels_of_basins():
    """Four attractors: not one label of 2500 differs; of a map: none of 1600."""
    region = {"x": (-2.0, 2.0), "x'": (-1.5, 1.5)}
    settings = {"grid": 50, "transient": 30}
    here = kz.basins(wells(c=0.15), region, **settings)
    there = kz.basins(wells(c=0.15), region, **settings, device="cuda")
    assert len(here.attractors) >= 2
    assert (here.labels != there.labels).sum() == 0
    assert there.followed == 0
    quiet, region = henon().with_values(a=1.0), {"x": (-2.0, 2.0), "y": (-2.0, 2.0)}
    maps = [kz.basins(quiet, region, grid=50, device=d).labels for d in (None, "cuda")]
    assert set(np.unique(maps[0])) == {-1, 0}
    assert (maps[0] == maps[1]).all()


def exponents_of_planes():
    """Regular points agree closely, chaotic ones as averages do; the sum is the divergence."""
    settings = {
        "plane": {"F": (0.9, 1.5), "w": (0.55, 0.7)},
        "grid": 6,
        "length": 900.0,
        "transient": 900.0,
        "blocks": 8,
    }
    here, there = (kz.exponents(pendulum(), **settings, device=d) for d in (None, "cuda"))
    assert np.abs(there.values.sum(axis=-1) + 0.5).max() < 1e-8
    regular = (here.largest < -0.02) & (there.largest < -0.02)
    off = np.abs(here.largest - there.largest)
    assert regular.sum() > 5
    assert np.median(off[regular]) < 2e-3, off[regular]
    wide = 4 * np.hypot(here.errors[..., 0], there.errors[..., 0]) + 0.02
    assert (off < wide).mean() > 0.9, off
    settings = {"plane": {"a": (1.0, 1.5), "b": (0.1, 0.3)}, "grid": 8, "length": 2000, "blocks": 8}
    here, there = (kz.exponents(henon(), **settings, device=d) for d in (None, "cuda"))
    assert (np.isnan(here.largest) == np.isnan(there.largest)).all()
    assert np.nanmedian(np.abs(here.largest - there.largest)) < 0.01


def exponents_with_impacts():
    """Of a period-1 motion between walls: those of its multipliers."""
    model = kz.library.pin_joint()
    flow = kz.Flow(model)
    start = flow.strobe(model.state(), 400).states[-1]
    multipliers = np.linalg.eigvals(flow.propagate(start, 0.0, model.period).jacobian)
    expected = np.sort(np.log(np.abs(multipliers)) / model.period)[::-1]
    found = kz.exponents(model, plane={"gamma": (1.0, 1.0001)}, grid=1, start=start, length=2000.0, device="cuda")
    assert np.abs(found.values[0] - expected).max() < 1e-5, (found.values, expected)


CHECKS = {f.__name__: f for f in (
    smooth_ends, each_with_its_own_times_and_parameters, angles_turn, free_motion, many_states, impacts, jumping_forces,
    sticking_is_handed_back, divergence, rest_at_zero, bursts_after_rest, windows_within_a_step,
    strobing, labels_of_basins, exponents_of_planes, exponents_with_impacts,
)}  # fmt: skip
