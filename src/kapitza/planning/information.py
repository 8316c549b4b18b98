"""kz.information: the Fisher information of experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kapitza.base.argument_checks import Reals
from kapitza.base.arrays import Array
from kapitza.errors import DataError
from kapitza.model import Model
from kapitza.planning.choice import Choice
from kapitza.planning.experiments import Experiments


def information(
    model: Model,
    choices: Choice | Sequence[Choice],
    free: Sequence[str],
    draws: Reals | None = None,
    outputs: Mapping[str, str] | None = None,
) -> Array:
    """Return the Fisher information of experiments on parameters.

    It is F = Σ (∂y/∂θ)ᵀ (∂y/∂θ) / σ² over the samples y, with the state at the beginning unknown. A chaotic run is cut
    into windows with a state each, which is what a fit by multiple shooting can use. F is not inverted: a choice
    without information on a combination of parameters has a singular F. F adds up over experiments and prior knowledge.

    Parameters
    ----------
    model : Model
        At the values of its parameters.
    choices : Choice or list of Choice
        The experiments.
    free : list of str
        The k parameters.
    draws : (D, k) array, optional
        Values of the parameters at which F is computed; the model's own by default.
    outputs : mapping, optional
        What channels measure, in plain notation, where they are not states or outputs of the model.

    Returns
    -------
    array
        (k, k) for one choice; (C, k, k) for a list; (C, D, k, k), or (D, k, k) for one choice, with draws. NaN where a
        motion leaves every bound.

    Examples
    --------
    >>> import numpy as np, kapitza as kz
    >>> model = kz.Model.from_equations("x'' + c*x' + x = 0", parameters={"c": 0.1})
    >>> run = kz.Choice(start={"x": 1.0}, duration=20.0, step=0.1, channels={"x": 0.01})
    >>> width = np.sqrt(1 / kz.information(model, run, free=["c"])[0, 0])
    >>> bool(0.0003 < width < 0.001)
    True
    """
    one = isinstance(choices, Choice)
    several = [choices] if isinstance(choices, Choice) else list(choices)
    names = tuple(free)
    if not several or not names:
        raise DataError("information needs at least one choice and one free parameter.")
    values = np.array([[model.values[name] for name in names]]) if draws is None else np.asarray(draws, float)
    if values.ndim != 2 or values.shape[1] != len(names) or not np.isfinite(values).all():
        raise DataError(
            f"draws has the shape {values.shape}; give finite numbers, one row per draw with {len(names)} values."
        )
    found = Experiments(model, names, outputs=outputs).run(several, values).information
    found = found[:, 0] if draws is None else found
    return found[0] if one else found
