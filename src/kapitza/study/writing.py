"""A commented study, written by looking at a recording."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kapitza.base.cures import Do
from kapitza.base.units import dimension
from kapitza.data import Record, read, recognised_drives, replacing, words_of_name
from kapitza.errors import DataError
from kapitza.library import model_named
from kapitza.model import CONSTANTS, FUNCTIONS, Model, parse_equation, primed_names, read_model
from kapitza.study.recognised import clocks, rates

RESERVED = ("t", "pi", "e")
"""Names that an equation has for something else."""

HEAD = """\
# A study: a recording, equations, and what to find. Lines that begin with # are comments.
# Check it:  kapitza check {name}
# Run it:    kapitza identify {name}
title = {title}
seed = 0
"""

DATA = """
[data]
file = {file}
{time}{channels}{units}{angles}{drive}{measures}{excitation}{noise}
# from = 0.0                      # use only this span [s]
# to = 10.0
# every = 10                      # use every tenth sample
# hold_back = [[4.0, 6.0]]        # spans [s] that are predicted instead of fitted
# sensors = {{{first} = {{unknown = "offset drift"}}}}   # errors of a sensor, fitted too
# bad_samples = "keep"            # spikes, dropouts and saturated samples are left out otherwise
{gaps}# segment = "trial"               # column whose changes mark interruptions
# A second recording, only to check the prediction:
# [[data]] above instead of [data], and once more with file = "other.csv", use = "check"
"""

GAPS = """\
gaps = "split"                    # samples are missing: every piece moves on its own ("keep": one motion through)
"""

FIT = """
[fit]
free = [{free}]
method = "auto"                   # or "shooting", "harmonic", "orbits", "invariant", or a list of them
hold_back = {hold_back}                   # share of the end kept to check the prediction
# [fit.bounds]
# {first} = [0.0, 10.0]
# [fit.priors]
# {first} = {{mean = 1.0, deviation = 0.1}}
# [fit.shooting]
# robust = true                   # outliers count less

[output]
report = true                     # report.html in the results folder

