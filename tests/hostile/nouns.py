"""Small valid nouns of every kind, made once per process: what random calls are made on and with."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

FOLDER = Path("/nonexistent")


class Stopping:
    """A monitor that ends the work after a second of computing."""

    def __init__(self, seconds: float = 1.0):
        self.end, self.stopped = process_time() + seconds, False

    @property
    def cancelled(self) -> bool:
        self.stopped = process_time() > self.end
        return self.stopped

    def show(self, progress: Any) -> None:
        pass


class Here:
    """An executor that works at once, in this process."""

    def submit(self, fn: Any, /, *args: Any) -> Any:
        from concurrent.futures import Future

        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args))
        except BaseException as problem:
            future.set_exception(problem)
        return future


def squared(item: Any, shared: Any, random: Any) -> dict[str, float]:
    """Work of an ensemble."""
    return {"y": float(item) ** 2}


@cache
def nouns() -> dict[str, list[Any]]:
    """Valid objects by the name of their class; None for a kind means that it is made at the call."""
    import kapitza as kz

    forced = kz.Model.from_equations(
        "x'' + 0.2*x' + k*x + 0.1*x**3 = B*cos(w*t)",
        parameters={"k": kz.Parameter("k", 4.0, bounds=(1.0, 9.0)), "w": 1.5, "B": 1.0},
        start={"x": 0.4, "x'": 0.0},
        period="2*pi/w",
    )
    free = kz.Model.from_equations("x'' + 0.1*x' + k*x = 0", parameters={"k": 4.0}, start={"x": 1.0, "x'": 0.0})
    logistic = kz.Model.from_map({"x": "a*x*(1 - x)"}, parameters={"a": 3.8}, start={"x": 0.3})
    delayed = kz.Model.from_equations("x' = -k*x(t - 1)", parameters={"k": 1.0}, start={"x": 1.0})
    bouncing = kz.Model.from_equations(
        "y'' + 9.81 = 0", impacts=[{"surface": "y", "reset": {"y'": "-0.5*y'"}}], start={"y": 1.0, "y'": 0.0}
    )
    pendulum = kz.library.parametric_pendulum()
    lorenz = kz.library.lorenz()
    record = kz.simulate(forced, t=np.arange(0, 12, 0.1), noise=0.01, seed=1).select(["x"])
    decay = kz.simulate(free, t=np.linspace(0, 5, 101)).select(["x"])
    strobed = kz.simulate(logistic, periods=300)
    angles = kz.simulate(pendulum, periods=20, samples_per_period=8)
    pieces = kz.Record.from_arrays([0.0, 1, 2, 3, 4, 5], {"x": [0, 1.0, 0, 1, 0, 1]}, segment=[0, 0, 0, 1, 1, 1])
    single = kz.Record.from_arrays([0.0], {"x": [1.0]}, units={"x": "mm"})
    gaps = kz.Record.from_arrays([0.0, 1, 2, 7, 8], {"x": [0, 1.0, 2.0, 3, 4], "y": [1.0, 1, 1, 1, 1]}, period=2.0)
    orbit = kz.solve_orbit(forced)
    folding = kz.Model.from_equations("x' = r - x**2", parameters={"r": 1.0}, start={"x": 1.0})
    branch = kz.follow(forced, orbit, "k", (3.9, 4.3))
    rest = kz.follow(folding, {"x": 1.0}, "r", (-1, 2), equilibrium=True)
    shooting = kz.identify(forced, record, ["k"], method=kz.ShootingFit())
    harmonic = kz.identify(free, decay, ["k"], method=kz.HarmonicFit())
    orbits = kz.find_orbits(logistic, max_period=2, region={"x": (0, 1)}, starts=32)
    measured = kz.MeasuredBranch("response", "w", [0.8, 1.2], [0.5, 0.9], state="x")
    made: dict[str, list[Any]] = {
        "Model": [forced, free, logistic, delayed, bouncing, pendulum, lorenz, folding],
        "Record": [record, decay, strobed, angles, pieces, single, gaps],
        "PeriodicOrbit": [orbit, orbits[0]],
        "OrbitSet": [orbits],
        "Branch": [branch, rest],
        "Bifurcation": [*rest.bifurcations, *branch.bifurcations],
        "Estimate": [shooting, harmonic],
        "Validation": [kz.validate(shooting, record, parts=["prediction"])],
        "Inspection": [kz.inspect(record)],
        "MeasuredBranch": [measured],
        "Flow": [kz.Flow(forced, ("k",)), kz.Flow(free), kz.Flow(lorenz), kz.Flow(bouncing), kz.Flow(delayed)],
        "Map": [kz.Map(logistic, ("a",))],
        "Diagram": [kz.diagram(forced, orbit, "k", (3.9, 4.2), depth=1, max_branches=1, max_points=5)],
        "Ensemble": [kz.ensemble(squared, [1.0, 2.0])],
        "Basins": [kz.basins(forced, {"x": (-1, 1), "x'": (-1, 1)}, grid=4, transient=10)],
        "LyapunovSpectrum": [
            kz.exponents(forced, length=200.0),
            kz.exponents(forced, plane={"k": (3.9, 4.2)}, grid=2, length=100.0),
        ],
        "ModalReduction": [kz.modal_reduction(np.eye(2), np.diag([1.0, 4.0]), 1)],
        "Executor": [Here()],
        "Parameter": [kz.Parameter("k", 1.0), kz.Parameter("zz", 2.0, "N/m")],
        "Coordinate": [kz.Coordinate("x"), kz.Coordinate("phi", angle=True)],
        "Prior": [kz.Prior(1.0, 0.1)],
        "Status": list(kz.Status),
        "Progress": [kz.Progress("work", 1.0, 2.0)],
        "Silent": [kz.Silent()],
        "Bar": [kz.Bar()],
        "Signal": [kz.Signal("s", np.linspace(0, 1, 5), np.sin(np.arange(5.0)), 1.25)],
        "Sensor": [kz.Sensor("x"), kz.Sensor("x", unknown="offset")],
        "Stepping": [kz.Stepping(max_points=5)],
        "Choice": [kz.Choice({"B": 0.5}, duration=4.0, step=0.1, channels={"x": 0.01})],
        "Search": [kz.Search(points=2, polish=0, draws=2, shown=2)],
    }
    made |= rig_nouns()
    for name, kind in {name: getattr(home, name) for home in (kz.rig, kz) for name in home.__all__}.items():
        # Settings of methods, as they are by default.
        if isinstance(kind, type) and name not in made and not issubclass(kind, Exception):
            try:
                made[name] = [kind()]
            except TypeError:
                continue
    made["Estimator"] = [made[n][0] for n in ("ShootingFit", "HarmonicFit", "OrbitFit", "InvariantFit")]
    made["Method"] = [made[n][0] for n in ("Shooting", "MultipleShooting", "Collocation", "HarmonicBalance")]
    return made


def rig_nouns() -> dict[str, list[Any]]:
    """Return the nouns of `kapitza.rig`: a small rig, what is set on it and what it returns."""
    from kapitza import rig

    shaker = rig.duffing_rig(sample_time=1e-2)
    wave = rig.FourierSeries(1.2, [0.0, 0.3, 0.1])
    found = rig.settle_and_measure(shaker, {"x": wave}, {"omega": 1.2, "B": 0.3})
    test = rig.Experiment(shaker, frequency="omega", modes=2, scales={"x": 1.0}, values={"B": 0.3, "omega": 1.2})
    branch = test.follow({"x": rig.FourierSeries(1.2, [0.0, 0.9, 0.15])}, "omega", (1.19, 1.22))
    return {
        "SimulatedRig": [shaker],
        "Rig": [shaker],
        "LimitedRig": [rig.LimitedRig(shaker)],
        "Experiment": [test],
        "FourierSeries": [wave],
        "Measurement": [found],
        "RigBranch": [branch],
        "RigPoint": list(branch.points),
        "PeriodicInput": list(shaker.inputs),
        "RigParameter": [rig.RigParameter("B", 0.3, bounds=(0.0, 1.0))],
        "SecondOrder": [rig.SecondOrder(10.0)],
        "DelayStability": [rig.delay_stability(0.2, 0.1, 200.0, 0.05, 0.01)],
        "LiveTable": [rig.LiveTable("B", "x")],
    }


def thread_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1)
