"""Coroutines run from tests."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def finished(work: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of a coroutine, from a thread: a browser under test keeps a loop in the main one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
