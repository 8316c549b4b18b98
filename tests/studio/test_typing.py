"""The studio in a real browser: equations and numbers while they are typed, sliders."""

import tomllib

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
    page.get_by_text('"(" is not closed before').wait_for()
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
    start = tomllib.loads(study.read_text(encoding="utf-8"))["model"]["parameters"]["k"]
    slider = page.locator("[aria-label='Move k'] [tabindex='0']")
    slider.focus()
    slider.press("ArrowRight")
    page.wait_for_function("text => !document.body.innerText.includes(text)", arg=before)
    until_written(page, study, lambda s: s["model"]["parameters"]["k"] > start)
    # The slider moves its field too; text that is typed into it meanwhile stays.
    # Wrong inputs: a message beside the field, nothing of it in the study.
    for label, wrong, message in (
        ("Start of k", "3..5", "is not a number"),
        ("Lower bound of d", "abc", "is not a number"),
        ("Deviation known before of k", "-1", "not a standard deviation"),
        ("Upper bound of c", "-3", "holds nothing"),
        ("Start of d", "1,5,2", "is not a number"),
    ):
        before = study.read_text()
        filled(page, label, wrong, message)
        assert study.read_text() == before
    # Those that only a check of the whole study finds; a right value takes the message away.
    filled(page, "Unit of k", "furlongz", "is not known")
    until_written(page, study, lambda s: s["model"]["parameters"]["k"]["unit"] == "furlongz")
    filled(page, "Unit of k", "1/s^2", "")
    page.wait_for_selector("text=ready to run")
    # The start that is typed afterwards leaves the unit where it is.
    filled(page, "Start of k", "35", "")
    until_written(page, study, lambda s: s["model"]["parameters"]["k"] == {"value": 35.0, "unit": "1/s^2"})
    # Undone and done again, the field shows what it had written itself.
    page.get_by_role("button", name="Undo").click()
    page.wait_for_function("document.querySelector(\"[aria-label='Start of k']\").value !== '35'")
    page.get_by_role("button", name="Redo").click()
    page.wait_for_function("document.querySelector(\"[aria-label='Start of k']\").value === '35'")
    for tab, label, wrong, right, message in (
        ("Fit", "share held back", "2", "0.2", "is not a share"),
        ("Orbits", "longest period", "0", "", "at least 1 period"),
    ):
        page.get_by_role("tab", name=tab, exact=True).click()
        filled(page, label, wrong, message)
        page.wait_for_selector("text=1 to mend")
        filled(page, label, right, "")
        page.wait_for_selector("text=ready to run")
    for tab, label, wrong, message in (
        ("Diagram", "to", "0.1", "take it into the range"),
        ("Rig", "start at", "99", "is not between"),
        ("Rig", "noise of the sensor", "-1", "is negative"),
    ):
        page.get_by_role("tab", name=tab, exact=True).click()
        field(page, label).locator("input").fill(wrong)
        page.get_by_role("button", name="Follow").click()
        field(page, label).get_by_text(message).wait_for()
    assert [line for line in study.read_text().splitlines() if line.startswith("#")] == comments


def field(page, label):
    """Return the field of a label, with the room for its message."""
    named = f".q-field:has([aria-label='{label}'])", f".q-field:has(.q-field__label:text-is('{label}'))"
    return page.locator(", ".join(named)).locator("visible=true")


def filled(page, label, text, message):
    """Fill a field and wait for the message beside it; "" waits until there is none."""
    field(page, label).locator("input").fill(text)
    if message:
        field(page, label).get_by_text(message).wait_for()
    else:
        field(page, label).locator(".q-field__messages:not(:empty)").wait_for(state="detached")


def test_an_equation_of_the_menu_is_shown_in_its_field_and_undone(windows, serve, tmp_path):
    link, _ = serve(copy_recording("pendulum", tmp_path))
    study = tmp_path / "pendulum.toml"
    page = windows().open(link)
    settled(page)
    before = study.read_text()
    page.get_by_role("tab", name="Model").click()
    page.get_by_label("Equation to begin with").click()
    page.get_by_role("option", name="pendulum with dry friction").click()
    page.wait_for_function("s => document.querySelector(s).value.includes('sin(phi)')", arg=EQUATIONS)
    page.wait_for_selector("text=ready to run")
    found = tomllib.loads(study.read_text())
    assert found["model"]["equations"] == ["phi'' + c*phi' + d*sign(phi') + k*sin(phi) = 0"]
    # What was known of c and k stays, d is new.
    assert found["model"]["parameters"]["k"] == tomllib.loads(before)["model"]["parameters"]["k"]
    assert (found["model"]["parameters"]["d"]["value"], found["fit"]["free"]) == (1.0, ["c", "d", "k"])
    # Comments inside [model] stay too.
    comments = [line for line in before.splitlines() if line.startswith("#")]
    assert [line for line in study.read_text().splitlines() if line.startswith("#")] == comments
    page.get_by_role("button", name="Undo").click()
    until_written(page, study, lambda s: s == tomllib.loads(before))
    assert study.read_text() == before
    # Beside another candidate it lists its own parameters to find: d is not one of the other.
    page.get_by_role("button", name="Another candidate").click()
    until_written(page, study, lambda s: isinstance(s["model"], list) and len(s["model"]) == 2)
    # The file is written before the pane is built anew; a menu opened in between would go with the old pane.
    page.get_by_role("button", name="Remove this one").wait_for()
    page.wait_for_function("document.activeElement.innerText.includes('Another candidate')")
    page.get_by_label("Equation to begin with").click()
    page.get_by_role("option", name="pendulum with dry friction").click()
    until_written(page, study, lambda s: s["model"][1].get("free") == ["c", "d", "k"])
    page.wait_for_selector("text=ready to run")
    assert tomllib.loads(study.read_text())["fit"] == tomllib.loads(before)["fit"]
    # So does a force: it gets its row, and the first candidate stays as it is.
    page.get_by_label("Add a force").click()
    page.get_by_role("option", name="viscous friction of phi").click()
    page.locator("[aria-label='Start of viscous_phi_c']").wait_for()
    page.wait_for_selector("text=ready to run")
    assert tomllib.loads(study.read_text())["fit"] == tomllib.loads(before)["fit"]
