"""The studio in a real browser: a dropped file, zooms and spans, typed equations, two windows, restarts."""

import re
import tomllib

import numpy as np
import pytest

pytest.importorskip("nicegui", reason="the studio is not installed: pip install 'kapitza[studio]'")
pytest.importorskip("playwright", reason="no driver for the browser: pip install playwright")

from tests.studio.waiting import DRAWN, EQUATIONS, settled, until_written

from kapitza.recordings import copy_recording

EVIL = "<img src=x onerror=alert(1)>"
RANGE = "JSON.parse(document.querySelector('.kz-recording').dataset.range)"


MOTION = """async () => {
  const columns = document.querySelectorAll('.kz-channel').length;
  const asked = '/data/view?study=shaker.toml&number=0&overlay=1&begin=-1e9&end=1e9&width=800';
  const numbers = new Float64Array(await (await fetch(asked)).arrayBuffer()), count = numbers[0];
  const row = (at) => numbers.subarray(4 + at * count, 4 + (at + 1) * count);
  const first = row(2 * columns).findIndex((value) => !Number.isNaN(value));
  return first < 0 ? null : row(0)[first];
}"""
"""The time at which the motion of the last column begins."""


def test_a_dropped_recording_is_seen_marked_and_cut(windows, serve, tmp_path):
    time = np.arange(4000) * 0.005
    x = np.sin(6 * time) * np.exp(-0.05 * time)
    x[700] += 3.0
    keep = (time < 12.0) | (time > 12.6)
    rows = zip(time[keep], x[keep], 2 * x[keep], strict=True)
    lines = [f'time [s],x [mm],"{EVIL} [V]"', *(f"{t:.4f},{a:.6f},{b:.6f}" for t, a, b in rows)]
    recording = tmp_path / "elsewhere" / "run <b>1.csv"
    recording.parent.mkdir()
    recording.write_text("\n".join(lines), encoding="utf-8")
    folder = tmp_path / "lab"
    folder.mkdir()
    link, _ = serve(folder)
    page = windows().open(link)
    # Nobody has started a studio here before: the tour is offered, once.
    page.get_by_role("button", name="Take the tour").click()
    page.locator("code", has_text="kapitza identify").wait_for()
    page.get_by_role("button", name="Begin").click()
    page.locator(".kz-dialog").wait_for(state="hidden")
    page.get_by_role("button", name="Take the tour").wait_for(state="hidden")
    page.set_input_files("input[type=file]", str(recording))
    settled(page)
    assert (folder / "run <b>1.csv").is_file()
    study = folder / "run <b>1.toml"
    # Names from files stay text.
    assert page.evaluate("document.querySelectorAll('img').length") == 0
    assert EVIL in page.locator(".kz-recording").inner_text()
    assert page.get_by_text("gap of").count() == 1
    assert page.get_by_text("spike of x").count() >= 1
    # A mark leads to its place.
    page.get_by_text("gap of").click()
    page.wait_for_function(f"() => {RANGE}[0] > 10")
    begin, end = page.evaluate(RANGE)
    assert begin < 12.0 < 12.6 < end
    # The wheel zooms about the pointer, Home shows all.
    box = page.locator(".kz-recording .u-over").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20)
    page.mouse.wheel(0, 100)
    page.wait_for_function(f"() => {RANGE}[1] - {RANGE}[0] > {1.2 * (end - begin)}")
    page.locator(".kz-recording").focus()
    page.keyboard.press("Home")
    page.wait_for_function(f"() => {RANGE}[1] - {RANGE}[0] > 19")
    # A span that is dragged and held back lands in the study; undo takes it out again.
    page.get_by_role("button", name="Drag takes a span").click()
    # The server tells the picture what a drag does.
    page.wait_for_selector(".kz-recording[data-mode=span]")
    page.mouse.move(box["x"] + 0.25 * box["width"], box["y"] + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 40, steps=4)
    page.mouse.up()
    page.get_by_role("button", name="Hold back").click()
    until_written(page, study, lambda s: "hold_back" in s["data"])
    ((a, b),) = tomllib.loads(study.read_text())["data"]["hold_back"]
    assert a == pytest.approx(5.0, abs=0.2)
    assert b == pytest.approx(10.0, abs=0.2)
    page.get_by_text("held back: ").wait_for()
    page.get_by_role("button", name="Undo").click()
    until_written(page, study, lambda s: "hold_back" not in s["data"])


