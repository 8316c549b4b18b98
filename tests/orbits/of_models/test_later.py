"""What solve_orbit computes when it is first asked for is what it would have computed at once."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, fields
from itertools import permutations

import numpy as np
import pytest

import kapitza as kz
from kapitza.base.lazy_fields import Later, as_computed, as_given, deferrable

GUESSES = {
    "forced": (kz.library.duffing, None, 1),
    "turning": (kz.library.parametric_pendulum, [2.9668, 6.4066], 1),
    "free": (kz.library.lorenz, [-13.76, -19.58, 27.0], 1.5587),
}


def solved(name: str, **settings) -> kz.PeriodicOrbit:
    library, guess, period = GUESSES[name]
    return kz.solve_orbit(library(), guess, period, **settings)


def to_come(orbit: kz.PeriodicOrbit) -> set[str]:
    given = as_given(orbit) | as_given(orbit.solution)
    return {name for name, value in given.items() if isinstance(value, Later)}


def same(first, second) -> bool:
    if isinstance(first, np.ndarray):
        return np.array_equal(first, second, equal_nan=first.dtype.kind in "fc")
    if hasattr(first, "__dataclass_fields__"):
        return all(same(getattr(first, f.name), getattr(second, f.name)) for f in fields(first) if f.name != "loop")
    if isinstance(first, float):
        return first == second or (np.isnan(first) and np.isnan(second))
    return first == second


def compared(first: kz.PeriodicOrbit, second: kz.PeriodicOrbit) -> None:
    names = [f.name for f in (*fields(first), *fields(first.measured), *fields(first.solution)) if f.name != "loop"]
    assert len(names) > 20
    differing = [name for name in names if not same(getattr(first, name), getattr(second, name))]
    assert differing == []


PARTS = {"winding", "multipliers", "closure", "code", "stability", "profile", "certificate", "solver"}


@pytest.mark.parametrize("name", GUESSES)
def test_parts_do_not_depend_on_the_order_in_which_they_are_asked_for(name):
    whole = solved(name)
    assert to_come(whole) == PARTS
    as_computed(whole), as_computed(whole.solution)
    assert to_come(whole) == set()
    for order in list(permutations(sorted(PARTS)))[::13500]:
        orbit = solved(name)
        for part in order:
            getattr(orbit, part)
        compared(orbit, whole)


def test_multipliers_are_those_of_the_monodromy_matrix_at_the_points():
    orbit = solved("free")
    flow = kz.Flow(kz.library.lorenz())
    matrix = flow.propagate(orbit.points[0], 0.0, orbit.period).jacobian
    expected = np.linalg.eigvals(matrix)
    expected = expected[np.argsort(-np.abs(expected))]
    assert np.abs(orbit.multipliers - expected)[:2].max() < 1e-9 * np.abs(expected).max()
    assert orbit.profile.states[0] == pytest.approx(orbit.points[0], abs=1e-12)


def test_saving_before_and_after_asking_is_the_same(tmp_path):
    before, after = solved("turning"), solved("turning")
    as_computed(after), as_computed(after.solution)
    first, second = kz.load(kz.save(before, tmp_path / "a.nc")), kz.load(kz.save(after, tmp_path / "b.nc"))
    compared(first, second)
    compared(first, after)


def test_a_changed_copy_shares_what_is_to_come():
    orbit = solved("forced")
    copied = orbit.with_(visits=3)
    assert copied.visits == 3
    assert to_come(copied) == PARTS
    assert copied.multipliers is orbit.multipliers
    judged = orbit.with_(stability="unknown")
    assert judged.stability == "unknown"
    assert orbit.stability == "stable"


def test_copies_and_pickles_hold_everything():
    orbit = solved("free")
    for made in (pickle.loads(pickle.dumps(orbit)), copy.deepcopy(solved("free")), copy.copy(solved("free"))):  # noqa: S301
        assert to_come(made) == set()
        compared(made, solved("free"))


def _stability(orbit: kz.PeriodicOrbit) -> tuple[str, float]:
    return orbit.stability, orbit.closure


def test_orbits_travel_to_workers():
    orbit = solved("turning")
    with ProcessPoolExecutor(1) as pool:
        there = pool.submit(_stability, orbit).result()
    assert there == _stability(solved("turning"))


def test_threads_that_ask_at_once_get_one_answer():
    computed = []

    def compute() -> object:
        computed.append(1)
        return object()

    later = Later(compute)
    with ThreadPoolExecutor(8) as pool:
        answers = set(pool.map(lambda _: later(), range(64)))
    assert len(answers) == len(computed) == 1
    orbit = solved("free")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda part: getattr(orbit, part), sorted(PARTS) * 3))
    assert len(found) == 3 * len(PARTS)
    compared(orbit, solved("free"))


def test_a_value_that_fails_is_asked_for_again():
    attempts = []

    @dataclass(frozen=True)
    class Holder:
        value: int = deferrable(0)

    def fails_once() -> int:
        attempts.append(1)
        if len(attempts) == 1:
            raise kz.KapitzaError("not yet")
        return 7

    held = Holder(Later(fails_once))
    with pytest.raises(kz.KapitzaError, match="not yet"):
        _ = held.value
    assert held.value == 7
    assert Holder().value == 0


def test_models_that_differ_in_values_share_what_is_prepared_and_nothing_else():
    model = kz.library.parametric_pendulum()
    heavy = model.with_values(m=2 * model.values["m"])
    one, other = kz.Flow(model), kz.Flow(heavy)
    assert one.core is other.core
    x, t = [0.3, 0.2], 2.0
    apart = np.abs(one.propagate(x, 0.0, t).state - other.propagate(x, 0.0, t).state).max()
    assert apart > 1e-3
    values = one.propagate(x, 0.0, t, heavy.vector).state
    assert np.array_equal(values, other.propagate(x, 0.0, t).state)
    faster = model.with_values(omega=2 * model.values["omega"])
    assert faster.period == pytest.approx(model.period / 2, rel=1e-15)
    assert heavy.period == model.period
