"""Experiments of one model under any of its drives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kapitza.base.argument_checks import Anything
from kapitza.base.arrays import Array
from kapitza.errors import DataError, nearest_name
from kapitza.model import Expression, Model, Signal, parse_expression, with_drives
from kapitza.planning.choice import Choice
from kapitza.planning.delayed import DelayedRunner
from kapitza.planning.runs import Runner, Runs

Drives = Mapping[str, Mapping[str, Signal | Expression]]
"""Label of a drive → what each measured drive of the model is then."""


def drives_of(model: Model, given: Mapping[str, Anything] | None) -> dict[str, dict[str, Signal | Expression]]:
    """Check the drives that were given.

    Each is a Signal, an expression in t, or a table of them by the names of the measured drives.
    """
    found: dict[str, dict[str, Signal | Expression]] = {}
    own = tuple(signal.name for signal in model.signals)
    for label, one in (given or {}).items():
        if not own:
            raise DataError(
                f'Model "{model.name}" has no measured drive to exchange for "{label}". Write the drive as a signal '
                "(signals=[Signal(...)]), or vary the parameters of its excitation."
            )
        if not label:
            raise DataError("A drive needs a name that is not empty.")
        table = one if isinstance(one, Mapping) else {(one.name if isinstance(one, Signal) else own[0]): one}
        if not isinstance(one, Mapping) and not isinstance(one, Signal) and len(own) > 1:
            raise DataError(f'Drive "{label}": name which of {", ".join(own)} it is, {{"{own[0]}": ...}}.')
        found[label] = {}
        for name, drive in table.items():
            if name not in own:
                raise DataError(f'Drive "{label}": "{name}" is not a measured drive.{nearest_name(name, own)}')
            found[label][name] = drive if isinstance(drive, Signal) else parse_expression(drive, ["t"])
    return found


class Experiments:
    """Experiments of a model under any drive.

    Followed by tangents, or by differences where the model has delays.
    free: the parameters whose information is wanted; limits: expressions that are followed; outputs: what channels
    measure; drives: those that choices may name.
    """

    def __init__(
        self,
        model: Model,
        free: Sequence[str],
        limits: Sequence[str] = (),
        outputs: Mapping[str, str] | None = None,
        drives: Drives | None = None,
    ):
        self.model, self.free, self.limits, self.outputs = model, tuple(free), tuple(limits), outputs
        self.drives = drives or {}
        self._runners: dict[str, Runner | DelayedRunner] = {}
        self._under("")  # refuse a model that cannot be followed at once

    def run(self, choices: Sequence[Choice], draws: Array, most: Array | None = None) -> Runs:
        """Follow every choice at every draw.

        draws: (D, k) of the free parameters. most: (l,) values of the limits beyond which a choice needs no
        information.
        """
        labels = list(dict.fromkeys(choice.drive for choice in choices))
        if len(labels) == 1:
            return self._under(labels[0]).run(choices, draws, most)
        k, shape = len(self.free), (len(choices), len(draws))
        told, peaks = np.full((*shape, k, k), np.nan), np.full((*shape, len(self.limits)), np.nan)
        size, growth = np.full(shape, np.nan), np.full(shape, np.nan)
        for label in labels:
            here = [i for i, choice in enumerate(choices) if choice.drive == label]
            done = self._under(label).run([choices[i] for i in here], draws, most)
            told[here], peaks[here], size[here], growth[here] = done.information, done.peaks, done.size, done.growth
        return Runs(told, peaks, size, growth)

    def motion(self, choice: Choice, values: Array) -> tuple[Array, Array]:
        """Return times and noise-free samples of one run.

        They are times (m,) and samples (m, c), at values (k,) of the free parameters.
        """
        return self._under(choice.drive).motion(choice, values)

    def channels(self, choice: Choice) -> tuple[str, ...]:
        """Return the channels of a choice, in `motion` order."""
        return self._under(choice.drive).channels(choice)

    def _under(self, drive: str) -> Runner | DelayedRunner:
        if drive not in self._runners:
            if drive and drive not in self.drives:
                raise DataError(f'There is no drive "{drive}".{nearest_name(drive, self.drives)} Give drives={{...}}.')
            model = with_drives(self.model, self.drives[drive]) if drive else self.model
            kind = DelayedRunner if model.delays else Runner
            self._runners[drive] = kind(model, self.free, self.limits, self.outputs)
        return self._runners[drive]
