"""Every public name of estimation says what it takes and gives, with an example that runs."""

import doctest
import inspect
import warnings

import pytest

import kapitza as kz

NAMES = [
    "Automatic", "Differenced", "Estimate", "HarmonicFit", "InvariantFit", "OrbitFit", "ShootingFit", "advise",
    "compare_fits", "cramer_rao", "find_invariant", "identify", "missing_orbits", "posterior", "profile_interval",
]  # fmt: skip


def test_no_public_name_is_left_out():
    """Parts of an estimate are results: they are described, but nobody makes one by hand."""
    from kapitza import estimate

    parts = {n for n in estimate.__all__ if n not in NAMES}
    assert set(NAMES) - {"find_invariant"} <= set(estimate.__all__)
    for name in parts:
        assert inspect.getdoc(getattr(estimate, name)), name


@pytest.mark.parametrize("name", NAMES)
def test_docstring_has_its_sections_and_its_example_runs(name):
    thing = getattr(kz, name)
    text = inspect.getdoc(thing) or ""
    wanted = ["Examples\n--------"]
    if name != "Estimate":
        wanted.append("Parameters\n----------")
    if inspect.isfunction(thing):
        wanted.append("Returns\n-------")
        for parameter in inspect.signature(thing).parameters:
            assert parameter in text, f"{name}: {parameter} is not described"
    for section in wanted:
        assert section in text, f"{name} lacks {section.splitlines()[0]}"
    found = doctest.DocTestFinder(recurse=False).find(thing, name, globs={})
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert found
    assert found[0].examples
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runner.run(found[0])
    assert runner.summarize(verbose=False).failed == 0
