"""Show and change one key per field.

The problems of the key are shown beside it.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from nicegui import background_tasks, ui
from nicegui.element import Element
from nicegui.elements.mixins.value_element import ValueElement

from kapitza.errors import KapitzaError
from kapitza.studio.document import Change, Place, shown
from kapitza.studio.session import Session, hear, window

PAUSE = 0.25
"""Seconds without a key press after which what was typed goes into the study."""

RECENT = 20.0
"""Seconds after its own edit during which a window reports that another has changed the same field."""

NOTHING = object()
"""Stands for a value that no field has written; None is that of a removed key."""


class Refused(ValueError):
    """Report text that the study cannot hold.

    The message says why.
    """


def bind(
    element: ValueElement,
    session: Session,
    place: Place,
    to_study: Callable[[Any], Any] = lambda value: value,
    from_study: Callable[[Any], Any] = lambda value: value,
    problems: Sequence[Place] | None = None,
    quiet: bool = False,
) -> None:
    """Bind an element to a key of the study.

    Typed values go into the study after a pause; other changes are shown in the element.
    problems: places whose problems stand at this field, by default its own; quiet: only the frame shows that there is
    one, the pane lists them itself.
    """
    own, places = window(), (place,) if problems is None else tuple(problems)
    state: dict[str, Any] = {
        "task": None,
        "setting": False,
        "written": NOTHING,
        "edited": -math.inf,
        "refused": "",
        "shown": "",
        "known": session.document.get(*place),
    }

    def show_problems() -> None:
        found = [p for p in session.problems if any(p.place[: len(one)] == one for one in places)]
        messages = [p.message.removeprefix(f"{shown(p.place)}: ") for p in found]
        if state["refused"]:
            messages = [state["refused"]]
        text = " ".join(dict.fromkeys(messages))
        if state["shown"] != text:
            state["shown"] = text
            element.props["error"] = bool(text)
            element.props["error-message"] = text if state["refused"] or not quiet else " "
            element.update()

    def commit() -> None:
        state["task"], state["refused"] = None, ""
        try:
            value = to_study(element.value)
            if value != session.document.get(*place):
                # Known before the change is announced.
                state["written"] = value
                session.set(place, value, own)
        except (Refused, KapitzaError, OSError) as problem:
            state["refused"] = str(problem)
        state["known"] = session.document.get(*place)
        show_problems()

    async def wait() -> None:
        await asyncio.sleep(PAUSE)
        commit()

    def typed() -> None:
        if state["setting"]:
            return
        state["edited"] = time.monotonic()
        if state["task"] is not None:
            state["task"].cancel()
        state["task"] = background_tasks.create(wait(), name=f"field {shown(place)}")

    def changed(change: Change) -> None:
        # What is being typed is not overwritten: it goes into the study after its pause, and the later one wins.
        if not change.touches(*place) or state["task"] is not None:
            return
        now = session.document.get(*place)
        # What this field has written itself would come back in another spelling, under the cursor.
        if change.by == own and now == state["written"]:
            return
        # An undo and a redo bring the written value back: it has to be shown then.
        state["written"] = NOTHING
        value = from_study(now)
        if value == element.value:
            return
        if keeps_entry(state["refused"], now, state["known"]):
            # Somebody changed something else: an entry that was refused stays, with its message, until it is mended.
            return
        state["known"] = now
        state["setting"] = True
        element.value = value
        state["setting"], state["refused"] = False, ""
        if change.by != own and time.monotonic() - state["edited"] < RECENT:
            where = "in another window" if change.by else "in the file"
            ui.notify(f"{shown(place)} was changed {where}: {value}", position="bottom-right")

    element.on_value_change(typed)
    hear(session.changed, changed)
    hear(session.checked, show_problems)
    show_problems()


def keeps_entry(refused: str, now: Any, known: Any) -> bool:
    """Return whether a field keeps what was typed into it and refused: its key has the value that it had then."""
    return bool(refused) and now == known


FOCUS = """setTimeout(() => {
  const now = document.activeElement, element = getHtmlElement(%d);
  if (element && (!now || now === document.body || now.offsetParent === null || now.disabled))
    element.focus({preventScroll: true});
}, 60)"""


def keep_focus(element: Element) -> None:
    """Give an element the focus where what had it is gone, so that a keyboard goes on from there."""
    # The page is told of what is hidden or rebuilt before this runs.
    element.client.run_javascript(FOCUS % element.id)


def number_or_none(text: Any) -> float | None:
    """Return the number in a text.

    It is None for an empty one.
    """
    written = str(text if text is not None else "").strip().replace(",", ".")
    if not written:
        return None
    try:
        value = float(written)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise Refused(f'"{written}" is not a number: write 0.5, 1e-3 or inf.')
    return value


def whole_or_none(text: Any) -> int | None:
    """Return the whole number in a text.

    It is None for an empty one; 5.0 would not be a whole number in the study.
    """
    value = number_or_none(text)
    if value is not None and (not math.isfinite(value) or value != int(value)):
        raise Refused(f"{value:g} is not a whole number.")
    return None if value is None else int(value)


def as_text(value: Any) -> str:
    """Return a study's value as a field shows it."""
    if value is None:
        return ""
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def text_field(session: Session, place: Place, label: str, **props: Any) -> ui.input:
    """Add a field for a text."""
    field = plain_input(label, as_text(session.document.get(*place)), **props)
    bind(field, session, place, lambda value: (value or "").strip() or None, as_text)
    return field


def number_field(session: Session, place: Place, label: str, whole: bool = False, **props: Any) -> ui.input:
    """Add a field for a number.

    An empty one removes the key; whole: 1, 2, 3 ...
    """
    field = plain_input(label, as_text(session.document.get(*place)), **props)
    bind(field, session, place, whole_or_none if whole else number_or_none, as_text)
    return field


def choice_field(session: Session, place: Place, label: str, options: Any, default: Any) -> ui.select:
    """Add a menu for a key with few values.

    The default is not written.
    """
    given = session.document.get(*place, default=default)
    field = ui.select(options, value=given if given in options else default, label=label).props("dense outlined")
    bind(
        field, session, place, lambda value: None if value == default else value,
        lambda value: default if value is None or value not in options else value,
    )  # fmt: skip
    return field


def plain_input(label: str, value: str, **props: Any) -> ui.input:
    """Add an input in the page's style.

    Further names are properties of it.
    """
    field = ui.input(label=label or None, value=value).props("dense outlined")
    for name, one in props.items():
        field.props[name.replace("_", "-")] = one
    # The room below, where messages stand, is taken only when there is one.
    field.props["hide-bottom-space"] = True
    return field
