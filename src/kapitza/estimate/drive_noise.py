"""Noise of measured drives: its effect on estimates, and fits that count it.

The fit takes the measured drive u + e for the true one. With the sensitivities J of the samples at the fitted motion,
by the free parameters and the initial state and weighted by the noise of the channels, and the response G of the
samples to noise e of the drive (see `missing.drive_filter`), the least-squares estimate moves by

    δθ = -J⁺ G e,   cov δθ = J⁺ G Gᵀ J⁺ᵀ.

The residuals then are not white, but their covariance C = 1 + G Gᵀ is known. The most likely parameters solve
Jᵀ C⁻¹ r = 0 and have the covariance (Jᵀ C⁻¹ J)⁻¹ (see `counted_noise`). Residuals filtered by C are white where the
noise of the drive explains them, and nothing widens the intervals then. Where they are not, the estimate stays and
cov δθ is added to its covariance.

A drive is known at its samples only. Where another degree between them follows left-out samples clearly better, the
shift of the estimate that this degree would cause is computed in the same way, and reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from kapitza.base.arrays import Array
from kapitza.base.cures import Do, Message
from kapitza.data import Record, as_parts
from kapitza.errors import DataError, FlowError, KapitzaError, ModelError, nearest_name
from kapitza.estimate.combinations import combinations_of, in_combinations
from kapitza.estimate.counted_noise import counted, counting, supported_level
from kapitza.estimate.drives import best_degree, longest_run
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.missing import Cuts, rows_of, shifts_by_drives
from kapitza.estimate.parts import FittedMotion
from kapitza.flow import Flow
from kapitza.model import Model
from kapitza.signal import noise_level

REPORTED = 0.2
"""Standard errors from which the effect is reported: below, the variance changes by less than 4 %."""

EXPLAINS = 0.7
"""Share of the residuals' excess above which the noise of the drive explains most of it."""


