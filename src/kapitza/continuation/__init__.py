"""Families of orbits: continuation, bifurcations, curves of bifurcations."""

# pyright: reportUnusedImport=false

from kapitza.continuation.bands import bifurcation_gradient, moved_bifurcation
from kapitza.continuation.branch import Branch
from kapitza.continuation.conservative import backbone
from kapitza.continuation.diagram import Diagram, diagram, other_orbits
from kapitza.continuation.follow import follow, walk_branch
from kapitza.continuation.nouns import Bifurcation, End, Kind
from kapitza.continuation.path import ChordNewton, Natural, Secant
from kapitza.continuation.response import FrequencyResponse, frequency_response
from kapitza.continuation.switch import switch_branch
from kapitza.continuation.tori import Tongue, Torus, TorusBranch, follow_torus, tongues, tori
from kapitza.continuation.trace import Stepping
