"""The equations, written once."""

from kapitza.model.clock import CLOCK, with_clock
from kapitza.model.compiled import Evaluator, compile_derivatives, compile_expressions, to_heyoka, translate_steps
from kapitza.model.control import control_values, with_control
from kapitza.model.dimensions import dimension_problems
from kapitza.model.drives import with_added, with_drives
from kapitza.model.elimination import Elimination, Step, solve_definite, solve_named
from kapitza.model.files import model_from_dict, model_to_dict, read_model, write_model
from kapitza.model.implicit import top_slopes
from kapitza.model.laws import LAWS, Law, with_laws
from kapitza.model.linear import Linearisation, combinations_of
from kapitza.model.measured import Signal
from kapitza.model.modal import ModalReduction, modal_reduction
from kapitza.model.model import Model
from kapitza.model.notation import CONSTANTS, FUNCTIONS, parse_equation, parse_expression
from kapitza.model.parts import Coordinate, Excitation, Impact, Parameter, Prior, Symmetry
from kapitza.model.structure import Structure, derived_in_base, in_base
from kapitza.model.switches import FLAT, Switch, split_program, split_switches
from kapitza.model.symbols import Expression, derivative, rate, symbol, symbolic, time, vanishes
from kapitza.model.text import to_text
from kapitza.model.unknown_drive import harmonic_drive, unknown_excitation

__all__ = [
    "CLOCK",
    "CONSTANTS",
    "FLAT",
    "FUNCTIONS",
    "LAWS",
    "Coordinate",
    "Elimination",
    "Evaluator",
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
    "Step",
    "Structure",
    "Switch",
    "Symmetry",
    "combinations_of",
    "compile_derivatives",
    "compile_expressions",
    "control_values",
    "derivative",
    "derived_in_base",
    "dimension_problems",
    "harmonic_drive",
    "in_base",
    "modal_reduction",
    "model_from_dict",
    "model_to_dict",
    "parse_equation",
    "parse_expression",
    "rate",
    "read_model",
    "solve_definite",
    "solve_named",
    "split_program",
    "split_switches",
    "symbol",
    "symbolic",
    "time",
    "to_heyoka",
    "to_text",
    "top_slopes",
    "translate_steps",
    "unknown_excitation",
    "vanishes",
    "with_added",
    "with_clock",
    "with_control",
    "with_drives",
    "with_laws",
    "write_model",
]
