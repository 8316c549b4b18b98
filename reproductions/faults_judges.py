"""Ten systems, seven faults: is there a wrong number with a small interval and no warning?

Noise is never stated. Set KAPITZA_SEEDS for more fits per cell, KAPITZA_KEEP to make the table in pieces.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from harness import markdown_table

import kapitza as kz
from reproductions._cells import cells, seeds
from reproductions._judges import FAULTS, FAULTY, faulty

SEEDS = 3
SAMPLES, NOISE = 2000, 0.01
WRONG = 4.0
"""Standard errors (as stated) between a value and the truth from which it is a wrong number with a small interval."""

ESTIMATORS = {"HarmonicFit": kz.HarmonicFit(), "ShootingFit": kz.ShootingFit()}

EXPLAINED = (
    f"*silent wrong*: some value is more than {WRONG:g} of its stated standard errors from the truth, and no warning "
    "came. Where other values of the free parameters reproduce a fault exactly (a gain of the only sensor, say) the "
    "residuals are noise, and no record can tell."
)


def main() -> str:
    names = [f"{e} / {j.label} / {fault}" for e, j, fault in itertools.product(ESTIMATORS, FAULTY, FAULTS)]
    found = cells("faults", names, trial, SEEDS)
    return "\n\n".join(
        [
            "# Faults on systems kept apart",
            f"{len(FAULTY)} systems that are not in the library, {SAMPLES} samples, {100 * NOISE:g} % noise that "
            f"nobody stated, {seeds(SEEDS)} seeds. {EXPLAINED}",
            table(found),
        ]
    )


def trial(name: str, seed: int) -> list[dict[str, Any]]:
    estimator, label, fault = name.split(" / ")
    judge = next(j for j in FAULTY if j.label == label)
    posed = faulty(judge, fault, SAMPLES, NOISE, seed)
    if posed is None:
        return []
    model, record = posed
    try:
        fit = kz.identify(model, record, list(judge.free), ESTIMATORS[estimator])
    except kz.KapitzaError as error:
        return [{"refused": str(error)[:200]}]
    truth = judge.model().values
    off = [abs(fit.values[n] - truth[n]) / max(fit.deviations[n], 1e-300) for n in fit.names]
    misfit = fit.misfit is not None and not fit.misfit.to_the_noise
    told = misfit or any("far from the best" not in text for text in fit.warnings)
    size = 0.0 if fit.misfit is None else fit.misfit.size
    return [{"off": float(np.nanmax(off)), "misfit": misfit, "told": told, "size": size, "where": fit.misfit.where}]


def table(found: dict[str, list[Any]]) -> str:
    rows = []
    for estimator, fault in itertools.product(ESTIMATORS, FAULTS):
        mine = {
            name.split(" / ")[1]: made
            for name, made in found.items()
            if name.startswith(f"{estimator} / ") and name.endswith(f" / {fault}") and made
        }
        every = [row for made in mine.values() for row in made]
        good = [row for row in every if "off" in row]
        if not every:
            continue
        silent = [
            (label, r)
            for label, made in mine.items()
            for r in made
            if "off" in r and r["off"] > WRONG and not r["told"]
        ]
        told, size = (
            sum(r["misfit"] for r in good),
            float(np.median([r["size"] for r in good])) if good else float("nan"),
        )
        guilty = ", ".join(dict.fromkeys(label for label, _ in silent))
        if fault == "none":
            verdict = "met" if told <= 0.05 * len(good) else "**missed**"
        else:
            verdict = "met" if not silent else "**missed**"
        rows.append(
            [estimator, fault, len(every), len(every) - len(good), told, f"{size:.2g}", len(silent), guilty, verdict]
        )
    header = [
        "estimator",
        "fault",
        "fits",
        "refused",
        "misfit told",
        "median size [noise]",
        "silent wrong",
        "in",
        "verdict",
    ]
    return markdown_table(header, rows)
