"""Run as a program: every long verb is sent a real SIGINT while it works; what comes back is printed as JSON."""

import json
import os
import signal
import sys

import numpy as np

import kapitza as kz
from kapitza.solve import ByEffort


class Interrupter:
    """Presses Ctrl-C once the work has come past a number of reports."""

    cancelled = False

    def __init__(self, reports: int):
        self.left = reports

    def show(self, progress: kz.Progress) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)


def henon() -> kz.Record:
    from henon_map import henon

    points = henon(12_000)
    return kz.Record.from_arrays(np.arange(12_000.0), {"x": points[:, 0], "y": points[:, 1]}, period=1.0)


def simulated() -> dict:
    record = kz.simulate(kz.library.duffing(), periods=100_000, monitor=Interrupter(6))
    whole = kz.simulate(kz.library.duffing(), periods=record.size - 1)
    return {
        "status": record.status.name,
        "parts": record.size,
        "all": 100_001,
        "same": bool((record.values() == whole.values()).all()),
    }


def iterated() -> dict:
    model = kz.Model.from_map({"x": "1 - a*x**2"}, parameters={"a": 1.99}, start={"x": 0.3})
    record = kz.simulate(model, periods=3_000_000, monitor=Interrupter(4))
    return {"status": record.status.name, "parts": record.size, "all": 3_000_001, "same": True}


def census() -> dict:
    model = kz.Model.from_map({"x": "1 - a*x**2"}, parameters={"a": 1.99})
    settings = {"max_period": 8, "region": {"x": (-2.0, 2.0)}, "starts": 256, "rounds": 4}
    whole = kz.find_orbits(model, **settings)
    some = kz.find_orbits(model, **settings, monitor=Interrupter(2 + 8 * 4 + 1))
    known = {o.points.tobytes() for o in whole}
    return {
        "status": some.status.name,
        "parts": len(some),
        "all": len(whole),
        "same": all(o.points.tobytes() in known for o in some),
    }


def searched() -> dict:
    record = henon()
    whole = kz.find_orbits(record, max_period=6)
    some = kz.find_orbits(record, max_period=6, monitor=Interrupter(6))
    same = [np.array_equal(a.points, b.points) for a, b in zip(some, whole, strict=False)]
    return {"status": some.status.name, "parts": len(some), "all": len(whole), "same": all(same) and bool(same)}


def returned() -> dict:
    time = np.arange(0.0, 200.0, 0.05)
    record = kz.Record.from_arrays(time, {"x": np.sin(np.pi * time) + 0.1 * np.sin(np.sqrt(2) * time)}, period=1.0)
    whole = kz.find_orbits(record, max_period=4, method=kz.ReturnSearch())
    some = kz.find_orbits(record, max_period=4, method=kz.ReturnSearch(), monitor=Interrupter(5))
    same = all(a.repeats <= 3 for a in some)
    return {"status": some.status.name, "parts": 1, "all": 2 + len(whole), "same": same}


def inspected() -> dict:
    some = kz.inspect(henon(), monitor=Interrupter(4))
    return {
        "status": some.status.name,
        "parts": 1,
        "all": 2,
        "same": bool(some.noise) and some.lyapunov is None and "stopped" in some.suggestion,
    }


def oscillator() -> tuple[kz.Model, kz.Record]:
    model = kz.Model.from_equations(
        "x'' + c*x' + k*x + b*x**3 = 0", parameters={"c": 0.1, "k": 1.0, "b": 0.5}, start={"x": 1.0, "x'": 0.0}
    )
    return model, kz.measure(kz.simulate(model, t=np.arange(300) * 0.1), noise=0.01, seed=1)


def fitted() -> dict:
    model, record = oscillator()
    start = model.with_values(c=0.2, k=1.3, b=0.3)
    some = kz.identify(start, record, method=kz.ShootingFit(), monitor=Interrupter(4))
    moved = any(some[name] != start.values[name] for name in model.names)
    bare = bool(np.isnan(some.covariance).all()) and "stopped by the user" in some.warnings[0]
    return {"status": some.status.name, "parts": 1, "all": 2, "same": moved and bare}


def fitted_by_chain() -> dict:
    model, record = oscillator()
    some = kz.identify(model.with_values(c=0.2), record, monitor=AtSecondIteration())
    finite = bool(np.isfinite(list(some.values.values())).all())
    return {"status": some.status.name, "parts": 1, "all": 2, "same": finite}


class AtSecondIteration(Interrupter):
    """Presses Ctrl-C when the iteration of the last method of the chain is under way."""

    def __init__(self):
        super().__init__(10**9)

    def show(self, progress: kz.Progress) -> None:
        if progress.text.startswith("iteration 2") and self.left > 0:
            self.left = 1
        super().show(progress)


