"""Nothing that comes from a file or an argument is evaluated; what cannot be used is named."""

from __future__ import annotations

import datetime

import pytest
import sympy as sp

from kapitza import Flow, Model, read_model
from kapitza.errors import KapitzaError, ModelError
from kapitza.model import Coordinate, Impact, Parameter, Signal, Symmetry, symbol

FORMS = {
    "tuple": lambda code: (code,),
    "dictionary": lambda code: {code: 1},
    "values": lambda code: {1: code},
    "set": lambda code: {code},
    "list": lambda code: [code],
    "bytes": lambda code: code.encode(),
}

PLACES = {
    "equations": lambda x: Model.from_equations([x], coordinates=["x"]),
    "outputs": lambda x: Model.from_equations("x' = -x", outputs={"y": x}),
    "invariants": lambda x: Model.from_equations("x' = -x", invariants={"y": x}),
    "period": lambda x: Model.from_equations("x' = -x", period=x),
    "partition": lambda x: Model.from_equations("x' = -x", partition=[x]),
    "start": lambda x: Model.from_equations("x' = -x", start={"x": x}),
    "parameter": lambda x: Model.from_equations("x' = -k*x", parameters={"k": x}),
    "derived": lambda x: Parameter("k", expression=x),
    "forces": lambda x: Model.from_lagrangian("x'**2/2", ["x"], forces={"x": x}),
    "dissipation": lambda x: Model.from_lagrangian("x'**2/2", ["x"], dissipation=x),
    "lagrangian": lambda x: Model.from_lagrangian(x, ["x"]),
    "hamiltonian": lambda x: Model.from_hamiltonian(x, ["q"], ["p"]),
    "map": lambda x: Model.from_map({"x": x}),
    "surface": lambda x: Model.from_equations("x'' = -1", impacts=[Impact(x, {"x'": -symbol("x'")})]),
    "reset": lambda x: Model.from_equations("x'' = -1", impacts=[{"surface": "x", "reset": {"x'": x}}]),
    "symmetry": lambda x: Model.from_equations("x' = -x", symmetries=[Symmetry({"x": x})]),
    "section": lambda x: Flow(Model.from_equations("x'' = -x")).section([1.0, 0.0], x, 1),
    "bare model": lambda x: Model("m", (Coordinate("x", 1),), (x,)),
    "with_values": lambda x: Model.from_equations("x' = -k*x", parameters={"k": 1.0}).with_values(k=x),
    "signal": lambda x: Signal("u", [0.0, 1.0], x, 2.0),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("place", PLACES)
def test_no_argument_runs_code(tmp_path, place, form):
    touched = tmp_path / "touched"
    code = f"__import__('pathlib').Path({str(touched)!r}).touch()"
    with pytest.raises(KapitzaError):
        PLACES[place](FORMS[form](code))
    assert not touched.exists()


FILES = [
    'equations = ["x\' = -x"]\n[partition]\nexpressions = [{"CODE" = 1}]',
    'equations = ["x\' = -x"]\n[partition]\nexpressions = [["CODE"]]',
    'equations = [["CODE"]]',
    'equations = {"CODE" = 1}',
    'equations = ["x\' = -x"]\n[outputs]\ny = ["CODE"]',
    'equations = ["x\' = -x"]\n[outputs]\n"CODE" = "CODE"',
    'equations = ["x\' = -x"]\n[excitation]\nperiod = ["CODE"]',
    'equations = ["x\' = -x"]\n[[impacts]]\nsurface = {"CODE" = 1}\nreset = {"x" = ["CODE"]}',
    'equations = ["x\' = -x"]\n[[symmetries]]\nmap = {x = {"CODE" = 2}}',
    '[map]\nx = {"CODE" = 1}',
    'equations = ["x\' = -x"]\n[parameters]\nk = {expression = {"CODE" = 1}}',
]


@pytest.mark.parametrize("content", FILES)
def test_no_file_runs_code(tmp_path, content):
    touched, path = tmp_path / "touched", tmp_path / "m.toml"
    path.write_text(content.replace("CODE", f"__import__('pathlib').Path('{touched}').touch()"))
    with pytest.raises(ModelError, match=r'In ".*m\.toml"'):
        read_model(path)
    assert not touched.exists()


ODD = {
    "[parameters]\nk = 1" + "0" * 400: "too large for a number",
    "[parameters]\nk = 1" + "0" * 5000: "is not valid TOML",
    "[parameters]\nk = 1979-05-27": "must be a table of keys, not datetime.date",
    "[parameters]\nk = {value = 1979-05-27T07:32:00Z}": "must be a whole number or a number, not datetime",
    "[parameters]\nk = [[[[1]]]]": "must be a table of keys",
    "[parameters]\nk = {value = 1, bounds = [[0], 1]}": '"lower" must be a number',
    "[parameters]\nk = {value = 1, prior = {mean = 1}}": "deviation = nan; give a finite number",
    "[start]\nx = inf": "start['x'] = inf; give a finite number",
    "[start]\nx = 1" + "0" * 400: "too large",
    "[excitation]\nperiod = 1" + "0" * 400: "too large",
    "[excitation.signals.u]\nperiod = 1.0\nvalues = [[1, 2], [3]]": "must be a list of numbers",
    "[excitation.signals.u]\nperiod = 1.0\nvalues = [1" + "0" * 400 + ", 1]": "too large",
    "[excitation.signals.u]\nperiod = 1.0\nvalues = [07:32:00, 1]": "must be a list of numbers",
    "[[symmetries]]\nmap = {x = '-x'}\nshift = 1" + "0" * 400: "too large",
    "[outputs]\ny = 1979-05-27": "must be an expression as text",
    "[coordinates.x]\norder = 1" + "0" * 300: "order",
    "x = " + "[" * 5000 + "]" * 5000: "not valid TOML",
}


@pytest.mark.parametrize("content", ODD)
def test_odd_values_in_files_are_named(tmp_path, content):
    path = tmp_path / "m.toml"
    path.write_text('equations = ["x\' = -x"]\n' + content)
    with pytest.raises(ModelError) as error:
        read_model(path)
    assert ODD[content] in str(error.value)
    assert len(str(error.value)) < 600


def test_unreadable_paths(tmp_path):
    for path in (tmp_path, tmp_path / "none.toml", "a\0b", 7, None):
        with pytest.raises(ModelError):
            read_model(path)


def test_letters_that_are_the_same_are_one_name():
    model = Model.from_equations("x' = -µ*x", parameters={"µ": 2.0})
    assert model.names == ("μ",)
    assert model.with_values(µ=3.0).values["μ"] == 3.0
    assert model.parameter("µ").name == "μ"
    assert Flow(model).propagate([1.0], 0.0, 1.0, {"µ": 0.0}).state[0] == 1.0
    assert Flow(model, wrt=("µ",)).wrt == ("μ",)
    wide = Model.from_equations("ｘ' = -ａ*x", parameters={"a": 1.0})
    assert (wide.states, wide.names) == (("x",), ("a",))
    with pytest.raises(ModelError, match="occurs twice"):
        Model.from_map({"a": "a + ａ", "ａ": "1"})
    with pytest.raises(ModelError, match='"a" stands for 2 things'):
        Model.from_equations("x' = a*ａ", parameters=[Parameter("a", 1.0), Parameter("ａ", 2.0)])


def test_letters_that_look_the_same_are_refused():
    with pytest.raises(ModelError, match=r"\(a\) and .* \(\\u0430\) look the same"):
        Model.from_equations("x' = a*а", parameters={"a": 1.0, "а": 2.0})


def test_functions_of_something_else_are_refused():
    t, x = sp.Symbol("t"), sp.Function("x")
    assert Model.from_equations(x(t).diff(t) + x(t)).states == ("x",)
    with pytest.raises(ModelError, match=r"x\(2\*t\) is not a function of the time t alone"):
        Model.from_equations(x(t).diff(t) + x(2 * t))


def test_what_is_no_part_of_a_model():
    for parts in (
        {"impacts": [7]},
        {"impacts": [{"surface": "x"}]},
        {"symmetries": [{}]},
        {"signals": [3]},
        {"parameters": 3},
        {"parameters": [datetime.date(2020, 1, 1)]},
        {"name": 3},
        {"outputs": ["x"]},
        {"letters": 1},
        {"angles": [1]},
        {"coordinates": [None]},
        {"start": [1.0]},
        {"start": {"x": "1"}},
    ):
        with pytest.raises(ModelError):
            Model.from_equations("x' = -x", **parts)
