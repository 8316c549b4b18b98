"""Units of columns: times become seconds, channels SI, whatever states them; what is not known is asked for."""

import re

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io

import kapitza as kz
from kapitza.data import Record
from kapitza.errors import DataError

T_MS, PHI_DEG, X_MM = [0.0, 10.0, 20.0], [0.0, 90.0, 180.0], [1.0, 2.0, 4.0]
TEXTS = {
    "square brackets": "t [ms],phi [deg],x [mm]\n0,0,1\n10,90,2\n20,180,4\n",
    "round brackets": "t (ms),phi (°),x (mm)\n0,0,1\n10,90,2\n20,180,4\n",
    "unit row": "t,phi,x\nms,deg,mm\n0,0,1\n10,90,2\n20,180,4\n",
    "unit row in brackets": "t;phi;x\n[ms];[deg];[mm]\n0;0;1\n10;90;2\n20;180;4\n",
    "unit row in comments": "# t phi x\n# ms deg mm\n0 0 1\n10 90 2\n20 180 4\n",
}


def assert_in_si(record: Record) -> None:
    assert np.array_equal(record.time, [0, 0.01, 0.02])
    assert record["phi"] == pytest.approx(np.radians(PHI_DEG), rel=1e-15)
    assert np.array_equal(record["x"], [0.001, 0.002, 0.004])
    assert record.units == {"phi": "rad", "x": "m"}


@pytest.mark.parametrize("layout", TEXTS)
def test_text_states_its_units(layout, tmp_path):
    (tmp_path / "run.csv").write_text(TEXTS[layout], encoding="utf-8")
    assert_in_si(kz.read(tmp_path / "run.csv"))


def test_the_caller_states_them(tmp_path):
    (tmp_path / "run.csv").write_text("t,angle,x\n0,0,1\n10,90,2\n20,180,4\n")
    units = {"t": "ms", "phi": "deg", "x": "mm"}
    assert_in_si(kz.read(tmp_path / "run.csv", channels={"angle": "phi", "x": "x"}, units=units))
    by_column = {"t": "ms", "angle": "deg", "x": "mm"}
    assert_in_si(kz.read(tmp_path / "run.csv", channels={"angle": "phi", "x": "x"}, units=by_column))
    with pytest.raises(DataError, match='"omega" is declared'):
        kz.read(tmp_path / "run.csv", units={"omega": "deg"})
    with pytest.raises(DataError, match=r"units\['x'\] is 3; give text"):
        kz.read(tmp_path / "run.csv", units={"x": 3})


def test_attributes_state_them(tmp_path):
    for name, key in (("a.h5", "units"), ("b.h5", "unit"), ("c.nc", "units")):
        with h5py.File(tmp_path / name, "w") as file:
            for column, values, unit in (("t", T_MS, "ms"), ("phi", PHI_DEG, np.bytes_("deg")), ("x", X_MM, "mm")):
                file[column] = values
                file[column].attrs[key] = unit
        assert_in_si(kz.read(tmp_path / name))
    columns = {"t": (T_MS, "milliseconds since 2020-01-01"), "phi": (PHI_DEG, "degree"), "x": (X_MM, "mm")}
    with scipy.io.netcdf_file(tmp_path / "d.nc", "w") as file:
        file.createDimension("t", 3)
        for column, (values, unit) in columns.items():
            variable = file.createVariable(column, "d", ("t",))
            variable[:] = values
            variable.units = unit
    assert_in_si(kz.read(tmp_path / "d.nc"))
    fields = [pa.field(n, pa.float64(), metadata={"unit": u}) for n, u in (("t", "ms"), ("phi", "deg"), ("x", "mm"))]
    table = pa.table([pa.array(v) for v in (T_MS, PHI_DEG, X_MM)], schema=pa.schema(fields))
    pq.write_table(table, tmp_path / "e.parquet")
    assert_in_si(kz.read(tmp_path / "e.parquet"))


def test_matlab_fields_state_them(tmp_path):
    units = {"t": "ms", "phi": "deg", "x": "mm"}
    arrays = {"t": np.array(T_MS), "phi": np.array(PHI_DEG), "x": np.array(X_MM)}
    scipy.io.savemat(tmp_path / "a.mat", {**arrays, "units": units})
    assert_in_si(kz.read(tmp_path / "a.mat"))
    scipy.io.savemat(tmp_path / "b.mat", {"run": {**arrays, "units": units}})
    assert_in_si(kz.read(tmp_path / "b.mat", channels={"run.phi": "phi", "run.x": "x"}))