@dataclass(frozen=True)
class DriveEffect:
    """Noise of the drives, and its effect on parameters.

    noise: in units of the drives. moved: root mean square shift of the free parameters by name; covariance (k, k): of
    these shifts, in the order of `moved`. left: what the noise adds to the residuals, root mean square in units of the
    noise of the channels. degrees: of drives that another degree follows better between their samples; bent: shifts of
    the parameters with these. stated: whether the noise of every drive was stated, not taken from its spectrum.
    """

    noise: dict[str, float]
    moved: dict[str, float]
    covariance: Array
    left: float = 0.0
    degrees: dict[str, int] = field(default_factory=dict)
    bent: dict[str, float] = field(default_factory=dict)
    stated: bool = False

    def reportable(self, deviations: dict[str, float]) -> dict[str, float]:
        """Return the shifts worth reporting, in standard errors.

        They are those of parameters that move by more than REPORTED standard errors.
        """
        shares = {n: m / deviations[n] for n, m in self.moved.items() if deviations.get(n, 0.0) > 0}
        return {n: s for n, s in shares.items() if s > REPORTED}

    def between_samples(self, deviations: dict[str, float]) -> str:
        """Return a warning on drives between samples, else ""."""
        shares = {n: m / deviations[n] for n, m in self.bent.items() if deviations.get(n, 0.0) > 0}
        moves = ", ".join(f"{n} by {s:+.1f} standard errors" for n, s in shares.items() if abs(s) > REPORTED)
        if not moves:
            return ""
        shapes = {1: "straight lines", 3: "a cubic spline"}
        better = ", ".join(f"{shapes[d]} would follow the drive {name} better" for name, d in self.degrees.items())
        cures = [Do(f"kz.Signal(..., degree={d})", f"drive_degree = {d}") for d in dict.fromkeys(self.degrees.values())]
        return Message(
            f"Between the samples {better}, and would move {moves}, which the intervals do not hold: set "
            f"{' and '.join(map(str, cures))}."
        )

    def explained(self, estimate: Estimate) -> float:
        """Return the share of the misfit that noise explains.

        This is the share of the residuals' excess over the noise that the noise of the drive predicts, as a mean
        square. With the misfit s in units of the noise, an estimated noise level holds the excess too: σ² (1 + s²).
        """
        misfit = estimate.misfit
        if misfit is None or misfit.to_the_noise or not misfit.size > 0:
            return 0.0
        record = fitted_record(estimate)
        stated = record is not None and all(n in (record[0].noise or {}) for n in estimate.residuals)
        unit = 1.0 if stated else 1.0 + misfit.size**2
        return unit * self.left**2 / misfit.size**2

    def sentence(self, estimate: Estimate, held: bool = False) -> str:
        """Return a warning about the effect, else "".

        The warning is given where a parameter moves by a noticeable share of its standard error. estimate: before
        anything is added to its intervals; held: whether the intervals include the shifts.
        """
        moved_far, share = self.reportable(estimate.deviations), self.explained(estimate)
        if not moved_far and not share > EXPLAINS:
            return ""
        moves = ", ".join(f"{n} by ± {self.moved[n]:.2g} ({s:.1f} standard errors)" for n, s in moved_far.items())
        end = "which the intervals hold" if held else "which the intervals do not hold"
        parts = [f"moves {moves}, {end}"] if moved_far else []
        if share > 0:
            parts.append(f"explains {min(share, 1.0):.0%} of what the fit leaves, but not its structure")
        return f"The noise of the measured drive {self._noises} {' and '.join(parts)}. {QUIETER}"

    def counts(self, estimate: Estimate) -> bool:
        """Return whether the noise changes the estimate noticeably."""
        return bool(self.reportable(estimate.deviations)) or self.explained(estimate) > EXPLAINS

    def may_explain(self, estimate: Estimate) -> bool:
        """Return whether the noise may be what the fit leaves.

        A misfit widens the intervals; what counts then is what the noise moves in standard errors without it.
        """
        alone = estimate.noise_alone
        if alone is None or estimate.misfit is None or estimate.misfit.to_the_noise:
            return self.counts(estimate)
        deviations = dict(zip(estimate.names, np.sqrt(np.diag(alone.covariance)).tolist(), strict=True))
        return self.counts(estimate) or bool(self.reportable(deviations))

    @property
    def _noises(self) -> str:
        return ", ".join(f"{n} (± {v:.2g})" for n, v in self.noise.items())

    def added_to(self, fit: Estimate) -> Estimate:
        """Return the estimate with the noise counted.

        Where the noise explains the residuals, the estimate is that of the most likely parameters under both noises;
        else its shifts enter the covariance. Both with a note, where the noise counts.
        """
        if fit.base is not None:
            wide = self.added_to(fit.base)
            combined = combinations_of(fit.model, fit.names)
            if wide is fit.base or combined is None:
                return fit
            return in_combinations(wide, combined).with_(start=fit.start)
        if bent := self.between_samples(fit.deviations):
            fit = replace(fit, warnings=(*fit.warnings, bent))
        if not self.may_explain(fit):
            return fit
        level = 1.0 if self.stated else _level(fit, self.noise)
        known = self if level == 1.0 else self._at(level)
        return known._counted_in(fit) if known.may_explain(fit) else fit

    def _at(self, level: float) -> DriveEffect:
        """Return the effect of noise of another level."""
        return replace(
            self, noise={n: level * size for n, size in self.noise.items()},
            moved={n: level * size for n, size in self.moved.items()}, covariance=level**2 * self.covariance,
            left=level * self.left,
        )  # fmt: skip

    def _counted_in(self, fit: Estimate) -> Estimate:
        found = counted(fit, self.noise)
        if found is not None and found.misfit is not None and found.misfit.to_the_noise:
            words = (
                f"The noise of the measured drive {self._noises} is counted: with that of the sensors it explains the "
                f"residuals, and the intervals hold both. {QUIETER}"
            )
            return replace(found, warnings=(*found.warnings, words))
        if not self.counts(fit):
            return fit
        # Draws (at bounds, or where the likelihood is not parabolic) and errors of derived values are not widened.
        held = fit.draws is None and not fit.derived and bool(np.isfinite(fit.covariance).all())
        warnings = (*fit.warnings, self.sentence(fit, held))
        if found is not None and fit.motion is not None:
            # Tests of terms count the noise too, and candidates are compared by the same likelihood.
            fit = counting(fit, self.noise).with_(likelihood=found.likelihood, noise=fit.noise)
        if not held:
            return replace(fit, warnings=warnings)
        places = [fit.names.index(name) for name in self.moved]
        covariance = fit.covariance.copy()
        covariance[np.ix_(places, places)] += self.covariance
        return replace(fit, covariance=covariance, warnings=warnings)


