"""The house: what a folder does not name in its __init__ is private to it; every part has a place."""

import ast
import functools
from pathlib import Path

import pytest

import kapitza

SOURCE = Path(kapitza.__file__).parent
FOLDERS = sorted(p.name for p in SOURCE.iterdir() if (p / "__init__.py").is_file())
FILES = sorted(SOURCE.rglob("*.py"))


@functools.cache
def imported(path: Path) -> list[tuple[str, ...]]:
    """Modules of the package that a file imports, also inside functions, as tuples of names below kapitza."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide where a name comes from"
            found.append(node.module or "")
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
    return [tuple(name.split(".")[1:]) for name in found if name.split(".")[0] == "kapitza"]


def test_the_folders_are_there():
    assert {"model", "flow", "data", "estimate", "orbits_of_models", "orbits_in_data"} <= set(FOLDERS)


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_import_of_a_private_module_of_another_folder(folder):
    """`from kapitza.flow.core import Core` outside of flow: take it from kapitza.flow, or name it there first."""
    reached = [
        f"{path.relative_to(SOURCE)}: kapitza.{'.'.join(name)}"
        for path in FILES
        if path.relative_to(SOURCE).parts[0] != folder
        for name in imported(path)
        if len(name) > 1 and name[0] == folder
    ]
    assert reached == []


def test_what_a_folder_names_is_there():
    for folder in FOLDERS:
        module = __import__(f"kapitza.{folder}", fromlist=["__all__"])
        missing = [name for name in getattr(module, "__all__", ()) if not hasattr(module, name)]
        assert missing == [], folder


def constants(path: Path) -> list[tuple[int, str, bool]]:
    """Line, name and whether a reason stands below or beside, of the numbers that a module names."""
    text = path.read_text(encoding="utf-8")
    lines, body, found = text.splitlines(), ast.parse(text).body, []
    for node, below in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        name, value = node.targets[0].id, node.value
        value = value.operand if isinstance(value, ast.UnaryOp) else value
        if not name.isupper() or not (isinstance(value, ast.Constant) and isinstance(value.value, int | float)):
            continue
        said = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        said |= "#" in lines[node.lineno - 1] or lines[node.lineno - 2].lstrip().startswith("#")
        found.append((node.lineno, name, said))
    return found


LIMITS = ("MOST_", "LARGEST_", "LONGEST_", "DEEPEST")
"""Of what is accepted: they refuse with a message and decide no result."""


def test_numbers_that_decide_results_have_a_reason():
    named = [(path, *constant) for path in FILES for constant in constants(path)]
    assert len(named) > 300
    bare = [
        f"{path.relative_to(SOURCE)}:{line} {name}"
        for path, line, name, said in named
        if not said and not name.startswith(LIMITS)
    ]
    assert bare == []
