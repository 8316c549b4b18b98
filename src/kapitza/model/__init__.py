"""The equations, written once."""

from kapitza.model.compiled import compile_derivatives, compile_expressions, to_heyoka
from kapitza.model.files import model_from_dict, read_model, write_model
from kapitza.model.laws import LAWS, Law, with_laws
from kapitza.model.linear import Linearisation
from kapitza.model.measured import Signal
from kapitza.model.modal import ModalReduction, modal_reduction
from kapitza.model.model import Model
from kapitza.model.notation import parse_equation, parse_expression
from kapitza.model.parts import Coordinate, Excitation, Impact, Parameter, Prior, Symmetry
from kapitza.model.structure import Structure
from kapitza.model.switches import Switch
from kapitza.model.symbols import Expression, rate, symbol, time

__all__ = [
    "LAWS",
    "Coordinate",
    "Excitation",
    "Expression",
    "Impact",
    "Law",
    "Linearisation",
    "ModalReduction",
    "Model",
    "Parameter",
    "Prior",
    "Signal",
    "Structure",
    "Switch",
    "Symmetry",
    "compile_derivatives",
    "compile_expressions",
    "modal_reduction",
    "model_from_dict",
    "parse_equation",
    "parse_expression",
    "rate",
    "read_model",
    "symbol",
    "time",
    "to_heyoka",
    "with_laws",
    "write_model",
]
