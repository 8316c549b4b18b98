"""Arguments of the verbs on families, rigs, sensors and validation: anything in place of a right one."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from tests.hostile.arguments import anything
from tests.hostile.family import register

RIGHT: dict[str, dict[str, list[Any]]] = {
    "follow": {
        "start": [[0.4, 0.0], {"x": 0.4, "x'": 0.0}, None],
        "parameter": ["k", "w"],
        "bounds": [(3.9, 4.2), (4.1, 3.8), None],
        "direction": [0, 1, -1],
        "period": [None, 2],
        "half_map": [True, False],
        "detect": [True, False],
        "equilibrium": [False, True],
    },
    "diagram": {"depth": [0, 1], "max_branches": [1, 3], "max_points": [1, 20], "bounds": [(3.9, 4.2)]},
    "Stepping": {"max_points": [5], "rule": [None], "predictor": [None], "corrector": [None]},
    "ByEffort": {"first": [0.1], "smallest": [1e-6], "largest": [1.0], "wanted": [4]},
    "MeasuredBranch": {
        "kind": ["response", "backbone", "fold"],
        "parameter": ["w"],
        "values": [[0.8, 1.2], 1.0],
        "amplitudes": [[0.5, 0.9], None],
        "state": ["x"],
        "value_noise": [1e-3],
        "amplitude_noise": [1e-2],
        "force": ["F"],
    },
    "Sensor": {
        "output": ["x", "x'"],
        "unknown": ["offset", ["gain"], "offset drift"],
        "gain": [1.0, 2],
        "offset": [0.0],
        "drift": [0.0],
        "delay": [0.0, 0.01],
        "limits": [(-1.0, 1.0), None],
    },
    "validate": {
        "record": [None],
        "outputs": [{"x": "x"}, None],
        "noise": [0.01, {"x": 0.01}, None],
        "stretches": [2, 8],
        "warm_up": [0.3],
        "max_period": [1],
        "parts": [["prediction"], ()],
    },
    "identify": {"own": ["k", ()], "executor": [None], "monitor": [None], "method": ["auto", None, "ShootingFit"]},
    "ShootingFit": {"noise": [0.01, None], "outputs": [{"x": "x"}, None], "process_noise": [False]},
    "find_orbits": {
        "max_period": [1],
        "starts": [4],
        "rounds": [1],
        "region": [{"x": (-2, 2), "x'": (-2, 2)}],
        "seed": [1],
    },
    "delay_stability": {
        "mass": [1.0],
        "damping": [0.1],
        "stiffness": [4.0],
        "moving_mass": [0.5],
        "delay": [0.01],
        "compensation": [0, 2],
    },
    "duffing_rig": {"sample_time": [1e-2], "gains": [(1.0, 0.8)], "seed": [1], "delay": [0.0, 0.01]},
    "rig.set": {"demands": [{}], "B": [0.3], "omega": [1.2], "depth": [0.0]},
    "FourierSeries": {"frequency": [1.0], "coefficients": [[0.0, 0.1, 0.0], [0.2]]},
    "rig.run": {"samples": [20, 1]},
}  # fmt: skip
"""Arguments of each call, with values that may well be right."""


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, str, Any]:
    name = draw(st.sampled_from(sorted(RIGHT)))
    key = draw(st.sampled_from(sorted(RIGHT[name])))
    likely = draw(st.integers(0, 2)) == 0
    return name, key, draw(st.sampled_from(RIGHT[name][key]) if likely else anything)


@cache
def forced() -> tuple[Any, Any, Any]:
    import kapitza as kz

    model = kz.Model.from_equations(
        "x'' + 0.2*x' + k*x + 0.1*x**3 = cos(w*t)", parameters={"k": 4.0, "w": 1.5}, start={"x": 0.4, "x'": 0.0},
        period="2*pi/w",
    )  # fmt: skip
    record = kz.simulate(model, t=np.arange(0, 12, 0.1), noise=0.01, seed=1).select(["x"])
    return model, kz.solve_orbit(model), record


def call(case: tuple[str, str, Any], _: Path) -> object:
    import kapitza as kz
    from kapitza import rig
    from kapitza.solve import ByEffort

    name, key, value = case
    given = {key: value}
    model, orbit, record = forced()
    if name == "follow":
        return repr(kz.follow(model, **{"start": orbit, "parameter": "k", "bounds": (3.9, 4.2), **given}))
    if name == "diagram":
        return repr(kz.diagram(model, orbit, "k", **{"bounds": (3.9, 4.2), "depth": 1, **given}))
    if name == "Stepping":
        return repr(kz.follow(model, orbit, "k", (3.9, 4.2), stepping=kz.Stepping(**given)))
    if name == "ByEffort":
        rule = ByEffort(**{"first": 0.05, "smallest": 1e-7, "largest": 0.2, **given})
        return repr(kz.follow(model, orbit, "k", (3.9, 4.2), stepping=kz.Stepping(rule=rule)))
    if name == "MeasuredBranch":
        right = {"kind": "response", "parameter": "w", "values": [0.8, 1.2], "amplitudes": [0.5, 0.9], "state": "x"}
        return repr(kz.MeasuredBranch(**{**right, **given}))
    if name == "Sensor":
        sensor = kz.Sensor(**{"output": "x", **given})
        return repr(kz.identify(model, record, ["k"], method=kz.ShootingFit(outputs={"x": sensor})))
    if name == "validate":
        return repr(kz.validate(model, **{"record": record, "parts": ["prediction"], **given}))
    if name == "identify":
        return repr(kz.identify(model, record, ["k"], **{"method": kz.ShootingFit(), **given}))
    if name == "ShootingFit":
        return repr(kz.identify(model, record, ["k"], method=kz.ShootingFit(**given)))
    if name == "find_orbits":
        region = {"x": (-2, 2), "x'": (-2, 2)}
        return repr(kz.find_orbits(model, **{"max_period": 1, "starts": 4, "rounds": 1, "region": region, **given}))
    if name == "delay_stability":
        right = {"mass": 1.0, "damping": 0.1, "stiffness": 4.0, "moving_mass": 0.5, "delay": 0.01}
        return repr(rig.delay_stability(**{**right, **given}))
    settings = given if name == "duffing_rig" else {}
    with rig.duffing_rig(**settings) as made:
        made.set({"x": rig.FourierSeries(1.0, [0.0, 0.1, 0.0])})
        if name == "rig.set":
            made.set(**{"demands": {}, **given})
        if name == "FourierSeries":
            made.set({"x": rig.FourierSeries(**{"frequency": 1.0, "coefficients": [0.0, 0.1, 0.0], **given})})
        return repr(made.run(value if name == "rig.run" else 20))


register("verbs: arguments", calls(), call, 1.0)
