"""The gate: every wrong host, origin and token is refused, alone and in pairs, on every kind of request."""

import itertools

import pytest
from tests.loops import finished

pytest.importorskip("nicegui", reason="the studio is not installed: pip install 'kapitza[studio]'")

from kapitza.studio.gate import Gate

PORT, TOKEN = 8123, "t" * 43
RIGHT = {"host": f"127.0.0.1:{PORT}", "origin": f"http://127.0.0.1:{PORT}", "cookie": f"kapitza-studio-{PORT}={TOKEN}"}

KINDS = {
    "page": ("http", "GET", "/"),
    "data": ("http", "GET", "/data/view"),
    "report": ("http", "GET", "/files/report"),
    "upload": ("http", "POST", "/_nicegui/client/1/upload/2"),
    "socket": ("websocket", "GET", "/_nicegui_ws/socket.io/"),
}

FAULTS = {
    "no token": {"cookie": None},
    "wrong token": {"cookie": f"kapitza-studio-{PORT}={'x' * 43}"},
    "token of another port": {"cookie": f"kapitza-studio-{PORT + 1}={TOKEN}"},
    "foreign origin": {"origin": "http://evil.example"},
    "origin of another port": {"origin": f"http://127.0.0.1:{PORT + 1}"},
    "null origin": {"origin": "null"},
    "foreign host": {"host": "evil.example"},
    "host of another port": {"host": f"127.0.0.1:{PORT + 1}"},
    "no host": {"host": None},
}


def answered(kind, headers, query=b"", more=()):
    """Return the status of an answer, and what was sent; 200 means that the application was reached."""
    sort, method, path = KINDS[kind]
    listed = [(k.encode(), v.encode()) for k, v in headers.items() if v is not None] + list(more)
    scope = {"type": sort, "method": method, "path": path, "query_string": query, "headers": listed}
    sent = []

    async def app(scope, receive, send):
        start = "websocket.accept" if scope["type"] == "websocket" else "http.response.start"
        await send({"type": start, "status": 200, "headers": []})

    async def send(message):
        sent.append(message)

    finished(Gate(app, PORT, TOKEN)(scope, None, send))
    first = sent[0]
    if first["type"].startswith("websocket"):
        return (200 if first["type"] == "websocket.accept" else 403), sent
    return first["status"], sent


@pytest.mark.parametrize("kind", KINDS)
def test_the_right_one_is_let_through(kind):
    status, sent = answered(kind, RIGHT)
    assert status == 200
    if kind != "socket":
        assert (b"x-frame-options", b"DENY") in sent[0]["headers"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_fault_and_every_pair_is_refused(kind):
    pairs = [*itertools.combinations(FAULTS, 1), *itertools.combinations(FAULTS, 2)]
    passed = []
    for names in pairs:
        headers = dict(RIGHT)
        for name in names:
            headers.update(FAULTS[name])
        if answered(kind, headers)[0] != 403:
            passed.append(names)
    assert passed == []
    assert len(pairs) == 45


@pytest.mark.parametrize("kind", ["socket", "upload"])
@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_an_absent_origin_is_refused_where_browsers_send_one(kind, fault):
    headers = RIGHT | (FAULTS[fault] if fault else {}) | {"origin": None}
    assert answered(kind, headers)[0] == 403


def test_a_page_needs_no_origin_but_the_socket_by_plain_requests_is_closed():
    assert answered("page", RIGHT | {"origin": None})[0] == 200
    KINDS["polling"] = ("http", "GET", "/_nicegui_ws/socket.io/")
    try:
        assert answered("polling", RIGHT)[0] == 403
    finally:
        del KINDS["polling"]


def test_two_values_of_a_header_are_refused():
    assert answered("page", RIGHT, more=[(b"host", b"evil.example")])[0] == 403
    assert answered("socket", RIGHT, more=[(b"origin", b"http://evil.example")])[0] == 403
    assert answered("page", RIGHT, more=[(b"cookie", f"kapitza-studio-{PORT}=x".encode())])[0] == 403


def test_the_link_sets_a_strict_cookie_and_leads_on_without_the_token():
    headers = RIGHT | {"cookie": None, "origin": None}
    status, sent = answered("page", headers, f"token={TOKEN}&study=a%26b.toml".encode())
    cookie = dict(sent[0]["headers"])[b"set-cookie"].decode()
    assert status == 200
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    body = sent[1]["body"].decode()
    assert TOKEN not in body
    assert "/?study=a%26b.toml" in body
    assert answered("page", headers, b"token=wrong")[0] == 403
    assert answered("page", headers | {"host": "evil.example"}, f"token={TOKEN}".encode())[0] == 403
    assert answered("socket", headers | {"origin": RIGHT["origin"]}, f"token={TOKEN}".encode())[0] == 403
