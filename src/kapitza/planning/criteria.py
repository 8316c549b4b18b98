"""Criteria of an experiment, as numbers to minimise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

import numpy as np
import sympy as sp

from kapitza.base.arrays import Array
from kapitza.base.cures import Give
from kapitza.errors import DataError
from kapitza.model import Model, parse_expression, symbol
from kapitza.planning.knowledge import covariance

Criterion = Literal["mean log", "worst draw", "worst width", "A", "D"]
"""Mean log width over draws and wants; the draw where that is worst; the widest want; mean variance; determinant."""

CRITERIA = get_args(Criterion)

ENOUGH = 0.7
"""Share of its aim below which a narrower width does not count: otherwise a plan would polish one parameter only."""

TIE = 1e-3
"""Weight of widths below their aim."""

DIFFERENCE = 1e-4
"""Step of the derivative of a wanted prediction, in standard errors: below curvature, above rounding."""

Want = str | Callable[[Model], float]
"""A parameter, an expression of parameters, or a function of the model."""


@dataclass(frozen=True)
class Wanted:
    """Quantities q(θ) of which narrow intervals are wanted.

    labels; values (w,); slopes (w, k) = ∂q/∂θ; aims (w,): widths that are enough, 0 where narrower is always better.
    """

    labels: tuple[str, ...]
    values: Array
    slopes: Array
    aims: Array

    def widths(self, information: Array) -> Array:
        """Return standard errors from information.

        They are √(g Σ gᵀ): (..., w) from information (..., k, k).
        """
        spread = covariance(information)
        known = np.isfinite(spread)
        variance = np.einsum("wi,...ij,wj->...w", self.slopes, np.where(known, spread, 0.0), self.slopes)
        # An unknown parameter makes every quantity infinite that depends on it.
        endless = (
            np.einsum(
                "wi,...i->...w", np.abs(self.slopes), np.isinf(np.diagonal(spread, axis1=-2, axis2=-1)).astype(float)
            )
            > 0
        )
        unknown = np.asarray(np.isnan(spread).any(axis=(-2, -1)))
        width = np.sqrt(np.where(endless, np.inf, np.clip(variance, 0.0, None)))
        return np.where(unknown[..., None], np.nan, width)

    def reached(self, information: Array) -> bool:
        """Return whether information (k, k) meets every aim."""
        return bool((self.aims > 0).all() and (self.widths(information) <= self.aims).all())

    def score(self, information: Array, criterion: Criterion) -> Array:
        """Return the number (...) to minimise.

        It follows from information (..., D, k, k) at D draws.
        """
        width = self.widths(information)
        with np.errstate(divide="ignore"):
            enough = np.log(np.maximum(width, ENOUGH * self.aims))
            # Among experiments that all reach the aims the narrowest is still the best.
            log = enough - np.log(self.scale) + TIE * (np.log(width) - enough)
        # A draw whose motion leaves every bound makes the experiment worthless, not better.
        log = np.where(np.isnan(log), np.inf, log)
        # Over 40 true values of a Duffing the mean log lost 3 % against the best run, the median over draws 26 %.
        if criterion == "mean log":
            return log.mean(axis=(-2, -1))
        if criterion == "worst draw":
            return log.mean(axis=-1).max(axis=-1)
        if criterion == "worst width":
            return log.max(axis=-1).mean(axis=-1)
        if criterion == "A":
            return np.log(np.exp(2 * log).mean(axis=(-2, -1))) / 2
        sign, determinant = np.linalg.slogdet(np.where(np.isfinite(information), information, 0.0))
        halves = np.where(sign > 0, -determinant / (2 * information.shape[-1]), np.inf)
        return halves.mean(axis=-1)

    @property
    def scale(self) -> Array:
        """Return the scale by which widths are compared.

        It holds the moduli of the values, or 1 for those at 0.
        """
        return np.where(self.values != 0, np.abs(self.values), 1.0)


def check_aim(aim: float | None) -> None:
    """Refuse an aim that nothing reaches."""
    if aim is not None and not aim > 0:
        raise DataError(f"aim is {aim:g}: give the relative width that is enough, above 0, such as {Give(aim=0.01)}.")


def wanted(
    model: Model, names: Sequence[str], values: Array, width: Array, want: Sequence[Want] | None, aim: float | None
) -> Wanted:
    """Return the wanted quantities.

    They are taken at the values (k,) of the free parameters, known to width (k,).
    aim: relative width that is enough, for all of them.
    """
    check_aim(aim)
    asked: list[Want] = list(names) if want is None else list(want)
    labels, found, slopes = [], [], []
    for one in asked:
        label, value, slope = _quantity(model, names, values, width, one)
        labels.append(label)
        found.append(value)
        slopes.append(slope)
        if not np.isfinite([value, *slope]).all():
            raise DataError(f'"{label}" is {value} with slopes {slope} at the present values: it cannot be wanted.')
        if not np.any(slope):
            raise DataError(f'"{label}" does not depend on the free parameters {", ".join(names)}: it is known.')
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise DataError(f"Wanted twice: {', '.join(twice)}. Give functions different names.")
    quantities = np.array(found, float)
    aims = np.zeros(len(found)) if aim is None else aim * np.where(quantities != 0, np.abs(quantities), 1.0)
    return Wanted(tuple(labels), quantities, np.array(slopes, float).reshape(len(found), len(names)), aims)


def _quantity(model: Model, names: Sequence[str], values: Array, width: Array, want: Want) -> tuple[str, float, Array]:
    at = dict(zip(names, values.tolist(), strict=True))
    if isinstance(want, str):
        if want in at:
            return want, at[want], np.array([float(n == want) for n in names])
        expression = parse_expression(want, model.names)
        known = {symbol(n): v for n, v in {**model.values, **at}.items()}
        found = [expression, *(sp.diff(expression, symbol(n)) for n in names)]
        value, *by = (_real(complex(sp.N(one.xreplace(known)))) for one in found)
        return want, value, np.array(by)
    label = want.func.__name__ if isinstance(want, partial) else want.__name__
    centre = float(want(model.with_values(**at)))
    slope = []
    for i, name in enumerate(names):
        # The step follows the standard error: the derivative is needed on that scale.
        step = DIFFERENCE * width[i]
        ends = [float(want(model.with_values(**{**at, name: values[i] + sign * step}))) for sign in (1, -1)]
        slope.append((ends[0] - ends[1]) / (2 * step))
    return label, centre, np.array(slope)


def _real(value: complex) -> float:
    """Return the number, NaN where it is complex."""
    return value.real if abs(value.imag) <= 1e-12 * abs(value) else float("nan")
