"""One experiment as data.

What is set, how the motion begins, what is measured, how long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from kapitza.base.arrays import Array
from kapitza.base.cures import Give
from kapitza.errors import DataError

Approach = Literal["state", "from below", "from above"]
"""How a run reaches its motion: from a given state, or by a slow sweep of one setting."""

LEVELS = 12
"""Steps of a sweep: between two of them the response of a resonance changes by less than its width."""


@dataclass(frozen=True)
class Choice:
    """An experiment that can be run.

    Parameters
    ----------
    settings : mapping
        Parameters of the model that the experimenter sets: amplitude, frequency, an added mass.
    start : mapping
        State at the beginning, by name; states left out are 0 (at rest).
    duration, step : float
        Length of the recording and time between samples [s].
    channels : mapping
        What is measured → standard deviation of its noise. `plan(measure=...)` may name it instead.
    settle : float
        Time that passes between the start and the recording [s], for sweeps at every level.
    approach : "state", "from below" or "from above"
        A sweep begins at the other end of `sweep` and reaches the setting in small steps.
    sweep : (name, low, high), optional
        The setting that is swept, with its range.
    begin : float
        Time of the drive at the start [s]: its phase.
    drive : str
        Which of the drives of the plan excites the model; "" for the model's own.

    Examples
    --------
    >>> import kapitza as kz
    >>> kz.Choice({"F": 0.3, "omega": 1.2}, duration=60, step=0.1, channels={"x": 0.01}).samples
    601
    """

    settings: Mapping[str, float] = field(default_factory=dict)
    start: Mapping[str, float] = field(default_factory=dict)
    duration: float = 60.0
    step: float = 0.1
    channels: Mapping[str, float] = field(default_factory=dict)
    settle: float = 0.0
    approach: Approach = "state"
    sweep: tuple[str, float, float] | None = None
    begin: float = 0.0
    drive: str = ""

    def __post_init__(self) -> None:
        if not (0 < self.step <= self.duration < np.inf):
            raise DataError(
                f"A run of {self.duration:g} s with a sample every {self.step:g} s: both must be above 0, and the run "
                "at least one step long."
            )
        if self.settle < 0:
            raise DataError(f"settle = {self.settle:g} s: a run cannot wait a negative time.")
        quiet = {name: noise for name, noise in self.channels.items() if not 0 < noise < np.inf}
        if quiet:
            raise DataError(
                f"Noise of the channels: {quiet}. Give what is measured with the standard deviation of its noise, "
                f"above 0: {Give(channels={'x': 0.01})}."
            )
        if self.approach != "state" and self.sweep is None:
            raise DataError(
                f"{Give(approach=self.approach)} needs the setting to sweep: {Give(sweep=('omega', 0.5, 2.0))}."
            )
        if self.approach != "state" and not self.settle:
            raise DataError(f"A sweep needs the time that it stays at each level: {Give(settle=...)}, in seconds.")
        if self.sweep is not None and self.sweep[0] not in self.settings:
            raise DataError(f'The swept setting "{self.sweep[0]}" has no value in settings.')

    @property
    def samples(self) -> int:
        """Samples of the recording, both ends included."""
        # Rounding of duration/step must not lose the last sample.
        return int(np.floor(self.duration / self.step * (1 + 1e-12))) + 1

    @property
    def levels(self) -> Array:
        """Values of the swept setting.

        The chosen one comes last; empty without a sweep.
        """
        if self.approach == "state" or self.sweep is None:
            return np.empty(0)
        name, low, high = self.sweep
        return np.linspace(low if self.approach == "from below" else high, self.settings[name], LEVELS)

    @property
    def seconds(self) -> float:
        """Time on the rig: recording and settling."""
        return self.duration + self.settle * max(1, self.levels.size)

    def __str__(self) -> str:
        said = [f"{name} = {value:.4g}" for name, value in self.settings.items()]
        if self.drive:
            said.insert(0, f"drive {self.drive}")
        if self.sweep is not None and self.approach != "state":
            said.append(f"{self.sweep[0]} swept {self.approach}")
        said += [f"{name}(0) = {value:.4g}" for name, value in self.start.items() if value]
        said.append(f"{self.duration:.4g} s")
        return f"{', '.join(said)}; measure {', '.join(self.channels)}"
