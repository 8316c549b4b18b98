"""Recordings by others: the Silverbox (electronic Duffing oscillator) and the EMPS positioning axis."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from harness import Comparison, comparison_table, markdown_table
from scipy.io import loadmat

import kapitza as kz
from kapitza.signal import local_polynomial

FOLDER = Path(os.environ.get("KAPITZA_DATA", Path(__file__).resolve().parent.parent.parent / "shared" / "data"))
RATE = 610.35
FORCE = 35.1507
QUOTED = {"M": 95.1, "Fv": 203.5, "Fc": 20.4, "offset": -3.16}
SETTLED = 0.005
"""Share of its value by which halving the test functions may still move a parameter: a quarter of the target."""

SILVERBOX = {
    "as published": "m*y'' + d*y' + k1*y + k3*y**3 = u",
    "with offset e and k2": "m*y'' + d*y' + k1*y + k2*y**2 + k3*y**3 + e = u",
}


def main() -> str:
    if not FOLDER.is_dir():
        return f"# Measured data\n\nNot run: no data in {FOLDER.name}; set KAPITZA_DATA to the folder that holds them."
    return "# Measured data: Silverbox and EMPS by the weak form\n\n" + silverbox() + "\n\n" + positioning_axis()


def oscillator(equation: str, u: np.ndarray, values: dict[str, float]) -> kz.Model:
    times = np.arange(len(u)) / RATE
    signal = kz.Signal("u", times, u, len(u) / RATE, degree=5)
    return kz.Model.from_equations(equation, parameters=values, signals=[signal])


def silverbox() -> str:
    """Identified on the arrow head (40000 samples), simulated on the ten multisines."""
    table = np.genfromtxt(FOLDER / "silverbox" / "SNLS80mV.csv", delimiter=",", skip_header=1, usecols=(0, 1))
    u, y = table.T
    rows = []
    for text, equation in SILVERBOX.items():
        names = [n for n in ("m", "d", "k1", "k2", "k3", "e") if n + "*" in equation or f"+ {n} " in equation]
        model = oscillator(equation, u[:40_000], dict.fromkeys(names, 1.0))
        record = kz.Record.from_arrays(np.arange(40_000) / RATE, {"y": y[:40_000], "u": u[:40_000]})
        fit = kz.identify(model, record, free=names, method=kz.HarmonicFit())
        part = slice(40_650, 40_650 + 8192)
        validation = oscillator(equation, u[part], dict(fit.values))
        simulated = kz.simulate(validation, x0=[y[part][0], 0.0], t=np.arange(8192) / RATE)["y"]
        error = (simulated - y[part])[600:]
        shown = ", ".join(f"{n} = {fit[n]:.4g} ± {fit.deviations[n]:.1g}" for n in names)
        rms = 1e3 * float(np.sqrt(np.mean(error**2)))
        rows.append((text, shown, f"{rms:.3f}", f"{1e3 * float(error.std()):.3f}", f"{1e3 * float(y[part].std()):.1f}"))
    header = [
        "model",
        "identified on the arrow head",
        "RMS simulation error [mV]",
        "without its mean",
        "RMS signal [mV]",
    ]
    return "## Silverbox, first multisine after the arrow head (8192 samples)\n\n" + markdown_table(header, rows)


def positioning_axis() -> str:
    """M q'' + Fv q' + Fc sign q' + offset = F, validated on the record with force pulses."""
    main_record, pulses = (loadmat(FOLDER / "emps" / f"{name}.mat") for name in ("DATA_EMPS", "DATA_EMPS_PULSES"))
    time, position = main_record["t"].ravel(), main_record["qm"].ravel()
    force = FORCE * main_record["vir"].ravel()
    model = kz.Model.from_equations(
        "M*q'' + Fv*q' + Fc*sign(q') + offset = F",
        parameters={"M": 50.0, "Fv": 100.0, "Fc": 10.0, "offset": 0.0},
        signals=[kz.Signal("F", time, force, time[-1] + time[1])],
    )
    fit, widths = settled_fit(model, kz.Record.from_arrays(time, {"q": position, "F": force}))
    rows = []
    for name, quoted in QUOTED.items():
        low, high = fit.interval(0.95).loc[name]
        error = 100 * abs(fit[name] / quoted - 1)
        ours = f"{fit[name]:.4g} [{low:.4g}, {high:.4g}]"
        rows.append(Comparison(name, quoted, ours, "within 2 %", bool(error < 2), f"{error:.2g} %"))
    return (
        f"## EMPS, test functions of {fit.rows.window:.2f} s\n\n"
        f"Widths halved from the default until halving once more moves no value by {100 * SETTLED:g} %:\n\n"
        + markdown_table(["width [s]", *QUOTED, "largest move by halving [%]"], widths)
        + "\n\n"
        + comparison_table(rows, "quoted")
        + "\n\n"
        + second_order(fit)
        + "\n\n"
        + pulse_check(fit, pulses)
        + "\n\n"
        + pulse_simulation(fit, pulses)
    )


def settled_fit(model: kz.Model, record: kz.Record) -> tuple[kz.Estimate, list[tuple[str, ...]]]:
    """The widest test functions whose estimate halving them does not move: no quoted value enters the choice."""
    fit, rows = kz.identify(model, record, method=kz.HarmonicFit()), []
    for _ in range(8):
        finer = kz.identify(model, record, method=kz.HarmonicFit(width=fit.rows.window / 2))
        # Standard errors are no measure here: they count how much strokes of the axis disagree, in both fits alike.
        move = max(abs(finer[n] / fit[n] - 1) for n in QUOTED)
        rows.append((f"{fit.rows.window:.2f}", *(f"{fit[n]:.4g}" for n in QUOTED), f"{100 * move:.2g}"))
        if move < SETTLED:
            return fit, rows
        fit = finer
    return fit, rows


def second_order(fit: kz.Estimate) -> str:
    """How far the last step, which takes off the bias of second order in the noise, moves the values."""
    assert fit.history is not None
    before, after = fit.history.iloc[-2], fit.history.iloc[-1]
    moves = ", ".join(f"{n} by {100 * abs(after[n] / before[n] - 1):.1g} %" for n in QUOTED)
    return (
        "The bias of second order that noise makes is not what moves these values: with the "
        f"{1e9 * fit.noise['q']:.0f} nm of noise in q its correction moves {moves}. Narrower test functions weigh what "
        "the model misses otherwise: strokes to and fro prefer values of Fv that differ, which the intervals count."
    )


def pulse_check(fit: kz.Estimate, pulses: dict) -> str:
    """Force predicted by the identified model on the pulses record, where it moves, against the motor's force."""
    time, position = pulses["t"].ravel(), pulses["qm"].ravel()
    applied = FORCE * pulses["vir"].ravel()
    kernels = local_polynomial(40, 5)
    _, rate, acceleration = kernels.apply(position[:, None], float(np.median(np.diff(time))))[:, :, 0]
    applied = np.convolve(applied, kernels.weights[0], "valid")
    predicted = fit["M"] * acceleration + fit["Fv"] * rate + fit["Fc"] * np.sign(rate) + fit["offset"]
    moving = np.abs(rate) > 0.01
    error = float(np.sqrt(np.mean((predicted - applied)[moving] ** 2)))
    size = float(np.sqrt(np.mean(applied[moving] ** 2)))
    return f"Pulses record, while moving: predicted force off the applied one by {error:.2f} N RMS of {size:.1f} N."


