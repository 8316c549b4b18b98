"""Messages speak the language of study files and commands on the command line."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest

import kapitza as kz
from kapitza.base.cures import cures_of, spoken
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


def test_no_message_speaks_python_on_the_command_line():
    found = list(messages())
    assert len(found) > 500
    assert sum(bool(PYTHON.search(text)) for _, text in found) > 60
    left = [(str(path), spoken(text)) for path, text in found if PYTHON.search(spoken(text))]
    assert left == []


SAID = {
    'units={"t": "ms"}, or time="..."': 'units = {"t" = "ms"}, or time = "..."',
    "give it by model.with_values(k=...).": "give it by values = {k = ...} in [model].",
    "pass HarmonicFit(width=...)": "pass [fit.harmonic] width = ...",
    "ShootingFit did not converge": 'method "shooting" did not converge',
    "profiles=True": "profiles = true",
    'Write --set m=0.09, not "k=[red]fast".': 'Write --set m=0.09, not "k=[red]fast".',
    "x = 3 == y": "x = 3 == y",
    "--set takes NAME=VALUE with a number": "--set takes NAME=VALUE with a number",
    "by model.with_values(F=...)": "by values = {F = ...} in [model]",
    'InvariantFit("balance"), or InvariantFit(then=ShootingFit())': '[fit.invariant] objective = "balance", or '
    'method = "shooting"',
    "bridge it by record.resampled(interval).": "bridge it by resampling before it is read.",
    'build it, kz.Signal("u", times, values, period), or kz.read(...).split_at_gaps()': 'build it, drive = ["u"], or '
    'gaps = "split" in [data]',
    "with kz.identify(model, record, free=[...], method=kz.ShootingFit(process_noise=True)).": "with a study with "
    "[fit.shooting] process_noise = true: `kapitza new FILE`, then `kapitza identify STUDY`.",
    "say periods=40 instead of t": "say --periods 40 instead of t",
    'outputs={"v": "x\'*l"}': 'measures = {"v" = "x\'*l"}',
    "a plain sentence: nothing to change.": "a plain sentence: nothing to change.",
}


@pytest.mark.parametrize("message", list(SAID))
def test_cures_are_those_of_a_study(message):
    assert spoken(message) == SAID[message]


def test_an_error_carries_its_cures_as_data():
    model = kz.Model.from_equations("x'' + c*x' = 0", parameters={"c": 1.0}).with_values(c=float("nan"))
    with pytest.raises(kz.KapitzaError) as caught:
        kz.simulate(model, [1.0, 0.0], t=np.arange(3.0))
    cure = next(cure for cure in caught.value.cures if cure.name == "model.with_values")
    assert [name for name, _ in cure.settings] == ["c"]
    assert cure.in_study == "values = {c = ...} in [model]"
    cures = cures_of('Several look like the time: say which with time="...", or give units={"t": "ms"}.')
    assert [cure.settings for cure in cures] == [(("time", '"..."'),), (("units", '{"t": "ms"}'),)]


@pytest.mark.parametrize(
    "text", ["", "(", "x=(", 'k="', "record.select(", "a" * 10_000, "k=" * 3000, "model.with_values((("]
)
def test_any_text_is_read_as_it_is(text):
    assert isinstance(spoken(text), str)


def test_the_commands_do_not_speak_python(tmp_path, capsys):
    path = tmp_path / "run.csv"
    np.savetxt(path, np.column_stack([np.arange(50), np.sin(np.arange(50))]), delimiter=",", header="a,b", comments="")
    with pytest.raises(SystemExit) as end:
        main(["inspect", str(path)])
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert 'time = "..."' in said
    assert not PYTHON.search(said)
    np.savetxt(path, np.column_stack([np.arange(900) * 0.1, np.sin(np.arange(900) * 0.1)]), delimiter=",",
               header="t,x", comments="")  # fmt: skip
    with pytest.raises(SystemExit):
        main(["inspect", str(path)])
    out = capsys.readouterr().out
    assert "kapitza identify STUDY" in out
    assert not PYTHON.search(out)
