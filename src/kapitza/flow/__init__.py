"""What a model does in time: trajectories, sections, tangents, many at once."""

from kapitza.flow.arguments import Parameters, parameter_vector, state_vector
from kapitza.flow.chaos import chaotic_record
from kapitza.flow.clock import PeriodLaw
from kapitza.flow.compiled import count_builds
from kapitza.flow.core import Propagation
from kapitza.flow.device import (
    DeviceError,
    Task,
    growth_on_device,
    nets_on_device,
    prepare_nets,
    rows_per_launch,
)
from kapitza.flow.engine import Event
from kapitza.flow.flow import Flow
from kapitza.flow.maps import Map
from kapitza.flow.projection import invariants, project
from kapitza.flow.section import Crossings
from kapitza.flow.simulation import simulate
from kapitza.flow.stepper import Stepper
from kapitza.flow.strobe import Strobe
from kapitza.flow.unit import RunningUnit, Unit, open_unit

__all__ = [
    "Crossings",
    "DeviceError",
    "Event",
    "Flow",
    "Map",
    "Parameters",
    "PeriodLaw",
    "Propagation",
    "RunningUnit",
    "Stepper",
    "Strobe",
    "Task",
    "Unit",
    "chaotic_record",
    "count_builds",
    "growth_on_device",
    "invariants",
    "nets_on_device",
    "open_unit",
    "parameter_vector",
    "prepare_nets",
    "project",
    "rows_per_launch",
    "simulate",
    "state_vector",
]
