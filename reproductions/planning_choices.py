"""Choices of a plan beside brute force: branches, sets of orbits, bifurcations, drives, continuous ranges."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from harness import Comparison, comparison_table, markdown_table

import kapitza as kz
from kapitza.continuation import Kind
from kapitza.planning import sets
from kapitza.planning.knowledge import known_from
from reproductions._cells import cells
from reproductions.planning import BY_LABEL

MANY = 400
"""Draws of the simulation beside which chances of branches are shown."""

BETWEEN = 0.5
"""Root mean square that separates the branches: about 0.3 on the lower one, 0.7 on the upper one."""

PROTOCOLS: tuple[tuple[float, Any, dict[str, float]], ...] = (
    (1.31, "state", {}), (1.34, "state", {}), (1.35, "state", {}), (1.37, "state", {}),
    (1.7, "from below", {}), (1.8, "from below", {}), (1.32, "from above", {}), (1.6, "state", {"x": 1.5}),
)  # fmt: skip
"""Frequency, how a run begins, and from which state."""
CONTINUOUS = ("hardening spring (built with)", "softening spring", "quadratic drag")


def main() -> str:
    tables = {
        "branches": branches, "approaches": approaches, "orbits": orbits, "hybrid": hybrid, "drives": drives,
        **{f"continuous {label}": continuous for label in CONTINUOUS},
    }  # fmt: skip
    made = cells("planning_choices", list(tables), lambda name, _: tables[name](name), 1, most=1)
    parts = ["# Choices beside brute force"]
    if "branches" in made:
        parts += [
            "## Chance of the upper branch",
            "An amplitude above 0.5 counts as the upper branch; a first threshold of 0.75 cut through that branch.",
            _branch_page(made["branches"]),
        ]
    if "approaches" in made:
        parts += ["## Jump example: how a run at 1.6 begins", _approach_page(*made["approaches"])]
    if "orbits" in made:
        parts += [
            "## Sets of unstable orbits of the ORBITS pendulum",
            "Prior of 1 %, 4 draws. A first try with one draw of a prior of 5 % took triples 19 % wider at the truth.",
            _rows(made["orbits"]),
        ]
    if "hybrid" in made:
        parts += ["## HYBRID: fold against doubling", markdown_table(["measure", "K [%]", "m [%]"], made["hybrid"][0]),
                  _rows(made["hybrid"][1])]  # fmt: skip
    if "drives" in made:
        head = ["force history", "damping θ3 [%]", "seal friction θ7 [%]"]
        parts += ["## Landing gear: which force history", markdown_table(head, made["drives"])]
    near = [row for name, rows in made.items() if name.startswith("continuous") for row in rows]
    if near:
        parts += [
            "## Continuous choices against 4096 Sobol points",
            "The softening spring was 10 % wider before the search was given several starts, and was in view then.",
            _rows(near),
        ]
    return "\n\n".join(parts)


def _rows(rows: list[Any]) -> str:
    return comparison_table([Comparison(*row) for row in rows])


def _branch_page(rows: list[Any]) -> str:
    worst = max(abs(row[2] - row[3]) for row in rows)
    head = ["frequency", "how it begins", "plan", "simulation", "draws"]
    shown = [[f"{w:g}", how, f"{a:.2f}", f"{b:.2f}", n] for w, how, a, b, n in rows]
    said = f"Largest difference {worst:.2f} (0.1 wanted): {'met' if worst <= 0.1 else '**missed**'}."
    return markdown_table(head, shown) + "\n\n" + said


def _approach_page(rows: list[Any], chosen: str) -> str:
    head = ["how it begins", "c [%]", "k [%]", "k3 [%]"]
    width = {row[0]: row[1] for row in rows}
    gain = width["from rest"] / width["from below"]
    said = (
        f"The plan chooses the run {chosen}: c is known {gain:.0f} times better than from rest "
        f"(the upper branch, 50 times in the notes): {'met' if chosen == 'from below' and gain > 30 else '**missed**'}."
    )
    return markdown_table(head, [[row[0], *(f"{v:.2g}" for v in row[1:])] for row in rows]) + "\n\n" + said


def jump() -> kz.Model:
    """The jump example: c ± 10 %, k ± 1 %, k3 ± 10 %, F = 0.3."""
    known = [
        kz.Parameter(n, 0.1 if n == "c" else 1.0, prior=kz.Prior(0.1 if n == "c" else 1.0, s), bounds=(0.0, np.inf))
        for n, s in (("c", 0.01), ("k", 0.01), ("k3", 0.1))
    ]
    return kz.Model.from_equations(
        "x'' + c*x' + k*x + k3*x**3 = F*cos(w*t)", parameters=[*known, kz.Parameter("F", 0.3), "w"], period="2*pi/w"
    )


def _period(model: kz.Model) -> Any:
    assert model.excitation is not None
    return model.excitation.period


def branches(_: str) -> list[Any]:
    """Chances from a plan, and from independent draws followed by `simulate` and told apart by their amplitude."""
    model, rows = jump(), []
    random = np.random.default_rng(5)
    truth = np.array([0.1, 1.0, 1.0]) + np.array([0.01, 0.01, 0.1]) * random.standard_normal((MANY, 3))
    for w, how, start in PROTOCOLS:
        run = _begun(w, how, start)
        found = kz.plan(model, {"F": [0.3]}, run=run, search=kz.Search(points=2, polish=0, shown=32))
        upper = [o.probability for o in found[0].outcomes if o.size > BETWEEN]
        draws = truth if how == "state" else truth[: MANY // 2]
        sizes = [_settled_size(model.with_values(c=c, k=k, k3=k3, F=0.3), run) for c, k, k3 in draws.tolist()]
        said = how if how != "state" else "given state x = 1.5" if start else "from rest"
        rows.append((w, said, float(sum(upper)), float(np.mean(np.array(sizes) > BETWEEN)), len(draws)))
    return rows


def _begun(w: float, how: Any, start: dict[str, float]) -> kz.Choice:
    wait = 150.0 if how == "state" else 60.0
    return kz.Choice({"F": 0.3, "w": w}, start, duration=40.0, step=0.1, channels={"x": 0.01}, settle=wait,
                     approach=how, sweep=("w", 0.8, 2.4))  # fmt: skip


def _settled_size(model: kz.Model, run: kz.Choice) -> float:
    """Root mean square of x in the recording, after the levels of a sweep in equal steps, by `simulate` alone."""
    low, high = 0.8, 2.4
    w = run.settings["w"]
    levels = [w] if run.approach == "state" else np.linspace(low if run.approach == "from below" else high, w, 12)
    state = [run.start.get("x", 0.0), 0.0]
    for level in levels:
        period = 2 * np.pi / level
        wait = np.ceil(run.settle / period) * period
        t = [0.0, wait, *(wait + np.arange(1, 400) * 0.1)]
        states = kz.simulate(model.with_values(w=float(level)), x0=state, t=np.array(t))
        state = [float(states["x"][1]), float(states["x'"][1])]
    return float(np.std(states["x"][1:]))


def approaches(_: str) -> list[Any]:
    """The jump example: how to begin a run at w = 1.6, as a plan ranks it, with the width of c on each."""
    model, rows = jump(), []
    for how, start in (("state", {}), ("state", {"x": 1.5}), ("from below", {}), ("from above", {})):
        found = kz.plan(model, {"F": [0.3]}, run=_begun(1.6, how, start), search=kz.Search(points=2, polish=0))
        said = how if how != "state" else "given state x = 1.5" if start else "from rest"
        rows.append([said, *(float(100 * a / s) for a, s in zip(found[0].after, found.wanted.scale, strict=True))])
    vary = {"approach": ["rest", "from below", "from above"]}
    best = kz.plan(model, vary, run=_begun(1.6, "state", {}), search=kz.Search(points=8, polish=0)).best
    return [rows, best.approach]


def orbits(_: str) -> list[Any]:
    """Pairs and triples by `best_set`, by exchange of members, and by every combination over the same draws.

    A first try, with one draw of a prior of 5 %, took triples that were 19 % wider than the best at the true values:
    the orbits move too far between draws. With 1 % and 4 draws the sets are compared at the draws and at the truth.
    """
    model = kz.library.parametric_pendulum()
    found = kz.find_orbits(model, max_period=3, region={"phi'": (-15.0, 15.0)}, details=False)
    free = ("l", "k2", "k3")
    known = [
        kz.Parameter(p.name, p.value, p.unit, prior=kz.Prior(p.value, 0.01 * abs(p.value))) if p.name in free else p
        for p in model.parameters
    ]
    model = kz.Model.from_equations(
        list(model.equations), coordinates=model.coordinates, parameters=known, period=_period(model)
    )
    run = kz.Choice(duration=60.0, step=0.02, channels={"phi": 0.005})
    search = kz.Search(draws=4, shown=4)
    values = np.array([model.values[n] for n in free])
    prior = np.diag(1 / (0.01 * values) ** 2)
    draws = known_from(model, None, None, search.seed).some(4)
    # Draws first, the true values last.
    places = [model.with_values(**dict(zip(free, row.tolist(), strict=True))) for row in (*draws, values)]
    told = np.array([[_told(at, orbit, free, run) for orbit in found] for at in places])
    rows: list[Any] = [["orbits of period up to 3", "-", len(found), "", True]]
    for size in (2, 3):
        numbers = np.array(list(combinations(range(len(found)), size)))
        spread = np.linalg.inv(prior + told[:, numbers].sum(axis=2) / size)
        logs = np.log(np.sqrt(np.diagonal(spread, axis1=-2, axis2=-1)) / np.abs(values)).mean(axis=-1)
        logs = np.where(np.isfinite(logs), logs, np.inf)  # an orbit that a draw does not have is left out
        over, truth = logs[:-1].mean(axis=0), logs[-1]
        whole = kz.best_set(model, list(found), size=size, run=run, search=search).best
        swapped = _exchange(model, list(found), size, run, search)
        for label, chosen in (("all compared", whole), ("by exchange", swapped)):
            place = int(np.flatnonzero((numbers == np.sort(chosen)).all(axis=1))[0])
            for where, score in (("over the draws", over), ("at the truth", truth)):
                excess = float(np.exp(score[place] - score.min()) - 1)
                said = f"sets of {size}, {label}, {where}: wider than the best"
                rows.append([said, "0", f"{excess:.2%}", "5 %", excess <= 0.05])
    return rows


def _told(model: kz.Model, orbit: Any, free: tuple[str, ...], run: kz.Choice) -> Any:
    """Information of an orbit; NaN where the model has not got it at these values."""
    try:
        return kz.orbit_information(model, orbit, free, run)
    except kz.KapitzaError:
        return np.full((len(free), len(free)), np.nan)


def _exchange(model: kz.Model, found: list[Any], size: int, run: kz.Choice, search: kz.Search) -> tuple[int, ...]:
    """The same set where there are too many to compare them all."""
    most, sets.TRIED = sets.TRIED, 0
    try:
        return kz.best_set(model, found, size=size, run=run, search=search).best
    finally:
        sets.TRIED = most


def hybrid(_: str) -> list[Any]:
    """Which bifurcation of the HYBRID test tells more of its stiffness K and pendulum mass m."""
    plain = kz.library.pendulum_on_spring()
    free = ("K", "m")
    known = [
        kz.Parameter(p.name, p.value, p.unit, prior=kz.Prior(p.value, 0.02 * abs(p.value))) if p.name in free else p
        for p in plain.parameters
    ]
    model = kz.Model.from_equations(
        list(plain.equations), coordinates=plain.coordinates, parameters=known, period=_period(plain)
    )
    fold, doubling = bifurcations(model)
    items = [kz.Reading.of(b, 0.01, f"{b.kind.value} at a = {b.value:.4g} N ± 0.01 N") for b in (fold, doubling)]
    rows = []
    for items_, size in (([items[0]], 1), ([items[1]], 1), (items, 2)):
        one = kz.best_set(model, items_, size=size, search=kz.Search(draws=4, shown=4)).sets[0]
        label = " + ".join(item.label for item in items_)
        rows.append([label, *(f"{100 * a / model.values[n]:.2g}" for n, a in zip(free, one.after, strict=True))])
    checks = []
    for kind, found in (("fold", 0), ("doubling", 1)):
        step = 1e-3 * model.values["K"]
        ends = [bifurcations(model.with_values(K=model.values["K"] + s * step))[found].value for s in (1, -1)]
        moved = [items[found].value(model.with_values(K=model.values["K"] + s * step)) for s in (1, -1)]
        gap = max(abs(a - b) for a, b in zip(ends, moved, strict=True))
        checks.append([f"{kind}: moved to other K against found anew", "0", f"{gap:.1e}", "1e-6", gap < 1e-6])
    return [rows, checks]


def bifurcations(model: kz.Model) -> tuple[kz.Bifurcation, kz.Bifurcation]:
    """The fold of the swinging motion and the doubling of the hanging state, along the forcing amplitude."""
    rest = {"y": 0, "theta": 0, "y'": 0, "theta'": 0}
    hanging = kz.follow(model.with_values(a=2.4), rest, "a", (2.3, 2.9), direction=1)
    (doubling,) = hanging.of(Kind.DOUBLING)
    swinging = kz.switch_branch(doubling, (0.5, 4.0))
    (fold,) = swinging.of(Kind.FOLD)
    return fold, doubling


def drives(_: str) -> list[Any]:
    """Widths of two parameters of the landing gear after runs with different measured forces."""
    t = np.arange(200) / 200
    shapes = {
        "sine of 600 N": 3300 + 600 * np.sin(2 * np.pi * t),
        "sine of 200 N": 3300 + 200 * np.sin(2 * np.pi * t),
        "step of 600 N": 3300 + 600 * ((t > 0.3) & (t < 0.6)),
        "ramp of 900 N": 3300 + 900 * np.minimum(t, 1 - t),
    }
    gear = kz.library.oleo(values="estimation")
    names = ("theta3", "theta7")
    model = gear
    prior = np.diag([1 / (0.1 * model.values[n]) ** 2 for n in names])
    run = kz.Choice(start=dict(gear.start), duration=3.0, step=0.01, channels={"u": 1e-3})
    rows = []
    for label, values in shapes.items():
        driven = kz.with_drives(model, {"F": kz.Signal("F", t, values, 1.0, unit="N")})
        told = kz.information(driven, run, names)
        width = np.sqrt(np.diag(np.linalg.inv(prior + told)))
        rows.append([label, *(f"{100 * w / abs(model.values[n]):.2g}" for w, n in zip(width, names, strict=True))])
    return rows


def continuous(name: str) -> list[Any]:
    """The plan's best run over the best of 4096 points of another Sobol sequence, at the same 32 draws."""
    from scipy.stats import qmc

    from kapitza.planning.experiments import Experiments
    from kapitza.planning.limits import Limits

    label = name.removeprefix("continuous ")
    one = BY_LABEL[label]
    known = [
        kz.Parameter(n, v, prior=kz.Prior(v, 0.1 * v) if n in one.free else None, bounds=(0.0, np.inf))
        for n, v in one.values.items()
    ]
    model = kz.Model.from_equations(list(one.equations), parameters=known, **one.parts)
    run = kz.Choice(one.run.settings, duration=30.0, step=0.1, channels=one.run.channels)
    vary = {**one.vary, "x": (0.0, 0.5)}
    plan = kz.plan(model, vary, run=run, limits=one.limits)
    runner = Experiments(model, plan.knowledge.names, tuple(one.limits))
    points = qmc.Sobol(3, rng=np.random.default_rng(99)).random_base2(12)
    choices = [plan.space.choice(point) for point in points]
    limits, few = Limits(one.limits), plan.knowledge.some(8)
    scores = []
    for first in range(0, len(choices), 256):
        part = choices[first : first + 256]
        runs = runner.run(part, few, limits.peaks)
        score = plan.wanted.score(plan.knowledge.information + runs.information, "mean log")
        scores.append(np.where(limits.share(runs, part) <= 1, score, np.inf))
    best = [choices[i] for i in np.argsort(np.concatenate(scores), kind="stable")[:24]]
    runs = runner.run([plan.best, *best], plan.knowledge.some(32))
    score = plan.wanted.score(plan.knowledge.information + runs.information, "mean log")
    score = np.where(limits.share(runs, [plan.best, *best]) <= 1, score, np.inf)
    excess = float(np.exp(score[0] - score[1:].min()) - 1)
    return [[f"{label}: wider than the best of 4096", "0", f"{excess:.2%}", "2 %", excess <= 0.02]]