def _level(fit: Estimate, levels: Mapping[str, float]) -> float:
    try:
        return supported_level(fit, levels)
    except (FlowError, KapitzaError, np.linalg.LinAlgError):
        return 1.0


QUIETER = "A quieter sensor of the drive, or the drive averaged over periods, makes the intervals narrower."


def with_drive_noise(fit: Estimate, noise: Mapping[str, float] | None = None) -> Estimate:
    """Count the noise of measured drives.

    Where white noise of the drives u explains the residuals, the most likely parameters under both noises are
    returned: they solve Jᵀ C⁻¹ r = 0, C the covariance of the samples with the response to this noise in it, and their
    covariance is (Jᵀ C⁻¹ J)⁻¹. Where it does not, the covariance of the shifts δθ = -J⁺ ∂y/∂u e that it causes is added
    to that of the fit. A warning states it. Studies do this by themselves. The estimate comes back as it is where the
    effect is small or cannot be computed: it needs a `ShootingFit` of one recording.

    Parameters
    ----------
    fit : Estimate
        Made by `ShootingFit` or ``"auto"`` with a model that has measured drives.
    noise : mapping, optional
        Standard deviation by drive, in its unit; by default as stated with the recording, or from the spectrum of the
        drive.

    Returns
    -------
    Estimate
        With other values, intervals and a warning where the noise of the drive counts.

    Examples
    --------
    >>> import numpy as np, kapitza as kz
    >>> t = np.arange(400) * 0.05
    >>> def driven(force):
    ...     signal = kz.Signal("F", t, force)
    ...     return kz.Model.from_equations("x'' + c*x' + k*x = F", parameters={"c": 0.3, "k": 4.0}, signals=[signal])
    >>> force = np.sin(1.3 * t) + 0.5 * np.sin(2.1 * t)
    >>> record = kz.measure(kz.simulate(driven(force), x0=[0, 0], t=t).select(["x"]), noise=0.001, seed=1)
    >>> measured = driven(force + 0.1 * np.random.default_rng(1).normal(size=t.size))
    >>> fit = kz.identify(measured, record, free=["c", "k"], method=kz.ShootingFit())
    >>> wide = kz.with_drive_noise(fit, {"F": 0.1})
    >>> wide.deviations["k"] > fit.deviations["k"]
    True
    """
    for name in noise or {}:
        known = [signal.name for signal in fit.model.signals]
        if name not in known:
            raise ModelError(f'"{name}" is not a measured drive of {fit.model.name}.{nearest_name(name, known)}')
    effect = drive_effect(fit, noise)
    return fit if effect is None else effect.added_to(fit)


def fitted_record(fit: Estimate) -> tuple[Record, Mapping[str, float]] | None:
    """Return the one recording of a fit.

    Its values are returned with it; None where there are several.
    """
    parts = as_parts(fit.data) if fit.data is not None else ()
    found = [(part.record, part.values) for part in parts if part.record is not None]
    return found[0] if len(found) == 1 else None


def drive_effect(estimate: Estimate, noise: Mapping[str, float] | None = None) -> DriveEffect | None:
    """Return the effect of noise in measured drives.

    None where it cannot be computed: it needs the motion of a `ShootingFit` without kicks, and one recording.
    """
    estimate = estimate.base or estimate
    model, motion, fitted = estimate.model, estimate.motion, fitted_record(estimate)
    if motion is None or motion.process_noise or not model.signals or fitted is None:
        return None
    record, own = fitted
    free = tuple(n for n in estimate.names if n in model.names)
    if not free:
        return None
    levels = drive_levels(record, model) | {name: float(size) for name, size in (noise or {}).items()}
    degrees = _better_degrees(model)
    moved, left = np.zeros((len(free), len(free))), 0.0
    try:
        if any(levels.values()):
            # The motion of the fit is one piece: its windows are not cut.
            whole = Cuts(motion.sample_times.size, np.inf)
            moved, left = shifts_by_drives(rows_of(estimate, (), (), free, levels, whole))
        bent = _bent_shift(estimate, model.with_values(**own), free, degrees) if degrees else {}
    except (FlowError, ModelError, KapitzaError, np.linalg.LinAlgError):
        return None
    sizes = dict(zip(free, np.sqrt(np.clip(np.diag(moved), 0.0, None)).tolist(), strict=True))
    known = {*(record.noise or {}), *(noise or {})}
    return DriveEffect(levels, sizes, moved, left, degrees, bent, all(n in known for n, v in levels.items() if v > 0))


