"""Test the layout: what a folder does not name in its __init__ is private to it."""

import ast
import collections
import functools
import re
from pathlib import Path

import pytest

import kapitza
from conftest import ROOT
from kapitza.public import NAMESPACES, PUBLIC
from kapitza.saving.classes import HOMES

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
    assert {"base", "model", "flow", "data", "estimate", "orbits"} <= set(FOLDERS)


OPEN = {("orbits", "in_records"), ("orbits", "of_models"), ("orbits", "find_orbits")}
"""Parts of a folder that other folders use; the package `orbits` itself holds the noun, which both need."""


@pytest.mark.parametrize("folder", [name for name in FOLDERS if name != "base"])
def test_no_import_of_a_private_module_of_another_folder(folder):
    """`from kapitza.flow.core import Core` outside of flow: take it from kapitza.flow, or name it there first."""
    reached = [
        f"{path.relative_to(SOURCE)}: kapitza.{'.'.join(name)}"
        for path in FILES
        if path.relative_to(SOURCE).parts[0] != folder
        for name in imported(path)
        if len(name) > 1 and name[0] == folder and name not in OPEN
    ]
    assert reached == []


NAMED_TWICE = {"__init__.py", *(f"{part}/__init__.py" for part in (*NAMESPACES, "cli", "recordings", "studio"))}
"""Packages that users see: they list their names in `__all__`, whether this repository uses them or not."""


def test_what_a_folder_names_is_used_outside_of_the_module_that_defines_it():
    """The imports of an `__init__.py` are the list of what the folder offers: a name that nobody takes goes."""
    public = {(home, name) for homes in PUBLIC.values() for home, names in homes.items() for name in names}
    taken = collections.Counter(public | {(home, name) for name, home in HOMES.items()})
    users = [*FILES, *(p for part in ("tests", "harness", "benchmarks") for p in (ROOT / part).rglob("*.py"))]
    users += [p for part in ("reproductions", "examples") for p in (ROOT / part).rglob("*.py")]
    for path in users:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                taken.update((node.module, alias.name) for alias in node.names)
    unused = []
    for path in SOURCE.rglob("__init__.py"):
        if path.relative_to(SOURCE).as_posix() not in NAMED_TWICE:
            folder = ".".join(("kapitza", *path.parent.relative_to(SOURCE).parts))
            body = ast.parse(path.read_text(encoding="utf-8")).body
            imports = [n for n in body if isinstance(n, ast.ImportFrom) and n.module != "__future__"]
            names = [alias.asname or alias.name for node in imports for alias in node.names]
            unused += [f"{folder}.{name}" for name in names if not taken[folder, name]]
    assert unused == []


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


DECOMPOSITIONS = {
    "eig", "eigh", "eigvals", "eigs", "eigsh", "eig_banded", "eigh_tridiagonal", "lobpcg", "svd", "svds", "qr", "rq",
    "qz", "ordqz", "schur", "hessenberg", "cossin", "orth", "null_space", "subspace_angles",
}  # fmt: skip
"""Functions whose signs, order or basis are left to LAPACK."""

VALUES_ALONE = {("compute_uv", False), ("eigvals_only", True)}
"""Arguments with which they return ordered numbers and no vectors."""


def decompositions(path: Path) -> list[tuple[int, str, bool]]:
    """Line, name and whether a reason is given, of the calls whose signs or order LAPACK decides."""
    text = path.read_text(encoding="utf-8")
    lines, found = text.splitlines(), []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call):
            continue
        # np.linalg.eig, linalg.eig, mpmath.eig, or eig imported by name.
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        given = {(k.arg, k.value.value) for k in node.keywords if isinstance(k.value, ast.Constant)}
        if name in DECOMPOSITIONS and not given & VALUES_ALONE:
            assert node.end_lineno is not None
            said = any("# any sign: " in line for line in lines[node.lineno - 1 : node.end_lineno])
            found.append((node.lineno, name, said))
    return found


def test_signs_and_order_of_vectors_are_those_of_one_module():
    """Elsewhere take them from kapitza.solve, or say why they cancel: `# any sign: Q Qᵀ`."""
    own = SOURCE / "solve" / "factors.py"
    assert len(decompositions(own)) >= 6
    named = [(path, *call) for path in FILES if path != own for call in decompositions(path)]
    assert len(named) > 10
    assert [f"{path.relative_to(SOURCE)}:{line} {name}" for path, line, name, said in named if not said] == []


def test_sorted_orders_are_stable():
    """Without kind="stable" the order of equal numbers depends on the SIMD width that NumPy sorts with."""
    unstable = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("argsort", "argpartition")
        and ast.unparse(node).count("kind='stable'") == 0
    ]
    assert unstable == []


WRITERS = {"write_text", "write_bytes", "to_csv", "savefig", "savez", "savez_compressed", "savemat", "write_table"}
ASIDE = ("draft", "stream")
"""What a file is written into: the draft that `base.files` puts in its place, or a stream of it or of the memory."""

OWN_DRAFT = {("data", "write.py"), ("base", "csv_tables.py"), ("base", "files.py"), ("base", "locks.py")}
"""Modules whose functions are handed the draft as `path`, and the code that makes drafts and locks."""


def test_files_are_written_aside_and_put_in_their_place():
    found, seen = [], 0
    for path in FILES:
        if path.relative_to(SOURCE).parts in OWN_DRAFT:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WRITERS):
                continue
            seen += 1
            place = node.func.value if node.func.attr.startswith("write_") else node.args[0]
            if not ast.unparse(place).startswith(ASIDE):
                found.append(f"{path.relative_to(SOURCE)}:{node.lineno}: {ast.unparse(node)[:80]}")
    assert seen > 10
    assert not found, "\n".join(found)


UNDER_TEST = {
    "test_architecture.py": {"saving"},
    "hostile": {"saving", "estimate", "study"},
    "data/test_stored.py": {"estimate"},
    "estimate/shooting_fit/test_many_states.py": {"flow"},
}
"""Tests that need private modules of other folders too: attacks on files, parts of stored records, shared columns."""


def test_tests_import_private_modules_of_what_they_test_only():
    """tests/FOLDER may know the modules of kapitza.FOLDER; of others what their package offers, base and commands."""
    wrong = []
    files = sorted((ROOT / "tests").rglob("*.py"))
    assert files
    for path in files:
        place = path.relative_to(ROOT / "tests").parts
        own = {"base", "cli", place[0], *UNDER_TEST.get(place[0], ()), *UNDER_TEST.get("/".join(place), ())}
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("kapitza."):
                continue
            parts = node.module.split(".")
            package = SOURCE.joinpath(*parts[1:]).is_dir()
            if len(parts) > 2 and parts[1] not in own and not package:
                wrong.append(f"{'/'.join(place)}: {node.module}")
    assert not wrong


def test_no_part_is_found_by_the_name_of_an_attribute():
    """Optional behaviour is a typed part: no hasattr, no getattr with None, no __dict__ by name, no class names."""
    pattern = re.compile(r"\bhasattr\(|__dict__\[|getattr\([\w.]+, *[\w\"]+, *None\)|__name__ == (?!\"__main__\")")
    found = [
        f"{path.relative_to(SOURCE)}:{number}"
        for path in sorted(SOURCE.rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found
