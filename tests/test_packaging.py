"""The lists of dependencies for conda state the bounds of pyproject.toml."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OTHER_NAMES = {"heyoka": "heyoka.py", "matplotlib": "matplotlib-base"}
"""Names of packages on conda-forge that differ from those on PyPI."""
EXTRAS = ("bayes", "dask", "formats", "fmu", "mdf", "rig", "studio")
TOOLS = ("pytest", "pytest-xdist", "hypothesis", "openpyxl", "nbclient", "ipykernel", "playwright")


def bounds(lines: list[str]) -> dict[str, str]:
    found = (re.match(r"([A-Za-z0-9_.-]+)(?:\[.*\])?\s*>=\s*([\w.]+)", line.strip(" -")) for line in lines)
    return {match[1]: match[2] for match in found if match}


def wanted(*parts: str) -> dict[str, str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    own = bounds(project["dependencies"])
    for part in parts:
        own |= {name: low for name, low in bounds(extras[part]).items() if part != "dev" or name in TOOLS}
    return {OTHER_NAMES.get(name, name): low for name, low in own.items()}


@pytest.mark.parametrize(("path", "parts"), [("recipe.yaml", ()), ("environment.yml", (*EXTRAS, "dev"))])
def test_bounds_for_conda_are_those_of_the_package(path, parts):
    stated = bounds((ROOT / "packaging" / path).read_text(encoding="utf-8").splitlines())
    asked = wanted(*parts)
    assert len(asked) > 15
    assert {name: stated.get(name) for name in asked} == asked


def test_every_extra_is_in_the_page_of_installation():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert [name for name in extras if f"`[{name}]`" not in page and name != "bench"] == []
