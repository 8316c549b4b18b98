"""docs/harmonic.md: its blocks run in order."""

import re

from conftest import ROOT


def test_blocks_of_the_page_run(tmp_path, monkeypatch, capsys):
    page = (ROOT / "docs" / "harmonic.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, flags=re.M | re.S)
    assert len(blocks) >= 3
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(blocks), "docs/harmonic.md", "exec"), {})  # noqa: S102
    assert "Fv" in capsys.readouterr().out
