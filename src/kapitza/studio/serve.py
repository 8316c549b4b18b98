"""Serve the studio.

The server has the loopback address, a free port and a token in the link; its workers end with it.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import sys
import webbrowser
from pathlib import Path
from urllib.parse import quote

import uvicorn
from fastapi import FastAPI, Response
from nicegui import app, ui

from kapitza.base.files import replacing
from kapitza.base.owners import distrust
from kapitza.base.suffixes import SUFFIXES
from kapitza.errors import DataError, KapitzaError
from kapitza.studio import page
from kapitza.studio.gate import Gate
from kapitza.studio.loading import Shown
from kapitza.studio.studio import Studio

HOST = "127.0.0.1"
WIDEST = 8000
"""Pixels of the widest picture that is asked for."""

MOST_KEPT = 50

PATIENT = 40
"""Seconds that a window may be silent: a busy browser draws figures for ten seconds and answers nothing meanwhile."""


def run(target: Path, port: int, browser: bool) -> None:
    """Serve a folder, study or recording until Ctrl-C."""
    studio = opened(target)
    studio.first_run = not _kept().exists()
    asked = port != 0
    wanted, token = _address(target.resolve(), port)
    sock = _socket(wanted, asked)
    port = sock.getsockname()[1]
    if port != wanted:
        # The program that holds the former port is sent the cookie by pages that are still open.
        token = secrets.token_urlsafe(32)
    _remember(target.resolve(), port, token)
    api = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    add_routes(api, studio)
    page.add(studio)
    app.on_startup(studio.workers.warm_up)
    app.on_shutdown(studio.workers.close)
    # Nothing is compressed: the browser is on this machine, and the loop of the server would wait for it.
    ui.run_with(
        api, title="Kapitza studio", favicon="🎐", dark=None, reconnect_timeout=PATIENT, show_welcome_message=False,
        gzip_middleware_factory=None,
    )  # fmt: skip
    gate = Gate(api, port, token)
    config = uvicorn.Config(
        gate, ws="websockets-sansio", ws_per_message_deflate=False, lifespan="on", log_level="warning",
        timeout_graceful_shutdown=2,
    )  # fmt: skip
    link = f"http://{HOST}:{port}/?token={token}" + (f"&study={quote(studio.first)}" if studio.first else "")
    # Before the link is printed: a visit at once must find a listener.
    sock.listen(128)
    print(f"Kapitza studio (Ctrl-C stops it): {link}", flush=True)
    if browser:
        webbrowser.open(link)
    uvicorn.Server(config).run(sockets=[sock])


def opened(target: Path) -> Studio:
    """Return the studio of a target.

    The target is a folder, a study or a recording.
    """
    target = target.resolve()
    if target.suffix.lower() in SUFFIXES and target.exists():
        studio = Studio(target.parent)
        studio.first = studio.new_study(target.name)
        return studio
    if target.is_dir():
        return Studio(target)
    if target.suffix == ".toml" and target.is_file():
        return Studio(target.parent, target.name)
    if target.exists():
        raise DataError(f"{target.name} is neither a study (.toml) nor a recording ({' '.join(SUFFIXES)}).")
    raise DataError(f"There is no {target}: give a recording, a study or a folder.")


def add_routes(api: FastAPI, studio: Studio) -> None:
    """Add the numbers behind the pictures.

    Everything else goes through the page.
    """

    @api.get("/data/view")
    def view(  # pyright: ignore[reportUnusedFunction]
        study: str, number: int, begin: float, end: float, width: int, overlay: bool = False, rows: str = "",
        candidate: int = 0,
    ) -> Response:  # fmt: skip
        # A window opens its study, in the loop of the server; a picture, which is asked for in a thread, cannot.
        try:
            session = studio.opened(study)
        except KapitzaError:
            session = None
        recordings = [] if session is None else session.recordings
        found = recordings[number] if 0 <= number < len(recordings) else None
        if session is None or not isinstance(found, Shown) or not begin < end:
            return Response(status_code=404)
        wanted = [int(at) for at in rows.split("-") if at.isdecimal() and int(at) < len(found.channels)]
        wanted = wanted or list(range(len(found.channels)))
        seen = found.pyramid.only(wanted).view(begin, end, min(max(width, 10), WIDEST))
        motion = session.motions.get(candidate) if overlay else None
        channels = tuple(found.channels[at] for at in wanted)
        packed = seen.packed(None if motion is None else motion.at(seen.time, channels))
        return Response(packed, media_type="application/octet-stream", headers={"cache-control": "no-store"})

    @api.get("/files/report")
    def report(study: str) -> Response:  # pyright: ignore[reportUnusedFunction]
        try:
            content = (studio.session(study).results_folder / "report.html").read_bytes()
        except (KapitzaError, OSError):
            return Response("There is no report yet: press Fit.", status_code=404, media_type="text/plain")
        # A page of its own: whatever a file may have brought into it has no access to the studio.
        headers = {"content-security-policy": "sandbox allow-scripts allow-popups", "cache-control": "no-store"}
        return Response(content, media_type="text/html", headers=headers)


def _socket(port: int, asked: bool) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if sys.platform != "win32":
        # A server that is started again takes the port of the one before at once.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((HOST, port))
    except OSError as problem:
        if asked:
            raise DataError(f"Port {port} cannot be used ({problem.strerror}): leave --port out.") from None
        sock.bind((HOST, 0))
    return sock


# -- the address of the last server of a target: a page that was open finds the next one by itself ---------------------


def _kept() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(base) / "kapitza" / "studio.json"


def _addresses() -> dict[str, list[object]]:
    try:
        # A token that somebody else could have written there would let them in.
        if not _kept().is_absolute() or distrust(_kept().parent):
            return {}
        found = json.loads(_kept().read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}
    except (OSError, ValueError):
        return {}


def _address(target: Path, port: int) -> tuple[int, str]:
    """Return port and token of the last server.

    They belong to this target; new ones are made where there was none.
    """
    kept = _addresses().get(str(target))
    match kept:
        case [int(old), str(token)] if len(token) >= 32 and (not port or port == old):
            return old, token
    return port, secrets.token_urlsafe(32)


def _remember(target: Path, port: int, token: str) -> None:
    """Keep port and token in a private file.

    Only the user can read it; without such a file they are new each time.
    """
    kept = {key: value for key, value in _addresses().items() if key != str(target)}
    kept = dict(list(kept.items())[-MOST_KEPT:]) | {str(target): [port, token]}
    if not _kept().is_absolute():
        return
    try:
        _kept().parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with replacing(_kept()) as draft:
            draft.touch(mode=0o600)
            draft.chmod(0o600)
            draft.write_text(json.dumps(kept, indent=1), encoding="utf-8")
    except (OSError, KapitzaError):
        return
