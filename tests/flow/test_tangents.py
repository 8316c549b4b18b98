"""Tangents and sensitivities of every library flow against differences."""

import numpy as np
import pytest

from flow.differences import TOLERANCE, column_error
from kapitza import Flow, library
from kapitza.flow.simulation import start_of

FLOWS = [system for system in library.SYSTEMS if not system().is_map]


STRUTS = {"oleo": [0.13, 293.0, 0.4], "oleo_simple": [0.13, 0.4]}
"""Moving starts: near rest the struts forget their start within 1e-4 s, and no difference in doubles resolves that."""


def horizon(model) -> float:
    """A time over which every term has acted: a period and a bit, or a unit of time."""
    return 1.3 * model.period if model.period is not None else 1.3


@pytest.mark.parametrize("system", FLOWS, ids=lambda system: system.__name__)
def test_jacobian_columns_equal_differences(system):
    model = system()
    # One flow for this test and the next: the code of a double pendulum takes seconds to compile.
    flow, x = Flow(model, wrt=model.names, tolerance=TOLERANCE), np.array(STRUTS.get(model.name, start_of(model)))
    t1 = horizon(model)
    if model.name in STRUTS:
        t1 = 0.0333  # six knots of the measured force, still moving
    jacobian = flow.propagate(x, 0.0, t1).jacobian
    for i, unit in enumerate(np.eye(x.size)):
        scale = max(abs(x[i]), 1e-2)
        error = column_error(
            jacobian[:, i], lambda s, unit=unit: flow.propagate(x + s * unit, 0.0, t1, tangents=False).state, scale
        )
        assert error < 1e-6, f"column {model.states[i]}: {error:.2g}"


@pytest.mark.parametrize("system", FLOWS, ids=lambda system: system.__name__)
def test_sensitivities_equal_differences(system):
    model = system()
    flow, x, t1 = Flow(model, wrt=model.names, tolerance=TOLERANCE), start_of(model), horizon(model)
    sensitivity = flow.propagate(x, 0.0, t1).sensitivity
    for i, name in enumerate(model.names):
        value = model.values[name]
        error = column_error(
            sensitivity[:, i],
            lambda s, name=name, value=value: flow.propagate(x, 0.0, t1, {name: value + s}, tangents=False).state,
            abs(value) or 1e-2,
        )
        assert error < 1e-6, f"column {name}: {error:.2g}"
