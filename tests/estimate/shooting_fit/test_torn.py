"""A motion that is cut where its links contradict each other."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.solve import ChainProgram

FREE = ["sigma", "rho", "beta"]
METHOD = kz.ShootingFit(spacing=4, bridge=False)


@pytest.fixture(scope="module")
def clean():
    run = kz.simulate(kz.library.lorenz(), x0=[1, 1, 1], t=np.arange(1000) * 0.02)
    return kz.Record.from_arrays(3.0 + np.arange(600) * 0.02, {c: run[c][400:] for c in run.channels})


def noisy(clean, **more):
    rng = np.random.default_rng(5)
    readings = {c: clean[c] + 0.1 * rng.normal(size=clean.size) for c in clean.channels}
    return kz.Record.from_arrays(clean.time, readings, **more)


def cut_at(monkeypatch, node):
    """Let the first chain with rigid links be torn at a node; returns the list of its times."""
    told = []

    def torn(program):
        if program._rigid and not told:
            told.append(node)
            return node
        return None

    monkeypatch.setattr(ChainProgram, "torn", property(torn))
    return told


def test_a_cut_motion_gives_what_its_two_segments_give(clean, monkeypatch):
    start = kz.library.lorenz().with_values(sigma=9.5, rho=27.5)
    whole = kz.identify(start, noisy(clean), FREE, METHOD)
    # The interval of samples 200 to 204 loses its link: sample 203 ends the first motion.
    with monkeypatch.context() as patch:
        told = cut_at(patch, 50)
        cut = kz.identify(start, noisy(clean), FREE, METHOD)
    assert told
    apart = kz.identify(start, noisy(clean, segment=np.repeat([0, 1], [204, 396])), FREE, METHOD)
    for name in FREE:
        assert cut.values[name] == pytest.approx(apart.values[name], abs=1e-3 * apart.deviations[name])
        assert cut.deviations[name] == pytest.approx(apart.deviations[name], rel=1e-3)
        assert cut.values[name] != whole.values[name]
    assert [cut.dof, apart.dof] == pytest.approx([whole.dof - 3] * 2)
    warned = [warning for warning in cut.warnings if "is cut after 7.06 s" in warning]
    assert len(warned) == 1
    assert not any("is cut after" in warning for fit in (whole, apart) for warning in fit.warnings)


def test_a_chaotic_motion_of_usual_length_is_not_cut(clean):
    fit = kz.identify(kz.library.lorenz(), noisy(clean), FREE, METHOD)
    assert fit.motion.piece.max() == 0