def test_timestamps_and_durations_of_parquet(tmp_path):
    start = np.datetime64("2024-03-01T12:00:00", "us")
    ticks = np.arange(3) * np.timedelta64(10, "ms")
    for name, times in (("date", start + ticks), ("duration", ticks.astype("timedelta64[us]"))):
        frame = pd.DataFrame({"time": times, "x": [1.0, 2.0, 3.0]})
        frame.to_parquet(tmp_path / "a.parquet")
        record = kz.read(tmp_path / "a.parquet")
        assert np.allclose(record.time, [0, 0.01, 0.02], atol=1e-12), name
        assert record.dataset.attrs.get("begins", "").startswith("2024-03-01T12") == (name == "date")


def test_dates_and_clocks_of_text(tmp_path):
    for rows in (
        ["2024-03-01 12:00:59.9,1", "2024-03-01 12:01:00.4,2"],
        ["2024-03-01T12:00:59.9Z,1", "2024-03-01T12:01:00.4Z,2"],
        ["0:00:59.9,1", "0:01:00.4,2"],
    ):
        (tmp_path / "a.csv").write_text("\n".join(["time,x", *rows, ""]))
        record = kz.read(tmp_path / "a.csv")
        assert np.diff(record.time) == pytest.approx([0.5], abs=1e-9)
    (tmp_path / "a.csv").write_text("t,when,x\n0,2024-03-01 12:00:00,1\n1,2024-03-01 12:00:01,2\n")
    assert kz.read(tmp_path / "a.csv").channels == ("x",)
    frame = pd.DataFrame({"t": [0.0, 1.0], "when": pd.to_datetime(["2024-03-01", "2024-03-02"]), "x": [1.0, 2.0]})
    frame.to_parquet(tmp_path / "a.parquet")
    assert kz.read(tmp_path / "a.parquet").channels == ("x",)
    with pytest.raises(DataError, match='"when" holds dates'):
        kz.read(tmp_path / "a.parquet", channels=["when"])


REFUSED = {
    "t [parsec],x\n0,1\n1,2\n": r'time column "t" is in "parsec", which cannot be converted to "s"',
    "t [foo],x\n0,1\n1,2\n": 'Column "t" has the unit "foo", which is not known',
    "t,x [LSB]\n0,1\n1,2\n": 'Column "x" has the unit "LSB", which is not known',
    "t,x [g]\n0,1\n1,2\n": 'Column "x" has the unit "g", which has two meanings',
    "t,x [10**10**10]\n0,1\n1,2\n": "which is not known",
    "t,phi_deg\n0,1\n1,2\n": r'ends like the unit "deg".*units=\{"phi_deg": "deg"\}',
    "t,phi_deg,v_mm\n0,1,1\n1,2,2\n": r'likewise v_mm\): say units=\{"phi_deg": "deg", "v_mm": "mm"\}',
    "time_ms,x\n0,1\n1,2\n": "called time",
    "t,time,x\n0,5,1\n1,6,2\n": 'Several columns look like the time, t, time: say which with time="..."',
}