def test_two_windows_and_an_editor_share_one_study(windows, serve, tmp_path):
    link, _ = serve(copy_recording("pendulum", tmp_path))
    study = tmp_path / "pendulum.toml"
    browser = windows()
    one, two = browser.open(link), browser.open(link)
    for page in (one, two):
        settled(page)
        page.get_by_role("tab", name="Model").click()
        page.wait_for_selector(EQUATIONS)
    value = "[aria-label='Start of k']"
    one.fill(value, "41")
    two.wait_for_function("s => document.querySelector(s).value === '41'", arg=value)
    # Both edit one field: the later wins, the other is told.
    two.fill(value, "42")
    one.wait_for_function("s => document.querySelector(s).value === '42'", arg=value)
    one.get_by_text("was changed in another window: 42").wait_for()
    # An editor changes the file while a field is being typed in: both changes are there afterwards.
    one.locator(value).press_sequentially("7", delay=0)
    text = study.read_text(encoding="utf-8")
    study.write_text(text.replace("seed = 0", "seed = 5"), encoding="utf-8")
    until_written(one, study, lambda s: s["seed"] == 5 and s["model"]["parameters"]["k"] == 427)
    two.wait_for_function("s => document.querySelector(s).value === '427'", arg=value)
    # A file that an editor leaves broken is reported and not written over.
    good = study.read_text(encoding="utf-8")
    study.write_text(good + "\n[[[", encoding="utf-8")
    two.wait_for_selector("text=to mend")
    one.fill(value, "43")
    one.get_by_text("until it is mended").first.wait_for()
    assert study.read_text(encoding="utf-8").endswith("[[[")
    study.write_text(good, encoding="utf-8")
    two.wait_for_selector("text=ready to run")


def test_the_page_comes_back_after_a_restart_with_tab_zoom_and_theme(windows, serve, tmp_path):
    recording = copy_recording("shaker", tmp_path)
    link, process = serve(recording)
    browser = windows()
    page = browser.open(link)
    settled(page)
    page.get_by_role("button", name="Dark or light").click()
    page.wait_for_selector("body.body--dark")
    page.locator(".kz-recording").focus()
    whole = page.evaluate(RANGE)
    page.keyboard.press("+")
    page.wait_for_function(f"() => {RANGE}[1] - {RANGE}[0] < 8")
    # Arrows end where the data do: a span taken beyond would hold less than is seen.
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    page.wait_for_function(f"() => {RANGE}[1] === {whole[1]}")
    page.keyboard.press("ArrowLeft")
    page.wait_for_function(f"() => {RANGE}[1] < {whole[1]}")
    seen = page.evaluate(RANGE)
    page.get_by_role("tab", name="Model").click()
    page.wait_for_selector(EQUATIONS)
    # The zoom is kept here, and the motion begins at its left end, where the data are.
    for _ in range(600):
        begins = page.evaluate(MOTION)
        if begins is not None and begins >= seen[0]:
            break
        page.wait_for_timeout(50)
    assert begins == pytest.approx(seen[0], abs=0.05)
    process.kill()
    process.wait()
    again, _ = serve(recording)
    assert again == link
    page.wait_for_selector(EQUATIONS)
    page.wait_for_function(DRAWN)
    # While there was no server the browser complained of lost connections, and of nothing else.
    lost = ("WebSocket connection", "ERR_CONNECTION", "403 (Forbidden)", "Failed to fetch",
            # An answer that the kill has cut.
            "ERR_CONTENT_LENGTH_MISMATCH", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_EMPTY_RESPONSE")  # fmt: skip
    assert [text for text in browser.complaints if not any(word in text for word in lost)] == []
    browser.complaints.clear()
    assert "body--dark" in page.evaluate("document.body.className")
    assert re.search("tab=model", page.url)
    assert page.evaluate(RANGE) == pytest.approx(seen)
