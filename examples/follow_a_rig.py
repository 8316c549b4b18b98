"""Follow the motions of an experiment, unstable ones included, through both folds of a hardening oscillator.

The rig is simulated, with noisy sensors. Nothing here knows its equation: the branch comes from measurements alone.
"""

import kapitza as kz
from kapitza.rig import FourierSeries, LiveTable, RigStepping, Sensors, duffing_rig

rig = duffing_rig(sensors=Sensors(noise={"x": 0.005}))


def beyond_the_second_fold(point: kz.rig.RigPoint) -> bool:
    return point.value > 1.45 and point.series("x").peak() < 0.4


branch = rig.follow(
    {"x": FourierSeries(1.2, [0.0, 0.9, 0.15])},
    "omega",
    bounds=(0.5, 2.0),
    frequency="omega",
    modes=5,
    scales={"x": 1.0},
    values={"B": 0.3, "omega": 1.2},
    stepping=RigStepping(max_points=70),
    watch=LiveTable("omega", "x", stop=beyond_the_second_fold),
)
print(branch)
print("The folds of the equation behind it: 1.77972 and 1.32424.")