# [plan]                          # what the next experiment may be: the report ranks the choices
# vary = {{F = [0.02, 0.5]}}
# limits = {{"abs(x)" = 1.2}}
"""

OWN = """
# The equations. Primes are time derivatives; several candidates: [[model]] instead of [model], each with a name.
[model]
equations = [
{equations}]
# excitation = {{period = "2*pi/omega"}}   # of a driven model
{parameters}"""


def write_new_study(
    recording: Path,
    out: Path | None = None,
    model: str | None = None,
    time: str | int | None = None,
    interval: float | None = None,
    force: bool = False,
    units: dict[str, str] | None = None,
    group: str | None = None,
    drive: Sequence[str] | Mapping[str, str] | None = None,
    equations: Sequence[str] = (),
    channels: Mapping[str, str] | None = None,
    angles: Sequence[str] = (),
) -> Path:
    """Write a study for a recording; return its path.

    It runs as it is, and its comments say what can be changed. Without a model every channel gets its own oscillator,
    x'' + c*x' + k*x = 0, started at the frequency of its spectrum: a first fit to replace by the real equations. Of
    an angle in rad or deg that swings by more than 0.5 rad the force is k*sin(x).
    drive: channels that drive the motion, or channel → name in the equations; by default those whose names and units
    say so, and those that the equations name. equations: of the motion; names in them that are not channels become free
    parameters, started at 1. channels: channel → coordinate that it measures. angles: channels that are angles, by
    either name.
    """
    recording = Path(recording)
    columns = {name: column for column, name in (channels or {}).items()}
    turning = [columns.get(name, name) for name in angles]
    record = read(recording, time=time, interval=interval, units=units, group=group, angles=turning or None)
    path = Path(out) if out is not None else recording.with_suffix(".toml")
    if path.suffix != ".toml":
        raise DataError(f'A study ends in .toml, "{path.name}" does not.')
    if path.exists() and not force:
        raise DataError(f"{path} is there already: name another by --out, or replace it by --force.")
    given = dict(channels or {})
    for name in (*(drive or ()), *given):
        record[name]  # an unknown channel is refused with the nearest one
    # "Accel=x''": the channel is an accelerometer.
    measures = {c: name for c, name in given.items() if name.endswith("''")}
    given = {c: name for c, name in given.items() if c not in measures}
    drives = chosen_drives(record, drive, [c for c in record.channels if c not in given and c not in measures])
    if drives and len(drives) >= len(record.channels):
        raise DataError(f"Every channel ({', '.join(drives)}) drives: leave at least one that is measured.")
    text = HEAD.format(name=path.name, title=quoted(recording.stem.replace("_", " ")))
    chosen = None if model is None else (read_model(model) if model.endswith(".toml") else model_named(model))
    if chosen is not None and model is not None:
        section, free = known_model(model, chosen, path)
        own = {s.name for s in chosen.signals}
        drives = {column: name for column, name in drives.items() if name in own}
        moving = [c.name for c in chosen.coordinates if c.order == 2]
        left = [c for c in record.channels if c not in drives and c not in given and c not in chosen.states]
        measures = measured_accelerations(record, left, moving, measures)
        names = states_for(tuple(c for c in record.channels if c not in {*drives, *measures}), chosen) | given
    elif equations:
        equations = [in_identifiers(equation, record.channels) for equation in equations]
        drives = named_drives(record, equations, drives, drive is not None, given)
        words = {word for text in equations for word in words_of(text)}
        left = motion_names(record, drives, words)
        moving = [name for text in equations for name, order in primed_names(text).items() if order == 2]
        unnamed = [c for c in left if c not in given and left[c].rstrip("'") not in words]
        measures = measured_accelerations(record, unnamed, moving, measures)
        left = {c: name for c, name in left.items() if c not in measures}
        names = named_in(equations, left | given, given, measures)
        section, free = written_model(record, equations, names, tuple(drives.values()))
    else:
        names = motion_names(record, drives) | given
        accelerated = {**own_accelerations(record, [c for c in names if c not in given], names), **measures}
        names = {c: name for c, name in names.items() if c not in accelerated}
        coordinates = names | {c: name.rstrip("'") for c, name in accelerated.items()}
        section, free = own_model(record, coordinates, drives, accelerated)
        measures = accelerated
    stated = Stated(names, drives, measures, units or {})
    text += section + data_section(record, stated, recording, path, time, interval, group)
    hold_back = 0.2 if record.size > 200 else 0.0
    text += FIT.format(free=", ".join(quoted(n) for n in free), first=free[0], hold_back=hold_back)
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8")
    return path


@dataclass(frozen=True)
class Stated:
    """What the channels of a new study are.

    names: channel → state. drives: channel → name in the equations. measures: channel of an accelerometer → x''.
    units: channel → unit, as given.
    """

    names: Mapping[str, str]
    drives: Mapping[str, str]
    measures: Mapping[str, str]
    units: Mapping[str, str]


ACCELERATIONS = ("m/s^2", "rad/s^2")
"""Units of what accelerometers measure."""


def measured_accelerations(
    record: Record, channels: Sequence[str], moving: Sequence[str], stated: Mapping[str, str]
) -> dict[str, str]:
    """Return the stated accelerometers and those among other channels: channel → x''.

    The others are channels in m/s^2 or rad/s^2, and those called accel… in another unit of sensors or in none. moving:
    coordinates of second order. Several accelerometers must be as many as coordinates, which are taken in order.
    """
    found = [c for c in channels if is_acceleration(record, c) and c not in stated]
    moving = [name for name in dict.fromkeys(moving) if f"{name}''" not in stated.values()]
    if not found or not moving:
        return dict(stated)
    if len(found) > len(moving) or (len(found) < len(moving) and len(moving) > 1):
        chosen = Do(f'channels={{"{found[0]}": "{moving[0]}\'\'"}}', f"--channel \"{found[0]}={moving[0]}''\"")
        raise DataError(
            f"{', '.join(found)} measure accelerations, and the equations have the coordinates {', '.join(moving)}: "
            f"say which acceleration each one is by {chosen}."
        )
    return {**stated, **{c: f"{name}''" for c, name in zip(found, moving, strict=True)}}


def own_accelerations(record: Record, channels: Sequence[str], names: Mapping[str, str]) -> dict[str, str]:
    """Return the accelerometers among channels with the accelerations of coordinates of their own."""
    found = [c for c in channels if is_acceleration(record, c)]
    letter = "x" if not any(name.startswith("x") for c, name in names.items() if c not in found) else "y"
    return {c: f"{letter}{number if len(found) > 1 else ''}''" for number, c in enumerate(found, start=1)}


def is_acceleration(record: Record, channel: str) -> bool:
    """Return whether the unit or the name of a channel is that of an accelerometer."""
    unit = record.units.get(channel, "")
    if unit and unit not in SIGNAL_UNITS:
        return dimension(unit) in [dimension(one) for one in ACCELERATIONS]
    words = words_of_name(channel)
    return any(word.startswith(("accel", "beschleunigung")) or word == "acc" for word in words)


def chosen_drives(
    record: Record, drive: Sequence[str] | Mapping[str, str] | None, others: Sequence[str]
) -> dict[str, str]:
    """Return the drives: channel → name in the equations.

    They are those given, or those recognised among `others`.
    """
    if isinstance(drive, Mapping):
        return dict(drive)
    found = [c for c in recognised_drives(record) if c in others] if drive is None else drive
    return {column: identifier(column) for column in found}


def named_drives(
    record: Record, equations: Sequence[str], drives: Mapping[str, str], stated: bool, measured: Mapping[str, str]
) -> dict[str, str]:
    """Return the drives, with channels that the equations name.

    A drive that the equations do not hold is refused.
    """
    words = {word for text in equations for word in words_of(text)}
    moving = {name for text in equations for name in primed_names(text)}
    named = {c: identifier(c) for c in record.channels if identifier(c) in words - moving and c not in measured}
    missing = [c for c, name in drives.items() if name not in words]
    if missing and (stated or not named):
        listed = ", ".join(sorted(words - moving))
        column = missing[0]
        named_so = Do(f'drive={{"{column}": "NAME"}}', f'--drive "{column}=NAME"')
        raise DataError(
            f'"{column}" drives the motion, but the equations do not hold it ({listed}): write it as '
            f"{drives[column]}, say which name it has by {named_so}, or give {Do('drive=[]', '--drive none')}."
        )
    return {c: name for c, name in drives.items() if name in words} | {
        c: n for c, n in named.items() if c not in drives
    }


def identifier(column: str) -> str:
    """Return a column's name in equations: "Load Cell" is Load_Cell."""
    plain = re.sub(r"\W+", "_", column).strip("_") or "u"
    plain = plain if re.match(r"[A-Za-z]", plain) else f"u_{plain}"
    return f"{plain}_" if plain in RESERVED else plain


