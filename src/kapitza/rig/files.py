"""Rig files in TOML, read as data.

A file describes a simulated rig.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kapitza.base import checks
from kapitza.errors import KapitzaError, RigError, nearest_name
from kapitza.library import model_named
from kapitza.model import Model, model_from_dict, read_model
from kapitza.rig.parts import Actuator, Driven, Feedback, PureDelay, SecondOrder, Sensors
from kapitza.rig.simulated import SimulatedRig

LARGEST_FILE = 5_000_000

RIG_KEYS = ("sample_time", "ramp", "adjustable", "seed", "lost", "outputs", "driven", "feedback", "sensors", "rest")
DRIVEN_KEYS = ("delay", "frequency", "mass", "force", "limit", "rate_limit")
FEEDBACK_KEYS = ("gains", "delay", "velocity", "saturation", "limit", "rate_limit")
SENSOR_KEYS = ("noise", "quantum", "drift")


def read_rig(path: str | os.PathLike[str], seed: int | None = None) -> SimulatedRig:
    """Read a simulated rig from a TOML file.

    Paths in it are relative to the file. seed: in place of the file's.

    The table `[model]` gives the equations as in a study: `library = "duffing"`, `file = "cart.toml"`, or equations
    written out; `values` changes parameters. The table `[rig]` lists what is driven, controlled and measured:

        [model]
        library = "pendulum_on_spring"

        [rig]
        sample_time = 1e-3                 # s; ramp [s], adjustable (parameters), seed, lost (share of samples)

        [rig.driven.y]                     # an actuator moves y: delay [s]; with frequency [rad/s] a second-order one,
        delay = 0.01                       # mass [kg] and force (the output that loads it); limit, rate_limit

        [rig.feedback.theta]               # a sampled controller: gains, delay, velocity, saturation, limit, rate_limit
        gains = [4.0, 4.0]

        [rig.outputs]                      # further outputs
        F = "-m*y'' - m*l*(theta''*sin(theta) + theta'**2*cos(theta))"

        [rig.sensors.theta]                # noise, quantum, drift
        noise = 0.005

    Raises
    ------
    RigError
        naming the file, the key and what it may be.
    """
    place = checks.path("A rig file", path, error=RigError)
    content = checks.toml("rig file", place, LARGEST_FILE, error=RigError)
    try:
        tables = _table(content, "The file", ("model", "rig"))
        model = _model(tables.get("model"), place)
        return _built(model, _table(tables.get("rig", {}), "[rig]", RIG_KEYS), seed)
    except KapitzaError as problem:
        raise RigError(f'In "{checks.printable(place.name)}": {problem}') from None


def _table(value: Any, place: str, known: Sequence[str]) -> dict[str, Any]:
    found = checks.table(place, value, error=RigError)
    for key in found:
        if key not in known:
            raise RigError(
                f'{place} has an unknown key "{checks.printable(key)}".{nearest_name(key, known)} '
                f"Known: {', '.join(known)}."
            )
    return found


def _model(value: Any, path: Path) -> Model:
    if value is None:
        raise RigError('there is no table [model]: give library = "duffing", file = "cart.toml", or equations.')
    content = checks.table("[model]", value, error=RigError)
    values = checks.table("[model] values", content.pop("values", {}), error=RigError)
    sources = [key for key in ("library", "file", "equations") if key in content]
    if len(sources) != 1:
        raise RigError(f"[model]: give one of library, file or equations; given: {', '.join(sources) or 'none'}.")
    if sources == ["equations"]:
        model = model_from_dict(content, default_name=path.stem)
    else:
        _table(content, "[model]", (*sources, "values"))
        given = checks.text(f"[model] {sources[0]}", content[sources[0]], error=RigError)
        model = model_named(given) if sources == ["library"] else read_model(path.parent / given)
    return model.with_values(**{n: checks.number(f"[model] values {n}", v, error=RigError) for n, v in values.items()})


def _built(model: Model, rig: Mapping[str, Any], seed: int | None) -> SimulatedRig:
    driven = _entries(rig, "driven", DRIVEN_KEYS)
    feedback = _entries(rig, "feedback", FEEDBACK_KEYS)
    if not driven and not feedback:
        raise RigError("[rig] drives and controls nothing: give [rig.feedback.x] or [rig.driven.x] for a coordinate x.")
    readings = checks.table("[rig] outputs", rig.get("outputs", {}), error=RigError)
    rest = checks.table("[rig] rest", rig.get("rest", {}), error=RigError)
    number = seed if seed is not None else checks.seed(rig.get("seed", 0), error=RigError)
    return SimulatedRig(
        model,
        driven=[_driven(name, entry) for name, entry in driven.items()],
        feedback=[_feedback(name, entry) for name, entry in feedback.items()],
        outputs={n: checks.text(f"[rig] outputs {n}", e, error=RigError) for n, e in readings.items()},
        adjustable=checks.texts("[rig] adjustable", rig.get("adjustable", []), error=RigError),
        sample_time=_number(rig, "[rig]", "sample_time", 1e-3, above=0.0),
        sensors=_sensors(rig),
        ramp=_number(rig, "[rig]", "ramp", 0.05, low=0.0),
        rest={n: checks.number(f"[rig] rest {n}", v, error=RigError) for n, v in rest.items()},
        seed=number or 0,
    )


def _entries(rig: Mapping[str, Any], kind: str, known: Sequence[str]) -> dict[str, dict[str, Any]]:
    tables = checks.table(f"[rig] {kind}", rig.get(kind, {}), error=RigError)
    return {name: _table(entry, f"[rig.{kind}.{name}]", known) for name, entry in tables.items()}


def _number(
    table: Mapping[str, Any],
    place: str,
    key: str,
    default: float,
    low: float = -math.inf,
    above: float = -math.inf,
) -> float:
    if key not in table:
        return default
    return checks.number(f"{place} {key}", table[key], low=low, above=above, error=RigError)


def _driven(name: str, entry: Mapping[str, Any]) -> Driven:
    """Return the driven input of a table [rig.driven.NAME].

    With a frequency the actuator is of second order; otherwise it is a pure delay.
    """
    place = f"[rig.driven.{name}]"
    delay = _number(entry, place, "delay", 0.0, low=0.0)
    actuator: Actuator = PureDelay(delay)
    if "frequency" in entry:
        force = checks.text(f"{place} force", entry.get("force", ""), error=RigError)
        mass = _number(entry, place, "mass", math.inf, above=0.0)
        actuator = SecondOrder(_number(entry, place, "frequency", 0.0, above=0.0), mass, delay, force)
    elif "mass" in entry or "force" in entry:
        raise RigError(f"{place}: mass and force belong to an actuator with a frequency [rad/s]; give it.")
    return Driven(name, actuator, *_limits(entry, place))


def _feedback(name: str, entry: Mapping[str, Any]) -> Feedback:
    place = f"[rig.feedback.{name}]"
    gains = checks.array(f"{place} gains", entry.get("gains", [4.0, 4.0]), shape=(2,), finite=True, error=RigError)
    limit, rate_limit = _limits(entry, place)
    return Feedback(
        name,
        (float(gains[0]), float(gains[1])),
        _number(entry, place, "delay", 0.0, low=0.0),
        checks.choice(f"{place} velocity", entry.get("velocity", "sensor"), ("sensor", "differences"), error=RigError),
        _number(entry, place, "saturation", math.inf, above=0.0),
        limit,
        rate_limit,
    )


def _limits(entry: Mapping[str, Any], place: str) -> tuple[float, float]:
    return (
        _number(entry, place, "limit", math.inf, above=0.0),
        _number(entry, place, "rate_limit", math.inf, above=0.0),
    )


def _sensors(rig: Mapping[str, Any]) -> Sensors:
    entries = _entries(rig, "sensors", SENSOR_KEYS)
    noise, quantum, drift = (
        {n: _number(e, f"[rig.sensors.{n}]", key, 0.0, low=0.0) for n, e in entries.items() if key in e}
        for key in SENSOR_KEYS
    )
    return Sensors(noise, quantum, drift, _number(rig, "[rig]", "lost", 0.0, low=0.0))
