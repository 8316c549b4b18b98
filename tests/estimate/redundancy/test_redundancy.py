"""Combinations named by the structure of the equations, against models whose redundancies are known."""

import numpy as np
import pytest
from reproductions._redundant_models import draw
from reproductions.identifiability import _gradients

import kapitza as kz
from kapitza.errors import DataError, IdentifiabilityError
from kapitza.estimate.observation import observe_channels
from kapitza.estimate.redundancy import structural
from kapitza.model import parse_expression, symbol

TIMES = np.arange(400) * 0.05


def oscillator(equation, **values):
    return kz.Model.from_equations(equation, parameters=values, start={"x": 1.0, "x'": 0.0})


def readings(model, channels=("x",)):
    return kz.measure(kz.simulate(model, t=TIMES).select(list(channels)), noise=0.01, seed=1)


@pytest.mark.parametrize("seed", range(2000, 2024))
def test_random_redundancies_are_named_exactly(seed):
    problem = draw(seed)
    channels = list(problem.outputs)
    seen = observe_channels(problem.model, channels, [False] * len(channels), problem.outputs, problem.free)
    found = structural(problem.model, seen.expressions, problem.free)
    truth, named = (
        [parse_expression(text, problem.free) for text in texts] for texts in (problem.determined, found.determined)
    )
    rng = np.random.default_rng(seed)
    at = {symbol(n): problem.model.values[n] * rng.uniform(0.7, 1.4) for n in problem.free}
    right, said = _gradients(truth, problem.free, at), _gradients(named, problem.free, at)
    rank = np.linalg.matrix_rank(right, tol=1e-8)
    assert found.exact
    assert found.rank == rank == len(named)
    assert np.linalg.matrix_rank(said, tol=1e-8) == rank
    assert np.linalg.matrix_rank(np.vstack([right, said]), tol=1e-8) == rank


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (oscillator("x'' + a*b*x' + k*x = 0", a=-1.0, b=-0.2, k=4.0), ("a*b", "k")),
        (oscillator("m*x'' + c*x' + k*x = 0", m=1.5, c=0.2, k=-0.5), ("c/m", "k/m")),
        (oscillator("x'' + 0.1*x' + (ka + kb)*x = 0", ka=3.0, kb=1.0), ("ka + kb",)),
        (oscillator("x'' + 0.1*x' + (ka - kb)*x = 0", ka=3.0, kb=-1.0), ("ka - kb",)),
    ],
)
def test_redundant_parameters_are_refused_and_their_combinations_fitted_as_printed(model, expected):
    record = readings(model)
    with pytest.raises(IdentifiabilityError, match="no output shows it") as refusal:
        kz.identify(model, record, method=kz.ShootingFit())
    found = kz.identifiability(model, ["x"])
    assert found.determined == expected
    assert str(list(expected)).replace("'", '"') in str(refusal.value)
    fit = kz.identify(model, record, found.determined, method=kz.ShootingFit())
    for text in expected:
        truth = float(parse_expression(text, model.names).xreplace({symbol(n): v for n, v in model.values.items()}))
        assert abs(fit[text] - truth) < 4 * fit.deviations[text]


def test_failed_fits_name_the_same_combination():
    model = oscillator("x'' + 0.1*x' + (ka + kb)*x = 0", ka=3.0, kb=1.0)
    fit = kz.identify(model, readings(model), ["ka", "kb"], kz.ShootingFit(throw=False))
    assert fit.identifiable == ("ka + kb",)
    assert np.isinf(fit.deviations["ka"])


def test_scale_of_a_hidden_population_is_named_instead_of_a_failed_fit():
    prey = kz.Model.from_equations(
        ["x' = a*x - b*x*y", "y' = d*x*y - g*y"],
        parameters={"a": 1.0, "b": 0.5, "d": 0.3, "g": 0.7},
        start={"x": 2.0, "y": 1.0},
    )
    with pytest.raises(IdentifiabilityError, match="only a, d, g"):
        kz.identify(prey, readings(prey))
    fit = kz.identify(prey, readings(prey), ["a", "d", "g"])
    assert all(abs(fit[n] - prey.values[n]) < 4 * fit.deviations[n] for n in fit.names)


