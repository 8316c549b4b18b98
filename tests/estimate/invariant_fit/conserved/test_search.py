"""find_invariant: rediscovery of known invariants, and none where there is none."""

import numpy as np
import pytest
import sympy as sp

import kapitza as kz
from kapitza.errors import DataError, KapitzaError
from kapitza.estimate.invariant_fit.conserved import polynomials, trigonometric
from kapitza.model import parse_expression, symbol


def same_up_to_scale(found, expected):
    """Whether two expressions differ by a factor and a constant."""
    names = sorted(expected.free_symbols, key=str)
    ratio = [sp.cancel(sp.diff(found, n) / sp.diff(expected, n)) for n in names]
    return all(r.is_number and abs(float(r) - float(ratio[0])) < 1e-4 * abs(float(ratio[0])) for r in ratio)


def orbits(model, starts, times):
    return [kz.simulate(model, x0=s, t=times) for s in starts]


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_henon_heiles_from_all_cubic_polynomials(noise):
    record = kz.simulate(kz.library.henon_heiles(), t=np.arange(0, 400, 0.5))
    seen = kz.measure(record, relative_noise=noise, seed=1) if noise else record
    search = kz.find_invariant(seen, degree=3)
    q1, q2, p1, p2 = (symbol(n) for n in ("q1", "q2", "p1", "p2"))
    assert len(search) == 1
    assert same_up_to_scale(search[0].expression, (p1**2 + p2**2 + q1**2 + q2**2) / 2 + q1**2 * q2 - q2**3 / 3)
    assert search[0].held_back < 0.05
    assert "not trivial" in str(search)


def test_energy_of_the_double_pendulum_from_angles_and_rates():
    record = kz.simulate(kz.library.planar_double_pendulum(), t=np.arange(0, 200, 0.25))
    search = kz.find_invariant(record)
    assert len(search) == 1
    table = search[0].table()["coefficient"]
    want = {
        "phi1'**2": 1.0,
        "phi2'**2": 0.5,
        "phi1'*phi2'*cos(phi1 - phi2)": 1.0,
        "cos(phi1)": -19.62,
        "cos(phi2)": -9.81,
    }
    assert set(table.index) == set(want)
    for term, value in want.items():
        assert table[term] / table["phi1'**2"] == pytest.approx(value, rel=1e-6)


def test_invariant_of_the_trace_map():
    turns = [123456789, 987654321]
    while len(turns) < 200:
        turns.append((turns[-1] + turns[-2]) % 2147483647)
    s = np.cos(2 * np.pi * np.array(turns) / 2147483647)
    record = kz.Record.from_arrays(np.arange(198), {"x": s[2:], "y": s[1:-1], "z": s[:-2]})
    search = kz.find_invariant(record, degree=3)
    x, y, z = (symbol(n) for n in "xyz")
    assert len(search) == 1
    assert same_up_to_scale(search[0].expression, x**2 + y**2 + z**2 - 2 * x * y * z)


def test_lotka_volterra():
    model = kz.Model.from_equations(["x' = x - x*y/2", "y' = -3*y/4 + x*y/4"], coordinates=["x", "y"], parameters={})
    records = orbits(model, [[2.0, 1.0 + 0.5 * k] for k in range(3)], np.arange(0, 60, 0.3))
    search = kz.find_invariant(records, ["x", "y", "log(x)", "log(y)", "x*y", "x**2", "y**2"])
    x, y = symbol("x"), symbol("y")
    assert len(search) == 1
    assert same_up_to_scale(search[0].expression, x / 4 - sp.Rational(3, 4) * sp.log(x) + y / 2 - sp.log(y))


@pytest.mark.parametrize(("noise", "seed"), [(0.0, 0), (0.003, 0), (0.003, 300), (0.01, 800), (0.02, 500)])
def test_kepler_motion_has_two_and_no_more(noise, seed):
    model = kz.Model.from_equations(
        ["x'' = -x/(x**2 + y**2)**(3/2)", "y'' = -y/(x**2 + y**2)**(3/2)"], coordinates=["x", "y"], parameters={}
    )
    records = orbits(model, [[1.0, 0.0, 0.1 * k, 1.0 + 0.1 * k] for k in range(4)], np.arange(0, 40, 0.1))
    seen = [kz.measure(r, relative_noise=noise, seed=seed + i) if noise else r for i, r in enumerate(records)]
    search = kz.find_invariant(seen, [*polynomials(records[0].channels, 2), "1/sqrt(x**2 + y**2)"])
    x, y, u, v = (symbol(n) for n in ("x", "y", "x'", "y'"))
    wanted = [x * v - y * u, (u**2 + v**2) / 2 - 1 / sp.sqrt(x**2 + y**2)]
    assert len(search) == 2
    for expected in wanted:
        assert any(f.expression.free_symbols == expected.free_symbols for f in search.found)
    spans = [np.ptp(f.evaluate(r)) for f in search.found for r in records]
    assert max(spans) < (5 * noise if noise else 1e-8)


