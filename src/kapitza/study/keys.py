"""Describe the keys of a study file once.

Validation, the JSON schema and the commented example are made from them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kapitza.estimate import HarmonicFit, InvariantFit, OrbitFit, ShootingFit
from kapitza.planning import CRITERIA


@dataclass(frozen=True)
class Kind:
    """Describe which values a key may have.

    words: for messages; schema: JSON schema.
    coarse: schema that is tested where the entries are checked later, each with its own line.
    """

    words: str
    schema: Mapping[str, Any]
    coarse: Mapping[str, Any] | None = None

    def accepts(self, value: Any) -> bool:
        return _fits(value, self.schema if self.coarse is None else self.coarse)


JSON_TYPES = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict}


def _fits(value: Any, schema: Mapping[str, Any]) -> bool:
    """Return whether a value fits a schema.

    Only the words of JSON schema that this module uses are known.
    """
    if "anyOf" in schema:
        return any(_fits(value, one) for one in schema["anyOf"])
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    # true and false are whole numbers in Python.
    if not any(isinstance(value, JSON_TYPES[t]) and isinstance(value, bool) == (t == "boolean") for t in types):
        return False
    if isinstance(value, list):
        fits = schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value))
        return fits and ("items" not in schema or all(_fits(item, schema["items"]) for item in value))
    if isinstance(value, dict):
        others = schema.get("additionalProperties", True)
        properties = schema.get("properties", {}) if others is False else dict.fromkeys(value, others)
        return set(schema.get("required", ())) <= set(value) <= set(properties) and all(
            properties[key] is True or _fits(item, properties[key]) for key, item in value.items()
        )
    return True


def array(items: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": dict(items), **more}


def table(values: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": dict(values)}


def either(*schemas: Mapping[str, Any]) -> dict[str, Any]:
    return {"anyOf": [dict(one) for one in schemas]}


NUMBER_SCHEMA, TEXT_SCHEMA, TABLE_SCHEMA = {"type": "number"}, {"type": "string"}, {"type": "object"}
PAIR_SCHEMA = array(NUMBER_SCHEMA, minItems=2, maxItems=2)
PRIOR_SCHEMA = {
    "type": "object",
    "properties": {"mean": NUMBER_SCHEMA, "deviation": NUMBER_SCHEMA},
    "required": ["mean", "deviation"],
    "additionalProperties": False,
}
COLUMN_SCHEMA = {"type": ["string", "integer"]}
LINES_SCHEMA = either(TEXT_SCHEMA, array(TEXT_SCHEMA))

TEXT = Kind("text in quotes", TEXT_SCHEMA)
NUMBER = Kind("a number", NUMBER_SCHEMA)
WHOLE = Kind("a whole number", {"type": "integer"})
FLAG = Kind("true or false", {"type": "boolean"})
TEXTS = Kind('a list of names, ["a", "b"]', array(TEXT_SCHEMA))
LINES = Kind("text, or a list of text", LINES_SCHEMA)
COLUMN = Kind("the name of a column, or its position from 0", COLUMN_SCHEMA)
COLUMNS = Kind("a list of columns, or a table column = channel", either(array(COLUMN_SCHEMA), table(LINES_SCHEMA)))
NUMBERS = Kind("a table name = number", table(NUMBER_SCHEMA))
NOISE = Kind("a number, or a table channel = number", either(NUMBER_SCHEMA, table(NUMBER_SCHEMA)))
NAMED_TEXTS = Kind("a table name = text", table(TEXT_SCHEMA))
BOUNDS = Kind("a table name = [low, high]", table(PAIR_SCHEMA))
PRIORS = Kind("a table name = {mean = ..., deviation = ...}", table(PRIOR_SCHEMA))
SPANS = Kind("a list of spans [from, to]", array(PAIR_SCHEMA))
TABLE = Kind("a table", TABLE_SCHEMA)
SENSORS = Kind('a table channel = {unknown = "offset drift", ...}', table(TABLE_SCHEMA))
VARY = Kind(
    "a table name = [low, high], or name = {values = [...]}", table({"type": ["array", "object"]}), TABLE_SCHEMA
)
MEASURE = Kind("a list of channels, or a table channel = noise", either(array(TEXT_SCHEMA), table(NUMBER_SCHEMA)))
TABLES = Kind("a list of tables", array(TABLE_SCHEMA))


@dataclass(frozen=True)
class Key:
    """Describe one key.

    Its kind, what it means, and the values it may have where they are few.
    """

    kind: Kind
    meaning: str
    choices: tuple[str, ...] = ()


METHODS: dict[str, type] = {
    "shooting": ShootingFit,
    "harmonic": HarmonicFit,
    "orbits": OrbitFit,
    "invariant": InvariantFit,
}
"""Methods by the name they have in a study, with their settings."""

INLINE = {
    "equations": Key(LINES, "equations of motion, one per coordinate: \"x'' + c*x' + k*x = F*cos(omega*t)\""),
    "map": Key(NAMED_TEXTS, "a discrete map instead of equations: state = its new value"),
    "coordinates": Key(TABLE, "order, angle, unit and description of each coordinate"),
    "parameters": Key(TABLE, "value, or {value, unit, bounds, prior, expression}, of each parameter"),
    "excitation": Key(TABLE, 'period of the excitation: {period = "2*pi/omega"}'),
    "outputs": Key(NAMED_TEXTS, "what sensors measure, as expressions in the states"),
    "invariants": Key(NAMED_TEXTS, "what the motion conserves, as expressions in the states"),
    "impacts": Key(TABLES, "walls: surface and reset"),
    "symmetries": Key(TABLES, "symmetries of the equations"),
    "partition": Key(TABLE, "cells of the symbolic code"),
    "start": Key(NUMBERS, "a sensible initial state"),
    "description": Key(TEXT, "what the model is"),
    "source": Key(TEXT, "where it comes from"),
}
"""A model written into the study: the keys of a model file."""

MODEL = {
    "name": Key(TEXT, "name of the candidate in tables and figures"),
    "library": Key(TEXT, "a model of the library, see `kapitza models`"),
    "file": Key(TEXT, "a model file (.toml), relative to the study"),
    **INLINE,
    "laws": Key(TEXTS, 'further forces by name: ["coulomb x", "cubic x"]; their parameters: coulomb_x_c, cubic_x_k'),
    "values": Key(NUMBERS, "values to start from, and those that are held [units of the model]"),
    "free": Key(TEXTS, "parameters to find for this candidate; otherwise those of [fit]"),
}

DATA = {
    "file": Key(TEXT, "the recording, relative to the study; which kinds of files are read: docs/data.md"),
    "files": Key(TEXTS, "several recordings of the same layout, each a record of its own"),
    "time": Key(COLUMN, "time column; t, time, ... are found by themselves"),
    "interval": Key(NUMBER, "sampling interval [s] of a file without times"),
    "names": Key(TEXTS, "names of all columns of a text file that has none"),
    "channels": Key(COLUMNS, 'columns to use; a table renames them to states: {encoder1 = "phi"}'),
    "ignore": Key(TEXTS, "channels that were read, under their new names, and are not used"),
    "units": Key(
        NAMED_TEXTS,
        'units of columns where the file does not say them: {phi = "deg"}; sensitivities: {Laser = "4 mm/V"}',
    ),
    "angles": Key(TEXTS, "channels that live on a circle"),
    "measures": Key(
        NAMED_TEXTS,
        'what a channel measures, where it is not a state: {theta2 = "phi2 - phi1"}, {gap = "x - base"}',
    ),
    "sensors": Key(
        SENSORS,
        'errors of a sensor: {x = {unknown = "offset drift"}}, {a = {gain = [1.0, 0.02], delay = 0.001}}; also limits',
    ),
    "hold_back": Key(SPANS, "spans [s] that are not fitted but predicted: [[4.0, 6.0], [10.0, 12.0]]"),
    "drive": Key(TEXTS, "channels that drive the model, under their names in the equations"),
    "drive_degree": Key(
        WHOLE, "how the drive runs between samples: 0 held, 1 linear, 3 or 5 spline; by default as they show"
    ),
    "period": Key(NUMBER, "period of the excitation [s], where the model does not say it"),
    "phase": Key(NUMBER, "time of the first sample after the excitation's start [s]"),
    "phase_channel": Key(COLUMN, "a column whose rising edges mark the start of each excitation period"),
    "segment": Key(COLUMN, "column whose changes mark interruptions (trials)"),
    "gaps": Key(TEXT, "where samples are missing: one motion through it, or cut into pieces", ("keep", "split")),
    "missing": Key(TEXT, "rows with missing numbers", ("refuse", "drop")),
    "bad_samples": Key(TEXT, "spikes, dropouts, saturation: left out and named, or kept", ("leave out", "keep")),
    "group": Key(TEXT, "group, sheet or topic of a file that holds several with separate clocks"),
    "separator": Key(TEXT, "of a text file, when guessed wrongly"),
    "decimal": Key(TEXT, "of a text file, when guessed wrongly"),
    "noise": Key(NOISE, "standard deviation of the noise, where known, in SI units (rad, m, s)"),
    "from": Key(NUMBER, "use samples from this time on [s]"),
    "to": Key(NUMBER, "use samples before this time [s]"),
    "every": Key(WHOLE, "use every n-th sample"),
    "values": Key(NUMBERS, "parameters that this recording had of its own, such as its drive level"),
    "use": Key(TEXT, "fit it, or check the prediction on it", ("fit", "check")),
}

FIT = {
    "free": Key(TEXTS, "parameters to find"),
    "method": Key(LINES, "auto, or one or several of the methods, which are laid side by side", ("auto", *METHODS)),
    "hold_back": Key(NUMBER, "share of the end of each recording kept to check the prediction, 0 to 0.9"),
    "bounds": Key(BOUNDS, "limits of parameters"),
    "priors": Key(PRIORS, "knowledge of parameters before the data (Gaussian)"),
    "max_period": Key(WHOLE, "longest orbits sought, in excitation periods, with method orbits"),
    "exclude": Key(TEXTS, 'orbits that are not fitted with method orbits, by period and letter: ["3b"]'),
    **{name: Key(TABLE, f"settings of {kind.__name__}") for name, kind in METHODS.items()},
}

OUTPUT = {
    "folder": Key(TEXT, "results folder, relative to the study (default: its name with -results)"),
    "report": Key(FLAG, "write report.html"),
    "profiles": Key(FLAG, "profile likelihood of every parameter (refits it some ten times each)"),
    "level": Key(NUMBER, "of the intervals, 0.95 by default"),
}

PLAN = {
    "vary": Key(VARY, "what may be chosen: {F = [0.02, 0.5]} a range, {F = {values = [0.1, 0.2]}} options"),
    "limits": Key(NUMBERS, 'largest values: {"abs(x)" = 1.2, time = 300, "drift(x)" = 0.1}'),
    "measure": Key(MEASURE, "channels of the next run, with their noise where it is not that of the fit"),
    "want": Key(TEXTS, "parameters or expressions that should become narrow; by default all that are free"),
    "missing": Key(TEXTS, 'laws that the equations may lack: ["quadratic x"]; widths with them are shown beside'),
    "aim": Key(NUMBER, "relative standard error that is enough, such as 0.01"),
    "criterion": Key(TEXT, "what is minimised", CRITERIA),
    "duration": Key(NUMBER, "length of a run [s]; by default that of the first recording"),
    "step": Key(NUMBER, "time between samples [s]; by default that of the first recording"),
    "settle": Key(NUMBER, "time before the recording [s], at every level of a sweep"),
    "settings": Key(NUMBERS, "parameters held at these values in every run"),
    "start": Key(NUMBERS, "state at the start of every run; at rest by default"),
    "drives": Key(NAMED_TEXTS, "drives to choose from, label = file or formula of t, where the drive is measured"),
    "points": Key(WHOLE, "experiments that are tried, 128 by default"),
}

TOP = {
    "title": Key(TEXT, "heading of the report"),
    "seed": Key(WHOLE, "of everything random"),
    "model": Key(TABLE, "the equations; [[model]] several times for candidates"),
    "data": Key(TABLE, "the recording; [[data]] several times for several of them"),
    "fit": Key(TABLE, "what is to be found, and how"),
    "output": Key(TABLE, "where the results go"),
    "plan": Key(TABLE, "what the next experiment may be: the report ranks the choices"),
}

SECTIONS = {"model": MODEL, "data": DATA, "fit": FIT, "output": OUTPUT, "plan": PLAN}
REPEATED = ("model", "data")
"""Sections that may occur several times."""


def setting_names(method: str) -> tuple[str, ...]:
    """Return the settings that a file can give.

    They are plain values and tables of them, of one method.
    """
    code_only = {"throw", "then", "method", "outputs", "hold_back"} | (
        {"start_orbits"} if method == "orbits" else set[str]()
    )
    return tuple(f.name for f in dataclasses.fields(METHODS[method]) if f.name not in code_only)


def _key_schema(key: Key) -> dict[str, Any]:
    schema = {**key.kind.schema, "description": key.meaning}
    if key.choices and key.kind is TEXT:
        schema["enum"] = list(key.choices)
    return schema


def _section_schema(name: str) -> dict[str, Any]:
    properties = {key: _key_schema(described) for key, described in SECTIONS[name].items()}
    if name == "fit":
        known: dict[str, Any] = {"enum": list(FIT["method"].choices)}
        properties["method"] = {"anyOf": [known, array(known, minItems=1)], "description": FIT["method"].meaning}
        for method in METHODS:
            settings = {setting: {} for setting in setting_names(method)}
            properties[method] |= {"properties": settings, "additionalProperties": False}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of study files.

    Editors check with it while the user types.
    """
    properties: dict[str, Any] = {key: _key_schema(TOP[key]) for key in ("title", "seed")}
    for name in SECTIONS:
        one = _section_schema(name)
        several = {"anyOf": [one, array(one, minItems=1)]} if name in REPEATED else one
        properties[name] = {**several, "description": TOP[name].meaning}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Kapitza study",
        "description": "A recording, candidate models, and what to find.",
        "type": "object",
        "properties": properties,
        "required": ["model", "data"],
        "additionalProperties": False,
    }
