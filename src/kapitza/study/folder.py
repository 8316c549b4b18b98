"""Write the results folder of a study.

It is replaced as a whole, with everything that a repetition needs. Files of the user are never replaced.
A folder that a study wrote holds the file `kapitza-folder.json`: what wrote it (identity) and the SHA-256 of each of
its files. Only those files are replaced, and only while they are as they were written; anything else is kept.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kapitza.base.files import is_own, locked, replacing, replacing_folder
from kapitza.errors import WriteError
from kapitza.study.study import Study

MARK = "kapitza-folder.json"
"""The file that marks a folder as written by a study."""

RESULT = "result.json"
"""The file that a results folder is read from."""

PLAN = "plan.nc"
"""The file that holds the next experiments."""

WRITTEN = (
    "study.toml", "parameters.csv", "comparison.csv", "report.html", PLAN, "runs.csv", "runs.toml", RESULT, MARK,
)  # fmt: skip
"""Files that a study writes beside its fits."""

FITS = "fits"
"""The folder inside that holds the fits."""

FIT = re.compile(r"fits/[A-Za-z0-9_-]+(\.checks)?\.(nc|json|npz)")
"""Files of a fit, see `write_fit`; earlier versions wrote .json and .npz."""

PACKAGES = ("heyoka", "numpy", "scipy", "sympy", "xarray", "pandas")


def results_folder_problem(folder: Path, inputs: Iterable[Path]) -> str:
    """Return why results cannot be written, or "".

    inputs: the study and the files it reads.
    """
    try:
        return _folder_problem(folder, inputs)
    except (OSError, ValueError) as problem:
        # Too long a name, a null character, a folder that may not be read.
        return f"{folder} cannot be used as results folder ({problem}): name another."


def _folder_problem(folder: Path, inputs: Iterable[Path]) -> str:
    place = Path(os.path.realpath(folder))
    for number, path in enumerate(inputs):
        read = Path(os.path.realpath(path))
        if read.is_relative_to(place):
            what = f"the file {path.name} that the study reads" if number else "the study itself"
            return f"the results folder {folder} holds {what}: name a folder of its own."
        if place.is_relative_to(read):
            return f"the results folder {folder} is inside of {path.name}, which the study reads: name another."
    if place.exists() and not place.is_dir():
        return f"{folder} is a file: name a folder that is not there yet."
    if place.is_dir() and any(place.iterdir()) and _mark(place) is None:
        return _unmarked(folder)
    if not place.parent.is_dir():
        return f"there is no folder {place.parent}: make it first."
    return ""


def _unmarked(folder: Path) -> str:
    """Return why an unmarked folder is not replaced."""
    if (folder / RESULT).is_file() and (folder / "study.toml").is_file() and (folder / FITS).is_dir():
        return (
            f"{folder} looks like results of an earlier version of Kapitza, which did not note what it wrote: some "
            "could be yours. Move the folder away, or name another."
        )
    return f"{folder} has files that are not results of a study: name another folder, they would be lost."


def require_replaceable(folder: Path) -> None:
    """Refuse to replace a folder that is needed.

    This process works in it, or a file in it would be lost.
    """
    if not folder.exists():
        return
    if Path.cwd().is_relative_to(folder.resolve()):
        raise WriteError(f"{folder} is the working directory: change to another before it is replaced.")
    if _mark(folder) is None and any(folder.iterdir()):
        raise WriteError(_unmarked(folder))
    for name in _foreign(folder):
        if name in WRITTEN or FIT.fullmatch(name):
            raise WriteError(
                f"{folder / name} is not as the study wrote it and would be lost: rename it or move it away."
            )
        kind = (folder / name).lstat().st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISLNK(kind) or stat.S_ISDIR(kind)):
            raise WriteError(f"{folder / name} is a device or a pipe and cannot be kept: move it away.")


def working_folder(folder: Path) -> Path:
    """Return where an unfinished run keeps its fits.

    They are put into this results folder in the end.
    """
    place = Path(os.path.realpath(folder))
    return place.with_name(f".{place.name}.part")


def begin(study: Study, resume: bool, own: Mapping[str, Any]) -> Path:
    """Return the working folder.

    A new one, unless a stopped run of the same identity is resumed.
    """
    require_replaceable(study.folder)
    folder = working_folder(study.folder)
    _require_own_fits(folder)
    mark = _mark(folder)
    if not (resume and mark is not None and mark["identity"] == own):
        with replacing_folder(folder, _require_own_fits) as draft:
            (draft / FITS).mkdir()
            _write_mark(draft, own)
    return folder


def _require_own_fits(folder: Path) -> None:
    """Refuse a working folder with foreign files.

    It may hold the fits of a run only.
    """
    if not folder.exists() and not folder.is_symlink():
        return
    ours = folder.is_dir() and (_mark(folder) is not None or not any(folder.iterdir()))
    strange = [] if not ours else [n for n in _entries(folder) if n not in (MARK, FITS) and not FIT.fullmatch(n)]
    if (folder / "identity.json").is_file() and not ours:
        raise WriteError(
            f"{folder} is of an unfinished run of an earlier version of Kapitza: move it away or remove it."
        )
    if not ours or strange:
        raise WriteError(f"{folder.joinpath(*strange[:1])} is not of an unfinished run of a study: move it away.")


@contextmanager
def publishing(study: Study, working: Path, own: Mapping[str, Any], fits: Iterable[str]) -> Iterator[Path]:
    """Yield a draft of the results folder.

    It holds the fits, and takes its place when the rest is written.
    fits: names of their files in the working folder, which is removed in the end. What the user has put into an older
    results folder is kept.
    """
    carried: list[Path] = []

    def may_replace(folder: Path) -> None:
        require_replaceable(folder)
        # The second time, immediately before the exchange: what has come since the draft was completed.
        for draft in carried:
            _carry(folder, draft)

    with replacing_folder(study.folder, may_replace) as draft:
        (draft / FITS).mkdir()
        for name in fits:
            _copy(working / FITS / name, draft / FITS / name)
        yield draft
        _write_mark(draft, own)
        if study.folder.exists():
            _carry(study.folder, draft)
        carried.append(draft)
    _remove_working(working)


def _carry(folder: Path, draft: Path) -> None:
    """Copy the user's files into the next draft."""
    for name in _foreign(folder):
        if os.path.lexists(draft / name):
            continue
        (draft / name).parent.mkdir(parents=True, exist_ok=True)
        if (folder / name).is_dir() and not (folder / name).is_symlink():
            (draft / name).mkdir()
        else:
            _copy(folder / name, draft / name)


