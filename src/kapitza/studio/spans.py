"""Draw spectrum, response and portrait of a span."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from kapitza.base.labels import CYCLE, escaped_label
from kapitza.data import Record
from kapitza.errors import DataError
from kapitza.signal import power_spectrum
from kapitza.studio.loading import Shown

MOST_SAMPLES = 200_000
MOST_POINTS = 6000

FEWEST = 32
"""Samples of the shortest span that has a spectrum."""


def _piece(shown: Shown, begin: float, end: float) -> Record:
    """Return the longest uninterrupted piece of a span.

    It is cut to a limited number of samples; times are those of the picture.
    """
    piece = shown.pyramid.longest_piece(begin, end)
    piece = slice(piece.start, min(piece.stop, piece.start + MOST_SAMPLES))
    if piece.stop - piece.start < FEWEST:
        raise DataError(f"The span holds {piece.stop - piece.start} samples in a row: show at least {FEWEST}.")
    return shown.record.samples(piece)


def spectrum_figure(shown: Shown, begin: float, end: float, channels: Sequence[str]) -> go.Figure:
    """Draw the power density of channels against frequency; the highest peak of the first is marked."""
    piece = _piece(shown, begin, end).unwrapped()
    interval = float(np.median(np.diff(piece.time)))
    figure = go.Figure()
    for number, name in enumerate(channels):
        found = power_spectrum(piece[name], interval)
        figure.add_scatter(
            x=found.frequency[1:], y=np.maximum(found.density[1:], 1e-300), mode="lines", name=escaped_label(name),
            line={"width": 1.2, "color": CYCLE[number % 6]},
        )  # fmt: skip
        for peak in found.peaks[:1].tolist() if number == 0 else ():
            figure.add_vline(x=peak, line={"width": 1, "dash": "dot", "color": "#8d99ae"})
            figure.add_annotation(x=peak, y=1.0, yref="paper", text=f"{peak:.4g} Hz", showarrow=False, yanchor="top",
                                  xanchor="left", font={"size": 11})  # fmt: skip
    figure.update_xaxes(title_text="frequency [Hz]")
    figure.update_yaxes(type="log", exponentformat="power", title_text="power density [unit²/Hz]")
    return figure


def response_figure(shown: Shown, begin: float, end: float, drive: str, channels: Sequence[str]) -> go.Figure:
    """Draw gain and coherence against a drive.

    The channels have H = S_ux / S_uu and the coherence |S_ux|² / (S_uu S_xx).
    """
    from scipy.signal import csd, welch

    piece = _piece(shown, begin, end).unwrapped()
    rate = 1 / float(np.median(np.diff(piece.time)))
    window = int(min(4096, max(16, piece.size // 8)))
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.65, 0.35], vertical_spacing=0.06)
    settings = {"fs": rate, "nperseg": window, "detrend": "linear"}
    frequency, input_power = welch(piece[drive], **settings)
    for number, name in enumerate(channels):
        cross = csd(piece[drive], piece[name], **settings)[1]
        own = welch(piece[name], **settings)[1]
        gain = np.abs(cross) / np.maximum(input_power, 1e-300)
        coherence = np.abs(cross) ** 2 / np.maximum(input_power * own, 1e-300)
        line = {"width": 1.2, "color": CYCLE[number % 6]}
        text = escaped_label(f"{name} / {drive}")
        figure.add_scatter(x=frequency[1:], y=gain[1:], mode="lines", name=text, line=line, row=1, col=1)
        figure.add_scatter(x=frequency[1:], y=coherence[1:], mode="lines", showlegend=False, line=line, row=2, col=1)
    figure.update_yaxes(type="log", exponentformat="power", title_text="gain", row=1, col=1)
    figure.update_yaxes(range=[0, 1.05], title_text="coherence", row=2, col=1)
    figure.update_xaxes(title_text="frequency [Hz]", row=2, col=1)
    return figure


def portrait_figure(shown: Shown, begin: float, end: float, channel: str) -> go.Figure:
    """Draw the rate of a channel against its value.

    The rate is by differences where it was not measured.
    """
    piece = _piece(shown, begin, end).unwrapped()
    values = piece[channel]
    rate = f"{channel}'"
    speed = piece[rate] if rate in piece.channels else np.gradient(values, piece.time)
    at = np.unique(np.linspace(0, values.size - 1, MOST_POINTS).astype(int))
    unit = piece.units[channel]
    figure = go.Figure()
    figure.add_scatter(x=values[at], y=speed[at], mode="lines", line={"width": 1, "color": CYCLE[0]}, name=channel)
    figure.update_xaxes(title_text=escaped_label(channel, unit))
    figure.update_yaxes(title_text=escaped_label(rate, f"{unit}/s" if unit else ""))
    return figure
