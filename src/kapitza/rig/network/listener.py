"""Socket of a rig server, in a separate thread.

It receives signs of life and requests of its client, and keeps strangers off.
A message of a stranger costs one comparison of its token; messages of strangers are read slowly and answered rarely, so
that neither the rig nor its watchdog waits for them.
"""

from __future__ import annotations

import queue
import threading
import time
import weakref
from collections import OrderedDict
from typing import Any

from kapitza.errors import RigError
from kapitza.rig.network import messages
from kapitza.rig.network.messages import Message, MessageError
from kapitza.rig.network.sockets import Keys, zeromq

MOST_WAITING = 100
"""Requests kept that arrive while another one is carried out."""
MOST_UNREAD = 100
"""Messages of one peer that ZeroMQ keeps; more wait on the side of the sender."""
LARGEST_FRAME = 1_000_000
"""Bytes; ZeroMQ ends the connection of a peer that announces more."""
ANSWERED = 3
"""Wrong messages of one peer that are answered."""
MOST_PEERS = 1000
"""Strangers whose messages are counted."""
BURST, PAUSE = 50, 0.002
"""After so many messages of strangers the thread sleeps for so many seconds: ZeroMQ reads its peers in turn, so those
of the client come through."""


def _close(context: Any, sockets: tuple[Any, ...]) -> None:
    """Close sockets and their context.

    Unsent messages are not waited for.
    """
    for socket in sockets:
        socket.close(0)
    context.term()


class Listener:
    """Receiver of requests and sender of answers.

    For a server; the session of the present client is kept here.
    requests: (peer, message) to be carried out, in order; stop_wanted: the client requested `stop` and waits.
    `alive` is when the client last gave a sign of life.
    """

    def __init__(self, address: str, token: str, keys: Keys | None):
        zmq = zeromq()
        self._token = token
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        for option, value in (
            (zmq.LINGER, 0), (zmq.MAXMSGSIZE, LARGEST_FRAME), (zmq.RCVHWM, MOST_UNREAD),
        ):  # fmt: skip
            self._socket.setsockopt(option, value)
        try:
            if keys is not None:
                self._socket.curve_secretkey, self._socket.curve_publickey = keys.secret.encode(), keys.public.encode()
                self._socket.curve_server = True
            self._socket.bind(address)
        except (zmq.ZMQError, UnicodeError) as problem:
            _close(self._context, (self._socket,))
            cure = "Choose another port." if keys is None else "Choose another port, or make keys by Keys.new()."
            raise RigError(f"Cannot listen at {address}: {problem}. {cure}") from None
        self.address = self._socket.getsockopt(zmq.LAST_ENDPOINT).rstrip(b"\0").decode()
        # Sockets belong to one thread: answers go to this one through a pair of them.
        self._answers, self._outgoing = self._context.socket(zmq.PULL), self._context.socket(zmq.PUSH)
        self._answers.bind("inproc://answers")
        self._outgoing.connect("inproc://answers")
        self.requests: queue.Queue[tuple[bytes, Message]] = queue.Queue(MOST_WAITING)
        self.stop_wanted = threading.Event()
        self.alive = 0.0
        self._session, self._taken, self._number, self._answer = "", -1, -1, [b""]
        self._state = threading.Lock()
        self._strangers: OrderedDict[bytes, int] = OrderedDict()
        self._unwanted = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        # A listener that is dropped without `close`: ZeroMQ would wait without end for sockets that are still open.
        self._sockets_closed = weakref.finalize(
            self, _close, self._context, (self._socket, self._answers, self._outgoing)
        )
        # At the end of the process the thread may still use them.
        self._sockets_closed.atexit = False

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End the listener.

        It is called by the thread that answers, which owns its end of the pair.
        """
        self._end.set()
        if self._thread.ident is not None:
            self._thread.join(5.0)
        self._sockets_closed()

    @property
    def closed(self) -> bool:
        return not self._sockets_closed.alive

    @property
    def session(self) -> str:
        """Session of the present client.

        "" before the first has greeted.
        """
        return self._session

    def begin(self, session: str) -> None:
        """Begin the session of a client.

        It has greeted: messages it sends from now on belong to the session.
        """
        with self._state:
            self._session, self._taken, self._number = session, -1, -1
            self.alive = time.monotonic()
        self.stop_wanted.clear()

    def silence(self) -> float:
        """Return the seconds since the last sign of life."""
        return time.monotonic() - self.alive

    def answer(self, client: bytes, message: Message, answer: Message) -> None:
        """Send an answer and keep it.

        A client whose copy is lost on the way receives it again.
        """
        frames = messages.packed(answer)
        with self._state:
            if self._session and message.session == self._session:
                self._number, self._answer = message.number, frames
                self._taken = max(self._taken, message.number)
        self._outgoing.send_multipart([client, *frames])

    def seen(self, client: bytes, message: Message) -> bool:
        """Return whether a request was carried out already.

        Its answer is sent again if it is the last one.
        """
        with self._state:
            known = bool(self._session) and message.session == self._session and message.number <= self._number
            again = known and message.number == self._number
            frames = self._answer
        if again:
            self._outgoing.send_multipart([client, *frames])
        return known

    def _listen(self) -> None:
        zmq = zeromq()
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._answers, zmq.POLLIN)
        while not self._end.is_set():
            # 50 ms: the thread notices its end without a message.
            ready = dict(poller.poll(50))
            if self._answers in ready:
                self._socket.send_multipart(self._answers.recv_multipart())
            if self._socket in ready:
                client, *frames = self._socket.recv_multipart()
                self._received(client, frames)

    def _received(self, client: bytes, frames: list[bytes]) -> None:
        if not messages.carries(frames, self._token):
            self._unwelcome(client, frames)
            return
        try:
            message = messages.unpacked(frames)
        except MessageError:
            return
        self._accept(client, message)

    def _accept(self, client: bytes, message: Message) -> None:
        """Accept a message with the token.

        A sign of life, a request to be carried out, or one that was.
        """
        with self._state:
            own = bool(self._session) and message.session == self._session
            again = own and message.number == self._number
            old = own and message.number <= self._taken
            if own:
                self.alive = time.monotonic()
                if not old and message.verb != "beat":
                    self._taken = message.number
        if message.verb == "beat":
            return
        if old:
            if again:
                self._socket.send_multipart([client, *self._answer])
            return
        if own and message.verb == "stop":
            self.stop_wanted.set()
        try:
            self.requests.put_nowait((client, message))
        except queue.Full:
            with self._state:
                self._taken = min(self._taken, message.number - 1)  # to be taken when it is sent again

    def _unwelcome(self, client: bytes, frames: list[bytes]) -> None:
        """Count a message of a stranger.

        The first ones of a peer are answered.
        """
        count = self._strangers.pop(client, 0) + 1
        self._strangers[client] = count
        if len(self._strangers) > MOST_PEERS:
            self._strangers.popitem(last=False)
        self._unwanted += 1
        if self._unwanted % BURST == 0:
            self._end.wait(PAUSE)
        if count > ANSWERED:
            return
        if other := messages.other_version(frames):
            text = f"The rig speaks {messages.VERSION.decode()}, the client {other}: use one version of Kapitza."
            self._reply(client, Message("hello"), text)
            return
        try:
            message = messages.unpacked(frames)
        except MessageError:
            return  # not ours: no answer, so that a scan learns nothing
        self._reply(client, message, "The token is wrong: the rig does not answer strangers.")

    def _reply(self, client: bytes, message: Message, text: str) -> None:
        self._socket.send_multipart([client, *messages.packed(messages.failed(message, RigError(text)))])
