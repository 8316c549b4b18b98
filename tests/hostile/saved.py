"""Saved results: every noun that `kz.save` writes and folders of studies, with bytes and with fields changed.

Changed files carry a right checksum: it tells accidents, and whoever changes a field can write it anew.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from tests.hostile.commands import STUDY
from tests.hostile.damage import damaged_bytes, numbers, texts
from tests.hostile.family import register

Facts = dict[str, Any]


@cache
def nouns() -> dict[str, bytes]:
    """A small one of every noun, as `kz.save` writes it."""
    import kapitza as kz

    model = kz.Model.from_equations(
        "x'' + 0.2*x' + k*x = cos(w*t)", parameters={"k": 4.0, "w": 1.5}, start={"x": 1.0, "x'": 0.0}, period="2*pi/w"
    )
    record = kz.simulate(model, t=np.arange(0, 12, 0.1), noise=0.01, seed=1)
    orbit = kz.solve_orbit(model, wrt=("k",))
    strobed = kz.simulate(kz.library.duffing(), periods=400, seed=1)
    fit = kz.identify(model.with_values(k=3.9), record, ["k"], method=kz.ShootingFit())
    heiles = kz.library.henon_heiles()
    conserved = kz.measure(kz.simulate(heiles, t=np.arange(60.0)), noise=1e-3, seed=1)
    made = {
        "orbit": orbit,
        "collocated": kz.solve_orbit(model, orbit, method=kz.Collocation()),
        "harmonic": kz.solve_orbit(model, orbit, method=kz.HarmonicBalance()),
        "orbits": kz.find_orbits(kz.library.duffing(), 1, starts=32, rounds=1, region={"x": (-2, 2), "x'": (-2, 2)}),
        "record": record,
        "inspection": kz.inspect(strobed),
        "model": model,
        "fit": fit,
        "automatic fit": kz.identify(model.with_values(k=3.9), record, ["k"], method="auto"),
        "invariant fit": kz.identify(heiles, conserved, ["b"], method=kz.InvariantFit()),
        "validation": kz.validate(fit, record, parts=["prediction"]),
        "suggestion": kz.suggest(fit),
        "weak fit": kz.identify(model, record, ["k"], method=kz.HarmonicFit()),
        "branch": kz.follow(model, orbit, "w", bounds=(1.4, 1.6)),
        "diagram": kz.diagram(model, orbit, "w", bounds=(1.4, 1.6), depth=1),
        "measured branch": kz.MeasuredBranch("response", "w", [1.0, 2.0], [0.5, 0.9], state="x"),
    }
    with tempfile.TemporaryDirectory() as name:
        return {noun: kz.save(thing, Path(name) / "a.nc").read_bytes() for noun, thing in made.items()}


def sealed_again(content: bytes) -> bytes:
    """The bytes with a checksum that is right."""
    from kapitza.saving.sealed import SEAL, SEALED

    body = content[:-SEALED]
    return body + SEAL + hashlib.sha256(body).hexdigest().encode()


@cache
def opened(noun: str) -> tuple[str, dict[str, Any]]:
    """Facts as JSON and arrays of a saved noun."""
    from kapitza.saving.sealed import read_sealed

    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "a.nc"
        path.write_bytes(nouns()[noun])
        facts, arrays = read_sealed(path)
    return json.dumps(facts), arrays


def places(content: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of all leaves and branches of a JSON value."""
    found = [path] if path else []
    if isinstance(content, dict):
        for key, value in content.items():
            found += places(value, (*path, key))
    elif isinstance(content, list):
        for key, value in enumerate(content[:20]):
            found += places(value, (*path, key))
    return found


# Lists are made anew for each case: a later wound changes them.
plain = st.one_of(
    numbers.filter(lambda n: n is None or abs(n) < 2**60),
    texts,
    st.builds(list),
    st.builds(dict),
    st.builds(lambda: [1, [2]]),
)


@st.composite
def changed_json(draw: st.DrawFn, content: Any) -> Any:
    """A few leaves replaced, removed, doubled or moved a little."""
    content = json.loads(json.dumps(content))
    for _ in range(draw(st.sampled_from([0, 1, 1, 1, 1, 2, 4]))):
        known = places(content)
        if not known:
            break
        *parents, last = draw(st.sampled_from(known))
        holder = content
        for key in parents:
            holder = holder[key]
        value = holder[last]
        if isinstance(value, float) and draw(st.integers(0, 2)):
            holder[last] = value * draw(st.floats(0.5, 2.0))
        elif isinstance(value, str) and draw(st.booleans()):
            holder[last] = value + draw(st.sampled_from(["", " ", "x", "'", "\u202e"]))
        elif draw(st.integers(0, 3)):
            holder[last] = draw(plain)
        elif isinstance(holder, dict):
            holder.pop(last)
        else:
            holder.insert(last, value)
    return content


