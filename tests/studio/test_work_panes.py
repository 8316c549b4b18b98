"""Diagram, rig and fit in a real browser: what is drawn is what the nouns hold, what is stopped is safe."""

import shutil
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("nicegui", reason="the studio is not installed: pip install 'kapitza[studio]'")

import kapitza as kz
from kapitza.studio.rig_files import rig_points
from kapitza.studio.work import follow_branch, work_folder

STUDY = """# A shaken oscillator.
[model]
equations = ["x'' + d*x' + x + k*x**3 = B*cos(omega*t)"]  # hardening
parameters = {d = 0.15, k = 0.8, B = 0.3, omega = 1.2}
excitation = {period = "2*pi/omega"}

[data]
file = "shaker.csv"
channels = ["x"]

[fit]
free = ["d", "k"]
method = "shooting"

[output]
report = false
"""

PATIENCE = 180_000
"""Milliseconds after which a page that does not answer on a busy machine counts as stuck."""

DRAWN = "document.querySelector('.kz-portrait')?.data?.[0]"

ON_RIG = """(count) => [...document.querySelectorAll('.js-plotly-plot')].some(
  p => (p.data || []).some(t => t.name === 'measured on the rig' && t.x.length === count))"""

PIXEL = """(index) => {
  const plot = [...document.querySelectorAll('.js-plotly-plot')].find(p => p.data.some(t => t.customdata));
  const box = plot.getBoundingClientRect(), layout = plot._fullLayout;
  for (const trace of plot.data) for (let i = 0; i < (trace.customdata || []).length; i++)
    if (trace.customdata[i][1] === index) return [
      box.left + layout.xaxis._offset + layout.xaxis.d2p(trace.x[i]),
      box.top + layout.yaxis._offset + layout.yaxis.d2p(trace.y[i])];
}"""


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("work")
    truth = kz.Model.from_equations(
        "x'' + d*x' + x + k*x**3 = B*cos(omega*t)",
        parameters={"d": 0.1, "k": 1.0, "B": 0.3, "omega": 1.2},
        period="2*pi/omega",
    )
    record = kz.measure(kz.simulate(truth, [0.1, 0.0], t=np.arange(400) * 0.1), noise=0.01, seed=1)
    kz.write(record.select(["x"]), folder / "shaker.csv")
    (folder / "shaker.toml").write_text(STUDY)
    return folder / "shaker.toml"


def test_a_branch_is_clicked_a_rig_is_stopped_and_a_fit_equals_the_command(study, serve, windows):
    request = {"study": str(study), "parameter": "omega", "low": 1.0, "high": 1.5}
    done = follow_branch(request, lambda line: None, kz.Silent())
    branch = kz.load(work_folder(study) / done["file"])
    link, _ = serve(study)
    page = windows().open(f"{link}&tab=diagram")

    # A row of the table, then a point of the figure.
    row = page.locator(".kz-table tbody tr")
    row.nth(4).click()
    page.wait_for_function("document.querySelectorAll('.kz-chosen td')[1]?.innerText === '4'")
    check_orbit(page, branch, 4)
    page.mouse.click(*page.evaluate(PIXEL, 2))
    page.wait_for_function("document.querySelectorAll('.kz-chosen td')[1]?.innerText === '2'")
    check_orbit(page, branch, 2)

    # A rig that takes seconds for a measurement, stopped inside one. The whole branch takes minutes at this speed, so
    # that it cannot end before a click on a busy machine is served.
    page.get_by_role("tab", name="Rig").click()
    page.get_by_label("times real time").fill("50")
    page.get_by_role("button", name="Follow").click()
    page.get_by_text("so far").wait_for(timeout=PATIENCE)
    page.locator(".kz-table tbody tr").nth(1).wait_for(timeout=PATIENCE)
    page.get_by_role("button", name="Stop the rig").click(timeout=PATIENCE)
    # Beside the button, and on every tab.
    page.get_by_text("the rig is in its safe state").first.wait_for(timeout=PATIENCE)
    kept = rig_points(work_folder(study))
    assert kept["state"] == "stopped"
    assert page.locator(".kz-table tbody tr").count() == len(kept["points"]) >= 2

    # The points are drawn over the branch without another look at the page.
    page.get_by_role("tab", name="Diagram").click()
    page.wait_for_function(ON_RIG, arg=len(kept["points"]))

    # The button and the command give one file.
    page.get_by_role("tab", name="Fit").click()
    page.get_by_role("button", name="Fit", exact=True).click()
    page.get_by_text("Done in").wait_for(timeout=PATIENCE)
    page.locator(".kz-verdict").wait_for(timeout=PATIENCE)
    alone = study.parent / "alone"
    alone.mkdir()
    for name in ("shaker.csv", "shaker.toml"):
        shutil.copy(study.parent / name, alone / name)
    subprocess.run(
        [sys.executable, "-m", "kapitza", "identify", "shaker.toml"], cwd=alone, check=True, capture_output=True
    )
    made = study.parent / "shaker-results" / "parameters.csv"
    assert made.read_bytes() == (alone / "shaker-results" / "parameters.csv").read_bytes()
    assert study.read_text() == STUDY


def check_orbit(page, branch, index):
    states = branch.orbit(index).profile.states
    page.wait_for_function(f"Math.abs({DRAWN}?.x?.[0] - ({float(states[0, 0])!r})) < 1e-12")
    drawn = page.evaluate(f"[{DRAWN}.x, {DRAWN}.y]")
    # The server compiles for itself: where this process rounds otherwise (--other-code) the last digits differ.
    np.testing.assert_allclose(np.transpose(drawn), states[:, :2], rtol=0, atol=1e-12)
