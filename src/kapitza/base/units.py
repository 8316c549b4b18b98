"""Units and their conversions.

A text such as "deg/ms" is parsed, and converted from one unit to another.

The registry is pint's. Three things are stricter here, because a wrong unit gives wrong parameters with small
intervals: an angle and a count are separate kinds (pint converts Hz to rad/s, percent to rad and counts to rad by the
factor 1); texts with two usual meanings ("g": gram or gravity) are refused; and symbols are taken from a list of
those that laboratories write (`SYMBOLS`), because pint knows one for nearly every two letters: "MM" is megamolar, "Ns"
several newtons, "pa" a picoyear, "R" the gas constant. Words of four letters and more are pint's. Unit texts come from
files: they pass a grammar of names and small whole powers before pint reads them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kapitza.errors import DataError

LONGEST = 60
"""Characters of a unit; longer texts are none."""

ALIASES = {
    "rev": "turn",
    "revs": "turn",
    "rev.": "turn",
    "RPM": "rpm",
    "U": "turn",
    "Nm": "N m",
    "mNm": "mN m",
    "kNm": "kN m",
    "Ohm": "ohm",
    "Ω": "ohm",
    "Sec": "s",
    "mSec": "ms",
    "degs": "deg",
    "rads": "rad",
    "Deg": "deg",
    "°": "deg",
    "º": "deg",
    "gravity": "standard_gravity",
    "gn": "standard_gravity",
    "g_n": "standard_gravity",
    "milligravity": "millistandard_gravity",
    "microgravity": "microstandard_gravity",
    "Ncm": "N cm",
    "Nmm": "N mm",
    "µNm": "uN m",
    "uNm": "uN m",
    "MNm": "MN m",
    "Ns": "N s",
    "Vs": "V s",
    "As": "A s",
    "Ws": "W s",
    "Js": "J s",
    "Pas": "Pa s",
    "mPas": "mPa s",
    "Ah": "A h",
    "mAh": "mA h",
    "Wh": "W h",
    "kWh": "kW h",
    "hrs": "hr",
    "mins": "min",
    "secs": "s",
    "sec": "s",
    "msec": "ms",
    "usec": "us",
    "℃": "degC",
    "°C": "degC",
    "°F": "degF",
}
"""Usual spellings that the registry does not have, or takes for something else."""

AMBIGUOUS = {
    "g": '"gram" or "gravity" (9.80665 m/s²)',
    "C": '"coulomb" or "degC"',
    "F": '"farad" or "degF"',
    "G": '"gravity" (9.80665 m/s²), or convert gauss to "T"',
    "a": '"year" or another',
    "t": '"tonne" or another',
    "M": '"m" or "molar"',
    "S": '"s" or "siemens"',
    "u": '"um" or "dalton"',
    "U": '"turn", or "V" for a voltage',
    "mil": '"thou" (0.001 inch) or, converted, "mrad"',
    "mils": '"thou" (0.001 inch) or, converted, "mrad"',
    "lb": '"lbf" (a force) or "pound" (a mass)',
    "lbs": '"lbf" (a force) or "pound" (a mass)',
    "oz": '"force_ounce" or "ounce" (a mass)',
    "ton": '"tonne" (1000 kg) or "short_ton" (907 kg)',
    "N/A": '"N/ampere", or "" where there is none',
    "pH": '"picohenry" or, for an acidity, "1"',
    "mG": '"milligravity", or convert gauss to "T"',
    "mg": '"milligram" or "milligravity"',
    **dict.fromkeys(("ug", "µg", "μg"), '"microgram" or "microgravity"'),
    # Old measures of length and time whose names headers use for other things.
    **dict.fromkeys(
        [f"{word}{end}" for word in ("point", "link", "chain", "hand", "shake") for end in ("", "s")],
        '"1" for a number of them, or convert a length to "m"',
    ),
}
"""Texts with two usual meanings: the user must choose, they are not guessed."""

_ACCELERATION = re.compile(r"accel|beschl|(^|[\W_])acc([\W_\dxyz]|$)", re.IGNORECASE)
_MASS = re.compile(r"mass|weight", re.IGNORECASE)
_TEMPERATURE = re.compile(r"temp", re.IGNORECASE)
_FORCE = re.compile(r"force|load|thrust", re.IGNORECASE)

MEANT = {
    "g": ((_ACCELERATION, "gravity"), (_MASS, "gram")),
    "G": ((_ACCELERATION, "gravity"),),
    "mg": ((_ACCELERATION, "milligravity"), (_MASS, "milligram")),
    "mG": ((_ACCELERATION, "milligravity"),),
    "C": ((_TEMPERATURE, "degC"), (re.compile("charge", re.IGNORECASE), "coulomb")),
    "F": ((_TEMPERATURE, "degF"), (re.compile("capacit", re.IGNORECASE), "farad")),
    "lb": ((_FORCE, "lbf"), (re.compile("mass", re.IGNORECASE), "pound")),
    "lbs": ((_FORCE, "lbf"), (re.compile("mass", re.IGNORECASE), "pound")),
}
"""Texts with two meanings → what the name of a quantity decides: an acceleration in g is not a mass."""

REFUSED = {
    **dict.fromkeys(
        ("dB", "db", "DB", "dBm", "dBV", "dBFS", "dB(A)", "dBA"),
        "decibels are logarithms: convert the column to the quantity itself, reference * 10**(dB / 20)",
    ),
    **dict.fromkeys(
        ("%", "percent", "pct", "%FS"),
        'a percentage needs its full value: give as its unit what 1 % is, such as "0.3 mm", or multiply it by 0.01 '
        'and give "1"',
    ),
}
"""Texts that are not a unit of a measured column → what to do."""


def meant_by(name: str, text: str) -> str:
    """Return the unit that a quantity's name decides.

    The text of the unit has two meanings; "" where the name does not decide.

    >>> meant_by("Accel X", "g"), meant_by("g", "g")
    ('gravity', '')
    """
    found = {unit for pattern, unit in MEANT.get(text.strip(), ()) if pattern.search(name)}
    return found.pop() if len(found) == 1 else ""


MICRO = "uµμ"
SYMBOLS = {
    "m": f"fpn{MICRO}mcdk", "s": f"fpn{MICRO}m", "N": f"n{MICRO}mkM", "Pa": f"{MICRO}mhkMG", "V": f"pn{MICRO}mkM",
    "A": f"fpn{MICRO}mk", "Hz": f"{MICRO}mkMGT", "W": f"fpn{MICRO}mkMG", "J": f"n{MICRO}mkMG", "ohm": f"{MICRO}mkMG",
    "Ω": f"{MICRO}mkMG", "K": f"n{MICRO}m", "mol": f"pn{MICRO}mk", "L": f"{MICRO}md", "l": f"{MICRO}md",
    "rad": f"n{MICRO}m", "deg": "m", "T": f"pn{MICRO}m", "H": f"pn{MICRO}m", "Wb": f"{MICRO}m", "eV": "mkMG",
    "bar": f"{MICRO}mk", "cal": "k", "cd": "", "lm": "", "lx": "k", "sr": "", "min": "", "h": "", "hr": "", "d": "",
    "rpm": "k", "in": "", "ft": "", "yd": "", "mi": "", "lbf": "", "kgf": "", "psi": "k", "atm": "", "hp": "",
    "mph": "", "kph": "", "ppm": "", "%": "", "℃": "", "dyn": "", "Å": "", "cP": "", "kg": "", "mmHg": "", "inHg": "",
    # Without a prefix these have two meanings.
    "F": f"fpn{MICRO}m", "C": f"fpn{MICRO}m", "S": f"pn{MICRO}m", "M": f"pn{MICRO}m",
}  # fmt: skip
"""Symbols that are taken, each with the SI prefixes that are; others are asked for."""

SHORTEST_WORD = 4
"""Letters of a unit that is written as a word: "volt", "inch", "degC", "kilometer"."""

COHERENT = {"": "", "1": "1", "-": "1", "s": "s", "rad": "rad", "m": "m", "rad/s": "rad/s", "m/s": "m/s"}
COHERENT |= {unit: unit for unit in ("m/s^2", "rad/s^2", "N", "V", "A", "kg", "N*m", "Hz", "Pa", "K")}
"""Units that need no conversion, recognised without loading the registry."""

NAMED = {
    "N": {"kilogram": 1, "meter": 1, "second": -2},
    "Pa": {"kilogram": 1, "meter": -1, "second": -2},
    "W": {"kilogram": 1, "meter": 2, "second": -3},
}
"""Products of base units that have a name."""

HIGHEST = 9
"""Largest power of a unit, as it is written and in SI."""

SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
NAME = r"[^\W\d_](?:[^\W_]|_)*?|[°º℃%Ω](?:[CF])?"
FACTOR = re.compile(
    rf"\s*(?P<name>1|{NAME})(?:\s*(?:\^|\*\*)\s*\(?(?P<power>[-+]?\d)\)?|(?P<plain>[-+]?\d))?(?=$|[\s*/)·⋅.]|-[^\W\d])"
)


@dataclass(frozen=True)
class Conversion:
    """A conversion from one unit to another.

    It is new = factor · old + offset.
    """

    factor: float = 1.0
    offset: float = 0.0

    @property
    def identity(self) -> bool:
        return self.factor == 1.0 and self.offset == 0.0

    def __call__(self, values: NDArray[Any]) -> NDArray[np.float64]:
        values = np.asarray(values, np.float64)
        if self.identity:
            return values
        # Divided where the inverse is whole: 10 ms is then 0.01 s, not 0.010000000000000002 s.
        inverse = 1.0 / self.factor
        whole = abs(inverse) > 1.0 and abs(inverse - round(inverse)) < 1e-9 * abs(inverse)
        return (values / round(inverse) if whole else values * self.factor) + self.offset

    def spread(self, deviation: float) -> float:
        """Return the converted standard deviation.

        The offset does not apply to it.
        """
        return float(Conversion(abs(self.factor))(np.asarray(deviation)))


@cache
def _registry() -> Any:
    import pint  # half a second that most sessions need not pay

    return pint.UnitRegistry(cache_folder=None)


def _factors(text: str) -> list[tuple[str, int]] | None:
    """Return names and powers of a unit text.

    The text is like "N*m/s^2"; None when it does not have the form of a unit.
    """
    text = text.translate(SUPERSCRIPTS).strip()
    if not text or len(text) > LONGEST:
        return None
    found: list[tuple[str, int]] = []
    sign, position, inside = 1, 0, False
    while position < len(text):
        match = FACTOR.match(text, position)
        if match is None:
            return None
        power = int(match["power"] or match["plain"] or 1)
        if sign < 0 and power < 0:
            return None  # "m/s-2": m s² by its form, m/s² in mind
        for part, exponent in _spelled(match["name"]):
            found.append((part, sign * power * exponent))
        position = match.end()
        while inside and text[position : position + 1] == ")":
            inside, sign, position = False, 1, position + 1
        joint = re.compile(r"\s*(/\s*\(|[*/·⋅.]|-(?=[^\W\d])|\s)\s*").match(text, position)
        if joint is None:
            break
        kind = joint[1].replace(" ", "")
        if joint.end() == len(text):
            return None if kind else found
        if kind.startswith("/"):
            sign = -1
            inside = inside or kind.endswith("(")
        elif sign < 0 and not inside:
            return None  # "m/s kg": above or below the stroke?
        position = joint.end()
    return found if position >= len(text) and not inside else None


def _spelled(name: str) -> list[tuple[str, int]]:
    return [(part, 1) for part in ALIASES.get(name, name).split()]


POWER = re.compile(r"(?:^|[\s*·⋅.])(?P<name>[^\W\d_]{2,})\s*(?:(?:\^|\*\*)\s*\(?)?(?P<power>[-+]?\d)\)?")
"""A name of two letters or more with a power, not below a stroke."""


def _readings(text: str) -> str:
    """Return both meanings of an ambiguous power.

    The power may belong to the last letter alone; "" where there is one meaning.

    "ms-1" is 1/ms by the rules of SI and m/s in most headers; "Nm-1", "rads-1" and "ms2" are of the same kind.
    """
    text = text.translate(SUPERSCRIPTS).strip()
    for match in POWER.finditer(text if len(text) <= LONGEST else ""):
        name, power = match["name"], int(match["power"])
        parts = ALIASES.get(name, name).split()
        # ms^2 is a variance of times, ms2 an acceleration with its stroke left out.
        strokeless = name == "ms" and power > 1 and "^" not in match[0] and "**" not in match[0]
        if len(parts) > 1 and power != 1:
            first, last = "*".join(parts[:-1]), parts[-1]
        elif name[0] == "m" and "m" in SYMBOLS.get(name[1:], "") and name != "mm" and (power < 0 or strokeless):
            first, last = "m", name[1:]
        elif name[-1] == "s" and power < 0 and name[:-1] not in ("m", "") and is_unit(name[:-1]):
            first, last = name[:-1], "s"
        else:
            continue
        raised = "" if abs(power) == 1 else f"^{abs(power)}"
        last_alone = f"{first}{'/' if power < 0 or strokeless else '*'}{last}{raised}"
        whole = (
            "*".join(part + raised for part in parts) if power > 0 else "/".join(["1", *(p + raised for p in parts)])
        )
        return " or ".join(f'"{reading}"' for reading in (last_alone, whole) if is_unit(reading))
    return ""


@lru_cache(maxsize=1024)
def _parsed(text: str) -> tuple[tuple[str, int], ...] | None:
    """Return names of the registry and their powers.

    None when the text is not a known unit.
    """
    factors = None if text.strip() in AMBIGUOUS or _readings(text) else _factors(text)
    if factors is None or any(abs(power) > HIGHEST for _, power in factors):
        return None
    powers: dict[str, int] = {}
    for name, power in factors:
        if name == "1":
            continue
        if name in AMBIGUOUS:
            return None
        found = _known(name)
        if found is None:
            return None
        prefix, unit = found
        if _definition(unit).is_logarithmic:
            return None
        powers[prefix + unit] = powers.get(prefix + unit, 0) + power
        if not _definition(unit).is_multiplicative and (prefix or power != 1 or len(factors) > 1):
            return None
    parsed = tuple((name, power) for name, power in powers.items() if power)
    try:
        change, base = _base(parsed)
    except OverflowError:
        return None
    # What a unit becomes in SI must be a unit too; gauss and others of the Gaussian system have powers of 1/2 there.
    sensible = (
        all(abs(power) <= HIGHEST and power == int(power) for power in base.values())
        and 0.0 < abs(change.factor) < math.inf
    )
    return parsed if sensible else None


def _known(name: str) -> tuple[str, str] | None:
    """Return prefix and unit of the registry.

    They are those of a symbol of the list or of a word.
    """
    candidates = _registry().parse_unit_name(name)
    if not candidates:
        return None
    prefix, unit, _ = candidates[0]
    stem = name[1:] if name not in SYMBOLS else name
    if stem in SYMBOLS and (name in SYMBOLS or name[0] in SYMBOLS[stem]):
        return prefix, unit
    # Not by a symbol: "kmil" and "MM" have prefix and unit in short.
    word = name.removeprefix(prefix)
    written_out = {word for word in (unit, *_definition(unit).aliases) if len(word) >= SHORTEST_WORD}
    return (prefix, unit) if {word, word.removesuffix("s")} & written_out else None


def _definition(name: str) -> Any:
    return _registry()._units[name]


def _base(parsed: tuple[tuple[str, int], ...]) -> tuple[Conversion, dict[str, float]]:
    """Return the conversion to SI base units.

    Also these units with their powers; radian and count are among them.
    """
    registry = _registry()
    factor, total = 1.0, {}
    if len(parsed) == 1 and not (own := _definition(registry.parse_unit_name(parsed[0][0])[0][1])).is_multiplicative:
        return Conversion(float(own.converter.scale), float(own.converter.offset)), {"kelvin": 1}
    for name, power in parsed:
        own, base = registry.get_base_units(name)
        factor *= float(own) ** power
        for part, exponent in base._units.items():
            total[part] = total.get(part, 0) + exponent * power
    return Conversion(factor), {part: exponent for part, exponent in total.items() if exponent}


def is_unit(text: str) -> bool:
    """Return whether a text is a convertible unit.

    "" (none stated) and "1" (a pure number) are.
    """
    text = text.strip()
    return text in COHERENT or _parsed(text) is not None


def require_unit(text: str, what: str) -> str:
    """Return the text; refuse one without a unit.

    The error asks for the unit. what: 'Column "phi"'.
    """
    if is_unit(text):
        return text
    text = text.strip()
    double = text if text in AMBIGUOUS else next((n for n, _ in _factors(text) or [] if n in AMBIGUOUS), None)
    if double is not None:
        where = "" if double == text else f' of which "{double}"'
        raise DataError(f'{what} has the unit "{text}",{where or " which"} has two meanings: give {AMBIGUOUS[double]}.')
    if readings := _readings(text):
        raise DataError(f'{what} has the unit "{text}", which has two meanings: give {readings}.')
    shown = text if len(text) <= LONGEST else text[:LONGEST] + "…"
    other = next((word for word in (text.lower(), text.swapcase()) if word != text and word and is_unit(word)), None)
    hint = f' Upper and lower case differ: is it "{other}"?' if other else ""
    raise DataError(
        f'{what} has the unit "{shown}", which is not known: give one that is, such as "rad", "deg/s", "mm", "N*m" or '
        f'"counts"; "1" is a pure number, "" says nothing.{hint}'
    )


def to_si(text: str, what: str = "A quantity") -> tuple[str, Conversion]:
    """Return the coherent SI unit of the same kind.

    It also returns the conversion. Examples are "mm" → "m", "rpm" → "rad/s" and "kN" → "N".
    """
    require_unit(text, what)
    if text.strip() in COHERENT:
        return COHERENT[text.strip()], Conversion()
    parsed = _parsed(text.strip())
    assert parsed is not None
    conversion, _ = _base(parsed)
    if conversion.identity:
        return text.strip(), conversion
    return _text(_coherent_parts(parsed)), conversion


def _coherent_parts(parsed: tuple[tuple[str, int], ...]) -> dict[str, float]:
    """Return the same product in coherent SI units.

    Their factor is 1; they have their own names where they have one (N, V, Pa).
    """
    registry, parts = _registry(), {}
    for name, power in parsed:
        _, stem, _ = registry.parse_unit_name(name)[0]
        own = _definition(stem)
        keep = own.is_multiplicative and float(registry.get_base_units(stem)[0]) == 1.0
        base = {stem: 1} if keep else dict(registry.get_base_units(name)[1]._units.items())
        for part, exponent in base.items():
            parts[part] = parts.get(part, 0) + exponent * power
    return {part: exponent for part, exponent in parts.items() if exponent}


def _text(parts: Mapping[str, float]) -> str:
    """Return {"meter": 1, "second": -2} as "m/s^2"."""
    registry = _registry()
    named = next((symbol for symbol, kind in NAMED.items() if kind == parts), None)
    if named is not None:
        return named

    def one(name: str, power: float) -> str:
        symbol = registry.get_symbol(name)
        # "C" and "F" have two meanings; their names have one.
        readable = symbol in COHERENT or (symbol not in AMBIGUOUS and _known(symbol) is not None)
        return (symbol if readable else name) + ("" if power == 1 else f"^{power:g}")

    above = "*".join(one(name, power) for name, power in parts.items() if power > 0)
    below = [one(name, -power) for name, power in parts.items() if power < 0]
    found = "/".join([above or "1", *below]) if parts else "1"
    # As words where the symbols together have a second meaning: "N/A".
    return found if found not in AMBIGUOUS else re.sub(r"A$", "ampere", found)


def conversion(given: str, wanted: str, what: str = "A quantity") -> Conversion:
    """Return the conversion between two units.

    Units of different kinds are refused. Unstated units ("") match all.

    >>> conversion("deg/ms", "rad/s").factor
    17.453292519943297
    """
    given, wanted = given.strip(), wanted.strip()
    if given == wanted or not given or not wanted:
        return Conversion()
    require_unit(given, what)
    require_unit(wanted, f"{what} is wanted in another: it")
    if COHERENT.get(given) == COHERENT.get(wanted, wanted):
        return Conversion()
    first, first_kind = _base(_parsed(given) or ())
    second, second_kind = _base(_parsed(wanted) or ())
    pure_angle = "1" in (COHERENT.get(given), COHERENT.get(wanted)) and {**first_kind, **second_kind} == {"radian": 1}
    if first_kind != second_kind and not pure_angle:
        hint = ""
        if {"hertz", "radian"} & ({*first_kind} ^ {*second_kind}) and {"second"} <= {*first_kind, *second_kind}:
            hint = ' A frequency in Hz and an angular velocity differ by 2π: say which it is ("rev/s" is a turn).'
        raise DataError(f'{what} is in "{given}", which cannot be converted to "{wanted}".{hint}')
    factor = first.factor / second.factor
    return Conversion(factor, (first.offset - second.offset) / second.factor)


def rate_unit(unit: str, times: int = 1) -> str:
    """Return the unit of a rate.

    Examples are "rad" → "rad/s" and "" → "".
    """
    if not unit or not times:
        return unit
    return f"{unit}/s" if times == 1 else f"{unit}/s^{times}"


Dimension: TypeAlias = dict[str, Fraction]
"""Base units of SI with their powers; an angle is a pure number here."""


def dimension(unit: str) -> Dimension | None:
    """Return the dimension of a unit.

    It is like {"meter": 1, "second": -2}; None where no unit is stated, or none that is known.
    """
    unit = unit.strip()
    parsed = _parsed(unit) if unit not in ("1", "-") else ()
    if not unit or parsed is None:
        return None
    return {name: Fraction(power) for name, power in _base(parsed)[1].items() if name != "radian"}


def dimension_text(parts: Dimension) -> str:
    """Return {"meter": 1, "second": -2} as "m/s^2"."""
    return _text({name: float(power) for name, power in sorted(parts.items())}) if parts else "a pure number"
