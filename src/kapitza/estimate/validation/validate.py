"""The function `validate`: a model on data not fitted.

The parameters are held.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kapitza.base import checks
from kapitza.base.angles import difference
from kapitza.base.argument_checks import Anything
from kapitza.base.arrays import Array, Flags
from kapitza.base.cures import By, marked
from kapitza.base.monitor import Monitor, watch
from kapitza.data import Noise, Record, as_parts, noise_by_channel, one_part
from kapitza.errors import FlowError, KapitzaError, refuse_unknown
from kapitza.estimate.channel_units import in_model_units
from kapitza.estimate.counted_noise import counted, counting, misfit_under, supported_level
from kapitza.estimate.drive_noise import drive_levels
from kapitza.estimate.drives import check_reach, with_own_drive
from kapitza.estimate.estimate import Estimate
from kapitza.estimate.missing import Cuts, directed_test, rows_of, scatter_of
from kapitza.estimate.observation import Observation, Output, observe
from kapitza.estimate.own_parameters import at_setting
from kapitza.estimate.request import make_request
from kapitza.estimate.sensors import lost_readings, with_sensors, within_limits
from kapitza.estimate.shooting_fit import ShootingFit
from kapitza.estimate.validation.attractor import COPIES, compare_sections
from kapitza.estimate.validation.prediction import (
    Begun,
    maxima_intervals,
    oscillation_of,
    predict_stretches,
    stretches_of,
)
from kapitza.estimate.validation.result import Exponents, Frequency, OrbitCheck, PredictionTest, Validation
from kapitza.flow import Flow
from kapitza.model import Model
from kapitza.orbits import PeriodicOrbit
from kapitza.orbits.in_records import find_orbits_in_record, inspect
from kapitza.orbits.of_models import solve_orbit
from kapitza.signal import bad_sample_warnings, difference_noise, noise_level, without_bad_samples

PARTS = ("terms", "prediction", "section", "orbits", "exponent", "frequencies")

NEAR = 0.1
"""Share of the spread within which an orbit of the model counts as that of the data."""

LOOP = 400
"""Points of the model's orbit to which the path of a free motion is compared."""

MOST_ORBITS = 12
"""Most orbits of the record that are searched in the model."""

PREDICTED, MOST_PREDICTED = 100, 8
"""Samples of a predicted stretch, at least, and most stretches: short predictions do not tell models apart."""

STRETCHES = (1, 8, 32)
"""Numbers of stretches into which the record is cut, tried in turn until a motion with the held parameters follows each
of them from its own first state."""

FEWEST_OSCILLATIONS = 5
"""Fewest oscillations for which the mean interval between maxima has a usable standard error."""

ALIKE, RESTS = 16, np.uint64(0)
"""Samples in a row by which those that were fitted are known again, and the key of a row that rests."""

CORRELATED = 4.0
"""Successive oscillations that count as one independent sample."""


