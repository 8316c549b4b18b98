"""Files of acquisition systems, each made by its own library: channels, units, clocks, groups, and damage."""

import dataclasses
import datetime
import importlib.util
import shutil
import struct
import warnings
import zipfile

import numpy as np
import pytest
from scipy.io import wavfile

import kapitza as kz
from kapitza.base.suffixes import READERS
from kapitza.errors import DataError

RATE = 51200.0
COUNT = 1000
TIME = np.arange(COUNT) / RATE
ACCEL = np.sin(2 * np.pi * 50 * TIME)
FORCE = np.cos(2 * np.pi * 50 * TIME)


def tdms(path, accel=ACCEL, force=FORCE):
    from nptdms import ChannelObject, GroupObject, RootObject, TdmsWriter

    clock = {"wf_increment": 1 / RATE, "wf_start_offset": 0.0, "wf_start_time": np.datetime64("2024-05-01T10:00:00")}
    with TdmsWriter(path) as writer:
        channels = [
            ChannelObject("Run 1", "Accel", accel, {"unit_string": "m/s^2", **clock}),
            ChannelObject("Run 1", "Force", force, {"unit_string": "kN", **clock}),
        ]
        writer.write_segment([RootObject({}), GroupObject("Run 1"), *channels])


def uff(path):
    import pyuff

    for label, unit, data in (("Accel", "m/s^2", ACCEL), ("Force", "kN", FORCE)):
        one = pyuff.prepare_58(
            binary=1, func_type=1, id1=label, rsp_node=1, rsp_dir=3, ref_node=1, ref_dir=3, data=data, x=TIME,
            abscissa_spacing=1, abscissa_spec_data_type=17, ordinate_spec_data_type=12, ordinate_axis_units_lab=unit,
            abscissa_axis_units_lab="s",
        )  # fmt: skip
        one.update(ordinate_axis_lab=label, ord_data_type=4, orddenom_spec_data_type=0, z_axis_spec_data_type=0)
        add_set(path, one)


def add_set(path, one):
    import pyuff

    with warnings.catch_warnings(action="ignore", category=ResourceWarning):  # it leaves its files open
        pyuff.UFF(str(path)).write_sets(one, "add")


def xlsx(path):
    from openpyxl import Workbook

    book = Workbook()
    sheet = book.active
    sheet.append(["Shaker test 7"])
    sheet.append(["time [s]", "Accel [m/s^2]", "Force [kN]"])
    for row in zip(TIME.tolist(), ACCEL.tolist(), FORCE.tolist(), strict=True):
        sheet.append(row)
    book.save(path)


def mdf(path):
    from asammdf import MDF, Signal

    signals = [
        Signal(samples=ACCEL, timestamps=TIME, unit="m/s^2", name="Accel"),
        Signal(samples=FORCE, timestamps=TIME, unit="kN", name="Force"),
    ]
    with MDF(version="4.10") as file:
        file.append(signals, acq_name="fast")
        file.save(path, overwrite=True)


