"""Hold a study that is ready to run.

It has recordings, candidate models and what to find, all checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from kapitza.base.argument_checks import Anything
from kapitza.base.cures import in_study
from kapitza.base.monitor import Monitor
from kapitza.base.workers import Executor
from kapitza.study.candidates import Candidate
from kapitza.study.next_run import NextRun
from kapitza.study.recordings import Recording

if TYPE_CHECKING:
    from kapitza.data import Part
    from kapitza.estimate import Sensor
    from kapitza.study.result import StudyResult


@dataclass(frozen=True, eq=False)
class Study:
    """What `read_study` gives.

    content: the file as plain tables; text: the file as it was. methods: names of [fit] method. settings: by method.
    folder: where the results go; report: whether an HTML page is among them. path, title, seed: of the study;
    candidates: its models; recordings: its data. hold_back: share of each recording that is not fitted; max_period: of
    orbits looked for; level: of the intervals; profiles: whether the likelihood of every parameter is drawn; next_run:
    what [plan] asks, None without that section. exclude: orbits that are not fitted, see `orbit_labels`.

    Examples
    --------
    >>> import numpy as np, kapitza as kz, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> motion = kz.simulate(kz.library.lorenz(), x0=[1, 1, 20], t=np.arange(300) * 0.01)
    >>> _ = kz.write(kz.measure(motion, noise=0.1, seed=1), folder / "run.csv")
    >>> text = '[model]\\nlibrary = "lorenz"\\n[data]\\nfile = "run.csv"\\n[fit]\\nfree = ["rho"]\\nmethod = "shooting"'
    >>> _ = (folder / "rig.toml").write_text(text)
    >>> study = kz.read_study(folder / "rig.toml")
    >>> study.methods, study.settings["shooting"] is not None
    (('shooting',), True)
    """

    path: Path
    text: str = field(repr=False)
    content: Mapping[str, Anything] = field(repr=False)
    title: str
    seed: int
    candidates: tuple[Candidate, ...]
    recordings: tuple[Recording, ...]
    methods: tuple[str, ...]
    settings: Mapping[str, Mapping[str, Anything]]
    hold_back: float
    max_period: int
    level: float
    folder: Path
    report: bool
    profiles: bool = False
    next_run: NextRun | None = None
    exclude: tuple[str, ...] = ()

    @property
    def fitted(self) -> tuple[Recording, ...]:
        """The recordings that are fitted."""
        return tuple(recording for recording in self.recordings if recording.use == "fit")

    @property
    def checks(self) -> tuple[Recording, ...]:
        """The recordings that only check the prediction."""
        return tuple(recording for recording in self.recordings if recording.use == "check")

    def parts(self, candidate: Candidate) -> tuple[Part, ...]:
        """Return the fitted part of each recording.

        They are in the units of a candidate, with the values that it brings.
        """
        from kapitza.study.running import fitted_part

        return tuple(fitted_part(self, recording, candidate) for recording in self.fitted)

    def warnings(self) -> tuple[str, ...]:
        """Return what looks wrong without being refused.

        Each comes with the value that fits or what to look at.
        Numbers that look like degrees, milliseconds or another unit; sums of unlike quantities in the equations; a
        drive whose frequency or start the recording contradicts.
        """
        return self._warnings

    @cached_property
    def _warnings(self) -> tuple[str, ...]:
        # Computed once: the clock alone takes some thirty fits, and both the check and the results show them.
        from kapitza.study.plausibility import study_warnings

        return tuple(in_study(text) for text in study_warnings(self))

    @property
    def outputs(self) -> dict[str, str | Sensor]:
        """Return outputs of channels, of all recordings.

        They belong to channels that are not states or have errors.
        """
        return {channel: output for recording in self.recordings for channel, output in recording.outputs.items()}

    def run(
        self, monitor: Monitor | None = None, resume: bool = False, executor: Executor | None = None
    ) -> StudyResult:
        """Fit every candidate and write the results.

        Every method is used, and the candidates are compared.
        monitor: shown the progress, and may cancel. resume: take over the steps
        that an interrupted run of the same study, data and version has finished.
        executor: anything with `submit`, as in `ensemble`; its workers share the fits, with the same answer.
        """
        from kapitza.study.running import run_study

        return run_study(self, monitor, resume, executor)

    def __str__(self) -> str:
        lines = [self.title]
        for recording in self.recordings:
            lines.append(f"  {recording.use}: {recording.name}: {recording.record}")
        for candidate in self.candidates:
            lines.append(f"  model {candidate.name}: {', '.join(candidate.free)} of {candidate.model.name}")
        lines.append(f"  method: {', '.join(self.methods)}; results in {self.folder.name}")
        return "\n".join(lines)
