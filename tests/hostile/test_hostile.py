"""Five hundred hostile inputs: each ends with a result or a KapitzaError, in 5 s and 1 GB, and touches nothing else."""

from tests.hostile.campaign import run

SEED = 20


def test_every_case_ends_with_a_result_or_a_refusal():
    campaign = run(500, SEED)
    assert len(campaign.ends) == 500
    told = [f"{end.case.family} {end.case.number}: {end.kind}: {end.detail[-800:]}" for end in campaign.failures]
    assert not told, "\n\n".join(told[:5])
    # The cases reach beyond the first check: many are read and used.
    assert sum(end.kind == "result" for end in campaign.ends) > 30
