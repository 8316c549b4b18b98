"""Studies and saved files that are killed, stopped or run twice at random moments: nothing finished may be lost.

python -m tests.hostile.killed 200 1    # 200 cases of seed 1, counted
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from tests.hostile.family import FAMILIES, draw, register

import kapitza as kz
from kapitza.base.files import locked
from kapitza.cli import main as command
from kapitza.study.folder import working_folder

STUDY = """\
[[model]]
name = "linear"
equations = ["x'' + c*x' + k*x = 0"]
parameters = {c = 0.2, k = 5.0}
free = ["c", "k"]

[[model]]
name = "cubic"
equations = ["x'' + c*x' + k*x + k3*x**3 = 0"]
parameters = {c = 0.2, k = 5.0, k3 = 0.5}
free = ["c", "k", "k3"]

[data]
file = "run.csv"

[fit]
hold_back = 0.2
method = ["harmonic", "shooting"]

[output]
report = false
"""

CALLS = ("open", "os.rename", "os.link", "os.mkdir", "os.rmdir", "os.remove", "fcntl.flock", "ctypes.dlsym")
"""Calls before which a process may be killed, beside moments of its computing."""

LOCKED = 4
"""Exit code of a command whose study another process runs."""


def prepare(folder: Path) -> Path:
    """Write the study into the folder of a case; what an uninterrupted run of it gives is known then."""
    run_alone(folder)
    return write_study(folder)


def write_study(folder: Path) -> Path:
    """Write a recording and a study of two candidates by two methods."""
    model = kz.Model.from_equations("x'' + c*x' + k*x + k3*x**3 = 0", parameters={"c": 0.3, "k": 4.0, "k3": 1.5})
    clean = kz.simulate(model, [1.5, 0.0], t=np.linspace(0, 8, 161))
    kz.write(kz.measure(clean.select(["x"]), noise=0.01, seed=1), folder / "run.csv")
    (folder / "study.toml").write_text(STUDY, encoding="utf-8")
    return folder / "study.toml"


def content(results: Path) -> dict[str, bytes]:
    """Return every file of a results folder."""
    found = [path for path in sorted(results.rglob("*")) if path.is_file()]
    return {path.relative_to(results).as_posix(): path.read_bytes() for path in found}


def expected() -> tuple[dict[str, bytes], float, int]:
    """Return the results of an uninterrupted run, its processor time [s], and its calls that write."""
    return _alone[0]


_alone: list[tuple[dict[str, bytes], float, int]] = []


def run_alone(folder: Path) -> None:
    """Run the study without interruption, once in a process and inside the folder of a case."""
    if _alone:
        return
    with tempfile.TemporaryDirectory(dir=folder) as place:
        study = write_study(Path(place))
        kz.read_study(study).run(kz.Silent())  # compiles what forked processes then have
        calls, counting = 0, True

        def hook(event: str, arguments: tuple) -> None:
            nonlocal calls
            calls += counting and event in CALLS

        sys.addaudithook(hook)
        begin = time.process_time()
        kz.read_study(study).run(kz.Silent())
        counting = False
        _alone.append((content(study.with_name("study-results")), time.process_time() - begin, calls))


def started(work: Callable[[], int]) -> int:
    """Return the process that does the work."""
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            code = work()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def identify(study: Path, *options: str) -> int:
    try:
        command(["identify", str(study), "--quiet", *options])
    except SystemExit as end:
        return int(end.code or 0)
    return 71


def killed(by_call: bool, moment: float, work: Callable[[], int]) -> Callable[[], int]:
    """Return the work, which dies at a moment (0 … 1) of its computing or of its calls."""
    _, seconds, calls = expected()

    def dying() -> int:
        left = 1 + int(moment * calls)

        def hook(event: str, arguments: tuple) -> None:
            nonlocal left
            if event in CALLS:
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        if by_call:
            sys.addaudithook(hook)
        else:
            # The kernel ends the process when it has computed so long: nothing of Python runs any more.
            signal.signal(signal.SIGPROF, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_PROF, 1e-3 + moment * seconds)
        return work()

    return dying


def require(true: bool, text: str) -> None:
    if not true:
        raise AssertionError(text)


def require_whole(study: Path, again: int = 0) -> None:
    """Run the study to its end: the result of an uninterrupted run, and nothing left beside it."""
    results = study.with_name("study-results")
    code = ended(started(lambda: identify(study, "--resume")))
    require(code == 0, f"the run after it ended with {code}")
    require(content(results) == expected()[0], "another result than that of an uninterrupted run")
    left = {path.name for path in study.parent.iterdir()}
    require(left == {"run.csv", "study.toml", "study-results"}, f"left behind: {sorted(left)}")


def require_kept(study: Path, before: bool) -> int:
    """Return how many fits a stopped run has kept; they and the results folder must be whole."""
    whole, results = expected()[0], study.with_name("study-results")
    found = content(results) if results.exists() else {}
    require(found == whole or (not found and not before), "results that are not whole")
    fits = working_folder(results) / "fits"
    kept = {f"fits/{p.name}": p.read_bytes() for p in fits.iterdir() if p.is_file()} if fits.is_dir() else {}
    require(kept.items() <= whole.items(), "a kept fit that is not the one of an uninterrupted run")
    return len({Path(name).stem for name in kept})


def with_older(study: Path, older: bool) -> None:
    """Put the results of an older run beside the study."""
    for name, data in expected()[0].items() if older else ():
        path = study.with_name("study-results") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def kill_identify(case: tuple[bool, bool, float], folder: Path) -> str:
    """Kill a run, also one over older results; the next gives the result of an uninterrupted one."""
    older, by_call, moment = case
    study = prepare(folder)
    with_older(study, older)
    code = ended(started(killed(by_call, moment, lambda: identify(study))))
    require(code in (0, -signal.SIGKILL, -signal.SIGPROF), f"a killed run ended with {code}")
    kept = require_kept(study, older)
    require_whole(study)
    return f"killed, {kept} fits kept" if code else "ended before"


def stop_identify(case: tuple[bool, float], folder: Path) -> str:
    """Press Ctrl-C at a moment of the run: exit code 130, finished fits kept."""
    older, moment = case
    study = prepare(folder)
    with_older(study, older)

    def pressed() -> int:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGPROF, lambda *_: signal.raise_signal(signal.SIGINT))
        signal.setitimer(signal.ITIMER_PROF, 1e-3 + moment * expected()[1])
        return identify(study)

    code = ended(started(pressed))
    require(code in (0, 130), f"a stopped run ended with {code}")
    kept = require_kept(study, older or code == 0)
    require_whole(study)
    return f"stopped, {kept} fits kept" if code else "ended before"


def identify_twice(case: float, folder: Path) -> str:
    """Start the same study twice: one result; the second run is refused as locked, or begins after the first."""
    study = prepare(folder)
    first = started(lambda: identify(study))
    time.sleep(case * expected()[1])
    second = started(lambda: identify(study))
    codes = sorted((ended(first), ended(second)))
    require(codes in ([0, LOCKED], [0, 0]), f"two runs at once ended with {codes}")
    require_kept(study, True)
    require_whole(study)
    return f"ended with {codes[0]} and {codes[1]}"


def kill_worker(case: float, folder: Path) -> str:
    """Kill a process that runs a study while a worker of it lives on: the next run is not locked out."""
    study = prepare(folder)
    reading, writing = os.pipe()

    def run_with_worker() -> int:
        with locked(study.with_name("study-results")):
            worker = os.fork()
            if worker == 0:
                time.sleep(3600)  # on a busy machine a run takes minutes
                os._exit(0)
            os.write(writing, str(worker).encode())
            time.sleep(3600)
        return 0

    holder = started(run_with_worker)
    worker = int(os.read(reading, 20))
    try:
        try:
            code = ended(started(lambda: identify(study)))
            time.sleep(0.01 * case)
        finally:
            os.kill(holder, signal.SIGKILL)
            ended(holder)
        require(code == LOCKED, f"a run beside the holder of the lock ended with {code}")
        require_whole(study)
    finally:
        os.kill(worker, signal.SIGKILL)
        os.close(reading)
        os.close(writing)
    return "locked, then free"


def kill_save(case: tuple[bool, float], folder: Path) -> str:
    """Kill a save over a saved model: the file is the old or the new one."""
    by_call, moment = case
    run_alone(folder)
    path, old, new = folder / "model.nc", kz.library.duffing(), kz.library.lorenz()
    kz.save(old, path)

    def save() -> int:
        for _ in range(20):
            kz.save(new, path)
            kz.save(old, path)
        return 0

    code = ended(started(killed(by_call, moment, save)))
    require(kz.load(path).name in ("duffing", "lorenz"), "another model")
    kz.save(new, path)
    require([p.name for p in folder.iterdir()] == ["model.nc"], "drafts left behind")
    return "killed" if code else "ended before"


moments = st.floats(0.0, 1.0, allow_nan=False)
slow = {"share": 0.02, "seconds": 120.0, "starts_processes": True}
register("killed studies", st.tuples(st.booleans(), st.booleans(), moments), kill_identify, **slow)
register("stopped studies", st.tuples(st.booleans(), moments), stop_identify, **slow)
register("studies run twice", moments, identify_twice, **slow)
register("killed holders of a lock", moments, kill_worker, **slow)
register("killed saves", st.tuples(st.booleans(), moments), kill_save, **slow)


SHARES = {"killed studies": 0.4, "stopped studies": 0.25, "killed saves": 0.15, "studies run twice": 0.1}
SHARES["killed holders of a lock"] = 0.1
"""What a campaign of so many cases is made of."""


def campaign(count: int, seed: int) -> dict[str, Counter[str]]:
    """Return how the cases of each family ended; a lost one begins with FAILED."""
    ends = {}
    for name, share in SHARES.items():
        family, counts = FAMILIES[name], Counter[str]()
        for case in draw(family, round(share * count), seed):
            with tempfile.TemporaryDirectory() as place:
                try:
                    counts[str(family.act(case, Path(place)))] += 1
                except Exception as problem:  # counted, and the campaign goes on
                    counts[f"FAILED {case}: {type(problem).__name__}: {problem}"] += 1
        ends[name] = counts
        print(f"{name}: {counts.total()} cases, {lost(counts)} lost", flush=True)
        for text, number in sorted(counts.items()):
            print(f"  {number} {text}", flush=True)
    return ends


def lost(counts: Counter[str]) -> int:
    return sum(number for text, number in counts.items() if text.startswith("FAILED"))


if __name__ == "__main__":
    campaign(int(sys.argv[1]), int(sys.argv[2]))
