"""Wrong units and wrong columns: each is refused, or named before the fit; none passes in silence."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.library import SYSTEMS
from kapitza.model import dimension_problems
from kapitza.study import StudyError, read_study
from kapitza.study.phase import best_shift

DRIVEN = "phi'' + c*phi' + w2*sin(phi) = F*cos(omega*t)"
VALUES = {"c": 0.2, "w2": 4.0, "F": 0.5, "omega": 1.7}
STUDY = """\
[model]
equations = ["phi'' + c*phi' + w2*sin(phi) = F*cos(omega*t)"]
coordinates.phi = {angle = true, unit = "rad"}
parameters = {c = 0.2, w2 = 4.0, F = 0.5, omega = OMEGA}
excitation = {period = "2*pi/omega"}

[data]
file = "run.csv"
EXTRA

[fit]
free = ["c", "w2"]
"""


@pytest.fixture(scope="module")
def swing():
    """Time, angle and rate of a driven pendulum, with noise."""
    model = kz.Model.from_equations(DRIVEN, angles=["phi"], parameters=VALUES, period="2*pi/omega")
    clean = kz.simulate(model, [0.5, 0.0], periods=40, samples_per_period=40)
    random = np.random.default_rng(1)
    noisy = {n: clean[n] + 0.003 * random.standard_normal(clean.size) for n in ("phi", "phi'")}
    return clean.time, noisy["phi"], noisy["phi'"]


def said_of(folder, header, columns, extra="", omega=1.7, text=STUDY):
    """What a study says of a recording: the problems that refuse it, or its warnings."""
    table = np.column_stack(columns)
    np.savetxt(folder / "run.csv", table, delimiter=",", header=header, comments="", fmt="%.9g")
    path = folder / "study.toml"
    path.write_text(text.replace("EXTRA", extra).replace("OMEGA", str(omega)), encoding="utf-8")
    try:
        return "; ".join(read_study(path).warnings()), False
    except StudyError as error:
        return str(error), True


GOOD = "t [s],phi [rad],phi' [rad/s]"


def test_the_right_recording_is_not_talked_about(tmp_path, swing):
    t, phi, rate = swing
    assert said_of(tmp_path, GOOD, (t, phi, rate)) == ("", False)
    assert said_of(tmp_path, "t,phi", (t, phi)) == ("", False)
    degrees = "t [ms],phi (deg),phi' [deg/s]"
    assert said_of(tmp_path, degrees, (1e3 * t, np.degrees(phi), np.degrees(rate))) == ("", False)


REFUSED = {
    "length for an angle": ("t [s],phi [mm],phi' [rad/s]", "", 'cannot be converted to "rad"'),
    "voltage for an angle": ("t [s],phi [V],phi' [rad/s]", "", 'cannot be converted to "rad"'),
    "mass for the time": ("t [kg],phi [rad],phi' [rad/s]", "", 'cannot be converted to "s"'),
    "unknown unit": ("t [s],phi [LSB],phi' [rad/s]", "", "is not known"),
    "two meanings": ("t [s],phi [g],phi' [rad/s]", "", "two meanings"),
    "frequency for a rate": ("t [s],phi [rad],phi' [Hz]", "", "differ by 2π"),
    "acceleration for a rate": ("t [s],phi [rad],phi' [rad/s^2]", "", 'cannot be converted to "rad/s"'),
    "rate without a unit": ("t [s],phi [rad],phi'", "", "does not say in which unit"),
    "exchanged columns": (GOOD, 'channels = {phi = "phi\'", "phi\'" = "phi"}', "cannot be converted"),
    "no such column": (GOOD, 'channels = ["phi1"]', 'Did you mean "phi"'),
    "unit of no column": (GOOD, 'units = {theta = "deg"}', "theta"),
    "unit against the header's kind": (GOOD, 'units = {phi = "N"}', "cannot be converted"),
    "name that ends like a unit": ("t [s],phi_deg,phi' [rad/s]", 'channels = {phi_deg = "phi"}', "ends like the unit"),
    "time that falls": ("t [s],phi [rad],phi' [rad/s]", "", "Time runs backwards"),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_wrong_units_and_columns_are_refused(tmp_path, swing, case):
    t, phi, rate = swing
    header, extra, message = REFUSED[case]
    said, refused = said_of(tmp_path, header, (-t if case == "time that falls" else t, phi, rate), extra)
    assert refused
    assert message in said


def noisy_decay(t):
    """A swing of 68 degrees that dies out into noise, which turns at every other sample of its extremes."""
    noise = 0.3 * np.random.default_rng(3).standard_normal(t.size)
    return 68 * np.exp(-3 * t / t[-1]) * np.cos(40 * 2 * np.pi * t / t[-1]) + noise


NAMED = {
    "degrees without a unit": ("t,phi", lambda t, p, v: (t, np.degrees(p)), "looks like degrees"),
    "degrees that claim to be rad": ("t [s],phi [rad]", lambda t, p, v: (t, np.degrees(p)), "looks like degrees"),
    "wrapped degrees": ("t,phi", lambda t, p, v: (t, (np.degrees(40 * p) + 180) % 360 - 180), "looks like degrees"),
    "degrees of a noisy decay": ("t,phi", lambda t, p, v: (t, noisy_decay(t)), "looks like degrees"),
    "milliseconds without a unit": ("t,phi", lambda t, p, v: (1e3 * t, p), 'units = {t = "ms"}'),
    "seconds that claim to be ms": ("t [ms],phi [rad]", lambda t, p, v: (t, p), "would fit in s"),
    "samples for the time": ("t,phi", lambda t, p, v: (np.arange(t.size), p), "look like another unit than s"),
    "rate in deg/s that claims rad/s": (GOOD, lambda t, p, v: (t, p, np.degrees(v)), "factor of deg"),
    "rate in rpm that claims rad/s": (GOOD, lambda t, p, v: (t, p, 60 / 2 / np.pi * v), "factor of rpm"),
    "another column for the rate": (GOOD, lambda t, p, v: (t, p, np.gradient(v, t)), "not the rate of phi"),
    "clock that starts elsewhere": ("t,phi", lambda t, p, v: (t + 1.0, p), "does not fit the excitation"),
}  # fmt: skip


@pytest.mark.parametrize("case", list(NAMED))
def test_numbers_that_look_like_another_unit_are_named(tmp_path, swing, case):
    header, made, message = NAMED[case]
    said, refused = said_of(tmp_path, header, made(*swing))
    assert not refused
    assert message in said


def test_a_drive_that_is_off_is_named(tmp_path, swing):
    said, _ = said_of(tmp_path, "t,phi", swing[:2], omega=1.717)
    assert "driven at 0.273" in said


def test_times_in_ms_are_named_against_a_model_without_drive(tmp_path):
    model = kz.Model.from_equations("x'' + c*x' + k*x = 0", parameters={"c": 0.2, "k": 30.0})
    clean = kz.simulate(model, [1.0, 0.0], t=np.arange(800) * 0.01)
    text = """
