"""Server side of a rig.

It carries out requests once, watches its client, and ends in the safe state.
Three threads: one carries out requests, one receives (`Listener`), one watches the time (the watchdog). Neither a long
request nor messages of strangers delay the watchdog.
"""

from __future__ import annotations

import queue
import secrets
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kapitza.base import checks
from kapitza.base.argument_checks import Anything
from kapitza.errors import KapitzaError, RigError
from kapitza.rig.limits import LimitedRig
from kapitza.rig.network import messages
from kapitza.rig.network.held import HeldRig
from kapitza.rig.network.listener import Listener
from kapitza.rig.network.messages import Message, failed
from kapitza.rig.network.sockets import Keys, check_address
from kapitza.rig.protocol import Rig, Samples, checked_samples, joined_samples

MOST_SAMPLES = 2_000_000
LONGEST_WATCHDOG = 3600.0


class RigServer:
    """Serves one rig to one client at a time.

    Parameters
    ----------
    rig : Rig
        What it drives. Limits are checked here again (`LimitedRig`), whatever the client sends. When a driver hangs,
        its `stop` is called from another thread.
    address : str
        Where to listen; "tcp://127.0.0.1:*" takes a free port, `server.address` holds it. Other machines need
        remote=True and `keys`.
    token : str
        A secret that clients must know (default: a new one, `server.token`).
    watchdog : float
        Seconds without a sign of life of the client after which the rig is put in its safe state, up to an hour.
    """

    def __init__(
        self,
        rig: Rig,
        address: str = "tcp://127.0.0.1:*",
        token: str | None = None,
        keys: Keys | None = None,
        watchdog: float = 2.0,
        remote: bool = False,
    ):
        check_address(address, remote, keys is not None)
        self.watchdog = checks.number("watchdog (in s)", watchdog, above=0, high=LONGEST_WATCHDOG, error=RigError)
        self.token = secrets.token_urlsafe(16) if token is None else messages.checked_token(token)
        self.rig = rig
        self._held = HeldRig(rig, self.watchdog / 4)
        self._limited = LimitedRig(self._held)
        self._listener = Listener(address, self.token, keys)
        self.address = self._listener.address
        self._pace = float(rig.sample_time)
        """Seconds that a sample takes."""
        self._former: deque[str] = deque(maxlen=256)
        self._end, self._over = threading.Event(), threading.Event()
        self._begun = False
        self._thread: threading.Thread | None = None

    def run(self, each: Callable[[], None] | None = None) -> None:
        """Serve until `close`, a signal or an exception.

        `close` comes from another thread, the signal is the one to terminate; the rig begins and ends in its safe
        state.
        """
        if self._listener.closed:
            raise RigError("This server is closed: make a new one.")
        self._begun = True
        watchdog = threading.Thread(target=self._watch, daemon=True)
        try:
            with _terminated_by(self._end):
                self._safe("the server began")
                self._listener.start()
                watchdog.start()
                while not self._end.is_set():
                    self._next()
                    if each is not None:
                        each()
        finally:
            self._end.set()
            try:
                self._safe("the server ended")
            finally:
                self._over.set()
                self._listener.close()

    def _next(self) -> None:
        """Carry out the next request, if one comes soon."""
        try:
            client, message = self._listener.requests.get(timeout=0.05)
        except queue.Empty:
            return
        if not self._listener.seen(client, message):
            self._listener.answer(client, message, self._answered(message))

    def _watch(self) -> None:
        """Run the watchdog, in a separate thread."""
        while not self._over.wait(self.watchdog / 20):
            # A driver that hangs while the server is closed never comes back to the thread that would stop it.
            ending = self._end.is_set()
            if self._held.running and (ending or self._silent()):
                reason = "the server ended" if ending else self._silence()
                try:
                    self._held.trip(reason)
                except Exception as problem:
                    # The stop is tried again, and the client receives the reason when it comes back.
                    self._held.reason = f"{reason}; it could not be stopped ({problem}): switch it off by hand"

    @property
    def _running(self) -> bool:
        return self._held.running

    def _silent(self) -> bool:
        return self._listener.silence() > self.watchdog

    def _silence(self) -> str:
        return f"its client gave no sign of life for {self.watchdog:g} s"

    def start(self) -> RigServer:
        """Serve in a thread of this process."""
        self._thread = threading.Thread(target=self.run, daemon=True)
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop the rig and end the server.

        A server that has not begun is ended too.
        """
        self._end.set()
        if self._thread is not None:
            self._thread.join(5.0)
        elif not self._begun:
            self._listener.close()

    def _safe(self, reason: str) -> None:
        self._held.trip(reason)
        self._limited.forget()

    def _answered(self, message: Message) -> Message:
        try:
            return self._carry_out(message)
        except KapitzaError as problem:
            return failed(message, problem)
        except Exception as problem:
            # The rig is the user's code, and its drivers raise any error: the client receives it, and the server keeps
            # running to keep the rig safe.
            reason = f"{type(problem).__name__}: {problem}"
            try:
                self._safe(reason)
            except Exception as second:
                return failed(message, RigError(
                    f"The rig failed in {message.verb} ({reason}) and could not be put in its safe state "
                    f"({type(second).__name__}: {second}): switch it off by hand."
                ))  # fmt: skip
            return failed(
                message, RigError(f"The rig failed in {message.verb} ({reason}); it was put in its safe state.")
            )

    def _carry_out(self, message: Message) -> Message:
        if message.verb == "hello":
            return self._hello(message)
        if not self._listener.session or message.session != self._listener.session:
            raise RigError("The rig does not know this session: it was restarted or given to another client.")
        content: dict[str, Any] = {}
        arrays: dict[str, Any] = {}
        if message.verb == "set":
            demands = messages.demands_of(message)
            parameters = {str(k): float(v) for k, v in dict(message.content["parameters"]).items()}
            if self._silent():
                # It waited here while its client fell silent: the watchdog has stopped the rig, or is about to.
                raise RigError(f"The rig is in its safe state ({self._silence()}).")
            if not self._held.running:
                self._limited.forget()
            self._held.arm()
            self._limited.set(demands, **parameters)
        elif message.verb == "run":
            count = int(message.content["samples"])
            if not 0 < count <= MOST_SAMPLES:
                raise RigError(f"run({count}): give between 1 and {MOST_SAMPLES} samples.")
            content, arrays = messages.samples_arrays(self._run_in_pieces(count))
        elif message.verb == "stop":
            self._limited.stop()
            self._listener.stop_wanted.clear()
        else:
            raise RigError(f'The rig does not know the request "{message.verb}".')
        return Message("answer", message.session, message.number, "", content, arrays)

    def _run_in_pieces(self, count: int) -> Samples:
        """Run in pieces between which it can stop.

        A long run must not outlive the client.
        """
        pieces: list[Samples] = []
        done = 0
        while done < count:
            # Each piece takes an eighth of the watchdog's time, so that a stop is noticed in time.
            wanted = min(max(1, int(self.watchdog / 8 / self._pace)), count - done)
            before = time.monotonic()
            piece = checked_samples(self._limited, self._limited.run(wanted), wanted)
            # A simulated rig is much faster than its clock; a guess too long by sixteen costs four watchdogs.
            self._pace = max((time.monotonic() - before) / wanted, self._pace / 16)
            if pieces and piece.index != pieces[0].index + done:
                raise RigError(
                    f"The rig went on with sample {piece.index} after {pieces[0].index + done - 1}: it loses samples "
                    "between two calls of run. Mark them as lost, or read them from a buffer."
                )
            pieces.append(piece)
            done += wanted
            if self._listener.stop_wanted.is_set():
                self._safe("its client stopped it")
                raise RigError("The rig is in its safe state (its client stopped it).")
        return joined_samples(pieces)

    def _hello(self, message: Message) -> Message:
        session = self._listener.session
        if not message.session or message.session in self._former:
            raise RigError("The rig does not know this session: it was given to another client.")
        if session and message.session != session and self._held.running and not self._silent():
            raise RigError("The rig is in use by another client; wait until it has stopped.")
        self._safe("a new client took over")
        if session and session != message.session:
            self._former.append(session)
        self._listener.begin(message.session)
        content = {**messages.described_rig(self.rig), "watchdog": self.watchdog}
        return Message("answer", message.session, message.number, "", content)


@contextmanager
def _terminated_by(end: threading.Event) -> Iterator[None]:
    """End the server at the signal to terminate.

    It ends in order, where Python lets the signal be caught (in the main thread).
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: end.set())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def serve_rig(rig: Rig, address: str = "tcp://127.0.0.1:*", **settings: Anything) -> RigServer:
    """Serve a rig in a thread.

    The thread is one of this process; close the server with .close().
    """
    return RigServer(rig, address, **settings).start()
