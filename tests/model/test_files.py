"""Model files: nothing is lost on the way to TOML and back, and mistakes are named."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from kapitza import library
from kapitza.errors import ModelError
from kapitza.model import Coordinate, Model, Parameter, Prior, Signal, rate, read_model, symbol, write_model
from kapitza.model.files import model_from_dict, model_to_dict


@pytest.mark.parametrize("system", library.SYSTEMS, ids=lambda f: f.__name__)
def test_library_goes_to_toml_and_back(system, tmp_path):
    model = system()
    write_model(model, tmp_path / "model.toml")
    again = read_model(tmp_path / "model.toml")
    assert again == model
    assert again.structure is model.structure
    assert again.period == model.period


def full_model() -> Model:
    return Model.from_equations(
        ["m*x'' + c*x'*abs(x') + k*x = F + Piecewise((a, x > 1 and x' < 0), (0, True))", "z' + z/3 = 1.0e-7*x"],
        coordinates=[Coordinate("x", 2, unit="m", description="position"), Coordinate("z", 1, angle=True)],
        parameters=[
            Parameter("m", 0.1 + 0.2, "kg", (0.0, math.inf), Prior(0.3, 1e-3), description='mass, with "quotes"'),
            Parameter("c"),
            Parameter("w", 1e-300),
            Parameter("k", expression=symbol("m") * symbol("w") ** 2),
            Parameter("a", -3.0, "N", (-5.0, 5.0)),
        ],
        period="3*2**(1/2)",
        signals=[Signal("F", [0.0, 0.1, 0.5], [1 / 3, 2.0, -1.0], 2**0.5, degree=0, unit="N")],
        outputs={"force": "k*x + m*x''"},
        invariants={"E": "m*x'**2/2"},
        impacts=[{"name": "wall", "surface": "2 - x", "reset": {"x'": "-a*x'"}}],
        symmetries=[{"map": {"x": "-x"}, "shift": 0.5}],
        partition=["x", "x'"],
        letters="PQRS",
        start={"x": 0.5, "z": -1.0},
        name="everything",
        description="all parts at once",
        source="a test",
    )


def test_every_part_survives(tmp_path):
    model = full_model()
    write_model(model, tmp_path / "all.toml")
    again = read_model(tmp_path / "all.toml")
    assert again == model
    assert hash(again) == hash(model)
    np.testing.assert_array_equal(again.excitation.signals[0].values, model.excitation.signals[0].values)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["all.toml"]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(-1e6, 1e6), st.floats(0, 1e9), st.text(max_size=30))
def test_numbers_and_text_survive_exactly(tmp_path_factory, value, low, width, note):
    parameter = Parameter("k", value, note, (low, low + width + 1), description=note)
    model = Model.from_equations("x'' + k*x = 0", parameters=[parameter], description=note)
    path = tmp_path_factory.mktemp("toml") / "model.toml"
    write_model(model, path)
    assert read_model(path) == model


def test_short_forms(tmp_path):
    (tmp_path / "rig.toml").write_text(
        """
equations = "phi'' + k2/(m*l**2)*phi' + g/l*sin(phi) = a*cos(omega*t)"
[coordinates.phi]
angle = true
[parameters]
m = 0.1
l = "2*m"
k2 = {value = 1e-3, unit = "N m s", bounds = [0, inf], prior = {mean = 1e-3, deviation = 2e-4}}
g = 9.81
a = 1
omega = 3
[excitation]
period = "2*pi/omega"
[start]
phi = 1
"""
    )
    model = read_model(tmp_path / "rig.toml")
    assert model.name == "rig"
    assert model.angles == (True, False)
    assert model.values["l"] == pytest.approx(0.2)
    assert model.parameter("k2").prior == Prior(1e-3, 2e-4)
    assert model.period == pytest.approx(2 * math.pi / 3)


def test_samples_without_times_are_evenly_spaced():
    content = {
        "equations": ["x'' + x = F"],
        "excitation": {"signals": {"F": {"values": [0.0, 1.0, 0.0, -1.0], "period": 2.0}}},
    }
    model = model_from_dict(content)
    assert model.excitation is not None
    np.testing.assert_allclose(model.excitation.signals[0].times, [0.0, 0.5, 1.0, 1.5])
    assert model.period == 2.0


def test_map_file():
    model = library.trace_map()
    content = model_to_dict(model)
    assert "equations" not in content
    assert content["map"]["y"] == "x"
    assert model_from_dict(content) == model


BASE = {"equations": ["x'' + k*x = 0"], "parameters": {"k": 1.0}}
BAD = {
    'unknown key "equation". Did you mean "equations"': {"equation": ["x'' = 0"]},
    "Give either": {"equations": None},
    'parameters.k has an unknown key "valu". Did you mean "value"': {"parameters": {"k": {"valu": 1}}},
    '"value" must be a whole number or a number': {"parameters": {"k": {"value": "1"}}},
    "bounds are two numbers": {"parameters": {"k": {"value": 1, "bounds": [1]}}},
    '"upper" must be a number': {"parameters": {"k": {"value": 1, "bounds": [0, "high"]}}},
    "bounds (2, 1) are empty": {"parameters": {"k": {"value": 1, "bounds": [2, 1]}}},
    "the deviation > 0": {"parameters": {"k": {"value": 1, "prior": {"mean": 1, "deviation": 0}}}},
    'parameters.j: Column 1: unknown name "q"': {"parameters": {"k": 1, "j": "q"}},
    'Equation 1: Column 7: unknown name "k"': {"parameters": {}},
    "both a value": {"parameters": {"k": {"value": 1, "expression": "2"}}},
    "must be a table": {"coordinates": {"x": 3}},
    '"order" must be a whole number': {"coordinates": {"x": {"order": 2.0}}},
    "order 3": {"coordinates": {"x": {"order": 3}}},
    '"y" must be an expression as text': {"outputs": {"y": 3}},
    'give "period"': {"excitation": {}},
    "must be a list of numbers": {"excitation": {"signals": {"F": {"values": ["a"], "period": 1}}}},
    'give "surface"': {"impacts": [{"reset": {}}]},
    '"x" must be a number': {"start": {"x": "1"}},
    'Start value for "y"': {"start": {"y": 1}},
    "3 letters": {"partition": {"expressions": ["x"], "letters": "ABC"}},
}


@pytest.mark.parametrize("message", BAD)
def test_mistakes_are_named(message):
    content = {key: value for key, value in (BASE | BAD[message]).items() if value is not None}
    with pytest.raises(ModelError) as error:
        model_from_dict(content)
    assert message in str(error.value)


def test_unreadable_files(tmp_path):
    with pytest.raises(ModelError, match="no model file"):
        read_model(tmp_path / "none.toml")
    (tmp_path / "broken.toml").write_text("a = = 3")
    with pytest.raises(ModelError, match=r"broken\.toml.* is not valid TOML.*line 1"):
        read_model(tmp_path / "broken.toml")
    (tmp_path / "bad.toml").write_text("equations = [\"x'' + yy = 0\"]")
    with pytest.raises(ModelError, match=r'(?s)bad\.toml.*unknown name "yy"'):
        read_model(tmp_path / "bad.toml")


def test_what_the_notation_cannot_say_is_refused(tmp_path):
    model = Model.from_equations(rate("x", 2) + sp.besselj(0, symbol("x")), coordinates=["x"])
    with pytest.raises(ModelError, match=r"besselj.* cannot be written in plain notation"):
        write_model(model, tmp_path / "x.toml")
    assert list(tmp_path.iterdir()) == []
