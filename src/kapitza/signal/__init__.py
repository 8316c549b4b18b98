"""Filters, derivatives, noise and bad samples of sampled signals."""

from kapitza.signal.bad_samples import BadSamples, bad_samples
from kapitza.signal.convolution import convolved
from kapitza.signal.decay import Decay, Mode, decay_modes, half_cycles, motion_end
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
from kapitza.signal.lines import Lines, line_spectrum
from kapitza.signal.lyapunov import Lyapunov, largest_lyapunov, on_circles
from kapitza.signal.marking import bad_sample_sentence, bad_sample_warnings, cut_at_bad_runs, without_bad_samples
from kapitza.signal.record_noise import Scatter, scatter
from kapitza.signal.spectra import Spectrum, power_spectrum
from kapitza.signal.surrogates import phase_randomised

__all__ = [
    "MEDIAN_TO_DEVIATION",
    "BadSamples",
    "Decay",
    "DelayCurve",
    "DimensionCurve",
    "Kernels",
    "Lines",
    "Lyapunov",
    "Mode",
    "Scatter",
    "Spectrum",
    "bad_sample_sentence",
    "bad_sample_warnings",
    "bad_samples",
    "convolved",
    "cut_at_bad_runs",
    "cutoff_half_width",
    "decay_modes",
    "difference_noise",
    "embed",
    "embedding_dimension",
    "five_point",
    "forced_delay",
    "half_cycles",
    "largest_lyapunov",
    "line_spectrum",
    "local_polynomial",
    "low_pass_periodic",
    "motion_end",
    "mutual_information",
    "noise_level",
    "on_circles",
    "phase_randomised",
    "power_spectrum",
    "scatter",
    "signal_band",
    "smoothing_coordinates",
    "smoothing_spline",
    "without_bad_samples",
]
