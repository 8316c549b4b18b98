"""Engine for jumping switches, sticking, impacts and contact."""

from kapitza.flow.events.engine import EventEngine
