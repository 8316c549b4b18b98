"""Linked pendulums: the model from its Lagrangian, and the same motion from forces alone, joint by joint."""

from __future__ import annotations

import itertools

import numpy as np
import sympy as sp
from scipy.linalg import solve_banded

import kapitza as kz
from kapitza.model import rate, symbol


def linked_pendulum(links: int, damping: float = 0.0, friction: float | None = None, **parts) -> kz.Model:
    """Point masses m1, m2, … on rods l1, l2, …; q_i from the vertical; viscous and dry friction at the joints."""
    names = [f"q{i}" for i in range(1, links + 1)]
    angles, speeds = [symbol(n) for n in names], [rate(n) for n in names]
    masses, lengths = ([symbol(f"{k}{i}") for i in range(1, links + 1)] for k in "ml")
    gravity, viscous, dry = symbol("g"), symbol("c"), symbol("mu")
    across, up, height, energy = sp.Integer(0), sp.Integer(0), sp.Integer(0), sp.Integer(0)
    for m, l, q, v in zip(masses, lengths, angles, speeds, strict=True):
        across, up, height = across + l * sp.cos(q) * v, up + l * sp.sin(q) * v, height - l * sp.cos(q)
        energy += m * (across**2 + up**2) / 2 - m * gravity * height
    relative = [speeds[0], *(b - a for a, b in itertools.pairwise(speeds))]
    values = {f"m{i}": 0.5 + 0.1 * i for i in range(1, links + 1)}
    values |= {f"l{i}": 0.4 - 0.02 * i for i in range(1, links + 1)} | {"g": 9.81, "c": damping}
    forces = {}
    if friction is not None:
        values["mu"] = friction
        joints = [dry * sp.sign(r) for r in relative]
        forces = {n: (joints[i + 1] if i + 1 < links else 0) - joints[i] for i, n in enumerate(names)}
    return kz.Model.from_lagrangian(
        energy,
        names,
        angles=names,
        parameters=values | parts.pop("parameters", {}),
        dissipation=viscous * sum(r**2 for r in relative) / 2,
        forces={n: forces.get(n, 0) + extra for n, extra in parts.pop("forces", dict.fromkeys(names, 0)).items()},
        start={**dict.fromkeys(names, 0.5), **dict.fromkeys([n + "'" for n in names], 0.0)},
        name=f"{links} links",
        **parts,
    )


def accelerations(model: kz.Model, state: np.ndarray, torques: np.ndarray | None = None) -> np.ndarray:
    """q'' (n,) from Newton's law for each mass: the tensions of the rods follow from a tridiagonal recursion.

    torques: (n,) net torque on each (massless) rod; default that of the viscous joints. No Lagrangian, no mass matrix.
    """
    n = state.size // 2
    angles, speeds = state[:n], state[n:]
    values = model.values
    mass, length = (np.array([values[f"{k}{i}"] for i in range(1, n + 1)]) for k in "ml")
    if torques is None:
        joint = values["c"] * np.diff(speeds, prepend=0.0)
        torques = np.append(joint[1:], 0.0) - joint
    along = np.column_stack([np.sin(angles), -np.cos(angles)])
    across = np.column_stack([np.cos(angles), np.sin(angles)])
    push = across * (torques / length)[:, None]
    free = (push - np.vstack([push[1:], np.zeros(2)])) / mass[:, None] - np.array([0.0, values["g"]])
    # (a_i - a_{i-1}) · u_i = -l v², a_i = free_i + (T_{i+1} u_{i+1} - T_i u_i) / m_i; the support does not move.
    before = np.vstack([np.zeros(2), free[:-1]])
    inverse = np.concatenate([[0.0], 1 / mass[:-1]])
    bands = np.zeros((3, n))
    bands[1] = -1 / mass - inverse
    turn = np.sum(along[1:] * along[:-1], axis=1)
    bands[0, 1:] = turn / mass[:-1]
    bands[2, :-1] = turn / mass[:-1]
    right = -length * speeds**2 - np.sum((free - before) * along, axis=1)
    tension = solve_banded((1, 1), bands, right)
    pull = tension[:, None] * along
    moved = free + (np.vstack([pull[1:], np.zeros(2)]) - pull) / mass[:, None]
    return np.sum((moved - np.vstack([np.zeros(2), moved[:-1]])) * across, axis=1) / length


def energy(model: kz.Model, states: np.ndarray) -> np.ndarray:
    """Kinetic plus potential energy at states (N, 2n)."""
    n = states.shape[1] // 2
    q, v = states[:, :n], states[:, n:]
    mass, length = (np.array([model.values[f"{k}{i}"] for i in range(1, n + 1)]) for k in "ml")
    across, up = np.cumsum(length * np.cos(q) * v, axis=1), np.cumsum(length * np.sin(q) * v, axis=1)
    return ((across**2 + up**2) / 2 - 9.81 * np.cumsum(length * np.cos(q), axis=1)) @ mass
