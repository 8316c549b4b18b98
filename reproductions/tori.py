"""Tori and phase-locked intervals against closed forms, circle maps and an independent integrator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from harness import Comparison, comparison_table, markdown_table
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from scipy.optimize import brentq, fsolve

import kapitza as kz

TURN = 2 * np.pi
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Forced:
    """x'' = force(x, v) + F cos(wt), for the model and for SciPy; bounds: of F; at: where a torus is tested."""

    name: str
    equation: str
    frequency: float
    start: float
    bounds: tuple[float, float]
    at: float
    damping: float
    cubic: float = 0.0

    def model(self) -> kz.Model:
        return kz.Model.from_equations(
            self.equation, parameters={"F": self.start, "w": self.frequency}, period="2*pi/w",
            start={"x": 0.5, "x'": 0.0}, name=self.name,
        )  # fmt: skip

    def rates(self, t: float, z: Array, F: float) -> Array:
        """State and, where z is longer, its tangents."""
        x, v = z[:2]
        bend = self.damping * (1 - x**2)
        own = [v, bend * v - x - self.cubic * x**3 + F * np.cos(self.frequency * t)]
        slope = np.array([[0, 1], [-2 * self.damping * x * v - 1 - 3 * self.cubic * x**2, bend]])
        return np.concatenate([own, (slope @ z[2:].reshape(2, -1)).ravel()])

    def run(self, start: Array, span: float, F: float, times: Array | None = None) -> Array:
        found = solve_ivp(self.rates, (0, span), start, "DOP853", times, args=(F,), rtol=1e-12, atol=1e-13)
        return found.y.T if times is not None else found.y[:, -1]


SYSTEMS = (
    Forced("van der Pol, weak", "x'' - 0.1*(1 - x**2)*x' + x = F*cos(w*t)", 1.2, 0.9, (0.1, 1.2), 0.4, 0.1),
    Forced("van der Pol, strong", "x'' - (1 - x**2)*x' + x = F*cos(w*t)", 2.2, 7.0, (3.0, 7.5), 5.2, 1.0),
    Forced(
        "van der Pol with a cubic spring", "x'' - 0.3*(1 - x**2)*x' + x + 0.2*x**3 = F*cos(w*t)", 2.4, 9.0, (2.0, 10.0),
        5.0, 0.3, 0.2,
    ),
)  # fmt: skip
PERIODS = 500


def integrated(system: Forced) -> tuple[list[Comparison], tuple, kz.TorusBranch]:
    """A motion of 500 periods by DOP853, beside the circle turned by the rotation number."""
    branch = kz.follow(system.model(), None, "F", system.bounds)
    family = kz.tori(branch.of("Neimark-Sacker")[0], system.bounds)
    torus = family.torus(int(np.abs(family.values[:, 0] - system.at).argmin()))
    F, period = torus.model.values["F"], torus.period
    times = np.arange(PERIODS + 1) * period
    states = system.run(torus.states([0.0])[0], float(times[-1]), F, times)
    gap = float(np.abs(states - torus.states(np.arange(PERIODS + 1) * torus.rotation)).max())
    x = torus.surface(257, 128)[:, :, 0]
    area = period * float((system.damping * (1 - x**2)).mean())
    rows = [
        Comparison(f"{system.name}, F = {F:.4f}: largest distance over {PERIODS} periods", "0", f"{gap:.1e}", "1e-6",
                   gap < 1e-6),
        Comparison(f"{system.name}: normal exponent, mean divergence beside it", f"{area:.10f}",
                   f"{torus.exponent:.10f}", "1e-8", abs(area - torus.exponent) < 1e-8),
    ]  # fmt: skip
    line = (
        system.name, len(family), f"{family.values[:, 0].min():.4f} … {family.values[:, 0].max():.4f}",
        f"{family.rotations[0]:.5f} … {family.rotations[-1]:.5f}", int(family.counts.max()), family.ends[1].name,
        family.end_messages[1],
    )  # fmt: skip
    return rows, line, family


def edges(system: Forced, family: kz.TorusBranch, most: int) -> tuple[list[Comparison], list[tuple]]:
    """Folds of orbits of q periods by SciPy: x(qT) = x, det(M - 1) = 0."""
    rows, lines = [], []
    for tongue in kz.tongues(family, most):
        lines.append((system.name, str(tongue.ratio), f"{tongue.low:.9f}", f"{tongue.high:.9f}", f"{tongue.width:.2e}"))
        for edge in tongue.edges if tongue.width > 1e-6 else ():
            span = tongue.periods * TURN / system.frequency

            def fold(z: Array, span: float = span) -> Array:
                end = system.run(np.concatenate([z[:2], np.eye(2).ravel()]), span, float(z[2]))
                return np.append(end[:2] - z[:2], np.linalg.det(end[2:].reshape(2, 2) - np.eye(2)))

            exact = fsolve(fold, [*edge.point, edge.value], xtol=1e-11)[2]
            rows.append(
                Comparison(f"{system.name}, {tongue.ratio}: edge", f"{exact:.10f}", f"{edge.value:.10f}", "1e-7",
                           abs(exact - edge.value) < 1e-7)
            )  # fmt: skip
    return rows, lines


def circle_map() -> tuple[list[Comparison], list[tuple]]:
    """z' = (5/4 - R) exp(i (w + 2 K y)) z: on R = 1/4 the angle obeys Arnold's map θ' = θ + w + K sin θ."""
    R, rows, lines = "(x**2 + y**2)", [], []
    angle = np.linspace(0, TURN, 8001)
    for K in (0.1, 0.3, 0.5):
        step = {
            "x": f"(1 + mu - {R})*(cos(w + k*y)*x - sin(w + k*y)*y)",
            "y": f"(1 + mu - {R})*(sin(w + k*y)*x + cos(w + k*y)*y)",
        }
        model = kz.Model.from_map(
            step, parameters={"mu": -0.1, "w": 2.0, "k": 2 * K}, start={"x": 0.0, "y": 0.0}, name=f"Arnold, K = {K:g}"
        )
        branch = kz.follow(model, model.start, "mu", (-0.2, 0.3))
        torus = kz.tori(branch.of("Neimark-Sacker")[0], (-0.2, 0.25)).torus(-1)
        family = kz.follow_torus(torus, "w", (1.9, 3.3))
        for tongue in kz.tongues(family, 7):
            p, q = tongue.turns, tongue.periods

            def gained(w: float, p: int = p, q: int = q, K: float = K) -> Array:
                at = angle
                for _ in range(q):
                    at = at + w + K * np.sin(at)
                return at - angle - TURN * p

            exact = [brentq(lambda w, e=e: float(e(gained(w))), tongue.low - 0.1, tongue.high + 0.1, xtol=1e-14)
                     for e in (np.max, np.min)]  # fmt: skip
            error = float(np.abs(np.array(exact) - [tongue.low, tongue.high]).max())
            lines.append(
                (model.name, str(tongue.ratio), f"{tongue.low:.9f}", f"{tongue.high:.9f}", f"{tongue.width:.2e}")
            )
            rows.append(
                Comparison(f"K = {K:g}, {tongue.ratio}: both edges", f"{exact[0]:.10f}, {exact[1]:.10f}",
                           f"{error:.1e} off", "1e-6 of the width + 1e-10", error < 1e-6 * tongue.width + 1e-10)
            )  # fmt: skip
    return rows, lines


def main() -> str:
    rows, lines, tongues = [], [], []
    for system, most in zip(SYSTEMS, (9, 11, 9), strict=True):
        own, line, family = integrated(system)
        more, found = edges(system, family, most)
        rows += own + more
        lines.append(line)
        tongues += found
    own, found = circle_map()
    return "\n\n".join(
        [
            "# Tori and phase-locked intervals",
            "Tori that leave at Neimark-Sacker points of three forced oscillators, with SciPy (DOP853, 1e-12) and "
            "closed forms beside them; locked intervals p/q, whose edges SciPy solves for as folds of orbits of q "
            "periods; and Arnold's circle map on the known circle of a map of the plane, whose edges are extremes of "
            "θ_q - θ over θ.",
            comparison_table(rows + own),
            markdown_table(["system", "tori", "F", "rotation number", "phases, at most", "end", "message"], lines),
            markdown_table(["system", "locked to", "from", "to", "width"], tongues + found),
        ]
    )
