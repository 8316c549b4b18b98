"""Rows whose noise is correlated by a measured drive, against the covariance matrix written out."""

from dataclasses import dataclass

import numpy as np
import pytest

from kapitza.estimate.missing.columns import Window
from kapitza.estimate.missing.drive_filter import Kicks, filtered_window, pulls_of, scatter_of


@dataclass(frozen=True)
class Case:
    window: Window
    responses: np.ndarray
    """G (N·c, N·d), one kick at a time."""


@pytest.fixture(params=[(5, 1, 2, 1), (16, 1, 3, 1), (50, 2, 4, 2), (97, 1, 2, 1)], ids=str)
def case(request):
    count, channels, n, drives = request.param
    rng = np.random.default_rng(count)
    turns = np.linalg.qr(rng.normal(size=(count - 1, n, n)))[0]
    kicks = Kicks(0.97 * turns, rng.normal(size=(count, channels, n)), 0.4 * rng.normal(size=(count, n, drives)))
    responses = np.zeros((count, channels, count, drives))
    for j in range(count):
        moved = kicks.push[j]
        for i in range(j + 1, count):
            moved = kicks.transition[i - 1] @ moved
            responses[i, :, j] = kicks.sight[i] @ moved
    window = Window(
        np.zeros((count, channels), bool), rng.normal(size=(count, channels)), rng.normal(size=(count, channels, n)),
        rng.normal(size=(count, channels, 3)), rng.normal(size=(count, channels, 2)), kicks,
    )  # fmt: skip
    return Case(window, responses.reshape(count * channels, count * drives))


def test_filtered_rows_are_those_of_generalised_least_squares(case):
    """L⁻¹ times each column, with 1 + G Gᵀ = L Lᵀ."""
    root = np.linalg.cholesky(np.eye(len(case.responses)) + case.responses @ case.responses.T)
    made, given = filtered_window(case.window), case.window
    assert made.kicks is None
    for name in ("residual", "initial", "free", "terms"):
        before, after = getattr(given, name), getattr(made, name)
        wanted = np.linalg.solve(root, before.reshape(len(root), -1)).reshape(before.shape)
        np.testing.assert_allclose(after, wanted, rtol=0, atol=1e-12)
    assert made.log_det == pytest.approx(np.log(np.diag(root)).sum(), rel=1e-12)


def test_scatter_is_the_diagonal_of_the_covariance(case):
    wanted = (case.responses**2).sum(axis=1)
    np.testing.assert_allclose(scatter_of(case.window.kicks).ravel(), wanted, rtol=1e-12, atol=1e-13)


def test_pulls_are_products_of_responses_and_columns(case):
    given = np.concatenate([case.window.free, case.window.initial], axis=2)
    wanted = case.responses.T @ given.reshape(len(case.responses), -1)
    np.testing.assert_allclose(pulls_of(case.window).reshape(wanted.shape), wanted, rtol=0, atol=1e-12)
