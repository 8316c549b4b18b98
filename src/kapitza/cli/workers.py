"""Choose who works.

It may be this process, processes of this machine, or the workers of a cluster.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Annotated
from urllib.parse import urlsplit

import typer

from kapitza.base.workers import Executor, pool_of
from kapitza.errors import KapitzaError

Workers = Annotated[int | None, typer.Option("--workers", min=1, help="Processes on this machine that share the fits.")]
Scheduler = Annotated[
    str | None, typer.Option("--scheduler", help="Address of a dask scheduler, tcp://HOST:8786, whose workers fit.")
]

LONGEST_WAIT = 10.0
"""For a scheduler to answer [s]."""


@contextmanager
def chosen_workers(workers: int | None, scheduler: str | None) -> Iterator[Executor | None]:
    """Return the executor that the options request.

    It is None for this process alone.
    """
    if workers is not None and scheduler is not None:
        raise KapitzaError("Give --workers (processes on this machine) or --scheduler (a cluster), not both.")
    if scheduler is not None:
        with _cluster(scheduler) as client:
            yield client
        return
    with pool_of(workers) if workers is not None and workers > 1 else nullcontext() as pool:
        yield pool


@contextmanager
def _cluster(address: str) -> Iterator[Executor]:
    try:
        from dask.distributed import Client
    except ImportError as problem:
        raise KapitzaError('--scheduler needs dask: pip install "kapitza[dask]".') from problem
    _require_answer(address)
    with Client(address, timeout=f"{LONGEST_WAIT:g}s", set_as_default=False) as client:
        if not client.scheduler_info()["workers"]:
            raise KapitzaError(f"The scheduler at {address} has no workers: start some with `dask worker {address}`.")
        yield client


def _require_answer(address: str) -> None:
    """Refuse an address where nobody listens.

    dask would wait, and end with its own messages.
    """
    parts = urlsplit(address)
    try:
        if parts.scheme not in ("tcp", "tls") or not parts.hostname or parts.port is None:
            raise ValueError("it is not an address such as tcp://HOST:8786")
        socket.create_connection((parts.hostname, parts.port), LONGEST_WAIT).close()
    except (OSError, ValueError) as problem:
        raise KapitzaError(
            f"No dask scheduler answers at {address}: {problem}. Start one with `dask scheduler` and give the address "
            "that it prints."
        ) from problem