@pytest.mark.parametrize(("text", "message"), REFUSED.items())
def test_what_is_not_known_is_asked_for(text, message, tmp_path):
    (tmp_path / "run.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        kz.read(tmp_path / "run.csv")


def test_answers_to_the_questions(tmp_path):
    path = tmp_path / "run.csv"
    path.write_text("time_ms,phi_deg,x [LSB]\n0,90,1\n1,180,2\n")
    with pytest.raises(DataError, match='ends like the unit "deg"'):
        kz.read(path, time="time_ms", units={"x": "counts"})
    record = kz.read(path, time="time_ms", units={"time_ms": "ms", "phi_deg": "deg", "x": "counts"})
    assert np.array_equal(record.time, [0, 0.001])
    assert record.units == {"phi_deg": "rad", "x": "counts"}
    path.write_text("t,time,x\n0,5,1\n1,6,2\n")
    assert np.array_equal(kz.read(path, time="time").time, [5, 6])
    assert kz.read(path, time="t").channels == ("x",)
    assert kz.read(path, time="t", channels={"time": "clock"}).channels == ("clock",)


@pytest.mark.parametrize(
    ("name", "unit", "factor"),
    [("ms", "ms", 1e-3), ("us", "us", 1e-6), ("µs", "µs", 1e-6), ("min", "min", 60.0), ("time_ms", "ms", 1e-3),
     ("t [ms]", "ms", 1e-3), ("Millis", "ms", 1e-3), ("t", "", 1.0), ("time_s", "", 1.0), ("seconds", "", 1.0)],
)  # fmt: skip
def test_the_time_is_read_in_the_unit_of_its_name(name, unit, factor, tmp_path):
    """A column that is chosen as the time: "ms" in seconds would make a pendulum of 0.6 Hz one of 0.0006 Hz."""
    path = tmp_path / "run.csv"
    path.write_text(f"{name},x\n0,1\n10,2\n20,4\n", encoding="utf-8")
    column = name.partition(" [")[0]
    record = kz.read(path, time=column)
    assert record.time == pytest.approx([0.0, 10 * factor, 20 * factor])
    # The header "t [ms]" states the unit itself: nothing was concluded from the name.
    said = "" if "[" in name or not unit else f"the time {name} is in {unit}, by its name"
    assert record.content.attrs.get("read_as", "") == said
    assert dict(record.content.coords["time"].attrs) == {"column": column, "recorded_unit": unit or "s"}
    # A stated unit comes before that of the name.
    assert kz.read(path, time=column, units={column: "s"}).time == pytest.approx([0.0, 10.0, 20.0])


def test_words_in_round_brackets_belong_to_the_name(tmp_path):
    (tmp_path / "run.csv").write_text("t,x (left),x (right)\n0,1,3\n1,2,4\n")
    assert kz.read(tmp_path / "run.csv").channels == ("x (left)", "x (right)")


def test_an_index_of_pandas_is_no_channel_and_no_segment(tmp_path):
    frame = pd.DataFrame({"t": np.arange(50) / 10, "x": np.arange(50.0)})
    frame.to_csv(tmp_path / "run.csv")
    record = kz.read(tmp_path / "run.csv")
    assert record.channels == ("x",)
    assert len(record.segments()) == 1
    for part in (frame[10:40], frame[::3], pd.concat([frame[:5], frame[20:25]])):
        part.to_csv(tmp_path / "run.csv")
        record = kz.read(tmp_path / "run.csv")
        assert record.channels == ("x",)
        assert len(record.segments()) == 1
        assert record["x"].tolist() == part["x"].tolist()
        assert 'left out: the column "' in repr(record)
    frame[frame.x % 3 > 0].to_parquet(tmp_path / "run.parquet")
    record = kz.read(tmp_path / "run.parquet")
    assert record.channels == ("x",)
    assert 'left out: the column "__index_level_0__"' in repr(record)
    # A record says what it has left out; where channels are named, nothing is.
    assert "left out" not in repr(kz.read(tmp_path / "run.csv", channels=["x"]))
    # A count that falls or stands, as of a sensor with whole numbers, is none of rows.
    (tmp_path / "run.csv").write_text(",t,x\n3,0,1\n3,1,2\n5,2,3\n")
    record = kz.read(tmp_path / "run.csv")
    assert record.channels == ("", "x")
    assert "left out" not in repr(record)
    # Numbers that count nothing, or that do not come first, are a channel without a name.
    (tmp_path / "run.csv").write_text(",t,x\n0.5,0,1\n1.5,1,2\n2.0,2,3\n")
    assert kz.read(tmp_path / "run.csv").channels == ("", "x")
    (tmp_path / "run.csv").write_text("t,,x\n0,5,1\n1,6,2\n2,7,3\n")
    assert kz.read(tmp_path / "run.csv").channels == ("", "x")


def test_angles_are_kept_in_rad_and_noise_follows():
    record = Record.from_arrays(
        [0.0, 1.0], {"phi": [0, 90.0], "x": [1.0, 2.0]}, units={"phi": "deg", "x": "mm"}, angles=["phi"],
        noise={"phi": 1.8, "x": 0.1},
    )  # fmt: skip
    assert record["phi"] == pytest.approx([0, np.pi / 2])
    assert record.noise == pytest.approx({"phi": np.pi / 100, "x": 0.1})
    assert record.units == {"phi": "rad", "x": "mm"}
    si = record.in_si()
    assert si.noise["x"] == pytest.approx(1e-4)
    assert si["x"] == pytest.approx([1e-3, 2e-3])
    assert si.in_units({"x": "mm"})["x"] == pytest.approx([1, 2])
    assert record.with_channel("y", np.array([0.0, 180]), unit="deg", angle=True)["y"][1] == pytest.approx(np.pi)
    with pytest.raises(DataError, match="kept in rad"):
        record.in_units({"phi": "deg"})
    with pytest.raises(DataError, match='"x" is in "mm", which cannot be converted to "rad"'):
        record.in_units({"x": "rad"})
    with pytest.raises(DataError, match="declared an angle"):
        Record.from_arrays([0.0, 1.0], {"phi": [0, 1.0]}, units={"phi": "V"}, angles=["phi"])


BAD_FACTS = [{"noise": {"x": float("nan")}}, {"noise": {"x": float("inf")}}, {"noise": {"x": -1.0}}]
BAD_FACTS += [{"phase": float("nan")}, {"phase": "soon"}, {"period": float("nan")}, {"noise": {"x": "small"}}]


@pytest.mark.parametrize("facts", BAD_FACTS)
def test_noise_phase_and_period_are_finite(facts):
    with pytest.raises(DataError, match=r"noise\['x'\] = |noise of channel|phase of the first|period = nan"):
        Record.from_arrays([0.0, 1.0], {"x": [0.0, 1.0]}, **facts)


@pytest.mark.parametrize("date", ["01.02.2024", "01.02.2024 10:00:0{}", "02/01/2024 10:0{}", '"1/2/24"'])
def test_dates_of_a_country_are_named_not_guessed(tmp_path, date):
    path = tmp_path / "logger.csv"
    path.write_text("t,x\n" + "".join(f"{date.format(i)},{i}\n" for i in range(5)))
    with pytest.raises(kz.KapitzaError, match=r"day or month comes first is not guessed.*ISO 8601"):
        kz.read(path)


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("x / mm", "mm"), ("U/V", "V"), ("x in mm", "mm"), ("x mm", "mm"), ("v, mm/s", "mm/s"), ("x_µm", "µm"),
        ("x {mm}", "mm"),
        ("pos [mm] filtered", "mm"), ("a (m/s^2 rms)", "m/s^2"), ("x (mm, filtered)", "mm"),
    ],
)  # fmt: skip
def test_a_unit_that_is_written_in_another_way_is_asked_for(tmp_path, name, unit):
    path = tmp_path / "run.csv"
    path.write_text(f'time [s],"{name}"\n0,1\n1,2\n2,4\n', encoding="utf-8")
    with pytest.raises(DataError, match=f'unit "{re.escape(unit)}"'):
        kz.read(path)
    assert kz.read(path, units={name: ""}).channels == (name,)


