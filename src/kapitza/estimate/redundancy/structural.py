"""Structural identifiability of the free parameters of a fit.

It is tested before a fit, and after one with undetermined parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from kapitza.base.arrays import Array
from kapitza.errors import IdentifiabilityError, KapitzaError, ModelError
from kapitza.estimate.derived import slopes_at
from kapitza.estimate.identifiability import Identifiability, analyse, determined, echelon
from kapitza.estimate.redundancy.combine import combine
from kapitza.estimate.redundancy.symmetries import Conditions, Sampled
from kapitza.estimate.request import Request
from kapitza.model import Expression, Model, parse_expression, to_text

FEW, MANY = 6, 400
"""Parameter sets at which symmetries are sampled: few for shifts and scales, many to find sums of products."""

MOST_COORDINATES = 8
"""Most coordinates of a model that is tested before a fit: the cost grows as the cube, 10 s of processor time at 20."""


def structural(
    model: Model,
    outputs: Sequence[Expression],
    free: Sequence[str],
    settings: Sequence[Mapping[str, float]] = ({},),
    span: tuple[float, float] = (0.0, 1.0),
) -> Identifiability | None:
    """Return which parameters the outputs determine.

    outputs: expressions in states, time and parameters. settings: parameter values of the recordings, one by one; span:
    their first and last time. None where the equations do not decide: past values in them, no points at which they can
    be evaluated, ranks that are not clear.
    """
    given = tuple(sorted({tuple(sorted(own.items())) for own in settings})) or ((),)
    return _structural(model, tuple(outputs), tuple(free), given, span)


@lru_cache(maxsize=64)
def _structural(
    model: Model,
    outputs: tuple[Expression, ...],
    free: tuple[str, ...],
    settings: tuple[tuple[tuple[str, float], ...], ...],
    span: tuple[float, float],
) -> Identifiability | None:
    if model.delays or not free:
        return None
    try:
        conditions = Conditions.of(model, outputs, free)
    except ModelError:
        return None
    owns = [dict(own) for own in settings]
    # A few samples decide the rank and simple formulas; many are needed only for sums of products.
    few, everywhere = conditions.sample(owns, FEW, seed=1), None
    if few is None:
        return None
    if few.count:
        # A law that acts at other sizes only is no symmetry.
        wide = conditions.sample(owns, FEW, seed=1, everywhere=span)
        if wide is not None and wide.count < few.count:
            few, everywhere = wide, span
    if few.count == 0:
        return replace(determined(free), exact=True)
    found = combine(few, free)
    if found.missing:
        many = conditions.sample(owns, MANY, seed=2, everywhere=everywhere)
        if many is not None and many.count == few.count:
            found = combine(many, free)
    texts = tuple(to_text(f, free) for f in found.formulas)
    return Identifiability(
        names=free,
        rank=len(free) - few.count,
        determined=texts,
        undetermined=_as_text(few, free, texts),
        directions=echelon(few.directions[0]),
        condition=float("inf"),
        exact=True,
    )


def _as_text(sampled: Sampled, names: Sequence[str], texts: Sequence[str]) -> tuple[str, ...]:
    """Describe the parameters that are not determined."""
    loose = [n for n, moved in zip(names, np.abs(sampled.directions).max(axis=(0, 2)) > 1e-7, strict=True) if moved]
    kept = " as long as these keep their values" if texts else ""
    return (f"{', '.join(loose)} may change{' together' if len(loose) > 1 else ''} and no output shows it{kept}",)


def _recorded(request: Request) -> tuple[list[Mapping[str, float]], tuple[float, float]]:
    """Return the parameter values of the recordings, and their first and last time."""
    times = [part.record.time for part in request.parts if part.record is not None]
    first, last = min((t.min() for t in times), default=0.0), max((t.max() for t in times), default=1.0)
    return [part.values for part in request.parts], (float(first), float(last))


def refuse_redundant(request: Request, outputs: Sequence[Expression]) -> None:
    """Refuse free parameters that no data can distinguish.

    Parameters with a prior count as known.
    """
    model = request.model
    if model.structure.steps or len(model.coordinates) > MOST_COORDINATES:
        return  # large linkages and chains: tested only where a fit finds a singular direction
    # A prior determines its parameter even where the data do not.
    names = tuple(n for n in request.names if model.parameter(n).prior is None)
    found = structural(model, outputs, names, *_recorded(request))
    if found is not None and not found.complete:
        raise IdentifiabilityError(found.message())


def identifiable(
    request: Request, theta: Array, information: Array, size: Array, outputs: Sequence[Expression]
) -> Identifiability:
    """Return which parameters an information matrix (k, k) determines.

    The values are theta (k,); size (k,): as in `analyse`. Combinations are the formulas that follow from the
    equations, not powers found from the numbers, where the two agree in rank.
    """
    found, model = analyse(information, request.names, size), request.model_at(theta)
    if found.complete:
        return found
    try:
        exact = structural(model, outputs, found.names, *_recorded(request))
    except KapitzaError:
        return found
    if exact is None or exact.complete:
        return found
    # The data may determine less than the equations: only combinations unaffected by these directions are kept.
    texts = [t for t in exact.determined if _untouched(t, found, model)]
    if len(texts) == found.rank:
        undetermined = exact.undetermined if exact.rank == found.rank else found.undetermined
        return replace(found, determined=tuple(texts), undetermined=undetermined, exact=True)
    return found


def _untouched(text: str, found: Identifiability, model: Model) -> bool:
    """Return whether a combination is unaffected by undetermined directions.

    It keeps its value, to first order, along the directions that the data do not determine.
    """
    expression = parse_expression(text, found.names)
    slope = slopes_at(model, [expression], found.names)[0] * [model.values[n] for n in found.names]
    size = np.abs(slope).max(initial=0.0) * np.abs(found.directions).max(initial=1.0)
    return bool((np.abs(slope @ found.directions) <= 1e-4 * size).all())
