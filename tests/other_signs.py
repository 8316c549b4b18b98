"""A test double of LAPACK that makes the choices which LAPACK leaves open differently.

`pytest --signs SEED` replaces eig, eigh, svd, qr, orth and null_space of NumPy and SciPy, and the iterative ones of
scipy.sparse.linalg, by versions with random signs (complex: phases) of vectors, a random basis of the space of equal
eigenvalues and of null spaces, and a random order of the eigenvalues of general matrices. All of these are valid
decompositions. The choice depends on the seed and on the matrix, as that of LAPACK depends on the matrix: the same
call gives the same answer twice. Programs that tests start are not changed.
"""

import functools
import itertools
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse.linalg
import scipy.stats

EQUAL = 1e-14
"""Gap between values, over the largest, below which LAPACK may return any basis: a few roundings."""


def install(seed: int) -> None:
    """Replace the functions in this process; call it before anything imports them by name."""
    for module in (np.linalg, scipy.linalg):
        for name, changed in (("eig", _eig), ("eigh", _eigh), ("svd", _svd), ("qr", _qr)):
            _replace(module, name, changed, seed)
    for name in ("orth", "null_space"):
        _replace(scipy.linalg, name, _columns, seed)
    for name, changed in (("eigs", _eig), ("eigsh", _eigh), ("svds", _svd)):
        _replace(scipy.sparse.linalg, name, changed, seed)


def _replace(module: Any, name: str, changed: Callable, seed: int) -> None:
    plain = getattr(module, name)

    @functools.wraps(plain)
    def other(*args: Any, **kwargs: Any) -> Any:
        rng = np.random.default_rng([seed, zlib.crc32(np.ascontiguousarray(_dense(args[0])).tobytes())])
        return changed(rng, plain(*args, **kwargs))

    setattr(module, name, other)


def _dense(matrix: Any) -> np.ndarray:
    if isinstance(matrix, scipy.sparse.linalg.LinearOperator):
        return np.array(matrix.shape)
    return matrix.toarray() if hasattr(matrix, "toarray") else np.asarray(matrix)


def _signs(rng: np.random.Generator, shape: Any) -> np.ndarray:
    return rng.choice([-1.0, 1.0], shape)


def _turn(rng: np.random.Generator, size: int) -> np.ndarray:
    """A random orthogonal matrix."""
    return np.asarray(scipy.stats.ortho_group.rvs(size, random_state=rng) if size > 1 else _signs(rng, (size, size)))


def _alike(plain: Any, parts: tuple) -> Any:
    """The parts in the kind of tuple that the plain function returned."""
    return type(plain)(*parts) if hasattr(plain, "_fields") else tuple(parts)


def _groups(values: np.ndarray) -> list[slice]:
    edges = np.flatnonzero(np.abs(np.diff(values)) > EQUAL * np.abs(values).max(initial=0.0)) + 1
    edges = [0, *edges.tolist(), values.size]
    return [slice(a, b) for a, b in itertools.pairwise(edges)]


def _eig(rng: np.random.Generator, plain: Any) -> Any:
    if not isinstance(plain, tuple):
        return plain
    values, vectors = plain
    if values.ndim > 1 or len(plain) > 2:
        return plain
    blocks: list[list[int]] = []
    while sum(map(len, blocks)) < values.size:
        i = sum(map(len, blocks))
        pair = values[i].imag > 0 and i + 1 < values.size and values[i + 1] == values[i].conj()
        blocks.append([i, i + 1] if pair else [i])
    order, phases = [], []
    for b in rng.permutation(len(blocks)):
        turned = np.exp(2j * np.pi * rng.random()) if len(blocks[b]) == 2 else float(_signs(rng, ()))
        order += blocks[b]
        phases += [turned, np.conj(turned)][: len(blocks[b])]
    return _alike(plain, (values[order], vectors[:, order] * np.array(phases).astype(vectors.dtype)))


def _eigh(rng: np.random.Generator, plain: Any) -> Any:
    if not isinstance(plain, tuple):
        return plain
    values, vectors = plain
    vectors = vectors * _signs(rng, (*vectors.shape[:-2], 1, vectors.shape[-1]))
    if values.ndim == 1:
        for group in _groups(values):
            vectors[:, group] = vectors[:, group] @ _turn(rng, group.stop - group.start)
    return _alike(plain, (values, vectors))


def _svd(rng: np.random.Generator, plain: Any) -> Any:
    if not isinstance(plain, tuple):
        return plain
    left, values, right = plain
    if left is None or right is None:
        return plain
    count = values.shape[-1]
    signs = _signs(rng, values.shape)
    left, right = left.copy(), right.copy()
    left[..., :, :count] *= signs[..., None, :]
    right[..., :count, :] *= signs[..., :, None]
    if values.ndim > 1 or not np.isfinite(values).all():
        return _alike(plain, (left, values, right))
    zero = int((values > EQUAL * values.max(initial=0.0)).sum())
    for group in _groups(values[:zero]) if zero else []:
        turn = _turn(rng, group.stop - group.start)
        left[:, group], right[group] = left[:, group] @ turn, turn.T @ right[group]
    if left.shape[1] > zero:
        left[:, zero:] = left[:, zero:] @ _turn(rng, left.shape[1] - zero)
    if right.shape[0] > zero:
        right[zero:] = _turn(rng, right.shape[0] - zero) @ right[zero:]
    return _alike(plain, (left, values, right))


def _qr(rng: np.random.Generator, plain: Any) -> Any:
    if not isinstance(plain, tuple):
        return plain * _signs(rng, (*plain.shape[:-1], 1))
    if (not hasattr(plain, "_fields") and len(plain) != 2) or isinstance(plain[0], tuple) or plain[1].ndim < 2:
        return plain  # pivoted or raw
    orthogonal, triangle = plain
    if orthogonal.shape[-1] != triangle.shape[-2]:
        return plain
    signs = _signs(rng, orthogonal.shape[:-2] + orthogonal.shape[-1:])
    return _alike(plain, (orthogonal * signs[..., None, :], triangle * signs[..., :, None]))


def _columns(rng: np.random.Generator, plain: Any) -> Any:
    return plain @ _turn(rng, plain.shape[1]) if plain.shape[1] else plain
