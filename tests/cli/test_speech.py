"""Messages speak the language of study files and commands on the command line."""

import ast
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import kapitza as kz
from kapitza.base import cures
from kapitza.base.cures import Message, in_study, marked
from kapitza.cli import main

PACKAGE = Path(kz.__file__).parent
FOLDERS = ("data", "estimate", "flow", "model", "orbits", "signal", "study")
PYTHON = re.compile(
    r"\bkz\.|\b(?:record|model|orbits|estimate|fit|flow|orbit)\.\w+\(|(?<![\w-])[a-z_]+=(?!=)"
    r"|\b(?:ShootingFit|HarmonicFit|OrbitFit|InvariantFit|Automatic|OrbitSet|Prior|Signal)\("
    r"|Model\.from|Record\.from|\bkapitza\.\w+"
)


def messages():
    """Every sentence that a module may say: texts and f-texts with a space that are no docstrings."""
    for folder in FOLDERS:
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            silent = set()
            for node in ast.walk(tree):
                if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                    silent.add(id(node.value))
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Do":
                    silent |= {id(part) for part in ast.walk(node)}
                if isinstance(node, ast.JoinedStr):
                    silent |= {id(part) for part in ast.walk(node) if part is not node}
            for node in ast.walk(tree):
                text = None
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    text = node.value
                elif isinstance(node, ast.JoinedStr):
                    text = "".join(p.value if isinstance(p, ast.Constant) else "name" for p in node.values)
                if text and id(node) not in silent and len(text) > 25 and " " in text and "[model]" not in text:
                    yield path.relative_to(PACKAGE), text


def test_no_text_writes_a_cure_by_hand():
    """What to change is a `Cure`: the texts themselves hold no Python."""
    found = list(messages())
    assert len(found) > 500
    assert [(str(path), text) for path, text in found if PYTHON.search(text)] == []


IN_STUDY = {
    cures.Give(units={"t": "ms"}): ('units={"t": "ms"}', 'units = {"t" = "ms"}'),
    cures.Give(time="..."): ('time="..."', 'time = "..."'),
    cures.Give("device"): ("device=", "device"),
    cures.Give(profiles=True): ("profiles=True", "profiles = true"),
    cures.Give(periods=40): ("periods=40", "--periods 40"),
    cures.Give(t=cures.Code("times")): ("t=times", "--duration times"),
    cures.Give(outputs={"v": "x'*l"}): ('outputs={"v": "x\'*l"}', 'measures = {"v" = "x\'*l"}'),
    cures.Give(method=cures.Fit("shooting")): ("method=ShootingFit()", 'method = "shooting"'),
    cures.Set("values", k=...): ("model.with_values(k=...)", "values = {k = ...} in [model]"),
    cures.Set("values"): ("model.with_values(...)", "values = {...} in [model]"),
    cures.Set("data", period=...): ("record.with_attributes(period=...)", "period = ... in [data]"),
    cures.Fit("harmonic", width=...): ("HarmonicFit(width=...)", "[fit.harmonic] width = ..."),
    cures.Fit("invariant", then=cures.Fit("shooting")): ("InvariantFit(then=ShootingFit())", 'method = "shooting"'),
    cures.By("shooting"): ("ShootingFit", 'method "shooting"'),
    cures.SPLIT: ("record.split_at_gaps()", 'gaps = "split" in [data]'),
    cures.RESAMPLE: ("record.resampled(interval)", "resampling before it is read"),
}


@pytest.mark.parametrize("cure", list(IN_STUDY), ids=[python for python, _ in IN_STUDY.values()])
def test_a_cure_is_printed_in_both_notations(cure):
    python, study = IN_STUDY[cure]
    message = Message(f"Change it: {cure}, then go on.")
    assert str(message) == f"Change it: {python}, then go on."
    assert in_study(message) == f"Change it: {study}, then go on."
    assert [str(one) for one in message.cures] == [python]
    again = pickle.loads(pickle.dumps(message))  # noqa: S301
    assert again == message
    assert again.cures == message.cures


def test_an_error_carries_its_cures_as_data():
    model = kz.Model.from_equations("x'' + c*x' = 0", parameters={"c": 1.0}).with_values(c=float("nan"))
    with pytest.raises(kz.KapitzaError) as caught:
        kz.simulate(model, [1.0, 0.0], t=np.arange(3.0))
    (cure,) = caught.value.cures
    assert (cure.kind, cure.name, dict(cure.settings)) == ("set", "values", {"c": "..."})
    assert cure.in_study == "values = {c = ...} in [model]"
    # An error about an error keeps the cures of both.
    outer = kz.KapitzaError(f"Run 2: {marked(caught.value)} Or give {cures.Give(time=0)}.")
    assert [one.kind for one in outer.cures] == ["set", "give"]
    assert pickle.loads(pickle.dumps(outer)).cures == outer.cures  # noqa: S301


def test_notes_of_a_noun_keep_their_cures_in_a_file(tmp_path):
    model = kz.Model.from_equations("x'' + c*x' + x = 0", parameters={"c": 0.1}, start={"x": 1.0, "x'": 0.0})
    record = kz.measure(kz.simulate(model, t=np.arange(0, 20, 0.1)), noise={"x": 1e-3}, seed=1)
    fit = kz.identify(model, record.select(["x"]), ["c"], method=kz.ShootingFit())
    fit = fit.with_(warnings=(f"Too wide: {cures.Fit('harmonic', width=...)}.",))
    assert fit.warnings == ("Too wide: HarmonicFit(width=...).",)
    loaded = kz.load(kz.save(fit, tmp_path / "fit.nc"))
    assert loaded.warnings == fit.warnings
    assert in_study(loaded.warnings[0]) == "Too wide: [fit.harmonic] width = ...."


@pytest.mark.parametrize(
    "inside", ["", "[]", "{", '["set", "nowhere", {}, ""]', "[" * 10_000, '["give", "", {"a": 1}, ""]', "null", '"a"']
)
def test_marks_written_by_others_are_text(inside):
    text = f"a channel named {cures.OPEN}{inside}{cures.CLOSE}"
    assert isinstance(str(Message(text)), str)
    assert isinstance(in_study(text), str)
    assert isinstance(str(kz.KapitzaError(text)), str)


def test_the_commands_do_not_speak_python(tmp_path, capsys):
    path = tmp_path / "run.csv"
    np.savetxt(path, np.column_stack([np.arange(50), np.sin(np.arange(50))]), delimiter=",", header="a,b", comments="")
    with pytest.raises(SystemExit) as end:
        main(["inspect", str(path)])
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert "--time NAME" in said
    assert not PYTHON.search(said)
    np.savetxt(path, np.column_stack([np.arange(900) * 0.1, np.sin(np.arange(900) * 0.1)]), delimiter=",",
               header="t,x", comments="")  # fmt: skip
    with pytest.raises(SystemExit):
        main(["inspect", str(path)])
    out = capsys.readouterr().out
    assert "kapitza identify STUDY" in out
    assert not PYTHON.search(out)
