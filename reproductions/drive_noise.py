"""Drives that are measured with noise: intervals and verdicts of fits that count it, over seeds.

Set KAPITZA_SEEDS for more fits, KAPITZA_KEEP to make the page in pieces.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from harness import markdown_table

import kapitza as kz
from reproductions._cells import cells
from reproductions._drive_noise_systems import SYSTEMS

SEEDS = 10
WRONG = " with a further term"


def main() -> str:
    labels = [*SYSTEMS, *(name + WRONG for name, system in SYSTEMS.items() if system.wrong)]
    found = cells("drive_noise", labels, fitted, SEEDS)
    right = {name: made for name, made in found.items() if not name.endswith(WRONG)}
    wrong = {name: made for name, made in found.items() if name.endswith(WRONG)}
    every = [one for made in right.values() for one in made]
    rows = [row(name, made) for name, made in right.items()] + [row("all", every)]
    return "\n\n".join(
        [
            "# Drives measured with noise",
            "Ten systems, listed before the method was made, with one seed per fit. The drive is recorded with "
            "noise of 1 to 3 % of its root mean square, the motion with 0.5 to 1 %. 80 % of each record are fitted "
            'from values up to 10 % off by `kz.identify` ("auto") and `kz.with_drive_noise`, as studies do; the rest '
            "is held back. *holds*: 90 % intervals that hold the truth; *plain*: those of the fit that takes the drive "
            "for exact. *width*: standard error over the root mean square error over seeds, median over parameters; "
            "*plain width*: of that fit. *gain*: root mean square error of that fit over the one that counts the "
            "noise. *counted*: fits under whose noise the residuals are white; *said*: fits that warn of misfit; "
            "*suggest*: false terms; *validate*: right models rejected on the part held back. *met*: coverage "
            "within two binomial deviations of 90 %. Limits were set with cells in view: that of the level of the "
            "noise after a cell of the parametric drive, that of windows with three seeds of a chaotic system; so "
            "these systems are not untouched.",
            markdown_table(
                ["system", "fits", "holds", "plain", "width", "plain width", "gain", "counted", "said", "suggest",
                 "validate", "verdict"], rows),
            "Before the expected score of this noise was in the equations (see `counted_noise`) the tank held 66 of "
            "80 (82 %) on 40 other seeds, with a mean deviation of -0.44 and -0.47 standard errors: the sensitivities "
            "along the noisy drive attenuate the estimates. With it the same fits hold 70 of 80 (88 %), mean deviation "
            "-0.12 and -0.17, and 60 others 107 of 120 (89 %), +0.11 and +0.09. The parametric drive holds 80 of 90 "
            "(89 %) on 30 other seeds.",
            "Rigs with a term that the model lacks: *said*: the fit warns of misfit; *suggest*: something is "
            "missing; *validate*: rejected.",
            markdown_table(["rig", "fits", "said", "suggest", "validate", "any"],
                           [missed(name, made) for name, made in wrong.items()]),
        ]
    )  # fmt: skip


def row(name: str, made: list[Any]) -> list[Any]:
    """Return one row of right models."""
    good = [one for one in made if one["error"] == ""]
    systems: dict[str, list[Any]] = {}
    for one in good:
        systems.setdefault(one["system"], []).append(one)
    widths, plain_widths, gains = [], [], []
    for group in systems.values():
        for i in range(len(group[0]["off"])):
            off, plain = (float(np.sqrt(np.mean([one[key][i] ** 2 for one in group]))) for key in ("off", "plain off"))
            widths.append(float(np.sqrt(np.mean([one["sd"][i] ** 2 for one in group]))) / off)
            plain_widths.append(float(np.sqrt(np.mean([one["plain sd"][i] ** 2 for one in group]))) / plain)
            gains.append(plain / off)
    return [
        name,
        len(made),
        share([h for one in good for h in one["held"]]),
        share([h for one in good for h in one["plain held"]]),
        f"{np.median(widths):.2f}",
        f"{np.median(plain_widths):.2f}",
        f"{np.median(gains):.2f}",
        sum(one["counted"] for one in good),
        sum(one["said"] for one in good),
        share([one["suggest"] for one in good]),
        share([one["validate"] for one in good]),
        verdict([h for one in good for h in one["held"]]),
    ]


def verdict(held: list[bool]) -> str:
    """Return whether the coverage is within two binomial deviations of 90 %."""
    return "met" if abs(np.mean(held) - 0.9) < 2 * np.sqrt(0.09 / len(held)) else "**missed**"


def missed(name: str, made: list[Any]) -> list[Any]:
    """Return one row of wrong models."""
    good = [one for one in made if one["error"] == ""]
    any_of = sum(one["said"] or one["suggest"] or bool(one["validate"]) for one in good)
    sums = [sum(bool(one[key]) for one in good) for key in ("said", "suggest", "validate")]
    return [name.removesuffix(WRONG), len(made), *sums, any_of]


def share(flags: list[Any]) -> str:
    known = [bool(flag) for flag in flags if flag is not None]
    return f"{sum(known)} of {len(known)} ({100 * sum(known) / max(len(known), 1):.0f} %)"


def fitted(label: str, seed: int) -> list[Any]:
    """Return one fit with its tests."""
    name = label.removesuffix(WRONG)
    system = SYSTEMS[name]
    model, record = system.measured(seed, right=not label.endswith(WRONG))
    cut = int(0.8 * record.size)
    try:
        plain = kz.identify(model, record.samples(slice(0, cut)), free=list(system.true))
        fit = kz.with_drive_noise(plain)
        terms = kz.suggest(fit)
        check = kz.validate(fit, record.samples(slice(cut, None)), parts=["terms"])
    except kz.KapitzaError as error:
        return [{"system": name, "error": str(error)}]
    made: dict[str, Any] = {"system": name, "error": ""}
    for key, one in (("", fit), ("plain ", plain)):
        made[key + "off"] = [one[n] / true - 1 for n, true in system.true.items()]
        made[key + "sd"] = [one.deviations[n] / abs(true) for n, true in system.true.items()]
        low, high = np.array(list(one.ends(0.9).values())).T
        made[key + "held"] = [bool(a <= system.true[n] <= b) for n, a, b in zip(one.names, low, high, strict=True)]
    made["counted"] = int(any("is counted" in str(text) for text in fit.warnings))
    made["said"] = int(fit.misfit is not None and not fit.misfit.to_the_noise)
    made["suggest"] = bool(terms.missing)
    made["validate"] = None if check.rejected is None else bool(check.rejected)
    return [made]
