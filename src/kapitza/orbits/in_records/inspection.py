"""Inspection of a record before a fit.

`inspect` describes the record and suggests the next step.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.base import checks
from kapitza.base.argument_checks import Anything
from kapitza.base.cures import FIND_ORBITS, IDENTIFY, RECORD, RESAMPLE, Fit, Give, Message, keep_cures, marked
from kapitza.base.display import Shown, drawn
from kapitza.base.monitor import Monitor, watch
from kapitza.data import Record, StoredRecord, drives_by_name, one_record, recognised_drives
from kapitza.errors import DataError, Status
from kapitza.orbits.in_records.character import Character
from kapitza.orbits.in_records.embedded import CutSettings, best_cut
from kapitza.orbits.in_records.exponent import section_exponent
from kapitza.orbits.in_records.from_record import samples_per_period
from kapitza.orbits.in_records.preparation import require_count, require_even, without_gaps
from kapitza.orbits.in_records.returns import return_histogram
from kapitza.orbits.in_records.section import Section
from kapitza.signal import (
    DelayCurve,
    DimensionCurve,
    Lyapunov,
    Spectrum,
    all_decay,
    bad_sample_warnings,
    close_modes,
    decay_modes,
    embed,
    embedding_dimension,
    forced_delay,
    half_cycles,
    largest_lyapunov,
    linear_modes,
    motion_end,
    mutual_information,
    noise_level,
    on_circles,
    possible_step_notes,
    power_spectrum,
    without_bad_samples,
)


@dataclass(frozen=True)
class Inspection(Shown):
    """Findings about a record.

    Parts that the record is too short for are None, with the reason in `notes`.
    sampling: a sentence; strobed: once per excitation period; character: periodic, chaotic, noise; suggestion: what to
    do next. noise: standard deviation per channel; spectra, delays: per channel; delay [samples], dimension: of an
    embedding; returns: (steps, counts) of close returns on the section; lyapunov: largest exponent [1/s].
    status: INTERRUPTED when it was stopped; parts that had not begun are empty or None.

    Examples
    --------
    >>> import kapitza as kz
    >>> found = kz.inspect(kz.simulate(kz.library.parametric_pendulum(), periods=1500))
    >>> bool(found.lyapunov.low > 0)
    True
    """

    record: Record
    sampling: str
    strobed: bool
    noise: dict[str, float]
    spectra: dict[str, Spectrum]
    delays: dict[str, DelayCurve]
    delay: int | None
    dimension: DimensionCurve | None
    returns: tuple[NDArray[np.intp], NDArray[np.intp]] | None
    lyapunov: Lyapunov | None
    character: Character | None
    suggestion: str
    notes: tuple[str, ...] = ()
    status: Status = Status.CONVERGED

    def __post_init__(self) -> None:
        keep_cures(self, "suggestion", "notes")

    def __str__(self) -> str:
        lines = [repr(self.record), f"Sampling: {self.sampling}"]
        for name, level in self.noise.items():
            angle = bool(self.record.content.channels[name].attrs.get("angle", False))
            spread = 2 * np.pi if angle else float(np.ptp(self.record[name])) or 1.0
            share = f"{100 * level / spread:.2g} % of {'a turn' if angle else 'its range'}"
            lines.append(f"Noise of {name}: {level:.3g} {self.record.units[name]} ({share})")
        for name, spectrum in self.spectra.items():
            if spectrum.peaks.size:
                lines.append(f"Peaks of {name}: " + ", ".join(f"{f:.4g} Hz" for f in spectrum.peaks))
        if self.delay is not None:
            lines.append(f"Delay: {self.delay} samples")
        if self.dimension is not None:
            lines.append(
                f"Dimension: {self.dimension.by_false_neighbours} by false neighbours, {self.dimension.by_cao} by Cao"
            )
        if self.lyapunov is not None:
            lines.append(f"Largest Lyapunov exponent: {self.lyapunov}")
        if self.returns is not None and np.any(self.returns[1]):
            shown = ", ".join(f"{p}: {c}" for p, c in zip(*self.returns, strict=True))
            lines.append(f"Close returns after steps: {shown}")
        if self.character is not None and self.character.sentence:
            lines.append(self.character.sentence)
        lines += map(marked, self.notes)
        return Message("\n".join([*lines, f"Next: {marked(self.suggestion)}"]))

    def plot(self, path: str | Path | None = None) -> Any:
        """Plot the findings; save when given a path."""
        from kapitza.report import plot_inspection

        return drawn(plot_inspection(self), path)


def inspect(
    record: Anything,
    channels: Sequence[str] | None = None,
    max_period: int = 8,
    monitor: Monitor | None = None,
) -> Inspection:
    """Describe a record and suggest the next step.

    It reports sampling, noise, spectra, delay, dimension, returns, and the largest Lyapunov exponent.

    Parameters
    ----------
    record : Record or StoredRecord
        What was measured; of a recording on disk the first part is looked at in full, its segments and ranges over all.
    channels : list of str, optional
        Those to look at; all by default.
    max_period : int
        Longest return, in excitation periods, that is counted.
    monitor : Monitor, optional
        Shown the progress; stopped, the finished parts come back.

    Returns
    -------
    Inspection
        The findings; `print` shows them as text.

    Examples
    --------
    >>> import kapitza as kz
    >>> found = kz.inspect(kz.simulate(kz.library.parametric_pendulum(), periods=1500))
    >>> found.character.kind
    'deterministic'
    """
    require_count("max_period", max_period, 1)
    record = one_record(record, "inspect", Record, StoredRecord)
    if isinstance(record, StoredRecord):
        from kapitza.orbits.in_records.stored_orbits import inspect_stored

        return inspect_stored(record, channels, max_period, monitor)
    channels = None if channels is None else checks.texts("channels", channels, error=DataError)
    names, notes = _living_channels(record, channels)
    sampling = record.sampling()
    if "rounded" in record.content.attrs:
        stamp = record.content.attrs["rounded"]
        notes.append(f"The time stamps were rounded to {stamp:g} s; the clock behind them is even, and was taken.")
    try:
        record, cut = without_gaps(record)
        require_even(record)
    except DataError as problem:
        return Inspection(
            record, str(sampling), False, {}, {}, {}, None, None, None, None, None,
            f"bring it onto a regular grid, {RESAMPLE}, and inspect again.", (str(problem),),
        )  # fmt: skip
    notes += [cut] if cut else []
    record = without_bad_samples(record)
    notes += bad_sample_warnings(record.select(names))
    notes += possible_step_notes(record.select(names))
    chosen = record.select(names)
    strobed = record.period is not None and samples_per_period(record) < 1.5
    interval = float(sampling.interval)
    segments = record.segments()
    section, noise, spectra, delays, delay, dimension, returns, lyapunov = None, {}, {}, {}, None, None, None, None
    character = None
    continuous = chosen.unwrapped()
    decays = [] if strobed else _decays(continuous, names)
    drives = _drives(record, bool(decays))
    with watch(monitor, "inspecting the record", 6) as task:
        settings = CutSettings(max_period=max_period, paths=False)
        cut = None if drives else _attempt(notes, "Section", lambda: best_cut(record, names, settings))
        section = None if cut is None else cut.section
        notes += [cut.note] if cut is not None and cut.note else []
        noise = _noise(chosen, section, strobed, notes)
        task.advance(1, "noise")
        if not strobed and np.isfinite(interval):
            spectra = {name: power_spectrum(continuous[name], interval, segments) for name in names}
        task.advance(1, "spectra")
        if not strobed and not drives:
            delays = _delays(chosen, names, segments, notes)
        task.advance(1, "delay")
        if delays:
            rate = samples_per_period(record) if record.period else None
            delay = forced_delay(list(delays.values()), rate) if rate else delays[names[0]].delay
            dimension = _attempt(
                notes, "Dimension",
                lambda: embedding_dimension(
                    chosen[names[0]], max(delay or 1, 1), segments=segments, angle=chosen.angles[0]
                ),
            )  # fmt: skip
        task.advance(1, "dimension")
        found = Character("short" if len(record) < 200 else "unsuitable", "")
        if cut is not None and section is not None:
            returns = return_histogram(section, max_period, 0.01)
            found = cut.character
        character = found
        task.advance(1, "returns")
        notes += decays
        if decays and character.kind == "periodic":
            # Its half cycles shrink: the apparent scatter about a point is the decay to rest.
            character = Character("decay", "The motion dies out; orbits need sustained motion.")
        if drives:
            notes.append(DRIVEN.format(drives[0], Give(period=1.0)))
        else:
            # A motion that dies out or never returns has no exponent: a longer record would not give one.
            returned = returns is None or bool(np.any(returns[1]))
            lyapunov = _attempt(
                notes if returned and not decays else [],
                "Lyapunov exponent",
                lambda: _lyapunov(chosen, section, character, delay, dimension),
            )
        task.advance(1, "Lyapunov exponent")
    suggestion = suggest(character, lyapunov, dimension)
    if drives:
        # Orbits of a record need a motion without input, or a period of the input.
        suggestion = f'"{drives[0]}" drives the motion: write the equation of motion with it, {IDENTIFY}.'
    elif decays:
        suggestion = f"a free decay: fit a model to the series itself, {IDENTIFY}."
    if task.interrupted:
        suggestion = "the inspection was stopped: run it again for the parts that are missing."
    return Inspection(
        record, str(sampling), strobed, noise, spectra, delays, delay, dimension, returns, lyapunov, character,
        suggestion, tuple(notes), task.status,
    )  # fmt: skip


DRIVEN = (
    'Delay, dimension, returns and Lyapunov exponent were left out: they describe motions without an input, and "{}" '
    "drives this one. If the drive is periodic, state its period [s], {}."
)


def _drives(record: Record, decays: bool) -> tuple[str, ...]:
    """Return the channels that drive the motion.

    None where the period of the excitation is known. A free decay has no drive, unless a channel is called so.
    """
    if record.period is not None:
        return ()
    return drives_by_name(record) if decays else recognised_drives(record)


def _living_channels(record: Record, channels: Sequence[str] | None) -> tuple[tuple[str, ...], list[str]]:
    """Return the channels that change.

    A note is returned on each channel that does not change.
    """
    if not isinstance(record, Record):
        raise DataError(f"inspect works on a Record, not on {type(record).__name__}: {RECORD}.")
    names = (channels,) if isinstance(channels, str) else tuple(channels or record.channels)
    dead = [name for name in names if np.ptp(record[name]) == 0]
    if len(dead) == len(names):
        raise DataError(f"{', '.join(dead)}: no channel changes over {len(record)} samples. Check the sensors.")
    notes = [
        f'"{name}" does not change over {len(record)} samples and was left out: check the sensor.' for name in dead
    ]
    return tuple(name for name in names if name not in dead), notes


def _attempt(notes: list[str], what: str, work: Any) -> Any:
    """Return the result, or None with a note.

    An inspection reports what the record allows.
    """
    try:
        return work()
    except DataError as problem:
        notes.append(f"{what}: {marked(problem)}")
        return None


SHORTEST_DECAY = 256
"""Samples from which the noise of a channel is known well enough to find the end of a decay in it."""


BEATS = 0.5
"""Range of the last quarter over that of the first below which beats may be a decay of several modes."""


def _decays(record: Record, names: Sequence[str]) -> list[str]:
    """Describe free decays of the channels.

    It gives frequency and damping at large and small amplitude, from the longest segment of each channel.
    """
    piece = max(record.segments(), key=lambda part: part.stop - part.start)
    said: list[str] = []
    for name in names if record.period is None else ():
        time, values = record.time[piece], record[name][piece]
        noise = 0.0
        # Samples after the end of the motion are noise and would hide the decay.
        if values.size > SHORTEST_DECAY:
            noise = float(noise_level(values[:, None])[0])
            end = motion_end(values, noise)
            time, values = time[:end], values[:end]
        decay = half_cycles(time, values, noise=noise)
        if decay is None:
            continue
        falls = decay.dies_out
        # Beats of close modes grow for a while: their half cycles do not shrink one by one.
        if not falls and not np.ptp(values[-(values.size // 4) :]) < BEATS * np.ptp(values[: values.size // 4]):
            continue
        modes = linear_modes(time, values, noise)
        if not falls and not (len(modes) > 1 and all_decay(modes, float(time[-1] - time[0]))):
            continue
        modes = modes or decay_modes(time, values)
        text = "; ".join(map(str, modes)) if len(modes) > 1 else decay.sentence(record.units[name], noise)
        if len(modes) > 1 and close_modes(modes):
            text += " (modes this close may also be one nonlinear mode)"
        several = f"{len(modes)} modes, " if len(modes) > 1 else ""
        said.append(f"Free decay of {name}: {several}{text}.")
    return said


def _noise(record: Record, section: Section | None, strobed: bool, notes: list[str]) -> dict[str, float]:
    """Return the noise of each channel.

    That of dense channels follows from differences, that of strobed ones from the disagreement of neighbours.
    """
    if not strobed:
        piece = max(record.segments(), key=lambda p: p.stop - p.start)
        values = record.unwrapped().values()[piece]
        levels = _attempt(notes, "Noise", lambda: noise_level(values))
        return {} if levels is None else dict(zip(record.channels, map(float, levels), strict=True))
    if section is None:
        return {}
    if section.noise_source == "not estimated":
        notes.append("Noise: not estimated, the section has too few points.")
        return {}
    return dict(zip(section.states, (section.noise * section.scale).tolist(), strict=True))


def _delays(record: Record, names: tuple[str, ...], segments: list[slice], notes: list[str]) -> dict[str, DelayCurve]:
    longest = max(piece.stop - piece.start for piece in segments)
    # Delays beyond a twentieth of the record leave too few pairs for mutual information.
    reach = int(np.clip(longest // 20, 5, 300))
    if record.period:
        reach = int(np.clip(round(samples_per_period(record)), 5, max(longest // 4, 5)))
    curves = {}
    for name, angle in zip(names, record.angles, strict=True):
        curve = _attempt(
            notes, f"Delay of {name}",
            lambda name=name, angle=angle: mutual_information(record[name], reach, segments=segments, angle=angle),
        )  # fmt: skip
        if curve is not None:
            curves[name] = curve
    return curves


def _lyapunov(
    record: Record, section: Section | None, character: Character | None, delay: int | None,
    dimension: DimensionCurve | None,
) -> Lyapunov:  # fmt: skip
    """Estimate the largest Lyapunov exponent.

    It uses maps along the section and how fast neighbours separate; only for deterministic sections.
    """
    if section is None or character is None or character.kind != "deterministic":
        raise DataError("needs a chaotic motion on a section; none was found.")
    return section_exponent(section, _divergence(record, section, delay, dimension))


def _divergence(
    record: Record, section: Section, delay: int | None, dimension: DimensionCurve | None
) -> Lyapunov | None:
    """Return the rate at which neighbours separate.

    Neighbours are points of the section when forced, else delay vectors of the first channel.
    """
    try:
        return _parting(record, section, delay, dimension)
    except DataError:
        return None


def _parting(record: Record, section: Section, delay: int | None, dimension: DimensionCurve | None) -> Lyapunov:
    if record.period is not None:
        states = on_circles(np.where(section.circle, 2 * np.pi * section.unit, section.unit), section.angles)
        ends = np.flatnonzero(~section.follows) + 1
        edges = [0, *ends.tolist()]
        pieces = [slice(a, b) for a, b in itertools.pairwise(edges)]
        return largest_lyapunov(states, section.step, segments=pieces, horizon=20)
    interval = float(record.sampling().interval)
    count = 3 if dimension is None else max(dimension.by_cao, 2)
    first = on_circles(record.values()[:, :1], record.angles[:1])
    vectors, rows = embed(first, delay or 1, count, record.segments())
    cuts = np.flatnonzero(np.diff(rows) > 1) + 1
    edges = [0, *cuts.tolist(), len(rows)]
    pieces = [slice(a, b) for a, b in itertools.pairwise(edges)]
    return largest_lyapunov(vectors, interval, segments=pieces, theiler=5 * (delay or 1), horizon=20 * (delay or 1))


def suggest(character: Character | None, lyapunov: Lyapunov | None, dimension: DimensionCurve | None) -> str:
    """Suggest in one sentence what to try."""
    kind = "" if character is None else character.kind
    if kind == "periodic":
        return f"fit the periodic orbit: {IDENTIFY}."
    if kind == "noise":
        return "check the channels and the excitation period; nothing deterministic shows in these coordinates."
    if kind == "walk":
        return "remove the drift (high-pass, or differentiate) and inspect again."
    if kind == "unsuitable":
        return "no section could be made: do what its note says, then inspect again."
    if kind == "resonance":
        return f"a linear system driven by noise: {IDENTIFY} with {Give(method=Fit('shooting', process_noise=True))}."
    if kind in ("quasi-periodic", "decay"):
        return f"fit a model to the series itself: {IDENTIFY} with {Give(method=Fit('shooting'))}."
    if kind == "short" or character is None:
        return (
            f"fit a model to the series itself: {IDENTIFY}; periodic orbits need at least some thousand oscillations."
        )
    if dimension is not None and dimension.false_share[-1] > 0.01:
        return (
            f"{dimension.dimensions[-1]} delays do not hold the state: the system has an input or states that were not "
            f"measured. Give the input as a channel and fit the series ({IDENTIFY}), rather than search for orbits."
        )
    if lyapunov is not None and lyapunov.low > 0:
        return f"the record is chaotic: {FIND_ORBITS}, then {IDENTIFY}."
    return f"try {FIND_ORBITS}; if it finds nothing, fit the series itself with {Give(method=Fit('shooting'))}."
