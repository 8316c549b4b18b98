"""Draw branches as smooth lines.

The lines pass through the points and the located bifurcations, and are cut where the stability changes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.text import Annotation
from scipy.interpolate import Akima1DInterpolator, CubicSpline

from kapitza.base.arrays import Array

if TYPE_CHECKING:
    from kapitza.continuation import Branch


BETWEEN = 12
"""Points drawn between two points of a branch."""

SWING = 0.02
"""Share of the range of a quantity by which the spline may differ from Akima's interpolant."""

NAMED = "name of a point"
"""Mark of the texts that `place_names` wrote."""

FONT = 8
"""Size of the names of points."""


@dataclass(frozen=True)
class BranchLine:
    """Describe a quantity (N,) along a branch.

    It is a function of the arclength, with the places of the bifurcations.
    """

    branch: Branch
    row: Array

    @cached_property
    def _knots(self) -> tuple[Array, Array, Array, list[float]]:
        """Return arclength, parameter and quantity at points and folds.

        All are in order; the last entry says where each bifurcation is.
        """
        branch = self.branch
        s, value = np.asarray(branch.arclength, float), branch.values[:, 0]
        if len(s) < 2 or not (np.diff(s) > 0).all():
            s = np.arange(len(value), dtype=float)
        along, height = _interpolant(s, value, branch), _interpolant(s, self.row, branch)
        places, extra = [], []
        for mark in branch.bifurcations:
            i = int(np.clip(mark.position, 0, max(len(s) - 2, 0)))
            begin, end = float(s[i]), float(s[min(i + 1, len(s) - 1)])
            place = _place(along, begin, end, mark.value)
            places.append(place)
            if begin < place < end:
                extra.append((place, mark.value, float(height(place))))
        rows = np.array([*zip(s, value, self.row, strict=True), *extra])
        rows = rows[np.unique(rows[:, 0], return_index=True)[1]]
        return rows[:, 0], rows[:, 1], rows[:, 2], places

    @property
    def marks(self) -> Array:
        """(M, 2) parameter and quantity of the bifurcations."""
        s, _, height, places = self._knots
        quantity = _interpolant(s, height, self.branch)
        found = [(mark.value, float(quantity(p))) for mark, p in zip(self.branch.bifurcations, places, strict=True)]
        return np.array(found).reshape(-1, 2)

    def pieces(self) -> Iterator[tuple[str, Array, Array]]:
        """Yield stability, parameter and quantity by stretch.

        Each stretch has one stability; they come in order.
        """
        s, value, height, places = self._knots
        if len(s) < 2:
            yield self.branch.stability[0], value, height
            return
        for begin, end, state in self._cuts(s, places):
            yield state, *self._between(begin, end)

    def whole(self) -> tuple[Array, Array]:
        """Return parameter and quantity along the whole branch."""
        s, value, height, _ = self._knots
        return (value, height) if len(s) < 2 else self._between(float(s[0]), float(s[-1]))

    def _between(self, begin: float, end: float) -> tuple[Array, Array]:
        s, value, height, _ = self._knots
        edges = np.concatenate([[begin], s[(s > begin) & (s < end)], [end]])
        share = np.linspace(0, 1, BETWEEN, endpoint=False)
        fine = np.append((edges[:-1, None] + np.diff(edges)[:, None] * share).ravel(), end)
        return _interpolant(s, value, self.branch)(fine), _interpolant(s, height, self.branch)(fine)

    def _cuts(self, s: Array, places: list[float]) -> Iterator[tuple[float, float, str]]:
        """Yield arclengths between which the stability is one.

        A cut is at the bifurcation where the stability changes, or half way between two points.
        """
        stability = np.array(self.branch.stability)
        own = np.asarray(self.branch.arclength, float)
        own = own if len(own) > 1 and (np.diff(own) > 0).all() else np.arange(len(stability), dtype=float)
        changes = np.flatnonzero(stability[1:] != stability[:-1])
        cuts = []
        for i in changes:
            inside = [p for p in places if own[i] <= p <= own[i + 1]]
            cuts.append(inside[0] if inside else 0.5 * (own[i] + own[i + 1]))
        edges = [float(s[0]), *cuts, float(s[-1])]
        states = [stability[0], *stability[changes + 1]]
        for (begin, end), state in zip(itertools.pairwise(edges), states, strict=True):
            if end > begin:
                yield begin, end, str(state)


def _interpolant(s: Array, values: Array, branch: Branch) -> Any:
    """Return an interpolant of values over the arclength.

    It is smooth where the events stay the same along the branch, straight where a change of them bends it.
    """
    if len(s) < 3 or len(set(branch.sequences)) > 1:
        return lambda x: np.interp(x, s, values)
    near, smooth = Akima1DInterpolator(s, values, method="makima"), CubicSpline(s, values)
    # A spline bends evenly, where Akima's curve has visible corners; where steps change abruptly it may swing out.
    fine = np.interp(np.arange(4 * len(s)) / 4, np.arange(len(s)), s)
    swing = float(np.abs(smooth(fine) - near(fine)).max())
    return smooth if swing <= SWING * float(np.ptp(values)) else near


