"""Studies and saved files killed, stopped or run twice at random moments: nothing finished may be lost."""

from harness import markdown_table
from tests.hostile.killed import SHARES, campaign, lost

CASES = 200
SEED = 1

MEANINGS = {
    "killed studies": "`kapitza identify`, killed (SIGKILL) at a moment of its computing or before a call that writes",
    "stopped studies": "`kapitza identify`, Ctrl-C at a moment of its computing",
    "killed saves": "`kz.save` over a saved model, killed",
    "studies run twice": "the same study started twice",
    "killed holders of a lock": "a process that runs a study killed while a worker that it forked lives on",
}


def main() -> str:
    ends = campaign(CASES, SEED)
    rows = [[MEANINGS[name], str(ends[name].total()), str(lost(ends[name])), _shown(ends[name])] for name in SHARES]
    bad = sum(lost(counts) for counts in ends.values())
    lines = [
        "# Killed, stopped and doubled studies",
        "",
        f"{CASES} cases of seed {SEED} (`tests/hostile/killed.py`): two candidates by two methods, in part over older "
        "results. Lost is a result or fit that differs from that of an uninterrupted run by a byte, an exit code other "
        "than 0, 4 (locked) and 130 (stopped), a next run with another result, a file left behind. "
        "Writers of recordings, and readers beside them: [kills](kills.md); rigs: [limits of a rig](rig_limits.md).",
        "",
        markdown_table(["what", "cases", "lost", "endings"], rows),
        "",
        f"Lost: {bad} of {CASES}" + (" **missed**" if bad else "") + ".",
        *(f"- {text[:200]}" for counts in ends.values() for text in counts if text.startswith("FAILED")),
    ]
    return "\n".join(lines)


def _shown(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} {text}" for text, number in sorted(counts.items()) if not text.startswith("FAILED"))
