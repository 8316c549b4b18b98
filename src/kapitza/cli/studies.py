"""Implement the commands on studies.

These are new, check, identify, compare, report and schema.
"""

from __future__ import annotations

import json
import math
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from kapitza.base.cures import in_study, marked
from kapitza.base.monitor import Silent
from kapitza.base.suffixes import SUFFIXES
from kapitza.cli.console import (
    MISSES,
    GroupOption,
    UnitOption,
    answers,
    channel_table,
    console,
    examples,
    pairs_given,
    show_error,
    show_json,
    table,
    units_given,
)
from kapitza.cli.workers import Scheduler, Workers, chosen_workers
from kapitza.errors import KapitzaError

if TYPE_CHECKING:
    from kapitza.base.workers import Executor
    from kapitza.study import StudyResult

StudyArgument = Annotated[Path, typer.Argument(help="Study file (.toml); `kapitza new` writes one.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, and of the answer only the sentence.")]
AsJson = Annotated[bool, typer.Option("--json", help="The answer as JSON on standard output.")]
Replace = Annotated[
    bool, typer.Option("--replace", help="Run again, and replace older results instead of keeping a copy of them.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on after the steps that an interrupted run has finished.")]


def new_command(
    recording: Annotated[Path, typer.Argument(help=f"Recording: {' '.join(SUFFIXES)}")],
    out: Annotated[Path | None, typer.Option(help="Study to write; by default the recording's name with .toml")] = None,
    model: Annotated[str | None, typer.Option(help="A model from `kapitza models`, or a .toml file.")] = None,
    time_column: Annotated[str | None, typer.Option("--time", help="Name or position of the time column.")] = None,
    interval: Annotated[float | None, typer.Option(help="Sampling interval [s] of a file without times.")] = None,
    equation: Annotated[
        list[str] | None, typer.Option(help="Equation of motion, `\"m*x'' + c*x' + k*x = F\"`; repeatable.")
    ] = None,
    unit: UnitOption = None,
    group: GroupOption = None,
    drive: Annotated[
        list[str] | None,
        typer.Option(
            help='Channel that drives the motion, `F` or `"Load Cell=F"` with its name in the equations; repeatable. '
            "By default names and units tell; `--drive none`."
        ),
    ] = None,
    channel: Annotated[
        list[str] | None, typer.Option(help='Coordinate that a channel measures, `"Angle 1=phi"`; repeatable.')
    ] = None,
    angle: Annotated[list[str] | None, typer.Option(help="Channel that is an angle; repeatable.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a study that is there.")] = False,
) -> None:
    """Write a commented study for a recording.

    Its columns, sampling and frequency are looked at.
    """
    from kapitza.study import new_study_notes, write_new_study

    column = int(time_column) if time_column and time_column.isdigit() else time_column
    path = write_new_study(
        recording,
        out,
        model,
        column,
        interval,
        force,
        units_given(unit),
        group,
        named_drives(drive),
        equation or (),
        pairs_given("--channel", channel, "Angle 1=phi"),
        angle or (),
    )
    for text in new_study_notes(path):
        answers().print(Text(text))
    answers().print(Text(f"Written: {path}\nEdit it, then: kapitza check {path}; kapitza identify {path}"))


new_command.__doc__ = (new_command.__doc__ or "") + examples(
    "kapitza new run.csv",
    "kapitza new shaker.csv --drive F --equation \"m*x'' + c*x' + k*x + k3*x**3 = F\"",
    "kapitza new rig.tdms --group Fast --drive \"Load Cell=F\" --equation \"m*x'' + c*x' + k*x + mu*sign(x') = F\"",
    "kapitza new run.csv --model duffing --out duffing.toml",
    "kapitza new v.csv --interval 0.001",
)


def named_drives(given: list[str] | None) -> list[str] | dict[str, str] | None:
    """Return the drives of --drive with their names.

    The result is [] for "none", None without the option.
    """
    if not given:
        return None
    if not any("=" in name for name in given):
        return [name for name in given if name != "none"]
    parted = [name.rpartition("=") if "=" in name else (name, "", name) for name in given]
    return {column.strip(): name.strip() for column, _, name in parted}


