"""Search for conserved quantities in a class of functions.

For I = Σ_k c_k φ_k the mean square about its level, c·S0·c, is compared with what noise of variance v on the channels
would give it, c·N·c with N = mean of ∇φ V ∇φᵀ: the generalised singular values λ of the two are the squared ratios of
the variation of each combination to the noise. Functions without gradient (constants, identities such as sin² + cos²,
squares of what vanishes on the data) are removed first; multiples of a found invariant have parallel gradients and are
not new. Where the noise is known, the residual of an invariant must also be unpredictable from earlier samples
(`past`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from kapitza.base.argument_checks import Anything
from kapitza.base.arrays import Array
from kapitza.base.monitor import Monitor, Task, checkpoint, watch
from kapitza.data import records_of
from kapitza.errors import DataError, KapitzaError
from kapitza.estimate.invariant_fit.conserved.covariance import variance_covariance
from kapitza.estimate.invariant_fit.conserved.expression import Form
from kapitza.estimate.invariant_fit.conserved.found import FoundInvariant, InvariantSearch, describe
from kapitza.estimate.invariant_fit.conserved.moments import FeatureTable, level_sums, triangle
from kapitza.estimate.invariant_fit.conserved.past import CHANCE, TESTS, PastTest, predicted_share, richer
from kapitza.estimate.invariant_fit.conserved.points import ASSUMED_NOISE, Points, scrambled
from kapitza.estimate.invariant_fit.conserved.samples import (
    MOST_POINTS,
    fractions_of,
    search_points,
    split_off,
    stretches,
)
from kapitza.estimate.invariant_fit.conserved.terms import candidate_terms, complexity
from kapitza.estimate.invariant_fit.conserved.variance import Bounds, VarianceProblem, minimise_corrected, minimise_raw
from kapitza.model import symbol
from kapitza.solve import singular_vectors

KNOWN_LIMIT, ESTIMATED_LIMIT = 1.5, 4.0
"""Largest λ (squared ratio to the noise) that noise explains: noise known, and estimated from the data."""
SURELY_MORE, INEXACT = 5.0, 1.2
"""Known noise: a λ above INEXACT (a stated noise is never exact) is significant beyond this many standard errors."""
HELD_BACK = 9.0
"""λ on held-back data, in units of the limit, that shows a combination fitted to the first part only."""
LEAST_CONTRAST = 2.0
"""Smallest ratio of the variation over unrelated combinations of the same states to that along the data."""
ROUNDING = 1e-6
"""Relative variation up to which a function counts as conserved where nothing is known of the noise."""
INDEPENDENT = 20.0
"""Share of the squared gradient outside those already found that makes a function new, in squared relative noise."""
WORSE = 20.0
"""Growth of the statistic of the past, χ² with one degree of freedom, above which a term is needed."""
OVERSTATED = 0.1
"""λ below which the data have less noise than stated or estimated, so that the residual is rounding, not this noise."""
PREDICTED = 0.05
"""Share of the variation that earlier samples may predict where the noise is estimated, which is never quite white."""
MOST_LEFT_OUT = 8
"""Most orbits that are left out in turn."""
SIGNIFICANT = 3.0
"""Smallest size of a coefficient that is kept, in standard errors."""


def find_invariant(
    data: Anything,
    terms: Sequence[str | sp.Expr] | None = None,
    degree: int = 2,
    noise: float | Mapping[str, float] | None = None,
    tolerance: float | Mapping[str, float] | None = None,
    hold_back: float = 0.3,
    monitor: Monitor | None = None,
) -> InvariantSearch:
    """Find conserved combinations of candidate functions.

    Functions of the channels; every record is an orbit with its own value.

    Parameters
    ----------
    data : Record or list of Record
        Samples of the states.
    terms : list of str or SymPy expressions, optional
        Candidates in the channels; by default polynomials up to `degree`, times cos and sin for angles.
    degree : int
        Of the polynomials.
    noise : float or mapping, optional
        Standard deviation, one for all or by channel; by default the record's, or an estimate from dense sampling.
    tolerance : float or mapping, optional
        Noise level, as a fraction of each channel's mean modulus (one for all or by channel), that may explain a
        variation; by default the known or estimated noise decides.
    hold_back : float
        Last part of every record that is used for the test alone.
    monitor : Monitor, optional
        Shown the progress. Cancelled, or after Ctrl-C, the invariants found so far come back, INTERRUPTED.

    Returns
    -------
    InvariantSearch
        Invariants found, simplest first, and the verdict as text.

    Examples
    --------
    >>> import numpy as np, kapitza as kz
    >>> t = np.arange(400) * 0.1
    >>> circle = kz.Record.from_arrays(t, {"x": 2 * np.cos(t), "y": 2 * np.sin(t)})
    >>> print(kz.find_invariant(kz.measure(circle, noise=1e-3, seed=1))[0].expression)
    x**2 + y**2
    """
    if not isinstance(hold_back, Real) or not 0 < hold_back < 1:
        raise KapitzaError(f"hold_back is a fraction between 0 and 1, not {hold_back}: 0.3 is usual.")
    records = records_of(data, "find_invariant")
    allowed = None if tolerance is None else fractions_of(tolerance, records[0].channels)
    points, kind = search_points(records, noise, allowed)
    kind = "tolerances" if isinstance(tolerance, Mapping) else kind
    angles = records[0].angles
    library = sorted(candidate_terms(records[0].channels, angles, terms, degree), key=complexity)
    _check_terms(library, points, records[0].channels)
    train, test = split_off(points, hold_back)
    # Ceiling division: at most MOST_POINTS, spread evenly.
    train = train.take(np.arange(0, train.count, -(-train.count // MOST_POINTS)))
    with watch(monitor, "looking for invariants") as task:
        search = _Search(tuple(library), train, test, stretches(points), kind, angles)
        return search.run(task)
    raise KeyboardInterrupt


def _check_terms(library: Sequence[sp.Expr], points: Points, channels: Sequence[str]) -> None:
    known = {symbol(c) for c in channels}
    for term in library:
        unknown = term.free_symbols - known
        if unknown:
            names = ", ".join(sorted(str(s) for s in unknown))
            raise KapitzaError(f"The term {term} contains {names}; the channels are {', '.join(channels)}.")
    if not library:
        raise KapitzaError("There are no candidate terms: give some, or a degree of 1 or more.")
    if points.count <= 2 * len(library):
        raise DataError(
            f"{points.count} samples cannot test {len(library)} candidate terms: "
            f"more than {2 * len(library)} are needed."
        )


def library_form(terms: Sequence[sp.Expr], variables: tuple[str, ...], lead: int, units: Array | None = None) -> Form:
    """Return a combination of terms as a form.

    I = φ_lead + Σ c_k φ_k; its parameters are the other coefficients, in the given units (K,).
    """
    names = [f"#c{k}" for k in range(len(terms)) if k != lead]
    size = [sp.Integer(1)] * len(terms) if units is None else [sp.Rational(float(u)) for u in units]
    coefficients = [sp.Integer(1) if k == lead else symbol(f"#c{k}") * size[k] for k in range(len(terms))]
    expression = sp.Add(*(c * t for c, t in zip(coefficients, terms, strict=True)))
    values = dict.fromkeys(names, 1.0)
    return Form(expression, variables, tuple(names), values, tuple(terms), tuple(coefficients), True)


class _Search:
    """One search in a library of terms.

    Moments of the whole library are formed once; then ever larger parts of it are searched, simplest terms first.
    """

    def __init__(
        self,
        library: tuple[sp.Expr, ...],
        train: Points,
        test: Points,
        whole: Points,
        kind: str,
        angles: Sequence[bool],
    ):
        self.train, self.test, self.kind = train, test, kind
        self.scrambled = scrambled(train)
        square = np.mean((train.values - np.mean(train.values, axis=1)[:, None]) ** 2, axis=1)
        self.relative_noise = float(np.sqrt(np.mean(np.mean(train.variance, axis=1) / square)))
        self.dropped: list[sp.Expr] = []
        self.refused: list[str] = []
        self._measure(library)
        # Dependent terms would make null vectors that are identities, not invariants.
        keep = self._independent()
        self.dropped += [t for t, k in zip(self.library, keep, strict=True) if not k]
        if not keep.all():
            self._measure(tuple(t for t, k in zip(self.library, keep, strict=True) if k))
        self.whole, self.past_test, self.past = whole, None, list(self.library)
        if kind in ("known", "estimated"):
            self.past_test = PastTest(self.library, whole, self.library)
            self.past = richer(self.library, whole.variables, angles)

    def _measure(self, library: tuple[sp.Expr, ...]) -> None:
        form = library_form(library, self.train.variables, 0)
        table = FeatureTable(form, 1)
        terms = table.evaluate(self.train.values, self.train.variance, np.ones(len(form.free)))
        if not np.isfinite(terms.value).all():
            bad = library[int(np.flatnonzero(~np.isfinite(terms.value).all(axis=1))[0])]
            raise DataError(f"The term {bad} is not finite on these data: leave it out, or the samples where it fails.")
        spread, size = np.std(terms.value, axis=1), np.max(np.abs(terms.value), axis=1)
        still = spread <= 1e-12 * size
        if still.any():  # conserved as it stands, unless it is constant everywhere
            apart = table.evaluate(self.scrambled.values, self.scrambled.variance, np.ones(len(form.free))).value
            spread = np.where(still, np.std(apart, axis=1), spread)
        alive = spread > 1e-12 * size
        if not alive.any():
            raise DataError(f"Every candidate term is constant on these data ({', '.join(map(str, library))}).")
        if not alive.all():
            self.dropped += [t for t, a in zip(library, alive, strict=True) if not a]
            self._measure(tuple(t for t, a in zip(library, alive, strict=True) if a))
            return
        self.library, self.spread = library, spread
        self.gradient = terms.gradient * np.sqrt(self.train.variance) / spread[:, None, None]
        ones = np.ones(self.train.count)
        means = level_sums(terms.value, ones, self.train.level, self.train.levels) / np.bincount(self.train.level)
        self.centred = (terms.value - means[:, self.train.level]) / spread[:, None]
        self.root = triangle(self.centred.T / np.sqrt(self.train.count))
        flat = self.gradient.reshape(len(library), -1).T / np.sqrt(self.train.count)
        self.noise_root = triangle(flat)

    def _independent(self) -> NDArray[np.bool_]:
        """Return the terms that are independent.

        They are not, up to a constant, combinations of simpler ones: their gradients add something.
        """
        columns = self.noise_root / np.linalg.norm(self.noise_root, axis=0)
        keep = np.zeros(columns.shape[1], bool)
        basis = np.zeros((columns.shape[0], 0))
        for k, column in enumerate(columns.T):
            rest = column - basis @ (basis.T @ column)
            # Orthogonalised twice: once leaves rounding along the basis.
            rest -= basis @ (basis.T @ rest)
            if np.linalg.norm(rest) > 1e-8:
                basis = np.column_stack([basis, rest / np.linalg.norm(rest)])
                keep[k] = True
        return keep

    @property
    def limit(self) -> float:
        """Largest λ that counts as conserved."""
        return {
            "known": KNOWN_LIMIT,
            "estimated": ESTIMATED_LIMIT,
            "tolerance": 1.0,
            "tolerances": 1.0,
            "rounding": (ROUNDING / ASSUMED_NOISE) ** 2,
        }[self.kind]

    def spectrum(self, chosen: NDArray[np.intp]) -> tuple[Array, Array]:
        """Return λ and coefficient vectors of chosen terms.

        λ ascending; the vectors are in units of the terms' spread.
        """
        # Whitened by the noise, the singular values are ratios of variation to noise.
        noise = triangle(self.noise_root[:, chosen])
        whitened = np.linalg.solve(noise.T, self.root[:, chosen].T).T
        _, values, right = singular_vectors(whitened)
        values = np.concatenate([values, np.zeros(right.shape[0] - values.size)])
        vectors = np.linalg.solve(noise, right.T)
        order = np.argsort(values, kind="stable")
        return values[order] ** 2, np.asarray(vectors[:, order], float)

    def best(self, chosen: NDArray[np.intp]) -> tuple[Array, Array, float]:
        """Return the combination that looks most conserved.

        λ ascending, the combination (k,), and a statistic of how surely its residual is not noise.
        Among several that noise may explain the least predictable from the past is taken. The last number is the
        statistic of `PastTest`, infinite where noise does not explain it, 0 where the order in time cannot be used.
        """
        from scipy.stats import chi2

        values, vectors = self.spectrum(chosen)
        count = int(np.sum(values <= self.limit))
        vector, scale = vectors[:, 0], self.spread[chosen]
        if not count:
            return values, vector, np.inf
        if self.past_test is None or not self.past_test.able(chosen.size) or values[0] < OVERSTATED:
            return values, vector, 0.0
        if count > 1:
            vector = self.past_test.least_predictable(chosen, vectors[:, :count] / scale[:, None]) * scale
        _, _, statistic, dof = self.past_test.fit(chosen, vector / scale)
        return values, vector, statistic if TESTS * chi2.sf(statistic, dof) >= CHANCE else np.inf

    def run(self, watched: Task) -> InvariantSearch:
        """Search ever larger parts of the library.

        One term of each invariant found is removed before the next search.
        """
        weight = np.array([complexity(t)[0] for t in self.library])
        found: list[FoundInvariant] = []
        gradients: list[Array] = []
        closest, settled = np.inf, np.zeros(weight.size, bool)
        with watch(watched, "ever larger parts of the library", len(np.unique(weight))) as task:
            for size in np.unique(weight):
                closest = self._search_part(weight <= size, settled, found, gradients, closest)
                task.advance(1, f"{len(found)} found")
        answer = describe(self._distinct(found, gradients), self, closest)
        return answer if not task.interrupted else replace(answer, status=task.status)

    def _search_part(
        self, part: NDArray[np.bool_], settled: NDArray[np.bool_], found: list[FoundInvariant], gradients: list[Array],
        closest: float,
    ) -> float:  # fmt: skip
        """Add the invariants among some of the terms.

        Returns the smallest noise ratio found so far.
        """
        chosen = np.flatnonzero(part & ~settled)
        while chosen.size:
            checkpoint()
            values, _, statistic = self.best(chosen)
            closest = min(closest, float(values[0]))
            if values[0] > self.limit:
                break
            result, pivot = self._candidate(self._simplest(chosen), gradients)
            if result is not None:
                found.append(result[0])
                gradients.append(result[1])
                settled[pivot] = True
            if statistic == np.inf:
                break  # the others follow the motion even more
            chosen = chosen[chosen != pivot]
        return closest

    def _distinct(self, found: list[FoundInvariant], gradients: list[Array]) -> tuple[FoundInvariant, ...]:
        """Return the invariants that are distinct.

        Those that are, on these data, functions of better conserved ones found later are left out.
        """
        kept: list[int] = []
        for k in sorted(range(len(found)), key=lambda k: found[k].noise_ratio):
            if self._is_new(gradients[k], [gradients[other] for other in kept]):
                kept.append(k)
        return tuple(found[k] for k in sorted(kept))

    def _simplest(self, chosen: NDArray[np.intp]) -> NDArray[np.intp]:
        """Drop the most complex terms while possible.

        This ends when only one combination may be conserved, or none stays so without them.
        """
        values, _, whole = self.best(chosen)
        while chosen.size > 1 and values[1] <= self.limit:
            less, _, statistic = self.best(chosen[:-1])
            if less[0] > self.limit or statistic > whole + WORSE:
                break
            chosen, values = chosen[:-1], less
        return chosen

    def _candidate(
        self, chosen: NDArray[np.intp], gradients: list[Array]
    ) -> tuple[tuple[FoundInvariant, Array] | None, int]:
        """Return the sparse form of one null vector.

        None if its gradient is in the span of those found before; and its pivot.
        """
        vector = self.best(chosen)[1]
        pivot = _most_complex(chosen, vector)
        # A function of invariants found before has a gradient in their span.
        if not self._is_new(np.einsum("k,kdn->dn", vector, self.gradient[chosen]), gradients):
            return None, pivot
        support, coefficients = self._sparse(chosen[np.abs(vector) > 1e-7 * np.abs(vector).max()])
        pivot = _most_complex(support, coefficients * self.spread[support])
        gradient = np.einsum("k,kdn->dn", coefficients * self.spread[support], self.gradient[support])
        if self.spectrum(support)[0][0] > self.limit or not self._is_new(gradient, gradients):
            return None, pivot
        found, held_back = self._judge(support, *self._polish(support, coefficients))
        reason = self._doubt(found, support, held_back, np.sum(gradient**2, axis=0))
        if reason:
            text = f"{found.expression} ({reason})"
            self.refused += [text] if text not in self.refused else []
            return None, pivot
        return (found, gradient), pivot

    def _doubt(self, found: FoundInvariant, support: NDArray[np.intp], held_back: float, explained: Array) -> str:
        """Return why a combination is not an invariant.

        It is constant on the training part; "" where it is an invariant.
        held_back: λ there. explained: (N,) mean square that noise gives each point of the training part; a sum of
        squares of independent normal numbers with these variances has the standard error sqrt(2 Σ b²)/Σ b of λ.
        """
        surely = 1 + SURELY_MORE * float(np.sqrt(2 * np.sum(explained**2)) / np.sum(explained))
        if self.kind == "known" and found.noise_ratio**2 > max(INEXACT, surely):
            return f"varies {found.noise_ratio:.3g} times as much as the stated noise explains, too much for chance"
        if found.variation * LEAST_CONTRAST > 1:
            return (
                f"over unrelated combinations of the same states it varies only {1 / found.variation:.2g} times as much"
            )
        if self.past_test is not None and found.noise_ratio**2 >= OVERSTATED:
            chance, share = predicted_share(found.terms, found.coefficients, self.whole, self.past)
            if chance < CHANCE and share > (PREDICTED if self.kind == "estimated" else 0.0):
                return f"time and its neighbours predict {100 * share:.2g} % of its variation, which is not noise"
        left_out = self._on_left_out_orbits(support)
        if left_out > HELD_BACK * self.limit:
            return (
                f"fitted to the other orbits it varies {np.sqrt(left_out):.3g} times as much as the noise explains on "
                "one that was left out: a relation special to these orbits"
            )
        if held_back > HELD_BACK * self.limit:
            return (
                f"conserved to {100 * found.variation:.2g} % where it was fitted, {100 * found.held_back:.2g} % after"
            )
        return ""

    def _on_left_out_orbits(self, support: NDArray[np.intp]) -> float:
        """Return the largest λ on a left-out orbit.

        Of the combination that is most conserved on all others; 0 for a single orbit.
        A few closed orbits are on many surfaces of low degree that contain no other orbit.
        """
        if self.train.levels < 2 or support.size < 2 or self.kind == "rounding":
            return 0.0
        worst, features, slopes = 0.0, self.centred[support], self.gradient[support]
        for orbit in range(min(self.train.levels, MOST_LEFT_OUT)):
            own = self.train.level == orbit
            noise = triangle(slopes[:, :, ~own].reshape(support.size, -1).T)
            root = triangle(features[:, ~own].T)
            whitened = np.linalg.lstsq(noise.T, root.T, rcond=None)[0].T
            vector = np.linalg.lstsq(noise, singular_vectors(whitened)[2][-1], rcond=None)[0]
            explained = float(np.mean(np.sum(np.einsum("k,kdn->dn", vector, slopes[:, :, own]) ** 2, axis=0)))
            worst = max(worst, float(np.mean((vector @ features[:, own]) ** 2)) / max(explained, 1e-300))
        return worst

    def _is_new(self, gradient: Array, found: list[Array]) -> bool:
        rest = gradient.copy()
        basis: list[Array] = []
        for other in found:
            for unit in basis:
                other = other - unit * np.sum(unit * other, axis=0)
            basis.append(other / np.maximum(np.linalg.norm(other, axis=0), 1e-300))
        for unit in basis:
            rest -= unit * np.sum(unit * rest, axis=0)
        # Noise tilts gradients, so that multiples of a found invariant are not exactly parallel.
        share = np.clip(INDEPENDENT * self.relative_noise**2, 1e-6, 0.2)
        return float(np.sum(rest**2)) > share * float(np.sum(gradient**2))

    def _sparse(self, support: NDArray[np.intp]) -> tuple[NDArray[np.intp], Array]:
        """Refit and drop insignificant terms.

        The least significant term is dropped while the rest is still conserved.
        """
        coefficients, errors = self._refit(support)
        while support.size > 1:
            share = np.abs(coefficients) * self.spread[support]
            doubt = np.abs(coefficients) / np.maximum(errors, 1e-300)
            doubt[share < 1e-7 * share.max()] = 0.0
            # The leading term is fixed at 1 and cannot be dropped.
            doubt[errors == 0] = np.inf
            weakest = int(np.argmin(doubt))
            if doubt[weakest] > SIGNIFICANT:
                break
            rest = np.delete(support, weakest)
            values, _, statistic = self.best(rest)
            if values[0] > self.limit or statistic > self.best(support)[2] + WORSE:
                break
            support = rest
            coefficients, errors = self._refit(support)
        return support, coefficients

    def _refit(self, support: NDArray[np.intp]) -> tuple[Array, Array]:
        """Return coefficients and standard errors.

        The term of largest weight has the coefficient 1 and the error 0.
        The covariance is the sandwich of the estimating equations h f_k - λ ∇h·V·∇f_k of the smallest λ, as in
        `variance_covariance`.
        """
        values, vectors = self.spectrum(support)
        tau, vector = values[0], vectors[:, 0]
        # Only one combination is as constant as the noise, or its residual is rounding.
        alone = support.size < 2 or tau < OVERSTATED or values[1] > self.limit
        if self.past_test is not None and self.past_test.able(support.size) and not alone:
            # Several combinations are as constant as the noise: only the order in time shows which one is conserved.
            return self.past_test.fit(support, self.best(support)[1] / self.spread[support])[:2]
        lead = int(np.argmax(np.abs(vector)))
        vector = vector / vector[lead]
        rest = np.delete(np.arange(support.size), lead)
        features, slopes = self.centred[support], self.gradient[support]
        h, slope = vector @ features, np.einsum("k,kdn->dn", vector, slopes)
        noise = np.einsum("dn,kdn->kn", slope, slopes)
        added = np.sum(slope**2, axis=0)
        rows = h * features - tau * noise
        rows -= np.outer(np.mean(noise, axis=1), (h**2 - tau * added) / np.mean(added))
        root, shed = self.root[:, support[rest]], self.noise_root[:, support[rest]]
        bread = np.linalg.pinv(root.T @ root - tau * shed.T @ shed, hermitian=True)
        leverage = np.einsum("kn,kl,ln->n", features[rest], bread, features[rest]) / h.size
        filling = rows[rest] / np.clip(1 - leverage, 0.1, 1.0)
        covariance = bread @ (filling @ filling.T) @ bread / h.size**2
        scale = self.spread[support[lead]] / self.spread[support]
        errors = np.insert(np.sqrt(np.clip(np.diag(covariance), 0, None)), lead, 0.0)
        return vector * scale, errors * scale

    def _polish(self, support: NDArray[np.intp], coefficients: Array) -> tuple[Array, Array]:
        """Return the coefficients with the noise bias removed.

        To first order in full, where the noise is known.
        """
        lead = int(np.flatnonzero(coefficients == 1.0)[0])
        # Powers of two scale the coefficients without rounding.
        units = 2.0 ** np.round(np.log2(self.spread[support[lead]] / self.spread[support]))
        start = np.delete(coefficients / units, lead)
        form = library_form([self.library[k] for k in support], self.train.variables, lead, units)
        problem = VarianceProblem(FeatureTable(form, 1), self.train, np.ones(self.train.count))
        free = Bounds(np.full(start.size, -np.inf), np.full(start.size, np.inf))
        solution = minimise_raw(problem, [start], free)
        if self.kind != "rounding" and solution.value > 0 and start.size:
            corrected = minimise_corrected(problem, start, free)
            solution = corrected if corrected.converged else solution
        covariance = variance_covariance(problem, solution)
        errors = np.insert(np.sqrt(np.clip(np.diag(covariance), 0, None)), lead, 0.0)
        return np.insert(solution.theta, lead, 1.0) * units, errors * units

    def _judge(self, support: NDArray[np.intp], coefficients: Array, errors: Array) -> tuple[FoundInvariant, float]:
        """Return the invariant and its held-back λ."""
        terms = tuple(self.library[k] for k in support)
        form = library_form(terms, self.train.variables, 0)
        table = FeatureTable(form, 0)

        def evaluate(points: Points) -> Array:
            return coefficients @ table.evaluate(points.values, points.variance, np.ones(len(terms) - 1)).value

        here, apart, mixed = evaluate(self.train), evaluate(self.test), evaluate(self.scrambled)
        levels = np.bincount(self.train.level, here) / np.bincount(self.train.level)
        # The variation over unrelated states is the unit of all shares.
        span = float(np.std(mixed))
        gradient = np.einsum("k,kdn->dn", coefficients * self.spread[support], self.gradient[support])
        misfit = here - levels[self.train.level]
        slope = FeatureTable(form, 1).evaluate(self.test.values, self.test.variance, np.ones(len(terms) - 1)).gradient
        explained = np.mean(np.sum(np.einsum("k,kdn->dn", coefficients, slope) ** 2 * self.test.variance, axis=0))
        beyond = float(np.mean((apart - levels[self.test.level]) ** 2))
        found = FoundInvariant(
            terms=terms,
            coefficients=coefficients,
            errors=errors,
            variation=float(np.std(misfit)) / span,
            held_back=float(np.sqrt(beyond)) / span,
            noise_ratio=float(np.sqrt(np.mean(misfit**2) / np.mean(np.sum(gradient**2, axis=0)))),
            levels=levels,
            shares=np.abs(coefficients) * self.spread[support] / span,
        )
        return found, beyond / float(explained) if explained > 0 else np.inf


def _most_complex(support: NDArray[np.intp], entries: Array) -> int:
    """Return the most complex term that matters.

    Terms are sorted by simplicity; entries in units of their spread.
    """
    return int(support[np.flatnonzero(np.abs(entries) > 0.1 * np.abs(entries).max())[-1]])
