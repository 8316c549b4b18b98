"""Check who may use the studio's server.

The check covers pages, data, uploads and the socket.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

SOCKET = "/_nicegui_ws/"
"""Path of the socket; its fallback by plain requests (polling) is closed, as those carry no origin."""

HEADERS = (
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'self' data: blob: 'unsafe-inline' 'unsafe-eval'; "
     b"frame-ancestors 'none'; form-action 'self'; base-uri 'self'"),
)  # fmt: skip
"""Sent with every answer: no foreign frame, no foreign source, no address passed on."""

WELCOME = '<!doctype html><meta http-equiv="refresh" content="0; url={path}"><title>Kapitza studio</title>'


class Gate:
    """Admit requests with right Host, Origin and token.

    Others are answered with 403.
    The token comes in the link; the answer puts it into a cookie and leads on to the address without it. A page leads
    on, not a redirect: browsers withhold a strict cookie from redirects that began on another site.
    """

    def __init__(self, app: App, port: int, token: str):
        self.app, self.token = app, token
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self.cookie = f"kapitza-studio-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        problem = self.problem(scope)
        if problem:
            await self._refuse(scope, send, problem)
        elif scope["type"] == "http" and self._given(scope):
            await self._welcome(scope, send)
        else:
            await self.app(scope, receive, _with_headers(send))

    def problem(self, scope: Scope) -> str:
        """Return why a request is refused.

        "" where it is admitted.
        """
        if scope["type"] not in ("http", "websocket"):
            return "unknown kind of connection"
        hosts, origins = _values(scope, b"host"), _values(scope, b"origin")
        if len(hosts) != 1 or hosts[0] not in self.hosts:
            return "foreign host"
        # Browsers send an origin with every socket and every upload; without one it is another program.
        needed = scope["type"] == "websocket" or scope["method"] not in ("GET", "HEAD")
        if (needed and not origins) or any(origin != f"http://{hosts[0]}" for origin in origins):
            return "foreign origin"
        if scope["type"] == "http" and scope["path"].startswith(SOCKET):
            return "the socket is a websocket"
        given = self._given(scope) if scope["type"] == "http" else ""
        if not self._right(given or self._kept(scope)):
            return "open the link that the command printed: it holds the token"
        return ""

    def _given(self, scope: Scope) -> str:
        """Return the token of the link."""
        query = parse_qs(scope["query_string"].decode("latin-1"))
        return query.get("token", [""])[0]

    def _kept(self, scope: Scope) -> str:
        """Return the token of the cookie."""
        found = []
        for text in _values(scope, b"cookie"):
            try:
                found += [m.value for name, m in SimpleCookie(text).items() if name == self.cookie]
            except CookieError:
                continue
        return found[0] if len(found) == 1 else ""

    def _right(self, token: str) -> bool:
        return secrets.compare_digest(token.encode(), self.token.encode())

    async def _welcome(self, scope: Scope, send: Send) -> None:
        from urllib.parse import quote, urlencode

        query = parse_qs(scope["query_string"].decode("latin-1"))
        query.pop("token")
        # Two slashes at the beginning would lead to another host.
        path = "/" + quote(scope["path"].lstrip("/\\")) + ("?" + urlencode(query, doseq=True) if query else "")
        cookie = f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict"
        headers = [(b"set-cookie", cookie.encode()), (b"cache-control", b"no-store")]
        await _answer(send, 200, WELCOME.format(path=path.replace("&", "&amp;")), headers)

    async def _refuse(self, scope: Scope, send: Send, problem: str) -> None:
        if scope["type"] == "websocket":
            # Closed before it is accepted: the server answers the handshake with 403.
            await send({"type": "websocket.close", "code": 1008, "reason": problem})
        else:
            await _answer(send, 403, f"Refused: {problem}.", [])


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


def _with_headers(send: Send) -> Send:
    async def sent(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *HEADERS]}
        await send(message)

    return sent


async def _answer(send: Send, status: int, text: str, headers: list[tuple[bytes, bytes]]) -> None:
    body = text.encode()
    kind = b"text/html; charset=utf-8" if text.startswith("<!doctype") else b"text/plain; charset=utf-8"
    start = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *headers, *HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})
