"""Search for periodic orbits of models and in records.

`find_orbits` is the one verb for both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from inspect import signature
from typing import overload

from kapitza.base.argument_checks import Anything
from kapitza.base.monitor import Monitor
from kapitza.data import Record, StoredRecord, one_record
from kapitza.errors import refuse_unknown
from kapitza.model import Model
from kapitza.orbits import OrbitSet
from kapitza.orbits.in_records import ReturnSearch, SectionSearch, find_orbits_in_parts, find_orbits_in_record
from kapitza.orbits.of_models import find_orbits_of_model


@overload
def find_orbits(
    source: Model,
    max_period: int = 6,
    *,
    region: Mapping[str, tuple[float, float]] | None = None,
    starts: int = 2048,
    rounds: int = 8,
    seed: int = 0,
    min_period: int = 1,
    section: str | None = None,
    executor: Executor | None = None,
    monitor: Monitor | None = None,
    details: bool = True,
) -> OrbitSet: ...
@overload
def find_orbits(
    source: Anything,
    max_period: int = 6,
    *,
    channels: Sequence[str] | None = None,
    method: SectionSearch | ReturnSearch | None = None,
    phase: float | None = None,
    delay: int | None = None,
    dimension: int | None = None,
    kind: str | None = None,
    noise: Anything = None,
    controlled: bool | str | None = None,
    monitor: Monitor | None = None,
    **search: Anything,
) -> OrbitSet: ...
def find_orbits(source: Anything, max_period: int = 6, **settings: Anything) -> OrbitSet:
    """Find periodic orbits of a model or record.

    It finds all of a model in a region, or all that a record visited.

    Parameters
    ----------
    source : Model, Record or StoredRecord
        A model is searched by a census, Newton iterations from many starts; a record by close returns and local maps;
        one on disk (`open_record`) part by part, `part` points of the section at a time.
    max_period : int
        Longest period: in excitation periods or steps of a map; for autonomous models and records in crossings of a
        section.
    settings
        Of a census: region, starts, rounds, seed, min_period, section, details, executor, monitor; see
        `kapitza.orbits.of_models.find_orbits_of_model`. Of a search in a record: channels, method, phase, delay,
        dimension, kind, noise, monitor and the fields of `SectionSearch`; see
        `kapitza.orbits.in_records.find_orbits_in_record`.

    Returns
    -------
    OrbitSet
        In the order of their period, with what was refused and why.

    Examples
    --------
    >>> import kapitza as kz
    >>> model = kz.Model.from_map({"x": "1 - a*x**2"}, parameters={"a": 1.99})
    >>> orbits = kz.find_orbits(model, max_period=3, region={"x": (-2, 2)}, starts=256)
    >>> [orbit.repeats for orbit in orbits]
    [1, 1, 2, 3, 3]
    """
    if not isinstance(source, Model):
        record = one_record(source, "find_orbits", Record, StoredRecord)
        if isinstance(record, StoredRecord):
            return find_orbits_in_parts(record, max_period, **settings)
        return find_orbits_in_record(record, max_period, **settings)
    known = [name for name in signature(find_orbits_of_model).parameters if name not in ("model", "max_period")]
    refuse_unknown("find_orbits of a model", settings, known)
    return find_orbits_of_model(source, max_period, **settings)