def check_command(study: StudyArgument, as_json: AsJson = False) -> None:
    """Check a study without running it.

    All problems are listed at once, each with its line and what to change.
    """
    from kapitza.study import StudyError, read_study

    try:
        found = read_study(study)
    except StudyError as error:
        if as_json:
            problems = [
                {"line": p.line, "place": p.place, "message": p.message, "cures": [cure.in_study for cure in p.cures]}
                for p in error.problems
            ]
            show_json({"ok": False, "problems": problems})
        else:
            show_error(marked(error))
        raise typer.Exit(1) from None
    if as_json:
        show_json({"ok": True, "problems": [], "warnings": list(found.warnings())})
        return
    for text in found.warnings():
        answers().print(Text(f"Warning: {text}", style="yellow"))
    answers().print(Text(str(found)))
    for recording in found.recordings:
        answers().print(channel_table(recording.record))
    for free in dict.fromkeys(candidate.free for candidate in found.candidates):
        answers().print(Text(f"To find: {', '.join(free)}"))
    answers().print(Text(f"No problems. Run it: kapitza identify {study}"))


check_command.__doc__ = (check_command.__doc__ or "") + examples(
    "kapitza check run.toml", "kapitza check run.toml --json"
)


def identify_command(
    study: StudyArgument,
    resume: Resume = False,
    replace: Replace = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    workers: Workers = None,
    scheduler: Scheduler = None,
) -> None:
    """Find the parameters of a study.

    The results folder is written with a report.
    A study that was run already and has not changed shows the results that are there. After a change it is run again,
    and the older results are kept beside the new ones (run-results-1, ...) unless --replace is given.
    """
    with chosen_workers(workers, scheduler) as executor:
        result = run(study, resume, replace, quiet or as_json, executor)
    show(result, quiet, as_json)
    end(result)


identify_command.__doc__ = (identify_command.__doc__ or "") + examples(
    "kapitza identify run.toml",
    "kapitza identify run.toml --replace",
    "kapitza identify run.toml --resume",
    "kapitza identify run.toml --workers 4",
    "kapitza identify run.toml --scheduler tcp://10.0.0.1:8786",
    "kapitza identify run.toml --json",
)


def compare_command(
    study: StudyArgument,
    resume: Resume = False,
    replace: Replace = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    workers: Workers = None,
    scheduler: Scheduler = None,
) -> None:
    """Compare the candidate models of a study.

    The table has AIC, BIC, weights and the error on held-back data; a sentence sums it up.
    """
    require_several(study)
    with chosen_workers(workers, scheduler) as executor:
        result = run(study, resume, replace, quiet or as_json, executor)
    comparison = result.comparison()
    if not as_json and len(comparison):
        answers().print(comparison_table(result))
    show(result, quiet, as_json)
    if not len(comparison):
        if not as_json:
            show_error("Fewer than two candidates ended with a likelihood on the same samples: nothing to compare.")
        raise typer.Exit(1)
    end(result)


compare_command.__doc__ = (compare_command.__doc__ or "") + examples("kapitza compare friction.toml")


def require_several(path: Path) -> None:
    from kapitza.study import read_study

    if len(read_study(path).candidates) < 2:
        raise KapitzaError(f"{path.name} has one model: add candidates, each under [[model]] with a name of its own.")


def run(path: Path, resume: bool, replace: bool, quiet: bool, executor: Executor | None = None) -> StudyResult:
    """Run a study under a progress bar.

    Ctrl-C keeps the steps that are done.
    Results of the same study, data and version are read instead; those of another are copied before they are replaced.
    """
    from kapitza.study import finished_before, keeping_copy, read_results, read_study

    study = read_study(path)
    before = None if replace else finished_before(study)
    notes = console(stderr=True)
    # Before the fit, and where answers are piped away too: a wrong unit spoils everything that follows.
    for text in study.warnings():
        notes.print(Text(f"Warning: {text}", style="yellow"))
    if before:
        notes.print(Text(f"{path.name} and its data have not changed since they were run: these are the results in "
                         f"{study.folder.name}. Run again: --replace"))  # fmt: skip
        return read_results(study.folder)
    try:
        with keeping_copy(study.folder) if before is False else nullcontext() as kept:
            if kept is not None:
                notes.print(Text(f"The older results are kept in {kept.name}; --replace keeps none."))
            return study.run(Silent() if quiet else None, resume, executor)
    except KeyboardInterrupt:
        show_error(f"Stopped; fits that had ended are kept. Go on: kapitza identify {path} --resume")
        raise typer.Exit(130) from None


