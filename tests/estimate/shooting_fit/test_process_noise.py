"""Motion that is really kicked: rigid links cannot follow it, soft ones tell the size of the kicks."""

import numpy as np
import pytest
from scipy import linalg, optimize

import kapitza as kz

FREE = ["sigma", "rho", "beta"]
KICK = 0.02


@pytest.fixture(scope="module")
def kicked():
    """Lorenz motion with a Gaussian kick of 0.02 spreads at every sample, read with 1 % noise."""
    model, rng = kz.library.lorenz(), np.random.default_rng(11)
    flow, spread = kz.Flow(model), np.array([7.9, 9.0, 8.6])
    states = [np.array([1.0, 2.0, 20.0])]
    for _ in range(1500):
        states.append(flow.propagate(states[-1], 0.0, 0.02, tangents=False).state + KICK * spread * rng.normal(size=3))
    readings = np.array(states) + 0.01 * spread * rng.normal(size=(1501, 3))
    noise = dict(zip("xyz", 0.01 * spread, strict=True))
    return kz.Record.from_arrays(np.arange(1501) * 0.02, dict(zip("xyz", readings.T, strict=True)), noise=noise)


def test_size_of_kicks_and_parameters_are_recovered(kicked):
    start = kz.library.lorenz().with_values(sigma=7.0, rho=35.0, beta=2.0)
    fit = kz.identify(start, kicked, FREE, kz.ShootingFit(process_noise=True))
    spread = kicked.values().std(axis=0)
    relative = np.array(list(fit.motion.process_noise.values())) / spread
    assert relative == pytest.approx(KICK, rel=0.2)
    truth = np.array([10.0, 28.0, 8 / 3])
    errors = np.array([fit.values[n] for n in FREE]) - truth
    assert (np.abs(errors) < 4 * np.array(list(fit.deviations.values()))).all()


def test_given_kicks_are_used(kicked):
    sizes = {"x": 0.158, "y": 0.18, "z": 0.172}
    fit = kz.identify(kz.library.lorenz().with_values(rho=35.0), kicked, FREE, kz.ShootingFit(process_noise=sizes))
    assert abs(fit.values["rho"] - 28) < 4 * fit.deviations["rho"]
    assert fit.motion.process_noise == sizes
    with pytest.raises(kz.KapitzaError, match="not a state"):
        kz.identify(kz.library.lorenz(), kicked, FREE, kz.ShootingFit(process_noise={"w": 1.0}))


def oscillator(d=0.3, k=4.0):
    return kz.Model.from_equations("x'' + d*x' + k*x = 0", parameters={"d": d, "k": k})


def transition(d, k, step=0.05):
    return linalg.expm(np.array([[0.0, 1.0], [-k, -d]]) * step)


def kicked_oscillation(seed, count, kick=0.1, noise=0.02):
    """Readings of x, its rate kicked at every sample: y = O x0 + T e + n, with O and T by powers of the transition."""
    rng = np.random.default_rng(seed)
    free, forced = responses(0.3, 4.0, count)
    readings = free @ [1.0, 0.0] + forced @ (kick * rng.normal(size=count)) + noise * rng.normal(size=count)
    return np.arange(count) * 0.05, readings


def responses(d, k, count):
    """Position at sample i from unit states (count, 2), and from a unit kick of the rate at sample j (count, count)."""
    one, powers = transition(d, k), [np.eye(2)]
    for _ in range(count - 1):
        powers.append(one @ powers[-1])
    free = np.array([p[0] for p in powers])
    return free, linalg.toeplitz(free[:, 1], np.zeros(count)) - np.diag(free[:1, 1].repeat(count))


def minus_log_likelihood(readings, d, k, kick, noise):
    """Exact, by the covariance of the readings, the first state being unknown (integrated over a flat prior)."""
    free, forced = responses(d, k, readings.size)
    factor = linalg.cho_factor(kick**2 * forced @ forced.T + noise**2 * np.eye(readings.size), lower=True)
    white = linalg.cho_solve(factor, free)
    information = free.T @ white
    state = np.linalg.solve(information, white.T @ readings)
    rest = readings - free @ state
    return (
        np.log(np.diag(factor[0])).sum()
        + 0.5 * np.linalg.slogdet(information)[1]
        + 0.5 * rest @ linalg.cho_solve(factor, rest)
    )