def fitted_weakly() -> dict:
    model, record = oscillator()
    some = kz.identify(model.with_values(c=float("nan")), record, ["c", "k"], kz.HarmonicFit(), monitor=Interrupter(2))
    near = abs(some["c"] - 0.1) < 0.05 and abs(some["k"] - 1) < 0.2
    return {"status": some.status.name, "parts": 1, "all": 2, "same": near and bool(np.isnan(some.covariance).all())}


def fitted_in_combinations() -> dict:
    model, record = oscillator()
    some = kz.identify(model, record, ["c/k"], kz.ShootingFit(), monitor=Interrupter(3))
    return {"status": some.status.name, "parts": 1, "all": 2, "same": abs(some["c/k"] - 0.1) < 0.05}


def conserved() -> tuple[kz.Model, kz.Record]:
    model = kz.library.henon_heiles()
    return model, kz.measure(kz.simulate(model, t=np.arange(200.0)), noise=1e-3, seed=1)


def fitted_to_an_invariant() -> dict:
    model, record = conserved()
    method = kz.InvariantFit("surface")
    some = kz.identify(model.with_values(b=0.5), record, ["b"], method, monitor=Interrupter(4))
    near = abs(some["b"] - 1) < 0.1 and bool(np.isnan(some.covariance).all())
    return {"status": some.status.name, "parts": 1, "all": 2, "same": near}


def resampled() -> dict:
    model, record = conserved()
    whole = kz.identify(model, record, ["b"], kz.InvariantFit())
    some = kz.identify(model, record, ["b"], kz.InvariantFit(bootstrap=500), monitor=AtSample(20))
    same = some.values == whole.values and np.array_equal(some.covariance, whole.covariance)
    return {"status": some.status.name, "parts": 1, "all": 2, "same": bool(same) and "stopped" in some.warnings[0]}


class AtSample(Interrupter):
    """Presses Ctrl-C when so many resampled fits are done."""

    def __init__(self, done: int):
        super().__init__(10**9)
        self.done = done

    def show(self, progress: kz.Progress) -> None:
        if progress.title == "bootstrap" and progress.done >= self.done and self.left > 0:
            self.left = 1
        super().show(progress)


def fitted_to_orbits() -> dict:
    model = kz.library.duffing()
    orbit = kz.solve_orbit(model)
    data = orbit.with_(covariance=1e-6 * np.eye(orbit.points.size))
    some = kz.identify(model.with_values(k=0.1), data, ["k"], monitor=Interrupter(3))
    return {"status": some.status.name, "parts": 1, "all": 2, "same": some["k"] != 0.1}


def fitted_to_a_branch() -> dict:
    model = forced()
    branch = kz.follow(model, None, "w", bounds=(0.6, 0.7), direction=1)
    data = kz.MeasuredBranch("response", "w", branch.values[1:-1, 0], branch.amplitude("x")[1:-1], state="x")
    start = model.with_values(k=0.5)
    some = kz.identify(start, data, ["k"], kz.BranchFit(bounds=(0.6, 0.7)), monitor=AtThirdTrial())
    nearer = abs(some["k"] - 1.0) < 0.5 and bool(np.isnan(some.covariance).all())
    return {"status": some.status.name, "parts": 1, "all": 2, "same": nearer and "last iteration" in some.warnings[0]}


class AtThirdTrial(Interrupter):
    """Presses Ctrl-C when the least-squares iteration has moved."""

    def __init__(self):
        super().__init__(10**9)

    def show(self, progress: kz.Progress) -> None:
        if progress.text.startswith("trial 3") and self.left > 0:
            self.left = 1
        super().show(progress)


def profiled() -> dict:
    model, record = oscillator()
    fit = kz.identify(model, record, method=kz.ShootingFit())
    low, high = kz.profile_interval(fit, "c")
    ends = kz.profile_interval(fit, "c", monitor=AfterFirstEnd())
    return {"status": "INTERRUPTED", "parts": 1, "all": 2, "same": ends[0] == low < high and bool(np.isnan(ends[1]))}


class AfterFirstEnd(Interrupter):
    """Presses Ctrl-C when one end of the interval is there."""

    def __init__(self):
        super().__init__(10**9)

    def show(self, progress: kz.Progress) -> None:
        if progress.done == 1 and self.left:
            self.left = 1
        super().show(progress)


def sampled() -> dict:
    model = kz.library.duffing()
    orbit = kz.solve_orbit(model)
    fit = kz.identify(model, orbit.with_(covariance=1e-6 * np.eye(orbit.points.size)), ["k"])
    some = kz.posterior(fit, draws=200, tune=20, monitor=Interrupter(60))
    return {
        "status": some.posterior.attrs["status"],
        "parts": some.posterior.sizes["draw"],
        "all": 200,
        "same": bool(np.isfinite(some.posterior["k"].values).all()),
    }


