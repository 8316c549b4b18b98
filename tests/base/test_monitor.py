"""Monitors: what is shown, cancelling, nesting, and a real Ctrl-C in every long verb."""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import kapitza as kz
from interrupted_verbs import VERBS
from kapitza.base.monitor import (
    Lines,
    Progress,
    Silent,
    Task,
    checkpoint,
    default_monitor,
    lines_in_logs,
    stage,
    watch,
)
from kapitza.errors import KapitzaError, Status
from processes import PATIENCE, wait_for, wait_until_at_work

TESTS = Path(__file__).parent.parent


class Recorder:
    """Keeps what it is shown; cancelled after a number of reports."""

    def __init__(self, reports: int = 10**9):
        self.seen: list[kz.Progress] = []
        self.reports = reports

    @property
    def cancelled(self) -> bool:
        return len(self.seen) >= self.reports

    def show(self, progress: kz.Progress) -> None:
        self.seen.append(progress)


def test_a_task_reports_what_is_done_and_its_end():
    monitor = Recorder()
    with watch(monitor, "work", 4) as task:
        for number in range(4):
            task.advance(1, f"part {number}")
    assert [p.done for p in monitor.seen] == [0, 1, 2, 3, 4, 4]
    assert [p.fraction for p in monitor.seen][-1] == 1.0
    assert [p.ended for p in monitor.seen] == [False] * 5 + [True]
    assert task.status is Status.CONVERGED


def test_a_cancelled_monitor_ends_the_work_at_the_next_report():
    monitor, done = Recorder(reports=3), []
    with watch(monitor, "work", 100) as task:
        for number in range(100):
            done.append(number)
            task.advance()
    assert done == [0, 1]
    assert task.status is Status.INTERRUPTED
    assert monitor.seen[-1].ended


def test_a_monitor_cancelled_beforehand_ends_the_work_at_its_first_report():
    monitor = Silent()
    monitor.cancel()
    record = kz.simulate(kz.library.duffing(), periods=1000, monitor=monitor)
    assert record.status is Status.INTERRUPTED
    assert record.size < 100


def test_stopping_inner_work_stops_the_outer_one():
    monitor, reached = Recorder(), []
    with watch(monitor, "outer", 2) as outer:
        for number in range(2):
            with watch(outer, "inner", 3) as inner:
                inner.advance()
                raise KeyboardInterrupt
            assert inner.interrupted
            outer.advance()
            reached.append(number)
    assert outer.interrupted
    assert reached == []
    assert {p.level for p in monitor.seen} == {0, 1}
    assert isinstance(outer, Task)


def test_work_inside_a_verb_reports_to_it_by_itself():
    monitor = Recorder()
    with watch(monitor, "outer", 1) as outer:
        checkpoint(partial=7, text="half way")
        with watch(None, "inner", 1) as inner:
            inner.advance()
        outer.advance()
    checkpoint(partial=8)  # outside of any verb: nothing happens
    assert outer.partial == 7
    assert "half way" in [p.text for p in monitor.seen]
    assert [p.level for p in monitor.seen if p.title == "inner"] == [1, 1, 1]


def test_errors_pass_and_the_end_is_shown():
    monitor = Recorder()
    with pytest.raises(ZeroDivisionError), watch(monitor, "work"):
        _ = 1 / 0
    assert monitor.seen[-1].ended


def test_what_is_no_monitor_is_refused():
    with pytest.raises(KapitzaError, match=r"give a Monitor \(an object with cancelled, show\)"):
        kz.simulate(kz.library.duffing(), periods=2, monitor=True)


def test_another_thread_can_cancel():
    """It cancels when the work has begun to report."""
    begun = threading.Event()

    class Reporting(Silent):
        def show(self, progress):
            if progress.done > 0:
                begun.set()

    monitor = Reporting()
    other = threading.Thread(target=lambda: begun.wait(PATIENCE) and monitor.cancel())
    other.start()
    record = kz.simulate(kz.library.duffing(), periods=3_000_000, monitor=monitor)
    other.join()
    assert record.status is Status.INTERRUPTED
    assert 1 < record.size < 3_000_000


def test_the_bar_draws_only_long_work(capsys, monkeypatch):
    monkeypatch.setattr("kapitza.base.monitor.QUIET", 0.0)
    monkeypatch.setenv("FORCE_COLOR", "1")
    bar = kz.Bar()
    with watch(bar, "orbits of [a] model", 2) as task, watch(task, "inner", 1) as inner:
        inner.advance(1, "one part")
        task.advance(1, "7 orbits")
        shown = ""

        def drawn():
            nonlocal shown
            shown += capsys.readouterr().err
            return "50 %" in shown

        wait_for(drawn, "bar")
    shown += capsys.readouterr().err
    assert "orbits of [a] model: 7 orbits" in shown
    assert "50 %" in shown
    monkeypatch.setattr("kapitza.base.monitor.QUIET", 60.0)
    with watch(kz.Bar(), "short work", 1) as task:
        task.advance()
    assert "short work" not in capsys.readouterr().err


