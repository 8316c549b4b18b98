"""Dates: zones that are mixed, and clocks that are changed."""

import numpy as np
import pandas as pd
import pytest

import kapitza as kz
from kapitza.errors import DataError


def table(path, dates):
    path.write_text("t,x\n" + "".join(f"{date},{k}\n" for k, date in enumerate(dates)))
    return path


def test_dates_with_and_without_zone_are_not_mixed(tmp_path):
    dates = [f"2024-05-01T10:00:0{k}" + ("+02:00" if k != 3 else "") for k in range(6)]
    with pytest.raises(DataError, match=r'mix zones: "2024-05-01T10:00:00\+02:00" says .* "2024-05-01T10:00:03" does'):
        kz.read(table(tmp_path / "a.csv", dates))
    with pytest.raises(DataError, match="mix zones"):
        kz.read(table(tmp_path / "a.csv", [d.replace("+02:00", "Z") for d in dates]))
    with pytest.raises(DataError, match="mix zones"):
        kz.Record.from_frame(pd.DataFrame({"t": dates, "x": range(6)}))


def test_zones_that_are_all_written_may_differ(tmp_path):
    """Half an hour around the end of summer time in Berlin, 2024-10-27: even steps of 10 minutes in UTC."""
    dates = ["02:40:00+02:00", "02:50:00+02:00", "02:00:00+01:00", "02:10:00+0100", "01:20:00Z"]
    record = kz.read(table(tmp_path / "a.csv", [f"2024-10-27 {d}" for d in dates]))
    assert np.array_equal(record.time, 600.0 * np.arange(5))


@pytest.mark.parametrize(
    "clock", [["01:59:58", "01:59:59", "03:00:00", "03:00:01"], ["02:59:58", "02:59:59", "02:00:00", "02:00:01"]]
)
def test_a_changed_clock_is_refused(clock, tmp_path):
    """2024-03-31 and 2024-10-27, Sundays, in Europe; the first passes by 3601 s, the second back by 3599 s."""
    day = "2024-03-31" if clock[0] < "02" else "2024-10-27"
    early = [f"{day} {clock[0][:6]}{50 + k}" for k in range(8)]
    dates = [*early, *(f"{day} {c}" for c in clock)]
    with pytest.raises(DataError, match="changed to or from summer time"):
        kz.read(table(tmp_path / "a.csv", dates))
    with pytest.raises(DataError, match="changed to or from summer time"):
        kz.Record.from_frame(pd.DataFrame({"t": pd.to_datetime(dates), "x": range(12)}))


def test_an_interruption_of_an_hour_on_another_day_is_a_gap(tmp_path):
    dates = [*(f"2024-04-03 01:59:5{k}" for k in range(8)), *(f"2024-04-03 02:59:5{k + 8 - 8}" for k in range(8, 10))]
    record = kz.read(table(tmp_path / "a.csv", dates))
    assert len(record.sampling().gaps) == 1
