"""Rigs from TOML files: the same rig as in Python, and refusals that name the key."""

import subprocess
import sys

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import RigError
from kapitza.rig import FourierSeries, RemoteRig, SecondOrder, Sensors, pendulum_rig, read_rig

PENDULUM = """
[model]
library = "pendulum_on_spring"

[rig]
sample_time = 1e-3
seed = 3

[rig.driven.y]
frequency = 100.0
mass = 5.0
delay = 0.01
force = "F"
limit = 0.3
rate_limit = 8.0

[rig.feedback.theta]
gains = [4.0, 4.0]
delay = 0.01
limit = 3.0
rate_limit = 60.0

[rig.outputs]
F = "-m*y'' - m*l*(theta''*sin(theta) + theta'**2*cos(theta))"

[rig.sensors.theta]
noise = 5e-3

[rig.sensors.y]
noise = 1e-4
"""

CART = """
[model]
equations = ["m*x'' + c*x' + k*x + k3*x**3 = F*cos(omega*t)"]
parameters = { m = 1.0, c = 0.1, k = 1.0, k3 = 1.0, F = 0.3, omega = 1.2 }
excitation = { period = "2*pi/omega" }
values = { c = 0.2 }

[rig]
sample_time = 0.02
adjustable = ["F", "omega"]
feedback.x = { gains = [1.0, 0.8], limit = 5.0 }
"""


def written(tmp_path, text):
    path = tmp_path / "rig.toml"
    path.write_text(text)
    return path


def test_a_file_gives_the_rig_that_python_gives(tmp_path):
    sensors = Sensors(noise={"theta": 5e-3, "y": 1e-4})
    ours, exact = (
        read_rig(written(tmp_path, PENDULUM)),
        pendulum_rig(SecondOrder(100.0, 5.0, 0.01, "F"), sensors=sensors, seed=3),
    )
    assert ours.inputs == exact.inputs
    assert ours.outputs == exact.outputs
    demands = {"y": FourierSeries(6.5, [0, 0, 0, 0.01, 0]), "theta": FourierSeries(6.5, [0, 0.3, 0.1])}
    for rig in (ours, exact):
        rig.set(demands)
    assert np.array_equal(ours.run(400).values, exact.run(400).values)


def test_a_rig_from_a_file_is_followed_over_the_network(tmp_path):
    command = [sys.executable, "-m", "kapitza", "rig", "serve", str(written(tmp_path, CART))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    address, token = (process.stdout.readline().split()[1] for _ in range(2))
    rig = RemoteRig(address, token)
    branch = kz.follow(
        rig, None, "omega", (0.3, 0.9), frequency="omega", modes=3, values={"F": 0.1, "omega": 0.5}, scales={"x": 1.0},
        stepping=kz.rig.RigStepping(max_points=3),
    )  # fmt: skip
    rig.close()
    process.terminate()
    process.wait()
    process.stdout.close()
    assert len(branch) == 3
    series = branch[-1].series("x")
    model = read_rig(tmp_path / "rig.toml").plant.model.with_values(F=0.1, omega=branch[-1].value)
    orbit = kz.solve_orbit(model, [float(series(0.0)), float(series(0.0, 1))], period=1)
    assert orbit.points[0] == pytest.approx([float(series(0.0)), float(series(0.0, 1))], abs=1e-3)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (("[model]", "[modle]"), r'unknown key "modle".*model'),
        (("k3*x**3", "__import__('os')"), "In .rig.toml."),
        (("gains = [1.0, 0.8]", "gains = [1.0]"), r"\[rig.feedback.x\] gains has the shape"),
        (("feedback.x", "feedback.z"), '"z" is not a coordinate'),
        (("sample_time = 0.02", 'sample_time = "fast"'), r"\[rig\] sample_time"),
        (('"F", "omega"', '"F", "omga"'), '"omga"'),
        (("limit = 5.0", "limits = 5.0"), 'unknown key "limits".*limit'),
        (("feedback.x = { gains = [1.0, 0.8], limit = 5.0 }", ""), "drives and controls nothing"),
        (("values = { c = 0.2 }", 'library = "duffing"'), "give one of library, file or equations"),
        (("[rig]", "[rig"), "not valid TOML"),
    ],
)
def test_refusals_name_the_key(tmp_path, change, match):
    assert change[0] in CART
    with pytest.raises(RigError, match=match):
        read_rig(written(tmp_path, CART.replace(*change)))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(RigError, match=r"no rig file .*nowhere\.toml"):
        read_rig(tmp_path / "nowhere.toml")
