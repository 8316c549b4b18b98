"""The table over all benchmarks reads what the pages say."""

import pytest
from benchmarks.table import Peer, peers_of, tables_of, targets_of
from harness import Contender, ratio_table
from harness.runner import MISSED


@pytest.fixture
def page(tmp_path):
    table = ratio_table(
        Contender("ours", 2.0, 1e-9), [Contender("SciPy", 9.0, 1e-8, 5.0), Contender("numpy", 30.0, 1e-7, 10.0)]
    )
    path = tmp_path / "simulate.md"
    path.write_text(
        f"# Simulate\n\n## Jobs of |x|\n\n{table}\n\n- all runs: 3 (target 4): {MISSED} (too few)\n\n"
        "Memory: met. It is metal.\n"
        "\n| what \\| where | found |\n|---|---|\n| a \\| b | 1 |\n",
        encoding="utf-8",
    )
    return path


def test_tables_with_their_headings(page):
    first, second = tables_of(page)
    assert first.heading == "Jobs of |x|"
    assert second.header == ("what | where", "found")
    assert second.rows == (("a | b", "1"),)


def test_peers_with_targets_and_verdicts(page):
    found = list(peers_of(page))
    assert found[0] == Peer("simulate", "Jobs of |x| [s]", "2", "1e-09", "SciPy", "9", "1e-08", "4.5", "≥ 5 ×", MISSED)
    assert (found[1].ratio, found[1].verdict) == ("15", "met")


def test_every_target_is_counted_once(page):
    verdicts = [verdict for _, _, verdict in targets_of(page)]
    assert sorted(verdicts) == [MISSED, MISSED, "met", "met"]
