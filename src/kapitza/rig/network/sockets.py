"""ZeroMQ sockets with keys.

And the addresses that may be used without keys.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from kapitza.base.cures import Give
from kapitza.errors import RigError

LOOPBACK = re.compile(r"(tcp://(127\.0\.0\.1|localhost|\[::1\]):(\d+|\*)|ipc://.+)\Z")


@dataclass(frozen=True)
class Keys:
    """CURVE key pair in text form.

    ZeroMQ's Z85; clients need the server's public key.
    """

    public: str
    secret: str

    @classmethod
    def new(cls) -> Keys:
        public, secret = zeromq().curve_keypair()
        return cls(public.decode(), secret.decode())


def zeromq() -> Any:
    """Return pyzmq, or explain how to install it."""
    try:
        import zmq
    except ImportError:
        raise RigError('A rig over the network needs pyzmq: pip install "kapitza[rig]".') from None
    return zmq


def check_address(address: str, remote: bool, encrypted: bool) -> None:
    """Refuse remote addresses unless allowed and encrypted.

    Loopback addresses are always allowed.
    """
    port = re.search(r":(\d+)\Z", address)
    if port and not 0 < int(port[1]) < 65536:
        raise RigError(f"{address}: ports run from 1 to 65535, * takes a free one.")  # ZeroMQ would take another
    if LOOPBACK.match(address):
        return
    if not remote:
        raise RigError(
            f"{address} can be reached from outside this machine. Use tcp://127.0.0.1:PORT, or pass "
            f"{Give(remote=True)} and keys to let other machines drive the rig."
        )
    if not encrypted:
        raise RigError(f"{address} can be reached from outside this machine: give CURVE keys (Keys.new()).")
