"""Effect of noise in a measured drive on estimates.

The fit takes the measured drive u + e for the true one. With the motion y(θ, u) and its sensitivities J at the fitted
motion, the least-squares estimate moves by

    δθ = -J⁺ G e,    G e = ∂y/∂u e,

J by the free parameters and the initial state, both weighted by the noise of the channels. G e follows from motions
under drives that are disturbed by a small share of noise of the measured size, and is scaled up: noise of the full
size leaves the range of linear response where motions are unstable. The mean of δθ δθᵀ over draws is added to the
covariance of the fit.

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
from kapitza.errors import DataError, FlowError, ModelError, nearest_name
from kapitza.estimate.combinations import combinations_of, in_combinations
from kapitza.estimate.drives import best_degree, longest_run
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.parts import FittedMotion
from kapitza.flow import Flow
from kapitza.model import Model, Signal
from kapitza.signal import noise_level

DRAWS = 24
"""Noisy drives: the root mean square over 24 has an error of 15 %."""

SMALL = 1e-4
"""Share of the noise that is added to the drive."""

REPORTED = 0.2
"""Standard errors from which the effect is reported: below, the variance changes by less than 4 %."""

EXPLAINS = 0.7
"""Share of the residuals' excess above which the noise of the drive explains it: 1 less the error of a mean square over
24 draws, √(2/24) = 0.29."""


@dataclass(frozen=True)
class DriveEffect:
    """Noise of the drives, and its effect on parameters.

    noise: in units of the drives. moved: root mean square shift of the free parameters by name; covariance (k, k): of
    these shifts, in the order of `moved`. left: what the noise adds to the residuals, root mean square in units of the
    noise of the channels. degrees: of drives that another degree follows better between their samples; bent: shifts of
    the parameters with these.
    """

    noise: dict[str, float]
    moved: dict[str, float]
    covariance: Array
    left: float = 0.0
    degrees: dict[str, int] = field(default_factory=dict)
    bent: dict[str, float] = field(default_factory=dict)

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
        structure = share > EXPLAINS
        if not moved_far and not structure:
            return ""
        noise = ", ".join(f"{n} (± {v:.2g})" for n, v in self.noise.items())
        moves = ", ".join(f"{n} by ± {self.moved[n]:.2g} ({s:.1f} standard errors)" for n, s in moved_far.items())
        end = "which the intervals hold" if held else "which the intervals do not hold"
        parts = [f"moves {moves}, {end}"] if moved_far else []
        if structure:
            parts.append(
                f"explains the structure in the residuals ({min(share, 1.0):.0%} of it, known to 30 %): missing terms "
                "were not searched, and one that adds less than that cannot be seen"
            )
        return (
            f"The noise of the measured drive {noise} {' and '.join(parts)}. A quieter sensor, or the drive averaged "
            "over periods, makes it smaller."
        )

    def added_to(self, fit: Estimate) -> Estimate:
        """Return the estimate with the effect included.

        The shifts enter its covariance, with a warning, where they count.
        """
        if fit.base is not None:
            wide = self.added_to(fit.base)
            combined = combinations_of(fit.model, fit.names)
            if wide is fit.base or combined is None:
                return fit
            return in_combinations(wide, combined).with_(start=fit.start)
        if bent := self.between_samples(fit.deviations):
            fit = replace(fit, warnings=(*fit.warnings, bent))
        if not self.sentence(fit):
            return fit
        # Draws (at bounds, or where the likelihood is not parabolic) and errors of derived values are not widened.
        held = fit.draws is None and not fit.derived and bool(np.isfinite(fit.covariance).all())
        warnings = (*fit.warnings, self.sentence(fit, held))
        if not held:
            return replace(fit, warnings=warnings)
        places = [fit.names.index(name) for name in self.moved]
        covariance = fit.covariance.copy()
        covariance[np.ix_(places, places)] += self.covariance
        return replace(fit, covariance=covariance, warnings=warnings)


def with_drive_noise(fit: Estimate, noise: Mapping[str, float] | None = None) -> Estimate:
    """Add the noise of measured drives to the intervals.

    The covariance of the shifts δθ = -J⁺ ∂y/∂u e by white noise e of the drives u is added to that of the fit, and a
    warning states where it counts. Studies do this by themselves. The estimate comes back as it is where the effect is
    small or cannot be computed: it needs a `ShootingFit` of one recording whose channels are states.

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
        With wider intervals and a warning where the noise of the drive counts.

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


