"""What a rig does wrong, and what people do to it: named, refused, and the rig in its safe state."""

import math
from dataclasses import replace

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import RigError, RigLimitError
from kapitza.rig import (
    Experiment,
    Feedback,
    FourierSeries,
    NoiseLevel,
    PeriodicInput,
    PureDelay,
    RigParameter,
    SecondOrder,
    SimulatedRig,
    duffing_rig,
    settle_and_measure,
)

DEMAND = {"x": FourierSeries(1.0, [0.0, 0.3, 0.1])}


class Spoilt:
    """A rig whose samples are changed on their way; counts how often it was stopped."""

    def __init__(self, rig, change):
        self._rig, self._change, self.stops = rig, change, 0

    def __getattr__(self, name):
        return getattr(self._rig, name)

    def run(self, samples):
        return self._change(self._rig.run(samples))

    def stop(self):
        self.stops += 1
        self._rig.stop()

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.stop()


def at(index, value):
    def change(array):
        array = np.array(array)
        array[index] = value
        return array

    return change


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda s: replace(s, values=at((7, 0), math.nan)(s.values)), 'The sensor "x" gave nan at sample 7'),
        (lambda s: replace(s, values=at((7, 0), math.inf)(s.values)), 'The sensor "x" gave inf'),
        (lambda s: replace(s, control=at((3, 0), math.nan)(s.control)), 'The sensor "control of x" gave nan'),
        (lambda s: replace(s, phases=s.phases + 0.2 * (np.arange(len(s)) > 50)), r"jumps by 0\.22 rad at sample 51"),
        (lambda s: replace(s, phases=at(5, math.nan)(s.phases)), "phases that are not finite"),
        (lambda s: replace(s, values=s.values[:-1]), r"values of shape \(314, 1\) for 315 samples, not \(315, 1\)"),
        (lambda s: replace(s, control=s.control[:, :0]), r"control of shape \(315, 0\) for"),
    ],
)
def test_samples_that_are_not_what_was_asked_for_are_refused(change, text):
    rig = Spoilt(duffing_rig(), change)
    with pytest.raises(RigError, match=text), rig:
        settle_and_measure(rig, DEMAND, {"B": 0.1, "omega": 1.0}, 3)
    assert rig.stops >= 1
    with pytest.raises(RigError, match="safe state"):
        rig.run(1)


def test_phases_may_be_wrapped():
    rig = Spoilt(duffing_rig(), lambda s: replace(s, phases=np.mod(s.phases, 2 * np.pi)))
    wrapped = settle_and_measure(rig, DEMAND, {"B": 0.1, "omega": 1.0}, 3)
    plain = settle_and_measure(duffing_rig(), DEMAND, {"B": 0.1, "omega": 1.0}, 3)
    assert wrapped.coefficients == pytest.approx(plain.coefficients, abs=1e-12)


def test_whatever_happens_inside_the_rig_is_left_in_its_safe_state():
    def used(rig, problem):
        with rig:
            rig.set(DEMAND, B=0.2, omega=1.0)
            rig.run(100)
            raise problem

    for problem in (ValueError("mine"), KeyboardInterrupt(), SystemExit(3)):
        rig = duffing_rig()
        with pytest.raises(type(problem)):
            used(rig, problem)
        with pytest.raises(RigError, match="safe state"):
            rig.run(1)

    def broken(point):
        raise ZeroDivisionError("in a watcher")

    rig = Spoilt(duffing_rig(), lambda s: s)
    test = Experiment(rig, frequency="omega", modes=2, values={"B": 0.1, "omega": 0.8}, scales={"x": 1.0})
    with pytest.raises(ZeroDivisionError, match="in a watcher"):
        test.follow(None, "omega", (0.5, 1.5), watch=broken)
    assert rig.stops == 1


def test_peaks_are_found_between_the_points_of_the_grid():
    rng = np.random.default_rng(5)
    fine = np.linspace(0, 2 * np.pi, 200_001)
    for modes in (1, 2, 5, 9):
        for _ in range(3):
            series = FourierSeries(1.0, rng.standard_normal(2 * modes + 1))
            for order in (0, 1):
                exact = np.abs(series(fine, order)).max()
                assert series.peak(order) == pytest.approx(exact, rel=1e-8)
                assert series.peak(order) >= exact * (1 - 1e-12)


def limited(limit=1.0, rate_limit=2.0, ramp=0.0):
    model = kz.Model.from_equations("x'' + x' + x = 0", start={"x": 0.0, "x'": 0.0})
    feedback = [Feedback("x", (1.0, 1.0), limit=limit, rate_limit=rate_limit)]
    return SimulatedRig(model, feedback=feedback, sample_time=0.01, ramp=ramp)


