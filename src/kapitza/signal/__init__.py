"""Filters, derivatives and noise of sampled signals."""

from kapitza.signal.derivatives import Kernels, cutoff_half_width, five_point, local_polynomial, smoothing_spline
from kapitza.signal.filters import low_pass_periodic, noise_level, signal_band

__all__ = [
    "Kernels",
    "cutoff_half_width",
    "five_point",
    "local_polynomial",
    "low_pass_periodic",
    "noise_level",
    "signal_band",
    "smoothing_spline",
]
