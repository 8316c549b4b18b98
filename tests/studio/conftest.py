"""A studio in a process of its own, and a real browser in front of it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

PATIENCE = 120_000
"""Milliseconds that a page may take on a loaded machine; the benchmark has the real times."""


@contextmanager
def served(target: Path, *more: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Serve a target; yields the link and the process."""
    command = [sys.executable, "-m", "kapitza", "studio", str(target), "--no-browser", *more]
    environment = {**os.environ, "XDG_STATE_HOME": str(target.parent / "state"), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    try:
        link = process.stdout.readline().split()[-1]
        process.stdout.close()
        yield link, process
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A headless Chromium."""
    if BROWSER is None:
        pytest.skip("no Chromium to draw the studio with: install it, `apt-get install chromium` on Debian")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=BROWSER, args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        )
        yield browser
        browser.close()


class Windows:
    """Windows of one browser profile; foreign requests and errors are collected and fail the test."""

    def __init__(self, context: Any):
        self.context = context
        self.complaints: list[str] = []
        context.set_default_timeout(PATIENCE)
        context.route("**/*", self._only_here)

    def _only_here(self, route: Any) -> None:
        url = route.request.url
        if url.startswith(("http://127.0.0.1:", "http://localhost:", "data:", "blob:")):
            route.continue_()
        else:
            self.complaints.append(f"left the machine: {url}")
            route.abort()

    def open(self, link: str) -> Any:
        """Open a window."""
        page = self.context.new_page()
        page.on("console", lambda m: self.complaints.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.goto(link)
        return page


@pytest.fixture
def windows(chromium: Any) -> Iterator[Callable[..., Windows]]:
    """Make a browser profile of a width and a theme; at the end nothing may have left the machine or failed."""
    with ExitStack() as stack:
        made: list[Windows] = []

        def make(width: int = 1280, height: int = 900, dark: bool = False) -> Windows:
            theme = "dark" if dark else "light"
            context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
            stack.callback(context.close)
            made.append(Windows(context))
            return made[-1]

        yield make
        assert [text for one in made for text in one.complaints] == []


@pytest.fixture
def serve() -> Iterator[Callable[..., tuple[str, subprocess.Popen[str]]]]:
    """Serve targets until the end of the test."""
    with ExitStack() as stack:
        yield lambda target, *more: stack.enter_context(served(target, *more))
