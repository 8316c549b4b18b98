"""Rigs that identify themselves: campaigns on five simulated rigs, and campaigns that are killed and resumed.

The rigs have noise, settings that take a second to change, and lost samples. The limit is on the displacement; the rig
notes the largest that occurs, also while it settles. The systems were listed before the first run of this page.
"""

from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from harness import markdown_table

import kapitza as kz
from kapitza.planning import Ending
from kapitza.rig import Sensors, SimulatedRig
from reproductions._cells import cells
from reproductions.planning import BY_LABEL, Planned

SEEDS, KILLS, TRIES, BUDGET, AIM, NOISE = 20, 20, 24, 6, 0.01, 0.01
RIGS = ("hardening spring (built with)", "softening spring", "quadratic drag", "forced van der Pol",
        "asymmetric spring")  # fmt: skip
SEARCH = kz.Search(points=32, polish=10, shown=16)
NARROW = 0.0005
"""Aim of campaigns that are killed: 0.05 % needs every run of the budget."""
LIMIT = 3.0
"""Of |x| for the van der Pol oscillator, which has none elsewhere."""


class Noted(SimulatedRig):
    """A simulated rig that notes the largest displacement it has measured."""

    peak = 0.0

    def run(self, samples: int):
        made = super().run(samples)
        values = np.abs(made.values[np.isfinite(made.values)])
        self.peak = max(self.peak, float(values.max(initial=0.0)))
        return made


def known(one: Planned, prior: float = 0.15) -> kz.Model:
    """The model with what is known before: each parameter to 15 %, at a value that is off by a draw of that."""
    parts = [
        kz.Parameter(n, v, prior=kz.Prior(v, prior * v) if n in one.free else None,
                     bounds=(0.0, np.inf) if n in one.free else one.vary[n])
        for n, v in one.values.items()
    ]  # fmt: skip
    return kz.Model.from_equations(list(one.equations), parameters=parts, **one.parts)


def true_values(one: Planned, seed: int) -> dict[str, float]:
    random = np.random.default_rng(10_000 + seed)
    draws = np.clip(random.standard_normal(len(one.free)), -2, 2)
    return {n: one.values[n] * (1 + 0.15 * float(z)) for n, z in zip(one.free, draws, strict=True)}


def rig_of(one: Planned, seed: int) -> Noted:
    """A rig whose true parameters are drawn from the prior."""
    true = true_values(one, seed)
    return Noted(known(one).with_values(**true), adjustable=tuple(one.vary), sample_time=0.05, ramp=1.0,
                 sensors=Sensors(noise={"x": NOISE}, drop=0.01), seed=seed)  # fmt: skip


def campaign(one: Planned, rig: SimulatedRig, folder: str | None = None, aim: float = AIM) -> Any:
    middle = {name: sum(ends) / 2 for name, ends in one.vary.items()}
    run = kz.Choice(middle, duration=30.0, step=0.1, channels={"x": NOISE}, settle=2.0)
    limits = dict(one.limits) or {"abs(x)": LIMIT}
    return kz.experiment(rig, known(one), one.vary, run, aim, BUDGET, limits=limits, folder=folder, search=SEARCH)


