"""The side of the rig: carries out requests once, watches its client, ends in the safe state."""

from __future__ import annotations

import secrets
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kapitza.errors import KapitzaError, RigError
from kapitza.rig.network import messages
from kapitza.rig.network.messages import Message, MessageError
from kapitza.rig.network.sockets import Keys, check_address, zeromq
from kapitza.rig.protocol import Rig, Samples, check_settings, checked_samples, joined_samples

MOST_SAMPLES = 2_000_000
MOST_WAITING = 100
"""Requests kept that arrive during a run."""


class RigServer:
    """Serves one rig to one client at a time.

    Parameters
    ----------
    rig : Rig
        What it drives. Limits are checked here again, whatever the client says.
    address : str
        Where to listen; "tcp://127.0.0.1:*" takes a free port, `server.address` says which. Other machines need
        remote=True and `keys`.
    token : str
        A secret that clients must know (default: a new one, `server.token`).
    watchdog : float
        Seconds without a sign of life of the client after which the rig is put in its safe state.
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
        if not watchdog > 0:
            raise RigError(f"watchdog = {watchdog}; give seconds, more than 0.")
        self.rig, self.watchdog = rig, float(watchdog)
        self.token = secrets.token_urlsafe(16) if token is None else token
        zmq = zeromq()
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.MAXMSGSIZE, 4 * messages.LONGEST_HEADER)
        if keys is not None:
            self._socket.curve_secretkey, self._socket.curve_publickey = keys.secret.encode(), keys.public.encode()
            self._socket.curve_server = True
        try:
            self._socket.bind(address)
        except zmq.ZMQError as problem:
            self._socket.close()
            self._context.term()
            raise RigError(f"Cannot listen at {address}: {problem}. Choose another port.") from None
        self.address = self._socket.getsockopt(zmq.LAST_ENDPOINT).rstrip(b"\0").decode()
        self._session, self._number, self._answer = "", -1, [b""]
        self._pace = float(rig.sample_time)
        """Seconds that a sample takes."""
        self._former: deque[str] = deque(maxlen=256)
        self._waiting: deque[list[bytes]] = deque(maxlen=MOST_WAITING)
        self._alive, self._running, self._stopped = 0.0, False, ""
        self._end = threading.Event()

    def run(self, each: Callable[[], None] | None = None) -> None:
        """Serve until `close` (from another thread), the signal to terminate, or an exception; the rig ends in its
        safe state.
        """
        zmq = zeromq()
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        try:
            with _terminated_by(self._end):
                while not self._end.is_set():
                    frames = self._next(min(50.0, 250.0 * self.watchdog))
                    if frames:
                        self._handle(frames[0], frames[1:])
                    if self._running and self._silent():
                        self._safe(self._silence())
                    if each is not None:
                        each()
        finally:
            try:
                self._safe("the server ended")
            finally:
                self._socket.close()
                self._context.term()

    def _next(self, patience: float) -> list[bytes]:
        """Frames that arrived, those first that came during a run; [] when none does within so many ms."""
        if self._waiting:
            return self._waiting.popleft()
        return self._socket.recv_multipart() if self._poller.poll(patience) else []

    def _silent(self) -> bool:
        return time.monotonic() - self._alive > self.watchdog

    def _silence(self) -> str:
        return f"its client gave no sign of life for {self.watchdog:g} s"

    def start(self) -> RigServer:
        """Serve in a thread of this process."""
        self._thread = threading.Thread(target=self.run, daemon=True)
        self._thread.start()
        return self

    def close(self) -> None:
        self._end.set()
        if hasattr(self, "_thread"):
            self._thread.join(5.0)

    def _safe(self, reason: str) -> None:
        if self._running:
            self._running, self._stopped = False, reason
        self.rig.stop()

    def _handle(self, client: bytes, frames: list[bytes]) -> None:
        try:
            message = messages.unpacked(frames)
        except MessageError:
            if other := messages.other_version(frames):
                text = f"The rig speaks {messages.VERSION.decode()}, the client {other}: use one version of Kapitza."
                self._reply(client, _failed(Message("hello"), RigError(text)))
            return  # not ours: no answer, so that a scan learns nothing
        if not messages.same_token(message.token, self.token):
            self._reply(client, _failed(message, RigError("The token is wrong: the rig does not answer strangers.")))
            return
        if message.verb == "beat":
            if message.session == self._session:
                self._alive = time.monotonic()
            return
        if message.session == self._session and message.number <= self._number:
            # Carried out already; only the last one can still be waited for.
            if message.number == self._number:
                self._socket.send_multipart([client, *self._answer])
            return
        answer = self._answered(message)
        frames = messages.packed(answer)
        if message.session == self._session:
            self._number, self._answer = message.number, frames
            self._alive = time.monotonic()
        self._socket.send_multipart([client, *frames])

    def _reply(self, client: bytes, answer: Message) -> None:
        self._socket.send_multipart([client, *messages.packed(answer)])

    def _answered(self, message: Message) -> Message:
        try:
            return self._carry_out(message)
        except KapitzaError as problem:
            return _failed(message, problem)
        except Exception as problem:
            # The rig is the user's code, and its drivers fail in ways of their own: the client is told, and the server
            # stays there to keep the rig safe.
            reason = f"{type(problem).__name__}: {problem}"
            try:
                self._safe(reason)
            except Exception as second:
                return _failed(message, RigError(
                    f"The rig failed in {message.verb} ({reason}) and could not be put in its safe state "
                    f"({type(second).__name__}: {second}): switch it off by hand."
                ))  # fmt: skip
            return _failed(
                message, RigError(f"The rig failed in {message.verb} ({reason}); it was put in its safe state.")
            )

    def _carry_out(self, message: Message) -> Message:
        if message.verb == "hello":
            return self._hello(message)
        if message.session != self._session:
            raise RigError("The rig does not know this session: it was restarted or given to another client.")
        content: dict[str, Any] = {}
        arrays: dict[str, Any] = {}
        if message.verb == "set":
            demands = messages.demands_of(message)
            parameters = {str(k): float(v) for k, v in dict(message.content["parameters"]).items()}
            check_settings(self.rig, demands, parameters)
            self.rig.set(demands, **parameters)
            self._running, self._stopped = True, ""
        elif message.verb == "run":
            count = int(message.content["samples"])
            if not 0 < count <= MOST_SAMPLES:
                raise RigError(f"run({count}): give between 1 and {MOST_SAMPLES} samples.")
            if not self._running:
                reason = f" ({self._stopped})" if self._stopped else ""
                raise RigError(f"The rig is in its safe state{reason}: set demands before it runs.")
            content, arrays = messages.samples_arrays(self._run_in_pieces(count, message))
        elif message.verb == "stop":
            self._running = False
            self.rig.stop()
        else:
            raise RigError(f'The rig does not know the request "{message.verb}".')
        return Message("answer", message.session, message.number, "", content, arrays)

    def _run_in_pieces(self, count: int, message: Message) -> Samples:
        """A long run with a look at the client between its pieces: it must not outlive the client."""
        rig, pieces, done = self.rig, [], 0
        self._alive = now = time.monotonic()
        while done < count:
            wanted = min(max(1, int(self.watchdog / 4 / self._pace)), count - done)
            piece = checked_samples(rig, rig.run(wanted), wanted)
            before, now = now, time.monotonic()
            # A simulated rig is much faster than its clock; a guess too long by sixteen costs four watchdogs.
            self._pace = max((now - before) / wanted, self._pace / 16)
            if pieces and piece.index != pieces[0].index + done:
                raise RigError(
                    f"The rig went on with sample {piece.index} after {pieces[0].index + done - 1}: it loses samples "
                    "between two calls of run. Mark them as lost, or read them from a buffer."
                )
            pieces.append(piece)
            done += wanted
            stopped = self._heard(message)
            if self._silent():
                self._safe(self._silence())
                raise RigError(f"The rig is in its safe state ({self._silence()}).")
            if stopped:
                self._running, self._stopped = False, "its client stopped it"
                rig.stop()
                raise RigError("The rig is in its safe state (its client stopped it).")
        return joined_samples(pieces)

    def _heard(self, current: Message) -> bool:
        """Take in what arrived during a run: signs of life, the same request again; True when it is to stop."""
        stop = False
        while self._poller.poll(0):
            frames = self._socket.recv_multipart()
            try:
                message = messages.unpacked(frames[1:])
            except MessageError:
                continue
            own = message.session == self._session and messages.same_token(message.token, self.token)
            if own:
                self._alive = time.monotonic()
            if own and (message.verb == "beat" or message.number <= current.number):
                continue
            stop |= own and message.verb == "stop"
            self._waiting.append(frames)
        return stop

    def _hello(self, message: Message) -> Message:
        if message.session in self._former:
            raise RigError("The rig does not know this session: it was given to another client.")
        busy = self._session and time.monotonic() - self._alive < self.watchdog
        if busy and message.session != self._session and self._running:
            raise RigError("The rig is in use by another client; wait until it has stopped.")
        self._safe("a new client took over")
        self._former.append(self._session)
        self._session, self._number, self._alive = message.session, -1, time.monotonic()
        content = {**messages.described_rig(self.rig), "watchdog": self.watchdog}
        return Message("answer", message.session, message.number, "", content)


def _failed(message: Message, problem: Exception) -> Message:
    kind = type(problem).__name__ if type(problem).__name__ in messages.KINDS else "RigError"
    return Message("failed", message.session, message.number, "", {"kind": kind, "text": str(problem)})


@contextmanager
def _terminated_by(end: threading.Event) -> Iterator[None]:
    """The signal to terminate ends the server in order, where Python lets it be caught (in the main thread)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: end.set())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def serve_rig(rig: Rig, address: str = "tcp://127.0.0.1:*", **settings: Any) -> RigServer:
    """A server for a rig, running in a thread of this process; close it with .close()."""
    return RigServer(rig, address, **settings).start()
