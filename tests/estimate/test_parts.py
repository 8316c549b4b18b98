"""What an estimate holds beyond its values: typed parts, one meaning of identifiable, workings made again on demand."""

from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest

import kapitza as kz
from kapitza.errors import KapitzaError, Status
from kapitza.estimate import FittedMotion, LevelSets, Likelihood, OrbitMatches, WeakRows


@pytest.fixture(scope="module")
def oscillator():
    return kz.Model.from_equations("x'' + c*x' + k*x = 0", parameters={"c": 0.1, "k": 1.0}, start={"x": 1.0, "x'": 0.0})


@pytest.fixture(scope="module")
def record(oscillator):
    return kz.measure(kz.simulate(oscillator, t=np.arange(400) * 0.1).select(["x"]), noise=0.01, seed=2)


@pytest.fixture(scope="module")
def fit(oscillator, record):
    return kz.identify(oscillator.with_values(c=0.2), record, ["c", "k"], kz.ShootingFit())


def test_every_method_fills_the_part_that_is_its_own(oscillator, record, fit):
    assert isinstance(fit.motion, FittedMotion)
    assert isinstance(fit.likelihood, Likelihood)
    assert fit.motion.predicted.shape == fit.motion.measured.shape == (400, 1)
    assert fit.motion.sample_times.shape == fit.motion.piece.shape == (400,)
    weak = kz.identify(oscillator, record, ["c", "k"], kz.HarmonicFit())
    assert isinstance(weak.rows, WeakRows)
    assert weak.rows.count == weak.residuals["weak rows"].size
    spring = kz.Model.from_hamiltonian("p**2/2 + k*q**2/2", positions=["q"], momenta=["p"], parameters={"k": 2.0})
    energy = kz.identify(spring, kz.simulate(spring, x0=[1, 0], t=np.arange(99) * 0.1), ["k"], kz.InvariantFit())
    assert isinstance(energy.level_sets, LevelSets)
    assert energy.level_sets.levels == pytest.approx([1.0])
    duffing = kz.library.duffing()
    orbit = kz.solve_orbit(duffing, profile=False).with_(covariance=1e-6 * np.eye(2))
    matched = kz.identify(duffing.with_values(k=0.1), [orbit], ["k"])
    assert isinstance(matched.matches, OrbitMatches)
    assert matched.matches.table["matched"].tolist() == ["yes"]
    for found, part in ((fit, "motion"), (weak, "rows"), (energy, "level_sets"), (matched, "matches")):
        others = {"motion", "rows", "level_sets", "matches"} - {part}
        assert all(getattr(found, name) is None for name in others)
        assert found.settings is not None


def test_what_data_determine_means_one_thing(oscillator, record, fit, tmp_path):
    """A determined fit says so in no words at all, and in none that say the opposite."""
    for found in (fit, kz.identify(oscillator, record, ["c", "k"], kz.HarmonicFit())):
        assert found.identifiable == ("c", "k")
        assert found.identifiability.complete
        assert "identifiable:" not in str(found)
        assert "determine only" not in found.report(tmp_path / "fit.html").read_text()
    heavy = kz.Model.from_equations("m*x'' + c*x' + k*x = 0", parameters={"m": 1.0, "c": 0.1, "k": 1.0})
    loose = kz.identify(heavy, record, ["m", "c", "k"], kz.ShootingFit(throw=False))
    assert loose.identifiable == ("c/m", "k/m")
    assert "identifiable: c/m, k/m" in str(loose)
    assert "determine only the combinations c/m, k/m" in loose.report(tmp_path / "loose.html").read_text()
    failed = replace(fit, status=Status.STALLED)
    assert failed.identifiable == ()


