"""The worker: lines of JSON, throttled by level; stopped, killed, left alone by its server."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
from tests.loops import finished

pytest.importorskip("tomlkit", reason="the studio is not installed: pip install 'kapitza[studio]'")

import kapitza as kz
from kapitza.errors import LockedError
from kapitza.recordings import copy_recording
from kapitza.studio.runs import Run, Runs
from kapitza.studio.worker import Lines, plain
from kapitza.study import write_new_study


@pytest.fixture
def study(tmp_path):
    return write_new_study(copy_recording("shaker", tmp_path))


def test_progress_of_every_level_is_kept_however_fast_it_comes():
    written = []
    monitor = Lines(SimpleNamespace(emit=written.append))
    monitor.show(kz.Progress("study", done=1, total=3, level=0))
    for number in range(1000):
        monitor.show(kz.Progress("fit", done=number, level=1))
    monitor.flush()
    monitor.flush()
    assert [(line["level"], line["done"]) for line in written] == [(0, 1), (1, 999)]


def test_a_run_keeps_the_last_line_of_each_level_and_ends():
    run = Run("identify", {})
    for level, done in ((0, 1), (1, 5), (2, 7), (1, 6)):
        moved = {"k": float(max(level, 1)), "d": None} if level else {}
        run.hear({"event": "progress", "level": level, "done": done, "estimates": moved})
    # Estimates outlive their level; unknown ones and repetitions are left out.
    assert run.estimates == [{"k": 1.0}, {"k": 2.0}, {"k": 1.0}]
    assert {level: line["done"] for level, line in run.levels.items()} == {0: 1, 1: 6}
    run.hear({"event": "point", "x": 1})
    run.hear({"event": "done", "result": {"folder": "x"}})
    assert (run.state, run.active, run.result, run.lines) == (
        "done",
        False,
        {"folder": "x"},
        [{"event": "point", "x": 1}],
    )


def test_numbers_that_are_not_finite_have_a_place_in_json():
    assert plain({"a": float("nan"), "b": (1, float("inf")), "c": None}) == {"a": None, "b": [1, None], "c": None}


def test_a_job_is_done_stopped_and_killed(study):
    finished(_done_stopped_and_killed(study))


async def _done_stopped_and_killed(study):
    runs, heard = Runs(), []

    async def until(condition):
        while not condition():
            await asyncio.sleep(0.02)

    def hear(run):
        heard.append(run.state)

    try:
        data = {"file": "shaker.csv"}
        run = await runs.start("inspect", {"data": data, "folder": str(study.parent)}, hear)
        await until(lambda: not run.active)
        assert run.state == "done"
        assert any("noise" in line.lower() for line in run.result["lines"])
        # The second job goes to the same process or to a warm one; it is stopped inside a fit.
        run = await runs.start("identify", {"study": str(study)}, hear)
        await until(lambda: 1 in run.levels)
        stopping = asyncio.create_task(runs.stop(run, hear))
        await until(lambda: run.state != "running")
        assert heard[-1] in ("stopping", "stopped")
        await until(lambda: not run.active)
        await stopping
        assert run.state in ("stopped", "killed")
        assert not (study.parent / "shaker-results").exists()
        run = await runs.start("identify", {"study": str(study)}, hear)
        await until(lambda: 0 in run.levels)
        # A second run of the same study, from anywhere, is refused and names the holder.
        with pytest.raises(LockedError, match="kapitza studio"):
            kz.read_study(study).run(kz.Silent())
        worker = runs._busy[id(run)]
        os.kill(worker.process.pid, signal.SIGKILL)
        await until(lambda: not run.active)
        assert run.state == "killed"
        assert "SIGKILL" in run.message
    finally:
        await runs.close()


def test_a_worker_ends_with_its_server(study):
    command = [sys.executable, "-m", "kapitza.studio.worker"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == {"event": "ready"}
        process.stdin.write(json.dumps({"job": "identify", "arguments": {"study": str(study)}}).encode() + b"\n")
        process.stdin.flush()
        while json.loads(process.stdout.readline())["event"] != "progress":
            pass
        process.stdin.close()
        # Ended by itself, or by the kernel when its grace was over.
        assert process.wait(60) in (0, -signal.SIGALRM)


def test_a_stop_during_the_imports_is_immediate_and_a_refused_study_is_said(tmp_path):
    """The first job is stopped before the worker has imported anything: the answer comes before "ready"."""
    (tmp_path / "bad.toml").write_text("titel = 1")
    job = {"job": "identify", "arguments": {"study": str(tmp_path / "bad.toml")}}
    command = [sys.executable, "-m", "kapitza.studio.worker"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        texts = [json.dumps(line) for line in (job, {"stop": True})] + ["no json"] + [json.dumps(job)] * 2
        process.stdin.write("".join(f"{text}\n" for text in texts).encode())
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for _ in range(4)]
        process.stdin.close()
        process.wait(60)
    assert [answer["event"] for answer in answers] == ["stopped", "ready", "failed", "failed"]
    assert "titel" in answers[2]["message"]


def test_a_worker_takes_no_module_from_the_folder_of_the_recordings(tmp_path, monkeypatch):
    """A json.py or click.py beside the recordings, anybody's, would be run in the place of the module of that name."""
    for name in ("json", "click", "signal"):
        (tmp_path / f"{name}.py").write_text("open('taken', 'w').close()")
    copy_recording("shaker", tmp_path)
    monkeypatch.chdir(tmp_path)

    async def inspected():
        runs, ended = Runs(), asyncio.Event()
        try:
            run = await runs.start(
                "inspect", {"data": {"file": "shaker.csv"}, "folder": "."}, lambda run: run.active or ended.set()
            )
            await ended.wait()
            return run
        finally:
            await runs.close()

    assert finished(inspected()).state == "done"
    assert not (tmp_path / "taken").exists()
