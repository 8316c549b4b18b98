"""Records that hold no unstable periodic orbit, and records that do: what judges a search for orbits.

`judged=True` draws from the systems and settings that judge, `judged=False` from others, on which limits were chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

import kapitza as kz

Array = NDArray[np.float64]
Random = np.random.Generator


def phase_randomised(columns: Array, random: Random) -> Array:
    """Columns (N, c) with the phase of every frequency turned by one random angle: spectra and cross-spectra stay."""
    spectrum = np.fft.rfft(columns - columns.mean(axis=0), axis=0)
    turned = np.exp(2j * np.pi * random.random(len(spectrum)))
    return np.fft.irfft(spectrum * turned[:, None], len(columns), axis=0) + columns.mean(axis=0)


def amplitude_adjusted(column: Array, random: Random, rounds: int = 60) -> Array:
    """A surrogate (N,) with the spectrum and the very values of the column (Schreiber and Schmitz 1996)."""
    values, power = np.sort(column), np.abs(np.fft.rfft(column))
    shuffled = random.permutation(column)
    for _ in range(rounds):
        phase = np.angle(np.fft.rfft(shuffled))
        shuffled = values[np.argsort(np.argsort(np.fft.irfft(power * np.exp(1j * phase), len(column))))]
    return shuffled


def _thinned(record: kz.Record, skip: int) -> tuple[Array, Array]:
    return record.time[skip:] - record.time[skip], record.values()[skip:]


def ueda() -> kz.Model:
    """Ueda's oscillator x'' + 0.05 x' + x³ = 7.5 cos t, in its chaotic regime."""
    return kz.Model.from_equations("x'' + c*x' + x**3 = F*cos(t)", parameters={"c": 0.05, "F": 7.5}, period="2*pi")


def chaotic(name: str, random: Random) -> kz.Record:
    """A chaotic record without noise from a random start."""
    if name in ("lorenz x", "lorenz z", "lorenz xyz"):
        start = np.array([1.0, 2.0, 20.0]) + random.normal(size=3)
        run = kz.simulate(kz.library.lorenz(), x0=start, t=np.arange(12000) * 0.02).samples(slice(2000, None))
        return run.select({"lorenz x": ["x"], "lorenz z": ["z"], "lorenz xyz": ["x", "y", "z"]}[name])
    if name == "rossler x":
        start = np.array([1.0, 1.0, 0.0]) + 0.1 * random.normal(size=3)
        return (
            kz.simulate(kz.library.rossler(), x0=start, t=np.arange(14000) * 0.1)
            .samples(slice(2000, None))
            .select(["x"])
        )
    if name in ("ueda dense", "ueda strobed"):
        start = np.array([2.5, 0.0]) + 0.3 * random.normal(size=2)
        each = 24 if name == "ueda dense" else 1
        count = 600 if name == "ueda dense" else 4000
        return kz.simulate(ueda(), x0=start, periods=count + 50, samples_per_period=each).samples(
            slice(50 * each, None)
        )
    points = np.empty((5000, 2))
    if name == "henon":
        x, y = 0.1 + 0.1 * random.random(), 0.1
        for i in range(len(points)):
            x, y = 1 - 1.4 * x * x + y, 0.3 * x
            points[i] = x, y
        return kz.Record.from_arrays(np.arange(4500.0), {"x": points[500:, 0], "y": points[500:, 1]}, period=1.0)
    raise KeyError(name)


def surrogates(random: Random, judged: bool) -> kz.Record:
    names = ("lorenz x", "lorenz xyz", "ueda dense", "ueda strobed") if judged else ("rossler x", "lorenz z", "henon")
    name = str(random.choice(names))
    record = chaotic(name, random)
    columns = record.values()
    if columns.shape[1] == 1 and random.random() < 0.5:
        columns = amplitude_adjusted(columns[:, 0], random)[:, None]
    else:
        columns = phase_randomised(columns, random)
    return _record(record.time, columns, record.period)


def _record(time: Array, columns: Array, period: float | None = None) -> kz.Record:
    names = ("x", "y", "z", "w")[: columns.shape[1]]
    return kz.Record.from_arrays(time - time[0], dict(zip(names, columns.T, strict=True)), period=period)


def resonances(random: Random, judged: bool) -> kz.Record:
    """AR(2): x_n = 2 r cos(ω) x_(n-1) - r² x_(n-2) + noise, with up to 2 % sensor noise.

    As a series alone or with its rate, beside a drive of another frequency, or one sample per period of a drive with
    the sample before as second channel.
    """
    radius = random.uniform(0.98, 0.995) if judged else random.choice([0.97, 0.99, 0.998])
    kind = random.choice(["series", "rate", "driven", "strobed"])
    turn = 2 * np.pi * (random.uniform(0.02, 0.48) if kind == "strobed" else random.uniform(0.02, 0.15))
    count = int(random.choice([4000, 10000, 20000] if judged else [6000, 15000]))
    x = lfilter([1.0], [1.0, -2 * radius * np.cos(turn), radius**2], random.normal(size=count + 2001))
    beside = {"rate": np.gradient(x)[2000:-1], "strobed": x[2000:-1]}.get(str(kind))
    columns = x[2001:, None] if beside is None else np.column_stack([x[2001:], beside])
    columns = columns + random.choice([0.0, 0.01, 0.02]) * columns.std(axis=0) * random.normal(size=columns.shape)
    period = {"driven": 2 * np.pi / turn * random.uniform(0.7, 1.4), "strobed": 1.0}.get(str(kind))
    return _record(np.arange(float(count)), columns, period)


def quasi_periodic(random: Random, judged: bool) -> kz.Record:
    """Two or three frequencies without a common one, sums and modulations, dense or strobed, up to 2 % noise."""
    ratio = float(random.choice([(1 + 5**0.5) / 2, 2**0.5, np.pi / 2] if judged else [3**0.5, np.e / 2]))
    t = np.arange(12000 if judged else 9000) * (0.05 if judged else 0.07)
    shift = 2 * np.pi * random.random(3)
    shape = random.integers(4)
    if shape == 0:
        x = np.sin(2 * t + shift[0]) + random.uniform(0.3, 0.9) * np.sin(2 * ratio * t + shift[1])
    elif shape == 1:
        x = (1 + random.uniform(0.2, 0.5) * np.sin(0.37 * ratio * t + shift[0])) * np.sin(2 * t + shift[1])
    elif shape == 2:
        x = sum(
            a * np.sin(2 * f * t + s) for a, f, s in zip((1, 0.6, 0.4), (1, ratio, ratio**2 / 1.3), shift, strict=True)
        )
    else:
        turn = 2 * np.pi * (ratio % 1) * np.arange(4000) + shift[0]
        columns = np.column_stack([np.cos(turn) + 0.3 * np.cos(2 * turn), np.sin(turn) + 0.1 * np.sin(3 * turn)])
        return _record(np.arange(4000.0), _noisy(columns, random), 1.0)
    return _record(t, _noisy(np.asarray(x)[:, None], random))


def _noisy(columns: Array, random: Random) -> Array:
    return columns + random.choice([0.0, 0.005, 0.02]) * columns.std(axis=0) * random.normal(size=columns.shape)


def decays(random: Random, judged: bool) -> kz.Record:
    """Free vibrations that die out: linear, hardening, pendulum, quadratic damping; softening and lopsided to tune."""
    laws = (
        "x'' + c*x' + x = 0",
        "x'' + c*x' + x + x**3 = 0",
        "x'' + c*x' + sin(x) = 0",
        "x'' + c*x' + 0.02*x'*abs(x') + x = 0",
    )
    other = ("x'' + c*x' + x - 0.1*x**3 = 0", "x'' + c*x' + x + 0.3*x**2 = 0")
    law = str(random.choice(laws if judged else other))
    model = kz.Model.from_equations(law, parameters={"c": random.uniform(0.004, 0.02)})
    start = [random.uniform(0.8, 2.0) if judged else 0.9, 0.0]
    run = kz.simulate(model, x0=start, t=np.arange(8000) * 0.08)
    columns = run.values()[:, : int(random.integers(1, 3))]
    return _record(run.time, _noisy(columns, random))


def equilibria(random: Random, judged: bool) -> kz.Record:
    """Rest with noise: white, low-passed, overdamped; alone or beside a drive that moves nothing, dense or strobed."""
    count = int(random.choice([2000, 8000]))
    pole = float(random.choice([0.0, 0.5, 0.9, 0.99] if judged else [0.3, 0.8, 0.97]))
    channels = int(random.integers(1, 3))
    noise = lfilter([1.0], [1.0, -pole], random.normal(size=(count + 1000, channels)), axis=0)[1000:]
    level = random.uniform(-3, 3, size=channels)
    kind = random.integers(3)
    period = None if kind == 0 else 1.0 if kind == 1 else 20.0
    return _record(np.arange(float(count)), level + random.choice([0.01, 1.0]) * noise, period)


def limit_cycle(random: Random) -> kz.Record:
    model = kz.Model.from_equations("x'' - mu*(1 - x**2)*x' + x = 0", parameters={"mu": 1.5})
    start = random.normal(size=2)
    return kz.simulate(model, x0=start, t=np.arange(6000) * 0.05).samples(slice(1500, None)).select(["x"])


def pendulum(random: Random) -> kz.Record:
    model = kz.library.parametric_pendulum()
    return kz.simulate(model, x0=np.array([0.5, 0.0]) + 0.1 * random.normal(size=2), periods=8000)


def logistic(random: Random) -> kz.Record:
    x, points = 0.2 + 0.3 * random.random(), np.empty(4500)
    for i in range(points.size):
        x = 3.9 * x * (1 - x)
        points[i] = x
    return kz.Record.from_arrays(np.arange(4000.0), {"x": points[500:]}, period=1.0)


COUPLED = {
    "two masses, forced, four states": (
        ["x'' + c*x' - x + x**3 + s*(x - y) = F*cos(w*t)", "y'' + d*y' + 2*y + s*(y - x) = 0"],
        {"c": 0.25, "s": 0.3, "d": 0.2, "F": 0.35, "w": 1.0},
        (0.5, 0.1, 0.2, 0.1),
    ),
    "pendulum on a spring, forced, four states": (
        ["p'' + c*p' + sin(p) + s*(p - q) = T*cos(w*t)", "q'' + c*q' + 2*q + q**3 + s*(q - p) = 0"],
        {"c": 0.2, "s": 0.2, "T": 1.4, "w": 0.67},
        (0.5, 0.1, 0.1, 0.1),
    ),
    "energy harvester, three states": (
        ["x'' + c*x' - x/2 + x**3/2 - h*v = F*cos(w*t)", "v' = -l*v - k*x'"],
        {"c": 0.02, "h": 0.05, "l": 0.05, "k": 0.5, "F": 0.083, "w": 0.8},
        (1.0, 0.1, 0.1),
    ),
}
"""Forced systems whose section has three and four coordinates; the wider search was settled on the first alone."""


def coupled(name: str, random: Random) -> kz.Record:
    """4,000 strobed states of a forced system."""
    equations, values, start = COUPLED[name]
    model = kz.Model.from_equations(equations, parameters=values, period="2*pi/w", name=name)
    run = kz.simulate(model, x0=np.array(start) * (1 + 0.2 * random.random(len(start))), periods=4100)
    return run.samples(slice(100, None))


def coupled_surrogates(random: Random, judged: bool) -> kz.Record:
    """Such states with their spectra and cross-spectra, and random phases."""
    names = list(COUPLED)[1:] if judged else list(COUPLED)[:1]
    record = coupled(names[int(random.integers(len(names)))], random)
    return _record(record.time, phase_randomised(record.values(), random), record.period)


HOLDERS: dict[str, Callable[[Random], kz.Record]] = {
    "logistic map": logistic,
    "Hénon map": lambda random: chaotic("henon", random),
    "strobed pendulum": pendulum,
    "Ueda's oscillator, strobed": lambda random: chaotic("ueda strobed", random),
    "Ueda's oscillator, dense": lambda random: chaotic("ueda dense", random),
    "Lorenz, x": lambda random: chaotic("lorenz x", random),
    "Lorenz, z": lambda random: chaotic("lorenz z", random),
    "Lorenz, x, y, z": lambda random: chaotic("lorenz xyz", random),
    "Rössler, x": lambda random: chaotic("rossler x", random),
    "limit cycle of van der Pol": limit_cycle,
    **{name: partial(coupled, name) for name in COUPLED},
}
"""Records in which there are orbits."""


FAMILIES: dict[str, tuple[Callable[[Random, bool], kz.Record], tuple[str, ...]]] = {
    "surrogates of chaos": (surrogates, ("noise", "resonance", "walk")),
    "resonances driven by noise": (resonances, ("noise", "resonance", "walk")),
    "surrogates in three and four dimensions": (coupled_surrogates, ("noise", "resonance", "walk")),
    "quasi-periodic": (quasi_periodic, ("quasi-periodic",)),
    "decays": (decays, ("decay",)),
    "equilibria with noise": (equilibria, ("equilibrium", "noise", "walk")),
}
"""Of each family the records, and the words of an inspection that are right for it."""