def validate(
    fit: Estimate | Model,
    record: Anything,
    *,
    outputs: Mapping[str, Anything] | None = None,
    noise: Noise = None,
    stretches: int | None = None,
    warm_up: float = 0.3,
    max_period: int = 4,
    parts: Sequence[str] = PARTS,
    monitor: Monitor | None = None,
) -> Validation:
    """Test a fitted model on another record.

    One that was not fitted: its parameters are held, only states are fitted.

    Parameters
    ----------
    fit : Estimate or Model
        What `identify` gave, or a model with the values to test.
    record : Record or (Record, {name: value})
        The data, with separate values where the setting was another.
    outputs : mapping, optional
        What channels measure; by default as in the fit.
    noise : float or mapping, optional
        Of the sensors, for all channels or by channel; by default the record's own, else read off its spectrum. Never
        off the model's residuals: a worse model would then seem to predict longer.
    stretches : int, optional
        Into how many the record is cut for the test of prediction. By default 8, less in short records, and half as
        many again and again while every prediction lasts to the end of its stretch.
    warm_up : float
        Share of each stretch to which its state is fitted; the rest is predicted.
    max_period : int
        Longest orbits that are sought in the record and in the model, in periods of the drive or returns.
    parts : list of str
        Which tests to make: "terms" (is the model rejected, and by what), "prediction", "section", "orbits",
        "exponent", "frequencies".
    monitor : Monitor, optional
        Shown the progress.

    Returns
    -------
    Validation
        Prints a summary; ``rejected``, ``table()``, ``plot()``.

    Examples
    --------
    >>> import numpy as np, kapitza as kz
    >>> truth = kz.library.lorenz()
    >>> run = kz.measure(kz.simulate(truth, x0=[1, 1, 20], t=np.arange(5000) * 0.01), noise=0.1, seed=1)
    >>> fit = kz.identify(truth, run.between(stop=10.0), free=["rho"])
    >>> check = kz.validate(fit, run.between(start=10.0), parts=["prediction", "frequencies"])
    >>> bool(np.median(check.prediction.fit_misfit) < 1.3)
    True
    """
    model, outputs = _model_of(fit, outputs)
    wanted = checks.texts("parts", [parts] if isinstance(parts, str) else parts, error=KapitzaError)
    refuse_unknown("validate", wanted, PARTS, "part")
    count = None if stretches is None else checks.whole("stretches", stretches, least=1, error=KapitzaError)
    max_period = checks.whole("max_period", max_period, least=1, error=KapitzaError)
    if not 0 < checks.number("warm_up", warm_up, error=KapitzaError) < 1:
        raise KapitzaError(f"warm_up = {warm_up:g}: give a share between 0 and 1 of the record.")
    method = ShootingFit(outputs=outputs, noise=noise)  # pyright: ignore[reportArgumentType]
    (given,) = in_model_units(model, [one_part(record, "validate")], method)
    model = at_setting(model, given.values)
    if isinstance(given.source, Record):
        check_reach(model, given.source, given.label)
        model = with_own_drive(model, given.source)
    # No parameter is free: sensors are taken as the fit has them.
    asked = with_sensors(model, (replace(given.change(without_bad_samples), values={}),), [], method)
    model, outputs = asked.model, dict(asked.method.outputs)
    part = asked.parts[0].with_noise(noise_by_channel(asked.parts, noise))
    data = part.source
    assert isinstance(data, Record)
    if model.is_map:
        raise KapitzaError(f"{model.name} is a map: validate follows flows.")
    seen = observe(model, [data], outputs, ())
    work = _Work(fit, model, data, seen, outputs, _noise_of(data, seen, part.noise), count, warm_up, max_period, wanted)
    repeated = _fitted_before(fit, data, seen.channels)
    if repeated > 0:
        work.notes.append(
            f"{repeated} of the {data.size} samples were fitted: on them the test tells how well the fit follows, not "
            "what it predicts. Validate on a record that was not fitted."
        )
    work.notes += bad_sample_warnings(data.select(list(seen.channels)))
    with watch(monitor, f"validating {model.name}", len(wanted)) as task:
        work.run(task.advance)
    return Validation(
        model, data, work.prediction, work.section, tuple(work.orbits), work.exponents, tuple(work.frequencies),
        work.simulated[0] if work.simulated else None, oscillation_of(data, seen.channels), tuple(work.notes),
        task.status, work.test, work.unexplained,
    )  # fmt: skip


def _model_of(fit: Any, outputs: Mapping[str, Output] | None) -> tuple[Model, dict[str, Output]]:
    if outputs is not None:
        outputs = checks.table("outputs", outputs, error=KapitzaError)
    if isinstance(fit, Estimate):
        if fit.model is None:
            raise KapitzaError("This estimate carries no model: pass the model with the values to test.")
        return fit.model, dict(fit.sensors if outputs is None else outputs)
    if isinstance(fit, Model):
        return fit, dict(outputs or {})
    raise KapitzaError(f"validate tests an Estimate or a Model, not {type(fit).__name__}.")


def _fitted_before(fit: Estimate | Model, record: Record, channels: Sequence[str]) -> int:
    """Return how many samples of the record are, in all channels, those that the parameters were fitted to.

    Samples of two runs may be equal by chance where a channel has few levels or rests: stretches of `ALIKE` samples
    that move are compared.
    """
    motion = fit.motion if isinstance(fit, Estimate) else None
    if motion is None or not channels or motion.measured.shape[1] != len(channels):
        return 0
    values = np.column_stack([record[channel] for channel in channels])
    again = np.isin(_keys(values), np.setdiff1d(_keys(motion.measured), [RESTS]))
    return int((np.convolve(again, np.ones(ALIKE)) > 0.5).sum())


