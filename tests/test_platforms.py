"""The same output under other locales, time zones, umasks, hash seeds, folders and switches of Python."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from processes import PATIENCE

PROGRAM = """
import sys
from pathlib import Path
import numpy as np
import kapitza as kz

if len(sys.argv) > 2:
    import locale
    for name in sys.argv[2:]:  # a program that takes over the locale of its user, decimal commas and all
        try:
            locale.setlocale(locale.LC_ALL, name)
            break
        except locale.Error:
            continue
folder = Path(sys.argv[1])
model = kz.Model.from_equations(
    "φ'' + c*φ' + k*sin(φ) = 0", angles=["φ"], parameters={"c": 0.1, "k": 4.0}, start={"φ": 2.0, "φ'": 0.0}
)
record = kz.measure(kz.simulate(model, t=np.arange(400) * 0.05), noise=1e-3, seed=1).select(["φ"])
kz.write(record, folder / "run.csv")
again = kz.read(folder / "run.csv")
stamps = folder / "stamps.csv"
stamps.write_text("time,x\\n2026-03-29T01:30:00,1.5\\n2026-03-29T02:30:00,2.5\\n2026-03-29T03:30:00,4\\n")
fit = kz.identify(model.with_values(c=0.2, k=3.0), again, ["c", "k"], kz.ShootingFit())
fit.report(folder / "fit.html")
kz.save(fit, folder / "fit.nc")
orbits = kz.find_orbits(kz.library.duffing(), max_period=1, starts=64)
text = [fit, kz.load(folder / "fit.nc"), again, kz.read(stamps).time.tolist(), kz.suggest(fit), orbits.table().to_csv()]
print(ascii("\\n".join(str(t) for t in text)))
print(sorted(p.name.encode() for p in folder.iterdir()))
print((folder / "fit.html").stat().st_mode & 0o077)
"""

CASES = {
    "plain": ({}, (), (), None),
    "C locale": (
        {"LC_ALL": "C", "PYTHONUTF8": "0", "TZ": "Pacific/Apia", "PYTHONHASHSEED": "1"}, ("-W", "error"), (), None
    ),
    "decimal commas": (
        {"LC_ALL": "de_DE.UTF-8", "TZ": "Europe/Berlin", "PYTHONHASHSEED": "2"},
        ("-OO",),
        ("de_DE.UTF-8", "de_DE.utf8", ""),
        "/proc",
    ),
}  # fmt: skip
"""Environment, switches of Python, locales to set, and a working directory that cannot be written to."""


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What the program prints in each case; all of them run at once."""
    running, program = {}, tmp_path_factory.mktemp("program") / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    for case, (environment, switches, locales, place) in CASES.items():
        folder = tmp_path_factory.mktemp("out")
        running[case] = subprocess.Popen(
            [sys.executable, *switches, str(program), str(folder), *locales],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=place or folder, umask=0o077,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        )  # fmt: skip
    answers = {case: child.communicate(timeout=PATIENCE) for case, child in running.items()}
    for case, child in running.items():
        assert child.returncode == 0, (case, answers[case][1].decode(errors="replace"))
    return {case: out.decode("ascii") for case, (out, _) in answers.items()}


@pytest.mark.parametrize("case", list(CASES)[1:])
def test_the_output_is_the_same(shown, case):
    assert shown[case] == shown["plain"]
    assert "converged" in shown[case]


def test_files_obey_the_umask(shown):
    assert {answer.splitlines()[-1] for answer in shown.values()} == {"0"}


def test_the_package_does_not_use_asserts_for_its_logic():
    """Python -O removes them: only those that tell the type checker what is known are allowed."""
    import ast

    import kapitza

    found = []
    for path in Path(kapitza.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Assert):
                tests = node.test.values if isinstance(node.test, ast.BoolOp) else [node.test]
                for test in tests:
                    known = isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot | ast.Is)
                    known |= isinstance(test, ast.Call) and getattr(test.func, "id", "") == "isinstance"
                    if not known:
                        found.append(f"{path.name}:{node.lineno} {ast.unparse(node)}")
    assert found == []
