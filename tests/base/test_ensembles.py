"""Many runs: the same answer whoever works, failures kept, dead workers replaced, finished parts not repeated."""

import doctest
import inspect
import os
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import DataError, FlowError, Status


def throw(item, shared, generator):
    return {"item": item, "eyes": generator.integers(1, 7), "shared": shared or 0.0}


def fail_sometimes(item, shared, generator):
    if item % 3 == 0:
        raise FlowError(f"run {item} left the finite numbers")
    return throw(item, shared, generator)


def die_once(item, shared, generator):
    """The first worker that comes to run 7 is killed; who repeats it finds the mark."""
    mark = Path(shared)
    if item == 7 and not mark.exists():
        mark.touch()
        os._exit(1)
    return throw(item, None, generator)


def always_die(item, shared, generator):
    os._exit(1)


def equal(one, other):
    return all(np.array_equal(one.columns[n], other.columns[n]) for n in one.columns)


def test_the_answer_does_not_depend_on_who_works():
    alone = kz.ensemble(throw, range(600), seed=3)
    with ThreadPoolExecutor(3) as threads:
        pooled = kz.ensemble(throw, range(600), seed=3, executor=threads)
    processes = kz.ensemble(throw, range(600), seed=3, workers=2)
    assert equal(alone, pooled)
    assert equal(alone, processes)
    assert len(alone) == 600
    assert set(alone.columns["eyes"]) == {1, 2, 3, 4, 5, 6}
    assert not np.array_equal(alone.columns["eyes"], kz.ensemble(throw, range(600), seed=4).columns["eyes"])


def test_failures_are_collected(tmp_path):
    found = kz.ensemble(fail_sometimes, range(10), keep=tmp_path)
    assert kz.ensemble(fail_sometimes, range(10), keep=tmp_path).failures == found.failures
    assert found.table().index.tolist() == [1, 2, 4, 5, 7, 8]
    assert [f.run for f in found.failures] == [0, 3, 6, 9]
    assert "left the finite numbers" in found.failures[0].message


def test_a_dead_worker_costs_a_repetition(tmp_path):
    mark = str(tmp_path / "mark")
    found = kz.ensemble(die_once, range(40), shared=mark, workers=2)
    assert Path(mark).exists()
    assert np.array_equal(found.columns["eyes"], kz.ensemble(throw, range(40)).columns["eyes"])
    with pytest.raises(DataError, match="died 1 times"):
        kz.ensemble(always_die, range(4), workers=1, retries=0)


def test_finished_parts_are_kept_and_not_repeated(tmp_path):
    monitor = kz.Silent()

    class Impatient(kz.Silent):
        def show(self, progress):
            if progress.done >= 100:
                self.cancel()

    cut = kz.ensemble(throw, range(300), seed=1, keep=tmp_path, monitor=Impatient())
    assert cut.status is Status.INTERRUPTED
    assert 100 <= len(cut) < 300
    files = sorted(tmp_path.glob("part-*.npz"))
    written = [f.stat().st_mtime_ns for f in files]
    whole = kz.ensemble(throw, range(300), seed=1, keep=tmp_path, monitor=monitor)
    assert [f.stat().st_mtime_ns for f in files] == written
    assert equal(whole, kz.ensemble(throw, range(300), seed=1))
    with pytest.raises(DataError, match="belongs to another study"):
        kz.ensemble(throw, range(300), seed=2, keep=tmp_path)


def test_refusals():
    with pytest.raises(DataError, match="not both"):
        kz.ensemble(throw, range(3), workers=2, executor=ThreadPoolExecutor(1))
    with pytest.raises(kz.KapitzaError, match="submit"):
        kz.ensemble(throw, range(3), executor=5)


def test_coverage_of_a_linear_oscillator():
    model = kz.Model.from_equations("x'' + c*x' + k*x = 0", parameters={"c": 0.2, "k": 4.0}, name="oscillator")
    record = kz.simulate(model, x0=[1.0, 0.0], t=np.arange(0, 20, 0.05)).select(["x"])
    found = kz.coverage(model, record, 0.01, ["c", "k"], kz.HarmonicFit(), fits=30, seed=5)
    table = found.table()
    # 90 % nominal: below 0.75 of 30 with probability 0.8 %.
    assert (table["inside"] >= 0.75).all()
    assert (np.abs(table["bias"]) < table["stated deviation"]).all()
    assert (table["from"] < table["inside"]).all()
    assert found.fits.failures == ()


@pytest.mark.parametrize("name", ["ensemble", "coverage", "basins", "exponents", "modal_reduction"])
def test_docstring_has_its_sections_and_its_example_runs(name):
    thing = getattr(kz, name)
    text = inspect.getdoc(thing) or ""
    for section in ("Parameters\n----------", "Returns\n-------", "Examples\n--------"):
        assert section in text
    for parameter in inspect.signature(thing).parameters:
        assert parameter in text
    found = doctest.DocTestFinder(recurse=False).find(thing, name, globs={})
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(found[0])
    assert runner.summarize(verbose=False) == (0, len(found[0].examples))


def scale(item, shared, generator):
    return {"value": item * shared, "drawn": generator.normal()}


def other_names(item, shared, generator):
    return {"a": 1.0} if item < 150 else {"a": 1.0, "b": 2.0}


