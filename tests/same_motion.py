"""Chaotic motions that are the same on every processor.

Rounding differs between processors by 1e-15, and chaos amplifies that: some forty periods later the motion is another
one. Tests that need a certain motion, and not any of a system, simulate it here: the state is rounded after every
stretch of samples, far above the rounding of a processor and far below what the test sees.
"""

import numpy as np

import kapitza as kz
from kapitza.base.angles import wrap


def same_motion(
    model: kz.Model, samples: int, step: float, stretch: int, digits: int = 6, period: float | None = None
) -> kz.Record:
    """Samples every `step` of a motion from the model's start, rounded to so many decimals every `stretch` samples.

    period: of the excitation; a stretch is then a whole number of periods.
    """
    flow, state, parts = kz.Flow(model), model.state(None), []
    times = step * np.arange(stretch + 1)
    for _ in range(-(-samples // stretch)):
        path = flow.trajectory(state, times)
        parts.append(path[:-1])
        state = np.round(path[-1], digits)
    values = np.concatenate(parts)[:samples]
    angles = [c.name for c in model.coordinates if c.angle]
    channels = {n: wrap(values[:, i]) if n in angles else values[:, i] for i, n in enumerate(model.states)}
    phase = {} if period is None else {"phase": 0.0}
    return kz.Record.from_arrays(step * np.arange(samples), channels, angles=angles, period=period, **phase)
