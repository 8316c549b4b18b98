"""Client side of a remote rig.

A Rig whose requests are sent again when lost, and fail in time.
"""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from kapitza.base import checks
from kapitza.errors import RigError, RigLostError
from kapitza.rig.fourier import FourierSeries
from kapitza.rig.limits import check_settings
from kapitza.rig.network import messages
from kapitza.rig.network.messages import Message, MessageError
from kapitza.rig.network.sockets import Keys, check_address, zeromq
from kapitza.rig.protocol import Guarded, PeriodicInput, RigParameter, Samples, checked_samples

SLEPT = 1.0
"""Seconds by which a wait may be late before this process counts as having been suspended."""


class RemoteRig(Guarded):
    """Rig in another process or machine.

    It is a `Rig`.

    Parameters
    ----------
    address, token : str
        As the server prints them.
    server_key : str
        Public CURVE key of the server, for connections beyond this machine (with remote=True).
    timeout : float
        Seconds without an answer after which RigLostError is raised; for `run` the duration of the samples is added.
        A rig whose process or machine dies is noticed within this time also in the middle of a long `run`.
    retry : float
        Seconds after which a request is sent again.

    Notes
    -----
    A thread sends signs of life while Python computes between two measurements; when this process dies they end, and
    the watchdog of the server puts the rig in its safe state. In the other direction ZeroMQ's own heartbeat
    distinguishes a rig that is busy from one that is gone.
    """

    def __init__(
        self,
        address: str,
        token: str,
        server_key: str | None = None,
        timeout: float = 5.0,
        retry: float = 0.5,
        remote: bool = False,
    ):
        check_address(address, remote, server_key is not None)
        self.address = address
        self.timeout = checks.number("timeout (in s)", timeout, above=0, error=RigError)
        self.retry = checks.number("retry (in s)", retry, above=0, error=RigError)
        self._token, self._key = messages.checked_token(token), server_key
        self._session, self._number = secrets.token_hex(8), 0
        self._zmq = zeromq()
        self._context = self._zmq.Context()
        self._own = Keys.new() if server_key else None
        self._socket = self._connected()
        self._monitor = self._socket.get_monitor_socket(
            self._zmq.EVENT_DISCONNECTED | self._zmq.EVENT_HANDSHAKE_SUCCEEDED
        )
        self._gone: float | None = None
        self._beats: threading.Thread | None = None
        self._end = threading.Event()
        self._dead = ""
        self.resent = 0
        try:
            self._take_in(self._ask("hello", {}, {}, self.timeout))
        except BaseException:
            self._close()
            raise
        if self._beats is not None:
            self._beats.start()

    def _take_in(self, hello: Message) -> None:
        """Take in the description of the rig."""
        try:
            self._inputs = messages.rig_inputs(hello.content)
            self._outputs = tuple(str(n) for n in hello.content["outputs"])
            self._parameters = messages.rig_parameters(hello.content)
            self._step = float(hello.content["sample_time"])
            interval = float(hello.content["watchdog"]) / 4
        except (KeyError, TypeError, ValueError) as problem:
            raise RigError(
                f"The rig at {self.address} sent a description that is not understood: {problem!r}."
            ) from None
        if not (0 < self._step < math.inf and 0 < interval < math.inf):
            raise RigError(
                f"The rig at {self.address} declares sample_time = {self._step} s, watchdog = {4 * interval} s; both "
                "must be positive."
            )
        # Four signs of life per watchdog interval: single lost ones do not matter.
        self._beats = threading.Thread(target=self._beat, args=(interval,), daemon=True)

    def _connected(self) -> Any:
        socket = self._context.socket(self._zmq.DEALER)
        socket.setsockopt(self._zmq.LINGER, 0)
        # Half of the time-out to notice that the other side is gone, the other half for it to come back.
        socket.setsockopt(self._zmq.HEARTBEAT_IVL, max(int(250 * self.timeout), 1))
        socket.setsockopt(self._zmq.HEARTBEAT_TIMEOUT, max(int(250 * self.timeout), 1))
        try:
            if self._own is not None:
                assert self._key is not None
                socket.curve_serverkey = self._key.encode()
                socket.curve_publickey, socket.curve_secretkey = self._own.public.encode(), self._own.secret.encode()
            socket.connect(self.address)
        except (self._zmq.ZMQError, UnicodeError) as problem:
            socket.close()
            self._context.term()
            raise RigError(f"Cannot connect to {self.address}: {problem}. Check the address and the key.") from None
        return socket

    @property
    def inputs(self) -> tuple[PeriodicInput, ...]:
        return self._inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        return self._outputs

    @property
    def parameters(self) -> tuple[RigParameter, ...]:
        return self._parameters

    @property
    def sample_time(self) -> float:
        return self._step

    def set(self, demands: Mapping[str, FourierSeries], **parameters: float) -> None:
        check_settings(self, demands, parameters)
        content, arrays = messages.demand_arrays(demands)
        chosen = {k: float(v) for k, v in parameters.items()}
        self._ask("set", {**content, "parameters": chosen}, arrays, self.timeout)
        self._parameters = tuple(replace(p, value=chosen.get(p.name, p.value)) for p in self._parameters)

    def run(self, samples: int) -> Samples:
        answer = self._ask("run", {"samples": int(samples)}, {}, self.timeout + int(samples) * self._step)
        try:
            found = messages.samples_of(answer)
        except (KeyError, TypeError, ValueError) as problem:
            raise RigError(f"The rig answered something else than samples: {problem!r}.") from None
        return checked_samples(self, found, int(samples))

    def stop(self) -> None:
        """Request the safe state.

        A rig that no longer answers is left to its watchdog.
        """
        if self._dead:
            return
        try:
            self._ask("stop", {}, {}, self.timeout)
        except RigLostError:
            return

    def close(self) -> None:
        """Stop the rig and end the connection."""
        self.stop()
        self._close()

    def __exit__(self, *problem: Any) -> None:
        self.stop()

    def _close(self) -> None:
        self._end.set()
        if self._beats is not None and self._beats.ident is not None:
            self._beats.join(2.0)
        self._socket.disable_monitor()
        self._monitor.close()
        self._socket.close()
        self._context.term()

    def _ask(self, verb: str, content: Mapping[str, Any], arrays: Mapping[str, Any], patience: float) -> Message:
        if self._dead:
            raise RigLostError(f"{self._dead} Connect again.")
        self._number += 1
        frames = messages.packed(Message(verb, self._session, self._number, self._token, content, arrays))
        poller = self._zmq.Poller()
        poller.register(self._socket, self._zmq.POLLIN)
        poller.register(self._monitor, self._zmq.POLLIN)
        spent = 0.0
        while spent < patience and time.monotonic() < self._given_up():
            with suppress(self._zmq.Again):  # no peer at present: wait
                self._socket.send_multipart(frames, self._zmq.NOBLOCK)
            left = min(self.retry, patience - spent)
            while left > 0 and (now := time.monotonic()) < self._given_up():
                ready = dict(poller.poll(1e3 * min(left, self._given_up() - now)))
                # Time in which the process or machine slept does not count: the answer may have arrived.
                waited = min(time.monotonic() - now, left + SLEPT)
                left, spent = left - waited, spent + waited
                if self._socket in ready:
                    answer = self._received()
                    if answer is not None:
                        return answer
                elif self._monitor in ready:
                    self._note_connection()
            self.resent += 1
        reason = f"did not answer within {patience:.3g} s"
        if time.monotonic() >= self._given_up():
            reason = f"broke off the connection and was not there again within {self.timeout / 2:.3g} s"
        self._dead = f"The rig at {self.address} {reason} ({verb} {self._number})."
        self._end.set()
        raise RigLostError(f"{self._dead} What was measured is kept; the rig's watchdog puts it in its safe state.")

    def _note_connection(self) -> None:
        from zmq.utils.monitor import recv_monitor_message

        event = recv_monitor_message(self._monitor)["event"]
        self._gone = time.monotonic() if event == self._zmq.EVENT_DISCONNECTED else None

    def _given_up(self) -> float:
        """Return when a broken connection counts as lost."""
        return float("inf") if self._gone is None else self._gone + self.timeout / 2

    def _received(self) -> Message | None:
        """Return the answer to the present request.

        Older and damaged ones are dropped.
        """
        frames = self._socket.recv_multipart()
        try:
            message = messages.unpacked(frames)
        except MessageError:
            if other := messages.other_version(frames):
                raise RigError(
                    f"The rig at {self.address} speaks {other}, this computer {messages.VERSION.decode()}: use one "
                    "version of Kapitza on both sides."
                ) from None
            return None
        if message.number != self._number or message.session not in ("", self._session):
            return None
        if message.verb == "failed":
            text = str(message.content.get("text", ""))
            if "does not know this session" in text:
                self._dead = f"The rig at {self.address} was restarted or given to another client: its state is lost."
                self._end.set()
                raise RigLostError(f"{self._dead} Connect again and measure anew.")
            raise messages.KINDS.get(str(message.content.get("kind")), RigError)(text)
        return message

    def _beat(self, interval: float) -> None:
        """Send signs of life on a separate socket."""
        socket = self._connected()
        frames = messages.packed(Message("beat", self._session, 0, self._token))
        try:
            while not self._end.wait(interval):
                try:
                    socket.send_multipart(frames, self._zmq.NOBLOCK)
                except self._zmq.ZMQError:
                    continue  # the queue is full: the rig has been away for long
        finally:
            socket.close()