def drive_effect(estimate: Estimate, noise: Mapping[str, float] | None = None, seed: int = 0) -> DriveEffect | None:
    """Return the effect of noise in measured drives.

    None where it cannot be computed: it needs the motion of a `ShootingFit`, one recording and channels that are
    states.
    """
    estimate = estimate.base or estimate
    model, motion, fitted = estimate.model, estimate.motion, fitted_record(estimate)
    if motion is None or not model.signals or fitted is None:
        return None
    record, own = fitted
    names = [n for n in estimate.residuals if n in model.states]
    free = tuple(n for n in estimate.names if n in model.names)
    if not names or not free:
        return None
    levels = drive_levels(record, model) | {name: float(size) for name, size in (noise or {}).items()}
    degrees = _better_degrees(model)
    if not any(levels.values()) and not degrees:
        return DriveEffect(levels, dict.fromkeys(free, 0.0), np.zeros((len(free), len(free))))
    weights = np.array([1.0 / max(estimate.noise.get(n, 1.0), 1e-300) for n in names])
    columns = [model.states.index(n) for n in names]
    small = {name: SMALL * level for name, level in levels.items()}
    try:
        model = model.with_values(**own)
        random = np.random.default_rng(seed)
        drawn = [_noisy(model, small, random) for _ in range(DRAWS)] + [_bent(model, degrees)] * bool(degrees)
        slopes, shifts = _responses(model, motion, free, drawn)
    except (FlowError, ModelError):
        return None
    shifts[..., :DRAWS] /= SMALL
    rows = (slopes[:, columns] * weights[None, :, None]).reshape(-1, slopes.shape[2])
    shifted = (shifts[:, columns] * weights[None, :, None]).reshape(len(rows), -1)
    if motion.read is not None and motion.read.shape[1] == len(names):
        read = motion.read.ravel()
        # Lost samples were not fitted.
        rows, shifted = rows[read], shifted[read]
    # δθ = -J⁺ G e for all draws at once.
    moved = -np.linalg.lstsq(rows, shifted, rcond=None)[0]
    left = float(np.sqrt(np.mean((shifted + rows @ moved)[:, :DRAWS] ** 2)))
    by_noise = moved[: len(free), :DRAWS]
    covariance = by_noise @ by_noise.T / DRAWS
    sizes = dict(zip(free, np.sqrt(np.diag(covariance)).tolist(), strict=True))
    bent = dict(zip(free, moved[: len(free), -1].tolist(), strict=True)) if degrees else {}
    return DriveEffect(levels, sizes, covariance, left, degrees, bent)


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


def _responses(model: Model, motion: FittedMotion, free: tuple[str, ...], drawn: list[Model]) -> tuple[Array, Array]:
    """Return slopes of the motion, and its shifts.

    They are slopes (N, n, k + n·pieces) by parameters and starts, and shifts (N, n, draws) with the drives of the
    models `drawn`. Each uninterrupted piece of the motion has its own start.
    """
    pieces, n, k = np.unique(motion.piece), len(model.states), len(free)
    slopes = np.zeros((motion.sample_times.size, n, k + n * pieces.size))
    shifts = np.empty((motion.sample_times.size, n, len(drawn)))
    for number, piece in enumerate(pieces):
        rows = np.flatnonzero(motion.piece == piece)
        times = motion.sample_times[rows]
        start = motion.states[int(np.argmin(np.abs(motion.times - times[0])))]
        plain, by_start, by_parameter = Flow(model, wrt=free).trajectory_tangents(start, times)
        slopes[rows, :, :k] = by_parameter
        slopes[rows, :, k + n * number : k + n * (number + 1)] = by_start
        for i, other in enumerate(drawn):
            shifts[rows, :, i] = Flow(other).trajectory(start, times) - plain
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


def _noisy(model: Model, levels: dict[str, float], random: np.random.Generator) -> Model:
    """Return the model with Gaussian noise added to its signals.

    levels: standard deviation of the noise by name of the signal.
    """
    assert model.excitation is not None

    def disturbed(signal: Signal) -> Signal:
        return replace(signal, values=signal.values + levels[signal.name] * random.normal(size=signal.values.size))

    signals = tuple(disturbed(s) for s in model.signals)
    return replace(model, excitation=replace(model.excitation, signals=signals))
