"""Checks of values from outside, by kind.

Values come from files, arguments and command lines, and are checked here once.

Every function takes the name of the value, the value, and its limits. It returns a plain Python or NumPy object of
the promised type, or raises an error of the given kind, with the name, the value (made harmless for a terminal) and the
cure. Nothing is converted that could change its meaning: text is not a number, a truth value is not a number, None
is not a NaN.

    name = checks.name("A channel", given)
    rate = checks.number("rate", given, low=0.0, error=DataError)
    rows = checks.array("States", given, shape=(None, 2))
"""

from __future__ import annotations

import keyword
import math
import numbers
import os
import re
import tomllib
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar, cast, runtime_checkable

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from kapitza.base.cures import Message
from kapitza.errors import ArgumentError, KapitzaError, nearest_name, printable, shown

Array: TypeAlias = NDArray[np.float64]
Kind: TypeAlias = type[KapitzaError]

LONGEST_TEXT = 100_000
"""Characters of a description; equations, names and similar texts have tighter limits."""

LONGEST_NAME = 200
LONGEST_FILE_NAME = 255
LONGEST_PATH = 4000
"""Bytes of a file name and characters of a path that Linux accepts (NAME_MAX; PATH_MAX is 4096)."""

MOST_ITEMS = 10_000_000
LARGEST_SEED = 2**128
"""NumPy's seed sequences mix 128 bits; larger seeds add nothing."""

LOOKS_LIKE = str.maketrans(
    "аеорсухіѕјһАВЕКМНОРСТХІЅЈοΑΒΕΖΗΙΚΜΝΟΡΤΥΧı",
    "aeopcyxisjhABEKMHOPCTXISJoABEZHIKMNOPTYXi",
)
"""Letters of other alphabets that look like Latin ones on paper."""


def text(what: str, value: Any, *, longest: int = LONGEST_TEXT, error: Kind = ArgumentError) -> str:
    """Return a text of limited length.

    It has at most `longest` characters and can be written as UTF-8.
    """
    if not isinstance(value, str):
        raise error(f"{what} is {shown(value)}; give text.")
    if len(value) > longest:
        raise error(f"{what} has {len(value)} characters; at most {longest} are allowed.")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise error(f"{what} holds a character that is not Unicode text: {shown(value)}.") from None
    return value if isinstance(value, Message) else str(value)


def texts(what: str, values: Any, *, most: int = MOST_ITEMS, error: Kind = ArgumentError) -> list[str]:
    """Return a list of texts.

    One text alone is a list of one.
    """
    if isinstance(values, str):
        return [text(what, values, error=error)]
    return [
        text(f"{what}, entry {i},", v, error=error) for i, v in enumerate(items(what, values, most=most, error=error))
    ]


def name(what: str, value: Any, *, error: Kind = ArgumentError) -> str:
    """Return a name that can occur in equations.

    It is in its canonical spelling (see `canonical`).
    """
    given = canonical(text(f"{what}: the name", value, longest=LONGEST_NAME, error=error))
    if not given.isidentifier() or "__" in given or "\u02b9" in given:
        raise error(
            f'{what}: "{printable(given)}" cannot be used as a name. Use letters, digits and single underscores.'
        )
    if keyword.iskeyword(given):
        raise error(f'{what}: "{given}" cannot be used as a name. Write "{given}_".')
    return given


def canonical(name: str) -> str:
    """Return the canonical spelling of a name.

    Names of the same letters get one spelling (Unicode NFKC): µ (micro) is μ (mu), ａ (full width) is a.

    Anything that is not a name, such as x², is left as it is: it must not become x2.
    """
    word = name.rstrip("'")
    if not word.isidentifier():
        return name
    return unicodedata.normalize("NFKC", word) + name[len(word) :]


def skeleton(name: str) -> str:
    """Return what a name looks like.

    It is equal for names that a reader cannot distinguish, such as Latin a and Cyrillic а.
    """
    return canonical(name).translate(LOOKS_LIKE)


