"""Real single and double pendulum (Kaheman et al. 2022): fit on the training pieces, test on the validation pieces."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from harness import markdown_table

import kapitza as kz

FOLDER = Path(os.environ.get("KAPITZA_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
THINNING = 10
"""Every tenth of the 1 kHz samples: the motion has some 1.3 and 3 Hz, the encoders' rounding is white at 100 Hz."""


@dataclass(frozen=True)
class Rig:
    """A pendulum as it was published, with the friction terms of each law and the offsets of the encoders."""

    file: str
    angles: tuple[str, ...]
    equations: tuple[str, ...]
    published: dict[str, float]
    viscous: tuple[str, ...]
    dry: tuple[str, ...]
    laws: tuple[str, ...]
    drag: tuple[str, ...] = ()
    offsets: tuple[str, ...] = ()


def lumped_single() -> dict[str, float]:
    a, m, inertia, k, g = 0.147755, 0.147585, 1.09119e-4, 2.2394e-4, 9.81001
    total = inertia + m * a**2
    return {"w2": m * a * g / total, "d": k / total}


def lumped_double() -> dict[str, float]:
    m1, m2, a1, a2, length = 0.093844, 0.137596, 0.108565, 0.116779, 0.172719
    i1, i2, k1, k2, g = 4.3753e-4, 1.26883e-3, 2.37143e-4, 1e-5, 9.80858
    first, second, joint = i1 + m1 * a1**2 + m2 * length**2, i2 + m2 * a2**2, m2 * length * a2
    return {
        "A": first / second, "C": joint / second, "G1": (m1 * a1 + m2 * length) * g / second,
        "G2": m2 * a2 * g / second, "d1": k1 / second, "d2": k2 / second,
    }  # fmt: skip


SINGLE = Rig(
    "Single",
    ("phi1",),
    ("phi1'' - w2*sin(phi1 - e) + d*phi1' + q*phi1'*abs(phi1') + c*sign(phi1') = 0",),
    lumped_single(),
    ("d",),
    ("c",),
    ("viscous", "Coulomb", "both", "both and air drag"),
    drag=("q",),
    offsets=("e",),
)
DOUBLE = Rig(
    "Double",
    ("phi1", "phi2"),
    (
        "A*phi1'' + C*cos(phi1 - phi2 - e1 + e2)*phi2'' + C*sin(phi1 - phi2 - e1 + e2)*phi2'**2 - G1*sin(phi1 - e1)"
        " + d1*phi1' + d2*(phi1' - phi2') + c1*sign(phi1') + c2*sign(phi1' - phi2') + q1*phi1'*abs(phi1') = 0",
        "phi2'' + C*cos(phi1 - phi2 - e1 + e2)*phi1'' - C*sin(phi1 - phi2 - e1 + e2)*phi1'**2 - G2*sin(phi2 - e2)"
        " + d2*(phi2' - phi1') - c2*sign(phi1' - phi2') + q2*phi2'*abs(phi2') = 0",
    ),
    lumped_double(),
    ("d1", "d2"),
    ("c1", "c2"),
    ("viscous", "Coulomb", "both", "both and air drag"),
    drag=("q1", "q2"),
    offsets=("e1", "e2"),
)


def records(rig: Rig, part: str) -> kz.Record:
    path = FOLDER / "multiarm_pendulum" / f"{rig.file}PendulumDataForParameterEstimation.mat"
    names = [*rig.angles, *(f"{a}'" for a in rig.angles)]
    whole = kz.read(path, time=f"Time_{part}", channels={f"Y_{part}": names}, angles=list(rig.angles))
    pieces = [slice(s.start, s.stop, THINNING) for s in whole.segments()]
    segment = np.concatenate([np.full(len(whole.time[p]), i) for i, p in enumerate(pieces)])
    channels = {a: np.concatenate([whole[a][p] for p in pieces]) for a in rig.angles}
    time = np.concatenate([whole.time[p] for p in pieces])
    return kz.Record.from_arrays(time, channels, angles=rig.angles, segment=segment)


