"""Draw spectra, frequency responses and correlations.

The figures show spectra of data and model, the frequency response of a driven rig, and the correlation of parameters.
"""

from __future__ import annotations

import itertools

import numpy as np
import plotly.graph_objects as go
from numpy.lib.stride_tricks import sliding_window_view
from plotly.subplots import make_subplots

from kapitza.base.arrays import Array, Numbers
from kapitza.base.labels import escaped_label
from kapitza.data import Record
from kapitza.estimate import Estimate
from kapitza.report.interactive import CHECK, DATA, FIT, STACK, floats, log_ticks
from kapitza.report.motions import Motion

LONGEST, SHORTEST = 2048, 64
"""Samples of a segment of the spectra."""

PALE = [[0.0, "#7fb3e6"], [0.5, "#ffffff"], [1.0, "#f2a48f"]]
"""Colours of correlations, on which dark numbers can be read."""

SHOWN_BAND = 1e-3
"""Share of the drive's largest power below which a frequency response is not drawn: there it is noise over noise."""


def segments_of(values: Array, size: int) -> Numbers:
    """Return spectra (S, size/2 + 1) of windowed segments.

    The segments have Hann windows, overlap by half and have no mean.
    """
    pieces = sliding_window_view(values, size)[:: size // 2]
    taper = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)
    return np.fft.rfft((pieces - pieces.mean(axis=1, keepdims=True)) * taper, axis=1)


def _even(motion: Motion) -> tuple[slice, float] | None:
    """Return the longest evenly sampled piece.

    Its sampling interval is returned too; None where no piece is long enough.
    """
    cuts = np.flatnonzero(np.diff(motion.piece)) + 1
    edges = [0, *cuts.tolist(), motion.time.size]
    piece = max((slice(a, b) for a, b in itertools.pairwise(edges)), key=lambda s: s.stop - s.start)
    steps = np.diff(motion.time[piece])
    # The discrete Fourier transform assumes even steps.
    if steps.size < SHORTEST or np.ptp(steps) > 0.01 * float(np.median(steps)):
        return None
    return piece, float(np.median(steps))


