"""Write the files that every later release must read: `python -m tests.saving.write_corpus`, once for each release.

tests/saving/corpus/VERSION/ gets a small file of every noun, expected.json with facts of each, and fields.json with the
fields of every class that a file may hold.
"""

from __future__ import annotations

import json
import sys
from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import kapitza as kz
from kapitza.estimate import Suggestion
from kapitza.saving.classes import HOMES, version_of

CORPUS = Path(__file__).parent / "corpus"


def facts_of(noun: Any) -> dict[str, Any]:
    """Numbers and texts of a noun that no renaming changes."""
    if isinstance(noun, list | tuple):
        return {"items": [facts_of(one) for one in noun]}
    if isinstance(noun, kz.Model):
        return {"values": dict(noun.values), "equations": [str(e) for e in noun.equations], "states": list(noun.states)}
    if isinstance(noun, kz.Record):
        return {"time": float(noun.time.sum()), **{c: float(noun[c].sum()) for c in noun.channels}}
    if isinstance(noun, kz.Estimate):
        return {
            "values": dict(noun.values), "deviations": noun.deviations, "status": noun.status.name,
            "interval": noun.interval(0.9).to_numpy().tolist(), "data": facts_of(noun.data),
            "residuals": [float(np.sum(np.abs(r))) for r in noun.residuals.values()],
        }  # fmt: skip
    if isinstance(noun, kz.PeriodicOrbit):
        return {"points": noun.points.tolist(), "period": noun.period, "states": list(noun.states)}
    if isinstance(noun, kz.OrbitSet):
        return {"orbits": [facts_of(orbit) for orbit in noun]}
    if isinstance(noun, kz.Branch):
        return {"values": noun.values.tolist(), "points": float(np.abs(noun.points).sum())}
    if isinstance(noun, kz.MeasuredBranch):
        return {"values": np.asarray(noun.values).tolist(), "amplitudes": np.asarray(noun.amplitudes).tolist()}
    if isinstance(noun, kz.Validation):
        return {"starts": noun.prediction.starts.tolist(), "horizon": noun.prediction.horizon_noise.tolist()}
    if isinstance(noun, Suggestion):
        return {"gains": {term.name: term.gain for term in noun.terms}, "tests": noun.tests}
    if isinstance(noun, kz.Diagram):
        return {"branches": [facts_of(branch) for branch in noun.branches]}
    return {}


def recorded_fields() -> dict[str, dict[str, Any]]:
    """Version and fields of every class that a file may hold, with the fields that have no default."""
    found = {}
    for name, home in sorted(HOMES.items()):
        kind = getattr(import_module(home), name)
        if is_dataclass(kind):
            kept = [f for f in fields(kind) if f.init]
            needed = [f.name for f in kept if f.default is MISSING and f.default_factory is MISSING]
            found[name] = {"version": version_of(name), "fields": [f.name for f in kept], "needed": needed}
    return found


def further_nouns() -> dict[str, Any]:
    """Fits of orbits and of branches, and settings."""
    model = kz.library.duffing()
    orbit = kz.solve_orbit(model, profile=False).with_(covariance=1e-6 * np.eye(2))
    response = kz.Model.from_equations(
        "x'' + c*x' + x + x**3 = B*cos(omega*t)", parameters={"c": 0.1, "B": 0.3, "omega": 1.0}, period="2*pi/omega"
    )
    branch = kz.follow(response, None, "omega", bounds=(0.9, 1.2))
    data = kz.MeasuredBranch("response", "omega", branch.values[::4, 0], branch.amplitude("x")[::4], state="x")
    return {
        "orbit_fit": kz.identify(model.with_values(k=0.1), [orbit], free=["k"], method=kz.OrbitFit()),
        "branch_fit": kz.identify(response.with_values(c=0.12), data, free=["c"], method=kz.BranchFit()),
        "settings": [kz.ShootingFit(outputs={"y": kz.Sensor("x", "gain")}), kz.HarmonicFit(), kz.InvariantFit()],
    }


def write(folder: Path) -> None:
    from tests.hostile.saved import nouns

    folder.mkdir(parents=True)
    for name, content in nouns().items():
        (folder / f"{name.replace(' ', '_')}.nc").write_bytes(content)
    for name, noun in further_nouns().items():
        kz.save(noun, folder / f"{name}.nc")
    expected = {path.name: facts_of(kz.load(path)) for path in sorted(folder.glob("*.nc"))}
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")
    (folder / "fields.json").write_text(json.dumps(recorded_fields(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    target = CORPUS / kz.__version__
    if target.exists():
        sys.exit(f"{target} is there already: files of a release are never written again.")
    write(target)
