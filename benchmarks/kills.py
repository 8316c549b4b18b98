"""Writers killed at random moments, and readers beside writers: nothing may be lost."""

from harness import markdown_table
from tests.hostile.kills import LATEST, ROWS, TARGETS, campaign

KILLS = 200
READINGS = 5_000
SEED = 1


def main() -> str:
    found = campaign(KILLS, READINGS, SEED)
    rows = [[f"`{target}`", str(found.by_target.get(target, 0)), str(found.read_by_target.get(target, 0)),
             str(sum(f"{target}:" in line for line in found.lost))] for target in TARGETS]  # fmt: skip
    rows.append(["all", str(found.kills), str(found.readings), str(len(found.lost))])
    lines = [
        "# Kills",
        "",
        f"A process writes versions of a recording of {ROWS} samples (`log.…`: appends parts of {ROWS}), or saves it, "
        f"one after another, and is killed (SIGKILL) at a random moment within {LATEST:g} s, seed {SEED}. Afterwards "
        "the last version that it reported as complete, or the next one, must be there, complete, and the next writer "
        "must go on. Beside other writers a reader reads again and again: each reading must give one complete version, "
        "never an older one than before (`tests/hostile/kills.py`).",
        "",
        markdown_table(["target", "kills", "readings beside a writer", "lost or failed"], rows),
        "",
        f"Lost or failed: {len(found.lost)} of {found.kills} kills and {found.readings} readings"
        + (" **missed**" if found.lost else "") + ".",
        *(f"- {line[:200]}" for line in found.lost[:20]),
    ]  # fmt: skip
    return "\n".join(lines)