def raise_once(item, shared, generator):
    if item == 3:
        raise ValueError("not one of Kapitza's errors")
    return {"value": item}


def nothing(item, shared, generator):
    return None


class Reversed:
    """Does nothing until somebody waits; then the last work first."""

    def __init__(self):
        self.waiting = []

    def submit(self, fn, /, *args):
        executor = self

        class Answer(Future):
            def add_done_callback(self, fn):
                super().add_done_callback(fn)
                if len(executor.waiting) == 40:
                    for future, work, arguments in reversed(executor.waiting):
                        future.set_result(work(*arguments))

        future = Answer()
        self.waiting.append((future, fn, args))
        return future


class Losing:
    """Every part is lost the first time it is sent, as with a worker that dies."""

    def __init__(self):
        self.sent = set()

    def submit(self, fn, /, *args):
        future: Future = Future()
        if args[1:2] == (None,) or args[1] in self.sent:
            future.set_result(fn(*args))
        else:
            self.sent.add(args[1])
            future.set_exception(RuntimeError("the worker is gone"))
        return future


def test_parts_of_another_study_are_not_taken_for_this_one(tmp_path):
    """The same seed and the same number of runs, but another model, other items or another function."""
    model = kz.library.duffing()
    first = kz.ensemble(scale, range(5), shared=2.0, keep=tmp_path / "numbers")
    assert equal(first, kz.ensemble(scale, range(5), shared=2.0, keep=tmp_path / "numbers"))
    for function, items, shared in ((scale, range(5), 3.0), (scale, [0, 1, 2, 3, 5], 2.0), (throw, range(5), 2.0)):
        with pytest.raises(DataError, match=r"another study .its function, its items"):
            kz.ensemble(function, items, shared=shared, keep=tmp_path / "numbers")
    record = kz.simulate(model, periods=20, samples_per_period=40).select(["x"])
    given = {"method": kz.HarmonicFit(), "fits": 2, "keep": tmp_path / "fits"}
    kz.coverage(model, record, 0.01, ["k"], **given)
    again = kz.coverage(kz.library.duffing(), record, 0.01, ["k"], **given)
    assert len(again.fits) == 2
    for changed in ({"model": model.with_values(k=0.06)}, {"noise": 0.02}, {"free": ["B"]}):
        asked = {"model": model, "record": record, "noise": 0.01, "free": ["k"], **given, **changed}
        with pytest.raises(DataError, match="such as the values of a model"):
            kz.coverage(**asked)


def test_a_part_that_was_damaged_is_named(tmp_path):
    kz.ensemble(scale, range(300), shared=1.0, keep=tmp_path)
    one, other = sorted(tmp_path.glob("part-*.npz"))[3:5]
    whole = one.read_bytes()
    flipped = bytearray(whole)
    flipped[whole.find(b"values.npy") + 150] ^= 0xFF
    for content in (b"", whole[:10], whole[:-5], bytes(flipped)):
        one.write_bytes(content)
        with pytest.raises(DataError, match=f"{one.name} cannot be read .*: remove it"):
            kz.ensemble(scale, range(300), shared=1.0, keep=tmp_path)
    one.write_bytes(other.read_bytes())
    with pytest.raises(DataError, match="does not hold the runs 6 to 7"):
        kz.ensemble(scale, range(300), shared=1.0, keep=tmp_path)
    one.unlink()
    assert len(kz.ensemble(scale, range(300), shared=1.0, keep=tmp_path)) == 300


def test_errors_of_any_kind_are_failures_of_their_run():
    found = kz.ensemble(raise_once, range(6))
    assert found.runs.tolist() == [0, 1, 2, 4, 5]
    assert [f.message for f in found.failures] == ["ValueError: not one of Kapitza's errors"]
    with pytest.raises(DataError, match=r"None of 4 runs succeeded: TypeError"):
        kz.ensemble(scale, range(4), shared=None)
    with pytest.raises(DataError, match="Run 0 returned None: return numbers by name"):
        kz.ensemble(nothing, range(4))
    with pytest.raises(DataError, match="Run 150 gave a, b, run 0 a"):
        kz.ensemble(other_names, range(300))


def test_executors_that_turn_the_order_or_lose_work_change_nothing():
    alone = kz.ensemble(scale, range(40), shared=2.0, seed=7)
    assert equal(alone, kz.ensemble(scale, range(40), shared=2.0, seed=7, executor=Reversed()))
    assert equal(alone, kz.ensemble(scale, range(40), shared=2.0, seed=7, executor=Losing(), retries=40))
    with pytest.raises(DataError, match=r"The executor failed \(RuntimeError: 'the worker is gone'\)"):
        kz.ensemble(scale, range(40), shared=2.0, executor=Losing(), retries=3)


def test_a_pool_of_ones_own_that_breaks_is_named(tmp_path):
    with (
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
        pytest.raises(DataError, match="Workers of the executor died"),
    ):
        kz.ensemble(die_once, range(10), shared=str(tmp_path / "mark"), executor=pool)
    with pytest.raises(DataError, match="cannot be sent to workers"):
        kz.ensemble(lambda item, shared, generator: {"x": 1.0}, range(3), workers=1)
