"""Colour Plotly figures like the page.

They are readable in dark and light.
"""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go
from nicegui import ui

GREY = "#7d8894"
"""Text and lines of figures: readable on white and on dark grey."""

GRID = "rgba(125,136,148,0.25)"

LIVE = 0.4
"""Seconds between two pictures of work under way: drawing at each line of a worker would keep the server busy."""

CONFIG = {"displaylogo": False, "responsive": True, "modeBarButtonsToRemove": ["lasso2d", "select2d", "toImage"]}


def dressed(figure: go.Figure, height: int | None = None) -> dict[str, Any]:
    """Return a figure in the page's style.

    It has a transparent ground and neutral lines.
    """
    figure = go.Figure(figure)
    figure.update_layout(
        paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)", font={"color": GREY, "size": 12},
        margin={"l": 60, "r": 16, "t": 28, "b": 44}, legend={"orientation": "h", "y": 1.0, "yanchor": "bottom"},
        template="none", autosize=True,
    )  # fmt: skip
    if height:
        figure.update_layout(height=height)
    figure.update_xaxes(gridcolor=GRID, zerolinecolor=GRID, linecolor=GREY, automargin=True)
    figure.update_yaxes(gridcolor=GRID, zerolinecolor=GRID, linecolor=GREY, automargin=True)
    return {**figure.to_plotly_json(), "config": CONFIG}


def picture(figure: go.Figure, height: int | None = None) -> ui.plotly:
    """Add a figure to the page; `update_figure(dressed(...))` changes it."""
    made = ui.plotly(dressed(figure, height)).classes("w-full kz-figure")
    if height:
        # Plotly fits a figure to its element: one of a tab that is shown again is empty, and low, at that moment.
        made.style(f"height: {height}px")
    return made
