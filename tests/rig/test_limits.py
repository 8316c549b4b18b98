"""What is sent to a rig of any class stays within the limits that it declares."""

import math
from dataclasses import replace

import numpy as np
import pytest
from harness.recording_rig import RecordingRig, attack

from kapitza.errors import RigError, RigLimitError, Status
from kapitza.rig import (
    Experiment,
    FloquetSettings,
    FourierSeries,
    LimitedRig,
    PeriodicInput,
    RigParameter,
    RigStepping,
    advise_gains,
    measure_multipliers,
    measure_orbit,
    serve_rig,
    settle_and_measure,
)
from kapitza.rig.network import RemoteRig

TOO_LARGE = FourierSeries(5.0, [0.0, 2.24, 0.0])
"""Against a limit of 1.5."""


def experiment(rig, **values):
    return Experiment(
        rig, frequency="omega", modes=2, extra=2, scales={"x": 1.0}, values={"p": 0.5, "omega": 5.0, **values}
    )


def test_a_users_class_that_checks_nothing_is_sent_nothing_beyond_its_limits():
    rig = RecordingRig()
    test = experiment(rig)
    with pytest.raises(RigLimitError, match=r'"x" reaches a value of 2\.24 mm, the limit is 1\.5 mm: nothing was sent'):
        test.measure(np.array([0.0, 2.24, 0.0, 0.0, 0.0]), test.values)
    with pytest.raises(RigLimitError, match=r'"omega" = 11 rad/s is outside 2 … 9'):
        test.measure(np.zeros(5), {**test.values, "omega": 11.0})
    with pytest.raises(RigLimitError, match="nothing was sent"):
        settle_and_measure(rig, {"x": TOO_LARGE})
    with pytest.raises(RigLimitError, match="reaches a rate of"):
        settle_and_measure(rig, {"x": FourierSeries(9.0, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1.4, 0.0])})
    with pytest.raises(RigLimitError, match="nothing was sent"):
        advise_gains(test, {"x": FourierSeries(5.0, [0.0, 1.4, 0.0])}, step=0.5)
    assert rig.counts["samples"] > 0  # the gains begin with the demand itself
    assert not rig.beyond
    point = test.follow(None, "p", (0.0, 5.0), stepping=RigStepping(max_points=3))[-1]
    with pytest.raises(RigLimitError, match="nothing was sent"):
        measure_multipliers(test, point, FloquetSettings(angle=1.0, periods=4))
    assert measure_orbit(test, point, "p").refined
    assert not rig.beyond


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_never_leaves(number):
    rig = RecordingRig()
    limited = LimitedRig(rig)
    with pytest.raises(RigError, match="not finite"):
        limited.set({"x": FourierSeries(5.0, [0.0, number, 0.0])})
    for name in ("p", "omega"):
        with pytest.raises(RigError):
            limited.set({"x": FourierSeries(5.0, [0.0, 0.1, 0.0])}, **{name: number})
    with pytest.raises(RigError, match="rad/s"):
        limited.set({"x": FourierSeries(number, [0.0, 0.1, 0.0])})
    # Finite coefficients whose sum is not, on an input without limits.
    rig.inputs = (PeriodicInput("x", feedback="x"),)
    with pytest.raises(RigLimitError, match="value of inf"):
        limited.set({"x": FourierSeries(5.0, [1.7e308] * 3)})
    assert rig.counts["set"] == 0


def test_the_attack_sees_what_lies_beyond():
    """Without the guard the recording rig finds faults: in values, in rates, in parameters, on the way and at rest."""
    rig = RecordingRig(ramp=0.05)
    rig.set({"x": TOO_LARGE}, omega=11.0)
    rig.run(100)
    text = " ".join(rig.beyond)
    for what in ("omega 11.0", "demand of order 0", "a sample"):
        assert what in text
    rig = RecordingRig(ramp=0.05)
    rig.set({"x": FourierSeries(5.0, [1.4, 0.0, 0.0])})
    rig.set({"x": FourierSeries(5.0, [-1.4, 0.0, 0.0])})  # allowed both, but not within 50 ms
    rig.run(20)
    assert [b.split()[:2] for b in rig.beyond] == [["a", "rate"]]


def test_random_demands_ramps_and_walks_stay_within_the_limits():
    sent = 0
    for seed in range(4):
        rig = attack(seed)
        assert not rig.beyond
        sent += rig.counts["set"]
    assert sent > 100


