"""One vocabulary of sensor errors: what is simulated is what is fitted, found and marked."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kapitza as kz
from kapitza.data import BY_NAME, FITTED, KINDS, PROPOSED, TESTED, marks_of, sensor_errors
from kapitza.signal import without_bad_samples

TIME = np.arange(1200) * 0.02
MODEL = kz.Model.from_equations("x'' + c*x' + k*x = 0", parameters={"c": 0.1, "k": 9.0})
CLEAN = kz.simulate(MODEL, x0=[1.0, 0.0], t=TIME)
SIZES = {"gain": 1.3, "offset": 0.4, "drift": 0.02, "delay": 0.05}


@pytest.mark.parametrize("error", FITTED, ids=lambda error: error.name)
def test_a_simulated_error_is_fitted(error):
    """y = gain h(t - delay) + offset + drift t, with the other channel exact: the fit gives back what was simulated."""
    size = SIZES.get(error.name, error.ideal + 0.1)
    known = {"x": size}
    seen = kz.measure(CLEAN, noise=1e-3, seed=1, **{error.name: known}).between(start=0.2)
    method = kz.ShootingFit(outputs={"x": kz.Sensor("x", error.name)})
    fit = kz.identify(MODEL, seen, ["c", "k"], method)
    found = f"x_{error.name}"
    assert abs(fit[found] - size) < 5 * fit.deviations[found]
    assert fit.deviations[found] < 0.05 * size


@pytest.mark.parametrize("error", sorted({*PROPOSED, *TESTED}, key=lambda e: e.name), ids=lambda error: error.name)
def test_a_column_is_the_derivative_of_what_is_simulated(error):
    """∂y/∂size by differences, for x = sin 3t with the rate 3 cos 3t."""
    h, rate = np.sin(3 * TIME), 3 * np.cos(3 * TIME)
    if error.apply is None:  # the clock of the record: y(t) = h(t/(1 + s)), and h(t - s)
        moved = {"clock": lambda s: np.sin(3 * TIME / (1 + s)), "phase": lambda s: np.sin(3 * (TIME - s))}[error.name]
    else:
        moved = lambda s: error.apply(h, error.ideal + s, TIME, lambda _, late: np.sin(3 * (TIME - late)))  # noqa: E731
    step = 1e-6
    slope = (moved(step) - moved(-step)) / (2 * step)
    assert np.allclose(error.column(h, rate, TIME), slope, atol=1e-6 * (1 + np.abs(slope).max()))


def test_bad_samples_are_simulated_and_marked():
    noisy = {"noise": 1e-3, "seed": 3}
    for name, settings in (
        ("spike", {"spikes": {"x": 0.005}}),
        ("dropout", {"dropouts": {"x": 0.02}}),
        ("saturation", {"limits": {"x": (-0.8, 0.8)}}),
    ):
        plain, seen = kz.measure(CLEAN, **noisy), kz.measure(CLEAN, **noisy, **settings)
        marks = marks_of(without_bad_samples(seen), "x")
        spoiled = seen["x"] != plain["x"]
        assert spoiled.any(), name
        assert BY_NAME[name].mark in KINDS
        assert np.mean(marks[spoiled] > 0) > 0.8, name


def test_errors_leave_other_channels_and_the_noise_alone():
    plain = kz.measure(CLEAN, noise=0.1, seed=5)
    same = kz.measure(CLEAN, noise=0.1, seed=5, gain=1.0, offset=0.0, drift=0.0, delay=0.0)
    assert np.array_equal(plain.values(), same.values())
    off = kz.measure(CLEAN, noise=0.1, seed=5, offset={"x": 2.0})
    assert np.allclose(off["x"] - plain["x"], 2.0)
    assert np.array_equal(off["x'"], plain["x'"])


def test_what_methods_can_do_follows_from_apply():
    """Additive errors come last: they are subtracted from the samples before the others are undone."""
    assert [e.name for e in FITTED if e.delays] == ["delay"]
    assert [e.name for e in FITTED if e.timed] == ["drift"]
    assert [e.name for e in FITTED if e.additive] == ["offset", "drift"]
    assert [e.additive for e in FITTED] == sorted(e.additive for e in FITTED)
    assert kz.OrbitFit.accepts.unknown == ("delay", "gain", "offset")
    assert kz.HarmonicFit.accepts.known == ("gain", "offset", "drift")
    for error in TESTED:
        assert error.small > 0
        assert error.found("x", 0.1, 0.01)
        assert error.assumed("x", 0.1)


ENTRY = """
BEND = SensorError(
    "bend",
    unit="1/channel",
    apply=lambda h, value, t, shifted: h + value * h**2,
    column=lambda h, rate, t: h**2,
    small=0.01,
    found=lambda channel, size, error: f'a bend of {size:.2g} (± {error:.1g}) in "{channel}"',
    assumed=lambda channel, size: f'a bend of {size:.2g} in "{channel}"',
)
BAND = SensorError("band", unit="channel", damage=lambda samples, value, random: samples * (abs(samples) > value))
"""
TABLES = {
    "FITTED = (DELAY, GAIN,": "FITTED = (DELAY, GAIN, BEND,",
    "TESTED = (GAIN, OFFSET,": "TESTED = (GAIN, OFFSET, BEND,",
    "PROPOSED = (OFFSET,": "PROPOSED = (OFFSET, BEND,",
    "DAMAGE = (SATURATION,": "DAMAGE = (SATURATION, BAND,",
}
WITH_NEW_ERRORS = """
import sys
from importlib.util import spec_from_file_location
from pathlib import Path
folder = Path(sys.argv[1])

