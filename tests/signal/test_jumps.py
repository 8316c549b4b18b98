"""Possible steps of a sensor in records without a model."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.signal.jumps import possible_steps

TIME = np.arange(1500) * 0.02
MOTION = np.exp(-0.05 * TIME) * np.cos(3.0 * TIME)


def noisy(seed, size=0.005):
    return MOTION + size * np.random.default_rng(seed).standard_normal(TIME.size)


def test_a_step_is_found_at_its_place_with_its_size():
    values = noisy(1)
    values[700:] += 0.2
    at, sizes = possible_steps(values)
    assert at.tolist() == [700]
    # Weights of J for a cubic and a step through 28 samples: standard error below 1 noise width.
    assert sizes == pytest.approx([0.2], abs=4 * 0.005)


@pytest.mark.parametrize("seed", range(4))
def test_clean_motions_and_spikes_have_no_step(seed):
    assert possible_steps(noisy(seed))[0].size == 0
    values = noisy(seed)
    values[400] += 0.2
    assert possible_steps(values)[0].size == 0


def test_impacts_are_not_steps():
    """The velocity of a bouncing ball jumps at each impact."""
    speed = 3.0 - 9.81 * np.mod(TIME, 0.6116)
    speed = speed + 0.005 * np.random.default_rng(2).standard_normal(TIME.size)
    assert possible_steps(speed)[0].size == 0
    kink = np.abs(np.cos(3.0 * TIME)) + 0.005 * np.random.default_rng(3).standard_normal(TIME.size)
    assert possible_steps(kink)[0].size == 0


def test_inspect_and_check_name_a_possible_step(tmp_path):
    values = noisy(5)
    values[900:] -= 0.3
    record = kz.Record.from_arrays(TIME, {"x": values})
    (note,) = (note for note in kz.inspect(record).notes if "may have a step" in note)
    assert " at 18 s" in note
    kz.write(record, tmp_path / "run.csv")
    text = (
        "[model]\nequations = [\"x'' + c*x' + k*x = 0\"]\nparameters = {c = 0.1, k = 9.0}\n"
        '[data]\nfile = "run.csv"\n[fit]\nfree = ["c", "k"]\nmethod = "shooting"\n'
    )
    (tmp_path / "rig.toml").write_text(text)
    assert any("may have a step" in said for said in kz.read_study(tmp_path / "rig.toml").warnings())
