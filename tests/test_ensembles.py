"""Many runs: the same answer whoever works, failures kept, dead workers replaced, finished parts not repeated."""

import doctest
import inspect
import os
from concurrent.futures import ThreadPoolExecutor
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


def test_failures_are_collected():
    found = kz.ensemble(fail_sometimes, range(10))
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
    with pytest.raises(DataError, match="submit"):
        kz.ensemble(throw, range(3), executor=5)


def test_coverage_of_a_linear_oscillator():
    model = kz.Model.from_equations("x'' + c*x' + k*x = 0", parameters={"c": 0.2, "k": 4.0}, name="oscillator")
    record = kz.simulate(model, x0=[1.0, 0.0], t=np.arange(0, 20, 0.05)).select(["x"])
    found = kz.coverage(model, record, 0.01, ["c", "k"], kz.HarmonicFit(), fits=60, seed=5)
    table = found.table()
    # 90 % nominal: below 0.75 of 60 with probability 0.1 %.
    assert (table["inside"] >= 0.75).all()
    assert (np.abs(table["bias"]) < table["stated deviation"]).all()
    assert (table["from"] < table["inside"]).all()
    assert found.fits.failures == ()


@pytest.mark.parametrize("name", ["ensemble", "coverage", "basins", "modal_reduction"])
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
