"""Twice 20,000 hostile inputs: files, stores, studies, rigs, arguments, random calls, command lines, kills."""

from collections.abc import Sequence
from pathlib import Path

from harness import markdown_table
from tests.hostile.campaign import Part, run
from tests.hostile.pool import Outcome

COUNT = 20_000
SEEDS = (70421, 88237)
KEPT = Path("out")
"""Folder of outcomes, fuzz-SEED.jsonl: a campaign that was interrupted is continued.

One campaign in a process of its own: `python -m tests.hostile --seed SEED --kept out/fuzz-SEED.jsonl`.
"""


def main() -> str:
    KEPT.mkdir(exist_ok=True)
    campaigns = [run(COUNT, seed, Part(kept=KEPT / f"fuzz-{seed}.jsonl")) for seed in SEEDS]
    bad = sum(len(campaign.failures) for campaign in campaigns)
    lines = [
        "# Hostile inputs",
        "",
        "Damaged and generated files, odd arguments, random calls of every public name, command lines, killed writers "
        "(`tests/hostile/`). Each case must end with a result or a refusal (`KapitzaError`) within the computing time "
        "of its family (5 s unless stated) and 1 GB, and touch no file outside its own folder.",
        "",
        f"Cases that ended otherwise: {bad}" + (" **missed**" if bad else "") + ".",
    ]
    for campaign in campaigns:
        ran = ", ".join(f"{count} on {commit}" for commit, count in campaign.commits)
        lines += ["", f"## Seed {campaign.seed}: {len(campaign.ends)} cases", "", f"Cases by commit: {ran}.", ""]
        lines += [markdown_table(campaign.columns, campaign.table()), "", *_listed(campaign.failures)]
        if campaign.cured:
            lines += ["Ended otherwise at first, and as they must on the later commit:", "", *_listed(campaign.cured)]
    return "\n".join(lines)


def _listed(ends: Sequence[Outcome]) -> list[str]:
    return [f"- {end.case.family}, case {end.case.number}: {end.kind}: `{_last(end.detail)}`" for end in ends[:40]]


def _last(detail: str) -> str:
    """Return the line of the error of a traceback, which the description of the call follows."""
    lines = [line for line in detail.strip().splitlines() if line and not line.startswith(" ")]
    return next((line for line in lines if "Error" in line), lines[-1])[:160]
