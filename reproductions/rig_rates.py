"""HYBRID: why direct coupling blows up. Growth rates simulated with delay equations beside characteristic roots."""

from __future__ import annotations

import numpy as np
from harness import Comparison, comparison_table

import kapitza as kz
from kapitza.rig import Compensation, SecondOrder, delay_stability

M, C, K, TAU = 0.2, 0.1, 200.0, 0.010
PENDULUM = {"l": 0.1955, "kappa": 7.5e-3, "g": 9.81}


def direct_coupling(m: float, compensation: Compensation | None = None, delay: float = TAU) -> kz.Model:
    """M y'' + C y' + K y = F of a pendulum whose pivot moves as y(t - τ) or its extrapolation: a neutral equation."""
    weights, spacing = (np.ones(1), delay) if compensation is None else compensation.weights(delay)
    late = " + ".join(f"({c!r})*y''(t - {delay + j * spacing!r})" for j, c in enumerate(weights.tolist()))
    return kz.Model.from_equations(
        [
            f"M*y'' + C*y' + K*y + m*cos(theta)**2*({late}) = kappa/l*theta'*sin(theta) + m*g*sin(theta)**2"
            " - m*l*theta'**2*cos(theta)",
            f"theta'' + kappa/(m*l**2)*theta' + (g + {late})/l*sin(theta) = 0",
        ],
        coordinates=["y", "theta"],
        parameters={"M": M, "C": C, "K": K, "m": m, **PENDULUM},
    )


def growth(model: kz.Model, duration: float, over: float = 0.02) -> float:
    """Rate in 1/s of the envelope of y' (its largest value over `over` s) in the second half of a run."""
    times = np.linspace(0.0, duration, 8001)
    speed = kz.Flow(model).trajectory([1e-6, 0.0, 0.0, 0.0], times)[:, 2]
    half = times.size // 2
    window = max(int(over / (times[1] - times[0])), 2)
    envelope = np.array([np.abs(speed[i : i + window]).max() for i in range(half, times.size - window, window)])
    return float(np.polyfit(np.arange(envelope.size) * window * (times[1] - times[0]), np.log(envelope), 1)[0])


def direct_rows() -> list[Comparison]:
    rows = []
    for m, duration in ((0.27, 0.6), (0.25, 0.8), (0.21, 2.0), (0.19, 2.0)):
        simulated, test = growth(direct_coupling(m), duration), delay_stability(M, C, K, m, TAU)
        target = "within 3 %" if m > M else "decays"
        met = abs(simulated / test.rate - 1) < 0.03 if m > M else simulated < 0 and test.stable
        note = f"essential rate ln(m/M)/τ = {test.essential_rate:.4g}"
        rows.append(Comparison(f"m = {m} kg, rate [1/s] (root, simulated)", test.rate, simulated, target, met, note))
    return rows


def compensation_rows() -> list[Comparison]:
    expected = {
        1: (114.1, 31.2, None), 2: (159.5, 81.6, None), 3: (190.6, 115.2, 19.7), 4: (214.4, 140.4, 48.6),
    }  # fmt: skip
    rows = []
    for order, rates in expected.items():
        for m, rate in zip((0.27, 0.10, 0.02), rates, strict=True):
            model = direct_coupling(m, Compensation(order))
            # Where it decays, the slow oscillation of the spring is left: look over whole swings of it.
            length, over = (4.0, 0.25) if rate is None else (0.25 if m == 0.27 else 0.4 if m == 0.10 else 0.8, 0.02)
            simulated = growth(model, length, over)
            predicted = delay_stability(M, C, K, m, TAU, order).essential_rate
            name = f"order {order}, m = {m} kg, rate [1/s] (predicted, simulated)"
            if rate is None:
                rows.append(
                    Comparison(name, f"stable ({predicted:.4g})", simulated, "decays", simulated < 0 > predicted)
                )
            else:
                met = abs(simulated / rate - 1) < 0.05 and abs(predicted / rate - 1) < 0.05
                rows.append(Comparison(name, predicted, simulated, f"within 5 % of {rate}", met))
    return rows


def actuator_rows() -> list[Comparison]:
    rows = []
    for omega, stable in ((300.0, True), (1000.0, False), (3000.0, False)):
        test = delay_stability(M, C, K, 0.27, TAU, actuator=SecondOrder(omega, 5.0, force="F"))
        rows.append(
            Comparison(
                f"actuator (18), ω_s = {omega:g} rad/s, leading root [1/s]", "stable" if stable else "unstable",
                test.rate, "as said", test.stable == stable,
            )
        )  # fmt: skip
    for m, critical in ((0.19, 22.2), (0.15, 49.8), (0.10, 70.8)):
        found = 1e3 * delay_stability(M, C, K, m, TAU).critical_delay
        rows.append(
            Comparison(f"critical delay, m = {m} kg [ms]", critical, found, "± 0.05", abs(found - critical) < 0.05)
        )
    return rows


def main() -> str:
    figure = delay_stability(M, C, K, 0.19, TAU)
    parts = [
        "Direct coupling at the hanging state, τ = 10 ms, the neutral equation integrated by the method of steps:",
        comparison_table(direct_rows(), "leading root"),
        "Polynomial compensation of the delay, points spaced by τ (it makes m < M unstable too):",
        comparison_table(compensation_rows(), "predicted"),
        "Actuator with dynamics of its own, and critical delays without compensation:",
        comparison_table(actuator_rows(), "notes"),
        f"Verdict of `kz.rig.delay_stability` at m = 0.27 kg: {delay_stability(M, C, K, 0.27, TAU).verdict}",
        f"At m = 0.19 kg: {figure.verdict}",
    ]
    return "\n\n".join(parts)