def number(
    what: str,
    value: Any,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    above: float = -math.inf,
    below: float = math.inf,
    finite: bool = True,
    error: Kind = ArgumentError,
) -> float:
    """Return one real number within limits.

    It satisfies low <= value <= high and above < value < below; NaN and infinity pass only with finite=False.
    """
    given = value
    if isinstance(given, np.ndarray) and given.ndim == 0:
        given = given[()]
    if not is_number(given):
        raise error(f"{what} = {shown(value)}; give a number.")
    if isinstance(given, sp.Expr) and not (given.is_number and given.is_real):
        raise error(f"{what} = {shown(value)}; give a real number.")
    try:
        result = float(given)
    except (OverflowError, ValueError, TypeError):
        raise error(f"{what} is {shown(value)}, too large for a number (more than 1.8e308).") from None
    if finite and not math.isfinite(result):
        raise error(f"{what} = {result}; give a finite number.")
    limited = low > -math.inf or high < math.inf or above > -math.inf or below < math.inf
    # NaN is within no limits.
    inside = (result > above or above == -math.inf) and (result < below or below == math.inf)
    if limited and not (low <= result <= high and inside):
        raise error(f"{what} = {result:g}; {_limits(low, min(high, below), above)}.")
    return result


def is_number(value: Any) -> bool:
    """Return whether a value is a real number.

    Its type decides; an array without dimensions counts by its entry.
    """
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, (bool, np.bool_)):
        return False
    return isinstance(value, (numbers.Real, np.floating, np.integer, sp.Expr))


def _limits(low: float, high: float, above: float) -> str:
    least = f"more than {above:g}" if above > -math.inf else f"{low:g} or more" if low > -math.inf else ""
    if high == math.inf:
        return f"give a number, {least}"
    return f"give a number between {max(low, above):g} and {high:g}" if least else f"give a number, {high:g} or less"


def whole(
    what: str, value: Any, *, least: int | None = None, most: int | None = None, error: Kind = ArgumentError
) -> int:
    """Return a whole number between the limits.

    3.0 is a whole number, True is not.
    """
    wanted = "a whole number" + ("" if least is None else f", {least} or more" if most is None else "")
    wanted += "" if most is None else f" from {least} to {most}" if least is not None else f", {most} or less"
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_whole and not (isinstance(value, (float, np.floating)) and math.isfinite(value) and value % 1 == 0):
        raise error(f"{what} = {shown(value)}; give {wanted}.")
    result = int(value)
    if (least is not None and result < least) or (most is not None and result > most):
        raise error(f"{what} = {shown(result)}; give {wanted}.")
    return result


def seed(value: Any, *, error: Kind = ArgumentError) -> int | None:
    """Return the seed of random numbers.

    It is a whole number from 0 on, or None for a fresh one.
    """
    return None if value is None else whole("seed", value, least=0, most=LARGEST_SEED, error=error)


Wanted = TypeVar("Wanted")


@runtime_checkable
class Quantity(Protocol):
    """A number with a unit, of whichever package."""

    @property
    def magnitude(self) -> object: ...

    @property
    def units(self) -> object: ...


def instance(what: str, value: object, kind: type[Wanted], wanted: str, error: Kind = KapitzaError) -> Wanted:
    """Return a value that must be of a kind.

    wanted: what to give instead, for the message.
    """
    if not isinstance(value, kind):
        raise error(f"{what} = {shown(value)}; give {wanted}.")
    return value


