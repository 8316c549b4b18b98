"""Kernels for an accelerator: their numbers by the C compiler, and what is refused by name."""

import ctypes

import numpy as np
import pytest
from tests.flow.device_checks import CHECKS, henon, pendulum, wells
from tests.flow.on_host import Host, can_compile

import kapitza as kz
from kapitza.errors import ArgumentError, DataError, ModelError
from kapitza.flow import DeviceError
from kapitza.flow.device import card


@pytest.fixture
def host(monkeypatch):
    if not can_compile():
        pytest.skip("no C compiler on this computer")
    backend = Host()
    monkeypatch.setattr(card, "cuda", lambda: backend)
    return backend


@pytest.mark.parametrize("name", CHECKS)
def test_kernels(host, name):
    CHECKS[name]()


def test_many_launches_give_the_numbers_of_one(host, monkeypatch):
    flow, states = kz.Flow(wells()), np.random.default_rng(1).uniform(-1, 1, (37, 2))
    rows = np.tile(wells().vector, (37, 1)) * np.linspace(0.9, 1.0, 37)[:, None]
    whole = flow.propagate_many(states, 0.0, 5.0, rows, tangents=True, device="cuda")
    monkeypatch.setattr(card, "WORK_AT_ONCE", 10)
    parts = flow.propagate_many(states, 0.0, 5.0, rows, tangents=True, device="cuda")
    assert np.array_equal(whole.state, parts.state)
    assert np.array_equal(whole.jacobian, parts.jacobian)


def test_results_are_copied_into_their_part_of_the_whole():
    """The copies of a card by a driver that moves memory of this machine."""

    class Driver:
        class CUresult:
            CUDA_SUCCESS = 0

        def cuMemcpyDtoH(self, target, source, size):
            ctypes.memmove(target, source, size)
            return (0,)

    there = np.arange(24.0).reshape(2, 3, 4)
    whole = np.full((2, 3, 10), np.nan)
    taken = object.__new__(card.Card)
    taken._driver = Driver()
    taken._down(whole[..., 5:9], there.ctypes.data)
    assert np.array_equal(whole[..., 5:9], there)
    assert np.isnan(whole[..., :5]).all()
    assert np.isnan(whole[..., 9:]).all()


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (kz.Model.from_equations("x'' + abs(abs(x) - 1) = cos(t)", period="2*pi"), "switches inside switches"),
        (kz.Model.from_equations([f"x{i}' = -x{i}" for i in range(25)]), "25 equations"),
        (kz.Model.from_equations("x'' + sqrt(max(x, 0)) = cos(t)", period="2*pi"), "domain"),
    ],
)
def test_models_that_a_thread_cannot_follow_are_named(host, model, reason):
    states = np.full((2, len(model.states)), 0.5)
    with pytest.raises(ModelError, match=reason):
        kz.Flow(model).propagate_many(states, 0.0, 1.0, device="cuda")


def test_other_refusals(host):
    states, flow = np.zeros((2, 2)), kz.Flow(wells())
    with pytest.raises(ModelError, match="run forwards"):
        flow.propagate_many(states, 1.0, 0.0, device="cuda")
    with pytest.raises(ModelError, match="Sensitivities by parameter"):
        kz.Flow(wells(), ("c",)).propagate_many(states, 0.0, 1.0, tangents=True, device="cuda")
    with pytest.raises(ArgumentError, match="not both"):
        flow.propagate_many(states, 0.0, 1.0, processes=2, device="cuda")
    with pytest.raises(ArgumentError, match="cuda"):
        flow.propagate_many(states, 0.0, 1.0, device="gpu")
    with pytest.raises(DataError, match="points of a plane"):
        kz.exponents(pendulum(), device="cuda")
    signal = kz.Signal("u", np.arange(5) / 5, np.array([0.0, 1.0, 0.0, -1.0, 0.5]), 1.0, degree=1)
    measured = kz.Model.from_equations("x'' + x = u", signals=[signal], period=1.0)
    with pytest.raises(ModelError, match="measured"):
        kz.Flow(measured).propagate_many(states, 0.0, 1.0, device="cuda")
    delayed = kz.Model.from_equations("x' = -x(t - 1)", start={"x": 1.0})
    with pytest.raises(ModelError, match="delays"):
        kz.Flow(delayed).propagate_many(np.zeros((2, 1)), 0.0, 1.0, device="cuda")


def test_without_the_packages_of_a_card_the_extra_is_named(monkeypatch):
    """Nothing is followed on the processor instead."""
    import sys

    card._first_card.cache_clear()
    monkeypatch.setitem(sys.modules, "cuda", None)
    with pytest.raises(DeviceError, match=r"kapitza\[cuda\]"):
        kz.Flow(wells()).propagate_many(np.zeros((2, 2)), 0.0, 1.0, device="cuda")
    with pytest.raises(DeviceError, match=r"kapitza\[cuda\]"):
        kz.exponents(henon(), plane={"a": (1.0, 1.2)}, grid=2, length=100, device="cuda")
    with pytest.raises(DeviceError, match=r"kapitza\[cuda\]"):
        kz.basins(wells(), {"x": (-2, 2), "x'": (-1, 1)}, grid=3, transient=5, device="cuda")
