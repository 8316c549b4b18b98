"""One Flow, one Model, one OrbitSolver shared by threads give the numbers of one thread, to the last bit."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import heyoka as hy
import numpy as np

from kapitza import Flow, Model, library
from kapitza.flow.compiled import MOST_CACHED, cached
from kapitza.orbits.of_models import OrbitSolver

THREADS, CALLS, DIFFERENT = 8, 200, 400


def numbers(given) -> np.ndarray:
    return np.concatenate([np.ravel(np.asarray(part, float)) for part in given])


def test_eight_threads_with_two_hundred_mixed_calls_each():
    smooth = library.duffing()
    jumps = Model.from_equations(
        "x'' + 0.1*x' + x + F*sign(x' - u) = cos(w*t)", parameters={"F": 0.5, "u": 0.3, "w": 0.4}, period="2*pi/w"
    )
    nested = Model.from_equations("x'' = -x - k*max(abs(x) - d, 0) + 0.3*cos(t)", parameters={"k": 2.0, "d": 0.4})
    flow, friction, gap = Flow(smooth, wrt=("k",)), Flow(jumps), Flow(nested)
    solver = OrbitSolver(smooth)
    first = flow.strobe([1.0, 0.0], 200).states[-1]

    def call(number: int) -> np.ndarray:
        rng = np.random.default_rng(number)
        x, end = rng.uniform(-1.0, 1.0, 2), rng.uniform(0.5, 4.0)
        kind = number % 8
        if kind == 0:
            run = flow.propagate(x, 0.0, end, {"k": rng.uniform(0.05, 0.3)})
            return numbers([run.state, run.jacobian, run.sensitivity])
        if kind == 1:
            return numbers([flow.trajectory(x, np.linspace(0.0, end, 7), {"B": rng.uniform(1.0, 9.0)})])
        if kind == 2:
            run = friction.propagate(x, 0.0, end, {"F": rng.uniform(0.1, 0.6)})
            return numbers([run.state, run.jacobian, [len(run.events)]])
        if kind == 3:
            run = gap.propagate(x, 0.0, end, {"k": rng.uniform(1.0, 3.0)})
            return numbers([run.state, run.jacobian])
        if kind == 4:
            return numbers([flow.propagate_many(rng.uniform(-1.0, 1.0, (5, 2)), 0.0, end).state])
        if kind == 5:
            return numbers(flow.section(x, "x'", 2, direction=0))
        if kind == 6:
            found = solver.solve(first + 0.01 * x, parameters={"B": rng.uniform(7.0, 8.0)})
            return numbers([found.point, found.monodromy, [found.gap]])
        model = nested.with_values(k=rng.uniform(1.0, 3.0))
        return numbers([[model.values["k"]], flow.rates(x, end), [smooth.period], gap.rates(x, end, model.vector)])

    # The threads come first, so that they also meet nothing compiled.
    with ThreadPoolExecutor(THREADS) as pool:
        shared = list(pool.map(call, [number % DIFFERENT for number in range(THREADS * CALLS)]))
    serial = [call(number) for number in range(DIFFERENT)]
    assert len(shared) == THREADS * CALLS
    different = [i for i, a in enumerate(shared) if not np.array_equal(a, serial[i % DIFFERENT], equal_nan=True)]
    assert different == []


def test_compiled_objects_are_bounded_and_those_in_use_stay():
    def count(asked: list[int]) -> list[int]:
        built: list[int] = []
        for number in asked:
            cached(("test of the bound", number), lambda number=number: built.append(number))
        return built

    with ThreadPoolExecutor(1) as fresh:  # a cache of its own
        many = [number for other in range(1, 2 * MOST_CACHED) for number in (0, other)]
        built = fresh.submit(count, [*many, 1]).result()
    assert built.count(0) == 1
    assert built.count(1) == 2
    assert len(built) == 2 * MOST_CACHED + 1


def test_threads_share_machine_code():
    """A second thread makes integrators of its own, and compiles nothing anew."""
    flow = Flow(Model.from_equations("x'' + 0.123*x' + sin(x)**3 = 0.7*cos(1.7*t)", period="2*pi/1.7"))
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        first = one.submit(flow.propagate, [0.1, 0.2], 0.0, 1.0).result()
        compiled = hy.llvm_state.get_memcache_size()
        second = other.submit(flow.propagate, [0.1, 0.2], 0.0, 1.0).result()
    assert compiled > 0
    assert hy.llvm_state.get_memcache_size() == compiled
    assert np.array_equal(first.jacobian, second.jacobian)
