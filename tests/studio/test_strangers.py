"""What the studio must not do for strangers: lead away, take their token, open files outside, end in a traceback."""

from __future__ import annotations

import json
import os

import pytest
from tests.loops import finished

pytest.importorskip("nicegui")

from fastapi import FastAPI

from kapitza.errors import DataError
from kapitza.studio import serve
from kapitza.studio.gate import Gate
from kapitza.studio.studio import Studio


@pytest.mark.parametrize("path", ["//evil.com/", "/\\evil.com", "///evil.com"])
def test_the_welcome_leads_to_the_same_host(path):
    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"token=secret"}
    scope["headers"] = [(b"host", b"127.0.0.1:1234")]
    finished(Gate(None, 1234, "secret")(scope, None, send))
    assert sent[0]["status"] == 200
    assert b"url=/evil.com" in sent[1]["body"]


@pytest.mark.parametrize("name", ["", ".", "..", "../x.toml", "/etc/passwd", "a\x00b", "loop"])
def test_names_that_lead_nowhere_are_refused(tmp_path, name):
    (tmp_path / "loop").symlink_to("loop")
    studio = Studio(tmp_path)
    with pytest.raises(DataError, match="is not a file in"):
        studio.inside(name)


def test_a_picture_of_a_study_that_no_window_has_opened_is_not_found(tmp_path):
    """The request comes in a thread without a loop, where no session can begin."""
    (tmp_path / "s.toml").write_text("[data]\nfile = 'run.csv'\n")
    api = FastAPI()
    serve.add_routes(api, Studio(tmp_path))
    view = next(route.endpoint for route in api.routes if getattr(route, "path", "") == "/data/view")
    for name in ("s.toml", "a\x00b", "../s.toml"):
        assert view(name, 0, 0.0, 1.0, 100).status_code == 404


@pytest.mark.skipif(os.name != "posix", reason="owners and modes of POSIX")
def test_a_token_that_others_could_have_written_is_not_taken(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    target, token = tmp_path / "study", "t" * 43
    serve._remember(target, 4321, token)
    assert serve._address(target, 0) == (4321, token)
    kept = tmp_path / "kapitza" / "studio.json"
    assert json.loads(kept.read_text()) == {str(target): [4321, token]}
    assert kept.stat().st_mode & 0o077 == 0
    (tmp_path / "kapitza").chmod(0o777)
    assert serve._address(target, 0)[1] != token


def test_the_studio_needs_no_home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    serve._remember(tmp_path, 4321, "t" * 43)
    assert serve._address(tmp_path, 0)[0] == 0
