"""Base class of methods, and what they accept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from kapitza.base.argument_checks import Anything
from kapitza.base.cures import Do, Fit, Give
from kapitza.data import FITTED, MeasuredBranch, Noise, Part, Record, StoredRecord, described
from kapitza.errors import DataError
from kapitza.orbits import OrbitSet, PeriodicOrbit

if TYPE_CHECKING:
    from kapitza.estimate.estimate import Estimate

WORDS = {
    Record: "records",
    PeriodicOrbit: "orbits",
    OrbitSet: "sets of orbits",
    MeasuredBranch: "measured branches",
}
"""Kinds of data as messages list them."""

SUITED = {
    Record: f"fit it by {Fit('shooting')} or {Give(method='auto')}",
    StoredRecord: f"fit it by {Fit('harmonic')}, part by part",
    PeriodicOrbit: "fit it by OrbitFit()",
    OrbitSet: "fit it by OrbitFit()",
    MeasuredBranch: "fit it by BranchFit()",
}
"""Kinds of data, and the method made for each."""


@dataclass(frozen=True)
class Accepts:
    """Kinds of data and sensor errors a method accepts.

    sources: kinds of data. alone: kinds of which one may be given only, without other data. unknown: errors of sensors
    that may be fitted; known: those whose known values can be undone. lost_samples: whether single samples of a record
    may be left out. by_parts: whether a recording on disk can be fitted part by part. likelihood: what profiles and
    posteriors run: the motion, the orbits, or a Gaussian; "" where there is none.
    """

    sources: tuple[type, ...]
    alone: tuple[type, ...] = ()
    unknown: tuple[str, ...] = ()
    known: tuple[str, ...] = tuple(error.name for error in FITTED)
    lost_samples: bool = False
    by_parts: bool = False
    likelihood: Literal["", "gaussian", "motion", "orbits"] = ""

    def check(self, who: str, parts: Sequence[Part]) -> None:
        """Refuse data that the method cannot work on."""
        for part in parts:
            if not isinstance(part.source, self.sources):
                listed = " and ".join(WORDS.get(kind, kind.__name__) for kind in self.sources)
                cure = next(words for kind, words in SUITED.items() if isinstance(part.source, kind))
                raise DataError(f"{who} works on {listed}, not on {described(part.source)}: {cure}.")
            if isinstance(part.source, self.alone) and len(parts) > 1:
                raise DataError(
                    f"{who} works on {described(part.source)} alone, not on {len(parts)} data: join the orbits, "
                    f"{Do('OrbitSet(tuple(orbits), angles)', 'into one set (in Python)')}."
                )


class Estimator:
    """Base class of the settings of every method.

    `accepts` states the data that it works on; `fit` answers a request.
    """

    accepts: ClassVar[Accepts]
    outputs: Mapping[str, Any] = MappingProxyType({})
    noise: Noise = None

    @property
    def name(self) -> str:
        """Name of the method in messages."""
        return type(self).__name__

    @property
    def last(self) -> Estimator:
        """Settings of the last step of a chain.

        For a single method these are the settings themselves.
        """
        return self

    def fit(self, request: Any) -> Estimate:
        """Return the estimate that answers a `Request`."""
        raise NotImplementedError

    def with_outputs(self, outputs: Mapping[str, Anything]) -> Self:
        """Return the settings with other outputs."""
        return replace(self, outputs=outputs)  # pyright: ignore[reportArgumentType, reportCallIssue]
