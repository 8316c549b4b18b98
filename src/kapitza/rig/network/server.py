"""The side of the rig: carries out requests once, watches its client, ends in the safe state."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from typing import Any

from kapitza.errors import KapitzaError, RigError
from kapitza.rig.network import messages
from kapitza.rig.network.messages import Message, MessageError
from kapitza.rig.network.sockets import Keys, check_address, zeromq
from kapitza.rig.protocol import Rig, check_settings

MOST_SAMPLES = 2_000_000


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
        self._alive, self._running, self._stopped = 0.0, False, ""
        self._end = threading.Event()

    def run(self, each: Callable[[], None] | None = None) -> None:
        """Serve until `close` (from another thread) or an exception; the rig ends in its safe state."""
        zmq = zeromq()
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        try:
            while not self._end.is_set():
                if poller.poll(min(50.0, 250.0 * self.watchdog)):
                    frames = self._socket.recv_multipart()
                    self._handle(frames[0], frames[1:])
                if self._running and time.monotonic() - self._alive > self.watchdog:
                    self._safe(f"its client gave no sign of life for {self.watchdog:g} s")
                if each is not None:
                    each()
        finally:
            self._safe("the server ended")
            self._socket.close()
            self._context.term()

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
            return  # not ours: no answer, so that a scan learns nothing
        if not messages.same_token(message.token, self.token):
            self._reply(client, _failed(message, RigError("The token is wrong: the rig does not answer strangers.")))
            return
        if message.verb == "beat":
            if message.session == self._session:
                self._alive = time.monotonic()
            return
        if message.session == self._session and message.number == self._number:
            self._socket.send_multipart([client, *self._answer])  # sent again: carried out once
            return
        try:
            answer = self._carry_out(message)
        except KapitzaError as problem:
            answer = _failed(message, problem)
        frames = messages.packed(answer)
        if message.session == self._session:
            self._number, self._answer = message.number, frames
            self._alive = time.monotonic()
        self._socket.send_multipart([client, *frames])

    def _reply(self, client: bytes, answer: Message) -> None:
        self._socket.send_multipart([client, *messages.packed(answer)])

    def _carry_out(self, message: Message) -> Message:
        if message.verb == "hello":
            return self._hello(message)
        if message.session != self._session:
            raise RigError("The rig does not know this session: it was restarted or given to another client.")
        if message.number < self._number:
            raise RigError(f"Request {message.number} came after {self._number}: it was left alone.")
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
            content, arrays = messages.samples_arrays(self.rig.run(count))
        elif message.verb == "stop":
            self._running = False
            self.rig.stop()
        else:
            raise RigError(f'The rig does not know the request "{message.verb}".')
        return Message("answer", message.session, message.number, "", content, arrays)

    def _hello(self, message: Message) -> Message:
        busy = self._session and time.monotonic() - self._alive < self.watchdog
        if busy and message.session != self._session and self._running:
            raise RigError("The rig is in use by another client; wait until it has stopped.")
        self._safe("a new client took over")
        self._session, self._number, self._alive = message.session, -1, time.monotonic()
        content = {**messages.described_rig(self.rig), "watchdog": self.watchdog}
        return Message("answer", message.session, message.number, "", content)


def _failed(message: Message, problem: Exception) -> Message:
    kind = type(problem).__name__ if type(problem).__name__ in messages.KINDS else "RigError"
    return Message("failed", message.session, message.number, "", {"kind": kind, "text": str(problem)})


def serve_rig(rig: Rig, address: str = "tcp://127.0.0.1:*", **settings: Any) -> RigServer:
    """A server for a rig, running in a thread of this process; close it with .close()."""
    return RigServer(rig, address, **settings).start()
