"""Executors: the same answer from none, threads, processes, and anything else that has submit."""

import os
import pickle
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

import kapitza as kz
import other_code
from kapitza.base.monitor import watch
from kapitza.base.workers import MOST_UNPACKED, Shared, in_order
from kapitza.errors import DataError, KapitzaError
from processes import wait_for


class Immediate:
    """An executor of nobody's library: submit alone, no private attributes."""

    def submit(self, fn, /, *args):
        future: Future = Future()
        future.set_result(fn(*args))
        return future


@pytest.fixture(scope="module")
def two_processes(request):
    """Two workers whose code rounds as that of this process does."""
    rounding = other_code.install if request.config.getoption("--other-code") else None
    with ProcessPoolExecutor(2, mp_context=get_context("spawn"), initializer=rounding) as pool:
        yield pool


def test_results_come_in_the_order_of_the_parts():
    parts = [(x,) for x in range(20)]
    with ThreadPoolExecutor(4) as pool:
        for executor in (None, pool, Immediate()):
            assert list(in_order(executor, abs, parts)) == list(range(20))


def test_what_is_no_executor_is_refused():
    with pytest.raises(KapitzaError, match="ProcessPoolExecutor"):
        kz.find_orbits(kz.library.duffing(), max_period=1, executor=2)


def who(*_: object) -> int:
    return os.getpid()


def together(folder: Path, owner: int, number: int) -> tuple[int, int]:
    """The number and this process, once the owner and another process are both at work on a part."""
    mine, others = ("owner", "worker") if os.getpid() == owner else ("worker", "owner")
    (folder / mine).touch()
    wait_for((folder / others).exists, others)
    return number, os.getpid()


def test_this_process_works_while_others_start():
    """Workers that have not started: parts that wait in their queue are done here."""
    spawned = get_context("spawn")
    start = spawned.Event()
    with ProcessPoolExecutor(1, mp_context=spawned, initializer=start.wait) as pool:
        try:
            assert list(in_order(pool, who, [(number,) for number in range(6)])) == [os.getpid()] * 6
        finally:
            start.set()
        assert pool.submit(who).result() != os.getpid()


def orbits_of(model, executor, **settings):
    return kz.find_orbits(model, executor=executor, **settings)


def test_a_census_does_not_depend_on_who_works(two_processes):
    model = kz.library.duffing().with_values(k=0.08, B=0.2)
    settings = {"max_period": 2, "region": {"x": (-2, 2), "x'": (-2, 2)}, "starts": 128, "rounds": 2}
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
    model = kz.Model.from_equations("x'' + c*x' + x = 0", parameters={"c": 0.1}, start={"x": 1.0, "x'": 0.0})
    record = kz.measure(kz.simulate(model, t=np.arange(200) * 0.1), noise=0.01, seed=1)
    fit = kz.identify(model, record, free=["c"], method=kz.ShootingFit())
    assert kz.profile_interval(fit, "c") == kz.profile_interval(fit, "c", executor=two_processes)


def where(shared, *_):
    """The shared object by its identity in the process that has it."""
    return id(shared.value), os.getpid()


class Reluctant:
    """As dask's: futures that are no concurrent.futures ones, and can always be cancelled."""

    def __init__(self):
        self.cancelled = 0

    def submit(self, fn, /, *args):
        executor = self

        class Answer:
            def done(self):
                return False

            def cancel(self):
                executor.cancelled += 1

            def result(self):
                return fn(*args)

        return Answer()


def test_what_parts_share_is_unpacked_once_per_process(two_processes):
    shared = Shared(list(range(1000)))
    parts = [(shared, number) for number in range(40)]
    found = set(in_order(two_processes, where, parts))
    assert 1 <= len(found) == len({process for _, process in found}) <= 3
    assert set(in_order(None, where, parts)) == {(id(shared.value), os.getpid())}


