"""Sensitivities of sensors, stated in place of a unit.

"4 mm/V", "100 mV/gravity" and "0.25 mm" say what one unit of a column is.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from kapitza.base.units import conversion, dimension, meant_by
from kapitza.errors import DataError

NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*\*?\s*(?=[^\d\s.^*/+-])(.+)")
"""A number before a unit; "1/s" and "1" are units."""

ELECTRIC = ("V", "A", "pC", "counts")
"""Units of what sensors and converters deliver."""

SIGNALS = {"ampere", "count"}
"""Base units in which electric kinds differ from mechanical ones."""


@dataclass(frozen=True)
class Sensitivity:
    """Unit of a column and the factor that brings its values to this unit."""

    unit: str
    factor: float
    sentence: str


def sensitivity(text: str, stated: str, column: str) -> Sensitivity | None:
    """Return the sensitivity that a text states.

    None where the text has no number before its unit. stated: unit in the file, "" without one. A quotient is read as
    quantity per signal, "4 mm/V", or signal per quantity, "100 mV/gravity": the signal is the part of the kind of the
    stated unit, or the electric part where none is stated. A number and unit without such a part replace the unit of
    the file.

    >>> sensitivity("4 mm/V", "mV", "Weg")
    Sensitivity(unit='mm', factor=0.004, sentence='1 V of "Weg" is 4 mm')
    >>> sensitivity("100 mV/gravity", "V", "Accel").factor
    10.0
    """
    found = NUMBER.fullmatch(text.strip())
    if found is None:
        return None
    number, unit = float(found[1]), found[2].strip()
    if number == 0 or not math.isfinite(number):
        raise DataError(f'Column "{column}": "{text}" is not a sensitivity; give what one unit of it is, "4 mm/V".')
    quotient = _parted(unit)
    if quotient is not None:
        upper, lower = (meant_by(column, part) or part for part in quotient)
        signal = dimension(stated)
        kinds = tuple(map(dimension, ELECTRIC)) if signal is None else (signal,)
        if dimension(lower) in kinds:
            factor = conversion(stated, lower).factor * number
            return Sensitivity(upper, factor, f'1 {lower} of "{column}" is {number:g} {upper}')
        if dimension(upper) in kinds:
            factor = conversion(stated, upper).factor / number
            return Sensitivity(lower, factor, f'1 {lower} is {number:g} {upper} of "{column}"')
        if SIGNALS & {*(dimension(unit) or SIGNALS)}:
            raise DataError(
                f'Column "{column}" is in "{stated}", to which the sensitivity "{text}" does not belong: give '
                f'"4 mm/{stated or "V"}", or signal per quantity, "100 mV/(m/s^2)".'
            )
    unit = meant_by(column, unit) or unit
    return Sensitivity(unit, number, f'1 of "{column}" is {number:g} {unit}')


def _parted(unit: str) -> tuple[str, str] | None:
    """Return the two sides of the last stroke outside of brackets.

    Brackets around a side are removed; None without such a stroke.
    """
    depths = [unit[: at + 1].count("(") - unit[: at + 1].count(")") for at in range(len(unit))]
    at = next((at for at in reversed(range(len(unit))) if unit[at] == "/" and depths[at] == 0), None)
    if at is None:
        return None
    first, second = (re.sub(r"^\(([^()]*)\)$", r"\1", side.strip()).strip() for side in (unit[:at], unit[at + 1 :]))
    return first, second
