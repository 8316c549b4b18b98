"""docs/models.md: its blocks run in order, and print what the page shows."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kapitza.model import read_model

PAGE = Path(__file__).resolve().parents[2] / "docs" / "models.md"


def blocks(*languages: str) -> list[str]:
    found = re.findall(r"^```(\w+)\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.M | re.S)
    return [text for language, text in found if language in languages]


def test_python_blocks_print_what_the_page_shows(tmp_path):
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks("python")), encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-W", "error", script],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert result.returncode == 0, result.stderr
    shown = "".join(blocks("text"))
    assert result.stdout.strip() == shown.strip()


def test_the_file_on_the_page_is_a_model(tmp_path):
    (toml,) = blocks("toml")
    (tmp_path / "rig.toml").write_text(toml, encoding="utf-8")
    model = read_model(tmp_path / "rig.toml")
    assert model.states == ("phi", "phi'")
    assert model.values["f0"] == pytest.approx(math.sqrt(9.81 / 0.25) / (2 * math.pi), rel=1e-14)
    assert list(model.outputs) == ["encoder"]
