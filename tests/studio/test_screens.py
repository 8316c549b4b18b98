"""Every pane, dark and light, wide and narrow: nothing runs out of the window; pictures for the docs on request.

KAPITZA_SCREENSHOTS=docs/images/studio python -m pytest tests/studio/test_screens.py
"""

import os
from pathlib import Path

import pytest

pytest.importorskip("nicegui", reason="the studio is not installed: pip install 'kapitza[studio]'")
pytest.importorskip("playwright", reason="no driver for the browser: pip install playwright")

from tests.studio.waiting import DRAWN

from kapitza.recordings import copy_recording

PANES = {"recording": "Recording", "model": "Model", "orbits": "Orbits", "fit": "Fit", "diagram": "Diagram",
         "rig": "Rig", "share": "Report and files"}  # fmt: skip


def test_every_pane_fits_into_the_window(windows, serve, tmp_path):
    folder = os.environ.get("KAPITZA_SCREENSHOTS")
    link, _ = serve(copy_recording("shaker", tmp_path))
    too_wide = []
    for width, dark in (
        ((1280, False), (1280, True), (820, False), (820, True)) if folder else ((1280, False), (820, True))
    ):
        page = windows(width, 900, dark).open(link)
        page.wait_for_selector("text=ready to run")
        for name, title in PANES.items():
            page.get_by_role("tab", name=title, exact=True).click()
            page.wait_for_selector(".kz-pane:visible")
            if name in ("recording", "model"):
                page.wait_for_function(DRAWN)
            if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
                too_wide.append((name, width))
            if folder:
                page.wait_for_timeout(1500)
                place = Path(folder) / f"{name}-{width}-{'dark' if dark else 'light'}.png"
                place.parent.mkdir(parents=True, exist_ok=True)
                page.screenshot(path=str(place), full_page=True)
    assert too_wide == []
