"""Speed, memory and size of the studio, in a real browser."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness import load, markdown_table
from harness.kept import kept
from tests.studio.conftest import BROWSER, served
from tests.studio.waiting import DRAWN, EQUATIONS

import kapitza as kz
from kapitza.recordings import copy_recording
from kapitza.studio.fields import PAUSE
from kapitza.study import write_new_study

SAMPLES = 10_000_000
REPEATS = 20

ZOOM = """async (factor) => {
  const view = document.querySelector('.kz-recording'), over = view.querySelector('.u-over');
  const box = over.getBoundingClientRect(), before = Number(view.dataset.drawn), begin = performance.now();
  over.dispatchEvent(new WheelEvent('wheel', {deltaY: factor, clientX: box.left + 0.4 * box.width,
                                              clientY: box.top + 20, bubbles: true, cancelable: true}));
  while (Number(view.dataset.drawn) === before) await new Promise((done) => setTimeout(done, 2));
  return (performance.now() - begin) / 1000;
}"""

TYPED = """async ([selector, text, wanted]) => {
  const field = document.querySelector(selector);
  field.value = text;
  field.dispatchEvent(new Event('input', {bubbles: true}));
  const begin = performance.now();
  while (!document.body.innerText.includes(wanted)) await new Promise((done) => setTimeout(done, 5));
  return (performance.now() - begin) / 1000;
}"""


def requirements(names: Sequence[str], extras: Sequence[str] = ()) -> set[str]:
    """Return all installed packages that these need, themselves included."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        try:
            needed = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        found.add(name)
        for text in needed:
            head, _, condition = text.partition(";")
            wanted = any(f'extra == "{e}"' in condition or f"extra == '{e}'" in condition for e in extras)
            if "extra" not in condition or (name == "kapitza" and wanted):
                waiting.append(re.match(r"[\w.-]+", head.strip())[0])  # type: ignore[index]
    return found


def megabytes(names: set[str]) -> float:
    """Return the size of the files of packages."""
    total = 0
    for name in names:
        for file in importlib.metadata.files(name) or []:
            path = Path(str(file.locate()))
            total += path.stat().st_size if path.is_file() else 0
    return total / 1e6


def memory(pid: int) -> tuple[float, float]:
    """Return resident megabytes of a process, and of it with everything it started."""
    children: dict[int, list[int]] = {}
    sizes: dict[int, float] = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            fields = (place / "stat").read_text().rpartition(")")[2].split()
            pages = int((place / "statm").read_text().split()[1])
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(place.name))
        sizes[int(place.name)] = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    waiting, total = [pid], 0.0
    while waiting:
        one = waiting.pop()
        total += sizes.get(one, 0.0)
        waiting += children.get(one, [])
    return sizes.get(pid, 0.0), total


def most_memory(pid: int) -> float:
    """Return the largest resident megabytes that a process has had."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6


def row(what: str, times: Sequence[float], target: float, unit: str = "s") -> list[str]:
    """Return median and worst beside the target of the median."""
    middle = statistics.median(times)
    return [what, str(len(times)), f"{middle:.4g} {unit}", f"{max(times):.4g} {unit}", f"{target:g} {unit}",
            "met" if middle <= target else "**missed**"]  # fmt: skip


def opened(browser: Any, link: str) -> tuple[Any, float]:
    """Open a window without a cache; returns it and the seconds to the first picture."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(120_000)
    page = context.new_page()
    begin = time.perf_counter()
    page.goto(link)
    page.wait_for_function(DRAWN)
    return page, time.perf_counter() - begin


