"""One rule for where a record stands in the excitation, whichever method reads it."""

import pytest

import kapitza as kz

TRUTH = {"k": 0.08, "B": 0.2}


@pytest.fixture(scope="module")
def late_record() -> kz.Record:
    """Two periods of a settled Duffing motion, cut in the middle of a period, with the time stamps of the run."""
    model = kz.library.duffing().with_values(**TRUTH)
    clean = kz.simulate(model, [-0.2, 0.0], periods=93, samples_per_period=80)
    stop = clean.time[0] + 92.3 * model.period
    cut = clean.between(stop - 2 * model.period - 1e-9, stop - 1e-9)
    return kz.measure(kz.Record.from_arrays(cut.time, {name: cut[name] for name in ("x", "x'")}), noise=1e-4, seed=1)


@pytest.mark.parametrize(
    "method", [kz.OrbitFit(period=1), kz.ShootingFit(), kz.HarmonicFit()], ids=lambda m: type(m).__name__
)
def test_time_stamps_without_a_phase_count_from_the_start_of_the_excitation(late_record, method):
    start = kz.library.duffing().with_values(k=0.1, B=0.22)
    fit = kz.identify(start, late_record, free=["k", "B"], method=method)
    for name, value in TRUTH.items():
        assert abs(fit.values[name] - value) < max(5 * fit.deviations[name], 1e-4)
        assert fit.values[name] == pytest.approx(value, rel=0.02)


def test_a_given_phase_goes_before_the_time_stamps(late_record):
    model = kz.library.duffing()
    moved = kz.Record.from_arrays(
        late_record.time - late_record.time[0] + 1e3,
        {name: late_record[name] for name in late_record.channels},
        period=model.period,
        noise=late_record.noise,
        phase=float(late_record.time[0] % model.period),
    )
    same = [
        kz.identify(model.with_values(k=0.1, B=0.22), record, free=["k", "B"], method=kz.ShootingFit())
        for record in (moved, late_record)
    ]
    for name in TRUTH:
        assert same[0].values[name] == pytest.approx(same[1].values[name], rel=1e-6)


def test_cutting_a_record_keeps_its_place_in_the_excitation(late_record):
    model = kz.library.duffing()
    for record in (
        late_record.with_attributes(period=model.period),
        late_record.with_attributes(period=model.period, phase=0.4),
    ):
        later = record.samples(slice(30, None))
        assert later.excitation_start == pytest.approx(record.excitation_start, abs=1e-9)
        assert 0 <= later.phase < model.period
