"""The studio by keyboard alone: from a recording of the folder to the report."""

import pytest

pytest.importorskip("nicegui", reason="the studio is not installed: pip install 'kapitza[studio]'")
pytest.importorskip("playwright", reason="no driver for the browser: pip install playwright")

from tests.studio.waiting import EQUATIONS, settled, until_written

from kapitza.recordings import copy_recording

FOCUSED = "document.activeElement"
MOST_TABS = 100


def tab_to(page, condition):
    """Press Tab until an element with this condition has the focus, as a person without a mouse does."""
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        if page.evaluate(f"(e => {condition})({FOCUSED})"):
            return
    raise AssertionError(f"Tab does not reach {condition}")


def open_tab(page, name):
    """Go to the tabs, choose one by arrows and press it."""
    tab_to(page, "e.getAttribute('role') === 'tab'")
    for _ in range(10):
        if page.evaluate(f"{FOCUSED}.innerText.includes({name!r})"):
            break
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_selector(f".q-tab--active:has-text('{name}')")


RING = "getComputedStyle(document.activeElement).boxShadow.includes('0px 0px 0px 4px')"
"""Whether a button that has the focus shows it."""


def focused(page, condition):
    """Wait until the focus is on an element with this condition."""
    page.wait_for_function(f"() => (e => {condition})({FOCUSED})")


def test_from_a_recording_to_the_report_by_keyboard_alone(windows, serve, tmp_path):
    copy_recording("pendulum", tmp_path)
    link, _ = serve(tmp_path)
    page = windows().open(link)
    page.wait_for_selector("text=Try the pendulum")
    page.mouse.click = page.mouse.down = None  # whoever uses the mouse here fails
    tab_to(page, "e.classList.contains('q-item') && e.innerText.includes('pendulum.csv')")
    page.keyboard.press("Enter")
    settled(page)
    study = tmp_path / "pendulum.toml"
    tab_to(page, "e.getAttribute('aria-label') === 'Zoom in'")
    page.wait_for_function(f"() => {RING}")
    # A span of the recording: zoomed in, taken, held back.
    tab_to(page, "e.classList.contains('kz-recording')")
    for key in ("+", "+", "s"):
        page.keyboard.press(key)
    # The server shows the buttons of a span; Tab would pass by before.
    page.get_by_role("button", name="Hold back").wait_for()
    tab_to(page, "e.tagName === 'BUTTON' && e.innerText.includes('Hold back')")
    page.keyboard.press("Enter")
    until_written(page, study, lambda s: "hold_back" in s["data"])
    # The buttons of the span are gone; the keyboard goes on at the picture.
    focused(page, "e.classList.contains('kz-recording')")
    # The equation is typed over the one that stands there.
    open_tab(page, "Model")
    page.wait_for_selector(EQUATIONS)
    tab_to(page, "e.tagName === 'TEXTAREA'")
    page.keyboard.press("Control+a")
    page.keyboard.type("phi'' + c*phi' + d*sign(phi') + k*sin(phi) = 0")
    page.get_by_role("button", name="make d a parameter").wait_for()
    tab_to(page, "e.tagName === 'BUTTON' && e.innerText.includes('make d a parameter')")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=ready to run")
    open_tab(page, "Fit")
    tab_to(page, "e.tagName === 'BUTTON' && e.innerText.trim().endsWith('Fit') && !e.disabled")
    page.keyboard.press("Enter")
    page.locator(".kz-verdict").wait_for(timeout=600_000)
    focused(page, "e.tagName === 'BUTTON' && e.innerText.trim().endsWith('Fit')")
    open_tab(page, "Report and files")
    tab_to(page, "e.tagName === 'BUTTON' && e.innerText.includes('Open the report')")
    with page.context.expect_page() as opened:
        page.keyboard.press("Enter")
    report = opened.value
    report.wait_for_load_state()
    # Friction of the recording that comes with the package: c = 0.08, d = 0.25 (its description).
    assert "0.25" in report.inner_text("body")
    assert (tmp_path / "pendulum-results" / "report.html").is_file()
