"""`python -m tests.hostile --cases N --seed S --only FAMILY`: what failed, how to repeat it, and the table."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.hostile.campaign import Campaign, Part, run
from tests.hostile.pool import Outcome


def main() -> int:
    reader = argparse.ArgumentParser(prog="python -m tests.hostile")
    reader.add_argument("--cases", type=int, default=20_000)
    reader.add_argument("--seed", type=int, default=1)
    reader.add_argument("--only", default="", help="only families whose name holds this")
    reader.add_argument("--number", type=int, default=None, help="only this case of each family")
    reader.add_argument("--minutes", type=float, default=float("inf"), help="stop after so long on the clock")
    reader.add_argument("--kept", type=Path, default=None, help="file of outcomes; cases in it are not run again")
    reader.add_argument("--processes", type=int, default=2)
    chosen = reader.parse_args()

    def tell(number: int, end: Outcome) -> None:
        if number % 500 == 0:
            print(f"{number} cases ended", flush=True)
        if end.kind not in ("result", "refused"):
            print(f"{number}: {end.case.family} {end.case.number}: {end.kind}: {end.detail[-1500:]}", flush=True)
            print(f"    {str(end.case.content)[:600]!r}", flush=True)
            again = f'--cases {chosen.cases} --seed {chosen.seed} --only "{chosen.only}" --number {end.case.number}'
            print(f"    again: python -m tests.hostile {again}", flush=True)

    part = Part(chosen.only, chosen.number, chosen.minutes, chosen.kept)
    campaign = run(chosen.cases, chosen.seed, part, chosen.processes, tell)
    show(campaign)
    return 1 if campaign.failures else 0


def show(campaign: Campaign) -> None:
    print(f"seed {campaign.seed}")
    show_rows([campaign.columns, *campaign.table()])
    if by_format := campaign.by_format():
        print()
        show_rows([campaign.format_columns, *by_format])


def show_rows(rows: list[list[str]]) -> None:
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    for row in rows:
        print(
            "  ".join(
                cell.rjust(w) if k else cell.ljust(w) for k, (cell, w) in enumerate(zip(row, widths, strict=True))
            )
        )


if __name__ == "__main__":
    sys.exit(main())
