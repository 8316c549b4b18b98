"""The pane model."""

from __future__ import annotations

from nicegui import ui

from kapitza.studio.session import Session


def build(session: Session) -> None:
    """Build the pane in one window."""
    ui.label(session.path.name)
