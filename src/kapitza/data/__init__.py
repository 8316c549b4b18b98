"""Records: measured or simulated data with units and segments."""

from kapitza.data.record import Record

__all__ = ["Record"]