def sought() -> dict:
    model, _ = oscillator()
    conserved = model.with_values(c=0.0)
    record = kz.simulate(conserved, t=np.arange(400) * 0.05)
    whole = kz.find_invariant(record, degree=4)
    some = kz.find_invariant(record, degree=4, monitor=Interrupter(4))
    return {"status": some.status.name, "parts": 1, "all": 1 + len(whole), "same": len(some) <= len(whole)}


def followed() -> dict:
    model = kz.library.duffing()
    orbit = kz.solve_orbit(model)
    whole = kz.follow(model, orbit, "B", bounds=(0.1, 0.5))
    some = kz.follow(model, orbit, "B", bounds=(0.1, 0.5), monitor=Interrupter(4))
    known = {row.tobytes() for row in whole.points}
    same = all(row.tobytes() in known for row in some.points)
    return {"status": some.status.name, "parts": len(some.points), "all": len(whole.points), "same": same}


def forced() -> kz.Model:
    return kz.Model.from_equations(
        "x'' + c*x' + x + k*x**3 = B*cos(w*t)", parameters={"c": 0.1, "k": 1.0, "B": 0.3, "w": 0.6}, period="2*pi/w"
    )


def followed_without_forcing() -> dict:
    settings = {"force": "B", "damping": "c", "bounds": (0.9, 1.6)}
    whole = kz.backbone(forced(), "w", **settings)
    some = kz.backbone(forced(), "w", **settings, monitor=Interrupter(4))
    known = {row.tobytes() for row in whole.points}
    same = all(row.tobytes() in known for row in some.points)
    return {"status": some.status.name, "parts": len(some.points), "all": len(whole.points), "same": same}


def responded() -> dict:
    """Ctrl-C in the second of three responses: the third is not begun."""
    levels = [0.1, 0.2, 0.3]
    some = kz.frequency_response(forced(), "w", (0.5, 0.7), force="B", levels=levels, monitor=InSecondPart())
    same = [branch.status.name for branch in some.branches] == ["CONVERGED", "INTERRUPTED"]
    return {"status": some.status.name, "parts": len(some.branches), "all": 3, "same": same}


class InSecondPart(Interrupter):
    """Presses Ctrl-C within the second part of the work."""

    def __init__(self):
        super().__init__(10**9)
        self.parts = 0

    def show(self, progress: kz.Progress) -> None:
        self.parts = self.parts if progress.level else int(progress.done)
        if self.parts == 1 and progress.level == 1 and progress.done > 0 and self.left > 2:
            self.left = 2
        super().show(progress)


def followed_in_two_parameters() -> dict:
    branch = kz.follow(forced().with_values(w=0.8), None, "w", (0.8, 2.1), direction=1)
    settings = {"bounds": {"w": (1.2, 2.0), "B": (0.2, 0.4)}}
    fold = branch.bifurcations[0]
    whole = kz.follow(fold, ("w", "B"), **settings)
    some = kz.follow(fold, ("w", "B"), **settings, monitor=Interrupter(4))
    known = {row.tobytes() for row in whole.points}
    same = all(row.tobytes() in known for row in some.points)
    return {"status": some.status.name, "parts": len(some.points), "all": len(whole.points), "same": same}


def found_beside() -> dict:
    """A list has no status: what is found is given back."""
    model = kz.library.duffing()
    known = [kz.solve_orbit(model)]
    whole = kz.other_orbits(model, known, starts=12)
    some = kz.other_orbits(model, known, starts=12, monitor=Interrupter(9))
    same = [np.array_equal(a.points, b.points) for a, b in zip(some, whole, strict=False)]
    return {"status": "INTERRUPTED", "parts": len(some), "all": 1 + len(whole), "same": all(same)}


def census_on_a_section() -> dict:
    model = kz.library.lorenz()
    settings = {"max_period": 4, "section": "z - 27", "starts": 128}
    whole = kz.find_orbits(model, **settings)
    some = kz.find_orbits(model, **settings, monitor=Interrupter(6))
    known = {o.code for o in whole}
    return {
        "status": some.status.name,
        "parts": 1 + len(some),
        "all": 1 + len(whole),
        "same": all(o.code in known for o in some),
    }


def drawn() -> dict:
    model = kz.library.parametric_pendulum().with_values(omega=12.5)
    orbit = kz.solve_orbit(model, {"phi": 2.98, "phi'": 11.0})
    settings = {"depth": 2, "direction": -1, "max_points": 60}
    some = kz.diagram(model, orbit, "omega", (9.2, 12.6), **settings, monitor=Interrupter(3))
    return {"status": some.status.name, "parts": len(some.branches), "all": 3, "same": some.levels == (0, 1)}