def test_units_of_the_channels_change_nothing_but_units():
    """Noisy Hénon-Heiles with q1 in 1e-6 and q2 in 1e6 of its unit: the same terms, coefficients and errors."""
    plain = kz.measure(kz.simulate(kz.library.henon_heiles(), t=np.arange(0, 200, 0.5)), relative_noise=0.01, seed=31)
    factor = {"q1": 1e6, "q2": 1e-6, "p1": 1.0, "p2": 1.0}
    scaled = kz.Record.from_arrays(plain.time, {c: plain[c] * f for c, f in factor.items()})
    noise = {c: plain.noise[c] * f for c, f in factor.items()}
    before, after = (kz.find_invariant(r, degree=3, noise=n) for r, n in ((plain, plain.noise), (scaled, noise)))
    assert len(before) == len(after) == 1
    units = np.array([float(t.subs({symbol(c): f for c, f in factor.items()})) for t in after[0].terms])
    units = units / units[np.flatnonzero(after[0].coefficients == 1.0)[0]]
    assert after[0].terms == before[0].terms
    np.testing.assert_allclose(after[0].coefficients * units, before[0].coefficients, rtol=1e-4)
    np.testing.assert_allclose(after[0].errors * units, before[0].errors, rtol=1e-3)


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_a_whole_invariant_given_as_one_term_is_judged(noise):
    record = kz.simulate(kz.library.henon_heiles(), t=np.arange(0, 200, 0.5))
    seen = kz.measure(record, relative_noise=noise, seed=31) if noise else record
    energy = "p1**2 + p2**2 + 2*q1**2*q2 + q1**2 - 2*q2**3/3 + q2**2"
    for terms in ([energy], [energy, "q1", "q2", "p1**2"]):
        search = kz.find_invariant(seen, terms)
        assert len(search) == 1
        assert same_up_to_scale(search[0].expression, parse_expression(energy, record.channels))
    search = kz.find_invariant(seen, ["q1**2 + p1**2"])
    assert not search
    assert 10 < search.closest < np.inf


def test_verdict_without_any_knowledge_of_noise_asks_for_it():
    """Coarse samples of an oscillator in noise: nothing is constant to rounding, which is not a proof of anything."""
    t, rng = np.arange(0, 400, 2.5), np.random.default_rng(4)  # five samples in two periods
    channels = {"x": np.sin(t) + 0.01 * rng.normal(size=t.size), "v": np.cos(t) + 0.01 * rng.normal(size=t.size)}
    record = kz.Record.from_arrays(t, channels)
    assert "state noise= or tolerance=" in str(kz.find_invariant(record))
    assert len(kz.find_invariant(record, noise=0.01)) == 1


def test_spread_of_levels_belongs_to_the_expression_shown():
    t = np.arange(0, 20, 0.1)
    records = [kz.Record.from_arrays(t, {"x": a * np.sin(t) / 2, "v": a * np.cos(t) / 3}) for a in (1.0, 2.0)]
    search = kz.find_invariant(records)
    x, v = symbol("x"), symbol("v")
    values = [float(search[0].expression.subs({x: 0, v: a / 3})) for a in (1.0, 2.0)]
    assert f"values spread by {np.ptp(values):.3g}" in str(search)


@pytest.mark.parametrize(
    ("degree", "noise"),
    [(2, 0.0), (3, 0.0), (4, 0.0), (2, 0.001), (3, 0.001), (4, 0.003), (3, 0.02), (3, 0.05), (2, 0.1), (2, 0.2)],
)
def test_lorenz_has_none(degree, noise):
    """Up to 34 terms bend to the sheet of the attractor as closely as the noise, but their rest follows the motion."""
    record = kz.simulate(kz.library.lorenz(), t=np.arange(0, 100, 0.02))
    seen = kz.measure(record, relative_noise=noise, seed=1) if noise else record
    search = kz.find_invariant(seen, degree=degree)
    assert not search
    assert "No invariant" in str(search)


