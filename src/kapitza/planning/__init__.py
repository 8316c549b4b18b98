"""Planning of experiments.

The package holds information, plans, run sheets, and rigs that identify themselves.
The folder is not called `plan`: a package of that name would hide the verb `kapitza.plan`.
"""

from kapitza.planning.choice import Choice
from kapitza.planning.criteria import CRITERIA
from kapitza.planning.information import information
from kapitza.planning.limits import check_limits
from kapitza.planning.loop import Campaign, Ending, experiment
from kapitza.planning.plan import plan, template_of
from kapitza.planning.result import Expected, Outcome, Plan, PlanMap
from kapitza.planning.rivals import Contest, RivalPlan, tell_apart
from kapitza.planning.search import Search
from kapitza.planning.sets import ItemSet, Reading, SetPlan, best_set, orbit_information
from kapitza.planning.sheet import Entry, read_sheet
from kapitza.planning.space import space as check_choices
