"""Roots of hybrid tests with delay against an independent discretisation and against published rates."""

import math

import numpy as np
import pytest

from kapitza.errors import RigError
from kapitza.rig import Compensation, PureDelay, SecondOrder, delay_stability, essential_radius

M, C, K, TAU = 0.2, 0.1, 200.0, 0.010


def hybrid(m, compensation=0, actuator=None, delay=TAU):
    return delay_stability(M, C, K, m, delay, compensation, actuator)


def residual(root, m, delay=TAU):
    return M * root**2 + C * root + K + m * root**2 * np.exp(-root * delay)


@pytest.mark.parametrize(
    ("m", "rate", "imaginary"), [(0.27, 30.98, 314.5), (0.25, 23.30, None), (0.21, 5.89, None), (0.199, 0.516, None)]
)
def test_leading_root_of_direct_coupling(m, rate, imaginary):
    result = hybrid(m)
    assert result.rate == pytest.approx(rate, rel=2e-3)
    assert abs(residual(result.roots, m)).max() < 1e-6 * K
    assert not result.stable
    if imaginary:
        assert result.roots[0].imag == pytest.approx(imaginary, abs=0.1)
        assert "Essentially unstable" in result.verdict
    assert result.essential_rate == pytest.approx(np.log(m / M) / TAU)


def test_lighter_masses_are_stable_up_to_a_critical_delay():
    assert hybrid(0.19).rate == pytest.approx(-1.38, abs=0.01)
    for m, critical in ((0.19, 22.2), (0.15, 49.8), (0.10, 70.8)):
        result = hybrid(m)
        assert result.stable
        assert 1e3 * result.critical_delay == pytest.approx(critical, abs=0.06)
        assert hybrid(m, delay=0.99 * result.critical_delay).stable
        assert not hybrid(m, delay=1.01 * result.critical_delay).stable
    assert hybrid(0.27).critical_delay == 0.0


@pytest.mark.parametrize(
    ("order", "rates"),
    [(1, (114.1, 31.2, None)), (2, (159.5, 81.6, None)), (3, (190.6, 115.2, 19.7)), (4, (214.4, 140.4, 48.6))],
)
def test_compensation_makes_it_worse(order, rates):
    for m, rate in zip((0.27, 0.10, 0.02), rates, strict=True):
        result = hybrid(m, order)
        if rate is None:
            assert result.stable
        else:
            assert result.essential_rate == pytest.approx(rate, abs=0.06)
            assert result.rate >= result.essential_rate
            assert not result.stable


def test_compensation_by_least_squares():
    expected = {(10, 1): (122, 43.5), (10, 2): (245, 159), (40, 1): (19.5, None), (40, 2): (84, 25)}
    for (points, order), rates in expected.items():
        for m, rate in zip((0.27, 0.10), rates, strict=True):
            result = hybrid(m, Compensation(order, points, 1e-3))
            if rate is None:
                assert result.stable
                assert result.robust_factor == pytest.approx(1.16, abs=0.005)
                assert "Not robust" in result.verdict
            else:
                assert result.essential_rate == pytest.approx(rate, abs=0.5)


def test_weights_extrapolate_polynomials():
    for compensation in (Compensation(3), Compensation(2, 12, 1e-3), Compensation(1, 3, 4e-3)):
        weights, spacing = compensation.weights(TAU)
        ages = spacing * np.arange(weights.size)
        for power in range(compensation.order + 1):
            assert weights @ (0.5 - ages) ** power == pytest.approx((0.5 + TAU) ** power, rel=1e-9)


def test_a_slow_actuator_hides_the_instability():
    slow = hybrid(0.27, actuator=SecondOrder(300.0, 5.0, force="F"))
    assert slow.stable
    assert slow.rate == pytest.approx(-1.6, abs=0.05)
    assert "hides" in slow.verdict
    fast = hybrid(0.27, actuator=SecondOrder(1000.0, 5.0, force="F"))
    assert fast.rate == pytest.approx(21.0, abs=0.2)
    faster = hybrid(0.27, actuator=SecondOrder(3000.0, 5.0, force="F"))
    assert faster.rate == pytest.approx(28.0, abs=0.5)
    assert [int(np.sum(r.roots.real > 0)) for r in (slow, fast, faster)] == [0, 1, 3]


def test_essential_radius_is_the_growth_of_the_difference_equation():
    def ratio(t):
        return 1.35 * np.cos(0.6 * np.cos(7.0 * t)) ** 2

    # u(t) = -ratio(t) u(t - τ) from a spike at each phase of the delay: the largest factor after five delays.
    phases = np.linspace(0.0, TAU, 401)
    size = np.ones_like(phases)
    for k in range(5):
        size = size * ratio(0.1 + phases + k * TAU)
    assert essential_radius(ratio, TAU, 0.1, 5) == pytest.approx(size.max(), rel=1e-4)


def test_table_and_refusals():
    table = hybrid(0.27, 2).table()
    assert table["stable"].tolist() == [False]
    assert table["compensation"][0] == "order 2, 3 points spaced the delay"
    with pytest.raises(RigError, match="moving_mass = -1"):
        delay_stability(0.2, 0.1, 200.0, -1, 0.01)
    with pytest.raises(RigError, match="degree 3 through 2 points"):
        Compensation(3, 2)
    with pytest.raises(RigError, match="finite mass"):
        SecondOrder(100.0, 5.0)


def test_figure_draws_both_panels():
    figure = hybrid(0.19).plot()
    assert len(figure.axes) == 2
    assert len(figure.axes[1].lines[0].get_xdata()) > 10


def test_verdicts_turn_at_the_critical_delay():
    for m, critical in ((0.19, 22.2e-3), (0.15, 49.8e-3), (0.10, 70.8e-3)):
        before, after = (delay_stability(0.2, 0.1, 200.0, m, f * critical) for f in (0.98, 1.02))
        assert before.stable
        assert before.verdict.startswith("Stable")
        assert not after.stable
        assert after.verdict.startswith("Unstable")
        assert 1e3 * after.critical_delay == pytest.approx(1e3 * critical, abs=0.05)
    # Without damping a short delay damps, and the first destabilising one is not zero.
    free = delay_stability(0.2, 0.0, 200.0, 0.19, 0.010)
    assert free.stable
    assert free.critical_delay > 0.010
    assert not free.at_delay(1.01 * free.critical_delay).stable
    assert free.at_delay(0.99 * free.critical_delay).stable


def test_what_contradicts_itself_is_refused():
    for settings, text in (
        ({"damping": math.nan}, "damping = nan"),
        ({"damping": -0.1}, "0 or more"),
        ({"compensation": 1.5}, "whole number"),
        ({"compensation": True}, "whole number"),
        ({"actuator": PureDelay(0.01)}, "give a SecondOrder"),
        ({"actuator": SecondOrder(300.0, delay=0.02)}, "20 ms late, the test has delay = 10 ms"),
    ):
        given = {"mass": 0.2, "damping": 0.1, "stiffness": 200.0, "moving_mass": 0.1, "delay": 0.01, **settings}
        with pytest.raises(RigError, match=text):
            delay_stability(**given)
    with pytest.raises(RigError, match="give a number, more than 0"):
        Compensation(1, 2, -1e-3)
    orders = [delay_stability(0.2, 0.1, 200.0, 0.1, 0.01, kind(2)).rate for kind in (int, np.int64)]
    assert orders[0] == orders[1]
