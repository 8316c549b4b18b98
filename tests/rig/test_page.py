"""The page on rigs: its code runs as it stands, one block after the other."""

import re
import sys
from functools import partial
from types import ModuleType

import numpy as np
import pytest

import kapitza as kz
from conftest import ROOT
from kapitza.errors import RigError
from kapitza.rig import FourierSeries, RemoteRig, RigServer, duffing_rig, pendulum_rig, read_rig, settle_and_measure

PAGE = (ROOT / "docs" / "rig.md").read_text(encoding="utf-8")


def blocks(kind):
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)


def test_the_code_of_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    codes = [code for code in blocks("python") if "class Shaker" not in code]
    assert len(codes) >= 5
    # Half as many steps of the simulated pendulum.
    monkeypatch.setattr(kz.rig, "pendulum_rig", partial(pendulum_rig, sample_time=2e-3))
    names = {}
    for code in codes:
        exec(compile(code, "docs/rig.md", "exec"), names)  # noqa: S102
    assert "Essentially unstable" in capsys.readouterr().out
    assert (tmp_path / "run7.jsonl").exists()
    for name, true in (("d", 0.1), ("k3", 1.0)):
        low, high = names["fit"].interval(0.999).loc[name]
        assert low < true < high
        assert high - low < 0.1 * true


def test_the_file_of_the_page_is_a_rig(tmp_path):
    (code,) = blocks("toml")
    path = tmp_path / "cart.toml"
    path.write_text(code)
    rig = read_rig(path)
    assert rig.outputs == ("x", "spring")
    rig.set({"x": FourierSeries(1.2, [0.0, 0.3, 0.0])})
    assert rig.run(100).values.shape == (100, 2)


class Line:
    """A serial line with a controller behind it that drives a Duffing rig."""

    def __init__(self, port, speed, timeout):
        self.rig, self.timeout, self.stops, self.short = duffing_rig(sample_time=1e-3), timeout, 0, False
        self.waiting = b""

    def write(self, data):
        verb, *numbers = data.decode().split()
        if verb == "SET":
            frequency, *coefficients = (float(n) for n in numbers)
            self.rig.set({"x": FourierSeries(frequency, coefficients)}, omega=frequency)
        elif verb == "RUN":
            found = self.rig.run(int(numbers[0]))
            flags = found.lost + 2 * found.saturated
            table = np.column_stack([found.phases % (2 * np.pi), found.values, found.control, flags])
            self.waiting = table.astype("<f4").tobytes()
        else:
            self.stops += 1
            self.rig.stop()

    def read(self, count):
        assert self.timeout > count / 16 * 1e-3
        return self.waiting[: count - 16] if self.short else self.waiting


def test_the_driver_of_the_page_drives_a_rig(monkeypatch):
    (code,) = [code for code in blocks("python") if "class Shaker" in code]
    body = code[code.index("class Shaker") : code.index("RigServer(Shaker")]
    assert len([line for line in body.splitlines() if line.strip()]) <= 30
    fake = ModuleType("serial")
    fake.Serial = Line
    monkeypatch.setitem(sys.modules, "serial", fake)
    served = []
    monkeypatch.setattr(RigServer, "run", lambda self: served.append(self))
    names = {}
    exec(compile(code.replace(":5555", ":*"), "docs/rig.md", "exec"), names)  # noqa: S102
    monkeypatch.undo()
    server = served[0].start()
    client = RemoteRig(server.address, server.token, timeout=60.0)
    try:
        demand = {"x": FourierSeries(1.3, [0.0, 0.4, 0.0])}
        found = settle_and_measure(client, demand)
        exact = settle_and_measure(duffing_rig(sample_time=1e-3), demand, {"omega": 1.3})
        assert found.settled
        assert found.coefficients == pytest.approx(exact.coefficients, abs=2e-4)
        server.rig.line.short = True
        before = server.rig.line.stops
        with pytest.raises(RigError, match="phases of shape"):
            client.run(100)
        server.rig.line.short = False
        client.stop()
        assert server.rig.line.stops > before
    finally:
        client.close()
        server.close()
