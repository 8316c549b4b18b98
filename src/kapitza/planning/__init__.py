"""Which experiment next: information, plans, run sheets, and rigs that identify themselves."""

from kapitza.planning.choice import Choice
from kapitza.planning.information import information
from kapitza.planning.plan import plan
from kapitza.planning.result import Expected, Outcome, Plan, PlanMap
from kapitza.planning.search import Search

__all__ = ["Choice", "Expected", "Outcome", "Plan", "PlanMap", "Search", "information", "plan"]
