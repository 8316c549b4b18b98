"""Families of orbits: bifurcations of HYBRID, ORBITS and the test systems, beside independent values."""

from __future__ import annotations

from typing import Any

import numpy as np
from harness import Comparison, comparison_table, markdown_table
from scipy.interpolate import BarycentricInterpolator
from scipy.optimize import brentq, root
from scipy.special import ellipk

import kapitza as kz
from kapitza.continuation import End, Kind
from kapitza.solve import ByEffort
from reproductions import _cart_closed_form as closed_form
from reproductions.pin_joint import stability_boundary

DOUBLINGS = (12.1078218842, 9.4647067819, 9.3204145004, 9.2998306141, 9.2959532788, 9.2951282115)
"""Rotation of the pendulum from ω = 13: shooting and bordered determinants, a prototype apart from the package."""

FOLDS = (1.7797195242986, 1.3242362007706)
"""Fourier collocation with 129 points and a Moore-Spence system, an independent code."""


def row(name: str, expected: float, found: float, tolerance: float) -> Comparison:
    return Comparison(
        name, f"{expected:.12g}", f"{found:.12g}", f"{tolerance:g}", bool(abs(found - expected) < tolerance)
    )


def said(name: str, expected: str, found: str) -> Comparison:
    return Comparison(name, expected, found, "equal", expected == found)


def duffing(omega: float) -> kz.Model:
    return kz.Model.from_equations(
        "x'' + c*x' + x + x**3 = B*cos(omega*t)",
        parameters={"c": 0.1, "B": 0.3, "omega": omega},
        period="2*pi/omega",
        start={"x": 0.3, "x'": 0.0},
        name="duffing",
    )


def pendulum() -> list[Comparison]:
    """The settled rotation at ω = 13: where most of 48 random starts end."""
    model = kz.library.parametric_pendulum().with_values(omega=13.0)
    random = np.random.default_rng(0)
    starts = np.column_stack([random.uniform(-3, 3, 48), random.uniform(-20, 20, 48)])
    ends = kz.Flow(model).strobe_many(starts, 300).states[-1]
    rotation = ends[np.abs(ends[:, 1]) > 3][0]
    branch = kz.follow(model, rotation, "omega", (5.0, 14.0), direction=-1)
    values, points = [], []
    for level in range(len(DOUBLINGS)):
        point = branch.of(Kind.DOUBLING)[0]
        values.append(point.value)
        points.append(point)
        if level + 1 == len(DOUBLINGS):
            break
        # Each doubling lives in a range several times shorter than the one before.
        rule = ByEffort(1e-3 * 0.3**level, 1e-9, 0.3 * 0.4 ** (level + 1), wanted=6)
        branch = kz.switch_branch(
            point, (9.0, 13.0), amplitude=1e-3 * 0.3**level, stepping=kz.Stepping(rule=rule, max_points=60)
        )
    rows = [
        row(f"pendulum, doubling {i + 1}", e, f, 1e-8) for i, (e, f) in enumerate(zip(DOUBLINGS, values, strict=True))
    ]
    for level, point in enumerate(points[1:], start=2):
        gap = crossing(point, kz.Collocation()) - point.value
        rows.append(agreement(f"pendulum, doubling {level}: collocation", gap))
    ratios = np.diff(values)[:-1] / np.diff(values)[1:]
    text = ", ".join(f"{r:.2f}" for r in ratios)
    rows.append(
        Comparison(
            "ratios of the distances",
            "18.3, 7.01, 5.31, 4.70 → 4.669",
            text,
            "0.05 on the last",
            bool(abs(ratios[-1] - 4.669) < 0.05),
        )
    )
    return rows