@st.composite
def changed_arrays(draw: st.DrawFn, arrays: dict[str, Any]) -> dict[str, Any]:
    """One array with another number, shape or kind."""
    arrays = dict(arrays)
    if not arrays or draw(st.integers(0, 2)):
        return arrays
    name = draw(st.sampled_from(sorted(arrays)))
    values = np.array(arrays[name])
    wound = draw(st.sampled_from(["number", "cut", "flat", "kind", "gone"]))
    if wound == "number" and values.size and values.dtype.kind == "f":
        values.flat[draw(st.integers(0, values.size - 1))] = draw(st.sampled_from([np.nan, np.inf, 0.0, 1.0, -1e300]))
    elif wound == "cut":
        values = values[: draw(st.integers(0, 3))]
    elif wound == "flat":
        values = values.ravel()
    elif wound == "kind":
        values = values.astype(draw(st.sampled_from(["f4", "i8", "u1"]))) if values.dtype.kind in "fiu" else values
    arrays[name] = values
    if wound == "gone":
        del arrays[name]
    return arrays


@st.composite
def changed_nouns(draw: st.DrawFn) -> tuple[str, str, dict[str, Any]]:
    noun = draw(st.sampled_from(sorted(nouns())))
    facts, arrays = opened(noun)
    if draw(st.integers(0, 3)):
        facts = json.dumps(draw(changed_json(json.loads(facts))))
    return noun, facts, draw(changed_arrays(arrays))


def load_bytes(content: bytes, folder: Path) -> object:
    (folder / "a.nc").write_bytes(content)
    return use(folder)


def load_changed(case: tuple[str, str, dict[str, Any]], folder: Path) -> object:
    from kapitza.saving.sealed import write_sealed

    noun, facts, arrays = case
    write_sealed(folder / "a.nc", facts, arrays, noun)
    return use(folder)


def use(folder: Path) -> object:
    """Load it, show it, and save it again."""
    import kapitza as kz

    noun = kz.load(folder / "a.nc")
    kz.save(noun, folder / "b.nc")
    kz.load(folder / "b.nc")
    return repr(noun)[:500]


@cache
def study_folder() -> dict[str, bytes]:
    """The files of the results folder of a small study."""
    import kapitza.study

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        time = np.arange(120) / 10
        rows = zip(time, np.exp(-0.1 * time) * np.cos(1.7 * time), strict=True)
        (folder / "run.csv").write_text("t,x\n" + "".join(f"{t},{x}\n" for t, x in rows))
        (folder / "study.toml").write_text(STUDY)
        result = kapitza.study.read_study(folder / "study.toml").run()
        paths = [
            p for p in result.folder.rglob("*") if p.is_file() and p.suffix in (".json", ".toml", ".npz", ".csv", ".nc")
        ]
        return {p.relative_to(result.folder).as_posix(): p.read_bytes() for p in paths}


@st.composite
def changed_folders(draw: st.DrawFn) -> dict[str, bytes]:
    files = dict(study_folder())
    name = draw(st.sampled_from(sorted(files)))
    kind = draw(st.sampled_from(["nothing", "fields", "fields", "fields", "bytes", "gone", "empty"]))
    if kind == "fields" and name.endswith(".json"):
        files[name] = json.dumps(draw(changed_json(json.loads(files[name])))).encode()
    elif kind in ("fields", "bytes"):
        files[name] = draw(damaged_bytes([files[name]]))
    elif kind == "gone":
        del files[name]
    elif kind == "empty":
        files[name] = b""
    return files


def read_folder(files: dict[str, bytes], folder: Path) -> object:
    import kapitza.study

    for name, content in files.items():
        path = folder / "results" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    result = kapitza.study.read_results(folder / "results")
    return [result.sentence(), str(result.table()), str(result.comparison())]


register(
    "saved: damaged files",
    st.deferred(lambda: damaged_bytes(sorted(nouns().values()))).map(sealed_again),
    load_bytes,
    1.0,
)
register("saved: changed fields", st.deferred(changed_nouns), load_changed, 2.0)
register("saved: folders of studies", st.deferred(changed_folders), read_folder, 1.0)
