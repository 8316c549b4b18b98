"""Rig as its server holds it.

One caller at a time, and nothing is sent on after a watchdog has stopped it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

from kapitza.errors import RigError, RigLimitError
from kapitza.rig.fourier import FourierSeries
from kapitza.rig.protocol import Guarded, PeriodicInput, Rig, RigParameter, Samples


class HeldRig(Guarded):
    """Rig under a lock.

    For the thread that carries out requests and for the watchdog; it is a `Rig`.
    `arm` allows demands; `trip` stops the rig and forbids them until it is armed again, also those of a change that is
    under way. patience: seconds that `trip` waits for a call that is in progress. A driver that hangs for longer is
    stopped from the other thread.
    """

    def __init__(self, rig: Rig, patience: float):
        self.rig, self.patience = rig, patience
        self.running, self.reason = False, ""
        self._armed = False
        self._lock = threading.Lock()
        self._safe = threading.Event()
        self._safe.set()

    @property
    def inputs(self) -> tuple[PeriodicInput, ...]:
        return self.rig.inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        return self.rig.outputs

    @property
    def parameters(self) -> tuple[RigParameter, ...]:
        return self.rig.parameters

    @property
    def sample_time(self) -> float:
        return self.rig.sample_time

    def arm(self) -> None:
        self._armed, self.reason = True, ""

    def set(self, demands: Mapping[str, FourierSeries], **parameters: float) -> None:
        with self._refused_when_safe(), self._lock:
            self._check(self._armed)
            # First, so that the watchdog also covers a driver that hangs in `set`.
            before, self.running = self.running, True
            self._safe.clear()
            try:
                self.rig.set(demands, **parameters)
            except RigLimitError:
                # This error means that nothing was sent. After any other error that is unknown.
                self.running = before
                if not before:
                    self._safe.set()
                raise

    def run(self, samples: int) -> Samples:
        with self._refused_when_safe():
            with self._lock:
                self._check(self._armed and self.running)
                try:
                    found = self.rig.run(samples)
                except Exception:
                    self._check(self._armed)  # it was stopped meanwhile, which its own error does not report
                    raise
            self._check(self._armed)
        return found

    @contextmanager
    def _refused_when_safe(self) -> Iterator[None]:
        """Raise only after the rig was stopped.

        `trip` stops it; the error states that the rig is in its safe state.
        """
        try:
            yield
        except RigError:
            if not self._armed:
                self._safe.wait(self.patience)
            raise

    def _check(self, allowed: bool) -> None:
        if not allowed:
            reason = f" ({self.reason})" if self.reason else ""
            raise RigError(f"The rig is in its safe state{reason}: set demands before it runs.")

    def stop(self) -> None:
        self.trip("")

    def trip(self, reason: str) -> None:
        """Put the rig in its safe state.

        It stays there until it is armed and given demands again.
        """
        self._armed = False
        if self.running:
            self.reason = reason or self.reason
        # A driver that hangs holds the lock: the stop must not wait for it.
        own = self._lock.acquire(timeout=self.patience)
        try:
            self.rig.stop()
            self.running = False
            self._safe.set()
        finally:
            if own:
                self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: Any) -> None:
        self.stop()
