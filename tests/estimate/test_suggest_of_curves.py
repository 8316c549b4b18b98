"""`suggest` for fits to orbits and branches: what an undetected term moves, against fits of data that contain it."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.data import Part
from kapitza.estimate.missing.dictionary import candidate_terms

VALUES = {"c": 0.1, "g": 1.0, "F": 0.3, "omega": 1.2}


def pendulum(q: float = 0.0, **values: float) -> kz.Model:
    return kz.Model.from_equations(
        "p'' + c*p' + g*sin(p) + q*p'**3 = F*cos(omega*t)", parameters={**VALUES, "q": q, **values},
        period="2*pi/omega", start={"p": 0.1, "p'": 0.0},
    )  # fmt: skip


def loop(model: kz.Model, noise: float, seed: int = 0) -> kz.Record:
    states = kz.solve_orbit(model).loop(np.arange(120) / 120)[:, 0]
    noisy = states + noise * np.random.default_rng(seed).standard_normal(states.size)
    return kz.Record.from_arrays(np.arange(120) * model.period / 120, {"p": noisy}, period=model.period, phase=0.0)


def test_an_undetected_term_moves_orbit_fits_as_predicted():
    """The damping of a fit to data with a small cubic damping, which no residual shows at one amplitude."""
    plain = kz.identify(pendulum(), loop(pendulum(), 0.005), free=["c", "g"], method=kz.OrbitFit())
    moved = kz.identify(pendulum(), loop(pendulum(q=0.02), 0.005), free=["c", "g"], method=kz.OrbitFit())
    assert moved.misfit.to_the_noise
    found = kz.suggest(plain)
    assert not found.missing
    shift = next(one for one in found.shifts if one.parameter == "c")
    term = next(one for one in found.terms if one.name == "cubic damping of p")
    predicted = term.errors * plain.deviations["c"] * 0.02 / term.detectable
    assert term.moves == "c"
    assert moved["c"] - plain["c"] == pytest.approx(predicted, rel=0.1)
    assert shift.errors > 50
    assert "can still move values" in str(found)
    with pytest.raises(kz.KapitzaError, match="Terms of your own"):
        kz.suggest(plain, candidate_terms(pendulum(), np.ones(2)))


def test_a_missing_term_of_orbits_is_named():
    """Two amplitudes tell cubic from linear damping."""
    records = [loop(pendulum(q=0.1, F=force), 0.002, seed) for seed, force in enumerate((0.1, 0.5))]
    parts = [Part(record, {"F": force}) for record, force in zip(records, (0.1, 0.5), strict=True)]
    fit = kz.identify(pendulum(), parts, free=["c", "g"], method=kz.OrbitFit())
    assert any("cubic damping of p" in t.name for t in kz.suggest(fit).terms[:3])


def test_an_undetected_term_moves_branch_fits_as_predicted():
    def response(q: float) -> kz.MeasuredBranch:
        branch = kz.follow(pendulum(q=q, F=0.1), None, "omega", bounds=(1.02, 1.3))
        omega, size = branch.values[:, 0], branch.amplitude("p")
        chosen = np.linspace(1, omega.size - 2, 16).astype(int)
        rng = np.random.default_rng(1)
        noisy = omega[chosen] + 1e-3 * rng.standard_normal(16), size[chosen] + 2e-3 * rng.standard_normal(16)
        return kz.MeasuredBranch("response", "omega", *noisy, "p", 1e-3, 2e-3)

    method = kz.BranchFit(bounds=(1.0, 1.35))
    plain, moved = (kz.identify(pendulum(F=0.1), response(q), free=["c", "g"], method=method) for q in (0.0, 0.05))
    found = kz.suggest(plain)
    term = next(one for one in found.terms if one.name == "cubic damping of p")
    predicted = term.errors * plain.deviations[term.moves] * 0.05 / term.detectable
    assert abs(moved[term.moves] - plain[term.moves]) == pytest.approx(predicted, rel=0.25)
    assert "can still move values" in str(found)
