"""Short texts that say long things: derived parameters in chains, Fourier series of many samples."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from kapitza import Flow, Model, Parameter, Signal, simulate
from kapitza.errors import ModelError
from kapitza.model import symbol

LEVELS = 20


def chain(levels: int = LEVELS, start: float = 1e-3) -> list[Parameter]:
    """a0 = a1 (1 + a1), a1 = a2 (1 + a2), ...: two to the power of the levels terms, written out."""
    names = [symbol(f"a{i}") for i in range(levels + 1)]
    derived = [Parameter(s.name, expression=inner * (1 + inner)) for s, inner in pairwise(names)]
    return [*derived, Parameter(names[-1].name, start)]


def chained(value: float) -> float:
    for _ in range(LEVELS):
        value = value * (1 + value)
    return value


def test_a_chain_of_derived_parameters_is_right():
    """Written out it has 2^20 terms, which would take hours."""
    model = Model.from_equations("x'' = -(1 + a0)*x + b*0", parameters=[*chain(), Parameter("b", 1.0)])
    assert model.values["a0"] == pytest.approx(chained(1e-3), rel=1e-14)
    stiffness = 1 + chained(1e-3)
    times = np.linspace(0.0, 5.0, 7)
    flow = Flow(model, wrt=[f"a{LEVELS}"])
    np.testing.assert_allclose(
        simulate(model, [1.0, 0.0], t=times)["x"], np.cos(np.sqrt(stiffness) * times), atol=1e-13
    )
    run = flow.propagate([1.0, 0.0], 0.0, 5.0)
    step = 1e-6
    ends = [np.cos(np.sqrt(1 + chained(1e-3 + s)) * 5.0) for s in (-step, step)]
    assert run.sensitivity[0, 0] == pytest.approx((ends[1] - ends[0]) / (2 * step), rel=1e-6)


def test_a_chain_where_it_cannot_be_kept_short_is_refused():
    model = Model.from_equations("x'' = -a0*abs(x)", parameters=chain())
    with pytest.raises(ModelError, match="middle of the chain"):
        Flow(model)


def test_a_fourier_signal_of_300_samples_is_right():
    values = np.random.default_rng(3).standard_normal(300)
    signal = Signal("u", np.arange(300) / 300, values, period=1.0, kind="fourier")
    model = Model.from_equations("x' = u", signals=[signal], period=1.0)
    path = simulate(model, [0.0], t=[0.0, 0.5, 1.0])["x"]
    mean, cosines, sines = signal.fourier
    k = np.arange(1, cosines.size + 1)
    half = mean / 2 + np.sum((cosines * np.sin(np.pi * k) + sines * (1 - np.cos(np.pi * k))) / (2 * np.pi * k))
    np.testing.assert_allclose(path, [0.0, half, mean], atol=1e-12)
