"""Random damage to the tapes of random models: each is refused or runs, and none crashes. Usage: COUNT SEED."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from flow.hybrids import hybrid
from kapitza.flow.core import Core
from kapitza.flow.events import EventEngine
from kapitza.flow.events.settle import Regime
from kapitza.flow.kernel.library import CheckedTape, CRun, Space, address, library
from kapitza.flow.kernel.tape import NoTapeError, Tape, write_tape

PARTS = ("term_nodes", "term_scales", "outputs", "sizes", "literals", "term_factors")


SPACE = Space()
"""Kept from tape to tape, of other sizes each."""


def tapes() -> list[Tape]:
    found = []
    for seed in (0, 3, 7, 41):
        model = hybrid(seed).model()
        engine = Core(model, tuple(model.names[:2]), 1e-15, 1000).engine(model.vector)
        assert isinstance(engine, EventEngine)
        found.append(write_tape(engine.geometry, Regime(), (), True))
        for i, switch in enumerate(engine.system.switches):
            # A surface whose rate does not jump has no regime in which it holds.
            if not switch.continuous:
                with contextlib.suppress(NoTapeError):
                    found.append(write_tape(engine.geometry, Regime((i,)), (), True))
    return found


def damaged(tape: Tape, rng: np.random.Generator) -> Tape:
    """The tape with one to three numbers replaced."""
    changed = {}
    for _ in range(int(rng.integers(1, 4))):
        name = str(
            rng.choice(
                ["code", "code", "code", "term_nodes", "term_scales", "outputs", "sizes", "literals", "term_factors"]
            )
        )
        values = changed.get(name, getattr(tape, name)).copy()
        if values.size:
            at = int(rng.integers(values.size))
            if values.dtype == np.int32:
                choices = [values.flat[at] + rng.integers(-3, 4), rng.integers(-5, 400), rng.integers(-(2**31), 2**31)]
                values.flat[at] = np.int64(choices[int(rng.integers(3))]).astype(np.int32)
            else:
                values.flat[at] = rng.choice([np.nan, np.inf, 1e308, -1e-308, rng.normal()])
        changed[name] = values
    return replace(tape, **changed)


def run_briefly(checked: CheckedTape, tape: Tape, rng: np.random.Generator) -> None:
    states, runtime, switches = int(tape.sizes[3]), int(tape.sizes[4]), int(tape.sizes[5])
    columns = states + 1
    x, tangents = rng.normal(size=states), np.eye(states, columns)
    values = np.concatenate((rng.normal(size=runtime - switches), np.ones(switches)))
    wrt, table = np.zeros(1, np.int32), np.full((1, max(switches, 1)), -1, np.int32)
    times, marks, noted = np.empty(4), np.empty((4, 3), np.int32), np.empty((4, 2, states))
    grid = np.linspace(0.0, 2.0, 5)
    samples, sampled, rates = np.empty((5, states)), np.empty((5, states, columns)), np.empty((5, states))
    run = CRun(
        t=0.0, t1=2.0, tolerance=1e-15, contact_speed=1e-6, x=address(x), V=address(tangents), runtime=address(values),
        grid=address(grid), grid_x=address(samples), grid_V=address(sampled), grid_rates=address(rates),
        event_times=address(times), event_states=address(noted), event_marks=address(marks), wrt=address(wrt),
        next_regime=address(table), grid_count=5, event_room=4, max_steps=50, max_events=50, columns=columns,
        max_at_once=8, fresh=int(rng.integers(2)),
    )  # fmt: skip
    handles = (ctypes.c_void_p * 1)(checked.handle)
    library().kz_travel(handles, 1, ctypes.byref(run), SPACE.handle)


def main() -> None:
    count, seed = map(int, sys.argv[1:3])
    rng = np.random.default_rng(seed)
    known, refused, done = tapes(), 0, 0
    for _ in range(count):
        tape = damaged(known[int(rng.integers(len(known)))], rng)
        try:
            checked = CheckedTape(tape)
        except (ValueError, MemoryError):
            refused += 1
            continue
        run_briefly(checked, tape, rng)
        done += 1
    print(refused, done)


if __name__ == "__main__":
    main()
