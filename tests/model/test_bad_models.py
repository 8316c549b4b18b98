"""Models that contradict themselves are refused with the thing and the cure."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import sympy as sp

from kapitza import library
from kapitza.errors import KapitzaError, ModelError
from kapitza.model import Coordinate, Model, Parameter, Prior, symbol


def oscillator(**parts) -> Model:
    given = {"parameters": {"m": 1.0, "k": 4.0}} | parts
    return Model.from_equations(given.pop("equations", "m*x'' + k*x = 0"), **given)


BAD = {
    'The name "x" stands for 2 things': {"parameters": {"m": 1.0, "k": 1.0, "x": 2.0}},
    '"lambda" cannot be used as a name. Write "lambda_"': {"parameters": {"m": 1, "k": 1, "lambda": 1}},
    '"a__b" cannot be used': {"parameters": {"m": 1, "k": 1, "a__b": 1}},
    '"k 2" cannot be used': {"parameters": {"m": 1, "k": 1, "k 2": 1}},
    'The name "t" is taken': {"parameters": {"m": 1, "k": 1, "t": 1}},
    'The name "pi" is taken': {"parameters": {"m": 1, "k": 1, "pi": 1}},
    "1 equations for 2 coordinates (x, y)": {"coordinates": ["x", "y"]},
    'unknown name "kk". Did you mean "k"': {"equations": "m*x'' + kk*x = 0"},
    "is not declared here": {"equations": symbol("x''") + symbol("q")},
    "are defined by each other in a circle": {"parameters": {"m": 1, "k": "j", "j": "2*k"}},
    'Parameter "k": Column 1: unknown name "w"': {"parameters": {"m": 1, "k": "w**2"}},
    "The period: Column 6": {"period": "2*pi/omega"},
    "The period of the excitation uses": {"period": symbol("x")},
    'Output "y": Column 1: unknown name "z"': {"outputs": {"y": "z"}},
    'Invariant "E" uses "t"': {"invariants": {"E": "x*t"}},
    'Impact "wall" resets "v"': {"impacts": [{"name": "wall", "surface": "x", "reset": {"v": "-x'"}}]},
    'A symmetry maps "y"': {"symmetries": [{"map": {"y": "-x"}}]},
    "which cut 2 cells": {"partition": ["x"], "letters": "ABCD"},
    "repeat": {"partition": ["x"], "letters": "AA"},
    'Start value for "v", which is not a state': {"start": {"v": 1.0}},
    'has no part "perid". Did you mean "period"': {"perid": "2*pi"},
    "parameters['m'] = inf; give a finite number": {"parameters": {"m": np.inf, "k": 1.0}},
    "order 3": {"equations": "x''' + m*k*x = 0"},
}


@pytest.mark.parametrize("message", BAD)
def test_contradictions_are_named(message):
    with pytest.raises(ModelError) as error:
        oscillator(**BAD[message])
    assert message in str(error.value)
    assert isinstance(error.value, KapitzaError)


def test_unknown_and_derived_parameters():
    model = oscillator(parameters={"m": 1.0, "w": 2.0, "k": "m*w**2"})
    with pytest.raises(ModelError, match=r'no parameter "mm"\. Did you mean "m"\? Its parameters: m, w, k'):
        model.with_values(mm=2.0)
    with pytest.raises(ModelError, match=r'"k" is derived \(m\*w\*\*2\); use m, w instead'):
        model.with_values(k=2.0)
    assert model.check("w").value == 2.0


def test_missing_values_are_named_when_they_are_needed():
    model = oscillator(parameters=["m", Parameter("k", 2.0)])
    assert np.isnan(model.values["m"])
    with pytest.raises(ModelError, match=r"no value for m; set it by model\.with_values\(m=\.\.\.\)"):
        _ = model.vector
    np.testing.assert_array_equal(model.with_values(m=3.0).vector, [3.0, 2.0])


def test_periods_must_be_positive():
    pendulum = library.parametric_pendulum()
    with pytest.raises(ModelError, match=r"2\*pi/omega is -0\.6\d+ at omega = -9\.09; it must be positive"):
        _ = pendulum.with_values(omega=-9.09).period
    with pytest.raises(ModelError, match="not a finite real number"):
        _ = pendulum.with_values(omega=0.0).period
    with pytest.raises(ModelError, match="period -1 is -1; it must be positive"):
        _ = oscillator(period="-1").period


def test_values_that_make_a_derived_parameter_complex():
    model = oscillator(parameters={"m": 1.0, "s": 4.0, "k": "sqrt(s)"})
    with pytest.raises(ModelError, match='"k" evaluates to'):
        _ = model.with_values(s=-4.0).values


def test_states_by_name():
    model = library.parametric_pendulum()
    np.testing.assert_array_equal(model.state({"phi": 1.0}), [1.0, 0.0])
    with pytest.raises(ModelError, match='no state "phi1"'):
        model.state({"phi1": 1.0})
    with pytest.raises(ModelError, match="= nan; give a finite number"):
        model.state({"phi": float("nan")})


def test_parts_check_themselves():
    with pytest.raises(ModelError, match="bounds"):
        Parameter("k", 1.0, bounds=(2.0, 1.0))
    with pytest.raises(ModelError, match="deviation"):
        Prior(1.0, -1.0)
    with pytest.raises(ModelError, match="orders 1 and 2"):
        Coordinate("x", 3)


def test_models_copy_compare_and_hash():
    model = library.oleo()
    _ = model.structure
    for twin in (copy.copy(model), copy.deepcopy(model)):
        assert twin == model
        assert hash(twin) == hash(model)
        assert twin.structure.key == model.structure.key
    assert model.with_values(theta1=26.0) != model
    assert model.values["theta1"] == 25.0


def test_foreign_symbols_are_told_apart_from_unknown_ones():
    plain = sp.Symbol("x")
    with pytest.raises(ModelError, match=r"other assumptions.*kapitza\.model\.symbol"):
        Model("m", (Coordinate("x"),), (symbol("x''") + plain,))
