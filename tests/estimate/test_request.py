"""One grammar for every estimator: free names, data with values of their own, noise, outputs."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

import kapitza as kz
from kapitza.data import as_parts
from kapitza.errors import DataError, KapitzaError, ModelError
from kapitza.estimate import Accepts
from kapitza.estimate.request import make_request

METHODS = [kz.ShootingFit(), kz.HarmonicFit(), kz.Automatic()]


def oscillator(**values):
    model = kz.Model.from_equations(
        "x'' + c*x' + rho*x + k3*x**3 = F*cos(omega*t)",
        parameters={"c": 0.2, "rho": 1.0, "k3": 0.5, "F": 0.4, "omega": 1.3},
        period="2*pi/omega",
        start={"x": 1.0, "x'": 0.0},
    )
    return model.with_values(**values)


def run(noise=1e-3, seed=1, **values):
    clean = kz.simulate(oscillator(**values), t=np.arange(960) * 0.06)
    return kz.measure(clean.select(["x"]), noise=noise, seed=seed)


@pytest.fixture(scope="module")
def record():
    return run()


def springs(**values):
    """Two masses whose energy is known: its stiffness k belongs to each record."""
    model = kz.Model.from_hamiltonian(
        "p**2/(2*m) + k*q**2/2 + e*q**4/4", positions=["q"], momenta=["p"], parameters={"m": 1.0, "k": 1.0, "e": 0.3}
    )
    return model.with_values(**values)


@pytest.mark.parametrize("method", METHODS)
def test_one_name_need_not_be_in_a_list(record, method):
    fit = kz.identify(oscillator(rho=1.1), record, "rho", method)
    assert fit.names == ("rho",)
    assert fit["rho"] == pytest.approx(1.0, abs=5 * fit.deviations["rho"])
    invariant = kz.identify(springs(e=0.4), kz.simulate(springs(), x0=[1.0, 0.0], t=np.arange(200) * 0.1), "e",
                            kz.InvariantFit())  # fmt: skip
    assert invariant.names == ("e",)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("free", "message"),
    [("rhp", 'Did you mean "rho"'), (["rho", "rho"], "named twice: rho, rho"), (["omega", "c", "c"], "named twice")],
)
def test_names_are_checked_in_one_way(record, method, free, message):
    with pytest.raises(ModelError, match=message):
        kz.identify(oscillator(), record, free, method)


@pytest.mark.parametrize("kind", [kz.ShootingFit, kz.HarmonicFit, kz.InvariantFit, kz.OrbitFit])
@pytest.mark.parametrize("noise", [-1.0, float("nan"), float("inf"), True, "loud", {"x": -1e-3}])
def test_what_is_no_standard_deviation_is_refused_by_all_alike(record, kind, noise):
    with pytest.raises(KapitzaError, match=r"finite number, 0 or above|noise = .*; give a (finite )?number"):
        kz.identify(oscillator(), record, ["rho"], kind(noise=noise))


@pytest.mark.parametrize("kind", [kz.ShootingFit, kz.HarmonicFit, kz.OrbitFit])
def test_noise_of_an_unknown_channel_is_refused_by_all_alike(record, kind):
    with pytest.raises(DataError, match='noise names "y"; the channels in use are x'):
        kz.identify(oscillator(), record, ["rho"], kind(noise={"y": 0.1}))


@pytest.mark.parametrize("kind", [kz.ShootingFit, kz.HarmonicFit])
def test_exact_channels_are_accepted_by_all_alike(kind):
    """noise = 0: nothing is known of random errors, and what little there is is estimated."""
    clean = run(noise=0.0)
    fit = kz.identify(oscillator(rho=1.1, c=0.1), clean, ["rho", "c"], kind(noise=0))
    assert fit["rho"] == pytest.approx(1.0, rel=1e-4)
    assert np.isfinite(list(fit.deviations.values())).all()


def test_an_exact_orbit_is_fitted_with_noise_zero():
    model = kz.library.duffing()
    bare = kz.solve_orbit(model, profile=False).with_(covariance=None)
    fit = kz.identify(model.with_values(k=0.1), [bare], "k", kz.OrbitFit(noise=0))
    assert fit["k"] == pytest.approx(0.08, rel=1e-7)


@pytest.mark.parametrize("method", [kz.ShootingFit(), kz.HarmonicFit(), kz.HarmonicFit(noise=1e-3)])
def test_records_have_values_of_their_own_in_every_method(method):
    """Two drive amplitudes and frequencies, one oscillator."""
    settings = [{"F": 0.4, "omega": 1.3}, {"F": 0.7, "omega": 1.1}]
    data = [(run(seed=i, **own), own) for i, own in enumerate(settings)]
    fit = kz.identify(oscillator(c=0.25, rho=1.2, k3=0.4, F=9.0), data, ["c", "rho", "k3"], method)
    for name, true in (("c", 0.2), ("rho", 1.0), ("k3", 0.5)):
        assert abs(fit[name] - true) < 5 * fit.deviations[name]
        assert fit.deviations[name] < 0.02
    assert "F" not in fit.fixed


@pytest.mark.parametrize("objective", ["variance", "surface"])
def test_invariants_of_records_with_values_of_their_own(objective):
    data = []
    for seed, k in enumerate((1.0, 2.0)):
        motion = kz.simulate(springs(k=k), x0=[1.0, 0.0], t=np.arange(300) * 0.1)
        data.append((kz.measure(motion, noise=1e-3, seed=seed), {"k": k}))
    fit = kz.identify(springs(k=7.0, e=0.5), data, ["e"], kz.InvariantFit(objective))
    assert abs(fit["e"] - 0.3) < 5 * fit.deviations["e"]
    assert fit.deviations["e"] < 0.01
    assert "k" not in fit.noise


@pytest.mark.parametrize("method", METHODS)
def test_a_value_that_is_free_cannot_belong_to_a_record(record, method):
    with pytest.raises(ModelError, match="rho is free and also given as 1 with record 0"):
        kz.identify(oscillator(), (record, {"rho": 1.0}), ["rho"], method)
    with pytest.raises(DataError, match=r"F = 'big' is given with record 0: give a finite number"):
        kz.identify(oscillator(), (record, {"F": "big"}), ["rho"], method)


def test_the_weak_form_knows_outputs_of_the_settings(record):
    twice = kz.Record.from_arrays(record.time, {"u": 2 * record["x"] + 1}, period=record.period, phase=0.0)
    plain = kz.identify(oscillator(), record, ["c", "rho", "k3"], kz.HarmonicFit(noise=1e-3))
    doubled = kz.identify(oscillator(), twice, ["c", "rho", "k3"], kz.HarmonicFit(outputs={"u": "2*x + 1"}, noise=2e-3))
    for name in plain.names:
        assert doubled[name] == pytest.approx(plain[name], rel=1e-9)


def test_every_method_may_free_combinations(record):
    """c/m, rho/m of an oscillator whose mass is not known."""
    model = kz.Model.from_equations(
        "m*x'' + c*x' + rho*x + k3*x**3 = 0.4*m*cos(1.3*t)",
        parameters={"m": 2.0, "c": 0.5, "rho": 2.1, "k3": 0.9},
        period="2*pi/1.3",
        start={"x": 1.0},
    )
    for method in (kz.ShootingFit(), kz.HarmonicFit()):
        fit = kz.identify(model, record, ["c/m", "rho/m", "k3/m"], method)
        assert abs(fit["rho/m"] - 1.0) < 5 * fit.deviations["rho/m"]


def test_without_free_parameters_the_motion_alone_is_fitted(record):
    fit = kz.identify(oscillator(), record, [], kz.ShootingFit())
    assert fit.names == ()
    assert fit.noise["x"] == pytest.approx(1e-3, rel=0.15)
    assert kz.identify(oscillator(), record, []).names == ()
    wrong = kz.identify(oscillator(rho=3.0), record, [], kz.ShootingFit(throw=False, max_iterations=3))
    assert not wrong.status.ok
    with pytest.raises(KapitzaError, match="No free parameters"):
        kz.identify(oscillator(), record, [], kz.HarmonicFit())


def test_data_come_in_one_grammar(record):
    orbit = kz.solve_orbit(kz.library.duffing(), profile=False)
    orbits = kz.OrbitSet((orbit,), (False, False))
    parts = as_parts([record, (record, {"F": 1.0}), ([orbit, (orbits, {"B": 2.0})], {"k": 1.0, "B": 1.0})])
    assert [part.label for part in parts] == ["record 0", "record 1", "orbit 2", "set of orbits 3"]
    assert [dict(part.values) for part in parts] == [{}, {"F": 1.0}, {"k": 1.0, "B": 1.0}, {"k": 1.0, "B": 2.0}]
    for nothing in ([], (), [[]], kz.OrbitSet((), (False, False)), iter(())):
        with pytest.raises(DataError, match="no data to fit"):
            kz.identify(oscillator(), nothing, ["rho"])
    for method, kind in ((kz.ShootingFit(), "ShootingFit"), (kz.InvariantFit(), "InvariantFit"), ("auto", "OrbitFit")):
        if kind != "OrbitFit":
            with pytest.raises(DataError, match=f"{kind} works on records, not on an orbit"):
                kz.identify(kz.library.henon_heiles(), orbit, ["m1"], method)
    assert make_request(oscillator(), as_parts([record]), "rho", kz.ShootingFit()).names == ("rho",)


def test_noise_is_stated_before_it_is_known(record):
    """Noise of the settings wins over that of the record; a name that is neither channel nor signal is refused."""
    own = next(iter(make_request(oscillator(), as_parts(record), "rho", kz.ShootingFit()).parts))
    assert own.noise == {"x": 1e-3}
    stated = make_request(oscillator(), as_parts([record, record]), "rho", kz.ShootingFit(noise=2e-3))
    assert [part.noise["x"] for part in stated.parts] == [2e-3, 2e-3]
    exact = make_request(oscillator(), as_parts(record), "rho", kz.ShootingFit(noise={"x": 0.0}))
    assert exact.parts[0].noise == {"x": 0.0}
    assert exact.positive_noise == {}


def with_prior(model, name, mean, deviation):
    parts = (replace(p, prior=kz.Prior(mean, deviation)) if p.name == name else p for p in model.parameters)
    return replace(model, parameters=tuple(parts))


@pytest.mark.parametrize("method", [kz.HarmonicFit(), kz.ShootingFit(), kz.InvariantFit("balance", invariant="x")])
def test_a_prior_counts_as_one_more_reading_in_every_method(record, method):
    """As precise as the data: half-way between, with half the variance; far off: the data contradict it aloud."""
    if isinstance(method, kz.InvariantFit):
        model, name = springs(e=0.4), "e"
        data = kz.measure(kz.simulate(springs(), x0=[1.0, 0.0], t=np.arange(200) * 0.1), noise=1e-3, seed=1)
        method = kz.InvariantFit()
    else:
        model, name, data = oscillator(rho=1.1), "rho", record
    plain = kz.identify(model, data, [name], method)
    deviation = plain.deviations[name]
    near = kz.identify(with_prior(model, name, plain[name] + deviation, deviation), data, [name], method)
    assert near[name] == pytest.approx(plain[name] + deviation / 2, abs=0.03 * deviation)
    assert near.deviations[name] == pytest.approx(deviation / np.sqrt(2), rel=0.02)
    assert not any("prior" in text for text in near.warnings)
    far = kz.identify(with_prior(model, name, plain[name] + 9 * deviation, deviation), data, [name], method)
    assert any("standard deviations from its prior" in text for text in far.warnings)


def test_intervals_end_at_the_bounds(record):
    """k3 within two standard errors of its bound: the interval of a value between its bounds does not pass them."""
    fit = kz.identify(oscillator(), record, ["c"], kz.HarmonicFit())
    low, high = fit.interval(0.95).loc["c"]
    bound = fit["c"] - 0.5 * (fit["c"] - low)
    parts = (replace(p, bounds=(bound, 10.0)) if p.name == "c" else p for p in oscillator().parameters)
    held = kz.identify(replace(oscillator(), parameters=tuple(parts)), record, ["c"], kz.HarmonicFit())
    assert held.interval(0.95).loc["c", "low"] == bound
    assert held.interval(0.95).loc["c", "high"] == pytest.approx(high, rel=1e-12)
    assert held.table().loc["c", "low"] == bound


@pytest.mark.parametrize("given", [[], ["a fit", "another"], {"one": 1, "two": 2}, None, {}])
def test_fits_to_compare_come_by_name(given):
    with pytest.raises(KapitzaError, match=r"at least two fits by name|fits.* is .*; give (a table|an Estimate)"):
        kz.compare_fits(given)


STATED = [kz.ShootingFit(), kz.HarmonicFit(), kz.InvariantFit(), kz.OrbitFit(), kz.BranchFit(), kz.Automatic()]


@pytest.mark.parametrize("method", STATED, ids=lambda method: method.name)
def test_methods_refuse_what_they_do_not_accept(record, method):
    """Every kind of data that a method does not state is refused with a method that takes it."""
    orbit = kz.solve_orbit(kz.library.duffing(), profile=False)
    branch = kz.MeasuredBranch("response", "omega", [1.0, 1.1], [0.5, 0.6], state="x")
    for source in (record, orbit, kz.OrbitSet((orbit,), (False, False)), branch):
        if isinstance(source, method.accepts.sources):
            method.accepts.check(method.name, as_parts(source))
        else:
            with pytest.raises(DataError, match=rf"{method.name} works on .*, not on an? .*: fit it by \w+Fit\(\)"):
                kz.identify(oscillator(), source, ["rho"], method)


def test_questions_can_be_sent_to_worker_processes():
    model = springs()
    record = kz.simulate(model, {"q": 1.0, "p": 0.0}, t=np.arange(40) * 0.1)
    request = make_request(model, as_parts(record), ["k"], kz.InvariantFit())
    again = pickle.loads(pickle.dumps(request))  # noqa: S301
    assert (again.names, again.outputs) == (("k",), {})


def test_records_of_a_class_derived_from_ours_are_records():
    class Own(kz.Record):
        pass

    record = Own.from_arrays(np.arange(3.0), {"x": np.arange(3.0)})
    (part,) = as_parts(record)
    assert part.label == "record 0"
    with pytest.raises(DataError, match="BranchFit works on measured branches, not on a record: fit it by Shoo"):
        kz.BranchFit.accepts.check("BranchFit", [part])
    Accepts(sources=(Own,)).check("Mine", [part])
    with pytest.raises(DataError, match="Mine works on Own, not on a record"):
        Accepts(sources=(Own,)).check("Mine", as_parts(kz.Record(record.dataset)))