def resonance() -> list[Comparison]:
    branch = kz.follow(duffing(0.5), None, "omega", (0.5, 3.0))
    rows = [
        row(f"Duffing, fold {i + 1}", e, b.value, 1e-10)
        for i, (e, b) in enumerate(zip(FOLDS, branch.of(Kind.FOLD), strict=True))
    ]
    curve = kz.follow(branch.bifurcations[0], ("omega", "B"), ((0.9, 2.5), (0.01, 0.6)))
    (cusp,) = curve.of(Kind.CUSP)
    force = float(cusp.note.split("=")[1])
    rows += [row("cusp of the fold curve, ω", 1.0910, cusp.value, 2e-3), row("cusp, B", 0.0518, force, 1e-3)]
    spine = kz.backbone(duffing(0.5), "omega", force="B", damping="c", bounds=(0.9, 2.5))
    a = spine.points[:, 0]
    exact = np.pi / 2 * np.sqrt(1 + a**2) / ellipk(a**2 / (2 * (1 + a**2)))
    error = float(np.abs(spine.values[:, 0] - exact).max())
    rows.append(Comparison("backbone against the elliptic integral", "0", f"{error:.1e}", "1e-10", error < 1e-10))
    for method in (kz.Collocation(elements=30), kz.HarmonicBalance()):
        other = kz.follow(duffing(1.2), None, "omega", (1.1, 1.9), method=method, direction=1)
        gap = max(abs(b.value - e) for b, e in zip(other.of(Kind.FOLD), FOLDS, strict=True))
        rows.append(Comparison(f"folds by {other.method}", "0", f"{gap:.1e}", "1e-6", gap < 1e-6))
    return rows


def lorenz() -> list[Comparison]:
    x = np.sqrt(8 / 3 * 19)
    model = kz.library.lorenz().with_values(rho=20.0)
    rest = kz.follow(model, {"x": x, "y": x, "z": 19.0}, "rho", (5, 30), equilibrium=True)
    (hopf,) = rest.of(Kind.HOPF)
    born = kz.switch_branch(hopf, (5, 30))
    return [
        row("Lorenz, Hopf (470/19)", 470 / 19, hopf.value, 1e-8),
        said("end of the orbit born there", End.HOMOCLINIC.value, born.ends[1].value),
        row("where", 13.926557, float(born.values[-1, 0]), 1e-5),
    ]