def _copy(source: Path, target: Path) -> None:
    """Link a file, or copy it.

    It is copied where the file system has no hard links.
    """
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


def _remove_working(folder: Path) -> None:
    """Remove a working folder, the mark last.

    What a kill leaves behind is still recognised.
    """
    _require_own_fits(folder)
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
    (folder / MARK).unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def finished_before(study: Study) -> bool | None:
    """Return whether results of this study exist.

    They are of the same study, data and version; None where the folder has no result.
    False: it holds the result of another one, such as of the study before it was edited.
    """
    mark = _mark(study.folder)
    if mark is None or not (study.folder / RESULT).is_file():
        return None
    return mark["identity"] == identity(study)


def keep_copy(folder: Path) -> Path:
    """Copy the files of a study beside it.

    The copies are called NAME-1, NAME-2, ...; the last one is returned. Where the last one holds the same files
    already, as a run that was killed leaves it, no further one is made.
    """
    number = 1
    while os.path.lexists(folder.with_name(f"{folder.name}-{number}")):
        number += 1
    last = folder.with_name(f"{folder.name}-{number - 1}")
    mark = _mark(folder) or {"files": {}}
    if number > 1 and mark["files"] and _mark(last) == mark and not _foreign(last):
        return last
    place = folder.with_name(f"{folder.name}-{number}")
    with locked(folder), replacing_folder(place, require_replaceable) as draft:
        for name in (*mark["files"], MARK):
            if (folder / name).is_file():
                (draft / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(folder / name, draft / name)
    return place


@contextmanager
def keeping_copy(folder: Path) -> Iterator[Path]:
    """Copy the files of a study beside it while it runs again.

    The copy goes where the run ends before it replaces the folder, as one that is stopped does.
    """
    before = _mark(folder)
    number = 1
    while os.path.lexists(folder.with_name(f"{folder.name}-{number}")):
        number += 1
    place = keep_copy(folder)
    try:
        yield place
    except BaseException:
        # Only a copy made here, and only while the folder still has what was copied.
        new = place == folder.with_name(f"{folder.name}-{number}")
        if new and before is not None and _mark(folder) == before and not _foreign(place):
            shutil.rmtree(place, ignore_errors=True)
        raise


@contextmanager
def rewriting(folder: Path, name: str) -> Iterator[Path]:
    """Yield a path for one more file.

    The file then counts as one of the study's own.
    """
    with locked(folder):
        yield folder / name
        mark = _mark(folder)
        if mark is not None:
            mark["files"][name] = file_digest(folder / name)
            _put_mark(folder, mark)


def _mark(folder: Path) -> dict[str, Any] | None:
    """Return the content of a folder's mark.

    None where it has no mark that can be read.
    """
    with suppress(OSError, ValueError):
        content = json.loads((folder / MARK).read_text(encoding="utf-8"))
        right = isinstance(content, dict) and content.get("kapitza folder") == 1
        if right and isinstance(content.get("files"), dict) and isinstance(content.get("identity"), dict):
            return content
    return None


def _write_mark(folder: Path, own: Mapping[str, Any]) -> None:
    """Mark a folder as written by a study.

    Everything that is in it now counts as written by the study.
    """
    files = {name: file_digest(folder / name) for name in _entries(folder) if (folder / name).is_file()}
    _put_mark(folder, {"kapitza folder": 1, "identity": own, "files": files})


def _put_mark(folder: Path, content: Mapping[str, Any]) -> None:
    with replacing(folder / MARK) as draft:
        draft.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _entries(folder: Path) -> list[str]:
    """Return all files, links and empty folders inside.

    They are relative names; drafts and locks are left out.
    """
    found = []
    for place, folders, names in os.walk(folder):
        inside = Path(place).relative_to(folder)
        folders[:] = [name for name in folders if not is_own(name)]
        links = [name for name in folders if Path(place, name).is_symlink()]
        found += [(inside / name).as_posix() for name in (*names, *links) if not is_own(name)]
        if not names and not folders and inside.name:
            found.append(inside.as_posix())
    return sorted(found)


def _foreign(folder: Path) -> list[str]:
    """Return files that a study did not write.

    Files that were changed since are among them. The names are relative.
    """
    files = (_mark(folder) or {"files": {}})["files"]
    found = []
    for name in _entries(folder):
        path = folder / name
        plain = path.is_file() and not path.is_symlink()
        if name != MARK and not (plain and name in files and file_digest(path) == files[name]):
            found.append(name)
    return found


def identity(study: Study) -> dict[str, Any]:
    """Return everything that a result depends on.

    The result covers the study, the files it names, and the versions.
    """
    content = json.dumps(study.content, sort_keys=True, default=str)
    return {
        "study": hashlib.sha256(content.encode()).hexdigest(),
        "files": checksums(study),
        "versions": versions(),
    }


def checksums(study: Study) -> dict[str, str]:
    """Return the SHA-256 of every file read.

    The keys are paths relative to the study.
    """
    return {_relative(path, study.path.parent): stored_digest(path) for path in inputs_of(study)[1:]}


def stored_digest(path: Path) -> str:
    """Return the SHA-256 of a file.

    For a stored folder (.zarr, .parquet) it is that of what `sha256sum` prints for its files.
    """
    if not path.is_dir():
        return file_digest(path)
    lines = (f"{file_digest(path / name)}  {name}\n" for name in _entries(path) if (path / name).is_file())
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def inputs_of(study: Study) -> list[Path]:
    """Return the study and the files it reads."""
    return [study.path, *(recording.path for recording in study.recordings), *model_files(study.path, study.content)]


def model_files(path: Path, content: Mapping[str, Any]) -> list[Path]:
    """Return the files of models that a study names."""
    tables = content.get("model", [])
    tables = tables if isinstance(tables, list) else [tables]
    return [path.parent / table["file"] for table in tables if "file" in table]


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
