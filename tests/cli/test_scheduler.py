"""A study on a live dask cluster of this machine: scheduler and worker as processes of their own, found by address."""

import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest

import kapitza as kz
from kapitza.cli import main

Client = pytest.importorskip("distributed", reason="no dask: pip install '.[dask]'").Client

STUDY = """\
[model]
equations = ["x'' + c*x' + k*x = 0"]
parameters = {c = 0.2, k = 8.0}

[data]
file = "run.csv"
channels = ["x"]

[fit]
free = ["c", "k"]
method = "harmonic"
"""


def start(*arguments, **settings):
    environment = {**os.environ, "DASK_DISTRIBUTED__WORKER__DAEMON": "false"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([sys.executable, "-m", "dask", *arguments], env=environment, **quiet, **settings)


@pytest.fixture
def address(tmp_path):
    known = tmp_path / "scheduler.json"
    line = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(known)]
    scheduler = start("scheduler", *line, cwd=tmp_path)
    worker = None
    try:
        end = time.monotonic() + 600
        while not known.is_file() and time.monotonic() < end:
            assert scheduler.poll() is None
            time.sleep(0.05)
        found = json.loads(known.read_text())["address"]
        worker = start("worker", found, "--nthreads", "1", "--no-dashboard", "--no-nanny", cwd=tmp_path)
        with Client(found) as client:
            client.wait_for_workers(1, timeout=600)
        yield found
    finally:
        for process in (worker, scheduler):
            if process is not None:
                process.terminate()
                process.wait(30)


def identify(capsys, path, *options):
    """Parameters that `kapitza identify` prints."""
    path.write_text(STUDY, encoding="utf-8")
    with pytest.raises(SystemExit) as end:
        main(["identify", str(path), "--json", *options])
    captured = capsys.readouterr()
    assert not end.value.code, captured.err
    return json.loads(captured.out)["parameters"]


def test_the_same_numbers_from_a_cluster(address, tmp_path, capsys):
    model = kz.Model.from_equations("x'' + c*x' + k*x = 0", parameters={"c": 0.3, "k": 9.0})
    clean = kz.simulate(model, [1.0, 0.0], t=np.linspace(0, 10, 301)).select(["x"])
    kz.write(kz.measure(clean, noise=0.005, seed=1), tmp_path / "run.csv")
    there = identify(capsys, tmp_path / "there.toml", "--scheduler", address)
    here = identify(capsys, tmp_path / "here.toml")
    assert there == here
    assert {row["parameter"] for row in there} >= {"c", "k"}
