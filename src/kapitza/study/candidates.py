"""Build the candidate models of a study.

They come from the library, from a file, or are written into the study.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kapitza.base.units import require_unit
from kapitza.errors import DataError, KapitzaError, ModelError, nearest_name
from kapitza.estimate import combinations_of
from kapitza.library import model_named
from kapitza.model import CLOCK, Excitation, Model, Prior, Signal, model_from_dict, read_model, with_clock, with_laws
from kapitza.study.keys import INLINE
from kapitza.study.problems import Notebook
from kapitza.study.problems import Path as Place


@dataclass(frozen=True)
class Candidate:
    """Hold a candidate model and its free parameters."""

    name: str
    model: Model
    free: tuple[str, ...]
    place: Place = ()


def build_model(content: Mapping[str, Any], folder: Path, signals: Sequence[Signal], name: str) -> Model:
    """Return the model of one [model] table.

    It is driven by the signals that were measured.
    """
    if "library" in content:
        model = model_named(content["library"])
    elif "file" in content:
        model = read_model(folder / content["file"])
    else:
        inline = {key: content[key] for key in INLINE if key in content}
        if signals:
            measured = {s.name: _plain(s) for s in signals}
            inline["excitation"] = {**inline.get("excitation", {}), "signals": measured}
        model = model_from_dict({"name": name, **inline}, default_name=name)
    if signals and not ("library" not in content and "file" not in content):
        model = driven(model, signals)
    if "laws" in content:
        model = with_laws(model, content["laws"])
    return model.with_values(**content.get("values", {}))


def _plain(signal: Signal) -> dict[str, Any]:
    return {
        "times": signal.times.tolist(),
        "values": signal.values.tolist(),
        "degree": signal.degree,
        **({} if signal.period is None else {"period": signal.period}),
    }


def driven(model: Model, signals: Sequence[Signal]) -> Model:
    """Return the model under other measured drives.

    The drives have the same names.
    """
    own = {s.name for s in model.signals}
    for signal in signals:
        if signal.name not in own:
            known = f"its drives are {', '.join(sorted(own))}" if own else "it has no measured drive"
            raise ModelError(f'"{signal.name}" does not drive {model.name}: {known}.{nearest_name(signal.name, own)}')
    assert model.excitation is not None
    new = {s.name: s for s in signals}
    kept = tuple(new.get(s.name, s) for s in model.excitation.signals)
    law, found = model.excitation.period, Excitation.of_signals(kept)
    if law is not None and found.period is not None and not law.is_number:
        found = replace(found, period=law)
    return replace(model, excitation=found)


def check_candidates(
    tables: Sequence[Mapping[str, Any]],
    fit: Mapping[str, Any],
    folder: Path,
    signals: Sequence[Signal],
    notes: Notebook,
) -> list[Candidate]:
    """Return every candidate with bounds and priors.

    Where one cannot be built, the reason is noted.
    """
    made: list[Candidate] = []
    for number, content in enumerate(tables):
        place: Place = ("model", number)
        sources = [key for key in ("library", "file", "equations", "map") if key in content]
        if len(sources) != 1:
            given = ", ".join(sources) or "none"
            notes.add(place, f"give the model by one of library, file, equations or map; given: {given}.")
            continue
        name = content.get("name", _default_name(content, number))
        try:
            model = build_model(content, folder, signals, name)
        except KapitzaError as error:
            if isinstance(error, ModelError) and error.place and error.place[0] in content:
                notes.add((*place, *error.place), str(error), error.column)
                continue
            key = next(
                (
                    k
                    for k in ("values", "laws")
                    if any(f'"{v.strip().partition(" ")[0]}' in str(error) for v in content.get(k, ()))
                ),
                sources[0],
            )
            notes.add((*place, key), error)
            continue
        if name in {candidate.name for candidate in made}:
            notes.add((*place, "name"), f'two candidates are called "{name}": give each its own name.')
        _check_units(content, place, notes)
        model = _clocked(model, content, fit, place, notes)
        free = _free(content, fit, model, place, notes)
        model = _with_knowledge(model, fit, notes)
        _check_starts(model, content, fit, free, place, notes)
        made.append(Candidate(name, model, free, place))
    # A candidate that could not be built has parameters too.
    if len(made) == len(tables):
        _check_names(fit, made, notes)
    return made


def _check_units(content: Mapping[str, Any], place: Place, notes: Notebook) -> None:
    """Note units of parameters and coordinates that are unknown.

    No equation can be checked by them, and no result is shown in them.
    """
    for key, what in (("parameters", "Parameter"), ("coordinates", "Coordinate")):
        for name, table in content.get(key, {}).items():
            unit = table.get("unit", "") if isinstance(table, Mapping) else ""
            try:
                require_unit(unit, f'{what} "{name}"')
            except DataError as error:
                notes.add((*place, key, name, "unit"), error)


def _default_name(content: Mapping[str, Any], number: int) -> str:
    if "library" in content:
        return str(content["library"])
    return Path(content["file"]).stem if "file" in content else f"model {number + 1}"


def _free(
    content: Mapping[str, Any], fit: Mapping[str, Any], model: Model, place: Place, notes: Notebook
) -> tuple[str, ...]:
    where: Place = (*place, "free") if "free" in content else ("fit", "free")
    names = content.get("free", fit.get("free"))
    if not names:
        known = ", ".join(model.names)
        notes.add(where, f'name the parameters to find, free = ["..."]; {model.name} has {known}.')
        return ()
    for name in names:
        try:
            if name.isidentifier():
                model.check(name)
            else:
                combinations_of(model, [name])  # c/m and similar
        except KapitzaError as error:
            notes.add(where, error)
    if len(set(names)) < len(names):
        notes.add(where, f"a parameter is named twice: {', '.join(names)}.")
    held = {n for n in model.names if n not in names and not any(n in re.findall(r"\w+", text) for text in names)}
    unknown = [n for n in model.names if model.values[n] != model.values[n] and n in held]
    if unknown:
        notes.add(
            (*place, "values"),
            f"{', '.join(unknown)} has no value and is not free: values = {{{unknown[0]} = ...}}, or add it to free.",
        )
    return tuple(names)


def _clocked(model: Model, content: Mapping[str, Any], fit: Mapping[str, Any], place: Place, notes: Notebook) -> Model:
    """Return the model with its clock as parameter.

    Unchanged where the clock is not to be found.
    """
    if CLOCK not in content.get("free", fit.get("free", ())) or CLOCK in model.names:
        return model
    try:
        return with_clock(model)
    except KapitzaError as error:
        notes.add((*place, "free") if "free" in content else ("fit", "free"), error)
        return model


def _with_knowledge(model: Model, fit: Mapping[str, Any], notes: Notebook) -> Model:
    """Put bounds and priors of [fit] into parameters.

    Only the parameters that the model has get them.
    """
    parameters = []
    for parameter in model.parameters:
        changes: dict[str, Any] = {}
        try:
            if parameter.name in fit.get("bounds", {}):
                changes["bounds"] = tuple(float(v) for v in fit["bounds"][parameter.name])
            if parameter.name in fit.get("priors", {}):
                changes["prior"] = Prior(**fit["priors"][parameter.name])
            parameter = replace(parameter, **changes) if changes else parameter
        except KapitzaError as error:
            notes.add(("fit", "bounds" if "bounds" in str(error) else "priors", parameter.name), error)
        parameters.append(parameter)
    return replace(model, parameters=tuple(parameters))


def _check_starts(
    model: Model, content: Mapping[str, Any], fit: Mapping[str, Any], free: Sequence[str], place: Place, notes: Notebook
) -> None:
    """Note parameters that start outside their bounds.

    Bounds are those of [fit], of the parameter itself, or of the model; the last count for free parameters only.
    """
    for parameter in model.parameters:
        name, inline = parameter.name, content.get("parameters", {}).get(parameter.name)
        in_fit, in_table = name in fit.get("bounds", {}), isinstance(inline, Mapping) and "bounds" in inline
        low, high = parameter.bounds
        if not (in_fit or in_table or name in free) or math.isnan(parameter.value) or low <= parameter.value <= high:
            continue
        where: Place = (*place, "parameters", name, "value")
        if in_fit:
            where = ("fit", "bounds", name)
        elif name in content.get("values", {}):
            where = (*place, "values", name)
        elif inline is None:
            where = (*place, "values")
        notes.add(
            where,
            f"{name} starts at {parameter.value:g}, outside its bounds [{low:g}, {high:g}]: widen them, or give "
            "another value to start from.",
        )


def idle_parameters(model: Model, content: Mapping[str, Any], texts: Sequence[str] = ()) -> list[str]:
    """Return the parameters of a [model] table that stand in none of its equations.

    Nor in another text of the table, such as outputs and the period of the excitation. texts: further ones that may
    hold parameters, such as what a channel measures. Models of the library and of files have none.
    """
    words = {symbol.name for equation in model.equations for symbol in equation.free_symbols}
    spoken = {key: value for key, value in content.items() if key not in ("name", "description", "source", "free")}
    for text in (*_texts(spoken), *texts):
        words.update(re.findall(r"[^\W\d]\w*", text))
    return [name for name in content.get("parameters", {}) if name not in words]


def _texts(value: Any) -> list[str]:
    """Return all texts in a table or list, without the names of its keys and without units."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        value = [one for key, one in value.items() if key not in ("unit", "description")]
    inside = value if isinstance(value, Sequence) else ()
    return [text for one in inside for text in _texts(one)]


def check_idle(
    candidates: Sequence[Candidate], tables: Sequence[Mapping[str, Any]], texts: Sequence[str], notes: Notebook
) -> None:
    """Note parameters to find that stand in no equation of their candidate.

    No data could tell their value: the fit would fail after all the work. texts: what channels measure.
    """
    for candidate in candidates:
        for name in idle_parameters(candidate.model, tables[int(candidate.place[1])], texts):
            if name in candidate.free:
                notes.add(
                    (*candidate.place, "parameters", name),
                    f"{name} does not stand in the equations of {candidate.name}: leave it out of free, or write it "
                    "into an equation.",
                )


def _check_names(fit: Mapping[str, Any], made: Sequence[Candidate], notes: Notebook) -> None:
    """Note bounds and priors of unknown parameters.

    Each must belong to a parameter that some candidate has.
    """
    known = {name for candidate in made for name in candidate.model.names}
    for key in ("bounds", "priors"):
        for name in fit.get(key, {}) if made else ():
            if name not in known:
                notes.add(("fit", key, name), f'no candidate has a parameter "{name}".{nearest_name(name, known)}')