def long_recording(folder: Path) -> Path:
    """Write 10^7 samples of two channels, with gaps and outliers."""
    rng = np.random.default_rng(1)
    t = np.arange(SAMPLES) * 1e-3
    t[SAMPLES // 2 :] += 5.0
    x = np.sin(6 * t) * np.exp(-1e-4 * t) + rng.normal(0, 0.01, SAMPLES)
    x[rng.choice(SAMPLES, 20)] += 3
    record = kz.Record.from_arrays(t, {"x": x, "y": np.cos(6 * t)}, units={"x": "m", "y": "m"})
    return Path(kz.write(record, folder / "long.npz"))


def long_study(folder: Path) -> tuple[Path, float]:
    """Write a study of the long recording; return it and the seconds to read the file alone."""
    long_recording(folder)
    begin = time.perf_counter()
    kz.read(folder / "long.npz")
    reading = time.perf_counter() - begin
    study = folder / "long.toml"
    study.write_text(
        "[model]\nequations = [\"x'' + c*x' + k*x = 0\"]\nparameters = {c = 0.1, k = 36.0}\n[data]\n"
        'file = "long.npz"\nchannels = {x = "x"}\nevery = 1000\n[fit]\nfree = ["c", "k"]\n'
    )
    return study, reading


def zooms(page: Any) -> list[float]:
    """Return the seconds from turns of the wheel to sharper numbers."""
    return [page.evaluate(ZOOM, -100 if n % 10 < 6 else 100) for n in range(REPEATS)]


def fitting(study: Path) -> subprocess.Popen[bytes]:
    """Start a worker that fits a study again and again."""
    command = [sys.executable, "-m", "kapitza.studio.worker"]
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert worker.stdin is not None
    assert worker.stdout is not None
    job = {"job": "identify", "arguments": {"study": str(study), "replace": True}}
    worker.stdin.write((json.dumps(job) + "\n").encode() * 30)
    worker.stdin.flush()
    while json.loads(worker.stdout.readline()).get("level", 0) < 1:
        pass
    # Nobody reads on: the lines of a fit fit into the pipe of a few seconds only, so they are drained.
    threading.Thread(target=worker.stdout.read, daemon=True).start()
    return worker


def of_the_long_recording(browser: Any, study: Path, small: Path) -> tuple[list[list[str]], float]:
    """Return rows of first pictures, zooms and memory, and the seconds of the first picture with reading."""
    rows = []
    with served(study) as (link, process):
        page, first = opened(browser, link)
        # The check reads the file too, and spikes are looked for after the picture.
        page.wait_for_selector("text=/ready to run|to mend/")
        page.wait_for_selector("text=spike of x")
        page.context.close()
        times = []
        for number in range(REPEATS):
            page, seconds = opened(browser, link)
            times.append(seconds)
            if number < REPEATS - 1:
                page.context.close()
        rows.append(row("first picture, file already read", times, 3.0))
        rows.append(row("zoom to new numbers", zooms(page), 0.2))
        beside = fitting(small)
        rows.append(row("zoom to new numbers while a fit runs", zooms(page), 0.5))
        beside.kill()
        beside.wait()
        server, tree = memory(process.pid)
        rows.append(row("memory of the server", [server], 1000, "MB"))
        rows.append(row("memory of all its processes", [tree], 2000, "MB"))
        rows.append(row("most memory of the server at any time", [most_memory(process.pid)], 1000, "MB"))
        page.context.close()
    return rows, first


def of_typing(page: Any) -> list[list[str]]:
    """Return rows of verdicts on typed equations."""
    page.get_by_role("tab", name="Model").click()
    page.wait_for_selector(EQUATIONS)
    typed = []
    for number in range(REPEATS + 1):
        text = f"phi'' + c*phi' + k*phi + q{number}*phi**3 = 0"
        # The pause after which the field counts as typed is not part of the verdict's time.
        typed.append(page.evaluate(TYPED, [EQUATIONS, text, f'"q{number}"']) - PAUSE)
    return [row("verdict after the pause, first equation", typed[:1], 0.3),
            row("verdict after the pause, later ones", typed[1:], 0.3)]  # fmt: skip


def of_fits(page: Any) -> list[list[str]]:
    """Return rows of fits: pressed to first iteration, stop seen, stop done."""
    page.fill(EQUATIONS, "phi'' + c*phi' + k*sin(phi) = 0")
    page.wait_for_selector("text=ready to run")
    page.get_by_role("tab", name="Fit", exact=True).click()
    first, seen, done = [], [], []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        page.get_by_role("button", name="Fit", exact=True).click()
        page.locator(".kz-moving td").first.wait_for()
        first.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        page.locator(".kz-pane").get_by_role("button", name="Stop", exact=True).click()
        page.get_by_text(re.compile("^(Stopping|Stopped|It did not stop|Done)")).first.wait_for()
        seen.append(time.perf_counter() - begin)
        page.get_by_text(re.compile("^(Stopped|It did not stop|Done)")).first.wait_for()
        done.append(time.perf_counter() - begin)
        page.locator(".kz-moving td").first.wait_for(state="hidden")
    # The first fit of a worker compiles; the worker itself was started with the server.
    return [row("fit pressed to first iteration shown, first fit", first[:1], 3.0),
            row("fit pressed to first iteration shown, later ones", first[1:], 3.0),
            row("stop pressed to stop seen", seen, 0.5),
            row("stop pressed to stop done", done, 5.0)]  # fmt: skip


def long_piece() -> dict[str, Any]:
    """Measure pictures and memory of the long recording."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as name, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-dev-shm-usage"])
        study, reading = long_study(Path(name))
        small = write_new_study(copy_recording("pendulum", Path(name)))
        before = load()
        rows, first = of_the_long_recording(browser, study, small)
        browser.close()
        return {"rows": rows, "first": first, "reading": reading, "load": f"{before} before, {load()} after"}


def small_piece() -> dict[str, Any]:
    """Measure typing and fits of the recording of the package."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as name, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-dev-shm-usage"])
        small = write_new_study(copy_recording("pendulum", Path(name)))
        before = load()
        with served(small) as (link, _):
            page, _ = opened(browser, link)
            page.wait_for_selector("text=ready to run")
            rows = [*of_typing(page), *of_fits(page)]
        browser.close()
        return {"rows": rows, "load": f"{before} before, {load()} after"}


PIECES = {"long": long_piece, "small": small_piece}


def piece(name: str) -> dict[str, Any]:
    """Return a piece that was measured at this commit, or measure it now."""
    return kept("studio", name, PIECES[name])


def main() -> str:
    if BROWSER is None:
        raise SystemExit("No Chromium: apt-get install chromium")
    long, small = piece("long"), piece("small")
    base = requirements(["kapitza"])
    added = requirements(["kapitza"], ["studio"]) - base
    header = ["what", "times", "median", "worst", "target", "verdict"]
    return (
        f"# Speed of the studio\n\nHeadless Chromium, {SAMPLES:.0e} samples of two channels (npz), a gap, outliers. "
        "Seconds by the clock: they depend on the load of the machine, which is given for each part. Reading the file "
        f"alone took {long['reading']:.1f} s; from the start of the page to the first picture with reading "
        f"{long['first']:.1f} s. The fit beside the zooms runs in another worker of the same kind and niceness.\n\n"
        f"Load of the long recording: {long['load']}; of typing and fits: {small['load']}.\n\n"
        f"{markdown_table(header, [*long['rows'], *small['rows']])}\n\n"
        f"The extra `[studio]` adds {len(added)} packages, {megabytes(added):.0f} MB."
    )


if __name__ == "__main__":
    # One piece at a time: `python -m benchmarks.studio long`, then `python -m benchmarks studio`.
    for one in sys.argv[1:]:
        print(json.dumps(piece(one), indent=1))
