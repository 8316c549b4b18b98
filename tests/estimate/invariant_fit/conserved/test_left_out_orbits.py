"""A few closed orbits lie on many surfaces; only what holds on an orbit that was left out is an invariant."""

import numpy as np
import pytest

import kapitza as kz


@pytest.mark.parametrize("seed", range(4))
def test_two_kepler_orbits_have_one_invariant_of_second_degree(seed):
    model = kz.Model.from_hamiltonian(
        "(px**2 + py**2)/2 - mu/sqrt(x**2 + y**2)", ["x", "y"], ["px", "py"], parameters={"mu": 1.0}
    )
    rng, records = np.random.default_rng(seed), []
    for number in range(2):
        angle, speed = rng.uniform(0, 2 * np.pi), rng.uniform(0.85, 1.2)
        start = [np.cos(angle), np.sin(angle), -speed * np.sin(angle), speed * np.cos(angle)]
        clean = kz.simulate(model, x0=start, t=np.arange(600) * 0.05)
        noise = {c: 0.01 * clean[c].std() for c in clean.channels}
        records.append(kz.measure(clean, noise=noise, seed=100 * seed + number))
    found = kz.find_invariant(records, degree=2)
    assert len(found) == 1
    assert {str(term) for term in found[0].terms} == {"px*y", "py*x"}
