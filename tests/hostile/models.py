"""Model files: damaged ones of the library, and small ones made of hostile parts."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from hypothesis import strategies as st
from tests.hostile.damage import damaged_text, numbers, texts, values, words
from tests.hostile.family import register


@cache
def originals() -> list[str]:
    import tempfile

    import kapitza as kz

    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "a.toml"
        found = []
        for make in (kz.library.duffing, kz.library.colliding_cart, kz.library.lorenz, kz.library.trace_map):
            kz.write_model(make(), path)
            found.append(path.read_text(encoding="utf-8"))
    return found


@st.composite
def small(draw: st.DrawFn) -> str:
    """A file of few lines whose expressions nest what the notation has."""
    atoms = st.sampled_from(["x", "x'", "t", "a", "1", "0.5", "pi", "2*x"])

    def wider(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
            st.tuples(st.sampled_from(["sin", "abs", "sign", "sqrt", "exp", "log", "tanh"]), inner).map(
                lambda p: f"{p[0]}({p[1]})"
            ),
            st.tuples(st.sampled_from(["max", "min"]), st.lists(inner, min_size=2, max_size=4)).map(
                lambda p: f"{p[0]}({', '.join(p[1])})"
            ),
            inner.map(lambda e: f"({e})**2"),
        )

    expression = draw(st.recursive(atoms, wider, max_leaves=8))
    left = draw(st.sampled_from(["x'' + 0.1*x'", "x''", "a*x''", "x'"]))
    right = expression if draw(st.integers(0, 3)) else draw(words)
    value = draw(numbers) if draw(st.integers(0, 3)) == 0 else draw(st.floats(0.1, 9.0))
    equation = toml_text(f"{left} = {right}")
    lines = [f"equations = [{equation}]", "[parameters]", f"a = {value!r}"]
    if not draw(st.integers(0, 4)):
        lines += ["[partition]", f"expressions = {draw(values)!r}"]
    if not draw(st.integers(0, 4)):
        part = draw(st.sampled_from(["outputs", "excitation", "start", "invariants"]))
        lines += [f"[{part}]", f"x = {draw(values)!r}"]
    return "\n".join(lines)


def toml_text(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\x00", "\\u0000") + '"'


def use(content: str, folder: Path) -> object:
    """Read the file, write it again, and let it move a little."""
    import kapitza as kz

    path = folder / "rig.toml"
    path.write_text(content, encoding="utf-8", errors="replace", newline="")
    model = kz.read_model(path)
    kz.write_model(model, folder / "again.toml")
    if kz.read_model(folder / "again.toml").equations != model.equations:
        raise AssertionError("the model does not survive its own file")
    shown = [model.name, str(model.equations), str(model.values)]
    if model.is_map:
        return [*shown, str(kz.simulate(model, [0.3] * len(model.states), periods=3).values())]
    start = None if model.start else [0.3] * len(model.states)
    return [*shown, str(kz.simulate(model, start, t=[0.0, 0.1]).values())]


register("models: damaged files", st.deferred(lambda: damaged_text(originals())), use, 2.0)
register("models: small files", small(), use, 1.5)
register("models: any text", st.one_of(texts, st.text(max_size=200)), use, 0.3)