def _better_degrees(model: Model) -> dict[str, int]:
    """Return drives that another degree follows better, by name.

    Held drives (degree 0) are taken as stated.
    """
    found: dict[str, int] = {}
    for signal in model.signals:
        if signal.kind == "polynomial" and signal.degree:
            best = best_degree(signal.times, signal.values)
            if (best == 1) != (signal.degree == 1):
                found[signal.name] = best
    return found


def _bent(model: Model, degrees: dict[str, int]) -> Model:
    """Return the model with other degrees of its drives."""
    assert model.excitation is not None
    signals = tuple(replace(s, degree=degrees.get(s.name, s.degree)) for s in model.signals)
    return replace(model, excitation=replace(model.excitation, signals=signals))


def _bent_shift(estimate: Estimate, model: Model, free: tuple[str, ...], degrees: dict[str, int]) -> dict[str, float]:
    """Return the shifts of parameters with other degrees.

    They follow from the motion under the drives of these degrees, whose channels must be states; empty otherwise.
    """
    motion = estimate.motion
    assert motion is not None
    names = [n for n in estimate.residuals if n in model.states]
    if len(names) != len(estimate.residuals):
        return {}
    columns = [model.states.index(n) for n in names]
    weights = np.array([1.0 / max(estimate.noise.get(n, 1.0), 1e-300) for n in names])
    slopes, shifts = _responses(model, motion, free, _bent(model, degrees))
    rows = (slopes[:, columns] * weights[None, :, None]).reshape(-1, slopes.shape[2])
    shifted = (shifts[:, columns] * weights).reshape(len(rows))
    if motion.read is not None:
        read = motion.read.ravel()
        # Lost samples were not fitted.
        rows, shifted = rows[read], shifted[read]
    # δθ = -J⁺ δy.
    moved = -np.linalg.lstsq(rows, shifted, rcond=None)[0]
    return dict(zip(free, moved[: len(free)].tolist(), strict=True))


def _responses(model: Model, motion: FittedMotion, free: tuple[str, ...], other: Model) -> tuple[Array, Array]:
    """Return slopes of the motion, and its shifts.

    They are slopes (N, n, k + n·pieces) by parameters and starts, and shifts (N, n) with the drives of the model
    `other`. Each uninterrupted piece of the motion has its own start.
    """
    pieces, n, k = np.unique(motion.piece), len(model.states), len(free)
    slopes = np.zeros((motion.sample_times.size, n, k + n * pieces.size))
    shifts = np.empty((motion.sample_times.size, n))
    for number, piece in enumerate(pieces):
        rows = np.flatnonzero(motion.piece == piece)
        times = motion.sample_times[rows]
        start = motion.states[int(np.argmin(np.abs(motion.times - times[0])))]
        plain, by_start, by_parameter = Flow(model, wrt=free).trajectory_tangents(start, times)
        slopes[rows, :, :k] = by_parameter
        slopes[rows, :, k + n * number : k + n * (number + 1)] = by_start
        shifts[rows] = Flow(other).trajectory(start, times) - plain
    return slopes, shifts


def drive_levels(record: Record, model: Model) -> dict[str, float]:
    """Return the noise of each drive.

    It is the standard deviation of the white noise, as stated with the recording or from its spectrum.
    """
    stated = record.noise or {}
    levels = {}
    for signal in model.signals:
        if signal.name in stated:
            levels[signal.name] = float(stated[signal.name])
            continue
        try:
            levels[signal.name] = float(noise_level(longest_run(signal.times, signal.values)[1][:, None])[0])
        except DataError:
            levels[signal.name] = 0.0
    return levels
