"""What can go wrong, by kind, and how iterations end.

Every message says what conflicts, with the numbers, and the usual cure.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, Self

from kapitza.base.cures import Cure, Message, marked


def printable(text: str) -> str:
    """The text with control and direction characters written out, so that it cannot steer a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def shown(value: Any, most: int = 80) -> str:
    """The value as a message may show it: its repr, cut, without line breaks or control characters."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**most:
        return f"a whole number of about {int(value.bit_length() * 0.30103) + 1} digits"
    if isinstance(value, (str, bytes, bytearray, list, tuple)) and len(value) > 1000:
        value = value[:1000]
    try:
        text = repr(value)
    except Exception:  # a foreign object may raise anything while it describes itself
        text = f"a {type(value).__name__}"
    return printable(text if len(text) <= most else f"{text[: most - 3]}...")


class KapitzaError(Exception):
    """Base of every error that Kapitza raises.

    Names in a message may come from files: it is made harmless.

    Examples
    --------
    >>> import kapitza as kz
    >>> try:
    ...     kz.library.duffing().with_values(friction=1.0)
    ... except kz.KapitzaError as error:
    ...     print(type(error).__name__)
    ModelError
    """

    def __init__(self, *args: object):
        super().__init__(*(Message(one) if isinstance(one, str) else one for one in args))

    def __str__(self) -> str:
        return "\n".join(printable(line) for line in super().__str__().split("\n"))

    @property
    def cures(self) -> tuple[Cure, ...]:
        """What to change, as data: each `Cure` has the call, its settings and its form in a study."""
        return tuple(cure for one in self.args if isinstance(one, Message) for cure in one.cures)


class ModelError(KapitzaError, ValueError):
    """The equations, parameters or excitation contradict each other.

    place: keys of the model file that lead to it, such as ("equations", 1); () where it concerns the whole.
    column: of the text at that place, counted from 1; 0 where it is not text or the column is not known.
    """

    def __init__(self, *words: object, place: Sequence[str | int] = (), column: int = 0):
        super().__init__(*words)
        self.place, self.column = tuple(place), column

    def within(self, what: str, *place: str | int) -> Self:
        """Return the same error with a head before its message, and with these keys before its place."""
        return type(self)(f"{what}: {marked(self)}", place=(*place, *self.place), column=self.column)


class ParseError(ModelError):
    """Text of an equation was refused; the message points at the column.

    Examples
    --------
    >>> import kapitza as kz
    >>> try:
    ...     kz.Model.from_equations("x'' + k x = 0", parameters={"k": 1.0})
    ... except kz.ModelError as error:
    ...     print(error.place, error.column)
    ('equations', 0) 9
    """


class ArgumentError(KapitzaError, ValueError, TypeError):
    """An argument that cannot be used: a wrong type, size or value, one too many or too few."""


class DataError(KapitzaError, ValueError):
    """A record or a file cannot be used as it is."""


class ModelArgumentError(ArgumentError, ModelError):
    """An argument that no model can be made or changed with."""


class DataArgumentError(ArgumentError, DataError):
    """An argument that no record can be read, made or changed with."""


class WriteError(KapitzaError, OSError):
    """A file could not be written; the old one, if there was one, is as it was."""


class LockedError(WriteError):
    """Another process works on the same file or folder; the message names it. Nothing was changed."""


class TooLargeError(KapitzaError, MemoryError):
    """The work needs more memory than there is."""


class FlowError(KapitzaError, RuntimeError):
    """A trajectory could not be computed to the tolerance asked for."""


class EventError(FlowError):
    """A switch or an impact was left in a state that contradicts the model."""


class ConvergenceError(KapitzaError, RuntimeError):
    """An iteration ended without an answer; `.result` holds what it had."""

    def __init__(self, message: str, result: object = None):
        super().__init__(message)
        self.result = result


class IdentifiabilityError(KapitzaError, ValueError):
    """The free parameters cannot be told apart by these data."""


class RigError(KapitzaError, RuntimeError):
    """An experiment cannot do what was asked, or has failed; it is left in its safe state."""


class RigArgumentError(ArgumentError, RigError):
    """An argument that no rig can be made, set or measured with. Nothing was sent."""


class RigLimitError(RigError, ValueError):
    """A demand or parameter lies outside the declared limits of a rig; it was not sent."""


class RigLostError(RigError):
    """A rig in another process or on another machine no longer answers."""


class Status(Enum):
    """How an iteration ended, as a sentence to show.

    Examples
    --------
    >>> import kapitza as kz
    >>> kz.Status.INTERRUPTED.value
    'stopped by the user; the result is what was there'
    >>> kz.Status.CONVERGED.ok
    True
    """

    CONVERGED = "converged"
    ITERATION_LIMIT = "the iteration limit was reached before the tolerance"
    STALLED = "the steps became too small to make progress"
    DIVERGED = "the iterates left the region where the equations make sense"
    FALSE_MINIMUM = "the iteration settled on a motion that does not follow the data"
    SINGULAR = "the Jacobian is singular to working precision"
    GRAZING = "the orbit touches a switching surface without crossing it"
    WRONG_PERIOD = "the iteration ended on an orbit of a shorter period"
    UNRESOLVED = "the discretisation is too coarse for this orbit"
    PROPAGATION_FAILED = "a trajectory could not be computed"
    INTERRUPTED = "stopped by the user; the result is what was there"

    @property
    def ok(self) -> bool:
        return self is Status.CONVERGED


def nearest_name(name: str, known: Iterable[str]) -> str:
    """A hint like ' Did you mean "omega"?', or '' when nothing is near."""
    match = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f' Did you mean "{match[0]}"?' if match else ""


def no_such(who: str, kind: str, name: str, known: Iterable[str]) -> str:
    """Return the sentence that refuses an unknown name: what there is, and which name is near."""
    known = list(known)
    return f'{who} has no {kind} "{name}".{nearest_name(name, known)} It has {", ".join(known)}.'


def refuse_unknown(who: str, given: Iterable[str], known: Iterable[str], kind: str = "argument") -> None:
    """Refuse names that are not among the known ones."""
    known = list(known)
    for name in given:
        if name not in known:
            raise DataArgumentError(no_such(who, kind, name, known))
