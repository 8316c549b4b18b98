"""Models that differ in values share what is compiled: every verb still follows its own values."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.flow.core import Core

START = np.array([0.3, 0.1])
GRID = np.linspace(0.0, 4.0, 9)


def forced(**values):
    given = {"k": 0.08, "B": 0.2, "w": 1.0} | values
    return kz.Model.from_equations("x'' + k*x' + x**3 = B*cos(w*t)", parameters=given, period="2*pi/w")


VERBS = {
    "propagate": lambda f: f.propagate(START, 0.0, 3.0).state,
    "propagate_many": lambda f: f.propagate_many([START, START], 0.0, 3.0).state,
    "as in another process": lambda f: Core(*f.core.settings).advance(START, 0.0, 3.0, f.model.vector, False).state,
    "trajectory": lambda f: f.trajectory(START, GRID),
    "strobe": lambda f: f.strobe(START, 4, 5).states,
    "strobe_many": lambda f: f.strobe_many([START, START], 4).states,
    "section": lambda f: f.section(START, "x'", 2).states,
    "dense": lambda f: f.dense(START, 0.0, 3.0)(1.7),
    "rates": lambda f: f.rates(START),
    "period": lambda f: [f.period()],
    "simulate periods": lambda f: kz.simulate(f.model, START, periods=3, samples_per_period=4).values(),
    "simulate t": lambda f: kz.simulate(f.model, START, t=GRID).values(),
}


@pytest.mark.parametrize("verb", VERBS)
def test_changed_values_are_followed_as_by_a_model_of_its_own(verb):
    first = kz.Flow(forced())
    before = np.asarray(VERBS[verb](first))
    changed = kz.Flow(first.model.with_values(k=0.3, B=3.0, w=1.3))
    assert changed.core is first.core
    own = kz.Flow(forced(k=0.3, B=3.0, w=1.3))
    assert own.core is not first.core
    found = np.asarray(VERBS[verb](changed))
    assert not np.allclose(found, before)
    np.testing.assert_array_equal(found, np.asarray(VERBS[verb](own)))
    np.testing.assert_array_equal(np.asarray(VERBS[verb](first)), before)


def test_invariants_of_its_own_values_are_kept():
    model = kz.library.henon_heiles()
    kz.simulate(model, t=GRID)
    changed = model.with_values(b=0.7)
    own = kz.library.henon_heiles().with_values(b=0.7)
    np.testing.assert_array_equal(kz.simulate(changed, t=GRID).values(), kz.simulate(own, t=GRID).values())


def test_a_saved_loop_holds_the_values_of_its_orbit(tmp_path):
    model = forced()
    kz.Flow(model)
    orbit = kz.solve_orbit(model.with_values(k=0.3, B=0.4), START)
    kz.save(orbit, tmp_path / "orbit.nc")
    loop = kz.load(tmp_path / "orbit.nc").loop
    assert loop.flow.model.values["B"] == 0.4
    half = np.array([0.5])
    np.testing.assert_array_equal(loop(half), orbit.loop(half))