def _keys(values: Array) -> NDArray[np.uint64]:
    """Return a number for each stretch of `ALIKE` samples (N, c); it is `RESTS` where half of them or more repeat."""
    if len(values) < ALIKE:
        return np.zeros(0, np.uint64)
    weights = np.random.default_rng(0).integers(1, 2**63, (ALIKE, values.shape[1]), dtype=np.uint64) | np.uint64(1)
    words, count = np.ascontiguousarray(values).view(np.uint64), len(values) - ALIKE + 1
    keys = np.zeros(count, np.uint64)
    for lag, row in enumerate(weights):
        keys += (words[lag : lag + count] * row).sum(axis=1, dtype=np.uint64)
    moves = np.convolve((values[1:] != values[:-1]).any(axis=1), np.ones(ALIKE - 1), mode="valid")
    keys[moves < ALIKE / 2] = RESTS
    return keys


def _noise_of(record: Record, seen: Observation, given: Mapping[str, float]) -> dict[str, float]:
    """Return the standard deviation of noise per channel.

    It is as given, else estimated from its spectrum.
    """
    found = {}
    longest = max(record.split_at_gaps().segments(), key=lambda piece: piece.stop - piece.start)
    for channel in seen.channels:
        known = given.get(channel, 0.0)
        values = record.unwrapped()[channel][longest]
        level = known if known > 0 else _level(values, lost_readings(record, channel)[longest])
        # Exact data still need a unit for their errors.
        found[channel] = level if level > 0 else 1e-9 * float(np.ptp(values) or 1.0)
    return found


def _level(values: Array, lost: Flags) -> float:
    """Return the noise of a channel (N,).

    It follows from its spectrum; where samples were lost, by sixth differences of the samples between them.
    """
    if not lost.any():
        return float(noise_level(values[:, None])[0])
    # A sixth difference uses seven samples, all of which must be valid.
    whole = np.convolve(~lost, np.ones(SIXTH + 1), mode="valid") > SIXTH + 0.5
    return difference_noise(np.diff(values, SIXTH)[whole], SIXTH)


SIXTH = 6
"""Order of differences that remove a densely sampled motion and keep its noise."""