def model_of(rig: Rig, law: str) -> tuple[kz.Model, list[str]]:
    """The model with the friction terms of a law, and its free parameters."""
    dry = dict.fromkeys(rig.dry, 0.0 if law == "viscous" else 0.02)
    dragged = dict.fromkeys(rig.drag, 1e-3 if "drag" in law else 0.0)
    wet = {name: 0.0 if law == "Coulomb" else rig.published[name] for name in rig.viscous}
    free = [name for name in rig.published if name not in rig.viscous]
    free += list(rig.viscous) if law != "Coulomb" else []
    free += list(rig.dry) if law != "viscous" else []
    free += list(rig.drag) if "drag" in law else []
    free += list(rig.offsets)
    start = {**rig.published, **wet, **dry, **dragged, **dict.fromkeys(rig.offsets, 0.0)}
    bounded = {
        name: kz.Parameter(
            name, value, bounds=(0.0, np.inf) if name in (*rig.viscous, *rig.dry, *rig.drag) else (-np.inf, np.inf)
        )
        for name, value in start.items()
    }
    return kz.Model.from_equations(rig.equations, angles=rig.angles, parameters=bounded, name=rig.file), free


def simulation_error(model: kz.Model, record: kz.Record) -> float:
    """Root mean square angle error [rad] of simulated pieces, each from the initial state that makes it smallest."""
    # The same weight for every angle and every model: the state minimises what is printed.
    method = kz.ShootingFit(noise=dict.fromkeys(record.channels, 0.002), throw=False)
    states_only = kz.identify(model, record, [], method)
    errors = [states_only.residuals[c] * states_only.noise[c] for c in states_only.residuals]
    return float(np.sqrt(np.mean(np.concatenate(errors) ** 2)))


def study(rig: Rig) -> str:
    training, validation = records(rig, "id"), records(rig, "vad")
    rows, fits = [], {}
    for law in rig.laws:
        model, free = model_of(rig, law)
        fit = kz.identify(model, training, free, kz.ShootingFit(throw=False))
        fits[law] = fit
        information = 2 * len(free) - 2 * fit.likelihood.log_likelihood
        trained, tested = simulation_error(fit.model, training), simulation_error(fit.model, validation)
        rows.append([law, fit.status.value, f"{information:.0f}", f"{trained:.5f}", f"{tested:.5f}"])
    published, _ = model_of(rig, "viscous")
    errors = [f"{simulation_error(published, part):.5f}" for part in (training, validation)]
    rows.append(["published values", "-", "-", *errors])
    best = min(rig.laws, key=lambda law: float(rows[rig.laws.index(law)][2]))
    chosen = fits[best]
    table = [
        [
            n,
            f"{rig.published[n]:.5g}" if n in rig.published else "-",
            f"{chosen.values[n]:.5g}",
            f"{chosen.deviations[n]:.1g}" if np.isfinite(chosen.deviations[n]) else "at its bound",
        ]
        for n in chosen.names
    ]
    head = ["friction law", "how it ended", "AIC", "RMS error, training [rad]", "RMS error, validation [rad]"]
    verdict = "lower" if float(rows[rig.laws.index(best)][4]) < float(rows[-1][4]) else "**missed**: higher"
    return (
        f"## {rig.file} pendulum\n\n{markdown_table(head, rows)}\n\n"
        f"Chosen by AIC: {best}. Its error on the validation pieces is {verdict} than that of the published values.\n\n"
        + markdown_table(["lumped parameter", "published", "ours", "standard error"], table)
    )


def main() -> str:
    if not FOLDER.exists():
        return "# Real pendulums\n\nThe folder of measured data is not there (set KAPITZA_DATA)."
    return (
        "# ShootingFit on real pendulums\n\nEncoder angles only, every tenth sample; the velocities that the authors "
        "smoothed are not used. Every piece is simulated as a whole from the initial state that gives it the smallest "
        "root mean square error of all angles, for our values and for the published ones alike. Parameters, the law "
        "of friction (by the smallest AIC) and the offsets e of the encoders come from the training pieces alone; the "
        "published model has viscous friction and no offset. d: viscous, c: Coulomb, q: air drag; 1 at the base, 2 at "
        "the elbow (drag: of the second arm).\n\n" + study(SINGLE) + "\n\n" + study(DOUBLE)
    )
