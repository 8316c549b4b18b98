"""The one table: every benchmark beside its peers, every target of the results, and how costs grow.

Nothing is measured here: the rows are read from the pages that the other benchmarks and the reproductions wrote, each
with its own machine, date and commit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import matplotlib
from harness import markdown_table
from harness.runner import MISSED, RESULTS, module_names, read_page

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import NullFormatter

PACKAGES = ("SciPy", "diffrax", "JiTCODE", "CasADi", "PySINDy", "odrpack", "pandas", "numpy", "sympy")

LIMITS = {
    "simulate": "arithmetic of the Taylor coefficients: nothing but the integrator runs",
    "read_csv": "one parse of the text, as pandas does it",
    "periodic": "three propagations with tangents",
    "fit": "Cramér-Rao (error); one propagation with tangents a step (time)",
    "harmonic": "Cramér-Rao (error); one pass over the samples (time)",
    "invariant": "one pass over the points a step",
    "growth": "N³ operations of the elimination a right-hand side",
    "continuation": "two propagations a step, one of them with tangents",
    "jobs": "the integrator alone (flows); one pass of a k-d tree (returns)",
    "ensembles": "the periods until a start comes to its attractor, at the speed of the integrator",
}
"""What bounds a job from below, by page; numbers are those of `benchmarks limits`."""


def limits_of(path: Path = RESULTS / "limits.md") -> dict[str, str]:
    """By page: what bounds its jobs in words, and how many times that was measured."""
    found = dict(LIMITS)
    for table in tables_of(path) if path.is_file() else []:
        if table.header[0] != "page" or "times the limit" not in table.header:
            continue
        for page in dict.fromkeys(row[0] for row in table.rows):
            own = [row for row in table.rows if row[0] == page]
            measured = "; ".join(f"{row[-1]} × {row[2]} ({row[1]})" for row in own)
            found[page] = f"measured: {measured}"
    return found


@dataclass(frozen=True)
class Table:
    """A table of a page under its heading."""

    heading: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Peer:
    """One job beside one program."""

    page: str
    job: str
    ours: str
    our_error: str
    name: str
    theirs: str
    their_error: str
    ratio: str
    target: str = ""
    verdict: str = ""


def tables_of(path: Path) -> list[Table]:
    heading, found, lines = "", [], path.read_text(encoding="utf-8").split("\n")
    k = 0
    while k < len(lines):
        if lines[k].startswith("#"):
            heading = lines[k].lstrip("# ").strip()
        if lines[k].startswith("|") and k + 1 < len(lines) and re.fullmatch(r"\|(-+\|)+", lines[k + 1]):
            header, rows, k = _cells(lines[k]), [], k + 2
            while k < len(lines) and lines[k].startswith("|"):
                rows.append(_cells(lines[k]))
                k += 1
            found.append(Table(heading, header, tuple(rows)))
        else:
            k += 1
    return found


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1])


def peers_of(path: Path) -> Iterator[Peer]:
    """Rows beside programs of others, from the forms that the pages have."""
    name = path.stem
    for table in tables_of(path):
        header = table.header
        if header[0] == "program" and "ratio" in header:
            time = next((k for k, h in enumerate(header) if re.search(r"time|[mµ]?s per ", h)), 1)
            error = next((k for k, h in enumerate(header) if "error" in h), None)
            ratio = header.index("ratio")
            goal = [header.index(h) if h in header else None for h in ("target", "verdict")]
            unit = re.search(r"\[(.*)\]", header[time])
            first = table.rows[0]
            for row in table.rows[1:]:
                yield Peer(
                    name, f"{table.heading} [{unit[1] if unit else header[time]}]", first[time], _at(first, error),
                    row[0], row[time], _at(row, error), row[ratio], _at(row, goal[0]), _at(row, goal[1]),
                )  # fmt: skip
        elif name == "periodic" and header[0] == "orbit":
            for row in table.rows:
                for peer, named in (("SciPy shooting", "SciPy shooting [ms]"), ("SciPy solve_bvp", "solve_bvp [ms]")):
                    column = header.index(named)
                    verdict = "met" if float(row[column + 2]) >= 20 else MISSED
                    yield Peer(
                        name, f"{row[0]} [ms]", row[1], row[2], peer, row[column], row[column + 1], row[column + 2],
                        "≥ 20 ×", verdict,
                    )  # fmt: skip
        elif name == "harmonic" and "PySINDy weak" in header:
            for row in table.rows:
                ours, theirs = (float(row[k].split()[0]) for k in (1, 2))
                yield Peer(name, f"{row[0]}, error of parameters", "", row[1], "PySINDy weak", "", row[2],
                           f"{theirs / ours:.3g}", "≥ 1 ×", row[4])  # fmt: skip
        elif name == "growth" and "times ours" in header:
            for row in table.rows:
                job = f"{row[0]} links, 20 s of motion [s]"
                ours = f"{float(row[2]) / float(row[3]):.2g}"
                yield Peer(name, job, ours, "", "SciPy DOP853 with lambdified matrices", row[2], row[4], row[3])
        elif name == "ensembles" and header[0] == "starts":
            for row in table.rows:
                job = f"basins, {row[0]} starts [s]"
                for peer, column in (("SciPy DOP853, from 32 starts", 2), ("diffrax Dopri8, from 4096 starts", 4)):
                    yield Peer(name, job, row[1], "", peer, row[column], "1e-9", row[column + 1])


def _at(row: tuple[str, ...], column: int | None) -> str:
    return "" if column is None or column >= len(row) else row[column]


def targets_of(path: Path) -> Iterator[tuple[str, str, str]]:
    """What was wanted, the target and the verdict, of every row and sentence of a page that has one."""
    for table in tables_of(path):
        for row in table.rows:
            judged = [
                (k, cell) for k, cell in enumerate(row) if re.search(r"(^|[^\w])(met|\*\*missed\*\*)([^\w]|$)", cell)
            ]
            for k, cell in judged:
                goal = _at(row, table.header.index("target")) if "target" in table.header else table.header[k]
                what = "; ".join(c for c in row[: min(k, 3)] if c)
                for verdict in re.findall(r"met|\*\*missed\*\*", cell):
                    yield f"{table.heading}: {what}", goal, verdict
    for line in path.read_text(encoding="utf-8").split("\n"):
        if line.startswith("|"):
            continue
        for sentence in re.split(r"(?<=[.;])\s", line):
            for verdict in re.findall(r"(?<![\w-])(?:met|\*\*missed\*\*)(?![\w-])", sentence):
                yield sentence.strip("- ").replace(MISSED, "missed"), "", verdict


def further_targets(path: Path) -> Iterator[tuple[str, str, str]]:
    """Targets of pages that print their numbers without a verdict."""
    text = path.read_text(encoding="utf-8")
    if path.stem == "fuzz":
        for count in re.findall(r"Cases that ended otherwise: (\d+)\.$", text, re.MULTILINE):
            yield f"hostile inputs that end neither with a result nor a refusal: {count}", "0", _verdict(count == "0")
    elif path.stem == "rig_seeds":
        for table in tables_of(path):
            for row in table.rows if "complete" in table.header else ():
                done, runs = row[table.header.index("complete")].split("/")
                yield f"{row[0]}: {done} of {runs} runs complete", "all", _verdict(done == runs)


def _verdict(met: bool) -> str:
    return "met" if met else MISSED


def version_of(peer: str) -> str:
    for package in PACKAGES:
        if package.lower() in peer.lower():
            try:
                return version(package)
            except PackageNotFoundError:
                return "as of the page"
    return ""


def pages() -> list[Path]:
    return sorted(p for p in RESULTS.glob("*.md") if p.stem not in ("index", "table"))


Series = dict[str, tuple[list[float], list[float]]]
"""Curves of a picture by their names: sizes and seconds."""


def growing() -> dict[str, Series]:
    """What the pages say about growth, by what grows."""
    found: dict[str, Series] = {}

    def add(over: str, label: str, rows: Iterable[tuple[str, ...]], size: int, seconds: int) -> None:
        numbers = [(float(r[size]), float(r[seconds])) for r in rows if r[seconds] not in ("", "not run")]
        if numbers:
            found.setdefault(over, {})[label] = ([n for n, _ in numbers], [t for _, t in numbers])

    def each(table: Table, over: str, name: int, size: int, seconds: int) -> None:
        for label in dict.fromkeys(row[name] for row in table.rows):
            add(over, label, [row for row in table.rows if row[name] == label], size, seconds)

    for page in ("orbits", "stored", "growth", "scaling"):
        path = RESULTS / f"{page}.md"
        for table in tables_of(path) if path.is_file() else []:
            if page == "orbits" and table.header[0] == "points":
                add("samples", "find_orbits, in memory", table.rows, 0, 1)
            elif page == "stored" and table.header[0] == "job":
                each(table, "samples", 0, 1, 3)
            elif page == "growth" and table.header[0] == "joints":
                each(table, "links", 0, 1, 4)
            elif page == "growth" and table.header[0] == "job":
                each(table, "masses of a chain", 0, 1, 2)
            elif page == "scaling" and table.header[0] == "over":
                for over in dict.fromkeys(row[0] for row in table.rows):
                    own = tuple(row for row in table.rows if row[0] == over)
                    each(Table(table.heading, table.header, own), over, 1, 2, 3)
    return found


def scaling() -> str:
    """Pictures of growth, drawn from the pages that are there."""
    found = growing()
    order = ("samples", "links", "masses of a chain", "orbits", "parameters", "workers")
    figure, axes = plt.subplots(2, 3, figsize=(12, 7.2), layout="constrained")
    for axis, over in zip(axes.flat, order, strict=True):
        for label, (sizes, seconds) in found.get(over, {}).items():
            axis.loglog(sizes, seconds, "o-", ms=3, label=label)
        if over == "workers":
            axis.set_xscale("linear")
            axis.set_yscale("linear")
            axis.set_ylim(bottom=0)
        axis.set_xlabel(over)
        axis.set_ylabel("seconds")
        axis.grid(True, which="both", lw=0.3)
        axis.xaxis.set_minor_formatter(NullFormatter())
        sizes = sorted({n for own, _ in found.get(over, {}).values() for n in own})
        if sizes and sizes[-1] < 1000:
            axis.set_xticks(sizes, [f"{n:g}" for n in sizes])
        if over in found:
            axis.legend(fontsize=7)
    figure.savefig(RESULTS / "table_scaling.png", dpi=110)
    plt.close(figure)
    return f"![times over {', '.join(order)}](table_scaling.png)"


REASONS = {
    "pandas.read_csv": "the same parser without checks: cannot be below 1",
}
"""Peers that do less than the job, so that a ratio below 1 is expected."""


def claim_rows(path: Path, limit: str) -> list[tuple[str, ...]]:
    """One line per job of a page: our time and error, every peer with its time, error, ratio and verdict."""
    page, jobs = read_page(path), dict[str, list[Peer]]()
    for p in peers_of(path):
        jobs.setdefault(p.job, []).append(p)
    rows = []
    for job, peers in jobs.items():
        shown = "; ".join(
            f"{p.name} {version_of(p.name)}".strip()
            + f": {p.theirs or 'error'} ({p.ratio} ×"
            + (f", error {p.their_error}" if p.their_error not in ("", "nan", "nan %") else "")
            + (f", {p.target} {p.verdict}" if p.target else "")
            + ")"
            for p in peers
        )
        least = min(peers, key=lambda p: float(p.ratio))
        reason = "" if float(least.ratio) > 1 else REASONS.get(least.name, f"slower than {least.name}: {MISSED}")
        rows.append((
            f"[{job}]({path.stem}.md)", peers[0].ours, peers[0].our_error, shown, least.ratio, reason, limit,
            page.date[:10], page.commit,
        ))  # fmt: skip
    return rows


HEADER = ("job", "Kapitza", "error", "peers", "least ratio", "reason", "limit", "date", "commit")
NOT_MET = ("page", "what", "target", "verdict")


def _claim(row: tuple[str, ...]) -> str:
    """The claim of a line of the table without its numbers, which move from run to run."""
    return re.sub(r"[-+]?\d[\d.,]*(e[-+]?\d+)?", "#", row[0] + row[1])


def changes(rows: list[tuple[str, ...]], missed: list[tuple[str, ...]], path: Path) -> str:
    """What differs from the table before: ratios by half and more, targets that are met or missed now."""
    if not path.is_file():
        return "There is no table before this one."
    old = {table.header: table.rows for table in tables_of(path)}
    before = {row[0]: row for row in old.get(HEADER, ())}
    said = []
    for row in rows:
        known = before.get(row[0])
        if known is None:
            said += [f"- new: {row[0]}, least ratio {row[4]}"] if before else []
        elif not 2 / 3 < float(row[4]) / float(known[4]) < 3 / 2:
            said.append(f"- {row[0]}: least ratio {row[4]} ({known[4]} before)")
    said += [f"- gone: {name}" for name in before if name not in {row[0] for row in rows}]
    then, now = ({_claim(row): row for row in found} for found in (old.get(NOT_MET, ()), missed))
    said += [f"- missed now: {row[0]}: {row[1]}" for claim, row in now.items() if claim not in then]
    said += [f"- no longer missed: {row[0]}: {row[1]}" for claim, row in then.items() if claim not in now]
    return "\n".join(said) or "No claim has changed."


def main() -> str:
    rows, counted, missed = list[tuple[str, ...]](), [], list[tuple[str, ...]]()
    limits = limits_of()
    met = total = 0
    for path in pages():
        page = read_page(path)
        rows += claim_rows(path, limits.get(path.stem, ""))
        targets = [*targets_of(path), *further_targets(path)]
        good = sum(verdict == "met" for _, _, verdict in targets)
        met, total = met + good, total + len(targets)
        page_link = f"[{page.title}]({path.stem}.md)"
        if targets:
            counted.append((page_link, good, len(targets) - good, page.commit))
        # A row with two numbers may miss twice: one line.
        lines = [(page_link, what[:160], goal, MISSED) for what, goal, verdict in targets if verdict != "met"]
        missed += dict.fromkeys(lines)
    there = {path.stem for path in pages()}
    absent = [name for name in module_names("benchmarks") if name not in there and name != "table"]
    return (
        "# The one table\n\nRead from the pages of results; machine, load, seconds and conditions are there. One line "
        "per job. Ratios are the time of a peer over ours. Pages older than this table were not rerun for it: their "
        "date is in the line. Versions of the peers are those installed when this table was made. Benchmarks without "
        f"a page yet: {', '.join(absent) or 'none'}.\n\n## Beside the peers\n\n"
        + markdown_table(HEADER, rows)
        + f"\n\n## Changed since the table before\n\n{changes(rows, missed, RESULTS / 'table.md')}"
        + f"\n\n## How costs grow\n\n{scaling()}\n\n## Targets\n\n{met} of {total} targets on all pages are met.\n\n"
        + "### Not met\n\n"
        + markdown_table(NOT_MET, missed)
        + "\n\n### By page\n\n"
        + markdown_table(["page", "targets met", "targets not met", "commit"], counted)
    )
