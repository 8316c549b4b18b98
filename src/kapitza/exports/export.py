"""Export a model or fit for another program."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kapitza.base import checks
from kapitza.base.files import replacing
from kapitza.errors import nearest_name
from kapitza.estimate import Estimate
from kapitza.exports.c_code import c_files
from kapitza.exports.fitted import with_readings, with_start
from kapitza.exports.fmu import fmu_parts, write_zip
from kapitza.exports.julia_code import julia_file
from kapitza.exports.matlab_code import matlab_file
from kapitza.exports.modelica_code import modelica_file
from kapitza.exports.names import identifier
from kapitza.exports.parameters import parameter_files
from kapitza.exports.program import ExportError, Program, program_of
from kapitza.exports.python_code import casadi_file, scipy_file
from kapitza.model import Model

KINDS = {
    ".m": "matlab",
    ".c": "c",
    ".mo": "modelica",
    ".jl": "julia",
    ".py": "scipy",
    ".fmu": "fmu",
}
"""Kind of an export by the suffix of its file; "casadi" is the other kind with .py."""


@dataclass(frozen=True)
class Exported:
    """Files that an export wrote.

    path: the file asked for; beside: a header and the parameters.

    Examples
    --------
    >>> import kapitza as kz, pathlib, tempfile
    >>> kz.export(kz.library.lorenz(), pathlib.Path(tempfile.mkdtemp()) / "lorenz.py").path.name
    'lorenz.py'
    """

    path: Path
    beside: tuple[Path, ...]


def export(
    source: Model | Estimate,
    path: str | os.PathLike[str],
    kind: str | None = None,
    fmi: str = "2.0",
    inputs: Sequence[str] = (),
) -> Exported:
    """Write a model as a file for another program.

    Of a fit, the model at its estimates is written.

    Switches, friction that sticks, impacts and measured drives are kept as events. Maps, delays and (while running)
    impacts that die out are refused. Angles are not wrapped.

    Parameters
    ----------
    source : Model or Estimate
        Of a fit the parameters are written with their covariance, the fitted start, and what its sensors read as
        outputs (`phi_sensor` where the channel has the name of a state).
    path : path
        The suffix decides: .m (MATLAB and Octave), .c (C99, with a header), .mo (Modelica), .jl (Julia), .py (NumPy
        and SciPy), .fmu (a unit for model exchange and co-simulation; needs a C compiler). Beside it, NAME.parameters
        .json and .csv.
    kind : str, optional
        "casadi" for a .py file of CasADi functions; otherwise what the suffix says.
    fmi : str
        Version of FMI of a unit: "2.0" or "3.0".
    inputs : names
        Of a unit: parameters that become inputs, which a master changes while the unit runs (a force, a control).

    Returns
    -------
    Exported
        The files written.

    Examples
    --------
    >>> import kapitza as kz, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> written = kz.export(kz.library.duffing(), folder / "rig.c")
    >>> [p.name for p in (written.path, *written.beside)]
    ['rig.c', 'rig.h', 'rig.parameters.json', 'rig.parameters.csv']
    """
    path = Path(path)
    fit = source if isinstance(source, Estimate) else None
    model = source if isinstance(source, Model) else source.model
    if not isinstance(model, Model):
        raise ExportError(f"{checks.shown(source)} has no model to export; give a Model or a fit of one.")
    chosen = _kind(path, kind)
    stem = _stem(path, chosen)
    model, channels = (model, {}) if fit is None else with_readings(fit)
    program = program_of(model)
    if fit is not None:
        program = with_start(program, fit, channels)
    _check_inputs(program, chosen, inputs)
    parameters = {f".parameters{suffix}": text for suffix, text in parameter_files(program, fit).items()}
    if chosen == "fmu":
        parts = fmu_parts(program, stem, fmi, {f"parameters{s[11:]}": t for s, t in parameters.items()}, inputs)
        with replacing(path) as draft:
            write_zip(parts, draft)
        texts = parameters
    else:
        main, texts = _texts(program, stem, chosen)
        with replacing(path) as draft:
            draft.write_text(main, encoding="utf-8", newline="\n")
        texts |= parameters
    beside = tuple(path.with_name(path.stem + suffix) for suffix in texts)
    for place, text in zip(beside, texts.values(), strict=True):
        with replacing(place) as draft:
            draft.write_text(text, encoding="utf-8", newline="\n")
    return Exported(path, beside)


def _check_inputs(program: Program, kind: str, inputs: Sequence[str]) -> None:
    if inputs and kind != "fmu":
        raise ExportError(f"Inputs are for units (.fmu); parameters of a {kind} file are arguments of its functions.")
    known = [q.name for q in program.parameters]
    for name in checks.texts("inputs", inputs, error=ExportError):
        if name not in known:
            raise ExportError(
                f'"{checks.printable(name)}" is not a parameter of the model.{nearest_name(name, known)} '
                f"There are: {', '.join(known)}."
            )


def _texts(program: Program, stem: str, kind: str) -> tuple[str, dict[str, str]]:
    """Return the file's text and those beside it.

    The texts beside it are keyed by suffix.
    """
    if kind == "c":
        texts = c_files(program, stem)
        return texts.pop(".c"), texts
    if kind in ("scipy", "casadi"):
        return (scipy_file if kind == "scipy" else casadi_file)(program), {}
    return {"matlab": matlab_file, "modelica": modelica_file, "julia": julia_file}[kind](program, stem), {}


def _kind(path: Path, kind: str | None) -> str:
    suffix = path.suffix.lower()
    if suffix not in KINDS:
        shown = checks.printable(path.name)
        raise ExportError(
            f'"{shown}" has no known suffix; choose one of {", ".join(KINDS)}.{nearest_name(suffix, KINDS)}'
        )
    if kind is None:
        return KINDS[suffix]
    allowed = ("scipy", "casadi") if suffix == ".py" else (KINDS[suffix],)
    if kind not in allowed:
        raise ExportError(f'A {suffix} file is of kind {" or ".join(allowed)}, not "{checks.printable(kind)}".')
    return kind


def _stem(path: Path, kind: str) -> str:
    """Return the exported function's or model's name.

    That of the file, which must be an identifier in these languages.
    """
    stem = identifier(path.stem)
    if kind in ("matlab", "c") and stem != path.stem:
        raise ExportError(
            f'The name of the file is that of the function, and "{checks.printable(path.stem)}" is not an identifier; '
            f'try "{stem}{path.suffix}".'
        )
    return stem
