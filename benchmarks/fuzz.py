"""Ten thousand hostile inputs: models, recordings, studies, saved results, arguments, command lines."""

from harness import markdown_table
from tests.hostile.campaign import run

COUNT = 10_000
SEED = 12


def main() -> str:
    campaign = run(COUNT, SEED)
    bad = len(campaign.failures)
    told = [
        f"- {end.case.family}, case {end.case.number}: {end.kind}: `{end.detail.strip().splitlines()[-1][:160]}`"
        for end in campaign.failures[:40]
    ]
    lines = [
        "# Hostile inputs",
        "",
        f"{len(campaign.ends)} cases, seed {campaign.seed}: damaged and generated files, odd arguments, command lines "
        "(`tests/hostile/`). Each must end with a result or a refusal (`KapitzaError`) within 5 s of computing and "
        "1 GB, and touch no file outside its own folder.",
        "",
        markdown_table(campaign.columns, campaign.table()),
        "",
        f"Cases that ended otherwise: {bad}" + (" **missed**" if bad else "") + ".",
        *told,
    ]
    return "\n".join(lines)
