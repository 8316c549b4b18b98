"""Runs the modules of `reproductions` or `benchmarks` and keeps what they print.

Each module has `main() -> str`, which returns Markdown. The runner prints it and writes docs/results/NAME.md with the
command, the commit and the date above it; docs/results/index.md lists all pages in one table.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import os
import pkgutil
import platform
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from harness.table import markdown_table
from harness.timing import load
from kapitza.base.files import replacing

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"
MISSED = "**missed**"


@dataclass(frozen=True)
class Page:
    """One page of results, as its header states it."""

    name: str
    title: str
    command: str
    commit: str
    date: str
    seconds: str
    missed: int


def module_names(package: str) -> list[str]:
    """Public modules of a package of scripts, sorted."""
    folder = ROOT / package
    return sorted(m.name for m in pkgutil.iter_modules([str(folder)]) if not m.name.startswith("_"))


def commit_name() -> str:
    """Short hash of the commit, marked when the source differs from it."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "src", "harness", *SCRIPT_FOLDERS)
        return git("rev-parse", "--short", "HEAD") + (" with changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


SCRIPT_FOLDERS = ("reproductions", "benchmarks")


def page_text(package: str, name: str, body: str, seconds: float, before: str = "") -> str:
    title = " ".join(name.split("_")).capitalize()
    heading = re.match(r"#\s+(.+)\n+", body)
    if heading:
        title, body = heading.group(1), body[heading.end() :]
    date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    facts = [
        ("command", f"`python -m {package} {name}`"),
        ("commit", commit_name()),
        ("date", date),
        ("machine", machine),
        ("seconds", f"{seconds:.1f}"),
        ("load", f"{before or load()} at the start, {load()} at the end"),
    ]
    return f"# {title}\n\n" + "\n".join(f"- {key}: {value}" for key, value in facts) + f"\n\n{body.strip()}\n"


def write_atomically(path: Path, text: str) -> None:
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8")


def read_page(path: Path) -> Page:
    text = path.read_text(encoding="utf-8")
    facts = dict(re.findall(r"^- (command|commit|date|seconds): (.*)$", text, re.MULTILINE))
    title = text.partition("\n")[0].lstrip("# ").strip()
    return Page(
        path.stem,
        title,
        facts.get("command", ""),
        facts.get("commit", ""),
        facts.get("date", ""),
        facts.get("seconds", ""),
        text.count(MISSED),
    )


def write_index(folder: Path = RESULTS) -> None:
    """One table over all pages: what was run, when, from which commit, and how many targets were missed."""
    pages = [read_page(path) for path in sorted(folder.glob("*.md")) if path.stem != "index"]
    table = markdown_table(
        ["page", "command", "commit", "date", "seconds", "targets missed"],
        [(f"[{p.title}]({p.name}.md)", p.command, p.commit, p.date, p.seconds, p.missed) for p in pages],
    )
    text = (
        "# Results\n\nEvery page was written by the command it names: `make reproduce` for tables and figures of the "
        "source documents, `make bench` for times against peers. A target that was not reached is printed as missed."
        f"\n\n{table}\n"
    )
    write_atomically(folder / "index.md", text)


def run_one(package: str, name: str, folder: Path = RESULTS, write: bool = True) -> None:
    """Run one script here, print its page and keep it."""
    begin, before = time.perf_counter(), load()
    body = importlib.import_module(f"{package}.{name}").main()
    text = page_text(package, name, body, time.perf_counter() - begin, before)
    print(text, flush=True)
    if write:
        write_atomically(folder / f"{name}.md", text)
        write_index(folder)


def run_each(package: str, names: list[str], write: bool = True) -> int:
    """Run several scripts, each in a process of its own: a failure stops only itself, and peak memory is its own."""
    failed = []
    for name in names:
        print(f"\n=== python -m {package} {name}", flush=True)
        command = [sys.executable, "-m", package, name] + ([] if write else ["--no-write"])
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            failed.append(name)
    print(f"\n{len(names) - len(failed)} of {len(names)} scripts ran.")
    if failed:
        print(f"Failed: {', '.join(failed)} (a missing peer? `make bench` installs them).", file=sys.stderr)
    return 1 if failed else 0


def run(package: str, arguments: list[str] | None = None) -> int:
    """Entry of `python -m reproductions` and `python -m benchmarks`: all modules, or those named."""
    known = module_names(package)
    parser = argparse.ArgumentParser(prog=f"python -m {package}", description=importlib.import_module(package).__doc__)
    parser.add_argument("names", nargs="*", help="scripts to run (default: all): " + ", ".join(known))
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("--no-write", action="store_true", help="print only, leave docs/results as it is")
    options = parser.parse_args(arguments)
    if options.list:
        print("\n".join(known))
        return 0
    unknown = [name for name in options.names if name not in known]
    if unknown:
        scripts = ", ".join(known) or "none yet"
        print(f"No script {', '.join(unknown)} in {package}; it has: {scripts}.", file=sys.stderr)
        return 2
    if len(options.names) == 1:
        run_one(package, options.names[0], write=not options.no_write)
        return 0
    return run_each(package, options.names or known, write=not options.no_write)
