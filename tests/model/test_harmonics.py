"""Products of sines and cosines gathered by harmonics: the same functions, shorter or left alone."""

import numpy as np
import pytest
import sympy as sp

from kapitza.flow import Flow
from kapitza.model import rate, symbol
from kapitza.model.elimination import Program
from kapitza.model.harmonics import gathered
from linkages import linked_pendulum

ANGLES = [symbol(f"q{i}") for i in range(1, 5)]
SPEEDS = [rate(s.name) for s in ANGLES]
MOVING = [*ANGLES, *SPEEDS, symbol("t")]


def written(expressions):
    """The expressions gathered, their steps written out."""
    program = Program()
    found = gathered(expressions, MOVING, ANGLES, program)
    for name, step in reversed(program.steps):
        found = [e.xreplace({name: step}) for e in found]
    return found


def differences(ones, others):
    """Largest difference at ten random points, relative to the largest value."""
    symbols = sorted(set().union(*(e.free_symbols for e in (*ones, *others))), key=lambda s: s.name)
    functions = [sp.lambdify(symbols, list(given), "numpy") for given in (ones, others)]
    points = np.random.default_rng(0).uniform(-2.0, 2.0, (10, len(symbols)))
    one, other = (np.array([f(*x) for x in points], float) for f in functions)
    return np.abs(one - other).max() / np.abs(one).max()


def kinetic_energy():
    across = sum(symbol("l") * sp.cos(q) * v for q, v in zip(ANGLES, SPEEDS, strict=True))
    up = sum(symbol("l") * sp.sin(q) * v for q, v in zip(ANGLES, SPEEDS, strict=True))
    return symbol("m") * (across**2 + up**2) / 2


def test_a_mass_matrix_is_one_cosine_for_each_pair():
    energy = kinetic_energy()
    entries = [sp.diff(energy, a, b) for a in SPEEDS for b in SPEEDS]
    found = written(entries)
    scale = symbol("m") * symbol("l") ** 2
    assert found == [scale * sp.cos(a - b) for a in ANGLES for b in ANGLES]


@pytest.mark.parametrize("factor", [sp.Rational(1, 3), sp.Float(0.1)])
def test_values_stay(factor):
    structure = linked_pendulum(4, damping=0.1, friction=0.2).structure
    given = [*structure.mass_matrix.flat(), *(factor * h for h in structure.rest)]
    given[-1] += sp.cos(3 * symbol("t")) * sp.sin(ANGLES[0]) ** 3 + sp.exp(-ANGLES[1]) / (2 + sp.cos(ANGLES[2]))
    found = written(given)
    assert sum(map(sp.count_ops, found)) < sum(map(sp.count_ops, given)) / 2
    assert differences(given, found) < 1e-14


def test_what_would_grow_is_left_alone():
    product = sp.Mul(*[sp.cos(q) for q in ANGLES]) * SPEEDS[0]  # eight harmonics
    assert gathered([product], MOVING, ANGLES, Program()) == [product]
    dear = sp.Mul(*[sum(sp.sin(k * q) for k in range(1, 30)) for q in ANGLES])
    assert gathered([dear], MOVING, ANGLES, Program()) == [dear]
    plain = [SPEEDS[0] * SPEEDS[1] + SPEEDS[0] * SPEEDS[2]]
    assert gathered(plain, MOVING, ANGLES, Program()) == plain


def test_what_multiplies_a_jump_stays_beside_it():
    """A coefficient of friction that is zero leaves a smooth model: it must be seen at the jump."""
    law = symbol("mu") * sp.cos(ANGLES[0]) * sp.sign(SPEEDS[0])
    program = Program()
    rest = linked_pendulum(4).structure.rest
    found = gathered([rest[0] + law, *rest[1:]], MOVING, ANGLES, program)
    assert law in found[0].args
    assert program.steps


def test_linkages_without_friction_and_with_none_move_alike():
    start = np.array([0.4, -0.3, 0.2, 0.0, 1.0, 0.0])
    flows = [Flow(linked_pendulum(3, damping=0.01, friction=f)) for f in (None, 0.0)]
    ends = [flow.propagate(start, 0.0, 0.5, tangents=False).state for flow in flows]
    assert np.abs(ends[0] - ends[1]).max() < 1e-12
    assert flows[1].core.is_smooth_at(flows[1].core._pattern.vector)
