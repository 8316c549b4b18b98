"""A network that loses and doubles messages, between a client and a rig on this machine."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import zmq


class LossyNetwork:
    """Forwards ZeroMQ messages between clients (ROUTER) and a server (DEALER per client), losing and doubling some."""

    def __init__(self, server: str, loss: float = 0.01, doubled: float = 0.01, seed: int = 0):
        self.server, self.loss, self.doubled = server, loss, doubled
        self.lost = self.forwarded = 0
        self._random = np.random.default_rng(seed)
        self._context = zmq.Context()
        self._front = self._context.socket(zmq.ROUTER)
        self._front.setsockopt(zmq.LINGER, 0)
        port = self._front.bind_to_random_port("tcp://127.0.0.1")
        self.address = f"tcp://127.0.0.1:{port}"
        self._backs: dict[bytes, Any] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.is_set():
            poller = zmq.Poller()
            poller.register(self._front, zmq.POLLIN)
            for back in self._backs.values():
                poller.register(back, zmq.POLLIN)
            ready = dict(poller.poll(50))
            if self._front in ready:
                client, *frames = self._front.recv_multipart()
                if client not in self._backs:
                    back = self._context.socket(zmq.DEALER)
                    back.setsockopt(zmq.LINGER, 0)
                    back.connect(self.server)
                    self._backs[client] = back
                for _ in range(self._copies()):
                    self._backs[client].send_multipart(frames)
            for client, back in list(self._backs.items()):
                if back in ready:
                    frames = back.recv_multipart()
                    for _ in range(self._copies()):
                        self._front.send_multipart([client, *frames])
        for socket in (self._front, *self._backs.values()):
            socket.close()
        self._context.term()

    def _copies(self) -> int:
        self.forwarded += 1
        draw = self._random.random()
        if draw < self.loss:
            self.lost += 1
            return 0
        return 2 if draw < self.loss + self.doubled else 1

    def close(self) -> None:
        self._end.set()
        self._thread.join(5.0)
