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
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness import load, markdown_table
from tests.studio.conftest import BROWSER, served

import kapitza as kz
from kapitza.recordings import copy_recording
from kapitza.study import write_new_study

SAMPLES = 10_000_000
REPEATS = 20
DRAWN = "() => Number(document.querySelector('.kz-recording')?.dataset.drawn) > 0"
EQUATIONS = "textarea[aria-label='Equations of motion']"

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


def row(what: str, times: Sequence[float], target: float, unit: str = "s") -> list[str]:
    """Return median and worst beside the target of the median."""
    middle = statistics.median(times)
    return [what, str(len(times)), f"{middle:.3g} {unit}", f"{max(times):.3g} {unit}", f"{target:g} {unit}",
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


def main() -> str:
    from playwright.sync_api import sync_playwright

    if BROWSER is None:
        raise SystemExit("No Chromium: apt-get install chromium")
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory() as name, sync_playwright() as driver:
        folder = Path(name)
        browser = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-dev-shm-usage"])
        long_recording(folder)
        begin = time.perf_counter()
        record = kz.read(folder / "long.npz")
        reading = time.perf_counter() - begin
        del record
        (folder / "long.toml").write_text(
            "[model]\nequations = [\"x'' + c*x' + k*x = 0\"]\nparameters = {c = 0.1, k = 36.0}\n[data]\n"
            'file = "long.npz"\nchannels = {x = "x"}\nevery = 1000\n[fit]\nfree = ["c", "k"]\n'
        )
        with served(folder / "long.toml") as (link, process):
            page, first = opened(browser, link)
            page.wait_for_selector("text=/ready to run|to mend/")
            page.context.close()
            times = []
            for _ in range(REPEATS):
                page, seconds = opened(browser, link)
                times.append(seconds)
                if len(times) < REPEATS:
                    page.context.close()
            rows.append(row("first picture, file already read", times, 3.0))
            zooms = [page.evaluate(ZOOM, -100 if n % 10 < 6 else 100) for n in range(REPEATS)]
            rows.append(row("zoom to new numbers", zooms, 0.2))
            small = write_new_study(copy_recording("pendulum", folder))
            beside = subprocess.Popen(
                [sys.executable, "-m", "kapitza.studio.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            assert beside.stdin is not None
            assert beside.stdout is not None
            beside.stdout.readline()
            lines, begin = [], time.perf_counter()
            job = {"job": "identify", "arguments": {"study": str(small), "replace": True}}
            beside.stdin.write((json.dumps(job) + "\n").encode() * 30)
            beside.stdin.flush()
            while not lines or lines[-1].get("level", 0) < 1:
                lines.append(json.loads(beside.stdout.readline()))
            rows.append(row("fit asked to first iteration heard, warm", [time.perf_counter() - begin], 3.0))
            zooms = [page.evaluate(ZOOM, -100 if n % 10 < 6 else 100) for n in range(REPEATS)]
            rows.append(row("zoom to new numbers while a fit runs", zooms, 0.5))
            beside.kill()
            beside.wait()
            server, tree = memory(process.pid)
            rows.append(row("memory of the server", [server], 1000, "MB"))
            rows.append(row("memory of all its processes", [tree], 2000, "MB"))
            page.context.close()
        with served(small) as (link, _):
            page, _ = opened(browser, link)
            page.wait_for_selector("text=ready to run")
            page.get_by_role("tab", name="Model").click()
            page.wait_for_selector(EQUATIONS)
            typed = []
            for number in range(REPEATS + 1):
                text = f"phi'' + c*phi' + k*phi + q{number}*phi**3 = 0"
                # The pause after which the field counts as typed is not part of the verdict's time.
                typed.append(page.evaluate(TYPED, [EQUATIONS, text, f'"q{number}"']) - 0.25)
            rows.append(row("verdict after the pause, first equation", typed[:1], 0.3))
            rows.append(row("verdict after the pause, later ones", typed[1:], 0.3))
        browser.close()
    base = requirements(["kapitza"])
    added = requirements(["kapitza"], ["studio"]) - base
    header = ["what", "times", "median", "worst", "target", "verdict"]
    return (
        f"# Speed of the studio\n\nHeadless Chromium, {SAMPLES:.0e} samples of two channels (npz), a gap, outliers. "
        f"Seconds by the clock: they depend on the load, which was {load()} at the end. Reading the file alone took "
        f"{reading:.1f} s; from the start of the page to the first picture with reading {first:.1f} s. The fit beside "
        "the zooms runs in another worker of the same kind and niceness.\n\n"
        f"{markdown_table(header, rows)}\n\n"
        f"The extra `[studio]` adds {len(added)} packages, {megabytes(added):.0f} MB."
    )
