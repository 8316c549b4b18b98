"""Lyapunov exponents against theory and the literature, each within its own error."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import kapitza as kz
from kapitza.errors import DataError, FlowError, ModelError
from kapitza.orbits.of_models.lyapunov import kaplan_yorke, standard_error
from kapitza.orbits.of_models.tangent_steps import Growth, joined_logs, orthonormal

SIGMAS = 3.0
"""Standard errors that an exponent may be off by."""


def henon() -> kz.Model:
    return kz.Model.from_map(
        {"x": "1 - a*x**2 + y", "y": "b*x"}, parameters={"a": 1.4, "b": 0.3}, start={"x": 0.1, "y": 0.1}, name="henon"
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


def assert_within(found: kz.LyapunovSpectrum, expected: list[float], widest: list[float]) -> None:
    """Within the errors, and the errors are small enough to say something."""
    assert (found.errors <= widest).all()
    assert (np.abs(found.values - expected) <= SIGMAS * found.errors).all()


def test_lorenz():
    """0.9056, 0, -14.5723 (Viswanath 1998); the sum is -(σ + 1 + β); dimension 2.0622."""
    found = kz.exponents(kz.library.lorenz(), length=800.0)
    assert_within(found, [0.9056, 0.0, -14.5723], [0.03] * 3)
    assert found.values.sum() == pytest.approx(-(10 + 1 + 8 / 3), abs=1e-8)
    assert abs(found.dimension - 2.0622) <= SIGMAS * found.dimension_error
    assert found.dimension_error < 0.003
    assert found.chaotic


def test_rossler():
    """0.0714, 0, -5.3943 at a = b = 0.2, c = 5.7 (Sprott 2003); the sum is the mean of a + x - c."""
    model = kz.library.rossler()
    found = kz.exponents(model, length=4000.0)
    assert_within(found, [0.0714, 0.0, -5.3943], [0.006, 0.004, 0.03])
    path = kz.Flow(model).trajectory(model.state(), np.arange(0.0, 5000.0, 0.1))[5_000:]
    assert abs(found.divergence - (0.2 + path[:, 0].mean() - 5.7)) < 6 * found.errors[2]


def test_henon():
    """0.41922 at a = 1.4, b = 0.3 (Sprott 2003); the sum is ln b in every step; dimension 1.258."""
    found = kz.exponents(henon(), length=30_000)
    assert_within(found, [0.41922, np.log(0.3) - 0.41922], [0.004] * 2)
    assert found.values.sum() == pytest.approx(np.log(0.3), abs=1e-12)
    assert abs(found.dimension - 1.25827) <= SIGMAS * found.dimension_error
    assert found.per == "iteration"


def test_chaotic_impacts():
    """Forced oscillator that hits a wall: the volume shrinks by exp(-2ζt), and by r² at each impact."""
    zeta, r, w = 0.01, 0.8, 3.2
    model = kz.Model.from_equations(
        "x'' + 2*z*x' + x = cos(w*t)",
        parameters={"z": zeta, "w": w, "r": r},
        period="2*pi/w",
        impacts=[{"surface": "x", "reset": {"x'": "-r*x'"}}],
        start={"x": 0.5, "x'": 0.0},
        name="impact oscillator",
    )
    found = kz.exponents(model, length=4000.0)
    assert found.chaotic
    length = 20 * model.period
    short = kz.exponents(model, length=length, transient=0.0, blocks=4)
    run = kz.Flow(model).propagate(model.state(), 0.0, length, tangents=False)
    impacts = sum(event.kind == "impact" for event in run.events)
    assert impacts > 5
    assert short.values.sum() * length == pytest.approx(-2 * zeta * length + 2 * np.log(r) * impacts, abs=1e-6)
    # Two motions that start 1e-9 apart separate at the rate of the largest exponent: an independent measure.
    assert abs(separation_rate(model) - found.values[0]) < 0.03


def separation_rate(model: kz.Model) -> float:
    """Mean rate at which 1500 pairs of motions, 1e-9 apart, separate in four periods; two before turn them in."""
    flow, period = kz.Flow(model), model.period
    starts = flow.strobe(model.state(), 1600).states[100:]
    near = starts + np.array([1e-9, 0.0])
    logs = []
    for _ in range(6):
        starts, near = (flow.propagate_many(x, 0.0, period).state for x in (starts, near))
        logs.append(np.log(np.linalg.norm(near - starts, axis=1)))
    return float(np.mean(logs[5] - logs[1])) / (4 * period)


def test_a_periodic_motion_with_impacts_has_the_exponents_of_its_multipliers():
    model = kz.library.pin_joint()
    flow = kz.Flow(model)
    start = flow.strobe(model.state(), 400).states[-1]
    multipliers = np.linalg.eigvals(flow.propagate(start, 0.0, model.period).jacobian)
    expected = np.sort(np.log(np.abs(multipliers)) / model.period)[::-1]
    found = kz.exponents(model, start=start, length=4000.0)
    assert_within(found, list(expected), [2e-3] * 2)
    assert found.dimension == 0.0
    assert not found.chaotic


def test_linear_equations_have_the_real_parts_of_their_eigenvalues():
    model = kz.Model.from_equations(["x' = -x + 5*y", "y' = -3*y", "z' = -20*z"], start={"x": 1.0, "y": 1.0, "z": 1.0})
    assert kz.exponents(model, length=200.0).values == pytest.approx([-1.0, -3.0, -20.0], abs=1e-3)


def test_a_limit_cycle_has_dimension_one():
    """Van der Pol: a zero exponent along the motion; the other is the mean divergence."""
    model = kz.Model.from_equations("x'' - (1 - x**2)*x' + x = 0", start={"x": 2.0, "x'": 0.0})
    found = kz.exponents(model, length=1000.0)
    assert abs(found.values[0]) <= SIGMAS * found.errors[0]
    assert found.errors[0] < 0.01
    assert found.dimension == 1.0


def test_sticking_collapses_a_direction():
    model = kz.Model.from_equations(
        "x'' + 0.1*x' + x + mu*sign(x') = 0.6*cos(t/2)",
        parameters={"mu": 0.5},
        period="4*pi",
        start={"x": 0.1, "x'": 0},
    )
    found = kz.exponents(model, length=400.0)
    assert found.values[-1] == -np.inf
    assert "-inf" in repr(found)


def test_strong_damping_is_resolved():
    """ln(longest / shortest axis) is 120 in a period: frames are renewed within it."""
    model = kz.Model.from_equations("x'' + 20*x' + x = cos(t)", period="2*pi")
    found = kz.exponents(model, length=300.0)
    expected = np.sort(np.roots([1, 20, 1]))[::-1]
    assert found.values == pytest.approx(expected, abs=1e-6)


def test_a_plane_has_the_exponents_of_its_points():
    settings = {"length": 1500.0, "transient": 500.0, "blocks": 8}
    plane = {"F": (1.0, 1.2), "w": (0.6, 2 / 3)}
    found = kz.exponents(pendulum(), plane=plane, grid=(3, 2), **settings)
    assert found.values.shape == (3, 2, 2)
    for i, F in enumerate(found.axes["F"]):
        for j, w in enumerate(found.axes["w"]):
            alone = kz.exponents(pendulum().with_values(F=F, w=w), **settings)
            limit = SIGMAS * np.hypot(alone.errors[0], found.errors[i, j, 0]) + 2e-3
            assert abs(found.values[i, j, 0] - alone.values[0]) < limit
    assert found.values.sum(axis=-1) == pytest.approx(np.full((3, 2), -0.5), abs=1e-9)
    assert found.chaotic[2, 1]
    assert len(found.table()) == 6


def test_the_answer_does_not_depend_on_the_executor():
    from concurrent.futures import ThreadPoolExecutor

    settings = {"plane": {"a": (1.0, 1.4)}, "grid": 600, "length": 64, "blocks": 4}
    alone = kz.exponents(henon(), **settings)
    with ThreadPoolExecutor(2) as pool:
        shared = kz.exponents(henon(), **settings, executor=pool)
    assert np.array_equal(alone.values, shared.values, equal_nan=True)


def test_points_that_diverge_have_no_value():
    found = kz.exponents(henon(), plane={"a": (1.2, 2.0)}, grid=2, length=200)
    assert np.isfinite(found.values[0]).all()
    assert np.isnan(found.values[1]).all()
    assert np.isnan(found.dimension[1])
    assert "no value at 1" in repr(found)
    with pytest.raises(FlowError, match="the finite numbers"):
        kz.exponents(henon().with_values(a=2.0), length=200)


def test_kaplan_yorke_of_known_spectra():
    def dimension(*values: float) -> float:
        spectrum = np.array(values)
        return float(kaplan_yorke(spectrum, np.zeros(len(values)), np.tile(spectrum, (8, 1)))[0])

    assert dimension(1.0, 0.0, -2.0) == 2.5
    assert dimension(0.5, -0.5) == 2.0
    assert dimension(-0.1, -0.2) == 0.0
    assert dimension(0.3, -np.inf) == 1.0
    assert np.isnan(dimension(np.nan, np.nan))


def test_errors_of_correlated_blocks_are_larger():
    random = np.random.default_rng(1)
    white = random.standard_normal((32, 500))
    assert standard_error(white).mean() == pytest.approx(1 / np.sqrt(32), rel=0.2)
    slow = np.repeat(white[:8], 4, axis=0)
    assert standard_error(slow).mean() > 0.9 / np.sqrt(8)


def test_frames_are_orthonormal():
    random = np.random.default_rng(2)
    frames = random.standard_normal((50, 4, 4)) * np.array([1.0, 1e-3, 1e-6, 1e-8])
    made, upper = orthonormal(frames)
    assert np.abs(made.transpose(0, 2, 1) @ made - np.eye(4)).max() < 1e-12
    assert np.abs(made @ upper - frames).max() < 1e-14
    assert (np.tril(upper, -1) == 0).all()


def test_blocks_join_to_the_growth_of_one_frame():
    """Products of random matrices, whose axes grow apart by 1 in ln per step: cut into blocks and in one go."""
    random = np.random.default_rng(3)
    matrices = (np.eye(3) + 0.4 * random.standard_normal((90, 3, 3))) * np.exp([1.0, 0.0, -1.5])
    frame, one = np.linalg.qr(random.standard_normal((3, 3)))[0], np.zeros((3, 3))
    start = frame
    for i, matrix in enumerate(matrices):
        frame, factor = np.linalg.qr(matrix @ frame)
        one[i // 30] += np.log(np.abs(factor.diagonal()))
    frames = np.linalg.qr(random.standard_normal((3, 3, 3)))[0]
    frames[0] = start
    growth, last, rows = Growth(3, 3, joined=True), frames, np.arange(3)
    for i in range(30):
        last, upper = orthonormal(matrices[i::30] @ last)
        growth.add(rows, upper, np.zeros(3, bool))
    between = frames.transpose(0, 2, 1) @ np.roll(last, 1, axis=0)
    assert growth.unit_upper is not None
    assert joined_logs(growth.logs, growth.unit_upper, between) == pytest.approx(one, abs=1e-8)


def test_refusals():
    model = pendulum()
    with pytest.raises(DataError, match="name one or two"):
        kz.exponents(model, plane={})
    with pytest.raises(DataError, match="lower limit first"):
        kz.exponents(model, plane={"F": (1.0, 0.5)})
    with pytest.raises(ModelError, match="no parameter"):
        kz.exponents(model, plane={"Q": (0.0, 1.0)})
    with pytest.raises(ModelError, match="infinitely many exponents"):
        kz.exponents(kz.Model.from_equations("x' = -x(t - 1)", start={"x": 1.0}))
    with pytest.raises(DataError, match="at least 1 value"):
        kz.exponents(model, plane={"F": (0.0, 1.0)}, grid=0)
    for far in ({"length": 1e308}, {"length": 10.0, "transient": 1e300}, {"length": 1e15}):
        with pytest.raises(DataError, match="at most 1e\\+11 are followed: shorten them"):
            kz.exponents(model, **far)


def test_figures_and_the_command(tmp_path):
    from kapitza.cli.app import app

    kz.exponents(henon(), length=500).plot(tmp_path / "bars.png")
    kz.exponents(henon(), plane={"a": (1.0, 1.4), "b": (0.1, 0.3)}, grid=4, length=100).plot(tmp_path / "chart.svg")
    assert (tmp_path / "bars.png").stat().st_size > 1000
    assert (tmp_path / "chart.svg").stat().st_size > 1000
    line = ["exponents", "duffing", "--vary", "B=0.1:0.3", "--grid", "2", "--length", "200", "--json"]
    answer = CliRunner().invoke(app, [*line, "--out", str(tmp_path / "a.csv"), "--plot", str(tmp_path / "a.png")])
    assert answer.exit_code == 0
    assert len(json.loads(answer.stdout)["exponents"]) == 2
    assert (tmp_path / "a.csv").exists()
    assert (tmp_path / "a.png").exists()


@pytest.mark.parametrize(
    ("field", "value"),
    [("values", np.zeros(0)), ("errors", np.zeros(3)), ("dimension", np.zeros(2)), ("axes", {"a": np.zeros(4)})],
)
def test_a_spectrum_whose_parts_do_not_fit_is_refused(field, value):
    parts = {"values": np.zeros(2), "errors": np.zeros(2), "length": 1.0, "blocks": 4}
    parts |= dict.fromkeys(("dimension", "dimension_error", "divergence"), np.array(0.5))
    assert "dimension 0.5" in repr(kz.LyapunovSpectrum("pair", **parts))
    with pytest.raises(DataError, match=r"of a spectrum|without exponents"):
        kz.LyapunovSpectrum("pair", **{**parts, field: value})
