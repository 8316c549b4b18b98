"""The settings that editors show for `find_orbits` are those of the functions behind it."""

from inspect import signature
from typing import get_overloads

from kapitza.orbits import find_orbits as module
from kapitza.orbits.in_records import find_orbits_in_record
from kapitza.orbits.of_models import find_orbits_of_model


def test_the_overloads_are_the_functions_that_do_the_work():
    shown = get_overloads(getattr(module.find_orbits, "__wrapped__", module.find_orbits))
    assert len(shown) == 2
    for overload, behind in zip(shown, (find_orbits_of_model, find_orbits_in_record), strict=True):
        ours, theirs = signature(overload).parameters, signature(behind).parameters
        known = {name: p.default for name, p in theirs.items() if p.kind is p.KEYWORD_ONLY}
        assert known
        assert {name: p.default for name, p in ours.items() if p.kind is p.KEYWORD_ONLY} == known
