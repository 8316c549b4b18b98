"""Twice 20,000 hostile inputs: files, stores, studies, rigs, arguments, random calls, command lines, kills."""

from harness import markdown_table
from tests.hostile.campaign import Campaign, run

COUNT = 20_000
SEEDS = (2611, 2612)


def main() -> str:
    campaigns = [run(COUNT, seed) for seed in SEEDS]
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
        lines += ["", f"## Seed {campaign.seed}: {len(campaign.ends)} cases", ""]
        lines += [markdown_table(campaign.columns, campaign.table()), "", *_told(campaign)]
    return "\n".join(lines)


def _told(campaign: Campaign) -> list[str]:
    return [
        f"- {end.case.family}, case {end.case.number}: {end.kind}: `{end.detail.strip().splitlines()[-1][:160]}`"
        for end in campaign.failures[:40]
    ]
