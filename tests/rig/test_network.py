"""Rigs in another process: nothing is lost, doubled, wrong or left running."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import zmq
from harness.lossy import LossyNetwork
from harness.recording_rig import RecordingRig

from kapitza.errors import RigError, RigLimitError, RigLostError
from kapitza.rig import FourierSeries, RigStepping, duffing_rig, settle_and_measure
from kapitza.rig.network import RemoteRig, RigServer, serve_rig
from kapitza.rig.network.messages import VERSION, Message, MessageError, packed, unpacked
from kapitza.rig.network.sockets import Keys
from processes import wait_for

DEMAND = {"x": FourierSeries(1.0, [0.0, 0.3, 0.1])}
FOLLOW = {
    "frequency": "omega", "modes": 3, "values": {"B": 0.1, "omega": 0.8}, "scales": {"x": 1.0},
}  # fmt: skip


class Clock:
    """The clock of a server, which the test moves: no machine is too busy for a watchdog that sees no time pass."""

    now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("kapitza.rig.network.listener.time", clock)
    return clock


@pytest.fixture
def served():
    server = serve_rig(duffing_rig(), watchdog=60.0)
    yield server
    server.close()


@pytest.fixture
def connected(served):
    rig = RemoteRig(served.address, served.token, timeout=60.0)
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
    # The server looks at its client between pieces of a run; time is rounded there.
    assert np.abs(here.values - there.values).max() < 1e-12
    assert np.abs(here.phases - there.phases).max() < 1e-12
    assert np.abs(here.control - there.control).max() < 1e-11
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
    rig = RemoteRig(network.address, served.token, timeout=60.0, retry=0.05)
    local = duffing_rig()
    try:
        for k in range(40):
            demand = {"x": FourierSeries(1.0, [0.0, 0.3, 0.01 * k])}
            rig.set(demand, B=0.2, omega=1.0)
            local.set(demand, B=0.2, omega=1.0)
            here, there = local.run(50), rig.run(50)
            assert there.index == here.index
            assert np.abs(here.values - there.values).max() < 1e-11
    finally:
        rig.close()
        network.close()
    assert network.lost > 5
    assert rig.resent > 3


def test_watchdog_stops_the_rig_of_a_silent_client(clock):
    server = serve_rig(duffing_rig(), watchdog=0.6)
    rig = RemoteRig(server.address, server.token, timeout=60.0)
    try:
        rig.set(DEMAND, B=0.2, omega=1.0)
        rig.run(100)
        clock.now += 0.3
        # Signs of life go on while Python does something else.
        wait_for(lambda: server._listener.silence() == 0, "sign of life")
        assert rig.run(10).index == 100
        rig._end.set()  # as if the process had died
        rig._beats.join()
        clock.now += 1.0
        wait_for(lambda: not server._running, "stop by the watchdog")
        with pytest.raises(RigError, match="no sign of life"):
            rig.run(10)
    finally:
        rig.close()
        server.close()


def test_strangers_and_second_clients_are_refused(served):
    with pytest.raises(RigError, match="token is wrong"):
        RemoteRig(served.address, "guess", timeout=60.0)
    first = RemoteRig(served.address, served.token)
    first.set(DEMAND, B=0.2, omega=1.0)
    first.run(10)
    with pytest.raises(RigError, match="in use by another client"):
        RemoteRig(served.address, served.token, timeout=60.0)
    first.close()
    RemoteRig(served.address, served.token).close()


class Wire:
    """A client without manners: sends frames as they are given and reads what comes back."""

    def __init__(self, server):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.connect(server.address)
        self.token = server.token

    def say(self, verb, session, number, content=None, arrays=None, token=None):
        message = Message(verb, session, number, self.token if token is None else token, content or {}, arrays or {})
        self.socket.send_multipart(packed(message))

    def hear(self, wait=600_000):
        return unpacked(self.socket.recv_multipart()) if self.socket.poll(wait) else None

    def close(self):
        self.socket.close()
        self.context.term()


@pytest.fixture
def wire(served):
    wire = Wire(served)
    yield wire
    wire.close()


SET = ({"frequency": 1.0, "parameters": {}}, {"x": np.array([0.0, 0.3, 0.1])})


def test_old_messages_that_arrive_late_are_not_carried_out_and_do_not_reset_the_count(wire):
    wire.say("hello", "s", 1)
    assert wire.hear().content["outputs"] == ["x"]
    wire.say("set", "s", 2, *SET)
    assert wire.hear().number == 2
    wire.say("run", "s", 3, {"samples": 10})
    assert wire.hear().content["index"] == 0
    for late in (("hello", 1), ("set", 2)):
        wire.say(late[0], "s", late[1], *SET)
    assert wire.hear(300) is None
    wire.say("run", "s", 3, {"samples": 10})  # its answer was lost: the same again, not ten samples more
    assert wire.hear().content["index"] == 0
    wire.say("run", "s", 4, {"samples": 10})
    assert wire.hear().content["index"] == 10
    wire.say("hello", "t", 1)
    assert "in use" in wire.hear().content["text"]
    wire.say("stop", "s", 5)
    assert wire.hear().verb == "answer"
    wire.say("hello", "t", 1)
    assert wire.hear().verb == "answer"
    wire.say("hello", "s", 1)  # of the client before
    assert "given to another client" in wire.hear().content["text"]


def test_nothing_that_is_sent_ends_the_server(wire, served):
    for frames in (
        [], [b""], [b"GET / HTTP/1.1"], [VERSION], [VERSION, b"{"], [VERSION, b"[" * 100_000], [VERSION, b"[1]"],
        [VERSION, b"", b'{"verb": "run", "session": "", "number": 1e999, "content": {}, "arrays": []}'],
        [VERSION, b"\xff", b'{"verb": "run", "session": "", "number": 1, "content": {}, "arrays": []}'],
        [VERSION, b"", b'{"verb": "a", "session": "", "number": 1, "content": {}, "arrays": [{}]}', b"x"],
    ):  # fmt: skip
        wire.socket.send_multipart(frames or [b""])
    wire.say("hello", "s", 1)
    assert wire.hear().verb == "answer"  # the others are strangers' messages, and those beyond the third not answered
    for number, (verb, content) in enumerate(
        [("set", {}), ("set", {"parameters": {"B": "much"}}), ("run", {"samples": "x"}), ("dance", {}), ("run", {})], 2
    ):
        wire.say(verb, "s", number, content)
        assert wire.hear().verb == "failed"
    assert served._thread.is_alive()


def test_versions_that_differ_are_named_on_both_sides(served):
    wire = Wire(served)
    frames = packed(Message("hello", "s", 1, served.token))
    wire.socket.send_multipart([b"kapitza-rig/9", *frames[1:]])
    assert "speaks kapitza-rig/2, the client kapitza-rig/9" in wire.hear().content["text"]
    wire.close()
    # A server of another version: the client is told at once, not after its time-out.
    context = zmq.Context()
    router = context.socket(zmq.ROUTER)
    router.setsockopt(zmq.LINGER, 0)
    port = router.bind_to_random_port("tcp://127.0.0.1")

    def answer():
        client, *_ = router.recv_multipart()
        router.send_multipart([client, b"kapitza-rig/9", b"{}"])

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    with pytest.raises(RigError, match="speaks kapitza-rig/9, this computer kapitza-rig/2"):
        RemoteRig(f"tcp://127.0.0.1:{port}", "token", timeout=60.0)
    thread.join(5.0)
    router.close()
    context.term()


class Broken:
    """The Duffing rig with a driver that fails; `limit` can be tightened while it is served."""

    def __init__(self, problem=None, slow=0.0):
        self._rig, self.problem, self.slow, self.stops, self.taken = duffing_rig(), problem, slow, 0, 0
        self.inputs = self._rig.inputs

    def __getattr__(self, name):
        return getattr(self._rig, name)

    def run(self, samples):
        if self.problem is not None:
            raise self.problem
        time.sleep(self.slow * samples)
        self.taken += samples
        return self._rig.run(samples)

    def stop(self):
        self.stops += 1
        self._rig.stop()


def test_a_driver_that_fails_is_reported_and_the_rig_made_safe():
    rig = Broken(OSError("USB device not found"))
    server = serve_rig(rig)
    client = RemoteRig(server.address, server.token, timeout=60.0)
    try:
        client.set(DEMAND, B=0.2, omega=1.0)
        before = rig.stops
        with pytest.raises(RigError, match=r"failed in run \(OSError: USB device not found\); it was put in its safe"):
            client.run(10)
        assert rig.stops == before + 1
        rig.problem = None
        client.set(DEMAND)
        assert len(client.run(10)) == 10
        assert client.parameters[0].value == 0.2
    finally:
        client.close()
        server.close()


def test_a_client_that_slept_has_not_waited(monkeypatch):
    """The clock jumps by an hour during a run of half a second, as after a laptop was closed."""
    jump = [0.0]
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + jump[0])
    rig = Broken(slow=0.005)
    server = serve_rig(rig, watchdog=60.0)
    client = RemoteRig(server.address, server.token, timeout=60.0, retry=0.1)
    try:
        client.set(DEMAND, B=0.2, omega=1.0)
        monkeypatch.setattr("kapitza.rig.network.client.time", clock)
        timer = threading.Timer(0.15, lambda: jump.__setitem__(0, 3600.0))
        timer.start()
        assert len(client.run(100)) == 100
        timer.join()
        assert jump[0] == 3600.0
    finally:
        client.close()
        server.close()


def test_a_limit_that_was_tightened_since_is_the_one_that_holds():
    rig = Broken()
    server = serve_rig(rig)
    client = RemoteRig(server.address, server.token, timeout=60.0)
    try:
        rig.inputs = (replace(rig.inputs[0], limit=0.2),)
        with pytest.raises(RigLimitError, match=r"limit is 0\.2"):
            client.set(DEMAND, B=0.2, omega=1.0)
        with pytest.raises(RigError, match="safe state"):
            client.run(1)
    finally:
        client.close()
        server.close()


def test_a_long_run_does_not_outlive_its_client_and_can_be_stopped(clock):
    """A rig as slow as its clock: 20 ms per sample, 60 s asked for."""
    rig = Broken(slow=0.02)
    server = serve_rig(rig, watchdog=0.8)
    wire = Wire(server)
    try:
        wire.say("hello", "s", 1)
        wire.hear()
        wire.say("set", "s", 2, *SET)
        wire.hear()
        wire.say("run", "s", 3, {"samples": 3000})  # and never another sign of life
        wait_for(lambda: rig.taken, "run")
        clock.now += 2.0
        assert "no sign of life" in wire.hear().content["text"]
        assert rig.taken < 1500
        wait_for(lambda: not server._running, "stop")
        wire.say("set", "s", 4, *SET)
        wire.hear()
        stops, taken = rig.stops, rig.taken
        wire.say("run", "s", 5, {"samples": 3000})
        wire.say("stop", "s", 6)
        heard = [wire.hear(), wire.hear()]
        assert [m.number for m in heard] == [5, 6]
        assert "its client stopped it" in heard[0].content["text"]
        assert rig.stops > stops
        assert rig.taken - taken < 1500
    finally:
        wire.close()
        server.close()


def test_only_loopback_unless_told_otherwise():
    with pytest.raises(RigError, match="outside this machine"):
        RigServer(duffing_rig(), "tcp://0.0.0.0:5999")
    with pytest.raises(RigError, match="CURVE keys"):
        RigServer(duffing_rig(), "tcp://0.0.0.0:5999", remote=True)
    with pytest.raises(RigError, match="outside this machine"):
        RemoteRig("tcp://192.0.2.1:5999", "token")
    with pytest.raises(RigError, match="ports run from 1 to 65535"):
        RigServer(duffing_rig(), "tcp://127.0.0.1:99999")
    with pytest.raises(RigError, match="outside this machine"):
        RemoteRig("tcp://127.0.0.1:0;192.0.2.1:5999", "token")


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
        unpacked([*good[:3], good[3][:-1] + b"\x01"])
    with pytest.raises(MessageError, match="does not fit"):
        unpacked([*good[:3], good[3][:-8]])
    with pytest.raises(MessageError, match="announced"):
        unpacked(good[:3])
    with pytest.raises(MessageError, match="damaged"):
        unpacked([*good[:2], b"{}"])
    with pytest.raises(MessageError, match="type"):
        unpacked([*good[:2], good[2].replace(b"<f8", b"|O8"), good[3]])


def started(seed=0):
    command = [sys.executable, "-m", "kapitza", "rig", "serve", "duffing", "--watchdog", "60", "--noise", "0.001"]
    process = subprocess.Popen([*command, "--seed", str(seed)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    address, token = (process.stdout.readline().split()[1] for _ in range(2))
    return process, address, token


def test_a_killed_rig_is_reported_in_time_and_the_branch_resumes(tmp_path):
    path = tmp_path / "branch.jsonl"
    stepping = RigStepping(max_points=7, first=0.1)
    process, address, token = started()
    rig = RemoteRig(address, token, timeout=8.0, retry=0.3)
    killed = []

    def kill(point):
        if len(killed) == 0 and point.value > 0.95:
            os.kill(process.pid, signal.SIGKILL)
            killed.append(time.monotonic())

    with pytest.raises(RigLostError, match="broke off the connection"):
        rig.follow(None, "omega", (0.5, 1.5), **FOLLOW, stepping=stepping, record=path, watch=kill)
    process.wait()
    process.stdout.close()
    rig.close()
    assert killed
    process, address, token = started(1)
    again = RemoteRig(address, token, timeout=60.0)
    branch = again.follow(None, "omega", (0.5, 1.5), **FOLLOW, stepping=stepping, record=path, resume=True)
    again.set(DEMAND, B=0.1, omega=1.0)
    process.terminate()
    assert process.wait(600.0) == 0  # in order, the rig in its safe state
    again._dead = "ended by its owner"
    again.close()
    process.stdout.close()
    assert len(branch) == 7
    assert np.all(np.diff([p.value for p in branch]) > 0)


def test_a_rig_that_dies_in_a_long_run_is_noticed_within_the_time_out():
    process, address, token = started()
    rig = RemoteRig(address, token, timeout=8.0)
    rig.set(DEMAND, B=0.2, omega=1.0)
    instant = []

    def kill():
        instant.append(time.monotonic())
        os.kill(process.pid, signal.SIGKILL)

    timer = threading.Timer(0.5, kill)
    timer.start()
    with pytest.raises(RigLostError, match=r"broke off the connection and was not there again within 4 s \(run 3\)"):
        rig.run(1_500_000)  # 30 000 s of rig time, which an answer might take
    assert time.monotonic() - instant[0] > 0.5
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


@pytest.mark.parametrize("watchdog", [float("inf"), float("nan"), 0.0, -1.0, 1e9, "soon", None])
def test_a_watchdog_that_would_never_bite_is_refused(watchdog):
    with pytest.raises(RigError, match="watchdog"):
        RigServer(duffing_rig(), watchdog=watchdog)


def test_an_empty_token_is_refused_on_both_sides():
    for token in ("", "  "):
        with pytest.raises(RigError, match="token is empty"):
            RigServer(duffing_rig(), token=token)
        with pytest.raises(RigError, match="token is empty"):
            RemoteRig("tcp://127.0.0.1:5999", token)
    with pytest.raises(RigError, match="token"):
        RigServer(duffing_rig(), token=5)


def test_nothing_is_carried_out_without_a_greeting(wire, served):
    """Neither in the session that has no name, which the server once took for its own, nor in another."""
    for session in ("", "s"):
        for number, verb in enumerate(("set", "run", "stop"), 1):
            wire.say(verb, session, number, *(SET if verb == "set" else ({"samples": 5}, {})))
            assert "does not know this session" in wire.hear().content["text"]
    wire.say("hello", "", 1)
    assert wire.hear().verb == "failed"
    assert not served._running


class Flooded(Wire):
    """A stranger that sends in a thread as fast as it can, until it is closed."""

    def __init__(self, server):
        super().__init__(server)
        self.sent, self._end = 0, threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def _send(self):
        wrong = packed(Message("beat", "s", 1, "guess"))
        while not self._end.is_set():
            for frames in (wrong, wrong, [b"GET /"], [*wrong[:2], b"[" * 200_000], [b"x"] * 150):
                try:
                    self.socket.send_multipart(frames, zmq.NOBLOCK)
                    self.sent += 1
                except zmq.Again:
                    self._end.wait(0.001)

    def close(self):
        self._end.set()
        self._thread.join()
        super().close()


def test_strangers_do_not_delay_the_watchdog_nor_keep_the_client_out(clock):
    """In the middle of a run, by order of events: the last sign of life, the silence, the stop; no run goes on."""
    rig = Broken(slow=0.0005)
    server = serve_rig(rig, watchdog=0.6)
    floods = [Flooded(server) for _ in range(2)]
    client = RemoteRig(server.address, server.token, timeout=600.0, retry=600.0)  # asking again is a sign of life too
    try:
        client.set(DEMAND, B=0.2, omega=1.0)
        for _ in range(3):
            clock.now += 0.3
            wait_for(lambda: server._listener.silence() == 0, "sign of life through the flood")
        assert len(client.run(400)) == 400
        stopped = []
        plain = rig.stop
        rig.stop = lambda: (stopped.append(server._listener.silence()), plain())
        client._end.set()
        client._beats.join()
        taken = rig.taken

        def fall_silent():
            wait_for(lambda: rig.taken > taken, "run")
            clock.now += 1.0

        silent = threading.Thread(target=fall_silent)
        silent.start()
        with pytest.raises(RigError, match=r"no sign of life for 0\.6 s"):
            client.run(1_000_000)
        silent.join()
        # The stop once came only when the flood ended.
        assert stopped[0] == 1.0
        assert min(f.sent for f in floods) > 100
    finally:
        client.close()
        for flood in floods:
            flood.close()
        server.close()


def test_a_driver_that_hangs_is_stopped_all_the_same(clock):
    """`run` does not come back; the watchdog calls `stop` from its own thread, after which nothing more is sent."""
    begun, let_go = threading.Event(), threading.Event()
    rig = Broken()
    plain = rig._rig.run
    server = serve_rig(rig, watchdog=0.3)
    wire = Wire(server)
    try:
        wire.say("hello", "s", 1)
        wire.hear()
        wire.say("set", "s", 2, *SET)
        wire.hear()
        rig.run = lambda samples: (begun.set(), let_go.wait(600.0), plain(samples))[2]
        before = rig.stops
        wire.say("run", "s", 3, {"samples": 10})
        wait_for(begun.is_set, "run")
        clock.now += 1.0
        wait_for(lambda: rig.stops > before, "stop")
        assert not let_go.is_set()
        let_go.set()
        assert "no sign of life" in wire.hear().content["text"]
    finally:
        let_go.set()
        wire.close()
        server.close()


def test_a_stop_that_fails_is_tried_again_and_reported(clock):
    rig = Broken()
    server = serve_rig(rig, watchdog=0.3)
    wire = Wire(server)
    try:
        wire.say("hello", "s", 1)
        wire.hear()
        wire.say("set", "s", 2, *SET)
        wire.hear()
        tried = []

        def jammed():
            tried.append(1)
            if len(tried) < 4:
                raise OSError("relay jammed")

        rig.stop = jammed
        clock.now += 1.0
        wait_for(lambda: len(tried) >= 4, "fourth stop")
        wire.say("run", "s", 3, {"samples": 10})
        assert "safe state" in wire.hear().content["text"]
    finally:
        wire.close()
        server.close()


def test_a_change_under_way_ends_when_the_watchdog_bites(clock):
    """A client dies while its demand goes over in many steps: none of them is sent after the stop."""
    rig = RecordingRig(ramp=0.0, rate_limit=0.5, pace=2.0)  # 2 mm by 5 µm a sample
    events = []
    for name in ("set", "stop"):
        plain = getattr(rig, name)
        setattr(rig, name, lambda *a, _plain=plain, _name=name, **k: (events.append(_name), _plain(*a, **k))[1])
    server = serve_rig(rig, watchdog=0.4)
    wire = Wire(server)
    try:
        wire.say("hello", "s", 1)
        wire.hear()
        wire.say("set", "s", 2, {"frequency": 2.0, "parameters": {}}, {"x": np.array([1.4, 0.0, 0.0])})
        wait_for(lambda: events.count("set") > 3, "change under way")
        clock.now += 1.0
        assert "no sign of life" in wire.hear().content["text"]
        wait_for(lambda: not server._running, "stop")
        assert events.count("set") > 3
        last = len(events) - 1 - events[::-1].index("set")
        assert events[last + 1 :][0] == "stop"
        assert not rig.beyond
    finally:
        wire.close()
        server.close()


def test_a_driver_that_hangs_while_its_server_ends_is_stopped_all_the_same():
    begun, let_go = threading.Event(), threading.Event()
    rig = Broken()
    server = serve_rig(rig, watchdog=3.0)
    wire = Wire(server)
    try:
        wire.say("hello", "s", 1)
        wire.hear()
        wire.say("set", "s", 2, *SET)
        wire.hear()
        rig.run = lambda samples: (begun.set(), let_go.wait(600.0))[1]
        wire.say("run", "s", 3, {"samples": 10})
        wait_for(begun.is_set, "run")
        before = rig.stops
        server._end.set()  # what `close` and the signal to terminate do first
        wait_for(lambda: rig.stops > before, "stop")
        assert not let_go.is_set()
    finally:
        let_go.set()
        wire.close()
        server.close()


def test_a_demand_that_waited_while_its_client_fell_silent_is_not_sent(clock):
    begun, let_go = threading.Event(), threading.Event()
    rig = Broken()
    plain, plain_set, sent = rig._rig.run, rig.set, []
    server = serve_rig(rig, watchdog=0.3)
    wire = Wire(server)
    try:
        wire.say("hello", "s", 1)
        wire.hear()
        wire.say("set", "s", 2, *SET)
        wire.hear()
        rig.run = lambda samples: (begun.set(), let_go.wait(600.0), plain(samples))[2]
        rig.set = lambda *a, **k: (sent.append(1), plain_set(*a, **k))[1]
        wire.say("run", "s", 3, {"samples": 10})
        wait_for(begun.is_set, "run")
        wire.say("set", "s", 4, *SET)
        wait_for(lambda: not server._listener.requests.empty(), "demand")
        clock.now += 1.0
        wait_for(lambda: not server._running, "stop")
        let_go.set()
        assert "no sign of life" in wire.hear().content["text"]
        assert "no sign of life" in wire.hear().content["text"]
        assert not sent
    finally:
        let_go.set()
        wire.close()
        server.close()


def test_a_server_that_is_dropped_or_closed_before_it_begins_frees_its_port():
    server = RigServer(duffing_rig())
    address = server.address
    server.close()
    with pytest.raises(RigError, match="This server is closed: make a new one"):
        server.run()
    server = RigServer(duffing_rig(), address)
    # Its thread and its listener name each other, so that the collector of cycles ends it.
    del server
    collecting = threading.Thread(target=gc.collect, daemon=True)
    collecting.start()
    collecting.join(60.0)
    assert not collecting.is_alive(), "ZeroMQ waits for sockets that are still open"
    RigServer(duffing_rig(), address).close()


@pytest.mark.parametrize("settings", [{"address": "tcp://127.0.0.1:*"}, {"address": "ipc://" + "x" * 300},
                                      {"server_key": "short"}, {"server_key": "\udc80" * 40}])  # fmt: skip
def test_addresses_and_keys_that_zeromq_refuses(settings):
    with pytest.raises(
        RigError, match=r"Cannot connect to .*Check the address and the key|server_key holds a character that is no"
    ):
        RemoteRig(**{"address": "tcp://127.0.0.1:5555", "token": "secret", "timeout": 0.2, **settings})


def test_keys_that_are_none_are_refused_by_the_server():
    with pytest.raises(RigError, match=r"Cannot listen at .*make keys by Keys\.new"):
        RigServer(duffing_rig(), keys=Keys("public", "secret"))