def demanded(rig, count):
    """Value and rate of the demand at the samples to come."""
    numbers = rig._number + np.arange(count, dtype=float)
    times = rig._time + rig.sample_time * np.arange(count)
    return rig._demands["x"].values(times, numbers, rig.sample_time)


def test_demands_keep_within_their_limits_on_the_way_from_one_to_the_next():
    rig = limited()
    turns = [
        (2.0, [0, 0.9, 0]),
        (2.0, [0, 0, -0.9]),
        (2.0, [0.5, 0.0, 0.3]),
        (4.0, [0, 0.4, 0.0]),
        (2.0, [0, -0.9, 0.3]),
    ]
    seen = []
    for frequency, coefficients in turns:
        rig.set({"x": FourierSeries(frequency, coefficients)})
        seen.append(demanded(rig, 40))
        rig.run(40)  # far less than a change takes
    seen.append(demanded(rig, 20_000))
    path = np.concatenate(seen)
    assert np.abs(path[:, 0]).max() <= 1.0
    assert np.abs(path[:, 1]).max() <= 2.0
    # No jump either: the values follow from the rates.
    assert np.abs(np.diff(path[:, 0]) - 0.005 * (path[1:, 1] + path[:-1, 1])).max() < 1e-4
    assert path[-1, 0] == pytest.approx(FourierSeries(2.0, [0, -0.9, 0.3])(rig._time + 199.99), abs=1e-9)


def test_demands_outside_limits_of_value_rate_and_change_are_refused():
    rig = limited()
    for series, text in (
        (FourierSeries(2.0, [0.2, 0.9, 0.0]), r"value of 1\.1, the limit is 1"),
        (FourierSeries(9.0, [0.0, 0.3, 0.0]), r"rate of 2\.7/s, the limit is 2/s"),
        (FourierSeries(2.0, [0.0, 0.99, 0.0]), r"2 % below the limit of 2/s are needed for the change"),
        (FourierSeries(1.0, [0.0, 0.7072, 0.7072]), r"value of 1, the limit is 1|value of 1\."),
    ):
        with pytest.raises(RigLimitError, match=text):
            rig.set({"x": series})
    with pytest.raises(RigError, match="safe state"):
        rig.run(1)
    rig.set({"x": FourierSeries(1.0, [0.0, 0.9, 0.0])})
    with pytest.raises(RigError, match=r"still changing: let the rig run for \d+ samples"):
        rig.set({"x": FourierSeries(1.3, [0.0, 0.5, 0.0])})
    rig.run(2000)
    with pytest.raises(RigLimitError, match="change the frequency in smaller steps"):
        rig.set({"x": FourierSeries(2.3, [0.0, 0.2, 0.0])})
    rig.set({"x": FourierSeries(1.3, [0.0, 0.5, 0.0])})
    for limit in (math.nan, 0.0, -1.0):
        with pytest.raises(RigError, match="give a number, more than 0"):
            PeriodicInput("x", limit=limit)
        with pytest.raises(RigError, match="give a number, more than 0"):
            PeriodicInput("x", rate_limit=limit)
    with pytest.raises(RigError, match="lower one first"):
        RigParameter("a", 0.0, bounds=(1.0, 0.0))
    for made in (PureDelay, lambda d: SecondOrder(10.0, delay=d), lambda d: Feedback("x", delay=d)):
        with pytest.raises(RigError, match="0 or more"):
            made(-0.01)
    with pytest.raises(RigError, match="gains"):
        Feedback("x", (math.nan, 1.0))


def test_a_demand_that_changes_slowly_is_waited_for():
    """With a ramp of 40 periods two periods agree at once, at the demand of before."""
    slow = limited(limit=10.0, rate_limit=math.inf, ramp=40 * 2 * np.pi / 5)
    quick = limited(limit=10.0, rate_limit=math.inf)
    series = {"x": FourierSeries(5.0, [0.0, 0.4, 0.0])}
    expected = settle_and_measure(quick, series).series("x")
    late = settle_and_measure(slow, series)
    assert late.settled
    assert late.waited >= 38
    assert late.series("x").coefficients == pytest.approx(expected.coefficients, abs=1e-3)
    given_up = settle_and_measure(limited(limit=10.0, rate_limit=math.inf, ramp=300.0), series, longest=20)
    assert not given_up.settled
    assert given_up.waited + given_up.averaged == 20


def test_what_does_not_settle_is_not_learnt_as_noise():
    """Without damping from the controller a transient lasts for many periods."""
    rig = duffing_rig(gains=(0.0, 0.0))
    noise = NoiseLevel()
    settle_and_measure(duffing_rig(), DEMAND, {"B": 0.1, "omega": 1.0}, 3, noise=noise)
    before = noise.variance.copy()
    found = settle_and_measure(rig, DEMAND, {"B": 0.1, "omega": 1.0}, 3, longest=4, noise=noise)
    assert not found.settled
    assert np.array_equal(noise.variance, before)