def test_the_peak_of_a_demand_is_an_upper_bound():
    """Fejér's polynomials have their peak, known exactly, where no grid of a fixed size need have a point."""
    random = np.random.default_rng(3)
    for modes in (1, 3, 8, 30):
        weights = 2 * (1 - np.arange(1, modes + 1) / (modes + 1))
        shift = random.uniform(0, 2 * np.pi)
        pairs = np.column_stack([weights * np.cos(shift * np.arange(1, modes + 1)),
                                 weights * np.sin(shift * np.arange(1, modes + 1))])  # fmt: skip
        series = FourierSeries(1.7, np.concatenate([[1.0], pairs.ravel()]))
        assert series.peak() >= modes + 1
        assert series.peak() == pytest.approx(modes + 1, rel=1e-11)
    cosine = FourierSeries(3.0, [0.0, 1.2, 1.6])
    assert cosine.peak(1) == pytest.approx(6.0, rel=1e-11)
    # A demand that reaches its limit exactly is allowed; the next number is not.
    rig = RecordingRig(ramp=None, rate_limit=math.inf)
    LimitedRig(rig).set({"x": FourierSeries(5.0, [0.0, 0.9, 1.2])})
    with pytest.raises(RigLimitError, match=r"value of 1\.50000000\d+ mm, the limit is 1\.5"):
        LimitedRig(rig).set({"x": FourierSeries(5.0, [0.0, 0.9, 1.2 + 1e-9])})
    assert rig.counts["set"] == 1


def test_a_change_goes_in_steps_that_keep_the_rate():
    """From 1.4 to -1.4 mm at 40 mm/s: a jump goes by 0.4 mm a sample, a ramp of 50 ms in three."""
    for ramp, least in ((0.0, 8), (0.05, 3)):
        rig = RecordingRig(ramp=ramp)
        limited = LimitedRig(rig)
        limited.set({"x": FourierSeries(5.0, [1.4, 0.0, 0.0])})
        before = rig.counts["set"]
        limited.set({"x": FourierSeries(5.0, [-1.4, 0.0, 0.0])})
        assert not rig.beyond
        assert rig.counts["set"] - before == pytest.approx(least, abs=1)
        limited.run(100)
        assert rig._last == -1.4
        assert not rig.beyond
    with pytest.raises(RigLimitError, match=r"2 % are needed for the change itself"):
        limited.set({"x": FourierSeries(8.0, [0.0, 0, 0, 0, 0, 0, 0, 0, 0, 0.9 * 40 / 36, 0.0])})
    with pytest.raises(RigError, match=r"The ramp of .* give a finite number"):
        PeriodicInput("x", ramp=math.nan)


def test_a_new_frequency_does_not_make_the_old_demand_too_fast():
    """1.3 mm at 7 rad/s and 0.13 mm in the fourth mode at 9 rad/s: the first would run too fast at 9, twelve mm/s."""
    rig = RecordingRig(ramp=0.1, rate_limit=10.0)
    limited = LimitedRig(rig)
    slow, fast = FourierSeries(7.0, [0.0, 1.3, 0.0]), FourierSeries(9.0, [0.0, 0.9, 0.0])
    for series in (slow, fast, slow):
        limited.set({"x": series}, omega=series.frequency)
        limited.run(150)
    assert not rig.beyond
    limited.set({}, p=1.0)  # parameters alone
    assert rig._values == {"p": 1.0, "omega": 7.0}


def test_a_walk_ends_at_its_bounds_and_at_those_of_the_rig_without_passing_them():
    rig = RecordingRig()
    sent = []
    plain = rig.set

    def noted(demands, **parameters):
        sent.append(parameters["p"])
        plain(demands, **parameters)

    rig.set = noted
    branch = experiment(rig).follow(None, "p", (0.4, 0.83))
    assert branch.status is Status.CONVERGED
    assert "at the bound" in branch.message
    assert branch[-1].value == pytest.approx(0.83, abs=1e-9)
    assert min(sent) >= 0.4
    assert max(sent) <= 0.83
    # Those of the rig hold where none are given: 5 N; a demand that may not pass 1.4 mm ends the branch before.
    rig = RecordingRig(ramp=None, rate_limit=math.inf)
    test = Experiment(rig, frequency="omega", modes=5, extra=2, scales={"x": 1.0}, values={"p": 3.0, "omega": 5.0})
    start = {"x": FourierSeries(5.0, [0.0, 1.2, 0.0])}
    rig.inputs = (replace(rig.inputs[0], limit=3.0),)
    stepping = RigStepping(beyond=0.1)
    assert test.follow(start, "p", stepping=stepping)[-1].value == pytest.approx(5.0)
    rig.inputs = (replace(rig.inputs[0], limit=1.4),)
    stopped = test.follow(start, "p", stepping=stepping)
    assert stopped.status is Status.STALLED
    assert "reached a limit of the rig" in stopped.message
    assert "the limit is 1.4 mm" in stopped.message
    # Steps are shortened up to the limit.
    assert 0.985 * 1.4 < stopped[-1].measurement.demands["x"].peak() <= 1.4
    assert not rig.beyond
    with pytest.raises(RigError, match="outside of bounds"):
        experiment(rig).follow(None, "p", (1.0, 2.0))
    with pytest.raises(RigError, match="at the bound"):
        experiment(rig).follow(None, "p", (0.0, 0.5))


def test_a_monitor_sees_a_walk_and_ends_it():
    class Counting:
        def __init__(self):
            self.seen, self.cancelled = [], False

        def show(self, progress):
            self.seen.append(progress)
            self.cancelled |= progress.done >= 5

    rig, monitor = RecordingRig(), Counting()
    branch = experiment(rig).follow(None, "p", (0.0, 5.0), monitor=monitor)
    assert branch.status is Status.INTERRUPTED
    assert len(branch) == 5
    assert "p = " in monitor.seen[-1].text
    assert monitor.seen[-1].ended
    assert rig.counts["stop"] > 0
    assert rig._series is None