def flag(what: str, value: Any, *, error: Kind = ArgumentError) -> bool:
    """Return True or False.

    A value that is only truthy or falsy is refused.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise error(f"{what} = {shown(value)}; give True or False.")
    return bool(value)


def path(what: str, value: Any, *, error: Kind = ArgumentError) -> Path:
    """Return the path of a file.

    It is given as text or a Path, without a null character.
    """
    if not isinstance(value, (str, os.PathLike)) or isinstance(value, (bytes, bytearray)):
        raise error(f"{what} is {shown(value)}; give the path of a file as text.")
    given = os.fspath(value)
    if not isinstance(given, str) or "\x00" in given:
        raise error(f"{what} is {shown(given)}; a path is text without null characters.")
    try:
        longest = max(len(part) for part in os.fsencode(given).split(b"/"))
    except UnicodeEncodeError:
        raise error(f"{what} is {shown(given)}; a path is text that can be written as UTF-8.") from None
    if longest > LONGEST_FILE_NAME or len(given) > LONGEST_PATH:
        raise error(
            f"{what} is {shown(given)}; the name of a file has at most {LONGEST_FILE_NAME} characters, a path "
            f"{LONGEST_PATH}."
        )
    return Path(given)


class UnreadableToml(KapitzaError):
    """A file is not TOML, or too large.

    line: where (0: the file as a whole).
    """

    def __init__(self, message: str, line: int = 0, column: int = 0):
        self.line, self.column = line, column
        super().__init__(message)


def toml_file(what: str, place: Path, largest: int) -> tuple[str, dict[str, Any]]:
    """Return text and tables of a TOML file.

    It has at most `largest` bytes. what: the kind of file, such as "model file".
    """
    named = printable(str(place))
    try:
        if not place.is_file():
            raise UnreadableToml(f'There is no {what} "{named}".')
        with place.open("rb") as stream:
            # One byte more than is allowed: the size that a file claims may change while it is read.
            raw = stream.read(largest + 1)
    except OSError as problem:
        raise UnreadableToml(f'"{named}" cannot be read: {problem.strerror}.') from None
    return toml_bytes(what, named, raw, largest)


def toml_bytes(what: str, named: str, raw: bytes, largest: int) -> tuple[str, dict[str, Any]]:
    """Return text and tables of TOML bytes.

    The file was read already. named: its name in messages.
    """
    if len(raw) > largest:
        raise UnreadableToml(f'"{named}" has more bytes than a {what} may have ({largest}).')
    try:
        # Windows ends lines with two characters, and its editors begin a file with a mark.
        written = raw.decode("utf-8-sig").replace("\r\n", "\n")
        return written, tomllib.loads(written)
    except UnicodeDecodeError as problem:
        line = raw[: problem.start].count(b"\n") + 1
        message = f'"{named}" is not valid TOML: line {line} holds a byte that is not UTF-8; save it as such.'
        raise UnreadableToml(message, line) from None
    except tomllib.TOMLDecodeError as problem:
        said = str(problem)
        stated = re.search(r"at line (\d+), column (\d+)", said)
        line = int(stated[1]) if stated else written.count("\n") + 1
        hint = " Text is in quotes, a key once only, and a table ends where the next [name] begins."
        message = f'"{named}" is not valid TOML: {printable(said)[:300]}.{hint}'
        raise UnreadableToml(message, line, int(stated[2]) if stated else 0) from None
    except (ValueError, RecursionError) as problem:
        reason = "a number has too many digits" if isinstance(problem, ValueError) else "tables are nested too deeply"
        raise UnreadableToml(f'"{named}" is not valid TOML: {reason}.') from None


def toml(what: str, place: Path, largest: int, *, error: Kind = ArgumentError) -> dict[str, Any]:
    """Return the tables of a TOML file.

    See `toml_file`.
    """
    try:
        return toml_file(what, place, largest)[1]
    except UnreadableToml as problem:
        raise error(str(problem)) from None


def choice(what: str, value: Any, options: Iterable[str], *, error: Kind = ArgumentError) -> str:
    """Return one of a few words."""
    words = list(options)
    if not isinstance(value, str) or value not in words:
        near = nearest_name(value, words) if isinstance(value, str) else ""
        raise error(f"{what} = {shown(value)}; choose {' or '.join(repr(w) for w in words)}.{near}")
    return value


def array(
    what: str,
    values: Any,
    *,
    shape: tuple[int | None, ...] | None = None,
    finite: bool = False,
    most: int | None = None,
    error: Kind = ArgumentError,
) -> Array:
    """Return an array of real numbers.

    It is a copy; masked entries become NaN.

    shape: with None where any length is allowed. Text, truth values, dates, complex numbers and None are refused, not
    converted: numpy would read "1" as 1, None as NaN, and dates as ticks.
    """
    result = _real_array(what, values, error)
    if most is not None and result.size > most:
        raise error(f"{what} has {result.size} numbers; at most {most} are allowed.")
    if shape is not None and (
        result.ndim != len(shape)
        or any(want is not None and have != want for have, want in zip(result.shape, shape, strict=True))
    ):
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        raise error(f"{what} has the shape {result.shape}; give ({wanted}).")
    if finite and not np.isfinite(result).all():
        bad = np.flatnonzero(~np.isfinite(result.ravel()))
        raise error(f"{what}: {bad.size} of {result.size} numbers are not finite, the first is number {bad[0]}.")
    return result


def _real_array(what: str, values: Any, error: Kind) -> Array:
    if type(values) is np.ndarray and values.dtype == np.float64:
        return values.copy()
    try:
        if isinstance(values, Quantity):
            unit = shown(str(values.units))
            raise error(f"{what} carries the unit {unit}; convert it and give plain numbers.")
        mask = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
        plain = np.asarray(values)
    except KapitzaError:
        raise
    except Exception:  # a foreign object may raise anything while it is converted
        raise error(f"{what}: {shown(values)} cannot be read as real numbers.") from None
    if plain.dtype.kind == "O" and plain.size <= MOST_ITEMS:
        # Whole numbers beyond 64 bits, fractions and numbers of SymPy: one by one.
        result = np.empty(plain.shape)
        for i, entry in enumerate(plain.flat):
            if not isinstance(entry, (numbers.Real, np.number, sp.Expr)):
                raise error(f"{what}: {shown(entry)} cannot be read as real numbers (entry {i}).")
            result.flat[i] = number(f"{what}, entry {i},", entry, finite=False, error=error)
        return result
    if plain.dtype.kind not in "iuf" and plain.size:
        raise error(f"{what}: {shown(values)} cannot be read as real numbers.")
    result = np.array(plain, dtype=np.float64)
    if mask is not None:
        result[mask] = np.nan
    return result


def span(what: str, value: Any, *, error: Kind = ArgumentError) -> tuple[float, float]:
    """Return a range (low, high).

    Both are finite numbers with low < high.
    """
    ends = array(what, value, error=error)
    if ends.shape != (2,) or not np.isfinite(ends).all() or not ends[0] < ends[1]:
        raise error(f"{what} = {shown(value)}; give a range (low, high) of finite numbers, the lower one first.")
    return float(ends[0]), float(ends[1])


def items(what: str, values: Any, *, most: int = MOST_ITEMS, error: Kind = ArgumentError) -> list[Any]:
    """Return the entries of a series.

    The series is a list, tuple or similar; text, tables and sets (which have no order) are refused.
    """
    if isinstance(values, (str, bytes, bytearray, Mapping, set, frozenset)) or not isinstance(values, Iterable):
        raise error(f"{what} is {shown(values)}; give a list.")
    result = []
    try:
        for entry in values:
            if len(result) >= most:
                raise error(f"{what} has more than {most} entries.")
            result.append(entry)
    except KapitzaError:
        raise
    except Exception as problem:  # an array without dimensions, a closed file, a generator that fails
        raise error(f"{what} is {shown(values)}, whose entries cannot be read ({problem}); give a list.") from problem
    return result


def table(what: str, value: Any, *, most: int = MOST_ITEMS, error: Kind = ArgumentError) -> dict[str, Any]:
    """Return a mapping with text keys as a dictionary.

    Keys that are spelled alike (see `canonical`) are refused.
    """
    if not isinstance(value, Mapping):
        raise error(f"{what} is {shown(value)}; give a table {{name: ...}}.")
    if len(value) > most:
        raise error(f"{what} has {len(value)} entries; at most {most} are allowed.")
    result: dict[str, Any] = {}
    for key, entry in value.items():
        word = canonical(text(f"{what}: a key", key, error=error))
        if word in result:
            raise error(f"{what}: {shown(key)} occurs twice (the letters are the same to Unicode); rename one.")
        result[word] = entry
    return result


def expression(what: str, value: Any, *, error: Kind = ArgumentError) -> sp.Expr:
    """Return a SymPy expression.

    A number becomes a number of SymPy; everything else, in particular text, is refused. An equation of SymPy passes.

    SymPy's own conversion evaluates text inside tuples, dictionaries and sets as Python code, so it is never used.
    """
    if isinstance(value, (sp.Expr, sp.Equality)) and not isinstance(value, sp.MatrixExpr):
        if value.has(sp.zoo, sp.nan, sp.oo, -sp.oo, sp.I):
            raise error(f"{what}: {shown(value)} holds a constant that is not a finite real number.")
        # An equation passes: its residual is formed, or it is refused, where its sides are known.
        return cast("sp.Expr", value)
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (numbers.Real, np.number)):
        raise error(f"{what} is {shown(value)}; give an expression as text or SymPy, or a number.")
    if isinstance(value, numbers.Integral):
        number(what, value, error=error)
        return sp.Integer(int(value))
    if isinstance(value, numbers.Rational):
        return sp.Rational(int(value.numerator), int(value.denominator))
    return sp.Float(number(what, value, error=error))


def words(written: str) -> str:
    """Return an expression's text in canonical spelling.

    Every name in it is in its canonical spelling; typographic primes become plain.
    """
    plain = re.sub("[\u2019\u2032\u02b9]", "'", written.replace("\u2033", "''"))
    return re.sub(r"[^\W\d]\w*", lambda match: canonical(match[0]), plain)
