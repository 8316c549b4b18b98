"""`python -m harness.pictures [NAME ...]`: the pictures of the documentation, written into docs/images."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.text import Text

import kapitza as kz
from kapitza.model import LAWS
from kapitza.report import plot_attractor, plot_force_surface, plot_intervals, plot_likelihood, plot_orbit, plot_record
from kapitza.report.style import ACCENT, CYCLE, QUIET, styled

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"


def data() -> Figure:
    """A recording with an interruption, channels in SI."""
    time = np.concatenate([np.arange(0, 6, 0.02), np.arange(9, 15, 0.02)])
    swing = np.exp(-0.15 * (time % 9)) * np.cos(5.2 * (time % 9))
    noise = 0.01 * np.random.default_rng(1).standard_normal((2, time.size))
    record = kz.Record.from_arrays(
        time,
        {"phi": np.radians(40) * swing + noise[0], "x": 0.02 * swing**2 + 2e-4 * noise[1]},
        units={"phi": "rad", "x": "m"},
        segment=(time >= 9).astype(int),
    )
    return plot_record(record)


def laws() -> Figure:
    """The ready laws of friction and stiffness."""
    import sympy as sp

    x, v = sp.symbols("x v", real=True)
    with styled():
        figure, (friction, stiffness) = plt.subplots(1, 2, figsize=(8.4, 3.2), layout="constrained")
        at = np.linspace(-1.5, 1.5, 601)
        values = {"c": 0.6, "s": 0.5, "w": 0.25, "k": 0.7, "d": 0.6}
        for axes, names, variable in (
            (friction, ("viscous", "coulomb", "quadratic", "cubic_damping", "stribeck"), v),
            (stiffness, ("linear", "cubic", "quintic", "bilinear", "gap"), x),
        ):
            for number, name in enumerate(names):
                law = LAWS[name]
                force = law.force(x, v, *(values[p] for p, _, _ in law.parameters))
                drawn = sp.lambdify(variable, force, "numpy")(at)
                axes.plot(at, drawn, color=CYCLE[number % len(CYCLE)], label=name)
            axes.set_ylim(-1.6, 1.6)
            axes.set_xlabel("velocity" if variable is v else "position")
            axes.legend()
        friction.set_ylabel("force")
        return figure


def force_surface() -> Figure:
    """The restoring-force surface of a fitted oscillator with a hardening spring."""
    truth = kz.Model.from_equations("x'' + c*x' + k*x + k3*x**3 = 0", parameters={"c": 0.3, "k": 4.0, "k3": 6.0})
    clean = kz.simulate(truth, [1.5, 0.0], t=np.arange(800) * 0.02)
    record = kz.measure(clean.select(["x"]), noise=0.01, seed=1)
    start = truth.with_values(c=0.2, k=3.0, k3=1.0)
    return plot_force_surface(kz.identify(start, record, ["c", "k", "k3"], kz.ShootingFit()))


def flows() -> Figure:
    """One point per excitation period of the chaotic pendulum."""
    return plot_attractor(kz.simulate(kz.library.parametric_pendulum(), periods=20_000))


def events() -> Figure:
    """A mass on a moving belt: it sticks until the spring is strong enough, then slips."""
    model = kz.Model.from_equations(
        "x'' + 0.05*x' + x + F*sign(x' - v) = 0", parameters={"F": 0.6, "v": 0.4}, name="belt"
    )
    record = kz.simulate(model, [0.0, 0.0], t=np.linspace(0, 25, 2500))
    with styled():
        figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(7, 3.6), layout="constrained")
        above.plot(record.time, record["x"], color=CYCLE[0])
        above.set_ylabel("x [m]")
        below.plot(record.time, record["x'"], color=CYCLE[1])
        below.axhline(0.4, color=QUIET, lw=0.8)
        below.set_ylabel("x' [m/s]")
        below.set_xlabel("t [s]")
        return figure


def periodic() -> Figure:
    """A periodic orbit of the Duffing oscillator."""
    return plot_orbit(kz.solve_orbit(kz.library.duffing(), profile=True))


def pendulum_fit() -> tuple[kz.Record, kz.Estimate]:
    rig = kz.Model.from_equations(
        "phi'' + c*phi' + d*sign(phi') + w2*sin(phi) = 0", angles=["phi"], parameters={"c": 0.1, "d": 0.08, "w2": 20.0}
    )
    record = kz.measure(kz.simulate(rig, [1.5, 0.0], t=np.arange(700) * 0.02).select(["phi"]), noise=0.01, seed=1)
    viscous = kz.Model.from_equations(
        "phi'' + c*phi' + w2*sin(phi) = 0", angles=["phi"], parameters={"c": 0.1, "w2": 19.0}
    )
    return record, kz.identify(viscous, record, free=["c", "w2"], method=kz.ShootingFit())


def shooting() -> Figure:
    """Profile likelihoods of a decay that was seen for a short while."""
    model = kz.Model.from_equations("x'' + c*x' + k*x + k3*x**3 = 0", parameters={"c": 0.3, "k": 4.0, "k3": 1.0})
    clean = kz.simulate(model, [1.0, 0.0], t=np.arange(120) * 0.03)
    record = kz.measure(clean.select(["x"]), noise=0.05, seed=4)
    return plot_likelihood(kz.identify(model, record, free=["c", "k", "k3"], method=kz.ShootingFit()))


def missing_terms() -> Figure:
    """Residuals of a pendulum fitted without its dry friction, and what each term would explain."""
    _, fit = pendulum_fit()
    found = kz.suggest(fit).terms[:8][::-1]
    assert fit.motion is not None
    with styled():
        figure, (left, right) = plt.subplots(1, 2, figsize=(9.4, 3.2), layout="constrained", width_ratios=[1, 1.1])
        left.plot(fit.motion.sample_times, fit.residuals["phi"], ".", ms=2.5, color=CYCLE[0])
        left.set_xlabel("t [s]")
        left.set_ylabel("residual / standard deviation")
        right.barh([t.name for t in found], [t.gain for t in found],
                   color=[CYCLE[0] if t.physical else QUIET for t in found])  # fmt: skip
        right.set_xlabel("gain (grey: would feed energy in)")
        return figure


def choosing() -> Figure:
    """The same recording by three methods: intervals side by side."""
    model = kz.Model.from_equations("x'' + c*x' + k*x + k3*x**3 = 0", parameters={"c": 0.25, "k": 4.2, "k3": 0.8})
    truth = model.with_values(c=0.3, k=4.0, k3=1.0)
    record = kz.measure(kz.simulate(truth, [1.5, 0.0], t=np.arange(800) * 0.02).select(["x"]), noise=0.02, seed=1)
    methods = {"shooting": kz.ShootingFit(), "harmonic": kz.HarmonicFit()}
    fits = {name: kz.identify(model, record, ["c", "k", "k3"], method) for name, method in methods.items()}
    return plot_intervals(fits)


def invariants() -> Figure:
    """Energy of Hénon-Heiles along a noisy record, with the right and with a wrong coefficient."""
    model = kz.library.henon_heiles()
    record = kz.measure(kz.simulate(model, t=np.arange(3000) * 0.1), noise=0.003, seed=1)
    q1, q2, p1, p2 = (record[name] for name in model.states)
    with styled():
        figure = plt.figure(figsize=(7, 3), layout="constrained")
        axes = figure.add_subplot()
        for d, name, colour in ((-1 / 3, "right: d = -1/3", CYCLE[0]), (-0.2, "wrong: d = -0.2", CYCLE[1])):
            energy = 0.5 * (p1**2 + p2**2 + q1**2 + q2**2) + q1**2 * q2 + d * q2**3
            axes.plot(record.time, energy, lw=0.7, color=colour, label=name)
        axes.set_xlabel("t")
        axes.set_ylabel("energy")
        axes.legend()
        return figure


def ensembles() -> Figure:
    """Basins of the two wells of a driven oscillator."""
    wells = kz.Model.from_equations("x'' + 0.3*x' - x + x**3 = 0.02*cos(t)", period="2*pi")
    found = kz.basins(wells, {"x": (-2.0, 2.0), "x'": (-1.5, 1.5)}, grid=(101, 75), transient=20)
    with styled():
        figure = plt.figure(figsize=(5.6, 3.8), layout="constrained")
        axes = figure.add_subplot()
        axes.imshow(
            np.asarray(found.labels).T, origin="lower", extent=(-2, 2, -1.5, 1.5), aspect="auto", cmap="cividis"
        )
        axes.set_xlabel("x")
        axes.set_ylabel("x'")
        return figure


def exponents() -> Figure:
    """Largest exponent of a forced pendulum over amplitude and frequency."""
    pendulum = kz.Model.from_equations(
        "phi'' + c*phi' + sin(phi) = F*cos(w*t)",
        parameters={"c": 0.5, "F": 1.2, "w": 2 / 3},
        coordinates=[kz.Coordinate("phi", angle=True)],
        period="2*pi/w",
        start={"phi": 0.2, "phi'": 0.0},
        name="forced pendulum",
    )
    plane = {"F": (0.9, 1.5), "w": (0.5, 0.9)}
    return kz.exponents(pendulum, plane, grid=(100, 80), length=1000.0, transient=500.0).plot()


def planning() -> Figure:
    """Widths to expect over force and frequency, after a weak first run of a hardening oscillator."""
    model = kz.Model.from_equations(
        "x'' + c*x' + k*x + k3*x**3 = F*cos(w*t)",
        parameters={"c": 0.1, "k": 1.0, "k3": 1.0, "F": 0.05, "w": 0.8},
        period="2*pi/w",
    )
    states = kz.simulate(model, x0=[0.0, 0.0], t=np.arange(200) * 0.1)
    record = kz.measure(states.select(["x"]), noise=0.01, seed=3)
    fit = kz.identify(model, record, free=["c", "k", "k3"])
    run = kz.Choice(duration=60.0, step=0.1, channels={"x": 0.01})
    return kz.plan(fit, {"F": (0.02, 0.5), "w": (0.5, 2.0)}, run=run, limits={"abs(x)": 1.2}).plot()


def tori() -> Figure:
    """Circles of the forced van der Pol oscillator, and its rotation number with locked intervals."""
    model = kz.Model.from_equations(
        "x'' - (1 - x**2)*x' + x = F*cos(omega*t)",
        parameters={"F": 7.0, "omega": 2.2},
        period="2*pi/omega",
        start={"x": 0.5, "x'": 0.0},
        name="forced van der Pol",
    )
    branch = kz.follow(model, None, "F", (3.0, 7.5))
    family = kz.tori(branch.of("Neimark-Sacker")[0], (3.0, 7.5))
    with styled():
        figure, (circles, rotation) = plt.subplots(1, 2, figsize=(8.4, 3.4), layout="constrained")
        family.plot(measure="circles", ax=circles)
        family.plot(tongues=kz.tongues(family, 11), ax=rotation)
        return figure


def rig() -> Any:
    """Stability of a hybrid test with a delay."""
    return kz.rig.delay_stability(mass=0.2, damping=0.1, stiffness=200.0, moving_mass=0.19, delay=0.010).plot()


def identifiability() -> Figure:
    """Prey and predators under two values of b: what is measured is the same."""
    prey = kz.Model.from_equations(
        ["x' = a*x - b*x*y", "y' = d*x*y - g*y"], parameters={"a": 1.0, "b": 0.5, "d": 0.3, "g": 0.7}
    )
    time = np.linspace(0, 20, 600)
    with styled():
        figure, (seen, hidden) = plt.subplots(1, 2, figsize=(8.4, 2.9), layout="constrained")
        for b, style, colour in ((0.5, "-", CYCLE[0]), (1.0, "--", CYCLE[1])):
            record = kz.simulate(prey.with_values(b=b), [4.0, 0.5 / b], t=time)
            seen.plot(time, record["x"], style, color=colour, label=f"b = {b:g}")
            hidden.plot(time, record["y"], style, color=colour)
        seen.set_ylabel("x, measured")
        hidden.set_ylabel("y, hidden")
        for axes in (seen, hidden):
            axes.set_xlabel("t")
        seen.legend()
        return figure


def intervals() -> Figure:
    """Forty recordings of the same oscillator, each with other noise: 90 % intervals of its stiffness."""
    model = kz.Model.from_equations("x'' + c*x' + k*x = 0", parameters={"c": 0.3, "k": 4.0})
    clean = kz.simulate(model, [1.0, 0.0], t=np.arange(300) * 0.05).select(["x"])
    with styled():
        figure = plt.figure(figsize=(7, 2.8), layout="constrained")
        axes = figure.add_subplot()
        for seed in range(40):
            record = kz.measure(clean, noise=0.02, seed=seed)
            low, high = kz.identify(model, record, ["c", "k"], kz.ShootingFit()).interval(0.9).loc["k"]
            axes.plot([seed, seed], [low, high], lw=2.2, color=CYCLE[0] if low < 4.0 < high else ACCENT)
        axes.axhline(4.0, color=QUIET, lw=0.8)
        axes.set_xlabel("recording")
        axes.set_ylabel("k, 90 % interval")
        return figure


def sensors() -> Figure:
    """What a sensor with gain, offset, drift and delay reads of a decay."""
    time = np.linspace(0, 10, 1000)

    def x(t: np.ndarray) -> np.ndarray:
        return np.where(t >= 0, np.exp(-0.2 * t) * np.cos(3 * t), 1.0)

    with styled():
        figure = plt.figure(figsize=(7, 2.8), layout="constrained")
        axes = figure.add_subplot()
        axes.plot(time, x(time), color=QUIET, label="x")
        axes.plot(time, 1.5 * x(time - 0.2) + 0.3 + 0.08 * time, color=CYCLE[0],
                  label="1.5 x(t - 0.2) + 0.3 + 0.08 t")  # fmt: skip
        axes.set_xlabel("t [s]")
        axes.legend()
        return figure


def validation() -> Figure:
    """Held-back data of a chaotic oscillator: how long the fitted model predicts them."""
    rig = kz.Model.from_equations(
        "x'' + c*x' - x + x**3 = F*cos(t)", parameters={"c": 0.25, "F": 0.3}, period="2*pi", name="rig"
    )
    clean = kz.simulate(rig, [1.0, 0.0], periods=60, samples_per_period=40)
    record = kz.measure(clean.select(["x"]), noise=0.01, seed=1)
    cut = float(record.time[-1]) / 2
    fit = kz.identify(rig, record.between(stop=cut), free=["c", "F"], method=kz.ShootingFit())
    made = kz.validate(fit, record.between(start=cut)).plot()
    return made if isinstance(made, Figure) else plt.gcf()


def terminal(*lines: str) -> Console:
    console = Console(record=True, width=100, file=io.StringIO(), force_terminal=True)
    for line in lines:
        console.print(Text(line, style="bold green" if line.startswith("$") else ""))
    return console


def long_work() -> Console:
    """A bar with its remaining time, Ctrl-C, and how to go on."""
    return terminal(
        "$ kapitza identify run.toml",
        "study A real pendulum: viscous, Coulomb by shooting ━━━━━━━━━━╸━━━━━━━━  53 % 0:00:41 0:00:36",
        "^C",
        "Error: Stopped; the fits that were finished are kept. Go on: kapitza identify run.toml --resume",
        "$ kapitza identify run.toml --resume",
    )


def saving() -> Console:
    """An estimate that comes back."""
    _, fit = pendulum_fit()
    return terminal('>>> kz.save(fit, "fit.nc")', '>>> print(kz.load("fit.nc"))', *str(fit).splitlines()[:3])


def security() -> Console:
    """A hostile model file is refused, not run."""
    from kapitza.errors import KapitzaError

    try:
        kz.Model.from_equations("x'' + __import__('os').system('rm -rf /') = 0")
        said = ""
    except KapitzaError as error:
        said = str(error)
    assert said
    return terminal("$ kapitza models theirs.toml   # equations = [\"x'' + __import__('os')...\"]", f"Error: {said}")


PICTURES: dict[str, Callable[[], Any]] = {
    f.__name__: f
    for f in (data, laws, force_surface, flows, events, periodic, shooting, missing_terms, choosing, invariants,
              ensembles, exponents, planning, tori, rig, identifiability, intervals, sensors, validation, long_work,
              saving, security)
}  # fmt: skip


def main(names: list[str]) -> None:
    for name in names or list(PICTURES):
        made = PICTURES[name]()
        if isinstance(made, Console):
            drawn = made.export_svg(title="kapitza")
            # fonts of the reader's own: the template asks a server for them
            plain = re.sub(r"@font-face \{.*?\}\s*|<!--.*?-->", "", drawn, flags=re.DOTALL)
            (IMAGES / f"page_{name}.svg").write_text(plain, encoding="utf-8")
        else:
            made.savefig(IMAGES / f"page_{name}.png", dpi=110)
            plt.close("all")
        print(name)


if __name__ == "__main__":
    main(sys.argv[1:])