def in_identifiers(equation: str, columns: Sequence[str]) -> str:
    """Return an equation with blanks in column names replaced.

    Text that is not an equation is refused.
    """
    for column in sorted(columns, key=len, reverse=True):
        if " " in column and column in equation:
            equation = equation.replace(column, identifier(column))
    rates = [name + "'" * order for name, most in primed_names(equation).items() for order in range(1, most + 1)]
    parse_equation(equation, [*words_of(equation), *rates])  # refuses what is no equation, before a study is written
    return equation


def quoted(text: str) -> str:
    """TOML text: JSON's escapes are TOML's."""
    return json.dumps(text, ensure_ascii=False)


def coordinate_names(channels: tuple[str, ...]) -> dict[str, str]:
    """Return coordinates by channel.

    Rates (phi') stay rates, names that no equation can hold become q1, q2, ...
    """
    names: dict[str, str] = {}
    for number, channel in enumerate(channels, start=1):
        good = re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*'?", channel) is not None and channel not in RESERVED
        names[channel] = channel if good else f"q{number}"
    return names


def motion_names(record: Record, drives: Mapping[str, str], named: Collection[str] = ()) -> dict[str, str]:
    """Return coordinates and rates by channel.

    Drives and clocks are left out; a channel that is the rate of another has the name of that one with a prime. Names
    that the equations hold are kept: v in x' = v, v' = -k*x is a state itself.
    """
    left_out = {*drives, *(c for c in clocks(record) if c not in named)}
    names = coordinate_names(tuple(c for c in record.channels if c not in left_out))
    found = rates(record, tuple(names))
    return names | {c: f"{names[other]}'" for c, other in found.items() if names[c] not in named}


