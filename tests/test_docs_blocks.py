"""Code blocks of the documentation: every page is run, here or by a named command, and what it shows is compared."""

import ast
import re

import pytest
from harness.docs_blocks import MAKER, PAGES, RUN, blocks, maker, printed_by, run_page, same_output

import kapitza as kz
from conftest import ROOT

DOCS = ROOT / "docs"
QUICK = [page for page in PAGES if maker(page) == "make test"]


@pytest.mark.parametrize("page", QUICK, ids=lambda page: page.stem)
def test_blocks_of_a_page_run_and_print_what_it_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(page)


def test_every_page_with_code_is_run_somewhere():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipes = dict(re.findall(r"^([\w-]+):.*\n((?:\t.*\n)+)", makefile, re.MULTILINE))
    assert "-m harness.docs_blocks\n" in recipes["docs"]
    assert "-m harness.docs_blocks device\n" in recipes["test-device"]
    makers = {page.stem: maker(page) for page in PAGES if maker(page)}
    assert set(makers.values()) == {"make test", "make docs", "make test-device"}
    assert [name for name, command in makers.items() if command == "make test-device"] == ["device"]
    assert len(QUICK) >= 6
    assert len(makers) >= 30
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert text.count("<!-- blocks:") == len(MAKER.findall(text)) <= 1, page.name
        # Every fence and every hidden run is seen by the runner.
        found = [block for block in blocks(page) if block.kind in (*RUN, "hidden")]
        assert len(found) == len(re.findall(r"^```(?:python|console|sh)$|^<!-- run$", text, re.MULTILINE)), page.name


def test_python_of_every_page_can_be_parsed():
    parsed = [ast.parse(b.text) for page in PAGES for b in blocks(page) if b.kind in ("python", "hidden")]
    assert len(parsed) > 70


def test_output_is_compared_in_full():
    assert same_output("k = 0.1234 ± 1.2e-05\n", "k  =  0.1235 ± 1.3e-05")
    assert not same_output("k = 0.1234", "k = 0.1236")
    assert not same_output("4 orbits", "5 orbits")
    assert not same_output("k = 0.1234", "k = 0.1234\nwarning")
    assert not same_output("k = 0.1234", "c = 0.1234")
    assert not same_output("k = -0.1234", "k = 0.1234")


def test_a_wrong_page_is_noticed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text("<!-- run\nx = 3\n-->\n\n```python\nprint(x)\n```\n\n```text\n3\n```\n", encoding="utf-8")
    run_page(page)
    page.write_text("```python\nprint(2)\n```\n\n```text\n3\n```\n", encoding="utf-8")
    with pytest.raises(AssertionError, match=r"page\.md:1 shows"):
        run_page(page)


def test_the_first_hour_has_six_steps():
    page = DOCS / "first_hour.md"
    assert any(block.kind == "console" for block in blocks(page))
    assert len(re.findall(r"^### \d\.", page.read_text(encoding="utf-8"), re.MULTILINE)) <= 6


def test_the_pendulum_of_the_first_hour_is_a_study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    printed_by("kapitza example pendulum")
    (text,) = (block.text for block in blocks(DOCS / "first_hour.md") if block.kind == "toml")
    (tmp_path / "pendulum.toml").write_text(text, encoding="utf-8")
    study = kz.read_study(tmp_path / "pendulum.toml")
    assert [candidate.name for candidate in study.candidates] == ["viscous", "viscous and dry"]
    assert study.fitted[0].record.angles == (True,)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_of_every_page_exist(page):
    """Commands that a page names are commands of the package."""
    from kapitza.cli.app import app

    known = {command.name for command in app.registered_commands} | {"rig", "--version", "--help"}
    for block in blocks(page):
        text = block.text if block.kind in ("sh", "console") else ""
        for command in re.findall(r"^(?:\$ )?kapitza (\S+)", text, re.MULTILINE):
            assert command in known, f"kapitza {command}"
