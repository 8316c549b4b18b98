"""The equations, written once."""

# pyright: reportUnusedImport=false

from kapitza.model.clock import CLOCK, with_clock
from kapitza.model.compiled import Evaluator, compile_derivatives, compile_expressions, to_heyoka, translate_steps
from kapitza.model.control import control_values, with_control
from kapitza.model.dimensions import dimension_problems
from kapitza.model.drives import with_added, with_drives
from kapitza.model.elimination import Elimination, Step, solve_named
from kapitza.model.files import model_from_dict, model_to_dict, read_model, write_model
from kapitza.model.implicit import top_slopes
from kapitza.model.laws import LAWS, with_laws
from kapitza.model.linear import combinations_of
from kapitza.model.measured import Signal
from kapitza.model.modal import ModalReduction, modal_reduction
from kapitza.model.model import Model
from kapitza.model.notation import CONSTANTS, FUNCTIONS, parse_equation, parse_expression, primed_names
from kapitza.model.parts import Coordinate, Excitation, Impact, Parameter, Prior, Symmetry
from kapitza.model.structure import Structure, derived_in_base, in_base
from kapitza.model.switches import FLAT, Switch, split_program, split_switches
from kapitza.model.symbols import Expression, derivative, rate, symbol, symbolic, time, vanishes
from kapitza.model.text import to_text
from kapitza.model.unknown_drive import harmonic_drive, unknown_excitation