def main() -> str:
    made = cells("planning_loop", RIGS, ran, SEEDS)
    killed = cells("planning_killed", ["kill"], resumed, TRIES, most=TRIES)
    rows, within, answered, total = [], 0, 0, 0
    for label, runs in made.items():
        inside = sum(one["peak"] <= one["limit"] for one in runs)
        reached = sum(one["ending"] == "REACHED" for one in runs)
        said = sum(one["ending"] in ("REACHED", "SPENT", "NOTHING", "MISSES") for one in runs)
        z = np.array([v for one in runs for v in one["z"]])
        rows.append([label, len(runs), inside, reached, said, f"{np.mean([one['runs'] for one in runs]):.1f}",
                     f"{np.mean(np.abs(z) < 1.645):.0%}" if z.size else ""])  # fmt: skip
        within, answered, total = within + inside, answered + said, total + len(runs)
    hit = [one for one in killed.get("kill", []) if one["alive"]]
    good, count = [one for one in hit if one["good"]], len(hit)
    runs = ", ".join(str(n) for n in sorted(one["entries"] for one in hit))
    return "\n\n".join(
        [
            "# Campaigns on simulated rigs",
            f"{total} campaigns on {len(made)} rigs with true values drawn from a prior of 15 %, to "
            f"{AIM:.0%}, at most {BUDGET} runs. Answered: reached the aim, or ended and said why.",
            markdown_table(["rig", "campaigns", "within limits", "reached", "answered", "runs", "90 % cover"], rows),
            f"- Campaigns that were run: {total} (100 wanted): {'met' if total >= 100 else '**missed**'}.\n"
            f"- Within the limits: {within} of {total} (all wanted): {'met' if within == total else '**missed**'}.\n"
            f"- Reached the aim or said why not: {answered} of {total} (95 % wanted): "
            f"{'met' if answered >= 0.95 * total else '**missed**'}.\n"
            f"- Killed (SIGKILL) at {count} moments, with {runs} runs complete, and resumed: {len(good)} of {count} "
            f"went on with every complete run, and ended: {'met' if len(good) == count >= KILLS else '**missed**'} "
            f"({KILLS} wanted).",
        ]
    )


def ran(label: str, seed: int) -> list[Any]:
    one = BY_LABEL[label]
    rig, true = rig_of(one, seed), true_values(one, seed)
    found = campaign(one, rig)
    z = [] if found.fit is None else [
        (found.fit[n] - true[n]) / found.fit.deviations[n] for n in one.free
    ]  # fmt: skip
    # A reading is above the motion by its noise: four standard deviations of it.
    limit = (dict(one.limits) or {"abs(x)": LIMIT})["abs(x)"] + 4 * NOISE
    return [{"ending": found.ending.name, "detail": found.detail[:150], "runs": found.runs, "peak": rig.peak,
             "limit": limit, "z": z}]  # fmt: skip


def resumed(_: str, seed: int) -> list[Any]:
    """A campaign in a process of its own, killed after a while, and gone on with here.

    Its aim is so narrow that the whole budget is needed: a process that has ended by itself is not killed.
    """
    label = RIGS[seed % len(RIGS)]
    one, wanted = BY_LABEL[label], seed % BUDGET
    with tempfile.TemporaryDirectory() as place:
        folder = str(Path(place) / "campaign")
        rig = f"rig_of(BY_LABEL[{label!r}], {seed})"
        code = f"from reproductions.planning_loop import *; campaign(BY_LABEL[{label!r}], {rig}, {folder!r}, {NARROW})"
        process = subprocess.Popen([sys.executable, "-c", code])
        # By what is on disk, not by the clock: after some runs, and then a random share of a second.
        until = time.monotonic() + 240
        while process.poll() is None and time.monotonic() < until and _complete(folder) < wanted:
            time.sleep(0.005)
        time.sleep(float(np.random.default_rng(seed).uniform(0.0, 0.5)))
        alive = process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        before = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in _runs(folder)}
        entries = _complete(folder)
        found = campaign(one, rig_of(one, seed), folder, NARROW)
        after = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in _runs(folder)}
        kept = all(after.get(name) == before[name] for name in sorted(before)[:entries])
        ended = found.ending in (Ending.REACHED, Ending.SPENT) and len(after) == found.runs == _complete(folder)
        good = kept and ended and found.runs >= entries
        return [{"good": bool(good), "alive": alive, "entries": entries, "ending": found.ending.name}]


def _runs(folder: str) -> list[Path]:
    return sorted(Path(folder).glob("run_*.csv"))


def _complete(folder: str) -> int:
    """Runs that the journal names."""
    place = Path(folder) / "journal.toml"
    return place.read_text().count("[[run]]") if place.exists() else 0