def _size(count: int) -> int:
    return int(2 ** np.floor(np.log2(np.clip(count // 4, SHORTEST, LONGEST)))) if count >= 2 * SHORTEST else SHORTEST


def spectrum_figure(motion: Motion | None) -> go.Figure | None:
    """Draw power densities of each channel.

    They are those of the data, the fitted motion and the residuals.
    """
    found = None if motion is None else _even(motion)
    if motion is None or found is None:
        return None
    piece, interval = found
    channels = [c for c in motion.measured if c not in motion.angles or np.abs(np.diff(motion.near(c))).max() < 3]
    if not channels:
        return None
    size = _size(piece.stop - piece.start)
    frequency = np.fft.rfftfreq(size, interval)[1:].astype(np.float64)
    figure = make_subplots(rows=len(channels), cols=1, shared_xaxes=True, vertical_spacing=0.08)
    for row, channel in enumerate(channels, start=1):
        error = np.nan_to_num(motion.error(channel)[piece])
        curves = {
            "data": (motion.measured[channel][piece], DATA, 2.5),
            "model": (motion.near(channel)[piece], FIT, 1.3),
            "residuals": (error, CHECK, 1.0),
        }
        least, most = 1.0, 0.0
        for name, (values, colour, width) in curves.items():
            density = np.mean(np.abs(segments_of(values, size)[:, 1:]) ** 2, axis=0) * interval * 16 / (3 * size)
            # The axis ends where the noise does: what the model has below cannot be seen in the data.
            least, most = (
                (float(density.min()), most) if name == "residuals" else (least, max(most, float(density.max())))
            )
            figure.add_scatter(
                x=floats(frequency), y=floats(np.maximum(density, 1e-300)), mode="lines", name=name, legendgroup=name,
                line={"color": colour, "width": width}, showlegend=row == 1, row=row, col=1,
            )  # fmt: skip
        floor = float(np.log10(max(least, 1e-300))) - 1.0
        top = float(np.log10(max(most, 1e-300))) + 0.5
        unit = motion.units.get(channel, "")
        title = f"power of {escaped_label(channel)}" + (f" [{grouped(unit)}²/Hz]" if unit else " [1/Hz]")
        figure.update_yaxes(type="log", title_text=title, exponentformat="power", range=[floor, top], row=row, col=1)
    figure.update_xaxes(title_text="frequency [Hz]", row=len(channels), col=1)
    figure.update_layout(height=180 + 200 * len(channels))
    return figure


def grouped(unit: str) -> str:
    """Return a unit, in brackets unless one symbol."""
    return unit if unit.isalnum() else f"({unit.replace('^2', '²')})"


def response_figure(motion: Motion | None, record: Record | None, drives: list[str]) -> go.Figure | None:
    """Draw the frequency response to a measured drive.

    The first channel is drawn: data and model, modulus and phase.
    H(f) = Σ conj(F) x / Σ |F|² over windowed segments, for data and fitted motion alike. For a nonlinear
    rig it is the response to this very drive, not a property of the rig.
    """
    found = None if motion is None else _even(motion)
    drive = next((d for d in drives if record is not None and d in record.channels), None)
    if motion is None or found is None or record is None or drive is None:
        return None
    piece, interval = found
    channel = next((c for c in motion.measured if c != drive), None)
    if channel is None or record.size < motion.time.size:
        return None
    at = np.clip(np.searchsorted(record.time, motion.time[piece] - 0.5 * interval), 0, record.size - 1)
    size = _size(piece.stop - piece.start)
    push = segments_of(record[drive][at], size)[:, 1:]
    power = np.mean(np.abs(push) ** 2, axis=0)
    band = power > SHOWN_BAND * power.max()
    if band.sum() < 4:
        return None
    frequency = np.fft.rfftfreq(size, interval)[1:][band].astype(np.float64)
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.6, 0.4], vertical_spacing=0.07)
    moduli: list[Array] = []
    for name, values, colour, mode in (
        ("data", motion.measured[channel][piece], DATA, "markers"),
        ("model", motion.near(channel)[piece], FIT, "lines"),
    ):
        response = (np.mean(np.conj(push) * segments_of(values, size)[:, 1:], axis=0) / power)[band]
        style = {"mode": mode, "name": name, "legendgroup": name, "line": {"color": colour, "width": 1.5}}
        style["marker"] = {"color": colour, "size": 5}
        moduli.append(np.abs(response))
        figure.add_scatter(x=floats(frequency), y=floats(moduli[-1]), row=1, col=1, **style)
        phase = np.degrees(np.unwrap(np.angle(response)))
        figure.add_scatter(x=floats(frequency), y=floats(phase), showlegend=False, row=2, col=1, **style)
    unit, other = motion.units.get(channel, "1") or "1", record.units.get(drive, "1") or "1"
    title = f"|{escaped_label(channel)} / {escaped_label(drive)}| [{unit}/{grouped(other)}]"
    figure.update_yaxes(**log_ticks(np.concatenate(moduli)), title_text=title, row=1, col=1)
    figure.update_yaxes(title_text="phase [degrees]", row=2, col=1)
    figure.update_xaxes(title_text="frequency [Hz]", row=2, col=1)
    figure.update_layout(height=460)
    return figure


def correlation_figure(estimate: Estimate) -> go.Figure | None:
    """Draw the correlation of the free parameters' errors.

    The numbers are written in; None for fewer than two parameters.
    """
    names = [escaped_label(name) for name in estimate.names]
    table = estimate.correlation
    if len(names) < 2 or not np.isfinite(table).all():
        return None
    figure = go.Figure(
        go.Heatmap(
            z=np.round(table, 3).tolist(), x=names, y=names, zmin=-1, zmax=1, colorscale=PALE,
            text=[[f"{v:.2f}" for v in row] for row in table.tolist()] if len(names) <= 12 else None,
            texttemplate="%{text}" if len(names) <= 12 else None, textfont={"color": "#111111"},
            hovertemplate="%{y}, %{x}: %{z:.3f}<extra></extra>", colorbar={"title": {"text": "correlation"}},
        )
    )  # fmt: skip
    figure.update_yaxes(autorange="reversed", automargin=True)
    figure.update_xaxes(automargin=True)
    figure.update_layout(height=150 + 44 * len(names), meta={**STACK, "stack": False})
    return figure