def _place(along: Any, begin: float, end: float, value: float) -> float:
    """Return the arclength nearest to a parameter value.

    At a fold beyond both ends of the step it is the extreme.
    """
    fine = np.linspace(begin, end, 201)
    return float(fine[int(np.argmin(np.abs(along(fine) - value)))])


def place_names(axes: Axes, names: list[tuple[float, float, str]]) -> None:
    """Write names beside points without overlaps.

    No name covers another, a point or a line; places around each point are tried in turn.
    """
    axes.autoscale_view()
    figure = axes.get_figure(root=True)
    assert figure is not None
    unit = figure.dpi / 72
    # Names that an earlier curve on the same axes wrote are placed anew with these, each once.
    known = [text for text in axes.texts if text.get_gid() == NAMED]
    names = [*((*text.xy, text.get_text()) for text in known if isinstance(text, Annotation)), *names]
    for text in known:
        text.remove()
    names = _distinct(axes, names, 6 * unit)
    points = axes.transData.transform([(x, y) for x, y, _ in names]) if names else np.zeros((0, 2))
    taken = [_box(x - 4 * unit, y - 4 * unit, 8 * unit, 8 * unit) for x, y in points]
    inside, drawn = axes.get_window_extent(), _along_lines(axes, unit)
    for (x, y, text), (px, py) in zip(names, points, strict=True):
        # Estimated: letters are about 0.56 of the font size wide.
        width, height = 0.56 * FONT * unit * len(text), 1.3 * FONT * unit
        best: tuple[float, float, float, Any] | None = None
        for away, angle in itertools.product((7, 16, 28, 42, 60), np.radians(range(-45, 315, 45))):
            left = px + away * unit * np.cos(angle) - (width if np.cos(angle) < -0.1 else 0.0)
            low = py + away * unit * np.sin(angle) - 0.5 * height
            box = _box(left, low, width, height)
            # The last term prefers near places among equally free ones.
            overlap = sum(_common(box, other) for other in taken) + _outside(box, inside) + 1e-3 * away
            overlap += _covered(box, drawn) * unit**2
            if best is None or overlap < best[0]:
                best = (overlap, left, low, box)
            # Free: what remains is the cost of the distance, at most 0.06.
            if overlap < 0.1:
                break
        assert best is not None
        taken.append(best[3])
        shift = ((best[1] - px) / unit, (best[2] - py) / unit)
        # A line joins a name to its point where it is not obvious.
        far = max(abs(shift[0]), abs(shift[1])) > 20
        line = {"arrowstyle": "-", "lw": 0.5, "color": "0.5"} if far else None
        axes.annotate(text, (x, y), xytext=shift, textcoords="offset points", fontsize=FONT, va="bottom",
                      arrowprops=line, zorder=6, gid=NAMED)  # fmt: skip


def _distinct(axes: Axes, names: list[tuple[float, float, str]], nearness: float) -> list[tuple[float, float, str]]:
    """Return names without repeated ones at one point."""
    kept: list[tuple[float, float, str]] = []
    for x, y, text in names:
        here = axes.transData.transform((x, y))
        others = [axes.transData.transform(each[:2]) for each in kept if each[2] == text]
        if all(np.abs(here - other).max() > nearness for other in others):
            kept.append((x, y, text))
    return kept


def _box(left: float, low: float, width: float, height: float) -> tuple[float, float, float, float]:
    return left, low, left + width, low + height


def _along_lines(axes: Axes, spacing: float) -> Array:
    """Return points (K, 2) along the axes' lines.

    They are `spacing` pixels apart.
    """
    found = [np.zeros((0, 2))]
    for line in axes.lines:
        path = np.asarray(axes.transData.transform(line.get_xydata()), float)
        path = path[np.isfinite(path).all(axis=1)]
        if len(path) < 2:
            continue
        length = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(path, axis=0), axis=1)))
        # The limit keeps memory bounded where a line runs far out of the axes.
        at = np.arange(0.0, min(length[-1], 1e4 * spacing), spacing)
        found.append(np.stack([np.interp(at, length, path[:, k]) for k in (0, 1)], axis=1))
    return np.concatenate(found)


def _covered(box: Any, points: Array) -> int:
    """Return how many points are within a box."""
    within = (points > np.array(box[:2])) & (points < np.array(box[2:]))
    return int(within.all(axis=1).sum())


def _common(first: Any, second: Any) -> float:
    """Return the area that two boxes share."""
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    return max(width, 0.0) * max(height, 0.0)


def _outside(box: Any, inside: Any) -> float:
    """Return the area of a box outside the axes."""
    kept = _common(box, (inside.x0, inside.y0, inside.x1, inside.y1))
    return (box[2] - box[0]) * (box[3] - box[1]) - kept
