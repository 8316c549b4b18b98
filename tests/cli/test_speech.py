"""Messages speak the language of study files and commands on the command line."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest

import kapitza as kz
from kapitza.cli import main
from kapitza.speech import spoken

PACKAGE = Path(kz.__file__).parent
FOLDERS = ("data", "estimate", "flow", "invariants", "model", "orbits_in_data", "signal", "study")
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
    "a plain sentence: nothing to change.": "a plain sentence: nothing to change.",
}


@pytest.mark.parametrize("message", list(SAID))
def test_cures_are_those_of_a_study(message):
    assert spoken(message) == SAID[message]


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