def test_estimate_and_interval_are_those_of_the_exact_likelihood():
    """States and parameters maximised together give d = 0.05 here instead of 0.3."""
    time, readings = kicked_oscillation(seed=3, count=300)
    record = kz.Record.from_arrays(time, {"x": readings}, noise={"x": 0.02})
    fit = kz.identify(oscillator(0.2, 3.5), record, ["d", "k"], kz.ShootingFit(process_noise={"x'": 0.1}))

    def exact(theta):
        return minus_log_likelihood(readings, *theta, 0.1, 0.02)

    best = optimize.minimize(exact, [0.3, 4.0], method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-9})
    errors = np.array(list(fit.deviations.values()))
    assert np.abs(np.array([fit.values["d"], fit.values["k"]]) - best.x).max() < 0.02 * errors.min()
    step = 0.1 * errors
    hessian = np.empty((2, 2))
    for i, a in enumerate(np.diag(step)):
        for j, b in enumerate(np.diag(step)):
            around = [exact(best.x + s * a + t * b) * s * t for s in (1, -1) for t in (1, -1)]
            hessian[i, j] = sum(around) / (4 * step[i] * step[j])
    assert errors == pytest.approx(np.sqrt(np.diag(np.linalg.inv(hessian))), rel=0.02)
    # The constant is right too: likelihoods of models with and without kicks may be compared.
    assert -fit.likelihood.log_likelihood == pytest.approx(best.fun + 0.5 * 298 * np.log(2 * np.pi), abs=1e-3)


def test_intervals_hold_the_truth_when_kicks_and_noise_are_estimated_too():
    scores = []
    for seed in range(5):
        time, readings = kicked_oscillation(100 + seed, count=400)
        record = kz.Record.from_arrays(time, {"x": readings})
        fit = kz.identify(oscillator(0.2, 3.5), record, ["d", "k"], kz.ShootingFit(process_noise=True))
        scores.append([(fit.values[n] - true) / fit.deviations[n] for n, true in (("d", 0.3), ("k", 4.0))])
        assert fit.motion.process_noise["x"] == 0.0  # a force pushes the rate, not the position
        assert fit.motion.process_noise["x'"] == pytest.approx(0.1, rel=0.4)
        assert fit.noise["x"] == pytest.approx(0.02, rel=0.2)
    # 10 scores of a right interval: rms within 0.57 … 1.46 at 97 %.
    assert 0.57 < np.sqrt(np.mean(np.square(scores))) < 1.46


def test_profile_of_a_kicked_motion_agrees_with_the_exact_one():
    time, readings = kicked_oscillation(seed=3, count=300)
    record = kz.Record.from_arrays(time, {"x": readings}, noise={"x": 0.02})
    fit = kz.identify(oscillator(0.2, 3.5), record, ["d", "k"], kz.ShootingFit(process_noise={"x'": 0.1}))
    ends = kz.profile_interval(fit, "d", 0.9)

    def profile(d):
        found = optimize.minimize_scalar(
            lambda k: minus_log_likelihood(readings, d, k, 0.1, 0.02), bounds=(2.0, 6.0), method="bounded"
        )
        return found.fun

    best = optimize.minimize_scalar(profile, bounds=(0.05, 1.0), method="bounded").fun
    for end in ends:
        assert 2 * (profile(end) - best) == pytest.approx(2.706, rel=0.03)


def test_lost_samples_of_a_kicked_motion():
    """Over lost samples the motion was kicked several times; counted once, the kicks would come out too large."""
    time, readings = kicked_oscillation(seed=8, count=600)
    keep = np.random.default_rng(2).random(600) > 0.3
    record = kz.Record.from_arrays(time[keep], {"x": readings[keep]}, noise={"x": 0.02})
    whole = kz.Record.from_arrays(time, {"x": readings}, noise={"x": 0.02})
    method = kz.ShootingFit(process_noise=True)
    some, every = (kz.identify(oscillator(0.2, 3.5), r, ["d", "k"], method) for r in (record, whole))
    assert some.motion.process_noise["x'"] == pytest.approx(every.motion.process_noise["x'"], rel=0.1)


@pytest.mark.parametrize("force", [0.0, 2.0])
def test_kicks_that_stand_in_for_a_drive_are_no_noise(force):
    """Readings and kicks pass for white noise on the right model; a drive left out makes the kicks a line."""
    count, rng = 500, np.random.default_rng(3)
    times = np.arange(count) * 0.05
    free, forced = responses(0.3, 4.0, count)
    push = 0.1 * rng.normal(size=count) + 0.05 * force * np.cos(5.0 * times)
    readings = free @ [1.0, 0.0] + forced @ push + 0.02 * rng.normal(size=count)
    record = kz.Record.from_arrays(times, {"x": readings})
    fit = kz.identify(oscillator(), record, ["d", "k"], kz.ShootingFit(process_noise=True, noise={"x": 0.02}))
    assert fit.misfit is not None
    assert fit.misfit.to_the_noise == (force == 0.0)
    assert bool([text for text in fit.warnings if "are not white" in text]) == (force != 0.0)
    if force:
        assert fit.misfit.where == "the kicks of x'"
