"""Filters, derivatives, noise and bad samples of sampled signals."""

from kapitza.signal.bad_samples import bad_samples
from kapitza.signal.convolution import convolved
from kapitza.signal.decay import Decay, all_decay, close_modes, decay_modes, half_cycles, linear_modes, motion_end
from kapitza.signal.derivatives import Kernels, cutoff_half_width, five_point, local_polynomial, smoothing_spline
from kapitza.signal.embedding import (
    DelayCurve,
    DimensionCurve,
    embed,
    embedding_dimension,
    forced_delay,
    mutual_information,
    smoothing_coordinates,
)
from kapitza.signal.filters import (
    MEDIAN_TO_DEVIATION,
    difference_noise,
    low_pass_periodic,
    noise_level,
    signal_band,
)
from kapitza.signal.lines import line_spectrum
from kapitza.signal.lyapunov import Lyapunov, largest_lyapunov, on_circles
from kapitza.signal.marking import (
    bad_sample_sentence,
    bad_sample_warnings,
    cut_at_bad_runs,
    found_bad,
    possible_step_notes,
    record_steps,
    without_bad_samples,
    without_possible_steps,
)
from kapitza.signal.record_noise import scatter
from kapitza.signal.spectra import Spectrum, power_spectrum
from kapitza.signal.surrogates import phase_randomised
