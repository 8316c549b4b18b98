"""Writes the type stub of the package and docs/api.md from the one list of public names (kapitza/public.py)."""

from __future__ import annotations

from pathlib import Path

import kapitza
from kapitza.base.files import replacing
from kapitza.public import FOLDERS, HOMES, PUBLIC

ROOT = Path(__file__).resolve().parent.parent
STUB = Path(kapitza.__file__).with_suffix(".pyi")
REFERENCE = ROOT / "docs" / "api.md"
BESIDES = {
    "How sure an estimate is": ("kapitza.estimate.Suggestion",),
    "Figures": tuple(
        f"kapitza.report.plot_{name}"
        for name in ("fit", "forces", "force_surface", "intervals", "likelihood", "convergence", "decay")
    ),
}
"""Shown in the reference though not names of the package itself: what a verb returns, figures that no noun draws."""


def stub() -> str:
    """Text of the type stub: every public name imported from its home."""
    homes = sorted(set(HOMES.values()))
    imports = ["from . import (\n" + "".join(f"    {folder} as {folder},\n" for folder in sorted(FOLDERS)) + ")"]
    for home in homes:
        names = sorted(name for name, its in HOMES.items() if its == home)
        imports.append(f"from {home} import (\n" + "".join(f"    {name},\n" for name in names) + ")")
    listed = "".join(f'    "{name}",\n' for name in sorted([*HOMES, "library"]))
    body = "\n".join(imports)
    return f"# Written from public.py by `python -m harness`.\n{body}\n\n__version__: str\n__all__ = [\n{listed}]\n"


def reference() -> str:
    """Text of docs/api.md: every public name under its title."""
    lines = [
        "# API reference",
        "Names of the package itself: `import kapitza as kz`, then `kz.identify`. This page is written from the "
        "list in `kapitza/public.py`; [architecture](architecture.md) shows how the folders depend on each other.",
        "![The folders and how they depend on each other](architecture.svg)",
    ]
    for title in [*PUBLIC, *(BESIDES.keys() - PUBLIC.keys())]:
        names = [f"{home}.{name}" for home, names in PUBLIC.get(title, {}).items() for name in names]
        shown = [*names, *BESIDES.get(title, ())]
        lines += [f"## {title}", "\n".join(f"::: {name}" for name in shown)]
    return "\n\n".join(lines) + "\n"


def write_public_names() -> None:
    """Rewrite both files."""
    for path, text in ((STUB, stub()), (REFERENCE, reference())):
        with replacing(path) as draft:
            draft.write_text(text, encoding="utf-8")
