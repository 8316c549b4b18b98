"""The studio in a real browser: equations and numbers while they are typed, sliders."""

import pytest

pytest.importorskip("nicegui", reason="the studio is not installed: pip install 'kapitza[studio]'")
pytest.importorskip("playwright", reason="no driver for the browser: pip install playwright")

from tests.studio.waiting import EQUATIONS, settled, until_written

from kapitza.recordings import copy_recording


def test_equations_are_checked_while_typed_and_a_slider_moves_the_motion(windows, serve, tmp_path):
    link, _ = serve(copy_recording("pendulum", tmp_path))
    study = tmp_path / "pendulum.toml"
    page = windows().open(link)
    settled(page)
    comments = [line for line in study.read_text().splitlines() if line.startswith("#")]
    page.get_by_role("tab", name="Model").click()
    page.fill(EQUATIONS, "phi'' + c*phi' + d*sign(phi') + k*sin(phi = 0")
    page.get_by_text("inside brackets").wait_for()
    page.fill(EQUATIONS, "phi'' + c*phi' + d*sign(phi') + k*sin(phi) = 0")
    page.get_by_text('unknown name "d"').wait_for()
    page.get_by_role("button", name="make d a parameter").click()
    page.wait_for_selector("text=ready to run")
    page.fill("[aria-label='Start of c']", "0")
    page.fill("[aria-label='Start of d']", "0.2")
    until_written(page, study, lambda s: s["model"]["parameters"].get("d") == 0.2)
    assert page.locator("math").count() == 1
    # Without friction the motion misses the data; the slider of k is moved by the keyboard alone.
    said = page.get_by_text("phi misses the data by")
    said.wait_for()
    before = said.inner_text()
    slider = page.locator("[aria-label='Move k'] [tabindex='0']")
    slider.focus()
    slider.press("ArrowRight")
    page.wait_for_function("text => !document.body.innerText.includes(text)", arg=before)
    until_written(page, study, lambda s: s["model"]["parameters"]["k"] > 35.7)
    # Wrong inputs: a message beside the field, nothing of it in the study.
    for label, wrong, message in (
        ("Start of k", "3..5", "is not a number"),
        ("Lower bound of d", "abc", "is not a number"),
        ("Deviation known before of k", "-1", "not a standard deviation"),
        ("Upper bound of c", "-3", "holds nothing"),
        ("Start of d", "1,5,2", "is not a number"),
    ):
        before = study.read_text()
        page.fill(f"[aria-label='{label}']", wrong)
        field = page.locator(".q-field", has=page.locator(f"[aria-label='{label}']"))
        field.locator(f"text={message}").wait_for()
        assert study.read_text() == before
    assert [line for line in study.read_text().splitlines() if line.startswith("#")] == comments
