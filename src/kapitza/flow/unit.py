"""Functional mock-up units, run as black boxes.

FMPy (extra `[fmu]`) runs them, without their equations.

A unit is native code and runs with the rights of the user: it is opened only with `trusted=True`.
"""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from kapitza.base import checks
from kapitza.base.arrays import Array
from kapitza.base.cures import Give
from kapitza.errors import ArgumentError, FlowError, ModelError, nearest_name

EVEN = 1e-9
"""Relative unevenness of times up to which they count as a grid: a master steps by equal intervals."""


@dataclass(frozen=True)
class Unit:
    """A functional mock-up unit of FMI 2.0 or 3.0.

    Parameters and start values by name, outputs that are recorded.

    path: the file; name, description: those of the file; outputs: recorded, all outputs of the unit or else its states;
    inputs: driven from outside; values: start values of settable variables; units: of all of these, "" for none.

    Examples
    --------
    >>> import kapitza as kz
    >>> kz.Unit  # made by kz.open_unit("rig.fmu", trusted=True)
    <class 'kapitza.flow.unit.Unit'>
    """

    path: Path
    name: str
    description: str
    outputs: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    values: Mapping[str, float] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)

    def run(
        self, times: Array, values: Mapping[str, float], inputs: Mapping[str, Array] | None = None
    ) -> dict[str, Array]:
        """Return outputs (N,) at an even grid of times.

        values: other start values by name. inputs: (N,) by name.
        """
        for name in values:
            if name not in self.values:
                known = ", ".join(list(self.values)[:10])
                raise ArgumentError(
                    f'"{name}" cannot be set.{nearest_name(name, list(self.values))} There are: {known}.'
                )
        for name in inputs or {}:
            if name not in self.inputs:
                raise ArgumentError(f'"{name}" is not an input; inputs are {", ".join(self.inputs) or "none"}.')
        step = even_step(times)
        fmpy = _fmpy()
        table = None
        if inputs:
            kinds = np.dtype([("time", float), *((name, float) for name in inputs)])
            table = np.zeros(times.size, kinds)
            table["time"] = times
            for name, column in inputs.items():
                table[name] = checks.array(f'Input "{name}"', column, shape=(times.size,))
        try:
            found = fmpy.simulate_fmu(
                str(self.path), start_time=float(times[0]), stop_time=float(times[-1]), output_interval=step,
                start_values=dict(values), input=table, output=list(self.outputs), record_events=False,
                relative_tolerance=1e-10,
            )  # fmt: skip
        except Exception as problem:  # FMPy raises bare exceptions, also for failures of the unit
            raise FlowError(f'The unit "{self.name}" failed: {_told(problem)}') from problem
        if found["time"].size != times.size:
            raise FlowError(f'The unit "{self.name}" stopped at {found["time"][-1]:.9g} of {times[-1]:.9g}.')
        return {name: np.asarray(found[name], float) for name in self.outputs}


