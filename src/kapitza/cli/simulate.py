"""Implement `kapitza simulate`.

It writes a recording of a model to a file.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from kapitza.base.suffixes import WRITABLE
from kapitza.cli.console import answers, examples, show_error
from kapitza.cli.models import named_model
from kapitza.errors import KapitzaError, ModelError, Status, nearest_name

if TYPE_CHECKING:
    import numpy as np

    from kapitza.model import Model

MOST_SAMPLES = 200_000_000
"""Samples of one simulation; more do not fit into the memory of most computers."""

STOPPED = 130
"""Exit code after Ctrl-C, also when what was there has been written."""

MOST_AT_ONCE_TEXT, MOST_AT_ONCE = 500_000, 5_000_000
"""Numbers that are written in about a second, as text and in binary (1.7 µs and at most 0.2 µs each): after Ctrl-C a
longer record is not waited for."""

EXAMPLES = examples(
    "kapitza simulate parametric_pendulum --periods 50000 --out section.parquet",
    "kapitza simulate duffing --periods 200 --samples-per-period 100 --set k=0.08 --out duffing.csv",
    "kapitza simulate lorenz --duration 50 --interval 0.01 --noise 0.1 --seed 1 --out lorenz.mat",
    "kapitza simulate my_rig.toml --periods 1000 --start x=0.1 --out run.h5",
)


def simulate_command(
    model: Annotated[str, typer.Argument(help="Name from `kapitza models`, or a .toml file of your own.")],
    out: Annotated[Path, typer.Option(help=f"File to write: {' '.join(WRITABLE)}")],
    periods: Annotated[int | None, typer.Option(help="Excitation periods (steps of a map) to simulate.")] = None,
    samples_per_period: Annotated[int, typer.Option(help="Samples per excitation period; 1 strobes.")] = 1,
    duration: Annotated[float | None, typer.Option(help="Time to simulate [s], instead of --periods.")] = None,
    interval: Annotated[float, typer.Option(help="Sampling interval [s] with --duration.")] = 0.01,
    set_: Annotated[list[str] | None, typer.Option("--set", help="Parameter value, NAME=VALUE; repeatable.")] = None,
    start: Annotated[list[str] | None, typer.Option(help="Initial state, NAME=VALUE; repeatable.")] = None,
    noise: Annotated[float, typer.Option(help="Standard deviation of Gaussian noise, in units of each channel.")] = 0.0,
    seed: Annotated[int | None, typer.Option(help="Seed of the noise, to repeat it exactly.")] = None,
) -> None:
    """Simulate a model and write the recording.

    The suffix of the file decides its format.
    """
    from kapitza.base import checks
    from kapitza.data import measure, write
    from kapitza.flow import simulate

    seed = checks.seed(seed)
    chosen = named_model(model).with_values(**assignments(set_, "--set"))
    begin = time.perf_counter()
    x0 = initial_state(chosen, assignments(start, "--start"))
    if duration is not None:
        if periods is not None:
            raise KapitzaError("Give --periods or --duration, not both.")
        record = simulate(chosen, x0, t=sample_times(duration, interval))
    elif periods is not None:
        check_count(float(periods) * samples_per_period, f"--periods {periods} of {samples_per_period} samples")
        record = simulate(chosen, x0, periods=periods, samples_per_period=samples_per_period)
    else:
        hint = "--duration 100" if chosen.period is None and not chosen.is_map else "--periods 1000"
        raise KapitzaError(f"Say how long to simulate {chosen.name}, for example {hint}.")
    stopped = record.status is Status.INTERRUPTED
    if stopped:
        require_quickly_written(record.size * len(record.channels), record.size, out)
        show_error(f"Stopped after {record.size} samples; what is there is kept.")
    record = measure(record, noise=noise, seed=seed) if noise else record
    seconds = time.perf_counter() - begin
    path = write(record, out)
    answers().print(Text(f"{record}\nsimulated in {seconds:.2f} s, written to {path}"))
    if stopped:
        raise typer.Exit(STOPPED)


simulate_command.__doc__ = (simulate_command.__doc__ or "") + EXAMPLES


def require_quickly_written(numbers: int, samples: int, out: Path) -> None:
    """Refuse to write a long stopped simulation.

    The command ends where writing would take more than about a second.
    """
    text = out.suffix.lower() in (".csv", ".tsv", ".txt")
    if numbers > (MOST_AT_ONCE_TEXT if text else MOST_AT_ONCE):
        hint = "; .npz or .parquet instead of text keep more" if text else ""
        show_error(f"Stopped after {samples} samples, which take too long to write: nothing is kept{hint}.")
        raise typer.Exit(STOPPED)


def assignments(pairs: Sequence[str] | None, option: str) -> dict[str, float]:
    """'m=0.09' as {"m": 0.09}."""
    values = {}
    for pair in pairs or ():
        name, equals, text = pair.partition("=")
        try:
            values[name.strip()] = float(text)
        except ValueError:
            equals = ""
        if not equals or not name.strip():
            raise KapitzaError(f'{option} takes NAME=VALUE with a number, such as {option} m=0.09, not "{pair}".')
    return values


def initial_state(model: Model, given: dict[str, float]) -> np.ndarray | None:
    """Return the model's start with given states.

    None when nothing was given.
    """
    import numpy as np

    if not given:
        return None
    for name in given:
        if name not in model.states:
            hint = nearest_name(name, model.states)
            raise ModelError(f'{model.name} has no state "{name}"; it has {", ".join(model.states)}.{hint}')
    return np.array([given.get(name, model.start.get(name, 0.0)) for name in model.states])


def sample_times(duration: float, interval: float) -> np.ndarray:
    import numpy as np

    if not (np.isfinite(duration) and duration > 0 and np.isfinite(interval) and 0 < interval <= duration):
        raise KapitzaError(f"--duration {duration} and --interval {interval}: both positive, the interval the shorter.")
    check_count(duration / interval, f"--duration {duration} with --interval {interval}")
    return interval * np.arange(int(np.floor(duration / interval * (1 + 1e-12))) + 1)


def check_count(samples: float, asked: str) -> None:
    if samples > MOST_SAMPLES:
        raise KapitzaError(f"{asked} makes {samples:.3g} samples; at most {MOST_SAMPLES} are simulated at once.")
