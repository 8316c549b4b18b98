"""The table over all benchmarks reads what the pages say."""

import pytest
from benchmarks.table import HEADER, NOT_MET, Peer, changes, claim_rows, peers_of, tables_of, targets_of
from harness import Contender, markdown_table, measure, ratio_table
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


def test_one_line_per_job_with_all_its_peers(page):
    (row,) = claim_rows(page, "a limit")
    assert row[0] == "[Jobs of |x| [s]](simulate.md)"
    assert "4.5 ×" in row[3]
    assert "15 ×" in row[3]
    assert row[4] == "4.5"
    assert row[5] == ""


def test_a_peer_that_is_faster_needs_a_reason(tmp_path):
    path = tmp_path / "jobs.md"
    path.write_text(ratio_table(Contender("ours", 2.0), [Contender("quick", 1.0)]), encoding="utf-8")
    (row,) = claim_rows(path, "")
    assert MISSED in row[5]


def test_changed_claims_are_listed(page, tmp_path):
    rows = claim_rows(page, "")
    before = tmp_path / "table.md"
    slower = [(*rows[0][:4], "9.9", *rows[0][5:]), ("[gone](gone.md)", "", "", "", "2", "", "", "", "")]
    known = [("[A](a.md)", "time 3.2 s", "2 s", MISSED), ("[B](b.md)", "cured", "1", MISSED)]
    before.write_text(f"{markdown_table(HEADER, slower)}\n\n{markdown_table(NOT_MET, known)}\n", encoding="utf-8")
    now = [("[A](a.md)", "time 4.1 s", "2 s", MISSED), ("[C](c.md)", "new", "1", MISSED)]
    assert changes(rows, now, before).split("\n") == [
        "- [Jobs of |x| [s]](simulate.md): least ratio 4.5 (9.9 before)",
        "- gone: [gone](gone.md)",
        "- missed now: [C](c.md): new",
        "- no longer missed: [B](b.md): cured",
    ]


def test_every_program_is_warmed_up_and_the_best_run_counts():
    calls = []
    work = [lambda: sum(range(300_000)), lambda: sum(range(30_000)), lambda: sum(range(100))]

    def step() -> int:
        calls.append(len(calls))
        return work[min(calls[-1], 2)]()

    found = measure(step, repeats=2)
    assert len(calls) == 3
    assert found.answer == sum(range(100))
    assert 0 <= found.seconds <= found.first
    assert measure(lambda: calls.append(0), repeats=1, warm_up=False).answer is None
    assert len(calls) == 4
