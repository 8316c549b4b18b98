"""Switches that jump, stick, impacts and lasting contact: the engine for models that have them."""

from kapitza.flow.events.engine import EventEngine
