"""Models on which exports are compared with `simulate`: smooth, events, friction that sticks, measured drive, links."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import kapitza as kz


def belt() -> kz.Model:
    """A mass on a belt that sticks and slips, autonomous."""
    return kz.Model.from_equations(
        "x'' + d*x' + x + mu*sign(x' - v) = 0",
        parameters={"d": 0.05, "mu": 0.4, "v": 0.3},
        start={"x": 1.0, "x'": 0.0},
        outputs={"force": "x'' + x"},
        name="belt",
    )


def two_frictions() -> kz.Model:
    """Two masses with dry friction on the ground and between them: both contacts stick, also at once."""
    return kz.Model.from_equations(
        [
            "x'' + d*x' + x + mu*sign(x') + 0.5*(x - y) = F*cos(w*t)",
            "y'' + 0.3*y + 0.5*(y - x) + mu*sign(y' - x') = 0",
        ],
        parameters={"d": 0.05, "mu": 0.2, "F": 0.6, "w": 0.7},
        period="2*pi/w",
        start={"x": 1.0, "y": 0.2, "x'": 0.0, "y'": 0.1},
        name="two frictions",
    )


def two_drives() -> kz.Model:
    """Two measured drives of different periods and kinds of interpolation, one of them held constant in steps."""
    t = np.arange(16) / 16
    first = kz.Signal("u", t, np.sin(2 * np.pi * t) + 0.3 * np.sin(6 * np.pi * t), period=1.0, degree=3)
    second = kz.Signal("w", 0.5 * t, np.sign(np.cos(2 * np.pi * t)), period=0.5, degree=0)
    return kz.Model.from_equations(
        "x'' + 0.2*x' + k*x + x**3 = u + w*x'",
        parameters={"k": 4.0},
        period=1.0,
        signals=[first, second],
        start={"x": 0.3, "x'": 0.0},
        outputs={"acceleration": "x''"},
        name="two drives",
    )


def lasting_drive(degree: int = 3) -> kz.Model:
    """A bistable beam under a measured base acceleration that does not repeat: 601 samples of noise, 3 s."""
    time = np.arange(601) * 0.005
    shaken = np.convolve(np.random.default_rng(5).normal(size=640), np.hanning(9), "valid")[: time.size]
    return kz.Model.from_equations(
        "x'' + d*x' - k*x + b*x**3 = -(a - a0)",
        parameters={"d": 7.0, "k": 40.0, "b": 30.0, "a0": 0.02},
        signals=[kz.Signal("a", time, 8.0 * shaken, degree=degree, unit="m/s^2")],
        start={"x": 0.3, "x'": 0.0},
        outputs={"force": "-a"},
        name="lasting drive",
    )


def delayed() -> kz.Model:
    """A model with a past value, which no export can hold."""
    return kz.Model.from_equations(
        "x'' + x' + x(t - tau) = 0", parameters={"tau": 0.5}, start={"x": 1.0, "x'": 0.0}, name="delayed"
    )


def links(count: int, friction: float | None = None) -> kz.Model:
    """Point masses on rods, with viscous and perhaps dry friction at the joints, from the Lagrangian."""
    names = [f"q{i}" for i in range(1, count + 1)]
    across = up = height = ""
    kinetic, potential, relative = [], [], []
    for i, name in enumerate(names, start=1):
        across += f" + l{i}*cos({name})*{name}'"
        up += f" + l{i}*sin({name})*{name}'"
        height += f" - l{i}*cos({name})"
        kinetic.append(f"m{i}*((0{across})**2 + (0{up})**2)/2")
        potential.append(f"m{i}*g*(0{height})")
        relative.append(f"{name}' - {names[i - 2]}'" if i > 1 else f"{name}'")
    values = {f"m{i}": 0.5 + 0.1 * i for i in range(1, count + 1)}
    values |= {f"l{i}": 0.4 - 0.02 * i for i in range(1, count + 1)} | {"g": 9.81, "c": 0.02}
    forces = None
    if friction is not None:
        values["mu"] = friction
        torques = [f"mu*sign({r})" for r in relative] + ["0"]
        forces = {name: f"{torques[i + 1]} - {torques[i]}" for i, name in enumerate(names)}
    return kz.Model.from_lagrangian(
        " + ".join(kinetic) + "".join(f" - {p}" for p in potential),
        names,
        angles=names,
        parameters=values,
        forces=forces,
        dissipation=" + ".join(f"c*({r})**2/2" for r in relative),
        start={**dict.fromkeys(names, 0.5), **dict.fromkeys([f"{n}'" for n in names], 0.0)},
        name=f"{count} links" + (", dry friction" if friction is not None else ""),
    )


CASES: dict[str, tuple[Callable[[], kz.Model], float]] = {
    "smooth": (kz.library.duffing, 18.0),
    "impacts": (kz.library.pin_joint, 18.0),
    "buffers": (kz.library.colliding_cart, 18.0),
    "stick-slip": (belt, 30.0),
    "two frictions": (two_frictions, 27.0),
    "measured drive": (kz.library.oleo, 1.5),
    "two drives": (two_drives, 3.2),
    "lasting drive": (lasting_drive, 3.0),
    "6 links": (lambda: links(6), 3.0),
    "3 links, dry friction": (lambda: links(3, 0.05), 3.0),
}
"""Models with the time they run."""


def difference(model: kz.Model, times: np.ndarray, states: np.ndarray) -> float:
    """Largest difference of states (N, n) from `simulate`, angles modulo a turn."""
    apart = states - kz.simulate(model, x0=model.state(), t=times).values()
    circles = np.array(model.angles)
    apart[:, circles] = (apart[:, circles] + np.pi) % (2 * np.pi) - np.pi
    return float(np.abs(apart).max())
