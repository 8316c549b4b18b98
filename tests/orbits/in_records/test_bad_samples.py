"""Bad samples of a record do not disturb the search for its orbits, and are named."""

import numpy as np

import kapitza as kz


def test_spikes_and_dropouts_leave_the_orbit_where_it_is():
    model = kz.Model.from_equations("x'' - mu*(1 - x**2)*x' + x = 0", parameters={"mu": 1.0})
    clean = kz.measure(kz.simulate(model, x0=[2.0, 0.0], t=np.arange(6000) * 0.05), noise=0.005, seed=1)
    rng = np.random.default_rng(3)
    values = clean["x"].copy()
    index = rng.choice(np.arange(100, 5900), 30, replace=False)
    values[index] += 1.5 * rng.choice([-1.0, 1.0], 30)
    values[3000:3012] = 0.0
    spoiled = clean.with_channel("x", values, "", False)
    (right,) = kz.find_orbits(clean, max_period=1)
    found = kz.find_orbits(spoiled, max_period=1)
    (orbit,) = found
    assert abs(orbit.period - right.period) < 3e-4 * right.period
    assert np.abs(np.asarray(orbit.points) - np.asarray(right.points)).max() < 0.01
    assert '"x" has' in found.message
    assert "spikes" in found.message
    kept = kz.find_orbits(spoiled.with_attributes(bad_samples="keep"), max_period=1)
    assert "spike" not in kept.message