def states_for(channels: tuple[str, ...], model: Model) -> dict[str, str]:
    """Return channels that are states of the model.

    Where none is, the first ones are taken in order.
    """
    known = {c: c for c in channels if c in model.states}
    return known or dict(zip(channels, model.states, strict=False))


def words_of(text: str) -> list[str]:
    """Return the names in an equation.

    They are in order, without primes, functions, t and pi.
    """
    found = re.findall(r"[A-Za-z_]\w*", text)
    return [name for name in dict.fromkeys(found) if name not in FUNCTIONS and name not in CONSTANTS and name != "t"]


def named_in(
    equations: Sequence[str], names: dict[str, str], given: Mapping[str, str], measures: Mapping[str, str]
) -> dict[str, str]:
    """Return channels with the coordinates of the equations.

    A channel belongs to a coordinate as given, by its name, or as the one channel left over for the one coordinate
    without. Where no channel belongs to a coordinate, nor measures its acceleration, the user must say which does.
    """
    words = {word for text in equations for word in words_of(text)}
    moving = list(dict.fromkeys(n for text in equations for n in primed_names(text)))
    used = {c: name for c, name in names.items() if c in given or name.rstrip("'") in words}
    without = [name for name in moving if name not in used.values()]
    left = [channel for channel in names if channel not in used]
    accelerated = {name.rstrip("'") for name in measures.values()}
    if len(without) == 1 and len(left) == 1 and without[0] not in accelerated:
        used[left[0]] = without[0]
    if not used and not measures:
        listed = ", ".join(f'"{c}"' for c in names)
        column, wanted = next(iter(names)), moving[0] if moving else "x"
        chosen = Do(f'channels={{"{column}": "{wanted}"}}', f'--channel "{column}={wanted}"')
        raise DataError(
            f"None of the columns {listed} is called {' or '.join(moving)}: say which one measures it by {chosen}."
        )
    return used


def written_model(
    record: Record, equations: Sequence[str], names: Mapping[str, str], drives: Sequence[str]
) -> tuple[str, list[str]]:
    """Return the model text of given equations.

    Names in them that are neither coordinates nor measured become free parameters.
    """
    moving = dict.fromkeys(n for text in equations for n in primed_names(text))
    known = {*moving, *drives, *names.values()}
    free = [n for n in dict.fromkeys(w for text in equations for w in words_of(text)) if n not in known]
    if not free:
        raise DataError("The equations hold no parameter to find: name one, such as c in x'' + c*x' + x = 0.")
    lines = "".join(f"  {quoted(text)},\n" for text in equations)
    values = [f'parameters.{name} = 1.0            # a first guess; {{value = 1.0, unit = "kg"}} states a unit\n'
              for name in free]  # fmt: skip
    angles = {names[c] for c, a in zip(record.channels, record.angles, strict=True) if a and c in names}
    # A unit that is stated later must be one of the same kind: a laser in mm is not in deg.
    units = {name: record.units[c] for c, name in names.items() if record.units.get(c, "") not in ("", *SIGNAL_UNITS)}
    orders = {name: order for text in equations for name, order in primed_names(text).items()}
    if not angles.isdisjoint(moving) or not units.keys().isdisjoint(moving):
        # All of them: a model has no other coordinates than those that are listed.
        for name in moving:
            facts = [f"order = {orders[name]}"] if orders[name] != 2 else []
            facts += ["angle = true"] if name in angles else []
            facts += [f"unit = {quoted(units[name])}"] if name in units and name not in angles else []
            values.append(f"coordinates.{name} = {{{', '.join(facts)}}}\n")
    return OWN.format(equations=lines, parameters="".join(values)), free


