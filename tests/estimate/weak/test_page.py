"""docs/harmonic.md: its blocks run in order."""

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "docs" / "harmonic.md"


def test_blocks_of_the_page_run(tmp_path):
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.M | re.S)
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks), encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-W", "error", script],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    assert "Fv" in result.stdout