def test_this_process_works_too_while_others_are_busy(two_processes, tmp_path):
    """Parts that no worker has begun are done here, each of them once and in order."""
    done = list(in_order(two_processes, together, [(tmp_path, os.getpid(), number) for number in range(30)]))
    assert [number for number, _ in done] == list(range(30))
    assert os.getpid() in {process for _, process in done}
    assert (tmp_path / "worker").exists()


def test_executors_of_other_libraries_do_all_the_parts():
    """Their futures may be cancelled while they run: none is taken away."""
    given = Reluctant()
    assert list(in_order(given, abs, [(x,) for x in range(5)])) == list(range(5))
    assert given.cancelled == 5  # at the end, when all are done


def test_a_process_forgets_what_was_shared_long_ago():
    def unpacked(number):
        return pickle.loads(pickle.dumps(Shared([number])))  # noqa: S301

    first = unpacked(0)
    assert unpacked(0) is first
    for number in range(MOST_UNPACKED):
        unpacked(number + 1)
    assert unpacked(0) is not first
    assert unpacked(0).value == first.value == [0]


def same_estimate(one, other):
    assert one.values == other.values
    assert one.method == other.method
    assert np.array_equal(one.covariance, other.covariance, equal_nan=True)
    assert one.warnings == other.warnings


@pytest.fixture(scope="module")
def one_orbit():
    """One orbit decides so little that all starts are tried."""
    model = kz.library.duffing()
    orbit = kz.solve_orbit(model)
    return model, orbit.with_(covariance=1e-6 * np.eye(orbit.points.size))


def test_starts_of_a_fit_do_not_depend_on_who_works(two_processes, one_orbit):
    model, orbit = one_orbit
    fits = [
        kz.identify(model.with_values(k=0.1), orbit, ["k"], kz.OrbitFit(restarts=3), executor=e)
        for e in (None, two_processes, Immediate())
    ]
    assert fits[0].workings.outcome.tried >= 4
    for other in fits[1:]:
        same_estimate(fits[0], other)
        assert other.workings.outcome.tried == fits[0].workings.outcome.tried
        assert other.matches.begun == fits[0].matches.begun


@pytest.mark.parametrize("objective", ["variance", "surface"])
def test_resampled_fits_do_not_depend_on_who_works(two_processes, objective):
    model = kz.library.henon_heiles()
    record = kz.measure(kz.simulate(model, t=np.arange(200.0)), noise=1e-3, seed=1)
    method = kz.InvariantFit(objective, bootstrap=6)
    fits = [kz.identify(model, record, ["b", "d"], method, executor=e) for e in (None, two_processes, Immediate())]
    assert fits[0].level_sets is not None
    assert fits[0].level_sets.bootstrap.shape == (6, 2)
    for other in fits[1:]:
        same_estimate(fits[0], other)
        assert np.array_equal(fits[0].level_sets.bootstrap, other.level_sets.bootstrap)


def test_walkers_do_not_depend_on_who_works(two_processes, one_orbit):
    model, orbit = one_orbit
    fit = kz.identify(model, orbit, ["k"], kz.OrbitFit(restarts=0))
    chains = [
        kz.posterior(fit, draws=10, tune=2, walkers=8, seed=3, exact=True, executor=e).posterior["k"].values
        for e in (None, two_processes, Immediate())
    ]
    assert chains[0].shape == (8, 10)
    assert np.ptp(chains[0]) > 0
    assert all(np.array_equal(chains[0], other) for other in chains[1:])


def test_an_estimate_made_on_workers_keeps_no_executor(two_processes, one_orbit):
    model, orbit = one_orbit
    fit = kz.identify(model, orbit, ["k"], kz.OrbitFit(restarts=0), executor=two_processes)
    again = pickle.loads(pickle.dumps(fit))  # noqa: S301
    assert again.values == fit.values
    with pytest.raises(KapitzaError, match="an object with submit"):
        kz.identify(model, orbit, ["k"], executor=2)


