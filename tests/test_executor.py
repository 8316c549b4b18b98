"""Executors: the same answer from none, threads, processes, and anything else that has submit."""

from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import KapitzaError
from kapitza.executor import in_order


class Immediate:
    """An executor of nobody's library: submit alone, no private attributes."""

    def submit(self, fn, /, *args):
        future: Future = Future()
        future.set_result(fn(*args))
        return future


@pytest.fixture(scope="module")
def two_processes():
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        yield pool


def test_results_come_in_the_order_of_the_parts():
    parts = [(x,) for x in range(20)]
    with ThreadPoolExecutor(4) as pool:
        for executor in (None, pool, Immediate()):
            assert list(in_order(executor, abs, parts)) == list(range(20))


def test_what_is_no_executor_is_refused():
    with pytest.raises(KapitzaError, match="ProcessPoolExecutor"):
        kz.find_orbits(kz.library.duffing(), max_period=1, executor=2)


def orbits_of(model, executor, **settings):
    return kz.find_orbits(model, executor=executor, **settings)


def test_a_census_does_not_depend_on_who_works(two_processes):
    model = kz.library.duffing().with_values(k=0.08, B=0.2)
    settings = {"max_period": 2, "region": {"x": (-2, 2), "x'": (-2, 2)}, "starts": 256, "rounds": 2}
    alone = orbits_of(model, None, **settings)
    assert len(alone) > 3
    for executor in (two_processes, Immediate()):
        shared = orbits_of(model, executor, **settings)
        assert len(shared) == len(alone)
        for one, other in zip(alone, shared, strict=True):
            assert np.array_equal(one.points, other.points)
            assert np.array_equal(one.multipliers, other.multipliers)
            assert np.array_equal(one.profile.states, other.profile.states)


def test_later_rounds_of_a_census_do_not_depend_on_who_works():
    """What was found in one round is where the next one starts: its order must not depend on the parts."""
    model = kz.Model.from_map({"x": "1 - a*x**2 + y", "y": "b*x"}, parameters={"a": 1.4, "b": 0.3})
    settings = {"max_period": 7, "region": {"x": (-1.5, 1.5), "y": (-0.5, 0.5)}, "starts": 600, "rounds": 3}
    alone, shared = (orbits_of(model, e, **settings) for e in (None, Immediate()))
    assert len(alone) == len(shared) > 8
    assert all(np.array_equal(a.points, b.points) for a, b in zip(alone, shared, strict=True))


def test_a_census_by_sections_does_not_depend_on_who_works(two_processes):
    settings = {"max_period": 3, "section": "z - 27", "starts": 400}
    alone, shared = (orbits_of(kz.library.lorenz(), e, **settings) for e in (None, two_processes))
    assert [o.code for o in alone] == [o.code for o in shared] == ["LR", "LLR", "LRR"]
    assert all(np.array_equal(a.points, b.points) for a, b in zip(alone, shared, strict=True))


def test_many_runs_do_not_depend_on_who_works(two_processes):
    flow = kz.Flow(kz.library.duffing())
    states = np.random.default_rng(0).normal(size=(40, 2))
    alone = flow.propagate_many(states, 0.0, 5.0, tangents=True)
    shared = flow.propagate_many(states, 0.0, 5.0, tangents=True, processes=two_processes)
    assert np.array_equal(alone.state, shared.state)
    assert np.array_equal(alone.jacobian, shared.jacobian)


def test_a_profile_does_not_depend_on_who_works(two_processes):
    """In the processes the fit behind the estimate is made again."""
    model = kz.Model.from_equations("x'' + c*x' + x = 0", parameters={"c": 0.1}, start={"x": 1.0, "x'": 0.0})
    record = kz.measure(kz.simulate(model, t=np.arange(200) * 0.1), noise=0.01, seed=1)
    fit = kz.identify(model, record, free=["c"], method=kz.ShootingFit())
    assert kz.profile_interval(fit, "c") == kz.profile_interval(fit, "c", executor=two_processes)
