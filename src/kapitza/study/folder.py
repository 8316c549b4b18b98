"""The results folder: written beside its place and put there in one step, with all that a repetition needs."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kapitza.files import replacing
from kapitza.study.study import Study

MARK = "result.json"
"""The file that makes a folder a results folder."""

PACKAGES = ("heyoka", "numpy", "scipy", "sympy", "xarray", "pandas")


def results_folder_problem(folder: Path, study_folder: Path) -> str:
    """Why results cannot go into this folder, or nothing."""
    if folder == study_folder or study_folder.is_relative_to(folder):
        return f"the results folder {folder} holds the study itself: name a folder of its own."
    if folder.is_file():
        return f"{folder} is a file: name a folder that is not there yet."
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).is_file():
        return f"{folder} has files that are no results of a study: name another folder, they would be lost."
    if not folder.parent.is_dir():
        return f"there is no folder {folder.parent}: make it first."
    return ""


def working_folder(study: Study) -> Path:
    """Where an unfinished run keeps its steps."""
    return study.folder.with_name(f".{study.folder.name}.part")


def begin(study: Study, resume: bool) -> Path:
    """The working folder: emptied, unless an interrupted run of the same thing is resumed."""
    folder = working_folder(study)
    wanted = json.dumps(identity(study), sort_keys=True)
    note = folder / "identity.json"
    same = note.is_file() and note.read_text(encoding="utf-8") == wanted
    if folder.is_dir() and not (resume and same):
        shutil.rmtree(folder)
    (folder / "fits").mkdir(parents=True, exist_ok=True)
    with replacing(note) as draft:
        draft.write_text(wanted, encoding="utf-8")
    return folder


def publish(working: Path, target: Path) -> None:
    """The finished folder takes its place; an older one is gone only when the new one stands."""
    (working / "identity.json").unlink(missing_ok=True)
    old = target.with_name(f".{target.name}.old")
    if old.is_dir():
        shutil.rmtree(old)
    if target.is_dir():
        target.rename(old)
    working.rename(target)
    if old.is_dir():
        shutil.rmtree(old)


def step_path(working: Path, candidate: str, method: str) -> Path:
    """Files of one fit; the name is readable, and unique whatever the candidate is called."""
    plain = re.sub(r"[^A-Za-z0-9]+", "_", f"{candidate}-{method}").strip("_")[:60]
    digest = hashlib.sha256(f"{candidate}\n{method}".encode()).hexdigest()[:8]
    return working / "fits" / f"{plain}-{digest}"


def identity(study: Study) -> dict[str, Any]:
    """What a result depends on: the study, the files it names, and the versions."""
    content = json.dumps(study.content, sort_keys=True, default=str)
    return {
        "study": hashlib.sha256(content.encode()).hexdigest(),
        "files": checksums(study),
        "versions": versions(),
    }


def checksums(study: Study) -> dict[str, str]:
    """SHA-256 of every file that the study reads, by its path relative to the study."""
    named = [recording.path for recording in study.recordings]
    tables = study.content.get("model", [])
    tables = tables if isinstance(tables, list) else [tables]
    named += [study.path.parent / table["file"] for table in tables if "file" in table]
    return {_relative(path, study.path.parent): file_digest(path) for path in named}


def _relative(path: Path, folder: Path) -> str:
    resolved = path.resolve()
    return resolved.relative_to(folder).as_posix() if resolved.is_relative_to(folder) else resolved.name


def file_digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def versions() -> dict[str, str]:
    from kapitza import __version__

    installed: Mapping[str, str] = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {"kapitza": __version__, "python": platform.python_version(), **installed}
