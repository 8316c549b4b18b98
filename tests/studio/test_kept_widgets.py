"""What one window has open or in hand while another one changes the study; columns that are not drawn."""

import tomllib

import numpy as np
import pytest

pytest.importorskip("nicegui", reason="the studio is not installed: pip install 'kapitza[studio]'")
pytest.importorskip("playwright", reason="no driver for the browser: pip install playwright")

from tests.studio.waiting import EQUATIONS, settled, until_written

from kapitza.recordings import copy_recording

ROLE = "[aria-label='Role of a column']"
NAME = "[aria-label='Name in the equations']"
DRAWN_RESPONSE = "[...document.querySelectorAll('.js-plotly-plot')].some(p => p.data?.[0]?.name?.includes('/'))"


def two_windows(windows, link, tab):
    """Open a study twice, at a tab."""
    browser = windows()
    pages = browser.open(link), browser.open(link)
    for page in pages:
        settled(page)
        page.get_by_role("tab", name=tab, exact=True).click()
    # Menus open in the window that has the focus.
    pages[0].bring_to_front()
    return pages


def test_menus_and_cursors_outlive_changes_of_another_window(windows, serve, tmp_path):
    link, _ = serve(copy_recording("pendulum", tmp_path))
    study = tmp_path / "pendulum.toml"
    one, two = two_windows(windows, link, "Model")
    # A menu is open in one window while the other one adds a candidate.
    one.get_by_label("Equation to begin with").click()
    option = one.get_by_role("option", name="pendulum with dry friction")
    option.wait_for()
    before = study.read_text(encoding="utf-8")
    two.get_by_role("button", name="Another candidate").click()
    one.get_by_role("button", name="candidate 2").wait_for()
    option.click()
    until_written(one, study, lambda s: "sign" in s["model"][0]["equations"][0])
    assert "sign" not in tomllib.loads(study.read_text(encoding="utf-8"))["model"][1]["equations"][0]
    # Each of both is one step of the history.
    one.wait_for_selector("text=ready to run")
    for _ in range(2):
        one.get_by_role("button", name="Undo").click()
    until_written(one, study, lambda s: not isinstance(s["model"], list))
    assert study.read_text(encoding="utf-8") == before
    two.get_by_role("button", name="Remove this one").wait_for(state="detached")
    # The cursor stays in its field while the other window adds a parameter to the table.
    one.wait_for_function("s => !document.querySelector(s).value.includes('sign')", arg=EQUATIONS)
    field = one.locator("[aria-label='Start of k']")
    field.focus()
    two.fill(EQUATIONS, "phi'' + a*phi + c*phi' + k*phi = 0")
    two.get_by_role("button", name="make a a parameter").click()
    one.locator("[aria-label='Start of a']").wait_for()
    assert one.evaluate("document.activeElement.getAttribute('aria-label')") == "Start of k"
    one.keyboard.press("Control+a")
    one.keyboard.type("33")
    until_written(one, study, lambda s: s["model"]["parameters"]["k"] == 33.0)


def test_columns_keep_their_menus_and_ignored_ones_are_not_drawn(windows, serve, tmp_path):
    time = np.arange(600) * 0.02
    rows = zip(time, np.cos(3 * time) * np.exp(-0.1 * time), 0.3 * np.cos(3 * time), time + 5.0, strict=True)
    lines = ["time [s],x [mm],force [N],clock", *(f"{t:.3f},{a:.6f},{b:.6f},{c:.3f}" for t, a, b, c in rows)]
    (tmp_path / "run.csv").write_text("\n".join(lines), encoding="utf-8")
    link, _ = serve(tmp_path / "run.csv")
    study = tmp_path / "run.toml"
    one, two = two_windows(windows, link, "Recording")
    # The clock is ignored: it is neither drawn nor in the spectrum until it is wanted.
    names = {"x": 0, "force": 1, "clock": 2}
    assert "clock" not in one.locator(".kz-recording").inner_text()
    every = one.get_by_text("ignored columns too")
    every.click()
    one.wait_for_function("document.querySelector('.kz-recording').innerText.includes('clock')")
    every.click()
    one.wait_for_function("!document.querySelector('.kz-recording').innerText.includes('clock')")
    # A column that drives has a frequency response.
    response = one.get_by_role("button", name="Frequency response")
    response.click()
    one.wait_for_function(DRAWN_RESPONSE)
    # A menu is open in one window while the other one names a column.
    one.locator(ROLE).nth(names["force"]).click()
    option = one.get_by_role("option", name="moves")
    option.wait_for()
    name = two.locator(NAME).nth(names["x"])
    name.fill("q")
    name.press("Tab")
    one.wait_for_function("s => document.querySelectorAll(s)[0].value === 'q'", arg=NAME)
    option.click()
    until_written(one, study, lambda s: s["data"]["channels"].get("force") == "force" and "drive" not in s["data"])
    assert tomllib.loads(study.read_text(encoding="utf-8"))["data"]["channels"]["x"] == "q"
    response.wait_for(state="detached")
