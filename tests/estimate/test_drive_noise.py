"""Warnings on measured drives."""

import numpy as np

from kapitza.estimate.drive_noise import DriveEffect


def test_each_drive_is_named_with_its_own_degree():
    effect = DriveEffect({}, {}, np.zeros((0, 0)), degrees={"u": 3, "v": 1}, bent={"k": 1.0})
    text = effect.between_samples({"k": 0.1})
    assert "a cubic spline would follow the drive u better, straight lines would follow the drive v better" in text
    assert "degree=3) and kz.Signal(..., degree=1)" in text
