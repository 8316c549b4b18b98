"""The measured data of others are read as published; numbers are those of their description."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.data import read_variables


def test_double_pendulum_tracked(data_folder):
    names = ["trial", "t", "o1", "o2", "w1", "w2", "w1_again", "w2_again", "a1", "a2"]
    record = kz.read(
        data_folder / "schmidt_lipson" / "real_double_pend_h_1.txt",
        names=names,
        channels=["o1", "o2", "w1", "w2"],
        angles=["o1", "o2"],
        units={"o1": "rad", "o2": "rad", "w1": "rad/s", "w2": "rad/s"},
    )
    pieces = record.pieces()
    assert [len(piece) for piece in pieces] == [819, 701]
    assert [len(piece.sampling().gaps) for piece in pieces] == [32, 53]
    assert record.sampling().rate == pytest.approx(100, rel=1e-3)
    assert record.split_at_gaps().require_regular(0.01).regular
    # trial 0 is nearly conservative: the quoted quantity varies little against its range over the trials
    o1, o2, w1, w2 = pieces[0].values().T
    energy = w1**2 + 0.32 * w2**2 - 124.13 * np.cos(o1) - 46.82 * np.cos(o2) + 0.82 * w1 * w2 * np.cos(o1 - o2)
    assert energy.std() < 0.15 * np.ptp(124.13 * np.cos(o1))


@pytest.mark.parametrize(("name", "channels"), [("real_linear", 2), ("real_double_linear", 4), ("real_pend", 2)])
def test_other_tracked_motions(data_folder, name, channels):
    path = data_folder / "schmidt_lipson" / f"{name}_h_1.txt"
    record = kz.read(path, time=1, segment=0)
    assert len(record.channels) == channels
    assert len(record) == np.loadtxt(path, comments="%").shape[0]
    assert np.array_equal(record.values(), np.loadtxt(path, comments="%")[:, 2:])


def test_silverbox(data_folder):
    record = kz.read(data_folder / "silverbox" / "SNLS80mV.csv", interval=1 / 610.35, units={"V1": "V", "V2": "V"})
    assert record.channels == ("V1", "V2")
    assert len(record) == 131072
    assert record.values()[0] == pytest.approx([0.0057756, 0.0093978])


@pytest.mark.parametrize("name", ["DATA_EMPS", "DATA_EMPS_PULSES"])
def test_positioning_axis(data_folder, name):
    record = kz.read(data_folder / "emps" / f"{name}.mat", channels=["qm", "vir"], units={"qm": "m", "vir": "V"})
    assert len(record) == 24841
    assert record.require_regular().rate == pytest.approx(1000, rel=1e-4)


@pytest.mark.parametrize(("name", "angles"), [("Single", 1), ("Double", 2)])
def test_multiarm_pendulum(data_folder, name, angles):
    path = data_folder / "multiarm_pendulum" / f"{name}PendulumDataForParameterEstimation.mat"
    states = [f"phi{i + 1}" for i in range(angles)] + [f"phi{i + 1}'" for i in range(angles)]
    for part in ("id", "vad"):
        record = kz.read(path, time=f"Time_{part}", channels={f"Y_{part}": states}, angles=states[:angles])
        assert len(record.segments()) == len(read_variables(path)[f"Y_{part}"])
        assert record.require_regular().rate == pytest.approx(1000)
        # angular velocities, smoothed by the authors, are the rates of the angles
        piece = record.unwrapped().pieces()[0]
        rate = np.gradient(piece["phi1"], 0.001)
        assert np.corrcoef(rate, piece["phi1'"])[0, 1] > 0.99


@pytest.mark.parametrize(("name", "values"), [("Single", [0.147755, 0.147585]), ("Double", [0.093844, 0.137596])])
def test_published_parameters(data_folder, name, values):
    path = data_folder / "multiarm_pendulum" / f"EstimatedParameters_{name}Pendulum.mat"
    published = read_variables(path)["EstimatedParameters"]
    assert np.ravel(published)[:2] == pytest.approx(values, abs=1e-6)
    assert len(kz.read(path, interval=1.0)) == np.size(published)
