"""What one fit of a study gave: plain numbers that a results folder keeps and a report is made from."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza import circle
from kapitza.data import replacing
from kapitza.errors import DataError

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Motion:
    """A motion of the fitted model along a recording, each piece from the initial state that follows it best.

    time (N,), piece (N,) numbers the pieces; measured and predicted (N,) by channel; angles: channels on a circle.
    length: longest piece [s] that one motion was asked to follow; complete: no piece had to be cut shorter.
    """

    time: Array
    piece: NDArray[np.int64]
    measured: Mapping[str, Array]
    predicted: Mapping[str, Array]
    units: Mapping[str, str] = field(default_factory=dict)
    angles: tuple[str, ...] = ()
    length: float = math.nan
    complete: bool = True

    def error(self, channel: str) -> Array:
        """Predicted minus measured (N,), on the circle for angles."""
        gap = self.predicted[channel] - self.measured[channel]
        return circle.wrap(gap) if channel in self.angles else gap

    def rate(self, channel: str) -> Array:
        """Rate of the predicted channel (N,): the one beside it, or differences along each piece; NaN in short ones."""
        own = self.predicted.get(f"{channel}'")
        if own is not None:
            return own
        speed = np.full(self.time.size, np.nan)
        for number in np.unique(self.piece):
            inside = self.piece == number
            if inside.sum() > 3:
                values = self.predicted[channel][inside]
                values = circle.unwrap(values) if channel in self.angles else values
                speed[inside] = np.gradient(values, self.time[inside])
        return speed

    def rms(self, channel: str) -> float:
        return float(np.sqrt(np.mean(self.error(channel) ** 2)))

    def share(self, channel: str) -> float:
        """Root mean square error over the spread of the channel."""
        values = self.measured[channel]
        if channel in self.angles:
            values = circle.unwrap(values)
        return self.rms(channel) / max(float(np.std(values)), 1e-300)


@dataclass(frozen=True)
class ForceCurve:
    """Force per mass of one coordinate against one of its states: kind "restoring" or "damping", with 95 % bands."""

    kind: str
    coordinate: str
    state: str
    at: tuple[float, ...]
    force: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class ForceSurface:
    """Force per mass of one coordinate over its position and rate: force[i][j] at rates[i], positions[j].

    band: half the width of the 95 % band at the same points, all 0 where the parameters have no errors.
    """

    coordinate: str
    positions: tuple[float, ...]
    rates: tuple[float, ...]
    force: tuple[tuple[float, ...], ...]
    band: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class OrbitSketch:
    """A periodic orbit of the data: its points on the section, and what is known of it."""

    periods: int
    code: str
    multipliers: str
    points: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class SectionSketch:
    """The section of a recording with the orbits found on it; points thinned to what a picture shows."""

    states: tuple[str, ...]
    points: tuple[tuple[float, ...], ...]
    orbits: tuple[OrbitSketch, ...]


@dataclass(frozen=True)
class AskedTerm:
    """A term that the residuals ask for, or would have asked for: see `kapitza.suggest`.

    add: what to add to the left side of the equation. log10_p: of its chance in a complete model.
    """

    name: str
    add: str
    gain: float
    log10_p: float
    coefficient: float
    error: float
    detectable: float


@dataclass(frozen=True)
class ProfileSketch:
    """Profile likelihood of one parameter: 2 Δ log L (rise) at some values; threshold: at the ends of the interval."""

    name: str
    at: tuple[float, ...]
    rise: tuple[float, ...]
    threshold: float


@dataclass(frozen=True)
class Outcome:
    """One candidate fitted by one method.

    failure: why there is no answer, in words; then the numbers are those of the unfinished fit, or empty.
    log_likelihood, readings: NaN and 0 where the method has no likelihood. motion: over the data fitted; check: over
    what was held back. missing: what the residuals ask for, in words; asked: the strongest terms.
    path: values of the parameters by iteration. profiles: likelihoods, where the study asks for them.
    """

    candidate: str
    method: str
    title: str = ""
    status: str = ""
    failure: str = ""
    names: tuple[str, ...] = ()
    values: Mapping[str, float] = field(default_factory=dict)
    deviations: Mapping[str, float] = field(default_factory=dict)
    low: Mapping[str, float] = field(default_factory=dict)
    high: Mapping[str, float] = field(default_factory=dict)
    level: float = 0.95
    units: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, float] = field(default_factory=dict)
    start: Mapping[str, float] = field(default_factory=dict)
    correlation: tuple[tuple[float, ...], ...] = ()
    warnings: tuple[str, ...] = ()
    identifiable: tuple[str, ...] = ()
    noise: Mapping[str, float] = field(default_factory=dict)
    log_likelihood: float = math.nan
    readings: int = 0
    fitted: int = 0
    notes: tuple[str, ...] = ()
    motion: Motion | None = field(default=None, repr=False)
    check: Motion | None = field(default=None, repr=False)
    check_failure: str = ""
    forces: tuple[ForceCurve, ...] = field(default=(), repr=False)
    surfaces: tuple[ForceSurface, ...] = field(default=(), repr=False)
    section: SectionSketch | None = field(default=None, repr=False)
    missing: str = ""
    asked: tuple[AskedTerm, ...] = field(default=(), repr=False)
    path: Mapping[str, tuple[float, ...]] = field(default_factory=dict, repr=False)
    profiles: tuple[ProfileSketch, ...] = field(default=(), repr=False)

    @property
    def ok(self) -> bool:
        return bool(self.names) and not self.failure

    @property
    def label(self) -> str:
        return f"{self.candidate}, {self.method}"

    @property
    def aic(self) -> float:
        """2 k - 2 log L, k the numbers that were fitted: parameters, noises, initial states."""
        return 2 * self.fitted - 2 * self.log_likelihood

    @property
    def bic(self) -> float:
        """k log N - 2 log L."""
        return self.fitted * math.log(max(self.readings, 1)) - 2 * self.log_likelihood


def write_outcome(outcome: Outcome, path: Path) -> None:
    """As path.json and, with its motions, path.npz; each appears complete or not at all, the JSON last."""
    arrays: dict[str, Any] = {}
    content = asdict(outcome)
    for name in ("motion", "check"):
        motion: Motion | None = getattr(outcome, name)
        content[name] = None if motion is None else _flat(motion, name, arrays)
    with replacing(path.with_suffix(".npz")) as draft, draft.open("wb") as stream:
        np.savez_compressed(stream, allow_pickle=False, **arrays)
    write_json(content, path.with_suffix(".json"))


def _flat(motion: Motion, name: str, arrays: dict[str, Any]) -> dict[str, Any]:
    channels = list(motion.measured)
    arrays[f"{name}_time"], arrays[f"{name}_piece"] = motion.time, motion.piece
    for number, channel in enumerate(channels):
        arrays[f"{name}_measured_{number}"] = motion.measured[channel]
        arrays[f"{name}_predicted_{number}"] = motion.predicted[channel]
    facts = {"units": dict(motion.units), "angles": list(motion.angles), "length": motion.length}
    return {"channels": channels, "complete": motion.complete, **facts}


def read_outcome(path: Path) -> Outcome:
    """What `write_outcome` wrote."""
    content = read_json(path.with_suffix(".json"))
    try:
        with np.load(path.with_suffix(".npz"), allow_pickle=False) as arrays:
            motion, check = (_motion(content.pop(n), n, arrays) for n in ("motion", "check"))
        tuples = ("names", "warnings", "identifiable", "notes")
        content |= {name: tuple(content[name]) for name in tuples}
        content["correlation"] = tuple(tuple(row) for row in content["correlation"])
        content["forces"] = tuple(ForceCurve(**_tuples(curve)) for curve in content["forces"])
        content["surfaces"] = tuple(ForceSurface(**_tuples(s)) for s in content.get("surfaces", ()))
        content["section"] = _section(content["section"])
        content["path"] = _tuples(content.get("path", {}))
        content["profiles"] = tuple(ProfileSketch(**_tuples(p)) for p in content.get("profiles", ()))
        content["asked"] = tuple(AskedTerm(**term) for term in content.get("asked", ()))
        known = {f.name for f in fields(Outcome)}
        own = {key: value for key, value in content.items() if key in known}
        _check_kinds(own)
        return Outcome(**own, motion=motion, check=check)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path.name} in the results folder cannot be read ({error}): run the study again.") from None


def _check_kinds(content: Mapping[str, Any]) -> None:
    """Whether fields hold what they say, text, numbers, or tables and lists of them: a file may have been changed."""
    kinds = {"str": str, "float": float | int, "int": int}
    for known in fields(Outcome):
        outer, _, inner = str(known.type).partition("[")
        kind = kinds.get(inner.removesuffix("]").removesuffix(", ...").removeprefix("str, "))
        value: Any = content.get(known.name)
        if known.name not in content:
            right = True
        elif outer in kinds:
            right = isinstance(value, kinds[outer])
        elif kind is not None:
            items = value.values() if outer == "Mapping" and isinstance(value, dict) else value
            held = isinstance(value, dict if outer == "Mapping" else tuple)
            right = held and all(isinstance(v, kind) for v in items or ())
        else:
            right = True
        if not right:
            raise TypeError(f'"{known.name}" holds something else')


def _tuples(content: dict[str, Any]) -> dict[str, Any]:
    """Lists of numbers, or of lists of numbers, as tuples."""
    return {
        key: tuple(tuple(v) if isinstance(v, list) else v for v in value) if isinstance(value, list) else value
        for key, value in content.items()
    }


def _section(content: dict[str, Any] | None) -> SectionSketch | None:
    if content is None:
        return None
    orbits = tuple(OrbitSketch(**_tuples(orbit)) for orbit in content.pop("orbits"))
    return SectionSketch(**_tuples(content), orbits=orbits)


def _motion(facts: dict[str, Any] | None, name: str, arrays: Mapping[str, Any]) -> Motion | None:
    if facts is None:
        return None
    channels = facts["channels"]
    return Motion(
        arrays[f"{name}_time"],
        arrays[f"{name}_piece"],
        {c: arrays[f"{name}_measured_{i}"] for i, c in enumerate(channels)},
        {c: arrays[f"{name}_predicted_{i}"] for i, c in enumerate(channels)},
        facts["units"],
        tuple(facts["angles"]),
        facts["length"],
        facts["complete"],
    )


def write_json(content: Any, path: Path) -> None:
    """JSON that any reader takes: numbers that are not finite are written as text."""
    with replacing(path) as draft:
        draft.write_text(json.dumps(_strict(content), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    try:
        return _loose(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as JSON: {error}.") from None


UNUSUAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def _strict(content: Any) -> Any:
    if isinstance(content, Mapping):
        return {str(key): _strict(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_strict(value) for value in content]
    if isinstance(content, np.generic):
        content = content.item()
    if isinstance(content, float) and not math.isfinite(content):
        return "NaN" if math.isnan(content) else ("Infinity" if content > 0 else "-Infinity")
    return content


def _loose(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _loose(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_loose(value) for value in content]
    return UNUSUAL.get(content, content) if isinstance(content, str) else content
