"""The runner of reproductions and benchmarks, and the registries."""

import pytest
from harness import Comparison, Contender, comparison_table, ratio_table, recorded_fits, runner

import kapitza as kz
import methods
import problems


def test_missed_targets_are_counted_in_the_index(tmp_path):
    body = "# A table\n\n" + comparison_table(
        [Comparison("m", 0.76, 0.9, "< 0.8 %", False), Comparison("|l|", 0.0, 0.0, "< 0.1 %", True)]
    )
    runner.write_atomically(tmp_path / "some_table.md", runner.page_text("reproductions", "some_table", body, 1.0))
    runner.write_index(tmp_path)
    page = (tmp_path / "some_table.md").read_text()
    assert page.startswith("# A table\n")
    for word in ("`python -m reproductions some_table`", "commit: ", "date: ", "UTC", "\\|l\\|"):
        assert word in page
    row = next(line for line in (tmp_path / "index.md").read_text().splitlines() if "some_table.md" in line)
    assert row.rstrip(" |").endswith("1")


def test_ratio_table_says_missed():
    table = ratio_table(
        Contender("Kapitza", 1.0), [Contender("fast", 2.0, target_ratio=4), Contender("slow", 9.0, target_ratio=4)]
    )
    assert "**missed**" in table.splitlines()[3]
    assert "met" in table.splitlines()[4]


def test_a_failing_script_is_counted_and_does_not_stop_the_others(capfd):
    assert runner.run_each("reproductions", ["no_such_script", "another"]) == 1
    assert "Failed: no_such_script, another" in capfd.readouterr().err


def test_unknown_script_is_refused(capsys):
    assert runner.run("reproductions", ["no_such_script"]) == 2
    assert "no_such_script" in capsys.readouterr().err


def test_result_pages_have_one_writer_each():
    names = [name for package in runner.SCRIPT_FOLDERS for name in runner.module_names(package)]
    assert len(names) == len(set(names)), "two scripts would write the same page of docs/results"


@pytest.mark.parametrize(
    "entries", [problems.ORBIT_PROBLEMS, problems.FIT_PROBLEMS, methods.ORBIT_METHODS, methods.FIT_METHODS]
)
def test_registry_names_are_unique_and_problems_cite_their_source(entries):
    names = [entry.name for entry in entries]
    assert len(names) == len(set(names))
    assert all(getattr(entry, "source", "method") for entry in entries)


def test_methods_meet_only_problems_they_apply_to():
    forced = problems.OrbitProblem("forced", lambda: None, {}, 1, "-", frozenset({"forced"}))
    free = problems.OrbitProblem("free", lambda: None, {}, 1.0, "-", frozenset({"autonomous", "switches"}))
    picky = methods.Method("picky", lambda: None, refuses=frozenset({"switches"}))
    needy = methods.Method("needy", lambda: None, needs=frozenset({"forced"}))
    assert [case.id for case in methods.cases([forced, free], [picky, needy])] == ["forced-picky", "forced-needy"]


def test_recorded_fits_cover_every_method_and_show_what_moved():
    every = list(recorded_fits.cases())
    assert len(every) >= 150
    assert len({case.name for case in every}) == len(every)
    kinds = {type(case.method) for case in every}
    assert {kz.ShootingFit, kz.HarmonicFit, kz.OrbitFit, kz.InvariantFit, kz.BranchFit, type(None)} <= kinds
    old = {"status": "CONVERGED", "values": {"k": 1.0}, "errors": {"k": 0.1}}
    assert recorded_fits.difference(old, old) == (0.0, "")
    moved = recorded_fits.difference(old, old | {"values": {"k": 1.0 + 1e-9}})
    assert moved[0] == pytest.approx(1e-8, rel=1e-6)
    assert "value of k" in moved[1]
    assert recorded_fits.difference(old, {"failed": "ModelError"})[0] == float("inf")
