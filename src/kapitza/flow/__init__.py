"""Flows of models: trajectories, sections, tangents, batches."""

from kapitza.flow.arguments import Parameters, parameter_vector, state_vector
from kapitza.flow.chaos import chaotic_record
from kapitza.flow.clock import PeriodLaw
from kapitza.flow.compiled import count_builds
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
from kapitza.flow.simulation import simulate
from kapitza.flow.stepper import Stepper
from kapitza.flow.unit import RunningUnit, Unit, open_unit