[model]
equations = ["x'' + c*x' + k*x = 0"]
coordinates.x = {unit = "m"}
parameters = {c = {value = 0.1, unit = "1/s"}, k = {value = 20.0, unit = "UNIT"}}
[data]
file = "run.csv"
EXTRA
[fit]
free = ["c", "k"]
"""
    right = text.replace("UNIT", "1/s^2")
    assert said_of(tmp_path, "t,x [m]", (clean.time, clean["x"]), text=right) == ("", False)
    assert "in ms" in said_of(tmp_path, "t,x [m]", (1e3 * clean.time, clean["x"]), text=right)[0]
    said, refused = said_of(tmp_path, "t,x", (clean.time, 1e3 * clean["x"]), text=right)
    assert refused
    assert "counts it in m" in said
    wrong = said_of(tmp_path, "t,x [m]", (clean.time, clean["x"]), text=text.replace("UNIT", "1/s"))[0]
    assert "Equation 1: " in wrong
    assert "cannot be added" in wrong


def test_dimensions_are_checked_where_every_symbol_has_a_unit():
    units = {"m": "kg", "c": "N*s/m", "k": "N/m", "d": "m", "F": "N", "w": "rad/s"}
    equation = "m*x'' + c*x' + k*Max(x - d, 0) + F*sign(x') + 0*x = F*sin(w*t)*exp(-abs(x)/d)"

    def model(**changed):
        parameters = [kz.Parameter(n, 1.0, unit=u) for n, u in {**units, **changed}.items()]
        return kz.Model.from_equations(
            equation, coordinates=[kz.Coordinate("x", unit="m")], parameters=parameters, period="2*pi/w"
        )

    assert dimension_problems(model()) == ()
    assert dimension_problems(model(k="")) == ()  # one symbol without a unit: not judged
    for name, unit, said in (("c", "N*m/s", "c*x'"), ("d", "s", "d"), ("F", "W", "F"), ("w", "m", "t*w")):
        found = dimension_problems(model(**{name: unit}))
        assert found, name
        assert said in " ".join(found)
    assert any("excitation period" in text for text in dimension_problems(model(w="m")))
    # the right kind in another scale: the numbers in the equation do not fit together
    for name, unit, said in (
        ("k", "kN/m", "counts in 1000 N"),
        ("d", "mm", "0.001 m"),
        ("m", "tonne", "1000 N"),
        ("w", "rpm", "rad"),
    ):
        found = " ".join(dimension_problems(model(**{name: unit})))
        assert said in found, (name, found)


def test_units_of_one_system_and_factors_in_the_equation_are_right():
    def problems(equation, unit="m", **units):
        parameters = [kz.Parameter(n, 1.0, unit=u) for n, u in units.items()]
        model = kz.Model.from_equations(equation, coordinates=[kz.Coordinate("x", unit=unit)], parameters=parameters)
        return dimension_problems(model)

    assert problems("m*x'' + k*x = 0", m="tonne", k="kN/m") == ()
    assert problems("m*x'' + k*x = 0", unit="mm", m="tonne", k="N/mm") == ()
    assert problems("m*x'' + 1000*k*x = 0", m="kg", k="kN/m") == ()
    assert "their numbers cannot be added" in problems("m*x'' + k*x = 0", unit="mm", m="kg", k="N/mm")[0]
    assert problems("x'' + w2*sin(x) = 0", unit="rad", w2="1/s^2") == ()
    assert "in rad" in problems("x'' + w2*sin(x) = 0", unit="deg", w2="deg/s^2")[0]
    assert problems("x'' + w2*sin(pi*x/180) = 0", unit="deg", w2="deg/s^2") == ()


def test_the_library_counts_in_one_system():
    assert len(SYSTEMS) > 10
    for system in SYSTEMS:
        assert dimension_problems(system()) == (), system.__name__


def test_the_pendulum_of_the_library_states_its_units():
    # the library states units: a pendulum with friction in another unit is found out
    pendulum = kz.library.parametric_pendulum()
    assert dimension_problems(pendulum) == ()


def test_a_free_clock_is_found(tmp_path, swing):
    t, phi, _ = swing
    np.savetxt(tmp_path / "run.csv", np.column_stack([t + 1.0, phi]), delimiter=",", header="t,phi", comments="")
    text = STUDY.replace("EXTRA", "").replace("OMEGA", "1.7").replace('["c", "w2"]', '["c", "w2", "clock"]')
    (tmp_path / "study.toml").write_text(text + 'method = "shooting"\n', encoding="utf-8")
    study = read_study(tmp_path / "study.toml")
    assert study.warnings() == ()
    best = study.run().best
    # the excitation began 1 s before the first sample says
    assert abs(best.values["clock"] + 1.0) < 4 * best.deviations["clock"]
    assert abs(best.values["w2"] - 4.0) < 4 * best.deviations["w2"]
    assert best.deviations["clock"] < 0.01


def test_the_shift_that_fits_keeps_the_sign_of_the_drive(swing):
    t, phi, _ = swing
    model = kz.Model.from_equations(DRIVEN, angles=["phi"], parameters=VALUES, period="2*pi/omega")
    record = kz.Record.from_arrays(t - 1.5, {"phi": phi}, angles=["phi"])
    shift, better = best_shift(model, record, ("c", "w2", "F"))
    # half a period, 1.85 s, away lies the other solution, with F < 0
    assert shift == pytest.approx(1.5, abs=0.05)
    assert better > 4


def test_gaps_and_jumps_of_the_clock_are_listed_with_their_times(tmp_path, swing):
    t, phi, rate = swing
    keep = np.r_[0:700, 760 : t.size]
    said, refused = said_of(tmp_path, GOOD, (t[keep], phi[keep], rate[keep]))
    assert not refused
    assert f"60 after {t[699]:.6g} s" in said
    assert 'gaps = "split"' in said
    # The line of the drive lies elsewhere across the jump: that is not the drive's fault.
    jumped = np.where(np.arange(t.size) < 1000, t, t + 2.0)
    said, _ = said_of(tmp_path, GOOD, (jumped, phi, rate))
    assert f"after {t[999]:.6g} s), or the clock jumped there" in said
    assert "driven at" not in said


def test_exchanged_columns_of_a_harmonic_motion_are_named(tmp_path):
    """The rate of x' is -ω² x there: a negative factor, which no unit has."""
    t, random = np.arange(1500) * 0.02, np.random.default_rng(2)
    x, v = np.cos(3 * t), -3 * np.sin(3 * t)
    x, v = x + 0.003 * random.standard_normal(t.size), v + 0.01 * random.standard_normal(t.size)
    text = "[model]\nequations = [\"x'' + c*x' + k*x = 0\"]\nparameters = {c = 0.01, k = 9.0}\n"
    text += '[data]\nfile = "run.csv"\n[fit]\nfree = ["c", "k"]\n'
    said, _ = said_of(tmp_path, "t,x,x'", (t, v, x), text=text)
    assert "no unit is negative: the column x is the rate of the column x', so the two are exchanged" in said