def test_shooting_fits_are_compared_by_their_likelihood(oscillator, record, fit):
    free = kz.Model.from_equations("x'' + k*x = 0", parameters={"k": 1.0}, start={"x": 1.0, "x'": 0.0})
    undamped = kz.identify(free, record, ["k"], kz.ShootingFit())
    table = kz.compare_fits({"undamped": undamped, "damped": fit})
    assert list(table.index) == ["damped", "undamped"]
    # two parameters, two initial states, known noise: the record knows it
    assert fit.likelihood.fitted == 4
    assert table.loc["damped", "dof"] == 400 - 4
    weighted = fit.residuals["x"]
    log_l = -0.5 * float((weighted**2).sum()) - 400 * np.log(0.01 * np.sqrt(2 * np.pi))
    assert table.loc["damped", "log L"] == pytest.approx(log_l, rel=1e-12)
    assert table.loc["damped", "AIC"] == pytest.approx(8 - 2 * log_l, rel=1e-12)
    assert table.loc["damped", "BIC"] == pytest.approx(4 * np.log(400) - 2 * log_l, rel=1e-12)
    with pytest.raises(KapitzaError, match="weak carries no likelihood"):
        kz.compare_fits({"weak": kz.identify(oscillator, record, ["c"], kz.HarmonicFit()), "damped": fit})


def test_a_refused_minimum_is_called_a_false_one():
    """Three readings of one orbit that contradict each other: the iteration ends, but not on the data."""
    model = kz.library.duffing()
    orbit = kz.solve_orbit(model, profile=False).with_(covariance=1e-10 * np.eye(2))
    away = [orbit.with_(points=orbit.points + shift) for shift in (0.05, 0.02, -0.06)]
    failed = kz.identify(model, away, ["k"], kz.OrbitFit(throw=False, restarts=0, set_aside=False))
    assert failed.status is Status.FALSE_MINIMUM
    assert "no set of k at which" in failed.post_mortem


def test_a_profile_of_an_estimate_without_workings_is_the_same(fit):
    """As after loading from a file: the fit behind it is made again, with the same numbers."""
    bare = replace(fit, workings=None)
    assert kz.profile_interval(bare, "c") == kz.profile_interval(fit, "c")


def test_no_part_is_a_dictionary_of_odds_and_ends(fit):
    names = {f.name for f in fields(fit)}
    assert "details" not in names
    assert isinstance(fit.history, pd.DataFrame)


def test_a_model_without_parameters_is_refused_in_words():
    model = kz.Model.from_equations("x'' + x = 0")
    record = kz.simulate(model, [1.0, 0.0], t=np.arange(100) * 0.1)
    with pytest.raises(kz.KapitzaError, match="the model has none"):
        kz.identify(model, record, free=[], method=kz.HarmonicFit())


def test_fields_of_parts_are_attributes_of_the_estimate(fit):
    """Every field of a part is read and changed as one of the estimate; the others stay the same objects."""
    for part in (fit.question, fit.agreement, fit.course, fit.combined):
        assert fields(part)
        for one in fields(part):
            assert getattr(fit, one.name) is getattr(part, one.name)
    other = fit.with_(chi2=3.0, chain=("by hand",))
    assert (other.chi2, other.agreement.chi2, other.chain) == (3.0, 3.0, ("by hand",))
    assert other.residuals is fit.residuals
    assert other.question is fit.question
    assert fit.with_(motion=None).motion is None
    assert fit.with_(rows=None).motion is fit.motion
    with pytest.raises(TypeError, match="no field colour"):
        fit.with_(colour="red")


def test_no_finding_of_one_kind_does_not_undo_one_of_another_kind(fit):
    """The order in which changes are named says nothing."""
    rows = OrbitMatches.__new__(OrbitMatches)
    for changes in ({"matches": rows, "motion": None}, {"motion": None, "matches": rows}):
        assert fit.with_(**changes).matches is rows
        assert fit.with_(**changes).motion is None
    assert fit.with_(level_sets=None).motion is fit.motion
    assert fit.with_(motion=None).findings is None


def test_findings_of_two_kinds_or_of_a_wrong_kind_are_refused(fit):
    with pytest.raises(TypeError, match="findings"):
        fit.with_(matches=fit.motion)
    with pytest.raises(TypeError, match="findings"):
        fit.with_(motion=fit.motion, matches=OrbitMatches.__new__(OrbitMatches))


def test_subclasses_of_an_estimate_have_its_parts(fit):
    class Own(kz.Estimate):
        pass

    own = Own(**{f.name: getattr(fit, f.name) for f in fields(fit)})
    changed = own.with_(chain=("a",))
    assert isinstance(changed, Own)
    assert changed.chain == ("a",)
