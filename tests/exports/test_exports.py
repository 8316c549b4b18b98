"""Exported models move as `simulate` says; names and texts of users stay data."""

import ctypes
import importlib.util
import itertools
import json
import shutil
import subprocess
import sys
import zipfile
from xml.etree import ElementTree

import numpy as np
import pytest
from harness.export_models import CASES, belt, delayed, difference, lasting_drive, two_drives

import kapitza as kz
from kapitza.exports import ExportError

COMPILER = shutil.which("cc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler on this computer")
OCTAVE = shutil.which("octave-cli")
needs_octave = pytest.mark.skipif(OCTAVE is None, reason="no Octave on this computer")
SAMPLES = 41
AGREED = 1e-8
"""The largest difference from `simulate` that an export may have."""


def loaded(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compiled(source, *flags):
    program = source.with_suffix(".out")
    call = [COMPILER, "-std=c99", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-ffp-contract=off", *flags]
    done = subprocess.run([*call, "-o", program, source, "-lm"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return program


def rows(program, *arguments):
    printed = subprocess.run([program, *map(repr, arguments)], capture_output=True, text=True, check=True).stdout
    return np.array([[float(v) for v in line.split(",")] for line in printed.splitlines()])


@pytest.mark.parametrize(
    "case", ["smooth", "impacts", "buffers", "stick-slip", "two frictions", "two drives", "lasting drive"]
)
def test_python_moves_as_simulate(case, tmp_path):
    make, span = CASES[case]
    model, times = make(), np.linspace(0.0, span, SAMPLES)
    kz.export(model, tmp_path / "rig.py")
    states = loaded(tmp_path / "rig.py").simulate(times, x0=model.state())
    assert difference(model, times, states) < AGREED


@needs_compiler
@pytest.mark.parametrize("case", CASES)
def test_c_moves_as_simulate_and_compiles_without_a_warning(case, tmp_path):
    make, span = CASES[case]
    model = make()
    kz.export(model, tmp_path / "rig.c")
    found = rows(compiled(tmp_path / "rig.c", "-DRIG_MAIN"), 0.0, span, SAMPLES)
    n = len(model.states)
    assert difference(model, found[:, 0], found[:, 1 : 1 + n]) < AGREED


@needs_compiler
@pytest.mark.parametrize("version", ["2.0", "3.0"])
def test_unit_steps_as_simulate(version, tmp_path):
    """Co-simulation by the functions of FMI, called as a master does."""
    model = belt()
    kz.export(model, tmp_path / "rig.fmu", fmi=version)
    first = (tmp_path / "rig.fmu").read_bytes()
    kz.export(belt(), tmp_path / "rig.fmu", fmi=version)
    assert (tmp_path / "rig.fmu").read_bytes() == first
    with zipfile.ZipFile(tmp_path / "rig.fmu") as unit:
        unit.extractall(tmp_path)
    described = ElementTree.parse(tmp_path / "modelDescription.xml").getroot()
    token = described.get("guid" if version == "2.0" else "instantiationToken").encode()
    code = ctypes.CDLL(str(next((tmp_path / "binaries").rglob("rig.*"))))
    make = code.fmi2Instantiate if version == "2.0" else code.fmi3InstantiateModelExchange
    make.restype = ctypes.c_void_p
    if version == "2.0":
        wrong = make(b"rig", 1, b"other", b"", None, 0, 0)
        unit = ctypes.c_void_p(make(b"rig", 1, token, b"", None, 0, 0))
        code.fmi2ExitInitializationMode(unit)
    else:
        wrong = make(b"rig", b"other", b"", False, False, None, None)
        unit = ctypes.c_void_p(make(b"rig", token, b"", False, False, None, None))
        code.fmi3ExitInitializationMode(unit)
    assert wrong is None
    times, states = np.linspace(0.0, 30.0, 61), [model.state()]
    values, references = (ctypes.c_double * 2)(), (ctypes.c_uint32 * 2)(1, 2)
    real, flags = ctypes.c_double, [ctypes.byref(ctypes.c_bool()) for _ in range(3)]
    for a, b in itertools.pairwise(times):
        if version == "2.0":
            assert code.fmi2DoStep(unit, real(a), real(b - a), 1) == 0
            assert code.fmi2GetReal(unit, references, ctypes.c_size_t(2), values) == 0
        else:
            assert code.fmi3DoStep(unit, real(a), real(b - a), True, *flags, ctypes.byref(real())) == 0
            assert code.fmi3GetFloat64(unit, references, ctypes.c_size_t(2), values, ctypes.c_size_t(2)) == 0
        states.append(list(values))
    assert difference(model, times, np.array(states)) < AGREED


def test_outputs_follow_the_motion_also_where_it_sticks(tmp_path):
    """On the belt x'' + x is -d x' ± mu while it slips and x while it sticks (x'' = 0)."""
    kz.export(belt(), tmp_path / "rig.py")
    rig = loaded(tmp_path / "rig.py")
    times = np.linspace(0.0, 30.0, 301)
    states = rig.simulate(times)
    force = rig.measured(times, states)[:, 0]
    x, v = states.T
    sticks = np.abs(v - 0.3) < 1e-10
    assert 10 < sticks.sum() < 290
    assert np.allclose(force[sticks], x[sticks], atol=1e-9)
    assert np.allclose(force[~sticks], (-0.05 * v - 0.4 * np.sign(v - 0.3))[~sticks], atol=1e-9)


def test_drives_of_several_periods_and_degrees(tmp_path):
    model = two_drives()
    kz.export(model, tmp_path / "rig.py")
    rig = loaded(tmp_path / "rig.py")
    for t in np.random.default_rng(3).uniform(0.0, 5.0, 40):
        values, rates = rig.drives(t, t)
        assert values == pytest.approx([float(s(t)) for s in model.signals], abs=1e-12)
        assert rates == pytest.approx([float(s(t, derivative=1)) for s in model.signals], abs=1e-10)


ENDS = "the drive a was measured from 0 to 3 s and does not repeat: give your own beyond"


@pytest.mark.parametrize("degree", [0, 1, 3])
def test_python_follows_a_drive_that_does_not_repeat_from_the_first_step_on(degree, tmp_path):
    """Five samples in each of the first intervals: a spline closed to a period differs there most."""
    model = lasting_drive(degree)
    kz.export(model, tmp_path / "rig.py")
    rig = loaded(tmp_path / "rig.py")
    times = np.arange(501) * 0.001
    assert difference(model, times, rig.simulate(times)) < AGREED
    drive = np.array([rig.drives(t, t)[0][0] for t in times])
    # Knots of the drive are jumps of degree 0: times there are compared off the knots.
    off = np.abs(times / 0.005 - np.round(times / 0.005)) > 1e-6
    assert np.abs(drive - model.signals[0](times))[off].max() < 1e-12 * np.abs(drive).max()


def test_python_refuses_times_beyond_a_drive_that_does_not_repeat(tmp_path):
    kz.export(lasting_drive(), tmp_path / "rig.py")
    rig = loaded(tmp_path / "rig.py")
    assert rig.simulate([0.0, 3.0]).shape == (2, 2)
    with pytest.raises(ValueError, match=f"t = 3.01 s: {ENDS}"):
        rig.simulate([0.0, 3.01])
    with pytest.raises(ValueError, match=f"t = -0.01 s: {ENDS}"):
        rig.simulate([-0.01, 1.0])
    with pytest.raises(ValueError, match=ENDS):
        rig.drives(3.5, 3.5)


@needs_compiler
def test_c_follows_a_drive_that_does_not_repeat_and_stops_at_its_end(tmp_path):
    model = lasting_drive()
    kz.export(model, tmp_path / "rig.c")
    program = compiled(tmp_path / "rig.c", "-DRIG_MAIN")
    found = rows(program, 0.0, 0.5, 501)
    assert difference(model, found[:, 0], found[:, 1:3]) < AGREED
    assert rows(program)[-1, 0] == 3.0
    stopped = subprocess.run([program, "0", "3.2", "9"], capture_output=True, text=True, check=False)
    assert stopped.returncode == 4
    assert ENDS in stopped.stderr
    assert float(stopped.stdout.splitlines()[-1].split(",")[0]) <= 3.0
    begun = subprocess.run([program, "-1", "1", "9"], capture_output=True, text=True, check=False)
    assert begun.returncode == 4
    assert not begun.stdout


@needs_compiler
def test_rates_in_c_are_nan_where_a_drive_is_not_known(tmp_path):
    kz.export(lasting_drive(), tmp_path / "rig.c")
    (tmp_path / "user.c").write_text(
        '#include "rig.c"\n#include <stdio.h>\nint main(void) { rig_motion q; double d[RIG_STATES]; '
        "rig_init(&q, 0.0, NULL, NULL); for (int i = 0; i < 2; i++) { rig_field(&q, 4.0 * i, q.x, d); "
        'printf("%g\\n", d[1]); } return 0; }\n'
    )
    inside, beyond = rows(compiled(tmp_path / "user.c")).ravel()
    assert np.isfinite(inside)
    assert np.isnan(beyond)


@needs_compiler
def test_a_unit_stops_where_its_drive_ends(tmp_path):
    kz.export(lasting_drive(), tmp_path / "rig.fmu")
    with zipfile.ZipFile(tmp_path / "rig.fmu") as unit:
        unit.extractall(tmp_path)
    described = ElementTree.parse(tmp_path / "modelDescription.xml").getroot()
    assert float(described.find("DefaultExperiment").get("stopTime")) == 3.0
    code = ctypes.CDLL(str(next((tmp_path / "binaries").rglob("rig.*"))))
    code.fmi2Instantiate.restype = ctypes.c_void_p
    unit = ctypes.c_void_p(code.fmi2Instantiate(b"rig", 1, described.get("guid").encode(), b"", None, 0, 0))
    assert code.fmi2ExitInitializationMode(unit) == 0
    real, rate = ctypes.c_double, (ctypes.c_double * 2)()
    assert code.fmi2DoStep(unit, real(0.0), real(3.0), 1) == 0
    assert code.fmi2DoStep(unit, real(3.0), real(0.01), 1) == 3
    # Model exchange: a completed step beyond the end is refused, and so are rates as variables.
    flags, reference = [ctypes.byref(ctypes.c_int()) for _ in range(2)], (ctypes.c_uint32 * 1)(4)
    for instant, status in ((3.0, 0), (3.01, 3)):
        code.fmi2SetTime(unit, real(instant))
        assert code.fmi2CompletedIntegratorStep(unit, 1, *flags) == status
        assert code.fmi2GetReal(unit, reference, ctypes.c_size_t(1), rate) == status


@needs_octave
def test_matlab_follows_the_drive_also_under_a_solver_of_the_user(tmp_path):
    """Rates of the handles go on beyond the knot after the start, and `rig` refuses times beyond the drive."""
    kz.export(lasting_drive(), tmp_path / "rig.m")
    (tmp_path / "run.m").write_text(
        "warning('off', 'all'); model = rig(); q = model.begin(0, model.start);\n"
        "[T, Y] = ode45(@(t, x) model.rates(q, t, x), [0 0.5], model.start, odeset('RelTol', 1e-9, 'AbsTol', 1e-11));\n"
        "X = rig([0 0.5]); printf('%.17g ', X(2, :), Y(end, :)); disp('');\n"
        "try, rig([0 3.01]); catch e, disp(e.message); end\n"
    )
    # Octave may end with an error of its own exit.
    call = [OCTAVE, "--norc", "run.m"]
    printed = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    numbers, _, refusal = printed.partition("\n")
    own, user = np.array(numbers.split(), float).reshape(2, 2)
    assert difference(lasting_drive(), np.array([0.0, 0.5]), np.array([lasting_drive().state(), own])) < AGREED
    assert np.abs(user - own).max() < 1e-6
    assert f"t = 3.01 s: {ENDS}" in refusal


@pytest.mark.parametrize(
    ("suffix", "lines"),
    [
        (".m", ["kept.reach = [0.0, 3.0];", f"kept.limit = '{ENDS} (kapitza.with_drives, then export)';"]),
        (".jl", ["const REACH = (0.0, 3.0)", f'const LIMIT = "{ENDS} (kapitza.with_drives, then export)"']),
        (".mo", ["assert(time <= 3.000000003, ", "annotation(experiment(StartTime = 0.0, StopTime = 3.0));"]),
    ],
)
def test_other_languages_refuse_times_beyond_the_drive(suffix, lines, tmp_path):
    kz.export(lasting_drive(), tmp_path / f"rig{suffix}")
    text = (tmp_path / f"rig{suffix}").read_text()
    for line in lines:
        assert line in text
    first = text.splitlines()[1 if suffix == ".m" else 0]
    assert "The drive a was measured from 0 to 3 s and does not repeat." in first
    assert ".." not in first


def test_a_drive_may_begin_before_or_after_zero(tmp_path):
    for first in (-1.0, 12.0):
        model = lasting_drive()
        own = model.signals[0]
        moved = kz.Signal("a", own.times + first, own.values, degree=3)
        model = kz.with_drives(model, {"a": moved})
        kz.export(model, tmp_path / "rig.py")
        times = np.linspace(first, first + 3.0, 31)
        assert difference(model, times, loaded(tmp_path / "rig.py").simulate(times)) < AGREED


def test_drives_with_and_without_a_period_are_refused(tmp_path):
    t = np.arange(11) * 0.1
    model = kz.Model.from_equations(
        "x'' + x = u + w", signals=[kz.Signal("u", t, np.sin(t)), kz.Signal("w", t[:-1], np.cos(t[:-1]), period=1.0)]
    )
    with pytest.raises(ExportError, match="with and without a period"):
        kz.export(model, tmp_path / "rig.py")


def test_the_file_runs_by_itself_over_the_drive(tmp_path):
    """The last lines print one length of the drive, time by time."""
    kz.export(lasting_drive(), tmp_path / "rig.py")
    printed = subprocess.run(
        [sys.executable, str(tmp_path / "rig.py")], capture_output=True, text=True, check=True, timeout=120
    ).stdout.splitlines()
    assert len(printed) == 11
    assert printed[0] == "t = 0 s: x = 0.3, x' = 0"
    assert printed[-1].startswith("t = 3 s: x = ")


@pytest.mark.parametrize("suffix", [".m", ".c", ".mo", ".jl", ".py", ".fmu"])
def test_delays_and_maps_are_refused_by_name(suffix, tmp_path):
    with pytest.raises(ExportError, match=r'"delayed" has delays \(x\(t - tau\)\)'):
        kz.export(delayed(), tmp_path / f"rig{suffix}")
    with pytest.raises(ExportError, match='"trace_map" is a map'):
        kz.export(kz.library.trace_map(), tmp_path / f"rig{suffix}")
    assert not list(tmp_path.iterdir())


def test_impacts_that_die_out_are_refused_while_running(tmp_path):
    model = kz.Model.from_equations(
        "y'' + 9.81 = 0",
        impacts=[{"name": "floor", "surface": "y", "reset": {"y'": "-0.5*y'"}}],
        start={"y": 1.0, "y'": 0.0},
    )
    kz.export(model, tmp_path / "rig.mo")
    assert (
        'assert(gap_1 > -0.0001 * (abs(y) + abs(y_dot) + 1e-12), "impacts die out' in (tmp_path / "rig.mo").read_text()
    )
    kz.export(model, tmp_path / "rig.py")
    with pytest.raises(ArithmeticError, match=r"Impacts at floor die out at t = 1\.35"):
        loaded(tmp_path / "rig.py").simulate(np.linspace(0.0, 2.0, 11))


HOSTILE = 'x */ end; system("rm") \n" \\ $(ls) % {{ #{ ]]> <a> \u2028 é'


@needs_compiler
def test_texts_of_users_end_no_comment_and_no_string(tmp_path):
    model = kz.Model.from_equations(
        "case'' + end*case' + case = 0",
        parameters=[kz.Parameter("end", 0.1, unit="1/s", description=HOSTILE)],
        start={"case": 1.0, "case'": 0.0},
        outputs={"default": "case*end"},
        name=HOSTILE,
        description=HOSTILE,
    )
    for suffix in (".m", ".c", ".mo", ".jl", ".py"):
        kz.export(model, tmp_path / f"rig{suffix}")
        text = (tmp_path / f"rig{suffix}").read_text(encoding="utf-8")
        assert text.isascii()
        # What users wrote stands in the same lines as without it: none begins a line or a statement of its own.
        plain = kz.Model.from_equations(
            model.equations, parameters={"end": 0.1}, start=model.start, outputs=model.outputs, name="plain"
        )
        kz.export(plain, tmp_path / f"plain{suffix}")
        other = (tmp_path / f"plain{suffix}").read_text(encoding="utf-8")
        assert len(text.splitlines()) == len(other.splitlines())
    found = rows(compiled(tmp_path / "rig.c", "-DRIG_MAIN"), 0.0, 1.0, 3)
    states = loaded(tmp_path / "rig.py").simulate([0.0, 0.5, 1.0])
    assert np.allclose(found[:, 1:3], states, atol=1e-9)
    kz.export(model, tmp_path / "rig.fmu")
    with zipfile.ZipFile(tmp_path / "rig.fmu") as unit:
        described = ElementTree.fromstring(unit.read("modelDescription.xml"))
    assert {"case_", "end_", "default_"} <= {v.get("name") for v in described.iter("ScalarVariable")}


def test_a_fit_comes_with_its_covariance(tmp_path):
    model = kz.Model.from_equations(
        "x'' + c*x' + k*x = 0", parameters={"c": 0.1, "k": 2.0}, start={"x": 1.0, "x'": 0.0}, name="spring"
    )
    record = kz.simulate(model, t=np.arange(400) * 0.05, noise=0.01, seed=2)
    fit = kz.identify(model.with_values(k=2.2), record, free=["k"], method=kz.ShootingFit())
    written = kz.export(fit, tmp_path / "rig.py")
    assert [p.name for p in written.beside] == ["rig.parameters.json", "rig.parameters.csv"]
    content = json.loads(written.beside[0].read_text(encoding="utf-8"))
    assert content["fitted"] == ["k"]
    assert content["covariance"] == [[pytest.approx(fit.covariance[0, 0], rel=1e-15)]]
    by_name = {p["name"]: p for p in content["parameters"]}
    assert by_name["k"]["value"] == fit.values["k"]
    assert by_name["c"] == {"name": "c", "value": 0.1, "unit": "", "fitted": False, "standard_error": None}
    assert [0.1, fit.values["k"]] == loaded(tmp_path / "rig.py").VALUES
    assert "covariance with k" in written.beside[1].read_text(encoding="utf-8").splitlines()[0]


def decaying(sensor, noise=1e-3):
    """A pendulum released at 1 rad from t = 2 s on, seen by a sensor of the angle and one of the acceleration."""
    model = kz.Model.from_equations(
        "q'' + d*q' + w2*sin(q) = 0", parameters={"d": 0.1, "w2": 9.0}, start={"q": 1.0, "q'": 0.0}, name="decay"
    )
    time = np.arange(600) * 0.02
    states = kz.simulate(model, t=time).values()
    random = np.random.default_rng(8)
    read = 2.0 * states[:, 0] + 0.1 + noise * random.normal(size=600)
    acc = -0.1 * states[:, 1] - 9.0 * np.sin(states[:, 0]) + noise * random.normal(size=600)
    record = kz.Record.from_arrays(2.0 + time, {"q": read, "acc": acc}, units={"q": "V", "acc": "m/s^2"})
    method = kz.ShootingFit(outputs={"q": sensor, "acc": "q''"})
    return kz.identify(model.with_values(d=0.12, w2=9.1), record, free=["d", "w2"], method=method)


def test_a_fit_exports_its_start_and_what_its_sensors_read(tmp_path):
    fit = decaying(kz.Sensor("q", "offset", gain=2.0))
    kz.export(fit, tmp_path / "rig.py")
    rig = loaded(tmp_path / "rig.py")
    assert rig.OUTPUTS == ("q_sensor", "acc")
    assert "Nothing in this file depends on" not in rig.__doc__
    times = fit.motion.sample_times
    # The start belongs to the first sample.
    assert rig.SPAN[0] == times[0]
    assert fit.motion.states[0].tolist() == rig.START
    states = rig.simulate(times)
    read = rig.measured(times, states)
    predicted = dict(zip(fit.residuals, fit.motion.predicted.T, strict=True))
    # One node lies at each few samples; the motion goes through them to the tolerance of the fit.
    assert np.abs(read[:, 0] - predicted["q"]).max() < 1e-5
    assert np.abs(read[:, 1] - predicted["acc"]).max() < 1e-4
    assert np.allclose(read[:, 0], 2.0 * states[:, 0] + fit.values["q_offset"], atol=1e-14)


def driven(folder):
    """A forced oscillator recorded from t = 3 s on; its export in Python, C and MATLAB."""
    model = kz.Model.from_equations(
        "x'' + c*x' + k*x = cos(2*t)", parameters={"c": 0.2, "k": 9.0}, start={"x": 1.0, "x'": 0.0},
        period="pi", name="shaken",
    )  # fmt: skip
    time = 3.0 + np.arange(300) * 0.02
    record = kz.measure(kz.simulate(model, t=time), noise=1e-3, seed=3)
    fit = kz.identify(model.with_values(k=8.8), record, free=["c", "k"], method=kz.ShootingFit())
    for suffix in ("py", "c", "m"):
        kz.export(fit, folder / f"rig.{suffix}")
    return fit, time


def test_a_fitted_start_under_a_drive_is_refused_at_other_times(tmp_path):
    """From t = 0 the drive would have another phase at that state: another motion, without a word."""
    fit, time = driven(tmp_path)
    rig = loaded(tmp_path / "rig.py")
    assert np.abs(rig.simulate(time)[:, 0] - fit.motion.predicted[:, 0]).max() < 1e-6
    with pytest.raises(ValueError, match="belongs to t = 3 s"):
        rig.simulate(time - 3.0)
    assert rig.simulate(time - 3.0, x0=[0.0, 0.0]).shape == (300, 2)
    text = (tmp_path / "rig.m").read_text()
    assert "kept.start_at = 3.0;" in text
    assert "c.other_start" in text
    # Without a drive a motion may begin at any time.
    free = decaying("q")
    kz.export(free, tmp_path / "free.py")
    alone = loaded(tmp_path / "free.py")
    shifted = alone.simulate(free.motion.sample_times - 1.0)
    np.testing.assert_allclose(shifted, alone.simulate(free.motion.sample_times), atol=1e-9)


@needs_compiler
def test_a_fitted_start_under_a_drive_is_refused_at_other_times_in_c(tmp_path):
    fit, time = driven(tmp_path)
    program = compiled(tmp_path / "rig.c", "-DRIG_MAIN")
    made = rows(program)
    assert made[0][:2] == pytest.approx([3.0, fit.motion.states[0, 0]])
    refused = subprocess.run([program, "0", "6"], capture_output=True, text=True)
    assert refused.returncode != 0
    assert "belongs to t = 3 s" in refused.stderr + refused.stdout
    assert time[0] == 3.0


@needs_compiler
def test_readings_of_sensors_are_outputs_in_c_and_of_units(tmp_path):
    fit = decaying(kz.Sensor("q", "offset", gain=2.0))
    kz.export(fit, tmp_path / "rig.c")
    row = rows(compiled(tmp_path / "rig.c", "-DRIG_MAIN"))[0]
    start = fit.motion.states[0]
    acceleration = -fit.values["d"] * start[1] - fit.values["w2"] * np.sin(start[0])
    expected = [*start, 2.0 * start[0] + fit.values["q_offset"], acceleration]
    assert row[1:] == pytest.approx(expected, rel=1e-12)
    assert "/* q_sensor [V] */" in (tmp_path / "rig.h").read_text()
    kz.export(fit, tmp_path / "rig.fmu")
    with zipfile.ZipFile(tmp_path / "rig.fmu") as unit:
        described = ElementTree.fromstring(unit.read("modelDescription.xml"))
    texts = {v.get("name"): v.get("description") for v in described.iter("ScalarVariable")}
    assert texts["q_sensor"] == "q_sensor what the sensor of q reads [V]"


def test_parameters_that_nothing_uses_are_named(tmp_path):
    model = kz.Model.from_equations("x'' + k*x = 0", parameters={"k": 1.0, "spare": 2.0}, start={"x": 1.0})
    kz.export(model, tmp_path / "rig.py")
    assert "Nothing in this file depends on: spare." in loaded(tmp_path / "rig.py").__doc__


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("rig.txt", {}, r'"rig.txt" has no known suffix; choose one of \.m'),
        ("my rig.m", {}, 'not an identifier; try "my_rig.m"'),
        ("rig.c", {"kind": "casadi"}, 'A .c file is of kind c, not "casadi"'),
        ("rig.fmu", {"fmi": "1.0"}, 'FMI "1.0" is not known'),
    ],
)
def test_wrong_requests_are_refused(name, settings, message, tmp_path):
    with pytest.raises(ExportError, match=message):
        kz.export(kz.library.duffing(), tmp_path / name, **settings)
    assert not list(tmp_path.iterdir())
