"""Section of a record, with delays where needed.

The channels are used as they are, or with delay coordinates where they are not a state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from kapitza.base.monitor import checkpoint
from kapitza.data import Record
from kapitza.errors import DataError
from kapitza.orbits.in_records.character import Character, describe_section
from kapitza.orbits.in_records.from_record import samples_per_period, strobe_record
from kapitza.orbits.in_records.section import Section
from kapitza.orbits.in_records.sheets import is_folded
from kapitza.orbits.in_records.turning_points import turning_section

LARGEST = 4  # coordinates of a section on which local maps still have neighbours
NEARLY = 0.1  # share unpredicted below which delay coordinates are nearly a state
SHOWN = ("deterministic", "periodic", "quasi-periodic")


@dataclass(frozen=True)
class Cut:
    """Section with its character and delay coordinates.

    delay, dimension: of the delay coordinates that were needed (dimension 1: none).
    """

    section: Section
    character: Character
    delay: int | None = None
    dimension: int = 1
    note: str = ""


@dataclass(frozen=True)
class CutSettings:
    """Settings of the section.

    Values of the user (None: from the data), the longest period requested, the tolerance of returns.
    paths: whether the channels between the crossings are kept, which orbits need and the character does not.
    """

    phase: float | None = None
    delay: int | None = None
    dimension: int | None = None
    kind: str | None = None
    noise: Any = None
    max_period: int = 8
    tolerance: float = 0.01
    paths: bool = True


def best_cut(record: Record, names: tuple[str, ...], settings: CutSettings) -> Cut:
    """Choose the section, with delays where needed.

    Where nothing deterministic shows in the channels, delays are added until neighbours agree.
    A velocity, or any other channel that is not a state by itself, looks like noise on a section; its past supplies
    the rest of the state. Delays given by the user are taken as they are.
    """
    section = make_cut(record, names, settings, settings.dimension)
    checkpoint()
    first = Cut(section, describe_section(section, settings.max_period, settings.tolerance), settings.delay)
    if settings.dimension is not None or settings.delay is not None or first.character.kind != "noise":
        return first
    found: list[Cut] = []
    # The test of neighbours does not need the noise, whose estimate takes longest.
    quick = replace(settings, noise=0.0, paths=False)
    for dimension in _dimensions(record, names):
        checkpoint()
        try:
            section = make_cut(record, names, quick, dimension)
        except DataError:
            break
        character = describe_section(section, settings.max_period, settings.tolerance)
        added = ", ".join(section.states)
        said = f"The channels are not a state by themselves: delay coordinates were added ({added})."
        if character.kind in SHOWN:
            found.append(Cut(section, character, None, dimension, said))
    if not found:
        return first
    # Fewer coordinates leave more neighbours: take the first that is nearly a state and has no folds.
    good = [cut for cut in found if not cut.character.unpredicted > NEARLY and not _is_folded(cut, record, names)]
    chosen = good[0] if good else min(found, key=lambda cut: cut.character.unpredicted)
    return replace(chosen, section=make_cut(record, names, settings, chosen.dimension))


def _is_folded(cut: Cut, record: Record, names: tuple[str, ...]) -> bool:
    delay = delay_of(cut.section, record, names)
    return delay is not None and is_folded(cut.section, record, names, delay)


def delay_of(section: Section, record: Record, names: tuple[str, ...]) -> int | None:
    """Return the delay of a dense forced section.

    The delay counts samples between the delay coordinates; None where there are none.
    """
    if record.period is None or section.dimension <= len(names) or samples_per_period(record) < 1.5:
        return None
    # Delay coordinates are named x(t+7): the number is the delay in samples.
    return int(section.states[len(names)].partition("(t+")[2][:-1])


def make_cut(record: Record, names: tuple[str, ...], settings: CutSettings, dimension: int | None) -> Section:
    """Make the section with this many delay coordinates.

    dimension None means 3 for autonomous records and 1 for forced ones.
    """
    if record.period is None:
        return turning_section(
            record, names, delay=settings.delay, dimension=3 if dimension is None else dimension, kind=settings.kind,
            noise=settings.noise, paths=settings.paths,
        )  # fmt: skip
    return strobe_record(
        record, names, phase=settings.phase, delay=settings.delay, dimension=1 if dimension is None else dimension,
        noise=settings.noise,
    )  # fmt: skip


def _dimensions(record: Record, names: tuple[str, ...]) -> Iterator[int]:
    if record.period is None:
        # The usual dimension, 3, was tried before.
        yield from (4, 5)
        return
    most = LARGEST // len(names) if samples_per_period(record) > 1.5 else min(LARGEST // len(names), 3)
    yield from range(2, most + 1)