@pytest.mark.parametrize("name", ["N", "x/L", "y/h", "dx/dt", "Channel 1", "deg"])
def test_names_that_only_resemble_units_are_names(tmp_path, name):
    path = tmp_path / "run.csv"
    path.write_text(f'time [s],"{name}"\n0,1\n1,2\n2,4\n', encoding="utf-8")
    assert kz.read(path).channels == (name,)


def test_a_temperature_is_not_the_time(tmp_path):
    path = tmp_path / "run.csv"
    path.write_text("time [s],T [degC]\n0,1\n1,2\n2,4\n", encoding="utf-8")
    assert kz.read(path).values(["T"])[0, 0] == pytest.approx(274.15)


@pytest.mark.parametrize(
    ("name", "unit", "factor"),
    [("Accel X", "g", 9.80665), ("acc_z", "mg", 9.80665e-3), ("mass", "g", 1e-3), ("Force 1", "lb", 4.4482216152605)],
)
def test_the_name_decides_between_two_meanings_and_the_record_says_so(tmp_path, name, unit, factor):
    path = tmp_path / "run.csv"
    path.write_text(f"t [s],{name} [{unit}]\n0,1\n1,2\n")
    record = kz.read(path)
    assert record[name].tolist() == pytest.approx([factor, 2 * factor], rel=1e-12)
    assert f"{name} is in" in record.dataset.attrs["read_as"]


def test_the_caller_decides_before_the_name(tmp_path):
    path = tmp_path / "run.csv"
    path.write_text("t [s],Accel [g]\n0,1\n1,2\n")
    record = kz.read(path, units={"Accel": "gram"})
    assert record["Accel"].tolist() == pytest.approx([1e-3, 2e-3])
    assert "read_as" not in record.dataset.attrs


