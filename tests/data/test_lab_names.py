"""Files of acquisition systems with hostile channel names, and long ones, each made by its own library."""

import numpy as np
import pytest
from scipy.io import wavfile
from tests.data.test_lab_files import add_set

import kapitza as kz
from kapitza.errors import DataError

TIME = np.arange(64) / 1000.0
WAVE = np.sin(2 * np.pi * 30 * TIME)

NAMES = [
    "=cmd|' /C calc'!A0",
    "../../etc/passwd",
    "two\nlines",
    "tab\there",
    "x'; DROP TABLE runs; --",
    "<script>alert(1)</script>",
    "{0.__class__}",
    "%s%n",
    "Beschleunigung [m/s²] äöü 日本",
    "\u202eevil",
    "name" * 200,
    " ",
    "t",
    "Force [g]",
    "Noise [dB]",
]


def tdms(path, name, values):
    from nptdms import ChannelObject, GroupObject, RootObject, TdmsWriter

    clock = {"wf_increment": 0.001, "wf_start_offset": 0.0, "wf_start_time": np.datetime64("2024-05-01T10:00:00")}
    with TdmsWriter(path) as writer:
        writer.write_segment([RootObject({}), GroupObject("Run"), ChannelObject("Run", name, values, clock)])


def uff(path, name, values):
    import pyuff

    one = pyuff.prepare_58(
        binary=1, func_type=1, id1="run", rsp_node=1, rsp_dir=3, ref_node=1, ref_dir=3, data=values,
        x=np.arange(values.size) / 1000.0, abscissa_spacing=1, abscissa_spec_data_type=17, ordinate_spec_data_type=12,
        ordinate_axis_units_lab="m/s^2", abscissa_axis_units_lab="s",
    )  # fmt: skip
    label = name.encode("ascii", "replace").decode()[:20].replace("\n", " ")
    one.update(ordinate_axis_lab=label, ord_data_type=4, orddenom_spec_data_type=0, z_axis_spec_data_type=0)
    add_set(path, one)


def xlsx(path, name, values):
    from openpyxl import Workbook

    book = Workbook()
    sheet = book.active
    sheet.append(["time [s]", "x"])
    sheet["B1"].value = name
    sheet["B1"].data_type = "s"
    for row in zip((np.arange(values.size) / 1000.0).tolist(), values.tolist(), strict=True):
        sheet.append(row)
    book.save(path)


def mdf(path, name, values):
    from asammdf import MDF, Signal

    with MDF(version="4.10") as file:
        file.append([Signal(samples=values, timestamps=np.arange(values.size) / 1000.0, name=name)])
        file.save(path, overwrite=True)


MAKERS = {".tdms": tdms, ".uff": uff, ".xlsx": xlsx, ".mf4": mdf}


@pytest.mark.parametrize("suffix", MAKERS)
def test_names_are_data(suffix, tmp_path):
    """The numbers come back under a printable name, or the name is refused as one kind of error."""
    read = 0
    for number, name in enumerate(NAMES):
        path = tmp_path / f"run{number}{suffix}"
        MAKERS[suffix](path, name, WAVE)
        try:
            record = kz.read(path)
        except DataError:
            continue
        read += 1
        (channel,) = record.channels
        assert np.allclose(record[channel], WAVE, atol=1e-12)
        assert "\n" not in str(record)
        kz.write(record, tmp_path / f"back{number}.csv")
        assert np.array_equal(kz.read(tmp_path / f"back{number}.csv").values(), record.values())
    assert read >= 8


@pytest.mark.parametrize("suffix", [".tdms", ".mf4", ".uff"])
def test_long_files_come_back_whole(suffix, tmp_path):
    values = np.random.default_rng(1).normal(size=200_000)
    path = tmp_path / f"run{suffix}"
    MAKERS[suffix](path, "x", values)
    record = kz.read(path)
    assert record.size == values.size
    assert np.array_equal(record["x"], values)


def test_long_sound_comes_back_whole(tmp_path):
    values = np.random.default_rng(1).integers(-(2**15), 2**15, 200_000).astype(np.int16)
    wavfile.write(tmp_path / "run.wav", 48_000, values)
    record = kz.read(tmp_path / "run.wav")
    assert record.size == values.size
    assert np.array_equal(record.values()[:, 0] * 2**15, values)
