"""Force curves and surfaces of a fitted model against what its equation says."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.report.force_figures import force_figure, surface_figure
from kapitza.report.forces import forces_of
from kapitza.report.motions import Motion
from kapitza.study import parameter_draws


def test_curves_and_surface_are_the_forces_of_the_equation():
    values = {"m": 2.0, "c": 0.3, "k": 5.0, "k3": 1.5}
    model = kz.Model.from_equations("m*x'' + c*x' + k*x + k3*x**3 = 4", parameters=values)
    time = np.arange(600) * 0.02
    position = 0.4 + np.cos(2 * time)
    motion = Motion(time, np.zeros(600, np.int64), {"x": position}, {"x": position})
    errors = {"c": 0.03, "k": 0.05}
    estimate = kz.Estimate(("c", "k"), values, np.diag([e**2 for e in errors.values()]), "ShootingFit")
    estimate = estimate.with_(model=model)
    found = forces_of(estimate, [motion], seed=1)
    restoring, damping = found.curves
    at = np.array(restoring.at)
    np.testing.assert_allclose([at[0], at[-1]], [-0.6, 1.4], atol=0.01)
    np.testing.assert_allclose(restoring.force, (5 * at + 1.5 * at**3) / 2, atol=1e-12)
    np.testing.assert_allclose(damping.force, 0.3 * np.array(damping.at) / 2, atol=1e-12)
    half = 0.5 * (np.array(damping.high) - np.array(damping.low))
    np.testing.assert_allclose(half, 1.96 * 0.03 * np.abs(damping.at) / 2, rtol=0.02, atol=1e-9)
    surface = found.surfaces[0]
    x, v = np.meshgrid(surface.positions, surface.rates)
    np.testing.assert_allclose(surface.rates[-1], 2, rtol=0.01)
    np.testing.assert_allclose(surface.force, (0.3 * v + 5 * x + 1.5 * x**3) / 2, atol=1e-12)
    # The dark line of the motion stands on the pale surface; that of the legend is seen on a dark page too.
    drawn = surface_figure(found.surfaces * 2, motion).to_dict()["data"]
    assert [trace["line"]["color"] for trace in drawn if trace["showlegend"]] == ["#7d8894"]
    expected = 1.96 * np.hypot(0.05 * x, 0.03 * v) / 2
    np.testing.assert_allclose(surface.band, expected, rtol=0.05, atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_few_draws_give_bands_of_the_right_width(seed):
    errors = (0.5, 2.0, 1e-3)
    correlation = np.array([[1, -0.9, 0.3], [-0.9, 1, 0.1], [0.3, 0.1, 1]])
    names = ("a", "b", "c")
    covariance = correlation * np.outer(errors, errors)
    estimate = kz.Estimate(names, dict.fromkeys(names, 1.0), covariance, "ShootingFit")
    drawn = np.array([[row[n] for n in names] for row in parameter_draws(estimate, names, seed)])
    directions = np.vstack([np.eye(3), [[1, 0.25, 0], [2, 0.5, 500], [2, -0.5, -300]]])
    low, high = np.quantile(drawn @ directions.T, [0.025, 0.975], axis=0, method="median_unbiased")
    exact = np.sqrt(np.einsum("di,ij,dj->d", directions, covariance, directions))
    np.testing.assert_allclose((high - low) / (2 * 1.96 * exact), 1, atol=0.15)


def test_forces_are_drawn_over_the_units_of_the_recording(tmp_path):
    time = np.arange(400) * 0.02
    position = 20 * np.cos(2 * time)
    lines = ["time [s],x [mm]", *(f"{t:.3f},{x:.9f}" for t, x in zip(time, position, strict=True))]
    (tmp_path / "run.csv").write_text("\n".join(lines))
    record = kz.read(tmp_path / "run.csv")
    model = kz.Model.from_equations("m*x'' + c*x' + k*x = 0", parameters={"m": 2.0, "c": 0.3, "k": 5.0})
    estimate = kz.Estimate(("c",), model.values, np.array([[1e-4]]), "ShootingFit").with_(model=model)
    motion = Motion(time, np.zeros(400, np.int64), {"x": record["x"]}, {"x": record["x"]})
    found, units = forces_of(estimate, [motion]).as_recorded(record, {"x": "m"})
    restoring, damping = found.curves
    assert units == {"x": "mm", "x'": "mm/s", "x''": "m/s²"}
    np.testing.assert_allclose([restoring.at[0], restoring.at[-1]], [-20, 20], atol=0.1)
    np.testing.assert_allclose(restoring.force, 2.5 * 1e-3 * restoring.at, atol=1e-12)
    np.testing.assert_allclose(damping.force, 0.15 * 1e-3 * damping.at, atol=1e-12)
    np.testing.assert_allclose(found.surfaces[0].rates[-1], 40, rtol=0.02)
    axes = force_figure(found.curves, units).layout
    assert (axes.xaxis2.title.text, axes.yaxis2.title.text) == ("x' [mm/s]", "damping force / mass [m/s²]")