def test_silent_where_nobody_looks(capsys):
    kz.simulate(kz.library.duffing(), periods=3)
    assert capsys.readouterr().err == ""


@pytest.fixture(scope="module")
def after_interrupt():
    """One process for all verbs: importing and compiling is what takes the time."""
    program = [sys.executable, str(TESTS / "interrupted_verbs.py")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    done = subprocess.run(program, capture_output=True, text=True, env=env, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("verb", VERBS)
def test_ctrl_c_gives_back_what_is_finished(after_interrupt, verb):
    found = after_interrupt[verb]
    assert found["status"] == "INTERRUPTED"
    assert 0 < found["parts"] < found["all"]
    assert found["same"]


def test_ctrl_c_from_outside_without_a_monitor():
    code = (
        "import kapitza as kz, signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "model = kz.library.duffing(); kz.simulate(model, periods=9);"
        "print('ready', flush=True); r = kz.simulate(model, periods=4_000_000); print(r.status.name, r.size)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stdout.readline().strip() == "ready"
    wait_until_at_work(child.pid)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=PATIENCE)
    status, size = out.split()
    assert (status, err) == ("INTERRUPTED", "")
    assert 1 < int(size) < 4_000_000


def test_a_fit_reports_estimates_and_stages_and_no_cost_is_compared_between_stages():
    model = kz.library.lorenz()
    record = kz.measure(kz.simulate(model, x0=[1, 1, 20], t=np.arange(400) * 0.01), noise=0.1, seed=1)
    monitor = Recorder()
    fit = kz.identify(model.with_values(rho=27.0), record, free=["rho"], monitor=monitor)
    told = [p for p in monitor.seen if p.estimates]
    assert {"rho"} == {name for p in told for name in p.estimates}
    # The last iteration before the intervals is the estimate.
    assert abs(told[-1].estimates["rho"] - fit["rho"]) < 0.1 * fit.deviations["rho"]
    stages = list(dict.fromkeys(p.stage for p in told))
    assert stages[0].startswith("start by HarmonicFit")
    assert any(s.startswith("ShootingFit from") and s.endswith("rigid links") for s in stages)
    for before, after in itertools.pairwise(told):
        if before.stage != after.stage:
            assert after.cost_change(before) is None
    with_cost = [p for p in told if p.cost is not None]
    assert with_cost[-1].cost_change(with_cost[-1]) == 0.0


def test_stages_nest_and_end_with_their_block():
    monitor = Recorder()
    with watch(monitor, "work"):
        with stage("outer"), stage("inner"):
            checkpoint({"a": 1.0}, cost=3.0)
        checkpoint({"a": 2.0})
    assert [p.stage for p in monitor.seen][1:] == ["outer", "outer, inner", "outer, inner", "", ""]
    assert [p.cost for p in monitor.seen][3:5] == [3.0, None]
    with stage("nobody watches"):
        checkpoint({"a": 1.0})


def test_lines_of_a_log_name_the_work_and_escape_control_characters(monkeypatch, capsys):
    clock = iter([0.0, 5.0, 16.0, 20.0, 40.0])
    monkeypatch.setattr("kapitza.base.monitor.time.monotonic", lambda: next(clock))
    lines = Lines()
    lines.show(Progress("study", done=1, total=4))  # too early
    lines.show(Progress("fit of \x1b[31mred", level=1, stage="HarmonicFit"))
    lines.show(Progress("fit of red", level=1, stage="ShootingFit"))  # again too early
    lines.show(Progress("fit of red", level=1, ended=True))
    lines.show(Progress("study", done=2, total=4))
    lines.show(Progress("study", ended=True))
    assert capsys.readouterr().err.splitlines() == [
        "16 s: study: 25 % > fit of \\x1b[31mred: HarmonicFit",
        "40 s: study: 50 %",
    ]


def test_lines_go_on_where_the_work_reports_nothing(monkeypatch, capsys):
    monkeypatch.setattr("kapitza.base.monitor.LINE_EVERY", 0.03)
    said = []
    with lines_in_logs(), watch(None, "compiling"):
        wait_for(lambda: said.append(capsys.readouterr().err) or "".join(said).count("s: compiling") >= 3, "lines")
    with watch(None, "work of a program"):
        pass
    assert isinstance(default_monitor(), Silent)