def test_the_server_holds_the_limits_of_any_class_against_any_client(monkeypatch):
    rig = RecordingRig(ramp=0.05)
    server = serve_rig(rig)
    client = RemoteRig(server.address, server.token, timeout=60.0)
    try:
        assert client.inputs == rig.inputs
        monkeypatch.setattr("kapitza.rig.network.client.check_settings", lambda *a: None)
        with pytest.raises(RigLimitError, match="the limit is"):
            client.set({"x": TOO_LARGE})
        with pytest.raises(RigLimitError, match="outside 2 … 9"):
            client.set({"x": FourierSeries(5.0, [0.0, 0.1, 0.0])}, omega=11.0)
        client.set({"x": FourierSeries(5.0, [1.4, 0.0, 0.0])})
        client.set({"x": FourierSeries(5.0, [-1.4, 0.0, 0.0])})  # in steps, on the side of the rig
        client.run(50)
        assert rig._last == -1.4
        assert not rig.beyond
    finally:
        client.close()
        server.close()


@pytest.mark.parametrize(
    "problem", [OSError("line is dead"), RigError("line is dead"), KeyboardInterrupt("line is dead")]
)
def test_a_driver_that_fails_while_it_is_set_is_stopped(problem):
    rig = RecordingRig()
    limited = LimitedRig(rig)
    limited.set({"x": FourierSeries(5.0, [0.0, 0.1, 0.0])})
    limited.run(20)

    def broken(demands, **parameters):
        raise problem

    rig.set = broken
    with pytest.raises(type(problem), match="line is dead"):
        limited.set({"x": FourierSeries(5.0, [0.0, 0.2, 0.0])})
    assert rig.counts["stop"] == 1


def test_what_two_guards_send_counts_as_sent_to_one_rig():
    """Each would begin from rest: 2.8 mm in one step of 50 ms are 56 mm/s, the limit is 40."""
    rig = RecordingRig(ramp=0.05)
    up, down = ({"x": FourierSeries(5.0, [level, 0.0, 0.0])} for level in (1.4, -1.4))
    settle_and_measure(rig, up)
    with pytest.raises(RigError, match=r"may follow them still.*LimitedRig\(rig\)\.stop\(\)"):
        settle_and_measure(rig, down)
    LimitedRig(rig).stop()
    settle_and_measure(rig, down)
    LimitedRig(rig).stop()
    guarded = LimitedRig(rig)
    settle_and_measure(guarded, up)
    settle_and_measure(guarded, down)
    assert not rig.beyond


def test_a_stop_that_fails_leaves_the_demands_in_mind():
    rig = RecordingRig(ramp=0.05)
    limited = LimitedRig(rig)
    limited.set({"x": FourierSeries(5.0, [1.4, 0.0, 0.0])})
    limited.run(20)

    def broken():
        raise OSError("line is dead")

    rig.stop, stop = broken, rig.stop
    with pytest.raises(OSError, match="line is dead"):
        limited.stop()
    rig.stop = stop
    limited.set({"x": FourierSeries(5.0, [-1.4, 0.0, 0.0])})
    limited.run(20)
    assert not rig.beyond


@pytest.mark.parametrize("limit", [0, -1.0, None, math.nan, "5", (-1.0, 2.0), True])
def test_limits_that_are_none_are_refused_by_name(limit):
    for word in ("limit", "rate_limit"):
        with pytest.raises(RigError, match=f'The {word} of "x" = '):
            PeriodicInput("x", **{word: limit})


@pytest.mark.parametrize("bounds", [None, (0.0,), (0.0, None), (None, 1.0), (1.0, 0.0), (0.0, math.nan), "ab"])
def test_bounds_that_are_none_are_refused_by_name(bounds):
    with pytest.raises(RigError, match='The bounds of "p"'):
        RigParameter("p", 0.5, bounds=bounds)


def test_peaks_at_extreme_frequencies():
    for frequency in (1e-300, 1e300):
        assert FourierSeries(frequency, [0.0, 0.6, 0.8]).peak() == pytest.approx(1.0, rel=1e-11)
    assert FourierSeries(1e300, [0.0, 1e-300, 0.0]).peak(1) == pytest.approx(1.0, rel=1e-11)


def test_a_walk_whose_modes_grow_where_it_meets_a_limit_goes_on():
    rig = attack(294576, 3)
    assert rig.counts["set"] > 100
    assert not rig.beyond


def test_a_guard_is_not_taken_for_one_that_is_gone():
    """Python gives the address of a dead object to the next: then the rate of a change was not checked."""
    rig = RecordingRig(ramp=0.05)
    up, down = ({"x": FourierSeries(5.0, [level, 0.0, 0.0])} for level in (1.4, -1.4))
    settle_and_measure(rig, up)
    for _ in range(100):
        with pytest.raises(RigError, match="may follow them still"):
            LimitedRig(rig).set(down)
    assert not rig.beyond