def own_model(
    record: Record, names: Mapping[str, str], drives: Mapping[str, str], accelerated: Collection[str] = ()
) -> tuple[str, list[str]]:
    """Return an oscillator for every coordinate.

    Each starts at its frequency and has a gain for each drive. An angle that swings far is a pendulum, whose force is
    the sine of it. One that moves about a value far from 0 has a rest
    position too, which is found with the rest. accelerated: channels that measure the acceleration of theirs.
    """
    coordinates = [n for n in names.values() if not n.endswith("'")] or [next(iter(names.values())).rstrip("'")]
    lines, free, values, several = [], [], [], len(coordinates) > 1
    angles = {names[c] for c, a in zip(record.channels, record.angles, strict=True) if a and c in names}
    for number, name in enumerate(coordinates, start=1):
        end = str(number) if several else ""
        channel = next((c for c, n in names.items() if n == name), record.channels[0])
        omega = 2 * np.pi * main_frequency(record, channel)
        gains = [f"b{j}_{number}" if len(drives) > 1 else f"b{end}" for j in range(1, len(drives) + 1)]
        right = " + ".join(f"{b}*{d}" for b, d in zip(gains, drives.values(), strict=True)) or "0"
        middle, spread = float(np.mean(record[channel])), float(np.std(record[channel]))
        rest = f"rest{end}" if abs(middle) > spread and channel not in accelerated else ""
        spring = f"({name} - {rest})" if rest else name
        swing = swing_of(record, channel) if channel not in accelerated else 0.0
        stiffness = omega**2
        if swing > LARGE_SWING:
            spring = f"sin({name} - {rest})" if rest else f"sin({name})"
            # A pendulum that swings by A is slower by 1 + A^2 / 16, to the next order in A.
            stiffness *= (1 + min(swing, np.pi / 2) ** 2 / 16) ** 2
        lines.append(f"  \"{name}'' + c{end}*{name}' + k{end}*{spring} = {right}\",\n")
        free += [f"c{end}", f"k{end}", *([rest] if rest else []), *gains]
        for gain, driver in zip(gains, drives, strict=True):
            size = (
                (1.0 if channel in accelerated else omega**2)
                * float(np.std(record[channel]))
                / max(float(np.std(record[driver])), 1e-300)
            )
            values.append(f"parameters.{gain} = {size:.3g}\n")
        values.append(f"parameters.c{end} = {{value = {0.05 * omega:.3g}, bounds = [0.0, inf]}}\n")
        values.append(f"parameters.k{end} = {stiffness:.4g}\n")
        if rest:
            values.append(f"parameters.{rest} = {middle:.4g}\n")
        if name in angles:
            values.append(f"coordinates.{name} = {{angle = true}}\n")
    return OWN.format(equations="".join(lines), parameters="".join(values)), free


LARGE_SWING = 0.5
"""Swing [rad] of an angle from which the sine is another force than the angle: 4 % less."""


def swing_of(record: Record, channel: str) -> float:
    """Return half of the range of an angle [rad]; 0 of a channel in another unit, or none."""
    factor = {"rad": 1.0, "deg": np.pi / 180}.get(record.units.get(channel, ""), 0.0)
    values = record.unwrapped()[channel]
    return factor * 0.5 * float(np.ptp(values[np.isfinite(values)])) if factor else 0.0


def known_model(model: str, chosen: Model, path: Path) -> tuple[str, list[str]]:
    values = ", ".join(f"{n} = {chosen.values[n]:.6g}" for n in chosen.names)
    source = f"library = {quoted(model)}"
    if model.endswith(".toml"):
        target, folder = Path(model).resolve(), path.resolve().parent
        inside = target.relative_to(folder).as_posix() if target.is_relative_to(folder) else str(target)
        source = f"file = {quoted(inside)}"
    equations = "\n".join(f"#   {equation} = 0" for equation in chosen.equations)
    text = (
        f"\n[model]\n{source}\n{equations}\n# values to start from, and those that are held:\nvalues = {{{values}}}\n"
    )
    return text, list(chosen.names)


SIGNAL_UNITS = ("V", "A")
"""Units of raw signals of sensors."""


def raw_signals(record: Record, names: Iterable[str]) -> list[str]:
    """Return the channels that are raw signals of sensors."""
    return [name for name in names if record.units[name] in SIGNAL_UNITS]