def hybrid() -> tuple[list[Comparison], str]:
    model, rest = kz.library.pendulum_on_spring(), {"y": 0, "theta": 0, "y'": 0, "theta'": 0}
    hanging = kz.follow(model.with_values(a=1.0), rest, "a", (0.5, 20.0))
    quoted = np.hypot(13 * 0.1, 200.0)
    (doubling,) = hanging.of(Kind.DOUBLING)
    swinging = kz.switch_branch(doubling, (0.5, 4.0))
    (fold,) = swinging.of(Kind.FOLD)
    upper = kz.follow(
        model.with_values(a=float(swinging.values[-1, 0])),
        swinging.orbit(-1),
        "a",
        (3.9, 12.0),
        half_map=True,
        direction=1,
    )
    (pitchfork,) = upper.of(Kind.PITCHFORK)
    stability = swinging.stability
    rows = [
        row("HYBRID, doubling of the hanging state", 0.01320818105, doubling.value / quoted, 1e-9),
        row("fold of the 4π/Ω branch", 0.00800907598, fold.value / quoted, 1e-9),
        row("pitchfork (half map)", 0.04816379748, pitchfork.value / quoted, 1e-9),
        said("hanging state before and after", "stable, unstable", f"{hanging.stability[0]}, {hanging.stability[-1]}"),
        said("swinging branch below the fold", "unstable", stability[fold.position // 2]),
        said("above the fold", "stable", stability[-1]),
        said("past the pitchfork", "unstable", upper.stability[-1]),
    ]
    marks = np.arange(10.0, 18.5, 1.0)
    curve = kz.follow(doubling, ("Omega", "a"), ((10.0, 18.0), (0.1, 40.0)))
    scaled = np.array([hanging_doubling(model, curve, mark) for mark in marks])
    table = markdown_table(
        ["Ω [rad/s]", "A at the doubling"], [(f"{w:g}", f"{a:.6f}") for w, a in zip(marks, scaled, strict=True)]
    )
    rows.append(row("doubling curve at Ω = 10 (notes: .0926)", 0.0926, float(scaled[0]), 1e-4))
    rows.append(row("doubling curve at Ω = 13", 0.01320818105, float(scaled[3]), 1e-9))
    return rows, table


def hanging_doubling(model: kz.Model, curve: kz.Branch, omega: float) -> float:
    """A at the doubling for one Ω: the curve says near which force, the point is solved for anew."""
    omegas, forces = curve.values.T
    order = np.argsort(omegas)
    near = float(np.interp(omega, omegas[order], forces[order]))
    rest = {"y": 0, "theta": 0, "y'": 0, "theta'": 0}
    branch = kz.follow(model.with_values(Omega=omega, a=0.9 * near), rest, "a", (0.9 * near, 1.1 * near), direction=1)
    (point,) = branch.of(Kind.DOUBLING)
    return point.value / float(np.hypot(0.1 * omega, 200.0))


def van_der_pol() -> list[Comparison]:
    model = kz.Model.from_equations(
        "x'' + mu*(x**2 - 1)*x' + x = F*cos(omega*t)",
        parameters={"mu": 0.3, "F": 1.2, "omega": 1.0},
        period="2*pi/omega",
        start={"x": 2.0, "x'": 0.0},
        name="forced van der Pol",
    )
    branch = kz.follow(model, None, "omega", (0.9, 1.6))
    (torus,) = branch.of(Kind.NEIMARK_SACKER)
    curve = kz.follow(torus, ("omega", "F"), ((0.5, 2.0), (0.1, 3.0)))
    start = kz.solve_orbit(model)
    other = kz.follow(model, start, "omega", (0.9, 1.45), direction=1, method=kz.Collocation(elements=30))
    gap = abs(other.of(Kind.NEIMARK_SACKER)[0].value - torus.value)
    away = float(np.abs(np.abs(curve.multipliers).max(axis=1) - 1).max())
    ends = ", ".join(b.kind.value for b in curve.bifurcations)
    return [
        row("forced van der Pol, |μ| at the Neimark-Sacker point", 1.0, abs(torus.critical), 1e-12),
        Comparison(f"largest ||μ| - 1| on its curve ({len(curve)} points)", "0", f"{away:.1e}", "1e-6", away < 1e-6),
        Comparison("the point: collocation against shooting", "0", f"{gap:.1e}", "1e-6", gap < 1e-6),
        # SciPy (DOP853 with variations) has them at ω = 1.07369093, 1.3427768, 1.50667649.
        said("the curve passes", "1:1 resonance, 1:4 resonance, 1:3 resonance", ends),
    ]


def cross_checks() -> list[Comparison]:
    """The bifurcations above once more by other methods, of which shooting from one node knows nothing."""
    hanging = kz.library.pendulum_on_spring().with_values(a=2.4)
    rest = {"y": 0, "theta": 0, "y'": 0, "theta'": 0}
    rotating = kz.library.parametric_pendulum().with_values(omega=12.4)
    cases = [
        ("HYBRID doubling", hanging, rest, "a", (2.3, 2.8), 1, Kind.DOUBLING),
        ("pendulum, doubling 1", rotating, {"phi": 2.98, "phi'": 11.0}, "omega", (11.9, 12.6), -1, Kind.DOUBLING),
    ]
    rows = []
    for name, model, start, parameter, bounds, direction, kind in cases:
        found = []
        for method in (kz.Shooting(), kz.Collocation(elements=40)):
            branch = kz.follow(model, start, parameter, bounds, direction=direction, method=method)
            found.append(branch.of(kind)[0].value)
        rows.append(agreement(f"{name}: collocation", found[1] - found[0]))
    (doubling,) = kz.follow(hanging, rest, "a", (2.3, 2.8), direction=1).of(Kind.DOUBLING)
    swinging = kz.switch_branch(doubling, (0.5, 4.0))
    (fold,) = swinging.of(Kind.FOLD)
    upper, orbit = hanging.with_values(a=float(swinging.values[-1, 0])), swinging.orbit(-1)
    method = kz.Collocation(elements=30)
    back = kz.follow(upper, orbit, "a", (1.55, 4.1), direction=-1, method=method, stepping=kz.Stepping(max_points=40))
    rows.append(agreement("HYBRID fold: collocation", back.of(Kind.FOLD)[0].value - fold.value))
    half = kz.follow(upper, orbit, "a", (3.9, 10.0), half_map=True, direction=1)
    whole = kz.follow(upper, orbit, "a", (3.9, 10.0), method=method, direction=1)
    gap = whole.of(Kind.BRANCH_POINT, Kind.PITCHFORK)[0].value - half.of(Kind.PITCHFORK)[0].value
    rows.append(agreement("HYBRID pitchfork: collocation of the whole orbit", gap))
    return rows


def agreement(name: str, gap: float) -> Comparison:
    return Comparison(f"{name} against shooting", "0", f"{abs(gap):.1e}", "1e-6", bool(abs(gap) < 1e-6))


def crossing(bifurcation: kz.Bifurcation, method: Any, share: float = 2e-5) -> float:
    """Where a multiplier passes -1 on orbits solved one by one by another method: a secant in the parameter.

    For doublings, whose orbits go through the point; also through events, which the equations of
    collocation hold as unknown times.
    """

    def away(value: float) -> float:
        model = bifurcation.model.with_values(**{bifurcation.parameter: value})
        orbit = kz.solve_orbit(model, bifurcation.point, bifurcation.repeats, method)
        return float(np.real(orbit.multipliers[np.argmin(np.abs(orbit.multipliers + 1))])) + 1

    # Deep in a cascade orbits change within a part of the parameter that shrinks from doubling to doubling.
    reach = abs(bifurcation.value) * share / (bifurcation.repeats or 1)
    return float(brentq(away, bifurcation.value - reach, bifurcation.value + 1.5 * reach, xtol=1e-12))


def turning(branch: kz.Branch, fold: kz.Bifurcation, method: Any) -> float:
    """A fold from orbits around it, each solved by another method at its own parameter.

    Along the branch the parameter is a smooth function of the multiplier that passes 1, and has its extreme there.
    """
    rule = ByEffort(2e-3, 1e-9, 2e-3, wanted=6)
    near = kz.follow(
        branch.model.with_values(**{fold.parameter: float(branch.values[fold.position, 0])}),
        branch.orbit(fold.position), fold.parameter, (0.9 * fold.value, 1.1 * fold.value),
        direction=1 if branch.values[fold.position, 0] < fold.value else -1,
        stepping=kz.Stepping(rule=rule, max_points=60),
    )  # fmt: skip
    middle = near.of(Kind.FOLD)[0].position
    multipliers, values = [], []
    for i in (middle - 6, middle - 4, middle - 2, middle + 3, middle + 5, middle + 7):
        model = near.model.with_values(**{fold.parameter: float(near.values[i, 0])})
        orbit = kz.solve_orbit(model, near.orbit(i), method=method)
        multipliers.append(float(np.real(orbit.multipliers[np.argmin(np.abs(orbit.multipliers - 1))])))
        values.append(float(near.values[i, 0]))
    return float(BarycentricInterpolator(multipliers, values)(1.0))


def graze_of_pin_joint(r: float, wall: float, guess: list[float]) -> float:
    """γ where the orbit of two impacts touches the wall ±1 that it has left once more, at no speed.

    Flights of x'' = γ sin t are written down; unknown are the times and speeds after the two impacts, γ, and the touch.
    """

    def flight(x: float, t: float, u: float, g: float, later: float) -> tuple[float, float]:
        speed = u + g * np.cos(t)
        return x + speed * (later - t) - g * (np.sin(later) - np.sin(t)), speed - g * np.cos(later)

    def equations(z: np.ndarray) -> list[float]:
        t1, u1, t2, u2, g, touch = z
        left, right = flight(1.0, t1, u1, g, t2), flight(-1.0, t2, u2, g, t1 + 2 * np.pi)
        there = flight(wall, *((t1, u1) if wall > 0 else (t2, u2)), g, touch)
        return [left[0] + 1, u2 + r * left[1], right[0] - 1, u1 + r * right[1], there[0] - wall, there[1]]

    return float(root(equations, guess, tol=1e-13).x[4])


def events() -> tuple[list[Comparison], str]:
    cart = kz.library.colliding_cart()
    first = kz.follow(cart, {"x": -0.5, "x'": 0.5}, "gamma", (0.9, 1.3), direction=1)
    broken = kz.switch_branch(first.bifurcations[0], (0.5, 2.2))
    doubled = kz.switch_branch(broken.of(Kind.DOUBLING)[-1], (0.5, 3.5))
    values = [b.value for b in doubled.of(Kind.DOUBLING)]
    rows = [
        row("cart, doubling of the doubled orbit", 2.4439309, values[0], 1e-7),
        row("cart, doubling before the graze", 3.4491797, values[1], 1e-7),
        row("cart, new event sequence (first seen)", 3.4476, doubled.of(Kind.SEQUENCE)[0].value, 1e-4),
    ]
    marks = [*broken.of(Kind.DOUBLING), *doubled.of(Kind.DOUBLING)]
    changes = [b.value for b in (*broken.of(Kind.SEQUENCE), *doubled.of(Kind.SEQUENCE))]
    for mark in marks:
        # Orbits are solved on this side of the next change of the event sequence.
        room = min(abs(mark.value - change) for change in changes)
        share = min(2e-5, 0.5 * room / mark.value)
        gap = crossing(mark, kz.Collocation(elements=30), share) - mark.value
        rows.append(agreement(f"cart, doubling at {mark.value:.6f}: collocation", gap))
    for fold in (*broken.of(Kind.FOLD), *doubled.of(Kind.FOLD)):
        exact = closed_form.fold(fold.point, fold.value, np.real(fold.vector), fold.repeats or 1, 3e-5)
        rows.append(agreement(f"cart, fold at {fold.value:.6f}: closed form", exact - fold.value))
    fold = broken.of(Kind.FOLD)[-1]
    gap = turning(broken, fold, kz.Collocation(elements=30)) - fold.value
    rows.append(agreement(f"cart, fold at {fold.value:.6f}: collocation", gap))
    friction = kz.Model.from_equations(
        "x'' + mu*sign(x') + 0.1*x' + x = cos(omega*t)",
        parameters={"mu": 0.6, "omega": 0.8}, period="2*pi/omega", start={"x": 1.0, "x'": 0.0}, name="dry friction",
    )  # fmt: skip
    rubbing = kz.follow(friction, None, "mu", (0.5, 1.2), direction=1)
    rows.append(said("dry friction, end", End.EXTINCT.value, rubbing.ends[1].value))
    pin = kz.library.pin_joint().with_values(gamma=1.0, r=0.5)
    start = kz.solve_orbit(pin, {"x": -0.51, "x'": 0.219})
    along = kz.follow(pin, start, "r", (0.3, 0.995))
    rows.append(said("pin joint in r passes the impact at the section (.975)", End.BOUND.value, along.ends[1].value))
    wall = kz.follow(pin, start, "gamma", (0.3, 3.0))
    (apart,) = wall.bifurcations
    rows.append(agreement("pin joint, r = 0.5, branch point: closed form", stability_boundary(0.5) - apart.value))
    hit = kz.switch_branch(apart, (0.3, 3.0))
    (touch,) = hit.of(Kind.GRAZING)
    exact = graze_of_pin_joint(0.5, -1.0, [2.83, -0.911, 4.58, 0.911, 1.115, 7.0])
    rows.append(row("pin joint, r = 0.5, graze (closed form)", exact, touch.value, 1e-6))
    rows.append(said("its end", End.GRAZING.value, hit.ends[1].value))
    mark = hit.of(Kind.DOUBLING)[0]
    gap = crossing(mark, kz.Collocation(elements=30)) - mark.value
    rows.append(agreement(f"pin joint, r = 0.5, doubling at {mark.value:.6f}: collocation", gap))
    lively = kz.library.pin_joint().with_values(gamma=1.0, r=0.8)
    begin = kz.solve_orbit(lively, {"x": -0.29364841, "x'": 1.05513682})
    touched = kz.follow(lively, begin, "gamma", (0.95, 3.0), direction=1)
    exact = graze_of_pin_joint(0.8, 1.0, [0.85, -1.64, 5.95, 1.64, 1.43, 4.2])
    rows.append(row("pin joint, r = 0.8, graze (closed form)", exact, touched.of(Kind.GRAZING)[0].value, 1e-6))
    rows.append(said("its end", End.GRAZING.value, touched.ends[1].value))
    found = [
        ("cart, broken symmetry", broken), ("cart, doubled", doubled), ("dry friction in μ", rubbing),
        ("pin joint, r = 0.5, in γ", wall), ("pin joint, r = 0.5, broken symmetry", hit),
        ("pin joint, r = 0.8, broken symmetry", touched),
    ]  # fmt: skip
    lines = []
    for name, branch in found:
        lines += [(name, str(b), b.note) for b in branch.bifurcations]
        lines.append((name, f"ends: {branch.ends[1].value}", branch.end_messages[1]))
    return rows, markdown_table(["branch", "what", "note"], lines)


def main() -> str:
    hybrid_rows, curve = hybrid()
    event_rows, named = events()
    rows = [*pendulum(), *resonance(), *lorenz(), *hybrid_rows, *van_der_pol(), *cross_checks(), *event_rows]
    return "\n\n".join(
        [
            "# Families of orbits and their bifurcations",
            "Reference values: independent codes and closed forms as named in the script; tolerances as asked for.",
            comparison_table(rows),
            "## HYBRID, figure 3: doubling curve of the hanging state",
            curve,
            "## Events along branches",
            named,
        ]
    )
