"""Each way to fail, provoked: the message must name it and say what to try."""

import numpy as np
import pytest

import kapitza as kz

TIME = np.arange(400) * 0.1


def reading(values, seed=0):
    return kz.Record.from_arrays(TIME, {"x": values + 0.01 * np.random.default_rng(seed).normal(size=TIME.size)})


def failure(model, record, free, **settings):
    with pytest.raises(kz.KapitzaError) as caught:
        kz.identify(model, record, free, kz.ShootingFit(max_iterations=25, **settings))
    return str(caught.value)


def test_period_slip():
    """Driven at 1.3 rad/s, the data go at 1.0 rad/s: over 40 s the fit makes 8 oscillations, the data 6."""
    model = kz.Model.from_equations(
        "x'' + d*x' + k*x = F*cos(w*t)",
        parameters={
            "d": kz.Parameter("d", 0.1, bounds=(0.05, 0.2)),
            "k": kz.Parameter("k", 3.0, bounds=(2.5, 3.5)),
            "F": 1.5,
            "w": 1.3,
        },
    )
    words = failure(model, reading(np.cos(TIME)), ["d", "k"])
    assert "out of step" in words
    assert "slip by 2 periods (the data make 6 oscillations" in words
    assert "period and phase" in words


def test_flat_line():
    """Damping that is bounded far above the data's lets nothing swing."""
    model = kz.Model.from_equations(
        "x'' + d*x' + k*x = 0", parameters={"d": kz.Parameter("d", 30.0, bounds=(20.0, np.inf)), "k": 1.0}
    )
    words = failure(model, reading(np.cos(TIME)), ["d", "k"])
    assert "flat line" in words
    assert "better starting values" in words
    assert "At a bound: d" in words


def test_unobserved_state():
    """Noise that no motion explains, from one of three states: the two unseen ones are named."""
    noise = np.random.default_rng(3).normal(size=TIME.size)
    words = failure(kz.library.lorenz(), kz.Record.from_arrays(TIME, {"z": noise}), ["sigma", "rho"])
    assert "No sensor sees x, y" in words
    assert "one more channel" in words


def test_sloppy_direction():
    """Two dampers that act alike, on data that no oscillator makes."""
    model = kz.Model.from_equations("x'' + (d + e)*x' + w**2*x = 0", parameters={"d": 0.3, "e": 0.2, "w": 1.0})
    record = reading(np.sign(np.sin(TIME**1.5)))
    assert "only d + e, w" in failure(model, record, ["d", "e", "w"])
    words = kz.identify(model, record, ["d", "e", "w"], kz.ShootingFit(throw=False)).post_mortem
    assert "nearly exchangeable" in words
    assert "only d + e, w" in words
    assert "Fix 1 of them" in words


def test_gaps_that_do_not_close():
    """A quantity that only decays cannot turn back: links stay open, and the worst place is told."""
    model = kz.Model.from_equations("x' = -a*x", parameters={"a": 1.0})
    words = failure(model, reading(np.cos(3 * TIME)), ["a"])
    assert "gaps between shooting intervals do not close" in words
    assert "worst near t = " in words
    assert "process_noise=True" in words


def test_residuals_far_above_the_scatter_of_the_readings_are_told():
    """A hardening spring fitted by a linear one: no noise explains what is left of the third harmonic."""
    hard = kz.Model.from_equations("x'' + k*x + x**3 = 0", parameters={"k": 1.0})
    soft = kz.Model.from_equations("x'' + k*x = 0", parameters={"k": 1.0})
    noise = 0.002 * np.random.default_rng(0).normal(size=TIME.size)
    record = kz.Record.from_arrays(TIME, {"x": kz.simulate(hard, x0=[1.5, 0.0], t=TIME)["x"] + noise})
    fit = kz.identify(soft, record, ["k"], kz.ShootingFit())
    (text,) = [text for text in fit.warnings if "misses the data" in text]
    assert "times the noise (by scatter of the samples)" in text
    assert fit.misfit.size == pytest.approx(
        np.std(fit.motion.predicted[:, 0] - fit.motion.measured[:, 0]) / 0.002, rel=0.1
    )
    assert "% of the signal" in fit.headline
    assert not [text for text in fit.warnings if "starting values" in text]  # all starts agree