def end(result: StudyResult) -> None:
    """Exit with the code of the result.

    It is 1 where there is no answer, 3 where the model misses the data by more than the noise.
    """
    if result.chosen is None:
        raise typer.Exit(1)
    if result.chosen.misses:
        raise typer.Exit(MISSES)


def show(result: StudyResult, quiet: bool, as_json: bool) -> None:
    """Print the answer of a study.

    One sentence, a table, what is suspicious, where the report is.
    """
    if as_json:
        from kapitza.study import as_plain

        show_json(as_plain(result) | {"folder": str(result.folder)})
        return
    page = answers()
    page.print(Text(result.sentence(), style="bold"))
    if quiet:
        if result.chosen is None:
            show_failures(result)
        return
    chosen = result.chosen
    if chosen is not None:
        for listing in parameter_tables(result):
            page.print(listing)
        for text in chosen.answer.warnings:
            page.print(Text(f"Warning: {in_study(text)}", style="yellow"))
    for text in (result.verdict(), *result.disagreements()):
        if text:
            page.print(Text(text))
    if chosen is not None and chosen.missing is not None:
        page.print(Text(str(chosen.missing)))
    show_failures(result)
    report = result.folder / "report.html"
    page.print(Text(f"Results: {result.folder}" + (f"\nReport:  {report}" if report.is_file() else ""), style="bold"))


def show_failures(result: StudyResult) -> None:
    """Print why fits did not succeed."""
    for fit in result.fits:
        if fit.failure:
            answers().print(Text(f"{fit.label}: {fit.failure}", style="yellow"))


def parameter_tables(result: StudyResult) -> list[Any]:
    """Return one table per fit.

    The answer first; the fit is named where there are several.
    """
    rows, chosen = result.table(), result.chosen
    order = sorted(result.succeeded, key=lambda fit: fit is not chosen)
    made = []
    for fit in order:
        listing = table(
            "parameter", "value", "error", "low", "high", "unit",
            right=("value", "error", "low", "high"), title=fit.label if len(order) > 1 else "",
        )  # fmt: skip
        own = rows[(rows["model"] == fit.candidate) & (rows["method"] == fit.method)]
        for row in own.itertuples(index=False):
            styles = {"value": ".6g", "error": ".2g", "low": ".6g", "high": ".6g"}
            given = [(float(str(getattr(row, name))), style) for name, style in styles.items()]
            # a parameter at its bound has no interval
            numbers = ("-" if math.isnan(value) else format(value, style) for value, style in given)
            listing.add_row(Text(str(row.parameter), style="bold"), *numbers, Text(str(row.unit)))
        made.append(listing)
    return made


def comparison_table(result: StudyResult) -> Any:
    listing = table(
        "model", "free", "AIC", "dAIC", "weight", "BIC", "held back", right=("free", "AIC", "dAIC", "weight", "BIC")
    )
    for name, row in result.comparison().iterrows():
        held = "" if row["held back"] != row["held back"] else f"{100 * row['held back']:.3g} %"
        numbers = (f"{row['AIC']:.6g}", f"{row['dAIC']:.4g}", f"{row['weight']:.3g}", f"{row['BIC']:.6g}")
        listing.add_row(Text(str(name), style="bold"), str(row["free"]), *numbers, held)
    return listing


def report_command(
    folder: Annotated[Path, typer.Argument(help="Results folder of a study, or the study itself.")],
    out: Annotated[Path | None, typer.Option(help="HTML file; by default report.html in the results folder.")] = None,
) -> None:
    """Write the report of a finished study.

    It may have a report already; another place can be given.
    """
    from kapitza.report import write_study_report
    from kapitza.study import read_results, read_study, rewriting

    begin = time.perf_counter()
    place = read_study(folder).folder if folder.suffix == ".toml" else folder
    read_results(place)  # refuses another folder before a lock is put beside it
    with nullcontext(out) if out is not None else rewriting(place, "report.html") as wanted:
        path = write_study_report(read_results(place), wanted)
    answers().print(Text(f"Report: {path} ({time.perf_counter() - begin:.1f} s)"))


report_command.__doc__ = (report_command.__doc__ or "") + examples("kapitza report run-results --out run7.html")


def schema() -> None:
    """Print the JSON schema of study files.

    Editors check with it while the user types.
    """
    from kapitza.study import json_schema

    typer.echo(json.dumps(json_schema(), indent=1))


schema.__doc__ = (schema.__doc__ or "") + examples("kapitza schema > study.schema.json")
