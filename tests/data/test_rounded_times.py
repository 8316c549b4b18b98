"""Rounded time stamps of an even clock are recognised as rounding, and stop no method."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.data import Part, as_parts

MODEL = kz.Model.from_equations("x'' + c*x' + k*x = 0", parameters={"c": 0.3, "k": 40.0})


def rounded(interval, digits, count=2000, cut=False, jitter=0.0):
    time = 0.1234 + np.arange(count) * interval
    clean = kz.simulate(MODEL, [1.0, 0.0], t=time - time[0])
    random = np.random.default_rng(1)
    stamps = time + jitter * random.uniform(-1, 1, count)
    stamps = np.floor(stamps * 10**digits) / 10**digits if cut else np.round(stamps, digits)
    return kz.Record.from_arrays(stamps, {"x": clean["x"] + 0.003 * random.standard_normal(count)}), time


@pytest.mark.parametrize(("interval", "digits", "cut"), [(0.00123, 4, False), (1 / 300, 3, False), (1 / 60, 3, True)])
def test_the_even_clock_is_found(interval, digits, cut):
    record, time = rounded(interval, digits, cut=cut)
    assert not record.sampling().regular
    even = record.without_rounding()
    assert even.sampling().regular
    assert even.dataset.attrs["rounded"] == pytest.approx(10.0**-digits)
    # to the rounding of one stamp at the start, and to far less in the interval
    assert np.abs(even.time - time).max() < 1.1 * 10.0**-digits
    assert np.mean(np.diff(even.time)) == pytest.approx(interval, rel=1e-5)
    # every stamp is that of the even clock, rounded
    assert np.abs(even.time - record.time).max() <= 0.56 * 10.0**-digits
    fit = kz.identify(MODEL.with_values(c=0.2, k=35.0), record, free=["c", "k"], method=kz.HarmonicFit())
    for name, true in (("c", 0.3), ("k", 40.0)):
        assert abs(fit.values[name] - true) < 4 * fit.deviations[name]
    assert any("rounded to" in note for note in kz.inspect(record).notes)


def test_segments_have_starts_of_their_own():
    record, _ = rounded(1 / 300, 3, count=900)
    label = np.repeat([0, 1, 2], 300)
    stamps = np.round(record.time + 0.5017 * label, 3)
    pieces = kz.Record.from_arrays(stamps, {"x": record["x"]}, segment=label, phase=0.2)
    even = pieces.without_rounding()
    assert all(np.ptp(np.diff(even.time[part])) < 1e-12 for part in even.segments())
    assert even.excitation_start == pytest.approx(pieces.excitation_start, abs=1e-12)


def test_real_jitter_and_even_clocks_stay_as_they_are():
    jittered, _ = rounded(0.01, 4, jitter=0.001)
    assert jittered.without_rounding() is jittered
    even, _ = rounded(0.01, 9)
    assert even.without_rounding() is even
    gaps = kz.Record.from_arrays(np.delete(np.arange(100) * 0.01, 50), {"x": np.zeros(99) + np.arange(99)})
    assert gaps.without_rounding() is gaps


def test_a_part_is_evened_like_its_record():
    """A study, and a recording on disk, hand parts to the fit."""
    record, _ = rounded(1 / 300, 3)
    even = record.without_rounding()
    for data in (record, Part(record), (Part(record), {"F": 1.0}), [Part(record)]):
        (part,) = as_parts(data)
        assert part.source.sampling().regular
        assert np.array_equal(part.source.time, even.time)
        assert as_parts(part)[0].source is part.source


def test_the_interval_of_rounded_stamps_is_that_of_the_clock():
    stamps = np.round(np.arange(3000) / 300, 6)
    sampling = kz.Record.from_arrays(stamps, {"x": np.sin(stamps)}).sampling()
    assert sampling.regular
    # The ends are rounded by half a microsecond each; the median step, 0.003333 s, is 1e-4 off.
    assert abs(300 * sampling.interval - 1) < 1e-6 / stamps[-1]
