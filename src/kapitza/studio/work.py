"""Define jobs for orbits, branches and rigs.

Their results are written beside the study, in NAME-studio.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from kapitza.base.files import replacing
from kapitza.base.monitor import Monitor, checkpoint, watch
from kapitza.errors import DataError, KapitzaError, Status
from kapitza.studio.rig_files import (
    can_go_on,
    give_up,
    journal_file,
    new_run,
    points_file,
    rig_points,
    write_points,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapitza.base.arrays import Array
    from kapitza.continuation import Branch
    from kapitza.data import Record
    from kapitza.model import Model
    from kapitza.rig import Experiment, FourierSeries, Rig, RigPoint, Samples
    from kapitza.study import Family

    Emit = Callable[[Mapping[str, Any]], None]

ORBITS, BRANCHES = "orbits.nc", "branches.json"
"""Files of the folder."""

SETTLING, DIES_OUT = 40, 0.5
"""Periods after which a motion without a drive is looked at, and the share of its amplitude below which it dies out."""

OWN_RIGS = {"duffing": ("omega", "B", "x"), "beam": ("Omega", "A", "x")}
"""Simulated rigs that come with Kapitza: name of the frequency, of the amplitude, and of the controlled coordinate."""

RESUMED = ("rig", "parameter", "frequency", "start", "noise", "scales", "modes")
"""What a run that goes on has as it began; the range and the speed may be others."""

SAMPLES = 257
"""Of a period of a rig, from which its amplitude is taken."""


def work_folder(study: Path) -> Path:
    """Return the studio's folder of a study.

    It keeps orbits, branches and points.
    """
    return study.with_name(f"{study.stem}-studio")


def find_orbits_of(arguments: Mapping[str, Any], emit: Emit, monitor: Monitor) -> Mapping[str, Any]:
    """Find orbits in a study's first recording.

    The part that is fitted is searched; study: its path, max_period: the longest.
    """
    del emit
    from kapitza import find_orbits, save
    from kapitza.study import read_study

    path = Path(arguments["study"])
    study = read_study(path)
    record = study.parts(study.candidates[0])[0].record
    if record is None:
        raise DataError("The first recording has no samples to look for orbits in.")
    orbits = find_orbits(record, max_period=int(arguments.get("max_period") or study.max_period), monitor=monitor)
    folder = work_folder(path)
    folder.mkdir(exist_ok=True)
    save(orbits, folder / ORBITS)
    return {"file": ORBITS, "count": len(orbits), "stopped": orbits.status is Status.INTERRUPTED}


def follow_branch(arguments: Mapping[str, Any], emit: Emit, monitor: Monitor) -> Mapping[str, Any]:
    """Follow a branch, or leave one.

    It is left at a bifurcation; results: folder of a fit, else the model of the study.
    candidate: name of the one followed; parameter, low, high, rest, values: see `Family`.
    branch, bifurcation: numbers of the branch to leave, and where.
    """
    del emit
    from kapitza import save

    folder = work_folder(Path(arguments["study"]))
    folder.mkdir(exist_ok=True)
    if "bifurcation" in arguments:
        known = branch_list(folder)
        found = _switched(arguments, folder, monitor)
        parent, at = int(arguments["branch"]), int(arguments["bifurcation"])
    else:
        known, parent, at = [], -1, -1
        found = _followed(arguments, monitor)
    name = f"branch-{len(known)}.nc"
    save(found, folder / name)
    listing = [*known, {"file": name, "parent": parent, "at": at, "request": dict(arguments)}]
    with replacing(folder / BRANCHES) as draft:
        draft.write_text(json.dumps(listing, indent=1), encoding="utf-8")
    return {"file": name, "points": len(found), "stopped": found.status is Status.INTERRUPTED}


def branch_list(folder: Path) -> list[dict[str, Any]]:
    """Return a summary of a folder's branches.

    The order is that in which they were followed.
    """
    try:
        listing = json.loads((folder / BRANCHES).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return [one for one in listing if isinstance(one, dict) and (folder / Path(str(one.get("file"))).name).is_file()]


def _followed(arguments: Mapping[str, Any], monitor: Monitor) -> Branch:
    from kapitza import follow
    from kapitza.study import Family, cycle_of, follow_fit, read_results, read_study

    bounds = float(arguments["low"]), float(arguments["high"])
    if not bounds[0] < bounds[1]:
        raise DataError(f"{bounds[0]:g} to {bounds[1]:g}: give two numbers, the smaller first.")
    family = Family(
        str(arguments["parameter"]), bounds, dict(arguments.get("values") or {}), rest=bool(arguments.get("rest"))
    )
    name = arguments.get("candidate")
    if arguments.get("results"):
        result = read_results(Path(arguments["results"]))
        fits = [fit for fit in result.succeeded if fit.candidate == name] if name else [result.chosen]
        answer = result.chosen
        chosen = answer if any(fit is answer for fit in fits) else next(iter(fits), None)
        if chosen is not None:
            guess = None if family.rest else cycle_of(chosen)
            try:
                return follow_fit(chosen, family, monitor=monitor)
            except KapitzaError as problem:
                raise _without_motion(chosen.answer.model, guess, family, problem) from None
    # Before any fit: the model of the study at the values it starts from.
    study = read_study(Path(arguments["study"]))
    number = next((n for n, one in enumerate(study.candidates) if one.name == name), 0)
    model = study.candidates[number].model.with_values(**study.fitted[0].values).with_values(**family.values)
    model.check(family.parameter)
    if family.rest or model.period is not None or model.is_map:
        settings = {"equilibrium": True} if family.rest else {}
        return follow(model, None, family.parameter, bounds, monitor=monitor, **settings)
    guess = _recorded_motion(model, study.parts(study.candidates[number])[0].record)
    try:
        if guess is None:
            raise DataError(f'"{model.name}" has no drive, and no motion of a recording to begin with.')
        return follow(model, _settling(model, guess)[-1], family.parameter, bounds, period=guess[1], monitor=monitor)
    except KapitzaError as problem:
        raise _without_motion(model, guess, family, problem) from None


def _recorded_motion(model: Model, record: Record | None) -> tuple[Array, float] | None:
    """Return a state as large as the recorded motion, and its period [s]; None without samples."""
    from kapitza.study import main_frequency

    channel = None if record is None else next((one for one in record.channels if one in model.states), None)
    if record is None or channel is None:
        return None
    state = np.zeros(len(model.states))
    state[model.states.index(channel)] = float(np.nanmax(np.abs(record[channel])))
    return state, 1.0 / main_frequency(record, channel)


def _settling(model: Model, guess: tuple[Array, float]) -> Array:
    """Return the states (N, n) of a motion that begins at a guess, 32 of each period."""
    from kapitza import simulate

    motion = simulate(model, guess[0], t=np.linspace(0.0, SETTLING * guess[1], SETTLING * 32 + 1))
    return np.column_stack([motion[name] for name in model.states])


def _without_motion(
    model: Model, guess: tuple[Array, float] | None, family: Family, problem: KapitzaError
) -> KapitzaError:
    """Return why a model has no periodic motion to follow: that it dies out, where it does."""
    if model.period is not None or model.is_map or family.rest:
        return problem
    cure = (
        "Add a drive under Model, such as F*cos(omega*t) with the excitation period 2*pi/omega, or switch on "
        '"rest state" to follow the rest state.'
    )
    if guess is None:
        return DataError(f"{problem} {cure}")
    try:
        motion = _settling(model, guess)[:, 0]
    except KapitzaError:
        return DataError(f"{problem} {cure}")
    first, last = np.ptp(motion[:65]), np.ptp(motion[-65:])
    if not last < DIES_OUT * first:
        return problem
    share = f"{100 * last / first:.2g} % of its amplitude is left after {SETTLING} periods"
    return DataError(f'The motion of "{model.name}" dies out ({share}): there is no periodic motion to follow. {cure}')


def _switched(arguments: Mapping[str, Any], folder: Path, monitor: Monitor) -> Branch:
    from kapitza import load, switch_branch

    one = branch_list(folder)[int(arguments["branch"])]
    branch = load(folder / Path(one["file"]).name)
    request = one["request"]
    return switch_branch(
        branch.bifurcations[int(arguments["bifurcation"])],
        (float(request["low"]), float(request["high"])),
        monitor=monitor,
    )


def follow_rig(arguments: Mapping[str, Any], emit: Emit, monitor: Monitor) -> Mapping[str, Any]:
    """Follow a rig's motions along a parameter.

    Every point is shown and written as it comes, into the files of a new run.
    rig: "duffing", "beam", a rig file, or an address (with token). parameter, low, high, start: where; modes, points.
    resume: number of the run to go on from instead, with its rig, parameter and start.
    The rig is in its safe state when the job ends, however it ends: the line "safe" says after how many seconds.
    """
    from kapitza.rig import RigStepping

    folder = work_folder(Path(arguments["study"]))
    folder.mkdir(exist_ok=True)
    resume = arguments.get("resume") is not None
    number = int(arguments["resume"]) if resume else new_run(folder)
    points: list[dict[str, Any]] = []
    state, message = "failed", ""
    if resume:
        if not can_go_on(folder, number):
            raise DataError(f"Run {number} has no two points to go on from: begin a new run.")
        before = rig_points(folder, number)
        kept = {name: before["request"][name] for name in RESUMED if name in before["request"]}
        arguments, points = {**before["request"], **arguments, **kept}, list(before["points"])
    emit({"event": "run", "number": number, "file": f"{folder.name}/{points_file(folder, number).name}"})
    for line in points:
        emit({"event": "point", **line})
    parameter, known = str(arguments["parameter"]), len(points)
    try:
        with opened_rig(arguments, Path(arguments["study"]).parent) as experiment:

            def seen(point: RigPoint) -> bool:
                line = point_line(point, experiment.rig.outputs)
                points.append(line)
                emit({"event": "point", **line})
                write_points(folder, number, arguments, points, "running", "")
                return monitor.cancelled

            try:
                experiment.check(parameter)
                experiment.values[parameter] = float(arguments["start"])
                # The outer block hears a stop in the first points too, before the continuation watches by itself.
                with watch(monitor, f"rig along {parameter}") as task:
                    branch = experiment.follow(
                        None, parameter, (float(arguments["low"]), float(arguments["high"])),
                        direction=int(arguments.get("direction", 1)), record=journal_file(folder, number),
                        resume=resume, watch=seen, monitor=task,
                        stepping=RigStepping(max_points=known + int(arguments.get("points") or 80)),
                    )  # fmt: skip
                    state, message = ("stopped" if branch.status is Status.INTERRUPTED else "done"), branch.message
                state = "stopped" if task.interrupted else state
            finally:
                began = time.monotonic()
                experiment.rig.stop()
                emit({"event": "safe", "seconds": time.monotonic() - began})
    except KapitzaError as problem:
        message = str(problem)
        raise
    finally:
        if points or not give_up(folder, number):
            write_points(folder, number, arguments, points, state, message)
    if state == "stopped":
        raise KeyboardInterrupt
    return {"points": len(points), "message": message}


class PacedRig:
    """Slow a simulated rig to a person's pace.

    It runs at a multiple of real time, so that a person can follow and stop it.
    """

    def __init__(self, rig: Rig, speed: float):
        self.rig, self.speed = rig, speed
        self.inputs, self.outputs, self.parameters = rig.inputs, rig.outputs, rig.parameters
        self.sample_time = rig.sample_time

    def set(self, demands: Mapping[str, Any], **parameters: float) -> None:
        self.rig.set(demands, **parameters)

    def run(self, samples: int) -> Samples:
        until = time.monotonic() + samples * self.sample_time / self.speed
        found = self.rig.run(samples)
        while (left := until - time.monotonic()) > 0:
            checkpoint()
            time.sleep(min(left, 0.05))
        return found

    def stop(self) -> None:
        self.rig.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.stop()


@contextmanager
def opened_rig(arguments: Mapping[str, Any], folder: Path) -> Iterator[Experiment]:
    """Open the requested rig.

    It is returned as equations for its periodic motions; a connection is closed at the end.
    """
    from kapitza.rig import Experiment, RemoteRig, Sensors, beam_rig, duffing_rig, read_rig

    asked, noise = str(arguments["rig"]), float(arguments.get("noise") or 0.0)
    frequency = str(arguments.get("frequency") or "omega")
    with ExitStack() as stack:
        if asked in OWN_RIGS:
            make = duffing_rig if asked == "duffing" else beam_rig
            rig, frequency = make(sensors=Sensors(noise={"x": noise})), OWN_RIGS[asked][0]
        elif asked.startswith("tcp://"):
            rig = RemoteRig(asked, str(arguments.get("token", "")))
            stack.callback(rig.close)
        elif asked.endswith(".toml"):
            rig = read_rig(folder / asked)
        else:
            raise DataError(
                f'"{asked}" is not a rig: choose duffing or beam, a rig file (.toml), or an address tcp://...'
            )
        if arguments.get("speed") and not asked.startswith("tcp://"):
            rig = PacedRig(rig, float(arguments["speed"]))
        modes, scales = int(arguments.get("modes") or 5), dict(arguments.get("scales") or {})
        yield Experiment(rig, frequency=frequency, modes=modes, scales=scales)


def point_line(point: RigPoint, outputs: tuple[str, ...]) -> dict[str, Any]:
    """Return one measured motion as the page draws it."""
    return {
        "value": point.value,
        "peaks": {name: point.series(name).peak() for name in outputs},
        # Half peak to peak, as a branch of a model is drawn: a peak holds the mean too.
        "amplitudes": {name: half_range(point.series(name)) for name in outputs},
        "residual": point.residual,
        "effort": point.effort,
        "stability": point.stability,
        "measurements": point.measurements,
    }


def half_range(series: FourierSeries) -> float:
    """Return half the peak-to-peak value of a periodic signal."""
    return float(np.ptp(series(np.linspace(0.0, series.period, SAMPLES)))) / 2