@dataclass
class _Work:
    """Tests of a validation, run in turn.

    A test that cannot be made leaves a note.
    """

    fit: Estimate | Model
    model: Model
    record: Record
    seen: Observation
    outputs: Mapping[str, Output]
    noise: Mapping[str, float]
    count: int | None
    warm_up: float
    max_period: int
    wanted: Sequence[str]

    def __post_init__(self) -> None:
        self.notes: list[str] = []
        self.unexplained = ""
        self.prediction = self.section = self.exponents = self.test = None
        self.second: Estimate | None = None
        self.reason = ""
        self.orbits: list[OrbitCheck] = []
        self.frequencies: list[Frequency] = []
        self.simulated: list[Record] = []
        self.states: list[Begun] = []
        self.compared = self.record

    def run(self, advance: Callable[..., None]) -> None:
        if "terms" in self.wanted or self.model.signals:
            self._follow()
        if set(PARTS[1:]) & set(self.wanted):
            self._predict()
            advance(1, "prediction")
        if {"section", "exponent", "frequencies"} & set(self.wanted):
            self._simulate()
        for part, test in (
            ("terms", self._test_terms),
            ("section", self._compare_sections),
            ("orbits", self._match_orbits),
            ("exponent", self._compare_exponents),
            ("frequencies", self._compare_frequencies),
        ):
            if part in self.wanted:
                try:
                    test()
                except KapitzaError as error:
                    self.notes.append(f"{part}: {marked(error)}")
                advance(1, part)

    def _predict(self) -> None:
        noises, count = self._noises(), self.count or int(np.clip(self.record.size // PREDICTED, 1, MOST_PREDICTED))
        test, self.states = self._predict_in(noises, count)
        while self.count is None and count > 1 and not test.failed and test.whole[:, 1].all():
            # A prediction that lasts to the end of its stretch shows a lower bound of the horizon alone.
            count //= 2
            longer, states = self._predict_in(noises, count)
            if longer.failed:
                break
            test, self.states = longer, states
        if "prediction" in self.wanted:
            self.prediction = replace(test, drive_noise=self._kicked)
        if not self.states:
            first = next(iter(test.failed.values()))
            self.notes.append(f"no motion of the model follows even the beginnings of the stretches: {first}.")

    def _predict_in(self, noises: Mapping[str, float], count: int) -> tuple[PredictionTest, list[Begun]]:
        return predict_stretches(self.model, self.record, self.outputs, noises, count, self.warm_up)

    @property
    def _kicked(self) -> bool:
        """Whether the noise of the drives counts."""
        motion = None if self.second is None else self.second.motion
        return motion is not None and bool(motion.drive_noise)

    def _noises(self) -> dict[str, float]:
        """Return the noise by channel that predictions are compared with.

        Where the noise of measured drives counts, what it adds to a motion is added, as a mean over the record.
        """
        if self.second is None or self.second.motion is None or not self.second.motion.drive_noise:
            return dict(self.noise)
        whole = Cuts(self.record.size, np.inf)
        windows = rows_of(self.second, (), (), (), self.second.motion.drive_noise, whole)
        added = np.concatenate([scatter_of(window.kicks) for window in windows if window.kicks is not None])
        known = self.second.motion.noise_by_record[0]
        found = dict(self.noise)
        for c, channel in enumerate(self.second.residuals):
            found[channel] = float(np.hypot(self.noise[channel], known[channel] * np.sqrt(added[:, c].mean())))
        return found

    def _follow(self) -> None:
        """Fit the states to the record, with the parameters held.

        The motion follows the record in as few stretches as possible.
        """
        method = ShootingFit(outputs=self.outputs, throw=False)  # pyright: ignore[reportArgumentType]
        for count in STRETCHES:
            try:
                pieces = [self.record.samples(piece) for piece in stretches_of(self.record, count)]
                data = self.record if count == 1 else pieces
                second = method.fit(make_request(self.model, as_parts(data), [], method))
                if second.status.ok:
                    self.second = self._with_drive_noise(second)
                    return
                self.reason = second.status.value
            except KapitzaError as error:
                self.reason = str(error).split(". ")[0]

    def _with_drive_noise(self, second: Estimate) -> Estimate:
        """Return the motion with the noise of its drives counted.

        It counts where the fit counts it, or where it explains residuals that are not white.
        """
        motion = self.fit.motion if isinstance(self.fit, Estimate) else None
        if motion is not None and motion.process_noise and second.motion is not None:
            # The rig is kicked here as it was along the fitted record.
            second = second.with_(findings=replace(second.motion, process_noise=motion.process_noise))
            return self._counting(second, {}, ())
        known = {} if motion is None else dict(motion.drive_noise or {})
        white = second.misfit is None or second.misfit.to_the_noise
        if not self.model.signals or (white and not known):
            return second
        levels = drive_levels(self.record, self.model) | known
        if not any(levels.values()):
            return second
        try:
            free = tuple(n for n in self.fit.names if n in self.model.names) if isinstance(self.fit, Estimate) else ()
            level = 1.0 if known else supported_level(second, levels, free)
            if not level:
                return second
            levels = {name: level * size for name, size in levels.items()}
            return self._counting(second, levels, free)
        except (FlowError, KapitzaError, np.linalg.LinAlgError):
            return second

    def _counting(self, second: Estimate, levels: Mapping[str, float], free: Sequence[str]) -> Estimate:
        """Return the motion with noise that kicks it counted.

        The warning of a misfit beyond the sensors alone is replaced by the verdict under all noises.
        """
        gone = set() if second.misfit is None else set(second.misfit.warnings())
        kept = tuple(text for text in second.warnings if text not in gone)
        return counting(second, levels).with_(misfit=misfit_under(second, levels, free), warnings=kept)

    def _test_terms(self) -> None:
        """Run score tests along the fitted motion."""
        second = self.second
        if second is None:
            self.notes.append(
                f"terms: no motion of the model follows the record, also in short stretches: {self.reason}."
            )
            return
        fit, motion = self.fit, self.fit.motion if isinstance(self.fit, Estimate) else None
        if isinstance(fit, Estimate) and fit.workings is None and motion is not None and motion.drive_noise:
            # A loaded fit is made again without the noise of its drives.
            fit = counted(fit, motion.drive_noise) or fit
        self.test = directed_test(fit, second)
        misfit = second.misfit
        if misfit is not None and misfit.misses:
            self.unexplained = f"with the states fitted, {misfit.what} {misfit.verdict}"
        # Jumps and outliers that the fit of the states left out are reported.
        self.notes += [text for text in second.warnings if text not in self.notes]

    def _simulate(self) -> None:
        """Run the model over the pieces of the record.

        Each piece starts from the state fitted to its beginning; noise is added. The runs after the first start beside
        that state by the relative error of a sample: a transient stays a transient, chaotic runs diverge. Samples
        before the first fitted state of a piece are left out.
        """
        spans = [(begun, piece) for piece in self.record.segments() if (begun := self._begun_in(piece)) is not None]
        if not spans:
            return
        covered = np.concatenate([np.arange(begun.sample, piece.stop) for begun, piece in spans])
        self.compared = self.record if covered.size == self.record.size else self.record.samples(covered)
        rng = np.random.default_rng(0)
        noise = np.array([self.noise[c] for c in self.seen.channels])
        signal = self.record.values(self.seen.channels).std(axis=0)
        # The relative error of a sample, within limits: copies must differ, and a transient must stay one.
        beside = float(np.clip((noise / np.where(signal > 0, signal, np.inf)).max(), 1e-4, 0.05))
        for number in range(COPIES if "section" in self.wanted else 1):
            try:
                parts = [self._run(begun, piece, beside * bool(number), rng) for begun, piece in spans]
            except FlowError as error:
                self.notes.append(f"a run as long as the record fails: {str(error).split('. ')[0]}.")
                continue
            values = np.concatenate(parts)
            noisy = values + rng.standard_normal(values.shape) * noise
            self.simulated.append(self._as_record(noisy))

    def _begun_in(self, piece: slice) -> Begun | None:
        return next((begun for begun in self.states if piece.start <= begun.sample < piece.stop), None)

    def _run(self, begun: Begun, piece: slice, beside: float, rng: np.random.Generator) -> Array:
        """Return the outputs (N, c) of one run.

        It starts at a sample of the record and ends with a piece.
        """
        times = self.record.time[begun.sample : piece.stop] - self.record.excitation_start
        state = begun.state + beside * begun.spread * rng.standard_normal(begun.state.size)
        vector = self.model.vector
        run = Flow(self.model).trajectory(state, times, vector)
        return self.seen.value(run, times, np.broadcast_to(vector, (len(run), vector.size)))

    def _as_record(self, noisy: Array) -> Record:
        return Record.from_arrays(
            self.compared.time,
            {c: within_limits(self.record, c, noisy[:, i]) for i, c in enumerate(self.seen.channels)},
            units={c: self.record.units[c] for c in self.seen.channels},
            angles=[c for c, angle in zip(self.seen.channels, self.seen.angles, strict=True) if angle],
            segment=self.compared.content.segment,
            period=self.record.period or self.model.period,
            phase=self.compared.content.attrs.get("phase"),
        )

    def _compare_sections(self) -> None:
        self.section = compare_sections(self.compared, self.simulated, self.seen.channels)

    def _compare_exponents(self) -> None:
        if not self.simulated:
            return
        found = [inspect(r.select(self.seen.channels)) for r in (self.compared, self.simulated[0])]
        self.notes += [note for note in found[0].notes if note.startswith("Lyapunov")]
        begun = self.states[0]
        state, since = begun.state, float(self.record.time[begun.sample] - self.record.excitation_start)
        length = float(self.record.time[-1] - self.record.time[begun.sample])
        self.exponents = Exponents(found[0].lyapunov, found[1].lyapunov, exponent_of(self.model, state, since, length))

    def _compare_frequencies(self) -> None:
        for channel in self.seen.channels if self.simulated else ():
            pair = [maxima_intervals(record, channel) for record in (self.compared, self.simulated[0])]
            if len(pair[0]) < FEWEST_OSCILLATIONS:
                self.notes.append(f"frequencies: {channel} makes fewer than {FEWEST_OSCILLATIONS} oscillations.")
                continue
            (measured, own), (modelled, other) = (_mean_frequency(intervals) for intervals in pair)
            self.frequencies.append(Frequency(channel, measured, modelled, float(np.hypot(own, other))))

    def _match_orbits(self) -> None:
        lasting = [signal.name for signal in self.model.signals if signal.period is None]
        if lasting:
            self.notes.append(f"orbits: the drive {lasting[0]} has no period, so that there are none.")
            return
        if set(self.model.states) - set(self.record.channels):
            self.notes.append(
                f"orbits: not every state is measured; fit them by {By('orbits')} to see whether they match."
            )
            return
        found = find_orbits_in_record(self.record.select(self.model.states), self.max_period)
        if not len(found):
            self.notes.append("orbits: none were found in the record.")
        spread = self.record.values(self.model.states).std(axis=0)
        # Angles are compared in radians: the spread of a rotating angle has no meaning.
        spread = np.where(np.array(self.model.angles), 1.0, np.where(spread > 0, spread, 1.0))
        for number, orbit in enumerate(list(found)[:MOST_ORBITS]):
            self.orbits.append(self._check(orbit, number, spread))

    def _check(self, orbit: PeriodicOrbit, number: int, spread: Array) -> OrbitCheck:
        forced = self.model.excitation is not None
        label = f"{number} (period {orbit.repeats or orbit.period if forced else f'{orbit.period:.4g} s'})"
        period = orbit.repeats if forced else orbit.period
        try:
            # The orbit of the data is the guess.
            own = solve_orbit(self.model, orbit, period, throw=False, profile=False)
        except KapitzaError as error:
            return OrbitCheck(label, False, float("nan"), float("nan"), str(error).split(". ")[0])
        if not own.status.ok:
            return OrbitCheck(label, False, float("nan"), float("nan"), own.status.value)
        # The phase of a free motion is arbitrary, so its path is compared, not its points.
        if not forced and orbit.crossings is not None:
            distance, deviations = path_gap(orbit, own, self.model, spread)
            return OrbitCheck(label, distance < NEAR, distance, deviations)
        gap = _gap(orbit, own, self.model.angles)
        distance = float(np.abs(gap / spread).max())
        deviations = float("nan")
        if orbit.covariance is not None and orbit.covariance.shape[0] >= gap.size:
            size = np.sqrt(np.diag(orbit.covariance))[: gap.size].reshape(gap.shape)
            deviations = float((np.abs(gap) / np.where(size > 0, size, np.inf)).max())
        return OrbitCheck(label, distance < NEAR, distance, deviations)


def path_gap(orbit: PeriodicOrbit, own: PeriodicOrbit, model: Model, spread: Array) -> tuple[float, float]:
    """Return the distance of a motion from an orbit.

    The distance is that of the path of a free motion, in spreads; the difference of the periods is in standard
    errors. The phase of such an orbit is free: every point is compared with the nearest one of the model.
    """
    assert orbit.crossings is not None
    assert own.loop is not None
    columns = [orbit.crossings.channels.index(name) for name in model.states]
    path, loop = orbit.crossings.path_values[:, columns], own.loop(np.arange(LOOP) / LOOP)
    # (points, loop): the largest coordinate difference of every pair.
    beside = np.abs(difference(path[:, None], loop[None], np.array(model.angles)) / spread).max(axis=2)
    error = orbit.period_deviation
    late = abs(orbit.period - own.period) / error if error else float("nan")
    return float(beside.min(axis=1).max()), late


def _mean_frequency(intervals: Array) -> tuple[float, float]:
    """Return the mean frequency and its standard error.

    Successive intervals of a chaotic motion are correlated, so only every CORRELATED-th counts as independent.
    """
    if len(intervals) < FEWEST_OSCILLATIONS:
        return float("nan"), 0.0
    middle, independent = float(intervals.mean()), len(intervals) / CORRELATED
    return 1 / middle, float(intervals.std() / (middle**2 * np.sqrt(independent)))


def exponent_of(model: Model, state: Array, since: float, length: float, links: int = 400) -> float:
    """Return the largest Lyapunov exponent [1/s] by tangents.

    It is λ = (1/T) Σ log |M_i v_i| over `links` tangent maps M_i of the motion from a state over the time T, v_i
    normalised.
    """
    flow = Flow(model)
    times = since + np.linspace(0.0, length, links + 1)
    nodes = flow.trajectory(state, times)
    _, tangents, _ = flow.trajectories(nodes[:-1], np.column_stack([times[:-1], times[1:]]))
    vector, total = np.ones(state.size), 0.0
    for number, link in enumerate(tangents[:, -1]):
        vector = link @ vector
        size = float(np.linalg.norm(vector))
        # Renormalised after every link, before it overflows.
        vector /= size
        # The first tenth turns the vector into the most stretched direction.
        total += np.log(size) if number >= links // 10 else 0.0
    return total / (length * (links - links // 10) / links)


def _gap(orbit: PeriodicOrbit, own: PeriodicOrbit, angles: Sequence[bool]) -> Array:
    """Return differences (p, n) of section points.

    In the cyclic order in which they are smallest.
    """
    one, other = np.asarray(orbit.points), np.asarray(own.points)
    if one.shape != other.shape:
        other = other[: len(one)]
    turned = [difference(np.roll(other, shift, axis=0), one, np.array(angles)) for shift in range(len(other))]
    return min(turned, key=lambda gap: float((gap**2).sum()))