@pytest.mark.parametrize(("unit", "cure"), [("dB", "logarithms"), ("%", "full value")])
def test_decibels_and_percentages_come_with_the_cure(tmp_path, unit, cure):
    path = tmp_path / "run.csv"
    path.write_text(f"t [s],x [{unit}]\n0,1\n1,2\n")
    with pytest.raises(DataError, match=cure):
        kz.read(path)


@pytest.mark.parametrize(
    ("header", "stated", "unit", "factor"),
    [
        ("Laser [V]", "4 mm/V", "m", 4e-3),
        ("Laser [mV]", "4 mm/V", "m", 4e-6),
        ("Laser", "4 mm/V", "m", 4e-3),
        ("Laser", "0.25 mm", "m", 0.25e-3),
        ("Laser [V]", "0.25 mm", "m", 0.25e-3),
        ("Laser [V]", "-2e-1 deg/V", "rad", -np.pi / 900),
        ("Load [V]", "10 N/V", "N", 10.0),
        ("Load [mV]", "2.5 pC/N", "", None),
        ("Charge [pC]", "2.5 pC/N", "N", 0.4),
        ("Accel [V]", "100 mV/g", "m/s^2", 98.0665),
        ("Accel [V]", "10 mV/(m/s^2)", "m/s^2", 100.0),
        ("Accel [V]", "10 mV/m/s^2", "", None),
        ("Accel [V]", "(5 m/s^2)/V", "", None),
        ("Accel [V]", "5 (m/s^2)/V", "m/s^2", 5.0),
        ("Speed [V]", "20 mm/s", "m/s", 0.02),
        ("Speed [V]", "20 mm/s/V", "m/s", 0.02),
        ("Raw", "0.5 counts/mm", "m", 2e-3),
        ("Raw [V]", "0 mm/V", "", None),
        ("Raw [V]", "1e999 mm/V", "", None),
        ("Raw [V]", "4 foo/V", "", None),
    ],
)
def test_sensitivities_of_sensors(tmp_path, header, stated, unit, factor):
    (tmp_path / "run.csv").write_text(f"t,{header}\n0,1\n0.1,2\n0.2,-4\n")
    name = header.split(" [")[0]
    if factor is None:
        with pytest.raises(DataError, match=name):
            kz.read(tmp_path / "run.csv", units={name: stated})
        return
    for channels, key in ((None, name), ({name: "x"}, name), ({name: "x"}, "x")):
        record = kz.read(tmp_path / "run.csv", channels=channels, units={key: stated})
        (channel,) = record.channels
        assert record[channel] == pytest.approx(factor * np.array([1.0, 2.0, -4.0]), rel=1e-14)
        assert record.units[channel] == unit
        assert "as stated" in record.dataset.attrs["read_as"]


@pytest.mark.parametrize("stamp", ["2026-05-04 10:15:00.{:02d}", "10:15:00.{:02d}"])
def test_a_column_of_dates_or_clock_times_is_the_time(tmp_path, stamp):
    rows = [f"{stamp.format(2 * row)},{row},{row**2}" for row in range(5)]
    (tmp_path / "run.csv").write_text("\n".join(["Logged,Angle,Battery", *rows]))
    record = kz.read(tmp_path / "run.csv")
    assert record.channels == ("Angle", "Battery")
    assert np.diff(record.time) == pytest.approx(np.full(4, 0.02), abs=1e-9)


@pytest.mark.parametrize("stamp", ["2026-05-04 10:15:00,{:02d}", "2026-05-04T10:15:00,{:02d}Z", "10:15:00,{:02d}"])
@pytest.mark.parametrize(("separator", "quote"), [(";", ""), ("\t", ""), (",", '"')])
def test_times_take_a_decimal_comma(tmp_path, stamp, separator, quote):
    """ISO 8601 allows the comma, and loggers of many countries write it."""
    half = ",5" if separator != "," else ".5"
    rows = [f"{quote}{stamp.format(2 * row)}{quote}{separator}{row}{half}" for row in range(50)]
    (tmp_path / "run.csv").write_text("\n".join([f"Timestamp{separator}Angle", *rows]))
    record = kz.read(tmp_path / "run.csv")
    assert record.channels == ("Angle",)
    assert record["Angle"][3] == 3.5
    assert np.diff(record.time[:40]) == pytest.approx(np.full(39, 0.02), abs=1e-9)
