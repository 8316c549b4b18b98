"""Every public name explains itself: a docstring, and examples that run."""

import doctest
import inspect

import pytest

import kapitza as kz

FINDER = doctest.DocTestFinder(recurse=False)
NAMES = [name for name in kz.__all__ if callable(getattr(kz, name))]


def runs(name: str) -> bool:
    """Whether the docstring has an example that is not told to be skipped."""
    lines = (inspect.getdoc(getattr(kz, name)) or "").splitlines()
    return any(line.startswith(">>>") and "+SKIP" not in line for line in lines)


WITH_EXAMPLES = [name for name in NAMES if runs(name)]
COMPLETE = ("kapitza.data", "kapitza.errors", "kapitza.flow", "kapitza.monitor", "kapitza.orbit", "kapitza.saving")
"""Where every public name has an example."""


def test_there_are_examples():
    assert len(WITH_EXAMPLES) > 40


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_has_a_docstring(name):
    assert len(inspect.getdoc(getattr(kz, name)) or "") > 20


@pytest.mark.parametrize("name", [n for n in NAMES if getattr(kz, n).__module__.startswith(COMPLETE)])
def test_every_public_name_has_an_example(name):
    assert name in WITH_EXAMPLES


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_run(name):
    found = FINDER.find(getattr(kz, name), name, globs={})
    assert found
    for test in found:
        failures: list[str] = []
        result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=failures.append)
        assert result.attempted > 0
        assert result.failed == 0, "".join(failures)