def test_posterior_of_a_motion_does_not_depend_on_the_executor():
    model = kz.Model.from_equations("x'' + 0.1*x' + k*x + x**3 = 0", parameters={"k": 2.0})
    record = kz.simulate(model, x0=[1.0, 0.0], t=np.arange(120) * 0.1, noise=0.01, seed=1).select(["x"])
    fit = kz.identify(model, record, ["k"], method=kz.ShootingFit())
    asked: list[int] = []

    class Counted(ThreadPoolExecutor):
        def submit(self, fn, /, *args, **keywords):
            asked.append(1)
            return super().submit(fn, *args, **keywords)

    with Counted(2) as pool:
        alone, shared = (
            kz.posterior(fit, draws=10, tune=2, walkers=8, seed=3, exact=True, executor=e).posterior["k"].values
            for e in (None, pool)
        )
    assert len(asked) > 10
    assert np.array_equal(alone, shared)


def test_starts_of_a_weak_fit_do_not_depend_on_who_works(two_processes):
    model = kz.Model.from_equations(
        "m*l**2*phi'' + c*phi' + m*g*l*sin(phi) = T*cos(w*t)",
        angles=["phi"],
        parameters={"m": 0.5, "l": 0.3, "c": 0.01, "g": 9.81, "T": 0.3, "w": 4.0},
        period="2*pi/w",
    )
    record = kz.simulate(model, x0=[0.3, 0.0], periods=10, samples_per_period=80, noise=0.005, seed=1).select(["phi"])
    start = model.with_values(m=1.0, l=0.5, c=0.1)
    alone, *others = (
        kz.identify(start, record, ["m", "l", "c"], kz.HarmonicFit(), executor=executor)
        for executor in (None, two_processes, Immediate())
    )
    assert alone["l"] == pytest.approx(0.3, rel=0.05)
    for other in others:
        assert [other[name] for name in other.names] == [alone[name] for name in alone.names]
        assert np.array_equal(other.covariance, alone.covariance)


class Failing:
    """An executor of a user that fails in one of several ways."""

    def __init__(self, way: str):
        self.way = way

    def submit(self, fn, /, *args):
        if self.way == "submit":
            raise RuntimeError("no workers")
        if self.way == "nothing":
            return None
        future = Future()
        future.set_running_or_notify_cancel()
        if self.way == "result":
            future.set_exception(OSError("the worker is gone"))
        if self.way == "exit":
            future.set_exception(SystemExit(3))
        if self.way == "other":
            future.set_result(42)
        return future


@pytest.mark.parametrize(
    ("way", "message"),
    [
        ("submit", r"The executor failed \(RuntimeError: 'no workers'\): make a new one"),
        ("nothing", r"submit of the executor returned None; it must return a future"),
        ("result", r"The executor failed \(OSError: 'the worker is gone'\)"),
        ("exit", r"Work of the executor ended by SystemExit\(3\): the function must return, not exit"),
        ("other", r"A future of the executor gave 42, which is not what its function returned"),
    ],
)
def test_executors_that_fail_are_named(way, message):
    with pytest.raises(DataError, match=message):
        list(in_order(Failing(way), pow, [(2, 3), (3, 2)]))
    with pytest.raises(DataError, match=message):
        kz.ensemble(plain_square, [1.0, 2.0], executor=Failing(way))


def plain_square(item, shared, random):
    return {"y": item**2}


class AfterAWhile:
    """Asks to stop the third time it is looked at."""

    looks = 0

    @property
    def cancelled(self) -> bool:
        self.looks += 1
        return self.looks > 3

    def show(self, progress) -> None:
        pass


def test_an_executor_that_never_answers_can_be_stopped():
    with watch(AfterAWhile(), "waiting") as task:
        list(in_order(Failing("never"), pow, [(2, 3)]))
    assert task.interrupted
    ensemble = kz.ensemble(plain_square, [1.0, 2.0], executor=Failing("never"), monitor=AfterAWhile())
    assert ensemble.status is kz.Status.INTERRUPTED
