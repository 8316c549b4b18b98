"""Tape of a regime: operations on Taylor coefficients.

The compiled stepper runs it.
A tape holds integers and literals only; `hybrid.c` checks every index before it runs one. Nodes that do not move (made
of parameters and modes) come first, then the states, then the moving nodes, then the resets of walls, which are
evaluated at impacts. Equal expressions share a node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from weakref import WeakKeyDictionary

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from kapitza.errors import ModelError
from kapitza.flow.engine import Regime, System
from kapitza.flow.events.geometry import Geometry
from kapitza.flow.events.regimes import hidden_gains, regime_balance
from kapitza.flow.tails import tail_arguments, watched_functions
from kapitza.model import Expression, derivative, time

MOST_NODES = 200_000
"""Nodes of a tape, as in hybrid.c."""

LARGEST_PRODUCT = 64
"""Integer powers up to this one become products: the recurrence of a general power fails at zero."""


class Op(IntEnum):
    """Operations, numbered as in hybrid.c."""

    LITERAL = 0
    PARAMETER = 1
    STATE = 2
    TIME = 3
    LINEAR = 4
    SCALE = 5
    MULTIPLY = 6
    SQUARE = 7
    DIVIDE = 8
    POWER = 9
    SQRT = 10
    EXP = 11
    LOG = 12
    SIN = 13
    COS = 14
    SINH = 15
    COSH = 16
    TAN = 17
    TANH = 18
    TAN_SLOPE = 19
    ASIN = 20
    ACOS = 21
    ATAN = 22
    ASINH = 23
    ACOSH = 24
    ATANH = 25
    ERF = 26
    ATAN2 = 27
    ABS = 28
    SIGN = 29
    MAX = 30
    MIN = 31
    GREATER = 32
    GREATER_EQUAL = 33
    EQUAL = 34
    AND = 35
    OR = 36
    SELECT = 37


CONTINUOUS, NESTED, INNER, DELICATE = 1, 2, 4, 8
"""Flags of a switch, as in hybrid.c."""

PAIRS = {sp.sin: (Op.SIN, 0), sp.cos: (Op.SIN, 1), sp.sinh: (Op.SINH, 0), sp.cosh: (Op.SINH, 1)}
"""Functions that are computed two at a time: the first of the pair, and which of the two."""


class NoTapeError(ModelError):
    """A tape cannot express the system."""


@dataclass(frozen=True)
class Tape:
    """Arrays of one regime, as `kz_tape_new` takes them."""

    sizes: NDArray[np.int32]
    code: NDArray[np.int32]
    term_nodes: NDArray[np.int32]
    term_scales: NDArray[np.int32]
    term_factors: NDArray[np.float64]
    literals: NDArray[np.float64]
    outputs: NDArray[np.int32]


@dataclass
class _Node:
    """A node before numbering.

    operands: other nodes. degree: in time, of an argument omega t + phi; else 0.
    scales: of a sum, nodes that do not move and multiply each operand.
    """

    op: Op
    operands: tuple[_Node, ...] = ()
    number: float = 0.0
    factors: tuple[float, ...] = ()
    scales: tuple[_Node | None, ...] = ()
    moves: bool = False
    degree: int = 0

    @property
    def uses(self) -> list[_Node]:
        return [*self.operands, *(scale for scale in self.scales if scale is not None)]


@dataclass
class _Writer:
    """Translation of expressions to nodes.

    States, time and run-time values are known symbols.
    """

    known: dict[sp.Basic, _Node]
    nodes: list[_Node] = field(default_factory=list[_Node])
    shared: dict[object, _Node] = field(default_factory=dict[object, _Node])

    def make(
        self,
        op: Op,
        operands: Sequence[_Node] = (),
        number: float = 0.0,
        factors: Sequence[float] = (),
        scales: Sequence[_Node | None] = (),
    ) -> _Node:
        key = (op, tuple(map(id, operands)), number, tuple(factors), tuple(map(id, scales)))
        found = self.shared.get(key)
        if found is None:
            moves = op in (Op.STATE, Op.TIME) or any(o.moves for o in operands)
            found = _Node(op, tuple(operands), number, tuple(factors), tuple(scales), moves)
            self.shared[key] = found
            self.nodes.append(found)
            if len(self.nodes) > MOST_NODES:
                raise NoTapeError(f"The equations have more than {MOST_NODES} operations.")
        return found

    def copy(self) -> _Writer:
        """Return a writer that shares the nodes made so far."""
        return _Writer(dict(self.known), list(self.nodes), dict(self.shared))

    def define(self, name: sp.Symbol, expression: Expression) -> None:
        """Make a name known as the node of an expression.

        Nothing is done where it is known already.
        """
        if name not in self.known:
            self.known[name] = self(expression)

    def literal(self, value: float) -> _Node:
        return self.make(Op.LITERAL, number=value)

    def __call__(self, e: Expression) -> _Node:
        found = self.known.get(e)
        if found is None:
            found = self.known[e] = self._node(e)
        return found

    def _node(self, e: Expression) -> _Node:
        if e.is_number and not e.has(sp.Symbol):
            return self.literal(_number(e))
        if isinstance(e, sp.Add):
            return self._sum(e)
        if isinstance(e, sp.Mul):
            return self._product(e)
        if isinstance(e, sp.Pow):
            return self._power(e.base, e.exp)
        if type(e) in PAIRS:
            first, which = PAIRS[type(e)]
            return self._pair(self(e.args[0]), first)[which]
        special = {sp.exp: self._exp, sp.log: self._log, sp.tan: self._tan, sp.tanh: self._tan, sp.erf: self._erf}
        if type(e) in special:
            return special[type(e)](e)
        if type(e) in _SLOPES:
            op, slope = _SLOPES[type(e)]
            return self.make(op, (self(e.args[0]), self(slope(e.args[0]))))
        if isinstance(e, sp.atan2):
            parts: list[Expression] = list(e.args)
            y, x = parts
            return self.make(Op.ATAN2, (self(y), self(x), self(y**2 + x**2)))
        return self._choice(e)

    def _sum(self, e: sp.Add) -> _Node:
        constant = 0.0
        terms: list[tuple[float, _Node]] = []
        for term in e.args:
            factor, rest = term.as_coeff_Mul()
            if rest == 1:
                constant += _number(factor)
            else:
                terms.append((_number(factor), self(rest)))
        return self.linear(constant, terms)

    def linear(self, constant: float, terms: Sequence[tuple[float, _Node]]) -> _Node:
        """Return the node of constant + Σ factor node.

        Sums inside of it are written out.
        """
        flat: dict[int, tuple[float, _Node]] = {}
        for factor, node in terms:
            flat[id(node)] = (flat.get(id(node), (0.0, node))[0] + factor, node)
        kept = [(f, n) for f, n in flat.values() if f != 0.0]
        if not kept:
            return self.literal(constant)
        if constant == 0.0 and len(kept) == 1 and kept[0][0] == 1.0:
            return kept[0][1]
        # A product with a constant is a scaled term of the sum: one node less.
        parts = [(f, None, n) if n.op is not Op.SCALE else (f, *n.operands) for f, n in kept]
        operands, factors = [n for _, _, n in parts], [f for f, _, _ in parts]
        node = self.make(Op.LINEAR, operands, constant, factors, [scale for _, scale, _ in parts])
        moving = [n for _, n in kept if n.moves]
        if moving and all(n.degree for n in moving):
            node.degree = max(n.degree for n in moving)
        return node

    def _product(self, e: sp.Mul) -> _Node:
        factor = 1.0
        above: list[_Node] = []
        below: list[_Node] = []
        for part in e.args:
            if part.is_number and not part.has(sp.Symbol):
                factor *= _number(part)
                continue
            base, exponent = part.as_base_exp()
            # Negative powers go below one fraction line: one division instead of several.
            if exponent.is_number and exponent.is_negative:
                below.append(self._power(base, -exponent))
            else:
                above.append(self(part))
        result = self.product(above)
        if below:
            result = self.quotient(result, self.product(below))
        return result if factor == 1.0 else self.linear(0.0, [(factor, result)])

    def product(self, nodes: Sequence[_Node]) -> _Node:
        still = [n for n in nodes if not n.moves]
        moving = [n for n in nodes if n.moves]
        constant = self._multiplied(still)
        moved = self._multiplied(moving)
        if constant is None:
            return moved if moved is not None else self.literal(1.0)
        return constant if moved is None else self.scaled(constant, moved)

    def _multiplied(self, nodes: Sequence[_Node]) -> _Node | None:
        result = None
        for node in nodes:
            if result is None:
                result = node
            else:
                result = self.make(Op.SQUARE, (node,)) if result is node else self.make(Op.MULTIPLY, (result, node))
        return result

    def scaled(self, constant: _Node, moving: _Node) -> _Node:
        node = self.make(Op.SCALE, (constant, moving))
        node.degree = moving.degree
        return node

    def quotient(self, above: _Node, below: _Node) -> _Node:
        if above.moves and not below.moves:
            return self.scaled(self.make(Op.DIVIDE, (self.literal(1.0), below)), above)
        return self.make(Op.DIVIDE, (above, below))

    def _power(self, base: sp.Expr, exponent: sp.Expr) -> _Node:
        if base is sp.E:
            return self._exp(sp.exp(exponent, evaluate=False))
        # The recurrence of a general power fails at zero: half-integer powers become products and one root.
        twice = 2 * exponent
        if isinstance(twice, (sp.Integer, sp.Float)) and twice == int(twice) and abs(twice) <= 2 * LARGEST_PRODUCT:
            whole, half = divmod(abs(int(twice)), 2)
            factors = [self.make(Op.SQRT, (self(base),))] if half else []
            result = self._whole_power(self(base), whole, factors)
            return self.quotient(self.literal(1.0), result) if int(twice) < 0 else result
        if exponent.is_number and not exponent.has(sp.Symbol):
            return self.make(Op.POWER, (self(base),), _number(exponent))
        logarithm = self(base)
        return self.make(Op.EXP, (self.product([self(exponent), self.make(Op.LOG, (logarithm, logarithm))]),))

    def _whole_power(self, base: _Node, exponent: int, factors: list[_Node]) -> _Node:
        while exponent:
            if exponent % 2:
                factors.append(base)
            exponent //= 2
            if exponent:
                base = self.make(Op.SQUARE, (base,))
        return self._multiplied(factors) or self.literal(1.0)

    def _pair(self, argument: _Node, first: Op) -> tuple[_Node, _Node]:
        return self.make(first, (argument,)), self.make(Op(first + 1), (argument,))

    def _exp(self, e: sp.Expr) -> _Node:
        return self.make(Op.EXP, (self(e.args[0]),))

    def _log(self, e: sp.Expr) -> _Node:
        argument = self(e.args[0])
        return self.make(Op.LOG, (argument, argument))

    def _tan(self, e: sp.Expr) -> _Node:
        return self.make(Op.TAN if isinstance(e, sp.tan) else Op.TANH, (self(e.args[0]),))

    def _erf(self, e: sp.Expr) -> _Node:
        argument = self(e.args[0])
        square = self.linear(0.0, [(-1.0, self.make(Op.SQUARE, (argument,)))])
        return self.make(Op.ERF, (argument, self.make(Op.EXP, (square,))))

    def _choice(self, e: sp.Expr) -> _Node:
        """Return the node of a nonsmooth function.

        Its arguments do not move, or it is a Piecewise that modes decide.
        """
        if isinstance(e, sp.Piecewise):
            result = self.literal(float("nan"))
            for value, condition in (case.args for case in reversed(e.args)):
                # A branch that is never taken may hold 1/0, as the control of a switch without a jump.
                chosen = self(value) if value.is_finite is not False else self.literal(float("nan"))
                result = chosen if condition == sp.true else self.selected(self._condition(condition), chosen, result)
            return result
        arguments = [self(a) for a in e.args]
        if any(a.moves for a in arguments):
            raise NoTapeError(f"{e.func} of something that moves is not smooth.")
        zero = self.literal(0.0)
        if isinstance(e, (sp.Abs, sp.sign)):
            return self.make(Op.ABS if isinstance(e, sp.Abs) else Op.SIGN, arguments)
        if isinstance(e, sp.Heaviside):
            above = self.make(Op.GREATER, (arguments[0], zero))
            below = self.make(Op.GREATER, (zero, arguments[0]))
            return self.selected(above, self.literal(1.0), self.selected(below, zero, arguments[1]))
        if isinstance(e, (sp.Max, sp.Min)):
            op, result = (Op.MAX if isinstance(e, sp.Max) else Op.MIN), arguments[0]
            for other in arguments[1:]:
                result = self.make(op, (result, other))
            return result
        raise NoTapeError(f"{e.func} has no operation.")

    def selected(self, condition: _Node, one: _Node, other: _Node) -> _Node:
        if condition.moves:
            raise NoTapeError("A condition of something that moves is not smooth.")
        return self.make(Op.SELECT, (condition, one, other))

    def _condition(self, e: sp.Basic) -> _Node:
        if e in (sp.true, sp.false):
            return self.literal(1.0 if e == sp.true else 0.0)
        if isinstance(e, (sp.And, sp.Or)):
            op, (first, *rest) = (Op.AND if isinstance(e, sp.And) else Op.OR), [self._condition(a) for a in e.args]
            for other in rest:
                first = self.make(op, (first, other))
            return first
        if isinstance(e, sp.Not):
            return self.make(Op.EQUAL, (self._condition(e.args[0]), self.literal(0.0)))
        if isinstance(e, (sp.Equality, sp.Unequality)):
            same = self.make(Op.EQUAL, (self(e.lhs), self(e.rhs)))
            return same if isinstance(e, sp.Equality) else self.make(Op.EQUAL, (same, self.literal(0.0)))
        if isinstance(e, sp.Rel):
            left, right = self(e.lhs), self(e.rhs)
            if left.moves or right.moves:
                raise NoTapeError("A condition of something that moves is not smooth.")
            if isinstance(e, (sp.StrictLessThan, sp.LessThan)):
                left, right = right, left
            strict = isinstance(e, (sp.StrictGreaterThan, sp.StrictLessThan))
            return self.make(Op.GREATER if strict else Op.GREATER_EQUAL, (left, right))
        raise NoTapeError(f"The condition {e} has no operation.")


_SLOPES: dict[type[sp.Basic], tuple[Op, Callable[[sp.Expr], sp.Expr]]] = {
    sp.asin: (Op.ASIN, lambda a: sp.sqrt(1 - a**2)),
    sp.acos: (Op.ACOS, lambda a: sp.sqrt(1 - a**2)),
    sp.atan: (Op.ATAN, lambda a: 1 + a**2),
    sp.asinh: (Op.ASINH, lambda a: sp.sqrt(1 + a**2)),
    sp.acosh: (Op.ACOSH, lambda a: sp.sqrt(a**2 - 1)),
    sp.atanh: (Op.ATANH, lambda a: 1 - a**2),
}
"""Functions y of a with d y' = a' (of acos: -a'), and d."""


def _number(e: Expression) -> float:
    if isinstance(e, sp.Rational):
        return int(e.p) / int(e.q)
    value = complex(e.evalf(20))
    if value.imag or not np.isfinite(value.real):
        raise NoTapeError(f"The constant {e} is not a finite real number.")
    return value.real


_BASES: WeakKeyDictionary[Geometry, _Writer] = WeakKeyDictionary()
"""Per system: the nodes that the tapes of all regimes share. `Kernel` writes tapes one after another."""


def _base_writer(geometry: Geometry) -> _Writer:
    """Return a writer that knows what no regime changes.

    These are run-time values, states, time, and steps without modes: most of a large mass matrix.
    """
    system, writer = geometry.system, _Writer({})
    for i, p in enumerate((*system.parameters, *geometry.modes)):
        writer.known[p] = writer.make(Op.PARAMETER, number=float(i))
    for i, x in enumerate(system.states):
        writer.known[x] = writer.make(Op.STATE, number=float(i))
    clock = writer.make(Op.TIME)
    clock.degree = 1
    writer.known[time] = clock
    switched: set[sp.Basic] = set(geometry.modes)
    for name, expression in system.smooth_steps:
        if switched.isdisjoint(expression.free_symbols):
            writer.define(name, expression)
        else:
            switched.add(name)
    return writer


def write_tape(geometry: Geometry, regime: Regime, observe: tuple[sp.Expr, ...], tangents: bool) -> Tape:
    """Write the tape of a regime.

    Its run-time values are the parameters of the system, then the modes.
    """
    system = geometry.system
    flow, balance = regime_balance(geometry, regime)
    base = _BASES.get(geometry)
    if base is None:
        base = _BASES[geometry] = _base_writer(geometry)
    for i in regime.stuck:
        for name, expression in geometry.jumps.get(geometry.modes[i], ((), []))[0]:
            base.define(name, expression)
    writer = base.copy()
    states = [writer.known[x] for x in system.states]
    for name, expression in flow.smooth_steps:
        writer.define(name, expression)
    rates = [writer(f) for f in flow.smooth_rates]
    functions = [writer(s.function) for s in system.switches]
    surfaces = [writer(w.surface) for w in system.walls]
    observed = [writer(h) for h in observe]
    edges = [writer(edge.watched) for edge in system.edges if edge.watched is not None]
    # Gains that vanish together with their load are watched like ends of terms: the event logic decides there.
    edges += [writer(gain) for _, gain in hidden_gains(geometry, regime)]
    balances = [writer(z) for z in balance]
    limits = [
        node
        for node in map(writer, tail_arguments(flow, (*watched_functions(system), *observe, *balance)))
        if node.moves
    ]
    trace = _divergence(writer, flow) if tangents and not regime.collapses else None
    resets = [writer(r) for w in system.walls for r in w.reset]
    kinds = [(0, i) for i in regime.stuck] + [(1, j) for j in regime.contact]
    held = [int(i in regime.stuck) for i in range(geometry.switches)]
    held += [int(j in regime.contact) for j in range(geometry.walls)]
    ordinary = [*rates, *functions, *surfaces, *observed, *edges, *balances, *limits]
    numbering = _Numbering(writer, [*ordinary, *([] if trace is None else [trace])], resets, states)
    outputs: list[int] = [numbering.place[id(n)] for n in ordinary]
    outputs += [k for k, _ in kinds] + [i for _, i in kinds]
    outputs += [numbering.place[id(n)] for n in resets] + switch_flags(geometry) + held
    sizes = [numbering.ordinary, numbering.count, numbering.constants, len(states)]
    sizes += [len(system.parameters) + geometry.switches, geometry.switches, geometry.walls, len(observe), len(edges)]
    sizes += [len(balances), len(limits), len(system.parameters)]
    sizes += [-1 if trace is None else numbering.place[id(trace)]]
    return numbering.tape(sizes, outputs)


def _divergence(writer: _Writer, flow: System) -> _Node:
    """Return the node of Σ ∂f_i/∂x_i.

    The derivatives go through the steps by the chain rule.
    """
    steps = dict(flow.smooth_steps)
    known: dict[tuple[sp.Basic, sp.Symbol], _Node] = {}

    def slope(e: Expression, x: sp.Symbol) -> _Node:
        parts = [(1.0, writer(derivative(e, x)))]
        for name in sorted(e.free_symbols & steps.keys(), key=lambda s: s.name):
            inner = known.get((name, x))
            if inner is None:
                inner = known[(name, x)] = slope(steps[name], x)
            if not (inner.op is Op.LITERAL and inner.number == 0.0):
                parts.append((1.0, writer.product([writer(derivative(e, name)), inner])))
        return writer.linear(0.0, parts)

    return writer.linear(0.0, [(1.0, slope(f, x)) for f, x in zip(flow.smooth_rates, flow.states, strict=True)])


def switch_flags(geometry: Geometry) -> list[int]:
    """Return the flags of each switch for the stepper."""
    system = geometry.system
    delicate = {i for edge in system.edges for i in edge.guards}
    # At a switch that leads into the domain of a term the event logic puts the state inside.
    delicate |= {i for i, mode in enumerate(geometry.modes) if any(e.margin.has(mode) for e in geometry.domain.entered)}
    flags: list[int] = []
    for i, switch in enumerate(system.switches):
        nested = not switch.function.free_symbols.isdisjoint(geometry.modes)
        inner = any(other.function.has(switch.mode) for other in system.switches)
        flags.append(CONTINUOUS * switch.continuous + NESTED * nested + INNER * inner + DELICATE * bool(i in delicate))
    return flags


def _needed(outputs: Sequence[_Node]) -> list[_Node]:
    """Return the nodes of the outputs, operands first.

    Each node occurs once.
    """
    found: dict[int, _Node] = {}

    def visit(node: _Node) -> None:
        if id(node) not in found:
            for operand in node.uses:
                visit(operand)
            found[id(node)] = node

    for node in outputs:
        visit(node)
    return list(found.values())


class _Numbering:
    """Nodes in the order of the tape.

    Constants, states, moving nodes, resets; pairs are side by side.
    """

    def __init__(self, writer: _Writer, ordinary: list[_Node], resets: list[_Node], states: list[_Node]):
        self.literals: list[float] = []
        self._literal_at: dict[str, int] = {}
        self._pairs = {(n.op, id(n.operands[0])): n for n in writer.nodes if n.op in (Op.SIN, Op.COS, Op.SINH, Op.COSH)}
        self.order: list[_Node] = []
        self._seen: set[int] = set()
        for node in _needed([*ordinary, *resets]):
            if not node.moves:
                self._put(node)
        self.constants = len(self.order)
        for node in states:
            self._put(node)
        for node in ordinary:
            self._put(node)
        self.ordinary = len(self.order)
        for node in resets:
            self._put(node)
        self.count = len(self.order)
        self.place = {id(n): i for i, n in enumerate(self.order)}

    def _put(self, node: _Node) -> None:
        """Append a node after its operands.

        Nothing is appended where it is present already.
        """
        if id(node) in self._seen:
            return
        for operand in node.uses:
            self._put(operand)
        for member in self._group(node):
            self._seen.add(id(member))
            self.order.append(member)

    def _group(self, node: _Node) -> list[_Node]:
        """Return the node with its neighbours.

        Sine and cosine, or a tangent and its slope, must be side by side.
        """
        if node.op in (Op.SIN, Op.COS, Op.SINH, Op.COSH):
            first = Op.SIN if node.op in (Op.SIN, Op.COS) else Op.SINH
            key = id(node.operands[0])
            members: list[_Node] = []
            for op in (first, Op(first + 1)):
                found = self._pairs.get((op, key))
                if found is None:
                    found = _Node(op, node.operands, moves=node.moves)
                    self._pairs[(op, key)] = found
                members.append(found)
            return members
        if node.op in (Op.TAN, Op.TANH):
            return [node, _Node(Op.TAN_SLOPE, node.operands, moves=node.moves)]
        return [node]

    def _literal(self, value: float) -> int:
        # Equal bits, not equal values: 0.0 and -0.0 differ, and NaN is found again.
        key = float.hex(value)
        found = self._literal_at.get(key)
        if found is None:
            found = self._literal_at[key] = len(self.literals)
            self.literals.append(value)
        return found

    def tape(self, sizes: list[int], outputs: list[int]) -> Tape:
        code = np.zeros((self.count, 4), np.int32)
        terms: list[int] = []
        scales: list[int] = []
        factors: list[float] = []
        for i, node in enumerate(self.order):
            at = [self.place[id(o)] for o in node.operands] if node.op is not Op.TAN_SLOPE else []
            fields = [*at, 0, 0, 0][:3]
            if node.op is Op.LITERAL:
                fields = [self._literal(node.number), 0, 0]
            elif node.op in (Op.PARAMETER, Op.STATE):
                fields = [int(node.number), 0, 0]
            elif node.op is Op.LINEAR:
                fields = [len(terms), len(at), self._literal(node.number)]
                terms += at
                scales += [-1 if scale is None else self.place[id(scale)] for scale in node.scales]
                factors += node.factors
            elif node.op is Op.POWER:
                fields = [at[0], self._literal(node.number), 0]
            elif node.op in (Op.SIN, Op.COS, Op.SINH, Op.COSH):
                fields = [at[0], node.operands[0].degree, 0]
            code[i] = (node.op, *fields)
        sizes = [*sizes, len(terms), len(self.literals)]
        return Tape(
            np.array(sizes, np.int32),
            code,
            np.array(terms, np.int32),
            np.array(scales, np.int32),
            np.array(factors, float),
            np.array(self.literals, float),
            np.array(outputs, np.int32),
        )
