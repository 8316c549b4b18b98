"""Figures: their size is that of the element, whatever is in it."""

import pytest

pytest.importorskip("nicegui", reason="the studio is not installed: pip install 'kapitza[studio]'")

import plotly.graph_objects as go
from nicegui import Client
from nicegui.page import page

from kapitza.studio.figures import picture


def test_the_element_of_a_figure_keeps_its_height_while_it_is_empty():
    with Client(page("/figures")):
        made = picture(go.Figure(), 440)
        free = picture(go.Figure())
    assert made.style["height"] == "440px"
    assert "height" not in free.style