def test_weak_form_names_the_factor_of_an_unforced_equation():
    model = oscillator("m*x'' + c*x' + k*x + k3*x**3 = 0", m=2.0, c=0.2, k=4.0, k3=1.0)
    with pytest.raises(IdentifiabilityError, match="only c/m, k/m, k3/m"):
        kz.identify(model, readings(model), method=kz.HarmonicFit())


def test_a_prior_or_a_known_start_tells_parameters_apart():
    known = kz.Parameter("kb", 1.0, prior=kz.Prior(1.0, 0.01))
    model = kz.Model.from_equations(
        "x'' + 0.1*x' + (ka + kb)*x = 0", parameters=[kz.Parameter("ka", 3.0), known], start={"x": 1.0, "x'": 0.0}
    )
    fit = kz.identify(model, readings(model), ["ka", "kb"], kz.ShootingFit())
    assert fit.deviations["ka"] == pytest.approx(0.01, rel=0.1)


def test_settings_of_several_recordings_tell_parameters_apart():
    model = kz.Model.from_equations(
        "x'' + 0.1*x' + (ka + s*kb)*x = 0", parameters={"ka": 3.0, "kb": 1.0, "s": 1.0}, start={"x": 1.0, "x'": 0.0}
    )
    assert kz.identifiability(model, ["x"], ["ka", "kb"]).determined == ("ka + kb",)
    assert kz.identifiability(model, ["x"], ["ka", "kb"], settings=[{"s": 1.0}, {"s": 2.0}]).complete


def test_thresholds_of_switches_count_as_determined():
    model = kz.Model.from_equations(
        "x'' + c*x' + k*x + h*Heaviside(x - g) = 0", parameters={"c": 0.1, "k": 1.0, "h": 0.5, "g": 0.3}
    )
    assert kz.identifiability(model, ["x"]).complete


SIZED = {
    "far stop": ("c*x' + k*x + ks*max(x - g, 0)", {"c": 0.1, "k": 1.0, "ks": 20.0, "g": 5.0}),
    "small gap": ("c*x' + k*x + ks*(max(x - g, 0) - max(-x - g, 0))", {"c": 0.1, "k": 1.0, "ks": 20.0, "g": 2e-5}),
    "steep friction": ("c*x' + k*x + f*tanh(x'/eps)", {"c": 0.1, "k": 1.0, "f": 0.3, "eps": 1e-3}),
    "late drive": ("c*x' + k*x - F*(1 + tanh((t - 1200)/40))*cos(t)", {"c": 0.1, "k": 1.0, "F": 2.0}),
    "late step": ("c*x' + k*x - F*Heaviside(t - 50)", {"c": 0.1, "k": 1.0, "F": 2.0}),
}


@pytest.mark.parametrize("law", SIZED)
def test_laws_at_other_sizes_than_one_are_no_symmetry(law):
    terms, values = SIZED[law]
    model = oscillator(f"x'' + {terms} = 0", **values)
    assert structural(model, (symbol("x"),), tuple(values)).complete
    heavy = oscillator(
        f"m*x'' + {terms.replace('g', 'h')} = 0", m=2.0, **{n.replace("g", "h"): v for n, v in values.items()}
    )
    found = structural(heavy, (symbol("x"),), heavy.names)
    assert found.rank == len(values)
    assert {"c/m", "k/m"} <= set(found.determined)


def test_a_stop_far_out_is_fitted_and_seen_by_motions():
    model = oscillator(f"x'' + {SIZED['far stop'][0]} = 3*cos(1.2*t)", **SIZED["far stop"][1])
    found = kz.identifiability(model, ["x"])
    assert found.complete
    # Values that differ behind the stop alone are no twins.
    assert not found.equivalents
    fit = kz.identify(model, readings(model), ["c", "k", "ks"], method=kz.ShootingFit())
    assert all(abs(fit.values[n] - model.values[n]) < 4 * fit.deviations[n] for n in fit.names)


