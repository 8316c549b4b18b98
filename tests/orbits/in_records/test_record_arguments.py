"""find_orbits on records: slips are named with their cure, nothing is ignored in silence."""

import numpy as np
import pytest
from tests.orbits.in_records.test_record_character import henon, strobed

import kapitza as kz
from kapitza.errors import DataError, KapitzaError


@pytest.fixture(scope="module")
def record():
    return strobed(henon(2000))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"tolerence": 0.02}, 'Did you mean "tolerance"'),
        ({"channels": ["y"]}, 'No channel "y"'),
        ({"max_period": 2.5}, "max_period = 2.5"),
        ({"max_period": "3"}, "max_period = '3'"),
        ({"max_period": 0}, "at least 1"),
        ({"method": "section"}, "SectionSearch"),
        ({"dimension": 0}, "dimension = 0"),
        ({"dimension": 2, "delay": -3}, "delay = -3"),
        ({"noise": [0.1, 0.1, 0.1]}, "3 values of noise for 2 channels"),
        ({"noise": {"x0": 0.1}}, 'No noise for channel "x1"'),
        ({"noise": {"x0": 0.1, "x2": 0.1}}, 'Noise of "x2"'),
        ({"noise": [np.nan, 0.1]}, "finite"),
        ({"noise": -0.1}, "not negative"),
        ({"noise": "much"}, "standard deviations"),
        ({"kind": "maxima"}, "autonomous"),
        ({"phase": "late"}, "share of the period"),
        ({"partition": "quadrants"}, "function"),
        ({"symmetry": [1, 1, 1]}, "3 signs"),
        ({"starts": 0}, "starts = 0"),
        ({"support": -5}, "support = -5"),
        ({"window": -1}, "window = -1"),
        ({"neighbours": -5}, "neighbours = -5"),
        ({"method": kz.SectionSearch(), "tolerance": 0.1}, "both given"),
        ({"method": kz.ReturnSearch(), "dimension": 3}, "into ReturnSearch"),
        ({"method": kz.ReturnSearch(), "phase": 0.2}, "not used by ReturnSearch"),
    ],
)
def test_slips_are_named(record, settings, said):
    with pytest.raises(KapitzaError, match=said):
        kz.find_orbits(record, **{"max_period": 1, **settings})


def test_autonomous_records_have_no_phase_and_two_to_five_coordinates():
    time = np.arange(4000) * 0.01
    record = kz.Record.from_arrays(time, {"x": np.sin(time) + 0.2 * np.sin(3.1 * time)})
    with pytest.raises(DataError, match="no excitation period"):
        kz.find_orbits(record, phase=0.2)
    for dimension in (1, 6):
        with pytest.raises(DataError, match="between 2 and 5"):
            kz.find_orbits(record, dimension=dimension)


def test_one_channel_may_be_given_by_its_name(record):
    by_name = kz.find_orbits(record, max_period=1, channels="x0")
    assert by_name.message == kz.find_orbits(record, max_period=1, channels=["x0"]).message


def test_a_partition_must_name_every_point():
    long = strobed(henon(6000))
    with pytest.raises(DataError, match="1 symbols for 2 points"):
        kz.find_orbits(long, max_period=2, partition=lambda points: ["A"])
    codes = [o.code for o in kz.find_orbits(long, max_period=2, partition=lambda p: (p[:, 0] > 0).astype(int))]
    assert codes == ["1", "01"]


def test_codes_do_not_depend_on_units():
    codes = [[o.code for o in kz.find_orbits(strobed(henon(6000) * unit), max_period=4)] for unit in (1.0, 1e-12)]
    assert codes[0] == codes[1]
    assert all("*" not in code for code in codes[0])


def test_the_delay_of_dense_forced_records_comes_from_the_record():
    """φ alone with two coordinates: the multipliers of the orbit, as with a delay given by hand."""
    record = kz.simulate(kz.library.parametric_pendulum(), periods=20000, samples_per_period=20).select(["phi"])
    orbit = kz.find_orbits(record, max_period=2, dimension=2).select(period=2)
    sizes = [abs(o.multipliers[0]) for o in orbit]
    assert min(abs(size - 2.496) for size in sizes) < 0.05