def drawn_from_a_root() -> dict:
    """Ctrl-C within the first branch, which shows nothing: an alarm presses it, later where it came before the work."""
    model = kz.library.duffing()
    orbit = kz.solve_orbit(model)
    kz.follow(model, orbit, "B", bounds=(0.19, 0.21))
    small = kz.Stepping(rule=ByEffort(1e-4, 1e-5, 1e-4), max_points=100_000)  # minutes of work
    signal.signal(signal.SIGPROF, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    for wait in (0.05, 0.1, 0.2, 0.4, 0.8):
        signal.setitimer(signal.ITIMER_PROF, wait)  # computing time: other programs do not count
        try:
            some = kz.diagram(model, orbit, "B", bounds=(0.1, 40.0), stepping=small)
        except KeyboardInterrupt:
            continue
        if some.branches:
            return {
                "status": some.status.name,
                "parts": len(some.branches),
                "all": 2,
                "same": len(some.branches[0]) > 0,
            }
    raise AssertionError("no alarm came within the first branch")


def sorted_by_attractor() -> dict:
    wells = kz.Model.from_equations("x'' + 0.3*x' - x + x**3 = 0.02*cos(t)", period="2*pi")
    region, grid = {"x": (-2.0, 2.0), "x'": (-1.0, 1.0)}, (40, 30)
    whole = kz.basins(wells, region, grid=grid, transient=20)
    some = kz.basins(wells, region, grid=grid, transient=20, monitor=Interrupter(3))
    tried = some.labels != -3
    same = bool((some.labels[tried] == whole.labels[tried]).all()) and not (whole.labels == -3).any()
    return {"status": some.status.name, "parts": int(tried.sum()), "all": tried.size, "same": same}


def charted() -> dict:
    duffing, plane = kz.library.duffing(), {"k": (0.05, 0.3), "B": (0.1, 7.0)}
    settings = {"grid": 26, "length": 60.0, "transient": 20.0, "blocks": 4}
    whole = kz.exponents(duffing, plane, **settings)
    some = kz.exponents(duffing, plane, **settings, monitor=Interrupter(2))
    done = np.isfinite(some.values[..., 0])
    same = bool((some.values[done] == whole.values[done]).all()) and bool(np.isfinite(whole.values).all())
    return {"status": some.status.name, "parts": int(done.sum()), "all": done.size, "same": same}


def ran_many() -> dict:
    whole = kz.ensemble(_root, range(40), seed=1)
    some = kz.ensemble(_root, range(40), seed=1, monitor=Interrupter(4))
    same = [a == b for a, b in zip(some.columns["root"], whole.columns["root"], strict=False)]
    return {"status": some.status.name, "parts": len(some), "all": len(whole), "same": all(same) and bool(same)}


def _root(number: int, shared: None, generator: np.random.Generator) -> dict:
    return {"root": np.sqrt(number) + generator.standard_normal()}


def covered() -> dict:
    model, record = oscillator()
    clean = kz.simulate(model, t=record.time).select(["x"])
    found = kz.coverage(model, clean, 0.01, ["c", "k"], kz.HarmonicFit(), fits=40, monitor=Interrupter(60)).fits
    # The fit that was stopped is not a failure.
    return {"status": found.status.name, "parts": len(found), "all": 40, "same": not found.failures}


def checked() -> dict:
    model, record = oscillator()
    fit = kz.identify(model, record, method=kz.ShootingFit())
    some = kz.validate(fit, record, monitor=Interrupter(2))
    return {"status": some.status.name, "parts": 1, "all": 2, "same": str(some) != ""}


def traced() -> dict:
    model, record = oscillator()
    fit = kz.identify(model, record, method=kz.ShootingFit())
    some = kz.profile_curve(fit, "c", points=7, monitor=Interrupter(4))
    known = np.isfinite(some.rise)
    return {
        "status": "INTERRUPTED",
        "parts": int(known.sum()),
        "all": 7,
        "same": bool((some.rise[known] > -1e-6).all()),
    }


VERBS = {f.__name__: f for f in (simulated, iterated, census, searched, returned, inspected)}
VERBS |= {f.__name__: f for f in (fitted, fitted_by_chain, fitted_to_orbits, profiled, sampled, sought)}
VERBS |= {f.__name__: f for f in (fitted_weakly, fitted_in_combinations, fitted_to_an_invariant, resampled)}
VERBS |= {f.__name__: f for f in (fitted_to_a_branch, followed_without_forcing, responded, found_beside)}
VERBS |= {f.__name__: f for f in (followed_in_two_parameters, census_on_a_section)}
VERBS |= {
    f.__name__: f
    for f in (followed, drawn, drawn_from_a_root, sorted_by_attractor, charted, ran_many, covered, checked, traced)
}

if __name__ == "__main__":
    # A process that was started in the background begins with Ctrl-C ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    print(json.dumps({name: VERBS[name]() for name in sys.argv[1:] or VERBS}))
