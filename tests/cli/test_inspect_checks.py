"""kapitza inspect refuses figures that cannot be written before it computes, and reads trials."""

import numpy as np
import pytest

from kapitza.cli.inspect_file import inspect_file
from kapitza.errors import DataError


@pytest.fixture
def run(tmp_path):
    time = np.tile(np.arange(600) * 0.01, 2)
    trial = np.repeat([0, 1], 600)
    table = np.column_stack([trial, time, np.sin(20 * time)])
    path = tmp_path / "run.csv"
    np.savetxt(path, table, delimiter=",", header="shot,t,x", comments="")
    return path


def test_figures_are_checked_first(run, tmp_path):
    with pytest.raises(DataError, match="end the name in"):
        inspect_file(run, findings=tmp_path / "run.xyz")
    with pytest.raises(DataError, match="no folder"):
        inspect_file(run, plot=tmp_path / "absent" / "run.png")


def test_a_column_of_trials_cuts_the_record(run, capsys):
    inspect_file(run, time="t", segment="shot")
    out = capsys.readouterr().out
    assert "2 segments" in out
    assert out.count("Sampling:") == 1
    assert "Noise of shot" not in out


def test_a_driven_record_is_fitted_not_searched_for_orbits(tmp_path, capsys):
    time = np.arange(600) * 0.01
    table = np.column_stack([time, np.sin(20 * time), np.cos(3 * time**2)])
    np.savetxt(tmp_path / "run.csv", table, delimiter=",", header="t [s],x [mm],Load [N]", comments="")
    inspect_file(tmp_path / "run.csv")
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith('Next: "Load" drives the motion')
    assert "kapitza new FILE" in last


def test_a_drive_replaces_what_describes_motions_without_input(tmp_path, capsys):
    time = np.arange(600) * 0.01
    table = np.column_stack([time, np.sin(20 * time), np.cos(3 * time**2)])
    np.savetxt(tmp_path / "run.csv", table, delimiter=",", header="t [s],x [mm],Load [N]", comments="")
    inspect_file(tmp_path / "run.csv")
    out = capsys.readouterr().out
    assert '"Load" drives this one' in out
    assert "Dimension:" not in out
    assert "Close returns" not in out


def test_a_free_decay_has_no_drive(tmp_path, capsys):
    time = np.arange(1500) * 0.02
    decay = np.exp(-0.08 * time) * np.cos(6 * time) + 1e-3 * np.random.default_rng(1).normal(size=time.size)
    table = np.column_stack([time, decay, 9 - 1e-3 * time])
    np.savetxt(tmp_path / "run.csv", table, delimiter=",", header="t [s],x [mm],Logger [V]", comments="")
    inspect_file(tmp_path / "run.csv")
    out = capsys.readouterr().out
    assert "Next: a free decay" in out
    assert "drives" not in out
    # Nothing returns, and no longer record would give an exponent.
    assert "Close returns" not in out
    assert "exponent" not in out
