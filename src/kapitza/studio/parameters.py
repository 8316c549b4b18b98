"""Edit the parameters of a candidate.

Each has a unit, a start, bounds, a prior and a slider.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from nicegui import ui

from kapitza.errors import KapitzaError
from kapitza.model import Model
from kapitza.studio.candidates import free_place, names_to_find, value_place, without_parameter
from kapitza.studio.document import Place
from kapitza.studio.fields import Refused, as_text, bind, number_or_none, plain_input
from kapitza.studio.hints import in_page
from kapitza.studio.session import Session, hear, window
from kapitza.study import idle_parameters

STEPS = 400
"""Positions of a slider."""

TITLES = ("find", "", "start", "move it", "unit", "from", "to", "known: mean", "± deviation")


def bounds_of(session: Session, number: int, name: str, model: Model | None) -> tuple[float, float]:
    """Return the bounds of a parameter.

    They are those of [fit], of the parameter itself, or of the model.
    """
    found = session.document.get("fit", "bounds", name) or session.document.get(
        "model", number, "parameters", name, "bounds"
    )
    if isinstance(found, list) and len(found) == 2 and all(isinstance(v, int | float) for v in found):
        return float(found[0]), float(found[1])
    known = {p.name: p.bounds for p in model.parameters} if model is not None else {}
    low, high = known.get(name, (-math.inf, math.inf))
    return float(low), float(high)


def slider_range(value: float, low: float, high: float) -> tuple[float, float]:
    """Return the ends of a slider.

    They are finite bounds, else zero and twice the value.
    """
    reach = abs(value) or 1.0
    begin = low if math.isfinite(low) else min(value - reach, 0.0) if value <= 0 else 0.0
    end = high if math.isfinite(high) else max(value + reach, begin + reach)
    return (begin, end) if begin < end else (value - reach, value + reach)


def parameter_table(
    session: Session, number: int, model: Callable[[], Model | None], moved: Callable[[dict[str, float]], None]
) -> None:
    """Add a row per parameter.

    `moved` is called with the values of the sliders while they move.
    """
    with ui.column().classes("w-full gap-0 kz-scroll"):
        nothing = ui.label("Type an equation: its names become parameters.").classes("kz-note")
        grid = ui.grid().classes("kz-parameters items-center")
    with grid:
        for title in TITLES:
            ui.label(title).classes("kz-note")
    _problems(session, number)
    rows: dict[str, tuple[Any, list[Any]]] = {}
    sliders: dict[str, float] = {}

    def names() -> list[str]:
        found = model()
        written = list(session.document.get("model", number, "parameters") or {})
        return list(dict.fromkeys([*(found.names if found is not None else ()), *written]))

    def kind(name: str) -> Any:
        """Return where a parameter is written; a row is bound to these places."""
        inline = session.document.get("model", number, "parameters", name)
        return inline is not None, isinstance(inline, dict) and "bounds" in inline

    def refresh() -> None:
        # Rows stay with their parameter: a field that has the cursor outlives a new name in the equations.
        wanted = names()
        for name in [one for one in rows if one not in wanted or rows[one][0] != kind(one)]:
            for element in rows.pop(name)[1]:
                element.delete()
            sliders.pop(name, None)
        for name in wanted:
            if name not in rows:
                before = len(grid.default_slot.children)
                with grid:
                    _row(session, number, name, model, sliders, moved)
                rows[name] = kind(name), grid.default_slot.children[before:]
        place = len(TITLES)
        for name in wanted:
            for element in rows[name][1]:
                if grid.default_slot.children[place] is not element:
                    element.move(target_index=place)
                place += 1
        nothing.set_visibility(not wanted)
        grid.set_visibility(bool(wanted))

    hear(session.checked, refresh)
    refresh()


def _problems(session: Session, number: int) -> None:
    """List problems of the parameters as a whole."""
    listing = ui.column().classes("gap-0 w-full")

    def show() -> None:
        listing.clear()
        with listing:
            whole = (
                ("fit", "free"), ("fit", "priors"), ("fit", "bounds"), ("model", number, "free"),
                ("model", number, "parameters"),
            )  # fmt: skip
            for problem in session.problems:
                # Those of a value, a unit or bounds stand at their fields.
                if problem.place in whole or (problem.place[:3] == whole[-1] and len(problem.place) == 4):
                    ui.label(in_page(problem.message.partition(": ")[2] or problem.message)).classes("kz-problem")

    hear(session.checked, show)
    show()


def _row(
    session: Session, number: int, name: str, model: Callable[[], Model | None], sliders: dict[str, float],
    moved: Callable[[dict[str, float]], None],
) -> None:  # fmt: skip
    _free_box(session, number, name)
    _name(session, number, name, model)
    written_inline = session.document.get("model", number, "parameters", name) is not None
    place = ("model", number, "parameters" if written_inline else "values", name)
    found = model()
    own = found.values.get(name, math.nan) if found is not None else math.nan
    written = _start_of(session.document.get(*place))
    start = float(written) if isinstance(written, int | float) else float(own)
    field = plain_input("", as_text(written), placeholder="" if math.isnan(own) else f"{own:.6g}")
    field.props["aria-label"] = f"Start of {name}"

    def to_study(text: Any) -> Any:
        value, now = number_or_none(text), session.document.get(*place)
        if not isinstance(now, dict):
            return value
        rest = {key: one for key, one in now.items() if key != "value"}
        return rest if value is None else {"value": value, **rest}

    bind(
        field, session, place, to_study, lambda now: as_text(_start_of(now)),
        problems=[("model", number, "values", name), ("model", number, "parameters", name, "value")],
    )  # fmt: skip
    _slider(session, number, name, start, model, sliders, moved)
    _unit(session, number, name)
    for side, title in enumerate(("Lower bound", "Upper bound")):
        _bound(session, number, name, side, title, model)
    for key, title in (("mean", "Mean known before"), ("deviation", "Deviation known before")):
        _prior(session, name, key, title)


def _name(session: Session, number: int, name: str, model: Callable[[], Model | None]) -> None:
    """Show the name of a parameter, with a button that removes one that stands in no equation."""
    own = window()

    def remove() -> None:
        try:
            session.set_all(without_parameter(session.document.content, number, name), own)
        except (KapitzaError, OSError) as problem:
            ui.notify(str(problem), type="negative", multi_line=True)

    with ui.row().classes("gap-0 items-center no-wrap kz-title"):
        ui.label(name).classes("kz-mono")
        button = ui.button(icon="delete_outline", on_click=remove).props(
            f'flat dense round size=sm aria-label="Remove {name}"'
        )
        button.tooltip(f"{name} stands in no equation: remove it")

    def show() -> None:
        found, table = model(), session.document.get("model", number, default={})
        texts = [str(one) for data in session.document.tables("data") for one in (data.get("measures") or {}).values()]
        button.set_visibility(found is not None and name in idle_parameters(found, table, texts))

    hear(session.checked, show)
    show()


def _start_of(written: Any) -> Any:
    """Return the value of a parameter.

    It is written alone, or in a table beside unit and bounds.
    """
    return written.get("value") if isinstance(written, dict) else written


def _free_box(session: Session, number: int, name: str) -> None:
    own = window()

    def free() -> list[str]:
        return names_to_find(session.document.content, number)

    def turned(event: Any) -> None:
        now = free()
        if event.value == (name in now):
            return
        wanted = [*now, name] if event.value else [one for one in now if one != name]
        session.set(free_place(session.document.content, number), wanted, own)

    box = ui.checkbox(value=name in free(), on_change=turned).props(f'dense aria-label="Find {name}"')
    hear(session.changed, lambda: box.set_value(name in free()))


def _slider(
    session: Session, number: int, name: str, start: float, model: Callable[[], Model | None],
    sliders: dict[str, float], moved: Callable[[dict[str, float]], None],
) -> None:  # fmt: skip
    """Add the slider of a parameter.

    The motion follows while it moves; the study takes the value when it is released.
    """
    own = window()
    value = start if math.isfinite(start) else 0.0
    low, high = slider_range(value, *bounds_of(session, number, name, model()))
    slider = ui.slider(min=low, max=high, step=(high - low) / STEPS, value=value)
    slider.props["aria-label"] = f"Move {name}"
    slider.props["label"] = True
    slider.enabled = math.isfinite(start)

    sent: dict[str, float] = {}

    def during(event: Any) -> None:
        sliders[name] = float(event.args)
        moved(dict(sliders))

    def let_go(event: Any) -> None:
        sliders.pop(name, None)
        sent["value"] = float(f"{float(event.args):.5g}")
        session.set(value_place(session.document.content, number, name), sent["value"], own)

    slider.on("update:model-value", during, throttle=0.05)
    slider.on("change", let_go)

    def changed() -> None:
        now = session.document.get(*value_place(session.document.content, number, name))
        if not isinstance(now, int | float) or not math.isfinite(now) or name in sliders:
            return
        # Its own value, sent back, would pull the slider away from where it has been moved meanwhile.
        if now == sent.pop("value", None):
            return
        begin, end = slider.props["min"], slider.props["max"]
        if not begin <= now <= end:
            begin, end = slider_range(float(now), *bounds_of(session, number, name, model()))
            slider.props["min"], slider.props["max"] = begin, end
            slider.props["step"] = (end - begin) / STEPS
        slider.enabled = True
        slider.set_value(float(now))

    hear(session.changed, changed)


def _unit(session: Session, number: int, name: str) -> None:
    place = ("model", number, "parameters", name)
    inline = session.document.get(*place)
    field = plain_input("", inline.get("unit", "") if isinstance(inline, dict) else "")
    field.props["aria-label"] = f"Unit of {name}"
    field.enabled = inline is not None

    def to_study(text: Any) -> Any:
        now, unit = session.document.get(*place), str(text or "").strip()
        if isinstance(now, dict):
            kept = {k: v for k, v in now.items() if k != "unit"}
            return {**kept, "unit": unit} if unit else kept
        return {"value": now, "unit": unit} if unit else now

    bind(
        field, session, place, to_study, lambda now: now.get("unit", "") if isinstance(now, dict) else "",
        problems=[(*place, "unit")],
    )  # fmt: skip


def _bound(
    session: Session, number: int, name: str, side: int, title: str, model: Callable[[], Model | None]
) -> None:  # fmt: skip
    inline = session.document.get("model", number, "parameters", name, "bounds") is not None
    place: Place = ("model", number, "parameters", name, "bounds") if inline else ("fit", "bounds", name)

    def shown(found: Any) -> str:
        if not isinstance(found, list) or len(found) != 2 or not isinstance(found[side], int | float):
            found = bounds_of(session, number, name, model())
        return as_text(float(found[side])) if math.isfinite(found[side]) else ""

    def to_study(text: Any) -> Any:
        wanted = number_or_none(text)
        pair = list(bounds_of(session, number, name, model()))
        pair[side] = wanted if wanted is not None else (-math.inf, math.inf)[side]
        if not pair[0] < pair[1]:
            raise Refused(f"{pair[0]:g} to {pair[1]:g} holds nothing: give the smaller number first.")
        return pair if math.isfinite(pair[0]) or math.isfinite(pair[1]) else None

    field = plain_input("", shown(session.document.get(*place)), placeholder=("-∞", "∞")[side])
    field.props["aria-label"] = f"{title} of {name}"
    bind(field, session, place, to_study, shown)


def _prior(session: Session, name: str, key: str, title: str) -> None:
    place: Place = ("fit", "priors", name)

    def shown(found: Any) -> str:
        return as_text(found.get(key)) if isinstance(found, dict) else ""

    def to_study(text: Any) -> Any:
        now = dict(session.document.get(*place, default={}) or {})
        wanted = number_or_none(text)
        now.pop(key, None)
        if wanted is not None:
            if key == "deviation" and not wanted > 0:
                raise Refused(f"{wanted:g} is not a standard deviation: give a positive number.")
            now[key] = wanted
        return now or None

    field = plain_input("", shown(session.document.get(*place)))
    field.props["aria-label"] = f"{title} of {name}"
    bind(field, session, place, to_study, shown)
