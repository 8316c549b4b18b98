"""The result of a fit in a real browser: an error of a sensor is added by a click, an older result is dimmed."""

import tomllib

import numpy as np
import pytest

pytest.importorskip("nicegui", reason="the studio is not installed: pip install 'kapitza[studio]'")
pytest.importorskip("playwright", reason="no driver for the browser: pip install playwright")

import kapitza as kz

STUDY = """# A pendulum; its speed was recorded later than its angle.
[model]
equations = ["x'' + c*x' + k*sin(x) = 0"]
parameters = {c = 0.2, k = 8.0}

[data]
file = "run.csv"
channels = {x = "x", v = "x'"}

[fit]
free = ["c", "k"]
method = "shooting"

[output]
report = false
"""

DELAY = 0.03


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("delay")
    truth = kz.Model.from_equations("x'' + c*x' + k*sin(x) = 0", parameters={"c": 0.3, "k": 9.0})
    times = np.arange(500) * 0.02
    clean = kz.simulate(truth, x0=[1.2, 0.0], t=np.concatenate([[-DELAY], times]) + DELAY)
    late = kz.simulate(truth, x0=[1.2, 0.0], t=np.concatenate([[0.0], times + DELAY]))
    rng = np.random.default_rng(1)
    angle, speed = late["x"][1:], np.interp(times, clean.time, clean["x'"])
    rows = zip(times, angle + rng.normal(0, 0.002, 500), speed + rng.normal(0, 0.004, 500), strict=True)
    (folder / "run.csv").write_text("t,x,v\n" + "\n".join(f"{t:.4f},{a:.8f},{b:.8f}" for t, a, b in rows))
    (folder / "run.toml").write_text(STUDY)
    kz.read_study(folder / "run.toml").run(kz.Silent())
    return folder / "run.toml"


def test_a_delay_of_a_sensor_is_added_by_a_click_and_fitted(study, serve, windows):
    link, _ = serve(study)
    page = windows().open(f"{link}&tab=fit")
    page.locator(".kz-verdict").wait_for()
    assert page.locator(".kz-stale").count() == 0
    row = page.locator(".row:has-text('delay of the sensor')").filter(has=page.get_by_role("button")).last
    place = row.bounding_box()
    row.get_by_role("button", name="Add this term").click()
    # The verdict is not that of this study any more.
    page.get_by_text("The study has changed since; press Fit").wait_for()
    page.locator(".kz-stale .kz-verdict").wait_for()
    page.get_by_role("button", name="Added: press Fit").wait_for()
    # Nothing has moved under the pointer: a second click would add another term.
    assert page.locator(".row:has-text('delay of the sensor')").last.bounding_box()["y"] == place["y"]
    sensors = tomllib.loads(study.read_text())["data"]["sensors"]
    assert [one["unknown"] for one in sensors.values()] == ["delay"]
    page.wait_for_selector("text=ready to run")
    page.get_by_role("button", name="Fit", exact=True).click()
    page.get_by_text("Done in").wait_for(timeout=180_000)
    page.locator(".kz-stale").wait_for(state="detached")
    page.get_by_text("_delay =").first.wait_for()
    # Undone, the result is an older one again, and the button is there for the next click.
    page.get_by_role("button", name="Undo").click()
    page.locator(".kz-stale .kz-verdict").wait_for()
    assert study.read_text() == STUDY
