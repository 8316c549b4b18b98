"""Models whose clock starts at an unknown time.

The time of the excitation becomes a parameter.
"""

from __future__ import annotations

from dataclasses import replace

from kapitza.errors import ModelError
from kapitza.model.model import Model
from kapitza.model.parts import Parameter
from kapitza.model.symbols import symbol, time

CLOCK = "clock"


def with_clock(model: Model) -> Model:
    """Return the model with a shifted clock.

    t + clock [s] replaces the time t: the recording began `clock` later than its stamps state.

    For forced models whose recordings do not tell when the excitation began; free the parameter "clock" with the
    others.

    Parameters
    ----------
    model : Model
        A forced one.

    Returns
    -------
    Model
        With one parameter more, "clock" [s], at 0.

    Examples
    --------
    >>> import kapitza as kz
    >>> model = kz.Model.from_equations("x'' + x = F*cos(2*t)", parameters={"F": 1.0}, period="pi")
    >>> kz.with_clock(model).equations[0]
    -F*cos(2*clock + 2*t) + x + x''
    """
    if CLOCK in {p.name for p in model.parameters} or CLOCK in model.states:
        raise ModelError(f'Model "{model.name}" has a "{CLOCK}" already.')
    if model.excitation is None or model.excitation.signals or model.is_map:
        raise ModelError(
            f'Model "{model.name}" has no excitation written in t: there is no clock to find. A measured drive has the '
            "clock of its recording."
        )
    shifted = {time: time + symbol(CLOCK)}
    return replace(
        model,
        equations=tuple(e.xreplace(shifted) for e in model.equations),
        outputs={name: e.xreplace(shifted) for name, e in model.outputs.items()},
        impacts=tuple(
            replace(i, surface=i.surface.xreplace(shifted), reset={s: e.xreplace(shifted) for s, e in i.reset.items()})
            for i in model.impacts
        ),
        parameters=(
            *model.parameters,
            Parameter(CLOCK, 0.0, unit="s", description="the recording began so much later"),
        ),
    )
