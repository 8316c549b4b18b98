"""HarmonicFit under drives that a converter holds from sample to sample."""

import numpy as np
import pytest

import kapitza as kz

TIMES = np.arange(4000) * 0.005
TRUE = {"m": 1.0, "c": 1.2, "k": 400.0, "k3": 2e5}
FORCE = 3 * sum(np.sin(2 * np.pi * f * TIMES + p) for f, p in ((1.3, 0.4), (2.1, 2.0), (3.4, 5.1), (4.6, 3.3)))


def rig(force: np.ndarray, values: dict[str, float]) -> kz.Model:
    signal = kz.Signal("F", TIMES, force, degree=0)
    return kz.Model.from_equations("m*x'' + c*x' + k*x + k3*x**3 = F", parameters=values, signals=[signal])


@pytest.mark.parametrize("recorded", [True, False], ids=["channel", "stored"])
@pytest.mark.parametrize("every", [1, 10], ids=["each sample", "ten samples"])
def test_a_held_drive_gives_the_true_values(recorded: bool, every: int):
    """A staircase acts half a step late; taken at its samples it moved m by 0.7 % and c by 4 %."""
    force = np.repeat(FORCE[::every], every)
    clean = kz.simulate(rig(force, TRUE), x0=[0.0, 0.0], t=TIMES).select(["x"])
    record = kz.measure(clean, noise=0.002 * float(np.std(clean["x"])), seed=1)
    if recorded:
        record = kz.Record.from_arrays(TIMES, {"x": np.asarray(record["x"]), "F": force})
    start = rig(force, {name: 1.1 * value for name, value in TRUE.items()})
    fit = kz.identify(start, record, free=list(TRUE), method=kz.HarmonicFit())
    for name, value in TRUE.items():
        assert abs(fit[name] / value - 1) < 1e-3
        assert abs(fit[name] - value) < 4 * fit.deviations[name]
