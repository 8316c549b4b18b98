"""Accepted points in the journal of a rig.

The continuation can be resumed from them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kapitza.errors import RigError
from kapitza.rig.branch import RigPoint
from kapitza.rig.experiment import RigFamily
from kapitza.rig.fourier import FourierSeries
from kapitza.rig.journal import Journal
from kapitza.rig.measure import Measurement


def note_point(journal: Journal, point: RigPoint) -> None:
    found = point.measurement
    journal.add(
        "point",
        {
            "value": point.value,
            "z": point.z,
            "jacobian": point.jacobian,
            "residual": point.residual,
            "effort": point.effort,
            "beyond": point.beyond,
            "modes": point.modes,
            "measurements": point.measurements,
            "arclength": point.arclength,
            "sign": point.sign,
            "spread": point.spread,
            "correction": point.correction,
            "across": point.across,
            "deviation": point.deviation if np.isfinite(point.deviation) else None,
            "channels": list(point.channels),
            "measurement": {
                "frequency": found.frequency,
                "modes": found.modes,
                "outputs": list(found.outputs),
                "coefficients": found.coefficients,
                "deviations": found.deviations,
                "waited": found.waited,
                "averaged": found.averaged,
                "settled": found.settled,
                "control": found.control,
                "effort": found.effort,
                "beyond": found.beyond,
                "saturated": found.saturated,
                "lost": found.lost,
                "samples": found.samples,
                "contraction": found.contraction if np.isfinite(found.contraction) else None,
                "demands": {n: s.coefficients for n, s in found.demands.items()},
                "parameters": dict(found.parameters),
            },
        },
    )


def note_walk(family: RigFamily) -> None:
    """Note the beginning of a new continuation.

    The entry names the experiment. Points after it belong to the continuation.
    """
    family.experiment.journal.add("walk", _made_on(family))


def _made_on(family: RigFamily) -> dict[str, Any]:
    experiment = family.experiment
    return {
        "parameter": family.parameter,
        "inputs": [i.name for i in experiment.inputs],
        "outputs": list(experiment.rig.outputs),
        "repeats": experiment.repeats,
        "sample_time": experiment.rig.sample_time,
        "values": {n: v for n, v in experiment.values.items() if n != family.parameter},
    }


def resumed_points(family: RigFamily) -> list[RigPoint]:
    """Return the points of the last continuation.

    The last one on record, which must have been made on an experiment like this one.
    The experiment takes over their number of modes.
    """
    journal = family.experiment.journal
    begun = [i for i, entry in enumerate(journal.entries) if entry.get("kind") == "walk"]
    if begun:
        _check_like(journal.entries[begun[-1]], _made_on(family))
    entries = journal.entries[begun[-1] :] if begun else journal.entries
    points = [_revived(entry) for entry in entries if entry.get("kind") == "point"]
    if points:
        family.experiment.modes = points[-1].modes
    return points


def _check_like(recorded: dict[str, Any], now: dict[str, Any]) -> None:
    before, here = dict(recorded["values"]), dict(now["values"])
    pairs = [(name, recorded[name], now[name]) for name in now if name != "values"]
    pairs += [(name, before.get(name), here.get(name)) for name in sorted({*before, *here})]
    for name, old, new in pairs:
        numbers = isinstance(old, (int, float)) and isinstance(new, (int, float))
        if old != new and not (numbers and np.isclose(old, new, rtol=1e-9, atol=0.0)):
            raise RigError(
                f"The record was made with {name} = {old}, the experiment has {name} = {new}: it can only be "
                "continued as it began. Set it back, or begin a new record."
            )


def _revived(entry: dict[str, Any]) -> RigPoint:
    known = entry["measurement"]
    frequency = float(known["frequency"])
    measurement = Measurement(
        frequency=frequency,
        modes=int(known["modes"]),
        outputs=tuple(known["outputs"]),
        coefficients=np.array(known["coefficients"], float),
        deviations=np.array(known["deviations"], float),
        waited=int(known["waited"]),
        averaged=int(known["averaged"]),
        settled=bool(known["settled"]),
        control=np.array(known["control"], float),
        effort=np.array(known["effort"], float),
        beyond=np.array(known["beyond"], float),
        saturated=float(known["saturated"]),
        lost=float(known["lost"]),
        samples=int(known["samples"]),
        contraction=float("nan") if known["contraction"] is None else float(known["contraction"]),
        demands={n: FourierSeries(frequency, np.array(c, float)) for n, c in known["demands"].items()},
        parameters={n: float(v) for n, v in known["parameters"].items()},
    )
    return RigPoint(
        value=float(entry["value"]),
        z=np.array(entry["z"], float),
        jacobian=np.array(entry["jacobian"], float),
        measurement=measurement,
        residual=float(entry["residual"]),
        effort=float(entry["effort"]),
        beyond=float(entry["beyond"]),
        modes=int(entry["modes"]),
        measurements=int(entry["measurements"]),
        arclength=float(entry["arclength"]),
        sign=int(entry["sign"]),
        spread=None if entry["spread"] is None else np.array(entry["spread"], float),
        correction=None if entry.get("correction") is None else np.array(entry["correction"], float),
        across=None if entry.get("across") is None else np.array(entry["across"], float),
        channels=tuple(entry["channels"]),
        deviation=float("nan") if entry.get("deviation") is None else float(entry["deviation"]),
    )