def pulse_simulation(fit: kz.Estimate, pulses: dict) -> str:
    """The identified model under the motor's force of the pulses record, from its first position, open loop."""
    position = pulses["qm"].ravel()
    step = float(np.median(np.diff(pulses["t"].ravel())))
    time = np.arange(len(position)) * step
    force = kz.Signal("F", time, FORCE * pulses["vir"].ravel(), len(time) * step, degree=1)
    model = kz.Model.from_equations(
        "M*q'' + Fv*q' + Fc*sign(q') + offset = F", parameters=dict(fit.values), signals=[force]
    )
    simulated = kz.simulate(model, x0=[position[0], 0.0], t=time)
    kernels = local_polynomial(20, 3)
    rate = kernels.apply(position[:, None], step)[1, :, 0]
    error = simulated["q'"][20:-20] - rate
    sizes = [1e3 * float(np.sqrt(np.mean(v**2))) for v in (error, rate)]
    drift = 1e3 * float(np.abs(simulated["q"] - position).max())
    return (
        f"Simulated open loop over the {time[-1]:.1f} s of the pulses record: velocity off by {sizes[0]:.1f} mm/s RMS "
        f"of {sizes[1]:.1f} mm/s; the position, twice integrated, is off by {drift:.0f} mm at most of "
        f"{1e3 * float(np.ptp(position)):.0f} mm."
    )