def test_a_blow_shows_in_the_time_of_the_record_alone():
    model = oscillator("x'' + c*x' + k*x = F*exp(-(t - 12.3)**2/0.01)", c=0.1, k=1.0, F=40.0)
    fit = kz.identify(model, readings(model), method=kz.ShootingFit())
    assert all(abs(fit.values[n] - model.values[n]) < 4 * fit.deviations[n] for n in fit.names)
    before = kz.measure(kz.simulate(model, t=TIMES[TIMES < 10]).select(["x"]), noise=0.01, seed=1)
    with pytest.raises(IdentifiabilityError, match=r"changing F by .* changes nothing"):
        kz.identify(model, before, method=kz.ShootingFit())


@pytest.mark.parametrize("late", [9.0, 20.0, 60.0, 150.0])
def test_a_late_blow_is_seen_by_motions(late):
    # Motions of a few seconds from 0, 3 and 30 s on end before it, or begin after it.
    model = oscillator("x'' + c*x' + k*x = F*exp(-(t - t0)**2/2)", c=0.2, k=1.0, F=1.0, t0=late)
    assert kz.identifiability(model, ["x"]).complete
    double = oscillator("x'' + c*x' + k*x = F*h*exp(-(t - t0)**2/2)", c=0.2, k=1.0, F=1.0, h=2.0, t0=late)
    assert set(kz.identifiability(double, ["x"]).determined) == {"c", "k", "t0", "F*h"}


def test_resets_of_impacts_count():
    model = kz.Model.from_equations(
        "x'' + c*x' + g = 0",
        parameters={"c": 0.1, "g": 9.8, "r": 0.8, "e": 0.9},
        impacts=[{"surface": "x", "reset": {"x'": "-r*e*x'"}}],
    )
    assert set(kz.identifiability(model, ["x"]).determined) == {"c", "g", "e*r"}


def test_a_gain_that_no_sensor_fixes_is_named_with_the_curvature():
    model = kz.Model.from_equations(
        "x'' + c*x' + k*x + q*x**3 = 0", parameters={"c": 0.1, "k": 1.0, "q": -0.5, "gain": 2.0}
    )
    found = kz.identifiability(model, outputs={"volt": "gain*x"})
    assert set(found.determined) in ({"c", "k", "q/gain**2"}, {"c", "k", "gain**2/q"})


def test_what_is_not_measured_is_refused():
    model = oscillator("x'' + c*x' + k*x = 0", c=0.1, k=1.0)
    with pytest.raises(kz.KapitzaError, match="None of the channels y"):
        kz.identifiability(model, ["y"])


def test_landing_gear_of_the_document():
    found = kz.identifiability(kz.library.oleo_simple())
    # The document: only theta1*g + theta6 - theta8 is identifiable. A shift of the sensor also moves the gas volume.
    assert "g*theta1 + theta6 - theta8" in found.determined
    assert "theta7 + 1/theta4" in found.determined
    assert found.rank == 8
    assert "1 more without a simple formula" in found.message()


def test_what_hangs_on_held_parameters_has_no_error():
    """With combinations free some parameters are held; those fitted in their place are known as little as these."""
    model = kz.Model.from_equations(
        "m*x'' + c*x' + (k1 - k2)*x + p*x**3 = 0",
        parameters={"m": 2.0, "c": 0.2, "k1": 5.0, "k2": 2.0, "p": 1.2},
        start={"x": 1.0, "x'": 0.0},
    )
    record = kz.measure(kz.simulate(model, t=np.arange(600) * 0.06).select(["x"]), noise=0.005, seed=1)
    fit = kz.identify(model, record, ["c/m", "(k1 - k2)/m", "p/m"], kz.ShootingFit())
    assert not set(fit.derived) & set(model.names)
    assert "not known by themselves: " in str(fit)
    assert fit.table().loc[["c/m"], "role"].item() == "free"
    loose = [n for n in model.names if n not in fit.fixed]
    assert (fit.table().loc[loose, "role"] == "not known").all()
    # What follows from the combinations alone keeps its error.
    other = kz.identify(model, record, ["c/m", "(k1 - k2)/m", "p"], kz.ShootingFit())
    assert "p" in other.names


def test_no_channel_at_all_is_refused():
    model = kz.Model.from_equations("x'' + k*x = 0", parameters={"k": 4.0})
    with pytest.raises(DataError, match='No measured channel is named: give one at least, such as "x"'):
        kz.identifiability(model, [])
