"""Live views of a branch on a rig.

A line per point in the terminal, and a picture that grows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from kapitza.base.argument_checks import Anything
from kapitza.base.files import replacing
from kapitza.rig.branch import RigPoint


@dataclass
class LiveTable:
    """Table that prints each point when found.

    It is passed as watch=.
    parameter, output: what to show; scale divides the parameter (to quote a forcing in another unit). stop: called with
    the point, True ends the continuation.
    """

    parameter: str
    output: str
    scale: float = 1.0
    stop: Callable[[RigPoint], bool] | None = None
    console: Anything = None
    count: int = 0

    def __call__(self, point: RigPoint) -> bool:
        if self.console is None:
            from rich.console import Console

            self.console = Console()
        if self.count == 0:
            self.console.print(
                f"{'point':>5}  {self.parameter:>10}  {'max ' + self.output:>12}  {'residual':>8}  {'effort':>8}  "
                f"{'modes':>5}  {'measured':>8}",
                style="bold",
                highlight=False,
            )
        self.count += 1
        self.console.print(
            f"{self.count:>5}  {point.value / self.scale:>10.5g}  {point.series(self.output).peak():>12.5g}  "
            f"{point.residual:>7.2f}σ  {point.effort:>8.2g}  {point.modes:>5}  {point.measurements:>8}",
            highlight=False,
        )
        return bool(self.stop(point)) if self.stop is not None else False


@dataclass
class GrowingPlot:
    """Plot of the branch, redrawn after each point.

    The file is replaced whole, so a viewer may reload it.
    path: .png, .svg or .pdf. every: points between two pictures.
    """

    path: str | Path
    parameter: str
    output: str
    scale: float = 1.0
    every: int = 1
    stop: Callable[[RigPoint], bool] | None = None
    points: list[tuple[float, float]] = field(default_factory=list)

    def __call__(self, point: RigPoint) -> bool:
        self.points.append((point.value / self.scale, point.series(self.output).peak()))
        if len(self.points) % self.every == 0:
            self.draw()
        return bool(self.stop(point)) if self.stop is not None else False

    def draw(self) -> None:
        from kapitza.report import plot_growing_branch

        with replacing(self.path) as draft:
            plot_growing_branch(np.array(self.points), self.parameter, self.output).savefig(draft)


def watching(*watchers: Callable[[RigPoint], bool | None]) -> Callable[[RigPoint], bool]:
    """Combine several watchers into one.

    The continuation ends when any of them returns True.
    """

    def all_of_them(point: RigPoint) -> bool:
        answers = [bool(watcher(point)) for watcher in watchers]  # every one of them is to see the point
        return any(answers)

    return all_of_them
