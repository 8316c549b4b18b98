"""The function `suggest`: terms that residuals indicate."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kapitza.base.arrays import Array, Indices
from kapitza.base.cures import By
from kapitza.base.rounded import chance_text
from kapitza.data import PROPOSED
from kapitza.errors import KapitzaError
from kapitza.estimate.branch_fit import BranchFit
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.faults import LARGEST_SHARE
from kapitza.estimate.misfit import ALARM as MISFIT
from kapitza.estimate.missing.columns import windows_of
from kapitza.estimate.missing.dictionary import Term, candidate_terms
from kapitza.estimate.missing.laws import DriveLaws, not_in_model
from kapitza.estimate.missing.of_curves import curve_products
from kapitza.estimate.missing.score import (
    ALARM,
    JointScores,
    effective_tests,
    eliminated,
    log_chance,
    products_of,
    scale_of,
    shift_of,
)
from kapitza.estimate.orbit_fit import OrbitFit
from kapitza.flow import Flow

if TYPE_CHECKING:
    import pandas as pd

LEVEL = float(np.log(ALARM))
LITTLE, SHOWN = 0.1, 3
"""Share of the forces above which an undetectable term is reported; most terms that a sentence names."""

LISTED = 8
"""Most parameters whose largest shift by an undetected term is listed."""

REPORTED = 2.0
"""Standard errors by which an undetectable term must move a parameter to be listed."""

PAIRED = 14
"""Strongest single terms from which pairs are formed."""

LISTED_PAIRS = 4
"""Pairs that are listed."""


@dataclass(frozen=True)
class MissingTerm:
    """Candidate term with its evidence and size.

    As if it were added to x'' + ... = 0 (per mass) alone. gain: by how much the sum of squared residuals falls, in
    variances of the noise; log10_p: of the probability of such a gain in a complete model, corrected for the search;
    coefficient, error: one-step estimate; own_share: share of its effect that nothing in the fit can reproduce;
    detectable: coefficient that would have been detected with 95 % probability; physical: False for a friction law that
    would feed energy in, and for a gain that is off by more than a column of first order describes; share: of the
    detectable term in the forces (root mean square). moves, errors: the fitted parameter that a term of the detectable
    size moves most, and by how many standard errors.
    """

    name: str
    notation: str
    gain: float
    log10_p: float
    coefficient: float
    error: float
    own_share: float
    detectable: float
    physical: bool
    share: float = float("nan")
    moves: str = ""
    errors: float = float("nan")


@dataclass(frozen=True)
class Shift:
    """Shift of a parameter by an undetected term.

    It is in standard errors.
    """

    parameter: str
    term: str
    size: float
    errors: float

    def __str__(self) -> str:
        return f"{self.parameter} by {self.errors:.2g} ({self.term} of {self.size:.2g})"


@dataclass(frozen=True)
class Suggestion:
    """Result of `suggest`.

    terms: all candidates, the strongest first. alternatives: the single terms after which no other term is significant:
    this record cannot distinguish them. pairs: where no single term suffices, pairs by their gain. tests: effective
    number of independent tests of the search. unexplained: what the fit misses by its own test of misfit, "" for
    nothing. shifts: for each fitted parameter the undetected term that moves it most, the largest first.
    """

    terms: tuple[MissingTerm, ...]
    alternatives: tuple[MissingTerm, ...]
    pairs: tuple[tuple[MissingTerm, MissingTerm], ...]
    pair_gains: tuple[float, ...]
    tests: float
    unexplained: str = ""
    shifts: tuple[Shift, ...] = ()

    @property
    def missing(self) -> bool:
        """Whether a term is missing.

        The level is 3 % for the whole search.
        """
        return bool(self.terms) and self.terms[0].log10_p < np.log10(ALARM)

    @property
    def to_try(self) -> tuple[str, ...]:
        """Names of the terms to add first, none where nothing is missing.

        Those that explain the residuals alone, else the one that is in every pair listed, else the strongest.
        """
        if not self.missing:
            return ()
        if self.alternatives:
            return tuple(term.name for term in self.alternatives)
        named = [{one.name, two.name} for one, two in self.pairs[:LISTED_PAIRS]]
        shared = set.intersection(*named) if len(named) > 1 else set()
        strongest = next((t for t in self.terms if t.physical), self.terms[0])
        return tuple(sorted(shared)) or (() if self.pairs else (strongest.name,))

    def table(self) -> pd.DataFrame:
        """Return one row per candidate."""
        import pandas as pd

        rows = [
            (t.name, t.notation, t.gain, t.log10_p, t.coefficient, t.error, t.own_share, t.detectable, t.physical)
            for t in self.terms
        ]
        columns = ["term", "add", "gain", "log10 p", "coefficient", "error", "own share", "detectable", "physical"]
        return pd.DataFrame(rows, columns=columns).set_index("term")

    @property
    def power(self) -> str:
        """Smallest sizes that would have been detected.

        Terms that could be as strong as a tenth of the forces without being detected are listed as well.
        """
        sizes = [t for t in self.terms if np.isfinite(t.share)]
        weak = sorted((t for t in sizes if t.share > LITTLE), key=lambda t: -t.share)
        shown = sorted(sizes, key=lambda t: t.share)[:SHOWN]
        seen = "; ".join(f"{t.name} above {t.detectable:.2g} ({100 * t.share:.2g} % of the forces)" for t in shown)
        text = f"Would have been seen: {seen}." if shown else 'Sizes under "detectable" would have been seen.'
        if weak:
            names = "; ".join(f"{t.name} below {t.detectable:.2g}" for t in weak[:SHOWN])
            text += f" Low power: these data cannot rule out {names}."
        return text + self._leverage

    @property
    def _leverage(self) -> str:
        """Shifts of parameters by undetected terms.

        The largest shift is first.
        """
        strong = [shift for shift in self.shifts if shift.errors >= REPORTED]
        if not strong:
            return ""
        text = "; ".join(str(shift) for shift in strong[:LISTED])
        if len(strong) > LISTED:
            text += f"; {len(strong) - LISTED} more parameters by at most {strong[LISTED].errors:.2g}"
        return f" Terms too small to be seen can still move values, in standard errors: {text}."

    def __str__(self) -> str:
        if not self.terms:
            return "The fitted parameters and states reproduce the effect of every candidate term on these data."
        if not self.missing:
            best = self.terms[0]
            strongest = f"the strongest, {best.name}, with {chance_text(best.log10_p)}"
            if self.unexplained:
                return (
                    f"Something is missing that none of these {len(self.terms)} candidates explains ({strongest}), or "
                    f"the noise is coloured: {self.unexplained}. Try fewer samples per oscillation, pass your "
                    "own terms, look at the residuals."
                )
            return (
                f"Nothing is missing: of {len(self.terms)} candidate terms none explains the residuals ({strongest}). "
                f"{self.power}"
            )
        lines = [f"Something is missing ({chance_text(self.terms[0].log10_p)})."]
        if self.alternatives:
            lines.append(
                "One more term explains it:"
                if len(self.alternatives) == 1
                else "One of these terms explains it; this record cannot distinguish them:"
            )
            lines += [f"  {_shown(term)}" for term in self.alternatives]
        elif self.pairs:
            lines.append("No single term explains it. Pairs, by how much they explain:")
            for (one, two), gain in zip(self.pairs[:LISTED_PAIRS], self.pair_gains, strict=False):
                lines.append(
                    f"  {one.name} ({one.coefficient:.3g}) and {two.name} ({two.coefficient:.3g}): gain {gain:.4g}"
                )
            lines += [f"{name} is in all of them: try it alone first." for name in self.to_try]
        else:
            strongest = next((t for t in self.terms if t.physical), self.terms[0])
            lines.append(f"No single term explains all of it. The strongest: {_shown(strongest)}")
        return "\n".join(lines)


def _shown(term: MissingTerm) -> str:
    text = term.notation.format(c=f"{term.coefficient:.3g}")
    return f"{term.name}: + {text}  (± {term.error:.2g}, gain {term.gain:.4g}, {chance_text(term.log10_p)})"


def suggest(fit: Estimate, terms: Sequence[Term] = ()) -> Suggestion:
    """Find terms that the residuals indicate.

    Every candidate (friction laws, stiffnesses, stops, harmonics of the drive, couplings, polynomials of first-order
    equations, parameters that were held, offsets, drifts and gains of the sensors) is tested by its score: its effect
    on the samples follows from the tangents of the fitted motion, without a refit. Initial states and free parameters
    are eliminated, residuals whitened by an autoregression, and probabilities corrected for the number of tests.

    Parameters
    ----------
    fit : Estimate
        Of a record, by `ShootingFit` or ``"auto"``; or by `OrbitFit` or `BranchFit`: then without laws that switch
        (dry friction, drag, stops) and without faults of sensors.
    terms : sequence of Term, optional
        Candidates of your own, in addition to the built-in ones; for motions only.

    Returns
    -------
    Suggestion
        Print it for a summary; ``.missing`` is False when no term is missing.

    Examples
    --------
    >>> import numpy as np, kapitza as kz
    >>> rig = {"c": 0.1, "k": 4.0}
    >>> truth = kz.Model.from_equations("x'' + c*x' + k*x + 0.8*x**3 = 0", parameters=rig)
    >>> record = kz.measure(kz.simulate(truth, [1, 0], t=np.arange(1500) * 0.02).select(["x"]), noise=0.01, seed=1)
    >>> linear = kz.Model.from_equations("x'' + c*x' + k*x = 0", parameters=rig)
    >>> found = kz.suggest(kz.identify(linear, record, free=["c", "k"], method=kz.ShootingFit()))
    >>> "cubic stiffness of x" in str(found)
    True
    """
    if not fit.status.ok:
        raise KapitzaError(
            f"The fit did not converge ({fit.status.value}): there are no residuals of a motion to test."
        )
    misfit = fit.misfit
    unexplained = "" if misfit is None or misfit.chance >= MISFIT else f"{misfit.what} {misfit.verdict}"
    if isinstance(fit.settings, OrbitFit | BranchFit):
        if terms:
            raise KapitzaError(f'Terms of your own need the motion of a fit: fit by {By("shooting")} or "auto".')
        products, every = curve_products(fit)
        labels = [Label(term.name, term.notation, term.kind == "friction") for term in every]
        found = judged(eliminated(products, len(fit.names)), labels)
        found = with_moves(found, fit, labels, shift_of(products, np.zeros(len(fit.names))))
        return replace(found, unexplained=unexplained)
    if fit.motion is None:
        raise KapitzaError(f'suggest needs the motion of a fit: fit the record by {By("shooting")} or "auto".')
    model = fit.model
    reach = np.abs(fit.motion.states).max(axis=0)
    every = [*not_in_model(fit, fit.names, candidate_terms(model, reach)), *terms]
    held = tuple(n for n in model.names if n not in fit.names and np.isfinite(model.values[n]) and model.values[n] != 0)
    products, labels = products_of(windows_of(fit, every, held)), labels_of(fit, every, held, fit.names)
    found = with_shares(judged(eliminated(products, len(fit.names)), labels), [fit], every)
    found = with_moves(found, fit, labels, shift_of(products, np.zeros(len(fit.names))))
    return replace(found, unexplained=unexplained)


def with_shares(found: Suggestion, fits: Sequence[Estimate], terms: Sequence[Term]) -> Suggestion:
    """Return the suggestion with shares of the forces.

    Each detectable term relative to the forces, along the motion where its share is largest.
    """
    each = [_sizes(fit, terms) for fit in fits]
    sizes = {name: max(one[name] for one in each if name in one) for name in {n for one in each for n in one}}
    return replace(found, terms=tuple(replace(t, share=t.detectable * sizes.get(t.name, np.nan)) for t in found.terms))


def with_moves(found: Suggestion, fit: Estimate, labels: Sequence[Label], shift: Array) -> Suggestion:
    """Return the suggestion with shifts of the parameters.

    For each term, as large as detectable, the parameter of the fit that it moves most. shift (k, m): effect of a unit
    of each term on the parameters.
    """
    deviations = np.array([fit.deviations[name] for name in fit.names])
    known = np.isfinite(deviations) & (deviations > 0)
    if not known.any():
        return found
    units = np.abs(shift[known]) / deviations[known, None]
    names = [name for name, here in zip(fit.names, known, strict=True) if here]
    column = {label.name: u for label, u in zip(labels, units.T, strict=True)}
    moved = {t.name: t.detectable * column[t.name] for t in found.terms}
    terms = [replace(t, moves=names[int(np.argmax(m))], errors=float(m.max()))
             for t, m in zip(found.terms, moved.values(), strict=True)]  # fmt: skip
    shifts = []
    for row, name in enumerate(names):
        worst = max(found.terms, key=lambda t, row=row: float(moved[t.name][row]), default=None)
        if worst is not None:
            shifts.append(Shift(name, worst.name, worst.detectable, float(moved[worst.name][row])))
    return replace(found, terms=tuple(terms), shifts=tuple(sorted(shifts, key=lambda one: -one.errors)))


def _sizes(fit: Estimate, terms: Sequence[Term]) -> dict[str, float]:
    """Return the size of each law relative to forces.

    A size is the root mean square along the motion, over that of the forces in the law's equation.
    """
    motion = fit.motion
    assert motion is not None
    forces = np.sqrt((Flow(fit.model).rates(motion.states, motion.times) ** 2).mean(axis=0))
    laws = {term.name: float(np.sqrt((term.law(motion.states, motion.times) ** 2).mean())) for term in terms}
    return {term.name: laws[term.name] / float(forces[term.state]) for term in terms if forces[term.state] > 0}


@dataclass(frozen=True)
class Label:
    name: str
    notation: str
    friction: bool
    share: bool = False
    """Whether the coefficient is a share, as that of a gain is."""

    def allows(self, coefficient: float) -> bool:
        """Return whether a term of this size is possible.

        Friction on the left side of the equation has a positive coefficient, and a gain changes no sign.
        """
        return coefficient > 0 if self.friction else not self.share or abs(coefficient) <= LARGEST_SHARE


def labels_of(fit: Estimate, terms: Sequence[Term], held: Sequence[str], free: Sequence[str]) -> list[Label]:
    """Return the labels of all columns, in order."""
    channels = tuple(fit.residuals)
    return [
        *(Label(term.name, term.notation, term.kind == "friction") for term in terms),
        *(Label(f"{fault} of the drive", f"{fault} {{c}}", False) for fault in DriveLaws.of(fit, free).names),
        *(Label(f"other value of {name}, which was held", f"{name} by {{c}}", False) for name in held),
        *(
            Label(f"{error.name} of the sensor {channel}", f"{error.name} {{c}}", False, not error.unit)
            for error in PROPOSED
            for channel in channels
        ),
    ]


def judged(scores: JointScores, labels: Sequence[Label]) -> Suggestion:
    from scipy import stats

    live = np.flatnonzero(np.diag(scores.information) > 0)
    if not live.size:
        return Suggestion((), (), (), (), 0.0)
    tests = effective_tests(scores.information)
    gains = scores.gains
    scale = scale_of(scores)
    chances = log_chance(gains, scale, tests, scores.freedom)
    # Threshold of a single test (Šidák) plus the quantile of a power of 95 %.
    reach = stats.norm.isf((1 - (1 - ALARM) ** (1 / tests)) / 2) + stats.norm.isf(0.05)
    power = np.sqrt(np.where(np.diag(scores.information) > 0, np.diag(scores.information), 1.0))

    def term(i: int, coefficient: float | None = None) -> MissingTerm:
        step = float(scores.steps[i]) if coefficient is None else coefficient
        error = float(np.sqrt(scale) / power[i])
        physical = labels[i].allows(step)
        return MissingTerm(
            labels[i].name, labels[i].notation, float(gains[i] / scale), float(chances[i] / np.log(10)), step, error,
            float(scores.own[i]), float(reach * error), physical,
        )  # fmt: skip

    order = live[np.argsort(-gains[live], kind="stable")]
    terms = tuple(term(int(i)) for i in order)
    if chances[order[0]] >= LEVEL:
        return Suggestion(terms, (), (), (), tests)
    good = [int(i) for i in order if chances[i] < LEVEL and term(int(i)).physical]
    enough = [i for i in good if _complete(scores.given([i]), tests)]
    alternatives = tuple(term(i) for i in enough)
    if alternatives:
        return Suggestion(terms, alternatives, (), (), tests)
    pairs = _pairs(scores, [int(i) for i in order[:PAIRED]] + _frictions(labels, live), labels)
    best = max((gain for gain, _, _ in pairs), default=1.0)
    after = max((scores.square - best) / max(scores.dof - 2, 1), 1e-300)
    shown = tuple((term(i, float(c[0])), term(j, float(c[1]))) for _, (i, j), c in pairs)
    return Suggestion(terms, (), shown, tuple(float(gain / after) for gain, _, _ in pairs), tests)


def _frictions(labels: Sequence[Label], live: Indices) -> list[int]:
    return [int(i) for i in live if labels[i].friction]


def _complete(scores: JointScores, tests: float) -> bool:
    """Return whether no other candidate is significant."""
    return bool((log_chance(scores.gains, scale_of(scores), tests, scores.freedom) >= LEVEL).all())


def _pairs(
    scores: JointScores, index: Sequence[int], labels: Sequence[Label]
) -> list[tuple[float, tuple[int, int], Array]]:
    """Return the best pairs of physical terms."""
    found = []
    for i, j in itertools.combinations(sorted(set(index)), 2):
        block = scores.information[np.ix_([i, j], [i, j])]
        shared = block[0, 1] ** 2 / max(block[0, 0] * block[1, 1], 1e-300)
        # The two terms have the same effect on these data.
        if shared > 1 - 1e-9:
            continue
        coefficients = scores.coefficients([i, j])
        if not all(labels[k].allows(c) for k, c in zip((i, j), coefficients, strict=True)):
            continue
        found.append((float(scores.score[[i, j]] @ coefficients), (i, j), coefficients))
    return sorted(found, key=lambda pair: -pair[0])[:8]