def test_rest_of_an_invariant_is_unpredictable_and_that_of_a_drifting_one_is_not():
    """x² + v² of an oscillator that loses 4 % of its energy, in noise that hides the loss from its variance."""
    t = np.arange(0, 200, 0.1)
    rng, chances = np.random.default_rng(3), []
    for loss in (0.0, 2e-4):
        decay = np.exp(-loss * t / 2)
        x, v = (decay * f(t) + 0.03 * rng.normal(size=t.size) for f in (np.sin, np.cos))
        search = kz.find_invariant(kz.Record.from_arrays(t, {"x": x, "v": v}), noise=0.03)
        chances.append(bool(search))
        assert search.closest < 1.1
    assert chances == [True, False]


@pytest.mark.parametrize("delays", [2, 3])
def test_delays_of_one_channel_share_its_noise_and_are_not_their_own_past(delays):
    """cos 2π(θ + k α) at equal delays: the noise of a sample comes back one step later in the next channel."""
    rng, count = np.random.default_rng(1), 2000
    s = np.cos(0.7 * np.arange(count + delays)) + 0.01 * rng.normal(size=count + delays)
    channels = {f"s{k}": s[k : k + count] for k in range(delays)}
    search = kz.find_invariant(kz.Record.from_arrays(np.arange(count), channels), noise=0.01)
    # s0² + s1² - 2 cos(0.7) s0 s1 = sin²(0.7) for every pair of neighbours; with three, s2 + s0 = 2 cos(0.7) s1 too
    assert len(search) >= delays - 1


def test_carts_that_move_together_need_their_noise_by_channel():
    """E = v1² + v2² + x1² + x2² + 20 (x1 - x2)² of masses on a stiff spring: one tolerance drowns the spring."""
    t, rng = np.arange(0, 100, 0.05), np.random.default_rng(2)
    slow, fast = np.sqrt(1.0), np.sqrt(41.0)
    x = {"x1": np.sin(slow * t) + 0.1 * np.sin(fast * t), "x2": np.sin(slow * t) - 0.1 * np.sin(fast * t)}
    v = {
        "v1": slow * np.cos(slow * t) + 0.1 * fast * np.cos(fast * t),
        "v2": slow * np.cos(slow * t) - 0.1 * fast * np.cos(fast * t),
    }
    small = dict.fromkeys(x, 0.005) | dict.fromkeys(v, 0.05)
    channels = {c: s + small[c] * rng.normal(size=t.size) for c, s in (x | v).items()}
    record = kz.Record.from_arrays(t, channels)
    terms = ["v1**2", "v2**2", "x1**2", "x2**2", "x1*x2"]
    assert "Do not trust single coefficients: x1 and x2" in str(kz.find_invariant(record, terms, tolerance=0.3))
    search = kz.find_invariant(record, terms, tolerance={c: 2 * s for c, s in small.items()})
    assert "Do not trust" not in str(search)
    found = search[0].table()["coefficient"] / search[0].table()["coefficient"]["v1**2"]
    assert found["v2**2"] == pytest.approx(1.0, rel=0.02)
    assert found["x1*x2"] == pytest.approx(-40.0, rel=0.02)
    assert found["x1**2"] == pytest.approx(21.0, rel=0.02)
    assert found["x2**2"] == pytest.approx(21.0, rel=0.02)


def test_identities_are_left_out_not_found():
    record = kz.simulate(kz.library.planar_double_pendulum(), t=np.arange(0, 100, 0.25))
    search = kz.find_invariant(record, ["cos(phi1)**2", "sin(phi1)**2", "cos(phi2)", "phi1'", "phi2'"])
    assert not search
    assert len(search.dropped) == 1


def test_bad_terms_are_named():
    record = kz.simulate(kz.library.lorenz(), t=np.arange(0, 20, 0.1))
    with pytest.raises(KapitzaError, match="qq"):
        kz.find_invariant(record, ["x", "qq"])
    with pytest.raises(DataError, match="not finite"):
        kz.find_invariant(record, ["log(x)", "y", "z"])
    with pytest.raises(DataError, match="samples"):
        kz.find_invariant(kz.Record(record.dataset.isel(time=slice(0, 12))), degree=3)


def test_libraries_have_the_expected_sizes():
    assert len(polynomials(["x", "y", "z"], 3)) == 19
    assert len(trigonometric(["a", "b"])) == 8