def bag(path):
    from rosbags.rosbag2 import StoragePlugin, Writer
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS2_HUMBLE)
    types = store.types
    kind = "sensor_msgs/msg/JointState"
    with Writer(path.parent / "bag", version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        connection = writer.add_connection("/joints", kind, typestore=store)
        for k in range(COUNT):
            stamp = types["builtin_interfaces/msg/Time"](sec=7, nanosec=round(TIME[k] * 1e9))
            header = types["std_msgs/msg/Header"](stamp=stamp, frame_id="")
            message = types[kind](
                header=header,
                name=["Accel", "Force"],
                position=np.array([ACCEL[k], FORCE[k]]),
                velocity=np.zeros(0),
                effort=np.zeros(0),
            )
            # Received in another order than measured.
            writer.write(connection, 10_000_000 * (k ^ 1), store.serialize_cdr(message, kind))
    next((path.parent / "bag").glob("*.mcap")).rename(path)


MAKERS = {"run.tdms": tdms, "run.uff": uff, "run.xlsx": xlsx, "run.mf4": mdf, "run.mcap": bag}


@pytest.fixture(scope="module", params=MAKERS)
def made(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("lab") / request.param
    MAKERS[request.param](path)
    return path


def test_channels_units_and_clock(made):
    record = kz.read(made)
    accel, force = record.channels
    bag = made.suffix == ".mcap"
    assert (accel, force) == (("position[Accel]", "position[Force]") if bag else ("Accel", "Force"))
    assert np.allclose(record[accel], ACCEL, atol=1e-12, rtol=0)
    # kN come as N; the joints of a bag have no units.
    assert np.allclose(record[force], FORCE if bag else 1000 * FORCE, atol=1e-9, rtol=0)
    assert record.units[accel] == ("" if bag else "m/s^2") or record.units[accel] == "m/s²"
    assert np.allclose(record.time, TIME, atol=1e-9 if bag else 1e-15, rtol=0)


def test_a_cut_file_is_refused_or_shorter_by_name(made, tmp_path):
    """At every seventh of its length (half of a universal file is a whole file of one channel)."""
    content = made.read_bytes()
    for seventh in range(1, 7):
        path = tmp_path / made.name
        path.write_bytes(content[: len(content) * seventh // 7])
        with pytest.raises(DataError, match=made.stem):
            kz.read(path)


def test_damaged_bytes_give_one_kind_of_error(made, tmp_path):
    content = bytearray(made.read_bytes())
    rng = np.random.default_rng(7)
    for _ in range(8):
        broken = content.copy()
        for place in rng.integers(0, min(len(broken), 3000), 12):
            broken[place] = int(rng.integers(256))
        path = tmp_path / made.name
        path.write_bytes(bytes(broken))
        try:
            record = kz.read(path)
        except DataError:
            continue
        assert record.size == COUNT


def test_a_bag_with_a_lost_block_is_refused(tmp_path):
    """A chunk that zeros end early gave the messages before them without a warning: 608 of 1009."""
    from tests.hostile.formats import made as made_file

    content = made_file(".mcap")
    middle = len(content) // 2
    (tmp_path / "run.mcap").write_bytes(content[:middle] + bytes(512) + content[middle + 512 :])
    with pytest.raises(DataError, match=r"run.mcap is damaged: it states 1009 messages and holds \d+"):
        kz.read(tmp_path / "run.mcap")


@pytest.mark.parametrize("shift", [-3, 3, 512])
def test_a_sound_of_another_length_than_it_states_is_refused(tmp_path, shift):
    """Bytes lost or added among the samples shift all that follow."""
    path = tmp_path / "run.wav"
    wavfile.write(path, 1000, np.round(30000 * ACCEL).astype(np.int16))
    assert kz.read(path).size == COUNT
    content = path.read_bytes()
    path.write_bytes(content[:900] + (bytes(shift) + content[900:] if shift > 0 else content[900 - shift :]))
    with pytest.raises(DataError, match=rf"header states {len(content)} bytes and it has {len(content) + shift}"):
        kz.read(path)


@pytest.mark.parametrize("suffix", READERS)
@pytest.mark.parametrize("content", [b"", b"x", b"\x00" * 4096, b"not a recording\n" * 100], ids=len)
def test_other_contents_are_refused(tmp_path, suffix, content):
    path = tmp_path / f"run{suffix}"
    path.write_bytes(content)
    with pytest.raises(DataError, match="run"):
        kz.read(path)


def test_a_reader_may_need_no_library(tmp_path, monkeypatch):
    monkeypatch.setitem(READERS, ".wav", dataclasses.replace(READERS[".wav"], library=""))
    wavfile.write(tmp_path / "run.wav", 100, np.sin(np.arange(200.0)))
    assert kz.read(tmp_path / "run.wav").size == 200


def test_a_library_that_is_not_installed_is_named_with_its_command(tmp_path, monkeypatch):
    path = tmp_path / "run.tdms"
    path.write_bytes(b"TDSm")
    found = importlib.util.find_spec
    monkeypatch.setattr(
        "kapitza.data.formats.readers.find_spec", lambda name: None if name == "nptdms" else found(name)
    )
    with pytest.raises(DataError, match=r"install nptdms, pip install 'kapitza\[formats\]'"):
        kz.read(path)


def test_groups_with_clocks_of_their_own_are_asked_for(tmp_path):
    from nptdms import ChannelObject, TdmsWriter

    path = tmp_path / "run.tdms"
    with TdmsWriter(path) as writer:
        fast = ChannelObject("fast", "x", np.arange(10.0), {"wf_increment": 0.1})
        slow = ChannelObject("slow", "y", np.arange(5.0), {"wf_increment": 0.2})
        writer.write_segment([fast, slow])
    with pytest.raises(DataError, match=r'several groups: "fast" \(10 samples of x\), "slow" .*group="\.\.\."'):
        kz.read(path)
    record = kz.read(path, group="slow")
    assert record.channels == ("y",)
    assert np.allclose(record.time, 0.2 * np.arange(5))
    with pytest.raises(DataError, match=r'no group "slwo".*slow'):
        kz.read(path, group="slwo")


def test_groups_of_one_clock_are_one_record(tmp_path):
    from nptdms import ChannelObject, TdmsWriter

    path = tmp_path / "run.tdms"
    clock = {"wf_increment": 0.1}
    with TdmsWriter(path) as writer:
        writer.write_segment([ChannelObject(group, "x", np.arange(10.0), clock) for group in ("left", "right")])
    assert kz.read(path).channels == ("left/x", "right/x")


def test_channels_of_unequal_length_are_refused(tmp_path):
    path = tmp_path / "run.tdms"
    tdms(path, force=FORCE[:-300])
    with pytest.raises(DataError, match='"Force" has 700 samples, others have 1000'):
        kz.read(path)


def test_the_step_of_a_universal_file_is_that_of_a_round_rate(tmp_path):
    """1/51200 s is kept as 1.95313e-05 s: 2.5 samples in a million off."""
    path = tmp_path / "run.uff"
    uff(path)
    record = kz.read(path)
    assert record.time[-1] == pytest.approx((COUNT - 1) / RATE, rel=1e-14)
    assert "51200 Hz" in record.dataset.attrs["read_as"]


def test_spectra_of_a_universal_file_are_no_recording(tmp_path):
    import pyuff

    path = tmp_path / "run.unv"
    one = pyuff.prepare_58(
        binary=1, func_type=4, rsp_node=1, rsp_dir=3, ref_node=1, ref_dir=3, data=np.exp(1j * ACCEL), x=TIME,
        abscissa_spacing=1, abscissa_spec_data_type=18, ordinate_spec_data_type=12,
    )  # fmt: skip
    one.update(ord_data_type=6, orddenom_spec_data_type=13, z_axis_spec_data_type=0)
    add_set(path, one)
    with pytest.raises(DataError, match="no time series"):
        kz.read(path)


@pytest.mark.parametrize(
    ("kind", "scale"), [(np.int16, 2**15 - 1), (np.int32, 2**31 - 1), (np.float32, 1), (np.uint8, 127)]
)
def test_sound_is_a_share_of_full_scale(tmp_path, kind, scale):
    path = tmp_path / "run.wav"
    both = np.stack([ACCEL, FORCE], axis=1)
    stored = np.rint(both * scale + 128) if kind is np.uint8 else np.rint(both * scale) if scale > 1 else both
    wavfile.write(path, int(RATE), stored.astype(kind))
    record = kz.read(path)
    assert record.channels == ("channel_1", "channel_2")
    assert np.abs(record.values() - both).max() < 1.5 / scale + 1e-6 * (scale == 1)
    assert record.time[1] == 1 / RATE
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(DataError, match=r"run\.wav"):
        kz.read(path)


def test_a_workbook_of_one_far_cell_is_refused_before_it_is_opened(tmp_path):
    """The library would reserve 512 GiB for it and end the process."""
    path = tmp_path / "run.xlsx"
    xlsx(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    far = b'<row r="1048576"><c r="XFD1048576" t="n"><v>1</v></c></row></sheetData>'
    members[sheet] = members[sheet].replace(b"</sheetData>", far)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(DataError, match="would unpack"):
        kz.read(path)


def test_workbook_of_a_logger_with_dates_and_a_line_of_units(tmp_path):
    from openpyxl import Workbook

    book = Workbook()
    sheet = book.active
    sheet.append(["Time", "x", "note"])
    sheet.append(["", "mm", ""])
    begin = datetime.datetime(2024, 5, 1, 10, 0, 0)
    for k in range(5):
        sheet.append([begin + datetime.timedelta(seconds=0.5 * k), 2.0 * k, "ok"])
    book.create_sheet("empty")
    path = tmp_path / "run.xlsx"
    book.save(path)
    record = kz.read(path)
    assert record.channels == ("x",)
    assert np.allclose(record["x"], 0.002 * np.arange(5))
    assert np.allclose(record.time, 0.5 * np.arange(5), atol=1e-6)


def test_messages_of_foreign_types_are_refused(tmp_path):
    """Their classes would be built from text in the bag."""
    from rosbags.rosbag2 import StoragePlugin, Writer
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    store = get_typestore(Stores.ROS2_HUMBLE)
    store.register(get_types_from_msg("float64 x\n", "rig/msg/Point"))
    with Writer(tmp_path / "bag", version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        connection = writer.add_connection("/rig", "rig/msg/Point", typestore=store)
        writer.write(connection, 0, store.serialize_cdr(store.types["rig/msg/Point"](x=1.0), "rig/msg/Point"))
    with pytest.raises(DataError, match=r"ROS itself does not define .rig/msg/Point"):
        kz.read(next((tmp_path / "bag").glob("*.mcap")))


@pytest.mark.parametrize(("name", "cure"), [("run.pkl", "pickles are code"), ("run.xls", "save it as .xlsx")])
def test_files_that_are_not_read_come_with_advice(tmp_path, name, cure):
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(DataError, match=cure):
        kz.read(tmp_path / name)


def test_a_universal_file_keeps_numbers_units_and_the_step_in_full(tmp_path):
    rng = np.random.default_rng(3)
    time = np.arange(200) * (np.pi / 7)
    channels = {"phi": rng.normal(size=200), "phi'": rng.normal(size=200)}
    record = kz.Record.from_arrays(time, channels, units={"phi": "rad", "phi'": "rad/s"})
    back = kz.read(kz.write(record, tmp_path / "run.uff"))
    assert back.channels == record.channels
    assert back.units == record.units
    assert np.array_equal(back.values(), record.values())
    assert np.allclose(back.time, record.time, rtol=1e-14, atol=0)
    cut = kz.Record.from_arrays(time, channels, segment=np.arange(200) // 100)
    with pytest.raises(DataError, match="holds one segment"):
        kz.write(cut, tmp_path / "cut.uff")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        # Bytes of a record, and numbers of records, in the block ##CG.
        (struct.pack("<II", 24, 0), struct.pack("<II", 2**31, 0), "would unpack to"),
        (struct.pack("<Q", 1000), struct.pack("<Q", 10**9), "would unpack to"),
        (struct.pack("<Q", 1000), struct.pack("<Q", 1002), "has 1000 of 1002 samples: the file is cut"),
    ],
)
def test_mdf_files_that_declare_other_sizes_than_they_hold_are_refused(tmp_path, old, new, message):
    path = tmp_path / "run.mf4"
    mdf(path)
    content = path.read_bytes()
    block = content.index(b"##CG")
    head, rest = content[:block], content[block:]
    assert old in rest
    path.write_bytes(head + rest.replace(old, new, 1))
    with pytest.raises(DataError, match=message):
        kz.read(path)


def test_a_bag_of_ros_2_is_a_folder(tmp_path):
    (tmp_path / "arm").mkdir()
    bag(tmp_path / "arm" / "part_0.mcap")
    (tmp_path / "arm" / "metadata.yaml").write_text("rosbag2_bagfile_information: {version: 9}\n")
    whole, part = kz.read(tmp_path / "arm"), kz.read(tmp_path / "arm" / "part_0.mcap")
    assert np.array_equal(whole.time, part.time)
    assert np.array_equal(whole.values(), part.values())
    shutil.copy(tmp_path / "arm" / "part_0.mcap", tmp_path / "arm" / "part_1.mcap")
    with pytest.raises(DataError, match=r"holds part_0.mcap, part_1.mcap: name the file"):
        kz.read(tmp_path / "arm")
    (tmp_path / "arm" / "metadata.yaml").unlink()
    with pytest.raises(DataError, match=r"is a folder with .*part_0.mcap, part_1.mcap: name one of these"):
        kz.read(tmp_path / "arm")


@pytest.mark.parametrize(
    ("stamps", "expected", "said"),
    [
        ([0, 5, 10, 15], [0, 5, 10, 15], ""),
        ([7000, 7005, 7010, 7015], [0, 5, 10, 15], ""),
        ([0, 0, 0, 0], [0, 6, 10, 17], "the messages carry no stamps"),
        ([7000, 0, 7010, 7015], [0, 6, 10, 17], "1 of 4 messages carry no stamps"),
    ],
)
def test_stamps_of_a_bag_are_its_times_where_they_are_set(stamps, expected, said):
    from types import SimpleNamespace

    from rosbags.typesys import Stores, get_typestore

    from kapitza.data.formats.bags import _Topic

    types = get_typestore(Stores.ROS2_HUMBLE).types
    topic = _Topic("/pendulum")
    for stamp, receipt in zip(stamps, (100, 106, 110, 117), strict=True):
        header = types["std_msgs/msg/Header"](
            stamp=SimpleNamespace(sec=stamp // 1000, nanosec=stamp % 1000 * 10**6), frame_id=""
        )
        message = types["geometry_msgs/msg/PointStamped"](
            header=header, point=types["geometry_msgs/msg/Point"](x=float(receipt), y=0.0, z=0.0)
        )
        topic.add(message, receipt * 10**6)
    group = topic.group()
    assert np.allclose(1000 * group.time, expected, atol=1e-9)
    assert group.values[group.names.index("point.x")].tolist() == [100.0, 106.0, 110.0, 117.0]
    assert bool(group.notes) == bool(said)
    assert "".join(group.notes).endswith(said)


def test_a_record_says_what_was_assumed_of_its_file(tmp_path):
    from scipy.io import wavfile

    wavfile.write(tmp_path / "run.wav", 1000, np.arange(100, dtype=np.int16))
    assert repr(kz.read(tmp_path / "run.wav")).endswith("0 to 0.099 s; WAV has no units: full scale is 1")
    (tmp_path / "run.csv").write_text("t [s],Accel [g]\n0,1\n0.1,2\n0.2,3\n", encoding="utf-8")
    assert repr(kz.read(tmp_path / "run.csv")).endswith("; Accel is in gravity, by its name")


@pytest.mark.parametrize("suffix", [".xlsx", ".parquet", ".mat", ".wav", ".tdms", ".mf4", ".h5"])
def test_text_under_another_suffix_is_named(suffix, tmp_path):
    path = tmp_path / f"run{suffix}"
    path.write_text("t [s],x [mm]\n0,1\n0.1,2\n", encoding="utf-8")
    with pytest.raises(DataError, match=rf'is not a {suffix} file: its content is that of \.csv.*in "\.csv"'):
        kz.read(path)


def test_files_under_the_suffix_of_another_format_are_named(made, tmp_path):
    path = tmp_path / "run.parquet"
    path.write_bytes(made.read_bytes())
    # A universal file is text.
    kind = r"\.csv" if made.suffix == ".uff" else rf".*\{made.suffix}"
    with pytest.raises(DataError, match=rf"is not a \.parquet file: its content is that of {kind}"):
        kz.read(path)