def data_section(
    record: Record,
    stated: Stated,
    recording: Path,
    path: Path,
    time: str | int | None,
    interval: float | None,
    group: str | None,
) -> str:
    # An accelerometer keeps its own name, unless a coordinate has it.
    taken = {*stated.names.values(), *stated.drives.values()}
    accelerometers = {c: free_name(identifier(c), taken) for c in stated.measures}
    names, drives, given = {**stated.names, **accelerometers}, stated.drives, stated.units
    target, folder = recording.resolve(), path.resolve().parent
    file = target.relative_to(folder).as_posix() if target.is_relative_to(folder) else str(target)
    clock = f"interval = {interval!r}                  # [s]\n" if interval is not None else ""
    if time is not None:
        clock = f"time = {time if isinstance(time, int) else quoted(time)}\n"
    if group is not None:
        clock += f"group = {quoted(group)}\n"
    renamed = {column: name for column, name in drives.items() if column != name}
    pairs = ", ".join(f"{quoted(c)} = {quoted(n)}" for c, n in {**names, **renamed}.items())
    units = {names[c]: u for c, u in record.units.items() if u and c in names}
    unit_text = ", ".join(f"{quoted(n)} = {quoted(u)}" for n, u in units.items())
    stated_units = f"# units, as read and brought to SI: {{{unit_text}}}\n" if units else '# units = {x = "mm"}\n'
    if signals := [c for c in raw_signals(record, {**names, **drives}) if c not in given]:
        unit = record.units[signals[0]]
        example = f'{quoted(signals[0])} = "{f"112.4 m{unit}/N" if signals[0] in drives else f"4 mm/{unit}"}"'
        stated_units += f"# units = {{{example}}}   # the sensitivity of a sensor; without it parameters are per volt\n"
    if given:
        stated_units = f"units = {{{', '.join(f'{quoted(c)} = {quoted(u)}' for c, u in given.items())}}}\n"
    angles = [names[c] for c, a in zip(record.channels, record.angles, strict=True) if a and c in names]
    excitation = "# period = 1.0                    # of the excitation [s], where the model does not say it\n"
    if record.period is not None:
        excitation = f"period = {record.period!r}\n"
    first = quoted(next(iter(names.values())))
    stated_drive = (
        '# drive = ["F"]                   # channel that drives the model, under its name in the equations\n'
    )
    if drives:
        stated_drive = (
            f"drive = [{', '.join(quoted(d) for d in drives.values())}]   # drives the model, under its name\n"
        )
        stated_drive += (
            "drive_degree = 3                  # a cubic spline through its samples; 0: held, 1: straight lines\n"
        )
    return DATA.format(
        drive=stated_drive,
        first=first,
        measures=measures_line({accelerometers[c]: text for c, text in stated.measures.items()}),
        noise=f"# noise = {{{first} = 0.01}}       # standard deviation, where known",
        file=quoted(file),
        time=clock,
        channels=f"channels = {{{pairs}}}   # column = coordinate (or its rate, x')\n",
        units=stated_units,
        angles=f"angles = [{', '.join(quoted(a) for a in angles)}]\n" if angles else '# angles = ["phi"]\n',
        excitation=excitation,
        gaps=GAPS if record.sampling().gaps else "",
    )


def free_name(name: str, taken: Collection[str]) -> str:
    """Return the name, with a stroke where it is taken."""
    return f"{name}_" if name in taken else name


def measures_line(measures: Mapping[str, str]) -> str:
    """Return the line of what channels measure that are not states."""
    if not measures:
        text = "what a channel measures that is not a state; \"x''\" of an accelerometer"
        return f'# measures = {{gap = "x - y"}}      # {text}\n'
    pairs = ", ".join(f"{quoted(c)} = {quoted(text)}" for c, text in measures.items())
    return f"measures = {{{pairs}}}   # an accelerometer: the acceleration that the equations give\n"


def main_frequency(record: Record, channel: str) -> float:
    """Return the frequency [Hz] of the largest peak.

    The spectrum is that of the longest segment.
    """
    piece = max(record.split_at_gaps().segments(), key=lambda s: s.stop - s.start)
    values, time = record.unwrapped()[channel][piece], record.time[piece]
    if len(values) < 8:
        return 1.0
    power = np.abs(np.fft.rfft((values - values.mean()) * np.hanning(len(values)))) ** 2
    peak = 1 + int(np.argmax(power[1:]))
    return peak / float(time[-1] - time[0])
