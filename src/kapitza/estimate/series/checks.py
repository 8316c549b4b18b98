"""Refusals before work starts: settings, noise and amounts of data that cannot give an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kapitza import gate
from kapitza.data import Record, is_number
from kapitza.errors import DataError, KapitzaError, ModelError, nearest_name
from kapitza.estimate.series.noise import SensorNoise
from kapitza.estimate.series.pieces import Samples
from kapitza.model import Model

if TYPE_CHECKING:
    from kapitza.estimate.series.fit import ShootingFit


def check_settings(method: ShootingFit) -> None:
    if method.spacing is not None:
        gate.whole("spacing, in samples,", method.spacing, least=1)
    gate.whole("window, in samples,", method.window, least=20)
    gate.whole("windows", method.windows, least=0)
    gate.whole("max_iterations", method.max_iterations, least=1)
    gate.number("softness", method.softness, above=0)
    gate.number("tolerance", method.tolerance, above=0)
    gate.number("max_gap, in median steps,", method.max_gap, low=1)
    gate.number("hold_back, a fraction of the record,", method.hold_back, low=0, high=np.nextafter(1.0, 0.0))
    for name in ("robust", "bridge", "throw"):
        gate.flag(name, getattr(method, name))
    wanted = {
        "outputs": (isinstance(method.outputs, Mapping), 'a mapping of channels, {"theta2": "phi2 - phi1"}'),
        "initial": (
            isinstance(method.initial, Mapping | list | tuple),
            "a mapping of states, or a list with one for each record",
        ),
        "process_noise": (
            isinstance(method.process_noise, bool) or _sizes_by_name(method.process_noise),
            "True, False, or the standard deviations of the kicks by state, none negative and one positive: "
            '{"phi\'": 0.1}',
        ),
    }
    for name, (good, rule) in wanted.items():
        if not good:
            raise KapitzaError(f"ShootingFit({name}={getattr(method, name)}): it must be {rule}.")


def _sizes_by_name(sizes: Any) -> bool:
    if not isinstance(sizes, Mapping) or not all(is_number(size) for size in sizes.values()):
        return False
    return min(sizes.values(), default=-1.0) >= 0 and max(sizes.values(), default=0.0) > 0


def check_initial(model: Model, initial: Mapping[str, float]) -> None:
    if not isinstance(initial, Mapping):
        raise ModelError(f"The initial state {initial} must be given by name: {{{model.states[0]!r}: 1.0, ...}}.")
    for name, value in initial.items():
        if name not in model.states:
            raise ModelError(
                f'initial names "{name}", not a state of {model.name}: {", ".join(model.states)}.'
                + nearest_name(name, model.states)
            )
        if not is_number(value):
            raise ModelError(f"The initial state {name} = {value} is not a finite number: leave it out if unknown.")


def check_signals(model: Model, record: Record) -> None:
    """An excitation that was recorded must be the one in the model: the motion is driven by the latter."""
    for signal in model.signals:
        if signal.name not in record.channels:
            continue
        stated, measured = signal(record.time - record.excitation_start), record[signal.name]
        gap = float(np.sqrt(((measured - stated) ** 2).mean()))
        noise = record.noise.get(signal.name, 0.0)
        if gap > 0.1 * max(float(stated.std()), float(measured.std())) + 2 * noise:
            raise DataError(
                f'The record\'s channel "{signal.name}" differs from the signal "{signal.name}" of the model by '
                f"{gap:.3g} (root mean square; the signal's spread is {stated.std():.3g}). ShootingFit drives the "
                f'motion by the signal of the model: build it from this record, kz.Signal("{signal.name}", times, '
                "values, period), check the phase, or leave the channel out of the record."
            )


def check_left(size: int, left: int) -> None:
    if left < 2:
        raise DataError(f"Only {left} of {size} samples are left to fit: hold back less, or record longer.")


def check_motion(samples: Samples, sensors: SensorNoise, channels: Sequence[str]) -> None:
    """Refuse sensors of unknown noise that read the same throughout: dead ones, or a system at rest."""
    dead, alive = [], []
    for s, c in enumerate(sensors.channel):
        readings = samples.values[samples.sensor[:, c] == s, c]
        still = readings.size > 0 and not np.ptp(readings)
        name = channels[c] if sensors.record.max() == 0 else f"{channels[c]} of record {sensors.record[s]}"
        (dead if still and not sensors.known[s] else alive).append((name, readings[:1]))
    if not alive:
        raise DataError(
            "No channel changes over the whole record: a motion at rest says nothing about its parameters. Check the "
            "sensors, or record a moving system."
        )
    if dead:
        name, first = dead[0]
        raise DataError(
            f"{name} reads {first[0]:.6g} throughout while {', '.join(other for other, _ in alive)} moves: a dead "
            "sensor would count as an exact one. Leave it out by record.select([...]), or give its noise if it "
            "really stands still."
        )


def check_unknowns(samples: Samples, states: int, free: int, known: int, noise_known: bool) -> None:
    """Readings (and prior knowledge) must at least be as many as the unknowns, the size of the noise among them."""
    unknowns, pieces = states * len(samples.pieces) + free, len(samples.pieces)
    if samples.readings + known == unknowns and not noise_known:
        raise DataError(
            f"{samples.readings} readings determine {unknowns} unknowns ({states} initial states for each of {pieces} "
            f"pieces and {free} parameters) and leave nothing to tell the noise by: give the noise, or record longer."
        )
    if samples.readings + known < unknowns:
        raise DataError(
            f"{samples.readings} readings cannot determine {unknowns} unknowns ({states} initial states for each of "
            f"{pieces} pieces and {free} parameters): record longer, free fewer parameters, or give priors."
        )
