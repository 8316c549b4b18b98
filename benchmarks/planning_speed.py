"""Processor time of 200 experiments at 8 draws: smooth, with switches, chaotic."""

from __future__ import annotations

import numpy as np
from harness import markdown_table
from harness.timing import measure

import kapitza as kz
from kapitza.planning.experiments import Experiments

CHOICES, DRAWS = 200, 8
TWO = (
    "x'' + c*x' + k*x + k3*x**3 + kc*(x - y) = F*cos(w*t)",
    "y'' + c*y' + k*y + kc*(y - x){} = 0",
)
SYSTEMS = {
    "smooth, two masses": (TWO[0], TWO[1].format(""), 2.0),
    "with switches, two masses and a gap": (TWO[0], TWO[1].format(" + 3*max(y - 0.3, 0)"), 10.0),
}


def main() -> str:
    rows, random = [], np.random.default_rng(0)
    free = ("c", "k", "k3", "kc")
    values = {"c": 0.1, "k": 1.0, "k3": 0.5, "kc": 0.3, "F": 0.3, "w": 1.0}
    for label, (first, second, most) in SYSTEMS.items():
        model = kz.Model.from_equations([first, second], parameters=values, period="2*pi/w")
        choices = [
            kz.Choice({"F": f, "w": w}, duration=60.0, step=0.1, channels={"x": 0.01, "y": 0.01})
            for f, w in random.uniform([0.1, 0.5], [0.5, 2.0], (CHOICES, 2))
        ]
        rows.append(_timed(label, model, free, choices, [values[n] for n in free], most))
    wells = kz.Model.from_equations(
        "x'' + c*x' - k*x + k3*x**3 = F*cos(w*t)",
        parameters={"c": 0.15, "k": 1.0, "k3": 1.0, "F": 0.3, "w": 1.0},
        period="2*pi/w",
    )
    choices = [
        kz.Choice({"F": f}, {"x": x}, duration=200.0, step=0.1, channels={"x": 0.01})
        for f, x in random.uniform([0.28, -0.5], [0.35, 0.5], (CHOICES, 2))
    ]
    rows.append(_timed("chaotic, two wells, 200 s", wells, ("c", "k", "k3"), choices, [0.15, 1.0, 1.0], 60.0))
    head = ["experiments", "processor time [s]", "first time [s]", "target [s]", ""]
    return "\n\n".join(
        [
            "# Speed of plans",
            f"{CHOICES} experiments at {DRAWS} draws each: motion, limits and information, on one core; the first time "
            "compiles.",
            markdown_table(head, rows),
        ]
    )


def _timed(
    label: str, model: kz.Model, free: tuple[str, ...], choices: list[kz.Choice], centre: list[float], most: float
) -> list[str]:
    draws = np.array(centre) * (1 + 0.05 * np.random.default_rng(1).standard_normal((DRAWS, len(free))))
    runner = Experiments(model, free, ("abs(x)",))
    found = measure(lambda: runner.run(choices, draws), repeats=1)
    verdict = "met" if found.seconds <= most else "**missed**"
    return [label, f"{found.seconds:.1f}", f"{found.first:.1f}", f"{most:g}", verdict]
