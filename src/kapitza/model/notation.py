"""Parser of the plain notation of equations.

Text like `phi'' + k2/(m*l**2)*phi' + g/l*sin(phi) = 0` becomes SymPy through a whitelist.

The text is data. Its size and depth are limited, Python parses it to a syntax tree, and every node is converted: only
numbers, known names, + - * / **, comparisons inside Piecewise, and the functions below are understood. Nothing is
evaluated.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterable

import sympy as sp
from sympy.logic.boolalg import Boolean

from kapitza.base import checks
from kapitza.base.syntax import expression_tree
from kapitza.errors import ParseError, nearest_name
from kapitza.model.delays import delayed_symbol
from kapitza.model.symbols import Expression, symbol, vanishes

LONGEST_TEXT = 20_000
"""Characters of one expression."""

DEEPEST_NESTING = 60
"""Brackets inside each other; the parser and SymPy recurse once per level."""

LARGEST_EXPONENT = 64
"""Exponents that are numbers; SymPy would write out constants with larger ones in full."""

LARGEST_NUMBER_BITS = 1024
"""Size of whole numbers and of their powers: doubles end at 2**1024."""

MOST_ARGUMENTS = 16
"""Arguments of Max, Min and other functions; a Piecewise may have more cases."""

LARGEST_ARGUMENT = {"exp": 700.0, "sinh": 700.0, "cosh": 700.0, "sin": 1e15, "cos": 1e15, "tan": 1e15}
"""Beyond these, constants have no double; SymPy would work on their digits without end."""

PRIME = "\u02b9"
"""Stands for the prime of a derivative while Python parses the text: one letter for one, so columns stay."""

CONSTANTS = {"pi": sp.pi}

FUNCTIONS: dict[str, tuple[Callable[..., sp.Expr], int | None]] = {
    "sin": (sp.sin, 1),
    "cos": (sp.cos, 1),
    "tan": (sp.tan, 1),
    "asin": (sp.asin, 1),
    "acos": (sp.acos, 1),
    "atan": (sp.atan, 1),
    "arcsin": (sp.asin, 1),
    "arccos": (sp.acos, 1),
    "arctan": (sp.atan, 1),
    "atan2": (sp.atan2, 2),
    "sinh": (sp.sinh, 1),
    "cosh": (sp.cosh, 1),
    "tanh": (sp.tanh, 1),
    "asinh": (sp.asinh, 1),
    "acosh": (sp.acosh, 1),
    "atanh": (sp.atanh, 1),
    "exp": (sp.exp, 1),
    "log": (sp.log, 1),
    "sqrt": (sp.sqrt, 1),
    "erf": (sp.erf, 1),
    "sign": (sp.sign, 1),
    "abs": (sp.Abs, 1),
    "Abs": (sp.Abs, 1),
    "Heaviside": (sp.Heaviside, 1),
    "max": (sp.Max, None),
    "min": (sp.Min, None),
    "Max": (sp.Max, None),
    "Min": (sp.Min, None),
    "Piecewise": (sp.Piecewise, None),
}

RELATIONS: dict[type[ast.cmpop], type[sp.Rel]] = {ast.Gt: sp.Gt, ast.GtE: sp.Ge, ast.Lt: sp.Lt, ast.LtE: sp.Le}

REFUSED: dict[type[ast.AST], str] = {
    ast.Attribute: "a dot is not part of the notation",
    ast.Subscript: "square brackets are not part of the notation",
    ast.Lambda: "lambda is not part of the notation",
    ast.ListComp: "comprehensions are not part of the notation",
    ast.SetComp: "comprehensions are not part of the notation",
    ast.DictComp: "comprehensions are not part of the notation",
    ast.GeneratorExp: "comprehensions are not part of the notation",
    ast.IfExp: "write Piecewise((a, condition), (b, True)) for cases",
    ast.BoolOp: "and/or belong inside the conditions of Piecewise",
    ast.Compare: "comparisons belong inside the conditions of Piecewise",
    ast.Tuple: "pairs belong inside Piecewise; for decimals write a point",
    ast.List: "lists are not part of the notation",
    ast.NamedExpr: "assignments are not part of the notation",
}


def parse_expression(text: str, names: Iterable[str]) -> Expression:
    """Return the expression of a text in plain notation.

    The text may hold the symbols `names` (with their primes), t, pi and the functions.

    Raises ParseError, whose message shows the text and points at the column.
    """
    text = _checked_text(text)
    return _Reader(text, 0, text, names).read()


def parse_equation(text: str, names: Iterable[str]) -> Expression:
    """Return the residual left - right of an equation.

    Without "=" the text itself is the residual.
    """
    text = _checked_text(text)
    signs = [m.start() for m in re.finditer(r"(?<![<>=!:])=(?!=)", text)]
    if len(signs) > 1:
        raise _error(text, signs[1], "a second '='; an equation has one")
    if not signs:
        return _Reader(text, 0, text, names).read()
    cut = signs[0]
    names = list(names)
    opened, (later, extra) = _unmatched(text[:cut])[0], _unmatched(text[cut:])
    if opened and extra:
        raise _error(text, cut, "'=' inside brackets")
    # Before any name is looked for: a missing bracket is the only mistake to name.
    if opened:
        raise _error(text, opened[-1], f'"{text[opened[-1]]}" is not closed before "="')
    if later:
        raise _error(text, cut + later[-1], f'"{text[cut + later[-1]]}" is not closed')
    left = _Reader(text, 0, text[:cut], names).read()
    return left - _Reader(text, cut + 1, text[cut + 1 :], names).read()


def _unmatched(text: str) -> tuple[list[int], list[int]]:
    """Return the columns of brackets that are not closed, and of those that close none."""
    opened, extra = list[int](), list[int]()
    for column, character in enumerate(text):
        if character in "([{":
            opened.append(column)
        elif character in ")]}":
            if opened:
                opened.pop()
            else:
                extra.append(column)
    return opened, extra


def primed_names(text: str) -> dict[str, int]:
    """Return the names with primes: coordinates of the text.

    They are in order of appearance, with the largest number of primes of each.
    """
    text = _checked_text(text)
    found: dict[str, int] = {}
    for match in re.finditer(r"([^\W\d]\w*)('+)", text):
        found[match[1]] = max(found.get(match[1], 0), len(match[2]))
    return found


def _checked_text(given: object) -> str:
    """Return the text with names in canonical spelling.

    Text beyond the limits is refused.
    """
    if not isinstance(given, str):
        raise ParseError(f"An equation must be text, not {type(given).__name__}.")
    text = checks.words(given[: LONGEST_TEXT + 1])
    if len(text) > LONGEST_TEXT:
        raise ParseError(
            f"The text has {len(given)} characters, more than {LONGEST_TEXT}; split it with derived parameters."
        )
    depth = 0
    for column, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if depth > DEEPEST_NESTING:
            raise _error(text, column, f"brackets nested deeper than {DEEPEST_NESTING}")
    if not text.strip():
        raise ParseError("The text of an expression is empty.")
    return text


def _error(text: str, column: int, reason: str) -> ParseError:
    """Return an error that points at a column.

    It shows the text around it. The column counts from 0 here, from 1 for the reader.
    """
    line = "".join(c if c.isprintable() else "?" for c in re.sub(r"\s", " ", text))
    start = max(0, column - 50)
    shown = line[start : column + 30]
    end = "" if reason.endswith(("?", ".")) else "."
    pointer = f"{' ' * (column - start)}^"
    return ParseError(f"Column {column + 1}: {reason}{end}\n    {shown}\n    {pointer}", column=column + 1)


class _Reader:
    """Reader of one expression.

    offset: where the expression starts inside the whole text.
    """

    def __init__(self, whole: str, offset: int, part: str, names: Iterable[str]):
        self.whole, self.offset = whole, offset
        self.names = {checks.canonical(name) for name in names} | {"t"}
        # Leading blanks would be indentation; they are counted instead.
        self.indent = len(part) - len(part.lstrip())
        self.part = re.sub(r"\s", " ", part.strip())

    def read(self) -> Expression:
        if not self.part:
            raise _error(self.whole, self.offset, "a side of the equation is empty")
        self.refuse_characters()
        marked = re.sub(r"(?<=\w)'+", lambda m: PRIME * len(m[0]), self.part)
        self.lengths = [len(c.encode()) for c in marked]
        try:
            tree = expression_tree(marked)
        except SyntaxError as error:
            raise self.syntax_error(error) from None
        except (ValueError, RecursionError, MemoryError):
            raise _error(self.whole, self.offset, "too long or nested too deeply; split it") from None
        try:
            result = self.value(tree.body, 0)
        except ParseError:
            raise
        except (ArithmeticError, TypeError, ValueError, RecursionError):
            # SymPy compares constants while it builds an expression; some cannot be compared.
            raise _error(self.whole, self.offset, "a constant in it has no finite real value") from None
        if result.has(sp.zoo, sp.nan, sp.oo, sp.I):
            raise _error(self.whole, self.offset, "a constant in it has no finite real value")
        return result

    def refuse_characters(self) -> None:
        hints = {"^": "write ** for powers", "\\": "not part of the notation", ";": "one expression at a time"}
        for match in re.finditer(r"[\^\\;\"`@#$!?~%&|:{}]|__|(?<!\w)(?<!')'", self.part):
            found = match[0]
            raise self.error(
                match.start(), f"'{found}' is not understood" + (f"; {hints[found]}" if found in hints else "")
            )

    def error(self, column: int, reason: str) -> ParseError:
        return _error(self.whole, self.offset + self.indent + column, reason)

    def syntax_error(self, error: SyntaxError) -> ParseError:
        column = min(max((error.offset or 1) - 1, 0), len(self.part))
        word = re.match(r"[A-Za-z]+", self.part[column:])
        if word and word[0] in ("lambda", "in", "is", "not", "if", "for", "and", "or", "as", "from", "def", "class"):
            return self.error(
                column, f'"{word[0]}" is a reserved word; write "{word[0]}_" for a parameter of that name'
            )
        if "Perhaps you forgot a comma" in (error.msg or "") or word or "decimal literal" in (error.msg or ""):
            return self.error(column, "not understood; is an operator such as * missing?")
        return self.error(column, f"not understood ({error.msg})")

    def column(self, node: ast.AST) -> int:
        """Return the column of a node in characters.

        Python counts columns in bytes.
        """
        bytes_left, column = getattr(node, "col_offset", 0), 0
        while bytes_left > 0 and column < len(self.lengths):
            bytes_left -= self.lengths[column]
            column += 1
        return column

    def fail(self, node: ast.AST, reason: str) -> ParseError:
        return self.error(self.column(node), reason)

    def value(self, node: ast.AST, depth: int) -> Expression:
        if depth > 2 * DEEPEST_NESTING:
            raise self.fail(node, "nested too deeply; split it with derived parameters")
        if isinstance(node, ast.Constant):
            return self.number(node)
        if isinstance(node, ast.Name):
            return self.name(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
            inside = self.value(node.operand, depth + 1)
            return -inside if isinstance(node.op, ast.USub) else inside
        if isinstance(node, ast.BinOp):
            return self.binary(node, depth)
        if isinstance(node, ast.Call):
            return self.call(node, depth)
        raise self.fail(node, REFUSED.get(type(node), f"{type(node).__name__} is not part of the notation"))

    def number(self, node: ast.Constant) -> Expression:
        if isinstance(node.value, bool) or not isinstance(node.value, (int, float)):
            raise self.fail(node, f"{node.value!r} is not a real number")
        if isinstance(node.value, float):
            if not math.isfinite(node.value):
                raise self.fail(node, "the number is too large")
            return sp.Float(node.value)
        if node.value.bit_length() > LARGEST_NUMBER_BITS:
            raise self.fail(node, "the number is too large")
        return sp.Integer(node.value)

    def name(self, node: ast.Name) -> Expression:
        name = node.id.replace(PRIME, "'")
        if name in self.names:
            return symbol(name)
        if name in CONSTANTS:
            return CONSTANTS[name]
        if name in FUNCTIONS:
            raise self.fail(node, f"the function {name} needs an argument: {name}(...)")
        base = name.rstrip("'")
        if base != name and base in self.names:
            raise self.fail(node, f'"{name}": the model has no such derivative of {base}')
        known = sorted(self.names | CONSTANTS.keys())
        hint = nearest_name(name, known) or f" Known: {', '.join(known[:30])}"
        raise self.fail(node, f'unknown name "{name}".{hint}')

    def binary(self, node: ast.BinOp, depth: int) -> Expression:
        if isinstance(node.op, (ast.Add, ast.Sub)):
            return sp.Add(*self.chain(node, (ast.Add, ast.Sub), depth))
        if isinstance(node.op, (ast.Mult, ast.Div)):
            return sp.Mul(*self.chain(node, (ast.Mult, ast.Div), depth))
        if isinstance(node.op, ast.Pow):
            return self.power(node, depth)
        raise self.fail(node, f"the operator {type(node.op).__name__} is not part of the notation")

    def chain(self, node: ast.BinOp, operators: tuple[type, ...], depth: int) -> list[Expression]:
        """Return the operands of a sum or product.

        They are those of a + b - c + …, left to right. Long sums lean left, so this is a loop and not a recursion.
        """
        operands: list[Expression] = []
        current: ast.AST = node
        while isinstance(current, ast.BinOp) and isinstance(current.op, operators):
            operand = self.value(current.right, depth + 1)
            if isinstance(current.op, ast.Sub):
                operand = -operand
            elif isinstance(current.op, ast.Div):
                if operand.is_zero or _is_rounded_zero(operand):
                    raise self.fail(current.right, "division by zero")
                operand = 1 / operand
            operands.append(operand)
            current = current.left
        if ast.Mult in operators and isinstance(current, ast.UnaryOp) and isinstance(current.op, ast.USub):
            # -a*b negates the product: distributing the sign over a sum in a would rewrite the expression.
            operands.append(sp.Integer(-1))
            current = current.operand
        operands.append(self.value(current, depth + 1))
        result = operands[::-1]
        self.check_size(node, result)
        return result

    def check_size(self, node: ast.AST, operands: list[Expression]) -> None:
        if sum(_bits(o) for o in operands) > 8 * LARGEST_NUMBER_BITS:
            raise self.fail(node, "the numbers are too large")

    def power(self, node: ast.BinOp, depth: int) -> Expression:
        exponent = self.value(node.right, depth + 1)
        if exponent.is_number and not (exponent.is_comparable and abs(exponent) <= LARGEST_EXPONENT):
            raise self.fail(node.right, f"the exponent exceeds {LARGEST_EXPONENT}")
        base = self.value(node.left, depth + 1)
        if exponent.is_negative and (base.is_zero or _is_rounded_zero(base)):
            raise self.fail(node, "division by zero")
        if base.is_negative and base.is_number and exponent.is_number and not exponent.is_integer:
            raise self.fail(node, "a root of a negative number")
        if exponent.is_number and _bits(base) * (abs(float(exponent)) + 1) > LARGEST_NUMBER_BITS:
            raise self.fail(node, "the power is too large a number")
        return base**exponent

    def call(self, node: ast.Call, depth: int) -> Expression:
        if not isinstance(node.func, ast.Name):
            raise self.fail(node.func, REFUSED.get(type(node.func), "only the named functions can be called"))
        name = node.func.id.replace(PRIME, "'")
        if name not in FUNCTIONS:
            hint = nearest_name(name, FUNCTIONS)
            if name in self.names:
                past = self.past(node, name, depth)
                if past is not None:
                    return past
                # A misspelt function of a new study counts as a name too.
                hint += f" Write {name}*(...) for a product, {name}(t - tau) for a past value."
            raise self.fail(node.func, f'unknown function "{name}".{hint}')
        if node.keywords:
            raise self.fail(node.keywords[0], "arguments have no names")
        function, count = FUNCTIONS[name]
        if (count is not None and len(node.args) != count) or not node.args:
            raise self.fail(node, f"{name} takes {count or 'one or more'} arguments, not {len(node.args)}")
        if name == "Piecewise":
            return self.cases(node, depth)
        if len(node.args) > MOST_ARGUMENTS:
            raise self.fail(node, f"{name} takes at most {MOST_ARGUMENTS} arguments, not {len(node.args)}")
        arguments = [self.value(a, depth + 1) for a in node.args]
        largest = LARGEST_ARGUMENT.get(name, 1e300)
        for argument, place in zip(arguments, node.args, strict=True):
            if argument.is_number and not abs(complex(argument.evalf(15, maxn=60))) <= largest:
                raise self.fail(place, f"the constant is too large for {name} (more than {largest:g})")
        result = function(*arguments)
        if result.has(sp.zoo, sp.nan, sp.oo, sp.I) or not _is_real(result):
            raise self.fail(node, f"{name} of this constant is not a finite real number")
        return result

    def past(self, node: ast.Call, name: str, depth: int) -> Expression | None:
        """Return a past value y(t - tau).

        None when the brackets are something else.
        """
        if len(node.args) != 1 or node.keywords or name == "t":
            return None
        delay = symbol("t") - self.value(node.args[0], depth + 1)
        if delay.has(symbol("t")):
            return None
        if delay.is_number and not delay > 0:
            raise self.fail(node, f"{name} at a time to come: a delay is positive, as in {name}(t - tau)")
        return delayed_symbol(name, delay)

    def cases(self, node: ast.Call, depth: int) -> Expression:
        pairs: list[tuple[Expression, Boolean]] = []
        for case in node.args:
            if not (isinstance(case, ast.Tuple) and len(case.elts) == 2):
                raise self.fail(case, "Piecewise takes pairs (value, condition)")
            pairs.append((self.value(case.elts[0], depth + 1), self.condition(case.elts[1], depth + 1)))
        if pairs[-1][1] != sp.true:
            raise self.fail(node.args[-1], "the last case of Piecewise must be (value, True)")
        return sp.Piecewise(*pairs)

    def condition(self, node: ast.AST, depth: int) -> Boolean:
        if isinstance(node, ast.Constant) and node.value is True:
            return sp.true
        if isinstance(node, ast.BoolOp):
            conditions = [self.condition(v, depth + 1) for v in node.values]
            return sp.And(*conditions) if isinstance(node.op, ast.And) else sp.Or(*conditions)
        if isinstance(node, ast.Compare):
            sides = [self.value(v, depth + 1) for v in (node.left, *node.comparators)]
            relations: list[Boolean] = []
            for operator, left, right in zip(node.ops, sides, sides[1:], strict=False):
                if type(operator) not in RELATIONS:
                    raise self.fail(node, "conditions use <, <=, >, >=")
                relations.append(RELATIONS[type(operator)](left, right))
            return sp.And(*relations)
        raise self.fail(node, "a condition such as x > 1 is needed here")


def _is_rounded_zero(expression: Expression) -> bool:
    """Return whether a constant is zero unknown to SymPy.

    An example is sin(1)**2 + cos(1)**2 - 1.
    """
    return bool(expression.is_number and expression.is_zero is None and vanishes(expression))


def _is_real(expression: Expression) -> bool:
    """Return whether a constant has a real value.

    SymPy leaves some constants as they are although they have none, such as acos(2).
    """
    if not expression.is_number or expression.is_Rational or expression.is_Float:
        return True
    value = complex(expression.evalf(15, maxn=60))
    return math.isfinite(value.real) and abs(value.imag) <= 1e-12 * abs(value)


def _bits(expression: Expression) -> int:
    """Return the size of a plain number in bits.

    It is 0 for symbols and functions.
    """
    if isinstance(expression, sp.Rational):
        return max(int(expression.p).bit_length(), int(expression.q).bit_length())
    return 0
