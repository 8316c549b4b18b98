"""Every public name explains itself: its arguments, what comes back, and an example that runs."""

import dataclasses
import doctest
import importlib
import inspect
import re
import warnings

import pytest

import kapitza as kz

FINDER = doctest.DocTestFinder(recurse=False)
PUBLIC = {name: getattr(kz, name) for name in kz.__all__ if callable(getattr(kz, name))}
PUBLIC |= {f"library.{name}": getattr(kz.library, name) for name in kz.library.__all__ if name != "SYSTEMS"}
FOLDERS = ("continuation", "data", "estimate", "estimate.invariant_fit.conserved", "flow", "model", "orbits")
FOLDERS += ("orbits.in_records", "orbits.of_models", "planning", "report", "rig", "signal", "solve", "study")


def arguments(thing) -> list[str]:
    """What a caller gives: parameters of a function, fields of a dataclass; none of protocols and enumerations."""
    if dataclasses.is_dataclass(thing):
        return [f.name for f in dataclasses.fields(thing) if f.init and not f.name.startswith("_")]
    return list(inspect.signature(thing).parameters) if inspect.isfunction(thing) else []


@pytest.mark.parametrize("name", PUBLIC)
def test_every_argument_is_described(name):
    text = inspect.getdoc(PUBLIC[name]) or ""
    assert len(text) > 20
    missing = [one for one in arguments(PUBLIC[name]) if not re.search(rf"\b{re.escape(one)}\b", text)]
    assert missing == []


@pytest.mark.parametrize("name", [name for name, thing in PUBLIC.items() if inspect.isfunction(thing)])
def test_functions_say_what_they_take_and_give(name):
    text = inspect.getdoc(PUBLIC[name]) or ""
    assert "Returns\n-------" in text
    assert "Parameters\n----------" in text or not arguments(PUBLIC[name])


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_an_example_that_runs(name):
    (found,) = FINDER.find(PUBLIC[name], name, globs={})
    assert [example for example in found.examples if not example.options.get(doctest.SKIP)]
    failures: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(found, out=failures.append)
    assert result.attempted > 0
    assert result.failed == 0, "".join(failures)


def _made_here(thing) -> bool:
    """Functions and classes of the package; names of types and locks carry their words in the source."""
    return (inspect.isfunction(thing) or inspect.isclass(thing)) and thing.__module__.startswith("kapitza")


@pytest.mark.parametrize("folder", FOLDERS)
def test_names_that_folders_offer_are_described(folder):
    module = importlib.import_module(f"kapitza.{folder}")
    bare = [name for name, thing in vars(module).items() if _made_here(thing) and not inspect.getdoc(thing)]
    assert bare == []


@pytest.mark.parametrize("name", PUBLIC)
def test_first_lines_are_short(name):
    assert len((inspect.getdoc(PUBLIC[name]) or "").split("\n")[0].split()) <= 9