class RunningUnit:
    """A unit in co-simulation.

    Inputs are held, outputs are read, and time is advanced step by step.
    """

    def __init__(self, unit: Unit, values: Mapping[str, float], inputs: Sequence[str], outputs: Sequence[str]):
        fmpy = _fmpy()
        self.name, self.time, self._folder = unit.name, 0.0, tempfile.TemporaryDirectory()
        try:
            described = fmpy.read_model_description(str(unit.path))
            if described.coSimulation is None:
                raise ModelError(f'The unit "{unit.name}" has no co-simulation, which a rig needs.')
            references = {v.name: v.valueReference for v in described.modelVariables}
            self._inputs, self._outputs = ([references[n] for n in names] for names in (inputs, outputs))
            fmpy.extract(str(unit.path), unzipdir=self._folder.name)
            self._unit = fmpy.instantiate_fmu(self._folder.name, described, fmi_type="CoSimulation")
            # The names of one function differ between the versions of FMI.
            new = described.fmiVersion.startswith("3")
            self._get = self._unit.getFloat64 if new else self._unit.getReal
            self._set = self._unit.setFloat64 if new else self._unit.setReal
            if not new:
                self._unit.setupExperiment(startTime=0.0)
            if values:
                self._set([references[n] for n in values], [float(v) for v in values.values()])
            self._unit.enterInitializationMode()
            self._unit.exitInitializationMode()
        except ModelError:
            self._folder.cleanup()
            raise
        except Exception as problem:  # FMPy raises bare exceptions, also for failures of the unit
            self._folder.cleanup()
            raise FlowError(f'The unit "{unit.name}" did not start: {_told(problem)}') from problem

    def read(self) -> list[float]:
        """Return the outputs at the present time."""
        return self._get(self._outputs)

    def advance(self, held: Sequence[float], step: float) -> None:
        """Hold the inputs at these values for a step."""
        try:
            if self._inputs:
                self._set(self._inputs, list(held))
            self._unit.doStep(self.time, step)
        except Exception as problem:
            raise FlowError(f'The unit "{self.name}" failed at {self.time:.6g} s: {_told(problem)}') from problem
        self.time += step

    def close(self) -> None:
        """End the unit and remove its unpacked files."""
        with suppress(Exception):  # a unit that failed cannot always be terminated
            self._unit.terminate()
        self._unit.freeInstance()
        self._folder.cleanup()


def _told(problem: Exception) -> str:
    return checks.printable(str(problem))[:300]


def open_unit(path: str | os.PathLike[str], trusted: bool = False) -> Unit:
    """Open a unit (.fmu) as a black box.

    Parameters
    ----------
    path : path
        The file.
    trusted : bool
        A unit is a program and runs with your rights. Pass True for one whose origin you know.

    Returns
    -------
    Unit
        Its outputs, inputs and start values.

    Examples
    --------
    >>> import kapitza as kz
    >>> kz.open_unit("rig.fmu")
    Traceback (most recent call last):
    ...
    kapitza.errors.ModelError: "rig.fmu" is a program that would run with your rights; pass trusted=True if you know ...
    """
    path = Path(path)
    shown = checks.printable(path.name)
    if not trusted:
        raise ModelError(
            f'"{shown}" is a program that would run with your rights; pass {Give(trusted=True)} if you know where it '
            "is from."
        )
    if not path.is_file() or not zipfile.is_zipfile(path):
        raise ModelError(f'"{shown}" is not there, or is not a unit (a zip file).')
    try:
        described = _fmpy().read_model_description(str(path), validate=True)
    except ModelError:
        raise
    except Exception as problem:
        raise ModelError(f'"{shown}" has no valid description: {_told(problem)}') from problem
    real = [v for v in described.modelVariables if v.type in ("Real", "Float64") and not v.dimensions]
    outputs = [v.name for v in real if v.causality == "output"]
    states = [d.variable.derivative.name for d in described.derivatives if d.variable.derivative is not None]
    settable = {
        v.name: float(v.start)
        for v in real
        if v.start is not None and v.causality in ("parameter", "local", "output", None) and v.variability != "constant"
    }
    return Unit(
        path=path.resolve(),
        name=checks.printable(described.modelName),
        description=checks.printable(described.description or ""),
        outputs=tuple(outputs or states),
        inputs=tuple(v.name for v in real if v.causality == "input"),
        values=settable,
        units={v.name: v.unit or "" for v in real},
    )


def even_step(times: Array) -> float:
    """Return the interval of an even grid.

    Other times are refused.
    """
    if times.size < 2:
        raise ArgumentError("A unit needs two or more times.")
    step = float(times[-1] - times[0]) / (times.size - 1)
    apart = float(np.abs(times - (times[0] + step * np.arange(times.size))).max())
    if apart > EVEN * max(abs(step), 1e-300) * times.size:
        raise ArgumentError("A unit is run over an even grid of times; give np.arange(n) * dt.")
    return step


def _fmpy() -> Any:
    try:
        return import_module("fmpy")
    except ImportError as problem:
        raise ModelError('Units are run by FMPy: pip install "kapitza[fmu]".') from problem
