"""Kinds of errors, and how iterations end.

Every message says what conflicts, with the numbers, and the usual cure.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, Self

from kapitza.base.cures import Cure, Message, marked


def printable(text: str) -> str:
    """Return the text without control characters.

    Control and direction characters are written out, so that the text cannot steer a terminal.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def shown(value: Any, most: int = 80) -> str:
    """Return a value as messages show it.

    It is its repr, cut, without line breaks or control characters.
    """
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
        """Return what to change, as data.

        Each `Cure` has the call, its settings and its form in a study.
        """
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
        """Return the error with a longer place.

        A head is put before its message, and these keys before its place.
        """
        return type(self)(f"{what}: {marked(self)}", place=(*place, *self.place), column=self.column)


class ParseError(ModelError):
    """The text of an equation was refused.

    The message points at the column.

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
    """An argument cannot be used.

    It has a wrong type, size or value, or there is one too many or too few.
    """


class DataError(KapitzaError, ValueError):
    """A record or a file cannot be used."""


class ModelArgumentError(ArgumentError, ModelError):
    """An argument that no model can use.

    No model can be made or changed with it.
    """


class DataArgumentError(ArgumentError, DataError):
    """An argument that no record can use.

    No record can be read, made or changed with it.
    """


class WriteError(KapitzaError, OSError):
    """A file could not be written.

    The old one, if there was one, is unchanged.
    """


class LockedError(WriteError):
    """Another process uses the same file or folder.

    The message names it. Nothing was changed.
    """


class TooLargeError(KapitzaError, MemoryError):
    """The work needs more memory than there is."""


class FlowError(KapitzaError, RuntimeError):
    """A trajectory could not be computed.

    The requested tolerance was not reached.
    """


class EventError(FlowError):
    """An event contradicts the model.

    A switch or an impact was left in such a state.
    """


class ConvergenceError(KapitzaError, RuntimeError):
    """An iteration ended without an answer.

    `.result` holds what it had.
    """

    def __init__(self, message: str, result: object = None):
        super().__init__(message)
        self.result = result


class IdentifiabilityError(KapitzaError, ValueError):
    """The data cannot distinguish the free parameters."""


class RigError(KapitzaError, RuntimeError):
    """An experiment failed or refused a request.

    It is left in its safe state.
    """


class RigArgumentError(ArgumentError, RigError):
    """An argument that no rig can use.

    No rig can be made, set or measured with it. Nothing was sent.
    """


class RigLimitError(RigError, ValueError):
    """A demand exceeds the limits of a rig.

    A demand or parameter is outside the declared limits; it was not sent.
    """


class RigLostError(RigError):
    """A rig no longer answers.

    It is in another process or on another machine.
    """


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
    """Return a hint like ' Did you mean "omega"?'.

    '' when no known name is near.
    """
    match = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f' Did you mean "{match[0]}"?' if match else ""


def no_such(who: str, kind: str, name: str, known: Iterable[str]) -> str:
    """Return the sentence that refuses an unknown name.

    It says which names there are, and which name is near.
    """
    known = list(known)
    return f'{who} has no {kind} "{name}".{nearest_name(name, known)} It has {", ".join(known)}.'


def refuse_unknown(who: str, given: Iterable[str], known: Iterable[str], kind: str = "argument") -> None:
    """Refuse names that are not among the known ones."""
    known = list(known)
    for name in given:
        if name not in known:
            raise DataArgumentError(no_such(who, kind, name, known))
