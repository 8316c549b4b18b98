"""Code blocks of the documentation: commands run as they stand, with their output compared in full.

Blocks of one page run one after the other in one working directory. A block ```console holds commands after "$ ", each
followed by all that it prints; a page of the list RUN has Python that runs as it stands. The Python of other pages is
parsed: it goes on from a recording or a fit of the reader.
"""

import ast
import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

import kapitza as kz
from conftest import ROOT
from kapitza.cli import main

DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
PAGES = sorted([*DOCS.glob("*.md"), *(DOCS / "jobs").glob("*.md")])
RUN = ("data.md", "events.md")
"""Pages whose Python runs as it stands."""


def blocks(page: Path, kind: str) -> list[str]:
    return [text for found, text in BLOCK.findall(page.read_text(encoding="utf-8")) if found == kind]


def printed(command: str) -> str:
    """Run a command line in this process; return what it prints."""
    words = shlex.split(command)
    assert words[0] == "kapitza"
    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.raises(SystemExit) as ended:
        main(words[1:])
    assert not ended.value.code, command
    return out.getvalue()


CONSOLE = [page for page in PAGES if blocks(page, "console")]


@pytest.mark.parametrize("page", CONSOLE, ids=lambda page: page.stem)
def test_commands_print_what_the_page_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for block in blocks(page, "console"):
        parts = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)
        assert parts[0] == ""
        for command, shown in zip(parts[1::2], parts[2::2], strict=True):
            assert printed(command).rstrip() == shown.rstrip(), command


def test_the_first_hour_is_one_of_them():
    page = DOCS / "first_hour.md"
    assert page in CONSOLE
    steps = re.findall(r"^### \d\.", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(steps) <= 6


def test_the_pendulum_of_the_first_hour_is_a_study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    printed("kapitza example pendulum")
    (text,) = blocks(DOCS / "first_hour.md", "toml")
    (tmp_path / "pendulum.toml").write_text(text, encoding="utf-8")
    study = kz.read_study(tmp_path / "pendulum.toml")
    assert [candidate.name for candidate in study.candidates] == ["viscous", "viscous and dry"]
    assert study.fitted[0].record.angles == (True,)


@pytest.mark.parametrize("name", RUN)
def test_python_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space: dict = {}
    for text in blocks(DOCS / name, "python"):
        exec(compile(text, name, "exec"), space)  # noqa: S102 - the repository's own documentation


def test_python_of_every_page_can_be_parsed():
    parsed = [ast.parse(text) for page in PAGES for text in blocks(page, "python")]
    assert len(parsed) > 50


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_of_every_page_exist(page):
    """Commands that a page names are commands of the package."""
    from kapitza.cli.app import app

    known = {command.name for command in app.registered_commands} | {"rig", "--version", "--help"}
    for text in (*blocks(page, "sh"), *blocks(page, "console")):
        for command in re.findall(r"^(?:\$ )?kapitza (\S+)", text, re.MULTILINE):
            assert command in known, f"kapitza {command}"
