"""Documentation: no dead links in the repository, a picture on every page, no page left out of the menu."""

import re
import subprocess
from pathlib import Path

import pytest
from harness.mathml import with_mathml

from conftest import ROOT

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
PAGES = sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "jobs").glob("*.md")])
KEPT = subprocess.run(
    ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], cwd=ROOT, capture_output=True, text=True
)
# A tree without a history, as that of a source distribution, has its own files alone.
TEXTS = sorted(ROOT / name for name in KEPT.stdout.splitlines()) if KEPT.returncode == 0 else sorted(ROOT.rglob("*.md"))


def anchors(path: Path) -> set[str]:
    """Anchors of the headings, as they are made from their words."""
    heads = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", head.lower()).strip()) for head in heads}


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        place, _, anchor = target.partition("#")
        found = (path.parent / place).resolve() if place else path
        if found.parent.name == "results" and not found.exists():
            # made by a command: `python -m reproductions NAME`, or `python -m harness` for the index
            makers = [ROOT / folder / f"{found.stem}.py" for folder in ("reproductions", "benchmarks")]
            assert found.stem == "index" or any(maker.is_file() for maker in makers), f"{target} in {path.name}"
            continue
        assert found.exists(), f"{target} in {path.name}"
        if anchor and found.suffix == ".md":
            assert anchor in anchors(found), f"{target} in {path.name}"


def test_every_page_has_a_picture_and_a_place_in_the_menu():
    assert len(PAGES) > 20
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert [p.name for p in PAGES if not re.search(r"!\[[^\]]+\]\(", p.read_text(encoding="utf-8"))] == []
    places = [p.relative_to(ROOT / "docs").as_posix() for p in PAGES]
    assert [place for place in places if place not in menu] == []
    start = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert [place for place in places if place != "index.md" and f"({place})" not in start] == []


def test_formulas_are_drawn_without_a_network():
    formulas = 0
    for path in PAGES:
        text = re.sub(r"```.*?```", "", with_mathml(path.read_text(encoding="utf-8")), flags=re.DOTALL)
        assert "$$" not in text, path.name
        formulas += text.count("<math")
        assert "merror" not in text
    assert formulas >= 4
    assert with_mathml("```\n$$a$$\n```") == "```\n$$a$$\n```"
