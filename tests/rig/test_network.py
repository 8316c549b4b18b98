"""Rigs in another process: nothing is lost, doubled, wrong or left running."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from harness.lossy import LossyNetwork

from kapitza.errors import RigError, RigLimitError, RigLostError
from kapitza.rig import FourierSeries, RigStepping, duffing_rig, settle_and_measure
from kapitza.rig.network import RemoteRig, RigServer, serve_rig
from kapitza.rig.network.messages import Message, MessageError, packed, unpacked
from kapitza.rig.network.sockets import Keys

DEMAND = {"x": FourierSeries(1.0, [0.0, 0.3, 0.1])}
FOLLOW = {
    "frequency": "omega", "modes": 3, "values": {"B": 0.1, "omega": 0.8}, "scales": {"x": 1.0},
}  # fmt: skip


@pytest.fixture
def served():
    server = serve_rig(duffing_rig(), watchdog=0.6)
    yield server
    server.close()


@pytest.fixture
def connected(served):
    rig = RemoteRig(served.address, served.token, timeout=3.0)
    yield rig
    rig.close()


def test_a_remote_rig_is_the_rig(connected):
    local = duffing_rig()
    assert connected.inputs == local.inputs
    assert connected.outputs == local.outputs
    assert connected.parameters == local.parameters
    assert connected.sample_time == local.sample_time
    for rig in (local, connected):
        rig.set(DEMAND, B=0.2, omega=1.0)
    here, there = local.run(500), connected.run(500)
    assert np.array_equal(here.values, there.values)
    assert np.array_equal(here.phases, there.phases)
    assert np.array_equal(here.control, there.control)
    assert there.index == 0
    assert connected.run(3).index == 500


def test_errors_travel_by_kind_and_limits_are_checked_on_both_sides(connected, monkeypatch):
    with pytest.raises(RigLimitError, match="nothing was sent"):
        connected.set({"x": FourierSeries(1.0, [0, 99.0, 0])})
    with pytest.raises(RigError, match="safe state"):
        connected.run(5)
    # A client that does not check: the server does.
    monkeypatch.setattr("kapitza.rig.network.client.check_settings", lambda *a: None)
    with pytest.raises(RigLimitError, match="limit is 10"):
        connected.set({"x": FourierSeries(1.0, [0, 99.0, 0])})


def test_lost_and_doubled_messages_change_nothing(served):
    network = LossyNetwork(served.address, loss=0.15, doubled=0.15, seed=2)
    rig = RemoteRig(network.address, served.token, timeout=5.0, retry=0.05)
    local = duffing_rig()
    try:
        for k in range(40):
            demand = {"x": FourierSeries(1.0, [0.0, 0.3, 0.01 * k])}
            rig.set(demand, B=0.2, omega=1.0)
            local.set(demand, B=0.2, omega=1.0)
            here, there = local.run(50), rig.run(50)
            assert there.index == here.index
            assert np.array_equal(here.values, there.values)
    finally:
        rig.close()
        network.close()
    assert network.lost > 5
    assert rig.resent > 3


def test_watchdog_stops_the_rig_of_a_silent_client(served):
    rig = RemoteRig(served.address, served.token)
    rig.set(DEMAND, B=0.2, omega=1.0)
    rig.run(100)
    time.sleep(1.2)  # signs of life go on while Python does something else
    assert rig.run(10).index == 100
    rig._end.set()  # as if the process had died
    rig._beats.join()
    limit = time.monotonic() + 5
    while served._running and time.monotonic() < limit:
        time.sleep(0.05)
    assert not served._running
    with pytest.raises(RigError, match="no sign of life"):
        rig.run(10)
    rig.close()


def test_strangers_and_second_clients_are_refused(served):
    with pytest.raises(RigError, match="token is wrong"):
        RemoteRig(served.address, "guess", timeout=2.0)
    first = RemoteRig(served.address, served.token)
    first.set(DEMAND, B=0.2, omega=1.0)
    first.run(10)
    with pytest.raises(RigError, match="in use by another client"):
        RemoteRig(served.address, served.token, timeout=2.0)
    first.close()
    RemoteRig(served.address, served.token).close()


def test_only_loopback_unless_told_otherwise():
    with pytest.raises(RigError, match="outside this machine"):
        RigServer(duffing_rig(), "tcp://0.0.0.0:5999")
    with pytest.raises(RigError, match="CURVE keys"):
        RigServer(duffing_rig(), "tcp://0.0.0.0:5999", remote=True)
    with pytest.raises(RigError, match="outside this machine"):
        RemoteRig("tcp://192.0.2.1:5999", "token")


def test_curve_keys_keep_others_out():
    keys = Keys.new()
    server = serve_rig(duffing_rig(), keys=keys)
    try:
        rig = RemoteRig(server.address, server.token, server_key=keys.public)
        assert rig.outputs == ("x",)
        rig.close()
        with pytest.raises(RigLostError):
            RemoteRig(server.address, server.token, server_key=Keys.new().public, timeout=0.6, retry=0.2)
        with pytest.raises(RigLostError):
            RemoteRig(server.address, server.token, timeout=0.6, retry=0.2)
    finally:
        server.close()


def test_messages_that_are_none_are_refused():
    good = packed(Message("run", "s", 3, "t", {"samples": 5}, {"a": np.arange(4.0)}))
    assert unpacked(good).arrays["a"].tolist() == [0, 1, 2, 3]
    with pytest.raises(MessageError, match="another protocol"):
        unpacked([b"kapitza-rig/0", *good[1:]])
    with pytest.raises(MessageError, match="checksum"):
        unpacked([*good[:2], good[2][:-1] + b"\x01"])
    with pytest.raises(MessageError, match="does not fit"):
        unpacked([*good[:2], good[2][:-8]])
    with pytest.raises(MessageError, match="announced"):
        unpacked(good[:2])
    with pytest.raises(MessageError, match="damaged"):
        unpacked([good[0], b"{}"])
    with pytest.raises(MessageError, match="type"):
        unpacked([good[0], good[1].replace(b"<f8", b"|O8"), good[2]])


def started(seed=0):
    command = [sys.executable, "-m", "kapitza", "rig", "serve", "duffing", "--watchdog", "1", "--noise", "0.001"]
    process = subprocess.Popen([*command, "--seed", str(seed)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    address, token = (process.stdout.readline().split()[1] for _ in range(2))
    return process, address, token


def test_a_killed_rig_is_reported_in_time_and_the_branch_resumes(tmp_path):
    path = tmp_path / "branch.jsonl"
    stepping = RigStepping(max_points=7, first=0.1)
    process, address, token = started()
    rig = RemoteRig(address, token, timeout=1.0, retry=0.3)
    killed = []

    def kill(point):
        if len(killed) == 0 and point.value > 0.95:
            os.kill(process.pid, signal.SIGKILL)
            killed.append(time.monotonic())

    with pytest.raises(RigLostError, match="broke off the connection"):
        rig.follow(None, "omega", (0.5, 1.5), **FOLLOW, stepping=stepping, record=path, watch=kill)
    assert time.monotonic() - killed[0] < 1.0 + 0.5  # the time-out, and what a busy machine adds
    process.wait()
    process.stdout.close()
    rig.close()
    assert killed
    process, address, token = started(1)
    again = RemoteRig(address, token, timeout=3.0)
    branch = again.follow(None, "omega", (0.5, 1.5), **FOLLOW, stepping=stepping, record=path, resume=True)
    again.close()
    process.terminate()
    process.wait()
    process.stdout.close()
    assert len(branch) == 7
    assert np.all(np.diff([p.value for p in branch]) > 0)


def test_a_rig_that_dies_in_a_long_run_is_noticed_within_the_time_out():
    process, address, token = started()
    rig = RemoteRig(address, token, timeout=2.0)
    rig.set(DEMAND, B=0.2, omega=1.0)
    instant = []

    def kill():
        instant.append(time.monotonic())
        os.kill(process.pid, signal.SIGKILL)

    timer = threading.Timer(0.5, kill)
    timer.start()
    with pytest.raises(RigLostError, match=r"broke off the connection and was not there again within 1 s \(run 3\)"):
        rig.run(1_500_000)  # 30 000 s of rig time, which an answer might take
    assert 0.5 < time.monotonic() - instant[0] < 2.0 + 0.5
    with pytest.raises(RigLostError, match="Connect again"):
        rig.run(1)
    timer.join()
    process.wait()
    process.stdout.close()
    rig.close()


def test_measurement_over_the_network_settles(connected):
    found = settle_and_measure(connected, DEMAND, {"B": 0.1, "omega": 1.0}, 3)
    assert found.settled
    assert found.lost == 0.0
