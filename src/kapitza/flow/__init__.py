"""What a model does in time: trajectories, sections, tangents, many at once."""

from kapitza.flow.arguments import Parameters, parameter_vector
from kapitza.flow.chaos import chaotic_record
from kapitza.flow.compiled import count_builds
from kapitza.flow.core import Propagation
from kapitza.flow.flow import Flow
from kapitza.flow.maps import Map
from kapitza.flow.projection import invariants, project
from kapitza.flow.section import Crossings
from kapitza.flow.simulation import simulate
from kapitza.flow.stepper import Stepper
from kapitza.flow.strobe import Strobe

__all__ = [
    "Crossings",
    "Flow",
    "Map",
    "Parameters",
    "Propagation",
    "Stepper",
    "Strobe",
    "chaotic_record",
    "count_builds",
    "invariants",
    "parameter_vector",
    "project",
    "simulate",
]
