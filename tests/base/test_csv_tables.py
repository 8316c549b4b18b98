"""Names in csv files are not formulas of a spreadsheet, and come back as they were."""

import csv
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kapitza as kz
from kapitza.base.csv_tables import harmless, harmless_json, original, write_table
from kapitza.base.suffixes import SEPARATORS

NAMES = ["=1+1", "+x", "-phi", "@SUM(A1)", "=cmd|' /C calc'!A0", "a,=HYPERLINK(1)", "b;=2"]
NAMES += ["'=x", "''+y", " =3", "＝4", "x"]


def cells(text, separator):
    return [cell for row in csv.reader(text.splitlines(), delimiter=separator) for cell in row]


def is_formula(cell):
    """Whether a spreadsheet would compute a cell, by the rules of OWASP; numbers are numbers."""
    try:
        float(cell)
    except ValueError:
        return cell.lstrip(" ")[:1] in ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
    return False


@pytest.mark.parametrize("suffix", list(SEPARATORS))
def test_channels_are_not_formulas_and_come_back(suffix, tmp_path):
    time = np.arange(5) / 8
    channels = {name: time - k for k, name in enumerate(NAMES)}
    record = kz.Record.from_arrays(time, channels, units=dict.fromkeys(NAMES, "m"), note="=now()", other="a,=now()")
    path = kz.write(record, tmp_path / f"run{suffix}")
    text = path.read_text(encoding="utf-8")
    for separator in ",;\t":
        assert not [cell for cell in cells(text, separator) if is_formula(cell)]
    back = kz.read(path)
    assert back.channels == record.channels
    assert np.array_equal(back.values(), record.values())
    assert back.dataset.attrs["other"] == "a,=now()"
    # Without the line of Kapitza the header alone gives the names back, but for the separators in them.
    path.write_text(text.partition("\n")[2], encoding="utf-8")
    expected = [name.replace(",", "_").replace(";", "_").strip() for name in NAMES]
    assert list(kz.read(path).channels) == expected


@given(st.text(max_size=12))
def test_every_text_comes_back(text):
    assert original(harmless(text)) == text
    assert not is_formula(harmless(text)) or text == "-"
    assert json.loads(harmless_json(json.dumps({text: [text, -1.5e-7, 1e30]}))) == {text: [text, -1.5e-7, 1e30]}


def test_tables_are_not_formulas(tmp_path):
    table = pd.DataFrame({"name": ["=1+1", "k"], "value": [-1.5, 2.0], "-x": ["-", "-3"]}, index=["@a", "b"])
    table.index.name = "+run"
    write_table(table, tmp_path / "a.csv", index=True)
    text = (tmp_path / "a.csv").read_text()
    assert text.splitlines() == ["'+run,name,value,'-x", "'@a,'=1+1,-1.5,-", "b,k,2.0,-3"]
    back = pd.read_csv(tmp_path / "a.csv", index_col=0)
    assert back["value"].tolist() == [-1.5, 2.0]
    assert table.columns.tolist() == ["name", "value", "-x"]


def test_a_fit_is_exported_without_formulas(tmp_path):
    model = kz.Model.from_equations("x' = -a*x", parameters={"a": 1.0}, start={"x": 1.0})
    fit = kz.identify(model, kz.simulate(model, t=np.arange(0, 2, 0.05), noise=0.01, seed=1), ["a"])
    fit.to_csv(tmp_path / "fit.csv")
    assert pd.read_csv(tmp_path / "fit.csv", index_col=0).loc["a", "value"] == fit["a"]
    assert not [c for c in cells((tmp_path / "fit.csv").read_text(), ",") if is_formula(c)]
