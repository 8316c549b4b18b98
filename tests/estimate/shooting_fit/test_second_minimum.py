"""A false minimum of a model with an unseen state: found out, or reported."""

import numpy as np
import pytest

import kapitza as kz

TRUTH = {"p": 0.08, "q": 0.15, "s": 0.03}


def glucose(**values: float) -> kz.Model:
    """Glucose G after an injection; the action X of insulin is not measured. p and q are nearly exchangeable."""
    equations = ["G' = -(p + X)*G + p*4.5", "X' = -q*X + s*exp(-0.25*t)"]
    return kz.Model.from_equations(equations, parameters={**TRUTH, **values})


def record_of(noise: float, seed: int) -> kz.Record:
    clean = kz.simulate(glucose(), x0=[14.0, 0.0], t=np.arange(400) * 0.2).select(["G"])
    rng = np.random.default_rng(seed)
    values = clean["G"] + noise * clean["G"].std() * rng.standard_normal(clean.size)
    return clean.with_channel("G", values, "", False)


@pytest.mark.parametrize("seed", [0, 1, 2, 4])
def test_a_misfit_of_unseen_states_is_no_false_minimum(seed: int) -> None:
    # Soft links end at p = 0.15, q = 0.08, where the residuals are 1.6 times the noise.
    fit = kz.identify(glucose(p=0.072, q=0.165), record_of(0.003, seed), list(TRUTH))
    assert all(abs(fit[n] - TRUTH[n]) < 4 * fit.deviations[n] for n in TRUTH)
    assert fit.misfit is not None
    assert fit.misfit.to_the_noise
    assert fit.deviations["p"] < 0.01


def test_a_minimum_that_is_nearly_as_likely_is_reported() -> None:
    texts = [
        text
        for seed in range(6)
        for text in kz.identify(glucose(), record_of(0.03, seed), list(TRUTH)).warnings
        if "follows the data nearly as well (-2 log L is larger by" in text
    ]
    assert texts
    assert all("p = " in text and "q = " in text for text in texts)
