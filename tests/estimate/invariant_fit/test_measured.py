"""Measured motion by others; skipped where the folder of data is absent."""

import numpy as np
import pytest
from scipy.io import loadmat

import kapitza as kz


@pytest.mark.parametrize("rates", [False, True])
def test_energy_balance_of_a_decaying_pendulum_agrees_with_the_fit_of_its_motion(rates, data_folder):
    content = loadmat(data_folder / "multiarm_pendulum" / "SinglePendulumDataForParameterEstimation.mat")
    pieces, times = content["Y_id"].ravel(), [t.ravel() for t in content["Time_id"].ravel()]
    record = kz.Record.from_arrays(
        np.concatenate(times),
        {"phi": np.concatenate([p[0] for p in pieces])},
        angles=["phi"],
        segment=np.repeat(np.arange(len(times)), [t.size for t in times]),
        noise={"phi": 2 * np.pi / 20000},
    )
    model = kz.Model.from_equations(
        "phi'' + c*phi' - omega0**2*sin(phi) = 0", angles=["phi"], parameters={"c": 0.2, "omega0": 6.0}
    )
    method = kz.InvariantFit("balance", invariant="phi'**2/2 + omega0**2*cos(phi)")
    seen = record
    if rates:  # smoothed by the authors: their errors are not white
        channels = {"phi": record["phi"], "phi'": np.concatenate([p[1] for p in pieces])}
        seen = kz.Record.from_arrays(record.time, channels, angles=["phi"], segment=record.dataset["segment"].values)
    fit = kz.identify(model, seen, method=method)
    near = model.with_values(c=fit["c"], omega0=fit["omega0"])
    thinned = kz.Record(record.dataset.isel(time=slice(None, None, 10)))
    motion = kz.identify(near, thinned, free=["c", "omega0"], method=kz.ShootingFit())
    assert fit["omega0"] ** 2 == pytest.approx(motion["omega0"] ** 2, rel=0.02)
    assert fit["c"] == pytest.approx(motion["c"], rel=0.02)


def test_double_pendulum_conserves_what_was_published(data_folder):
    table = np.loadtxt(data_folder / "schmidt_lipson" / "real_double_pend_h_1.txt", comments="%")
    calm = table[table[:, 0] == 0]
    channels = {name: calm[:, k] for k, name in enumerate(("o1", "o2", "w1", "w2"), start=2)}
    gaps = np.concatenate([[0], np.cumsum(np.diff(calm[:, 1]) > 0.015)])
    record = kz.Record.from_arrays(calm[:, 1], channels, angles=["o1", "o2"], segment=gaps)
    published = {"w1**2": 1.0, "w2**2": 0.32, "cos(o1)": -124.13, "cos(o2)": -46.82, "w1*w2*cos(o1 - o2)": 0.82}
    search = kz.find_invariant(record, list(published), tolerance=0.2)
    assert len(search) == 1
    found = search[0].table()["coefficient"]
    for term, value in published.items():
        assert found[term] / found["w1**2"] == pytest.approx(value, rel=0.06)
