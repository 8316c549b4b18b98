"""Compiled evaluation agrees with NumPy."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import sympy as sp

from kapitza.errors import ModelError
from kapitza.model import compile_expressions, symbol
from kapitza.model.code_store import MOST_KEPT

X, Y, A = symbol("x"), symbol("y"), symbol("a")

CASES = {
    "powers": (X**3 / Y**2 + X**4 * A, lambda x, y, a: x**3 / y**2 + x**4 * a),
    "half power": ((1 + X**2) ** sp.Rational(3, 2), lambda x, y, a: (1 + x**2) ** 1.5),
    "float half power": ((1 + X**2) ** 1.5, lambda x, y, a: (1 + x**2) ** 1.5),
    "inverse root": (1 / sp.sqrt(2 + X**2), lambda x, y, a: 1 / np.sqrt(2 + x**2)),
    "real power": ((2 + X**2) ** A, lambda x, y, a: (2 + x**2) ** a),
    "circular": (sp.sin(X) * sp.cos(Y) + sp.tan(X / 4), lambda x, y, a: np.sin(x) * np.cos(y) + np.tan(x / 4)),
    "inverse": (sp.atan(X) + sp.asin(X / 9) + sp.acos(X / 9), lambda x, y, a: np.arctan(x) + np.pi / 2),
    "atan2": (sp.atan2(X, Y), lambda x, y, a: np.arctan2(x, y)),
    "hyperbolic": (sp.tanh(X) + sp.sinh(Y) / sp.cosh(Y), lambda x, y, a: np.tanh(x) + np.tanh(y)),
    "exponential": (sp.exp(-X) + sp.log(3 + X**2) + sp.E, lambda x, y, a: np.exp(-x) + np.log(3 + x**2) + np.e),
    "sign": (sp.sign(X) * Y + sp.Abs(X - Y), lambda x, y, a: np.sign(x) * y + np.abs(x - y)),
    "step": (sp.Heaviside(X), lambda x, y, a: np.heaviside(x, 0.5)),
    "extremes": (sp.Max(X, Y, A) - sp.Min(X, 0), lambda x, y, a: np.maximum(np.maximum(x, y), a) - np.minimum(x, 0)),
    "cases": (
        sp.Piecewise((X**2, sp.And(X > -1, X < 1)), (Y, X <= -1), (A, True)),
        lambda x, y, a: np.where((x > -1) & (x < 1), x**2, np.where(x <= -1, y, a)),
    ),
    "constant": (sp.pi / 3 + 0 * X, lambda x, y, a: np.pi / 3 + 0 * x),
}


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_numpy(name):
    expression, reference = CASES[name]
    x, y = np.random.default_rng(1).uniform(-3, 3, (2, 20_000))
    x[:3], y[2] = (0.0, 1.0, 2.0), 2.0
    result = compile_expressions([expression], ["x", "y"], ["a"])(np.stack([x, y]), [0.7])
    np.testing.assert_allclose(result[0], reference(x, y, 0.7), rtol=1e-13, atol=1e-14)


def test_one_parameter_set_per_column_and_single_points():
    f = compile_expressions([A * X, X + Y], [X, Y], [A])
    values = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(f(values, np.array([[1.0, 2.0, 3.0]]))[0], [0.0, 2.0, 6.0])
    np.testing.assert_array_equal(f(np.array([2.0, 5.0]), [3.0]), [6.0, 7.0])
    assert f(np.empty((2, 0)), [1.0]).shape == (2, 0)


def test_compiles_once_for_the_same_expressions():
    assert compile_expressions([X * Y], ["x", "y"]) is compile_expressions([Y * X], ["x", "y"])


def test_without_variables():
    assert compile_expressions([sp.Integer(2)], [])(np.empty((0, 4))).tolist() == [[2.0] * 4]


def test_unknown_symbols_functions_and_shapes_are_named():
    with pytest.raises(ModelError, match="contain y, neither"):
        compile_expressions([X + Y], ["x"])
    with pytest.raises(ModelError, match="besselj cannot be compiled"):
        compile_expressions([sp.besselj(0, X)], ["x"])
    with pytest.raises(ModelError, match="2 variables and 0 parameters was given 3"):
        compile_expressions([X + Y], ["x", "y"])(np.zeros((3, 4)))


def stored_code(**environment: str) -> tuple[str, int]:
    """Where a fresh process keeps compiled code, and how much of it at most."""
    code = (
        "import heyoka as hy, kapitza as kz; kz.Flow(kz.library.duffing());"
        "print(hy.llvm_state.get_diskcache_path()); print(hy.llvm_state.get_diskcache_limit())"
    )
    clean = {k: v for k, v in os.environ.items() if k not in ("HEYOKA_CACHE_DIR", "XDG_CACHE_HOME")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**clean, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    path, limit = done.stdout.split()
    return path, int(limit)


def test_compiled_code_is_kept_in_a_store_of_limited_size(tmp_path):
    """heyoka reads its whole store when a process first compiles: without a limit every start is slower."""
    assert stored_code(XDG_CACHE_HOME=str(tmp_path)) == (str(tmp_path / "kapitza"), MOST_KEPT)
    assert (tmp_path / "kapitza" / "cache.db").stat().st_size < MOST_KEPT
    assert not (tmp_path / "heyoka").exists()


def test_a_store_that_is_named_is_left_as_it_is(tmp_path):
    path, limit = stored_code(HEYOKA_CACHE_DIR=str(tmp_path / "mine"))
    assert path == str(tmp_path / "mine")
    assert limit > MOST_KEPT


def test_where_nothing_can_be_written_code_is_compiled_all_the_same():
    code = "import kapitza as kz; print(kz.simulate(kz.library.duffing(), periods=2).size)"
    clean = {k: v for k, v in os.environ.items() if k != "HEYOKA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**clean, "PYTHONPATH": os.pathsep.join(sys.path), "XDG_CACHE_HOME": "/dev/null"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout.strip(), done.stderr) == ("3", "")
