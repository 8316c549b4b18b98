"""A progress bar for long work, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(shown: bool, title: str, total: int) -> Iterator[Callable[[int, str], None]]:
    """Yields advance(steps, text); silent when `shown` is False."""
    if not shown:
        yield lambda steps, text: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    with Progress(TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()) as bar:
        task = bar.add_task(title, total=total)
        yield lambda steps, text: bar.update(task, advance=steps, description=f"{title}, {text}")