class Copy:
    @staticmethod
    def find_spec(name, path, target=None):
        if name == "kapitza.data.sensor_errors":
            return spec_from_file_location(name, folder / "sensor_errors.py")

sys.meta_path.insert(0, Copy)
import numpy as np
import pytest
import kapitza as kz

equation = "x'' + c*x' + k*x = 3*cos(2*t)"
model = kz.Model.from_equations(equation, parameters={"c": 0.1, "k": 9.0}, period="pi")
clean = kz.simulate(model, x0=[1.0, 0.0], t=np.arange(1200) * 0.02).select(["x"])
x = clean["x"]

# simulated
assert np.allclose(kz.measure(clean, bend=0.1)["x"], x + 0.1 * x**2, rtol=1e-12)
assert np.array_equal(kz.measure(clean, band={"x": 0.2})["x"], np.where(np.abs(x) > 0.2, x, 0.0))
with pytest.raises(kz.KapitzaError, match='Did you mean "bend"'):
    kz.measure(clean, bent=0.1)
seen = kz.measure(clean, noise=1e-3, seed=1, bend=0.1)
# fitted, known and unknown
fit = kz.identify(model, seen, ["c", "k"], kz.ShootingFit(outputs={"x": kz.Sensor("x", "bend")}))
assert abs(fit["x_bend"] - 0.1) < 5 * fit.deviations["x_bend"] < 0.01
stated = kz.Sensor("x", errors={"bend": 0.1})
known = kz.identify(model, seen, ["c", "k"], kz.ShootingFit(outputs={"x": stated}))
assert abs(known["k"] - 9.0) < 5 * known.deviations["k"]
assert known.misfit.fault is None
with pytest.raises(kz.KapitzaError, match="bend of 0.1, which HarmonicFit cannot undo"):
    kz.identify(model, seen, ["c", "k"], kz.HarmonicFit(outputs={"x": stated}))
# tested by both methods and proposed
plain, weak = (kz.identify(model, seen, ["c", "k"], method) for method in (kz.ShootingFit(), kz.HarmonicFit()))
for fault in (plain.misfit.fault, weak.misfit.fault):
    assert (fault.kind, fault.channel) == ("bend", "x"), fault
    assert abs(fault.size - 0.1) < 0.02, fault
assert kz.suggest(plain).table().index[0] == "bend of the sensor x"
# accepted in a study
kz.write(seen, folder / "run.csv")
study = kz.read_study(folder / "run.toml")
assert study.recordings[0].sensors["x"] == kz.Sensor("x", "bend offset", errors={"bend": (0.05, 0.2)})
"""
STUDY = """
[model]
equations = ["x'' + c*x' + k*x = 3*cos(2*t)"]
parameters = {c = 0.1, k = 9.0}
[data]
file = "run.csv"
sensors = {x = {unknown = "bend offset", bend = [0.05, 0.2]}}
[fit]
free = ["c", "k"]
"""


def test_a_new_error_is_one_entry(tmp_path):
    """A process whose vocabulary has two more entries, y = h + s h² and a dead band, and no other change."""
    text = Path(sensor_errors.__file__).read_text(encoding="utf-8").replace("FITTED = (", ENTRY + "FITTED = (")
    for table, longer in TABLES.items():
        assert text.count(table) == 1
        text = text.replace(table, longer)
    (tmp_path / "sensor_errors.py").write_text(text, encoding="utf-8")
    (tmp_path / "run.toml").write_text(STUDY, encoding="utf-8")
    command = [sys.executable, "-W", "error", "-c", WITH_NEW_ERRORS, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
