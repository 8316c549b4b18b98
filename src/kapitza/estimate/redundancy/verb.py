"""The function `identifiability`, for use before an experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from kapitza.base import checks
from kapitza.base.argument_checks import Anything
from kapitza.data import FITTED
from kapitza.errors import ModelError
from kapitza.estimate.identifiability import Identifiability
from kapitza.estimate.method import Accepts, Estimator
from kapitza.estimate.observation import Output, observe_channels
from kapitza.estimate.redundancy.equivalents import equivalents
from kapitza.estimate.redundancy.motions import rank_by_motions
from kapitza.estimate.redundancy.structural import structural
from kapitza.estimate.request import free_names
from kapitza.estimate.sensors import with_sensors
from kapitza.model import Model


@dataclass(frozen=True)
class _Outputs(Estimator):
    """Outputs with every sensor error possibly unknown."""

    accepts: ClassVar[Accepts] = Accepts((), unknown=tuple(e.name for e in FITTED), lost_samples=True)

    outputs: Mapping[str, Output] = field(default_factory=dict)


def identifiability(
    model: Model,
    measured: Sequence[str] | str | None = None,
    free: Sequence[str] | str | None = None,
    outputs: Mapping[str, Anything] | None = None,
    settings: Sequence[Mapping[str, float]] = (),
) -> Identifiability:
    """Return which parameters sensors determine.

    Otherwise it returns which combinations of them, by the structure of the equations alone.

    A change of the parameters that a change of the coordinates (scales, shifts, mixtures of hidden states) undoes is
    seen by no sensor, whatever the record. What such changes leave alone is named exactly: sums, products, products of
    sums. Any of it may be freed as it is printed: ``free=["(ka + kb)/m"]``. Data can determine less (a motion too small
    to feel a cubic spring), never more, unless initial states or priors are given. The count is checked on motions from
    random states; where their sensitivities distinguish fewer combinations, none is named. Parameters that are
    determined may still have twins, other values with the same outputs (exchanged rates of compartments, a sign):
    ``equivalents`` lists those that an affine change of the states leads to, for the values of the model.

    Parameters
    ----------
    model : Model
        The equations; values decide only what is fixed, and signs.
    measured : list of str, optional
        Channels: states, outputs of the model, or names in `outputs`; by default all outputs given here, else those
        of the model, else all coordinates.
    free : list of str, optional
        Parameters that are unknown, all of them when left out.
    outputs : mapping, optional
        What channels measure, as in `ShootingFit`: ``{"volt": "gain*x"}``, ``{"volt": Sensor("x", "gain")}``.
    settings : list of mappings, optional
        Parameter values of the recordings that will be fitted together, as in ``(record, {"F": 0.2})``.

    Returns
    -------
    Identifiability
        ``determined`` holds the combinations, ``message()`` describes them as text.

    Examples
    --------
    >>> import kapitza as kz
    >>> prey = kz.Model.from_equations(["x' = a*x - b*x*y", "y' = d*x*y - g*y"],
    ...                                parameters={"a": 1.0, "b": 0.5, "d": 0.3, "g": 0.7})
    >>> kz.identifiability(prey, ["x"]).determined
    ('a', 'd', 'g')
    >>> kz.identifiability(prey, ["x", "y"]).complete
    True
    >>> drug = kz.Model.from_equations(["a' = -ka*a", "c' = ka*a - ke*c"], parameters={"ka": 1.5, "ke": 0.5})
    >>> kz.identifiability(drug, ["c"]).exchanges()
    'ka = 0.5, ke = 1.5'
    """
    outputs = dict(outputs or {})
    if measured is None:
        measured = list(outputs) or list(model.outputs) or [c.name for c in model.coordinates]
    channels = checks.texts("measured", [measured] if isinstance(measured, str) else measured, error=ModelError)
    names = free_names(model, free)
    asked = with_sensors(model, (), None if names is None else list(names), _Outputs(outputs))
    model, outputs = asked.model, dict(asked.method.outputs)
    names = model.names if asked.free is None else tuple(asked.free)
    seen = observe_channels(model, channels, [False] * len(channels), outputs, names)
    unknown = [c for c in channels if c not in seen.channels]
    if unknown:
        raise ModelError(
            f'"{unknown[0]}" is neither a state nor an output of {model.name}: say what it measures by outputs.'
        )
    settings = list(settings) or [{}]
    twins = equivalents(model, seen.expressions, names, settings)
    found = structural(model, seen.expressions, names, settings)
    if found is None:
        raise ModelError(
            f"The equations of {model.name} do not show what can be determined (past values in them, or no states at "
            "which they have a value): fit a simulated record instead, or see cramer_rao."
        )
    by_motions = rank_by_motions(model, seen, names, settings, found.rank)
    if by_motions is not None and by_motions < found.rank:
        # A symmetry that is nonlinear in the coordinates: the formulas found may then be undetermined.
        words = f"sensitivities of motions distinguish only {by_motions} of {found.rank} combinations"
        return replace(found, rank=by_motions, determined=(), undetermined=(*found.undetermined, words), exact=False)
    return replace(found, equivalents=twins) if found.complete else found
