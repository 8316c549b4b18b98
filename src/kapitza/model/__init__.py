"""The equations, written once."""

<<<<<<< HEAD
from kapitza.model.compiled import compile_expressions, to_heyoka
from kapitza.model.files import model_from_dict, read_model, write_model
=======
from kapitza.model.compiled import compile_derivatives, compile_expressions, to_heyoka
from kapitza.model.files import read_model, write_model
>>>>>>> 50bf183 (Large mass matrices are eliminated in named steps, not inverted: linkages of 3 to 10 links compile in seconds; tangents implicitly with the same factors)
from kapitza.model.linear import Linearisation
from kapitza.model.measured import Signal
from kapitza.model.model import Model
from kapitza.model.notation import parse_equation, parse_expression
from kapitza.model.parts import Coordinate, Excitation, Impact, Parameter, Prior, Symmetry
from kapitza.model.structure import Structure
from kapitza.model.switches import Switch
from kapitza.model.symbols import Expression, rate, symbol, time

__all__ = [
    "Coordinate",
    "Excitation",
    "Expression",
    "Impact",
    "Linearisation",
    "Model",
    "Parameter",
    "Prior",
    "Signal",
    "Structure",
    "Switch",
    "Symmetry",
    "compile_derivatives",
    "compile_expressions",
    "model_from_dict",
    "parse_equation",
    "parse_expression",
    "rate",
    "read_model",
    "symbol",
    "time",
    "to_heyoka",
    "write_model",
]
