"""Write functional mock-up units.

A unit holds the C code behind FMI 2.0 or 3.0 with its description, compiled and zipped.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import xml.etree.ElementTree as ET
import zipfile
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from kapitza.exports.c_code import header, source
from kapitza.exports.names import comment, identifiers
from kapitza.exports.program import ExportError, Program, Quantity

VERSIONS = ("2.0", "3.0")
"""Of FMI."""

SYSTEMS = {"Linux": ("linux", ".so"), "Darwin": ("darwin", ".dylib"), "Windows": ("windows", ".dll")}
MACHINES = {"x86_64": "x86_64", "amd64": "x86_64", "arm64": "aarch64", "aarch64": "aarch64"}
OLD_FOLDERS = {"linux": "linux64", "darwin": "darwin64", "windows": "win64"}
"""Names of FMI 2.0, which knows no other processors than those of PCs."""

LONGEST_COMPILATION = 300
"""Seconds after which the compiler is stopped."""

EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date of a zip file: equal models make equal files


def fmu_parts(
    program: Program, stem: str, version: str, extra: dict[str, str], inputs: Sequence[str] = ()
) -> dict[str, bytes]:
    """Return the zip file's members by name.

    extra: texts that go into its resources; inputs: parameters that a master may change while the unit runs.
    """
    if version not in VERSIONS:
        raise ExportError(f'FMI "{version}" is not known; choose "2.0" or "3.0".')
    code = _code(program, version)
    token = hashlib.sha256(code.encode()).hexdigest()[:32]
    code = code.replace("KZ_TOKEN_TEXT", token)
    folder, suffix = _platform(version)
    parts = {
        "modelDescription.xml": _description(program, stem, version, token, inputs),
        f"binaries/{folder}/{stem}{suffix}": compiled(code),
        f"sources/{stem}.c": code.encode(),
    }
    if version == "3.0":
        parts["sources/buildDescription.xml"] = _build_description(stem)
    return parts | {f"resources/{name}": text.encode() for name, text in extra.items()}


def write_zip(parts: dict[str, bytes], draft: Path) -> None:
    """Write the members into a zip file.

    Equal members give equal bytes.
    """
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), content, zipfile.ZIP_DEFLATED)


def _code(program: Program, version: str) -> str:
    glue = files("kapitza.exports").joinpath("fmi.c").read_text(encoding="utf-8")
    return "\n".join(
        [f"#define FMI {version[0]}", '#define KZ_TOKEN "KZ_TOKEN_TEXT"', header(program), source(program, ""), glue]
    )


def compiler() -> list[str]:
    """Return the command of a C compiler.

    $CC, cc, gcc, clang, or zig where it is installed with pip.
    """
    named = os.environ.get("CC", "").split()
    for command in ([named] if named else []) + [["cc"], ["gcc"], ["clang"], ["zig", "cc"], ["python-zig", "cc"]]:
        if shutil.which(command[0]):
            return command
    raise ExportError("A unit needs a C compiler, and none was found: install gcc or clang, or set CC to one.")


def compiled(code: str) -> bytes:
    """Return the shared library of a C source."""
    command = compiler()
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder, "unit.c")
        draft.write_text(code, encoding="utf-8")
        flags = ["-std=c99", "-O2", "-shared", "-fPIC", "-ffp-contract=off", "-fvisibility=hidden"]
        call = [*command, *flags, "-o", "unit.bin", "unit.c", "-lm"]
        try:
            done = subprocess.run(
                call, cwd=folder, capture_output=True, text=True, timeout=LONGEST_COMPILATION, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as problem:
            raise ExportError(f"The compiler {command[0]} could not be run: {problem}") from problem
        if done.returncode:
            raise ExportError(f"The compiler {command[0]} refused the code: {done.stderr.strip()[:500]}")
        return Path(folder, "unit.bin").read_bytes()


def _platform(version: str) -> tuple[str, str]:
    system, machine = platform.system(), platform.machine().lower()
    if system not in SYSTEMS or machine not in MACHINES:
        raise ExportError(f"FMI has no name for {system} on {machine}.")
    name, suffix = SYSTEMS[system]
    return (f"{MACHINES[machine]}-{name}" if version == "3.0" else OLD_FOLDERS[name]), suffix


def _description(program: Program, stem: str, version: str, token: str, inputs: Sequence[str]) -> bytes:
    new = version == "3.0"
    key = "instantiationToken" if new else "guid"
    root = ET.Element("fmiModelDescription", {
        "fmiVersion": version, "modelName": comment(program.name) or stem, key: token,
        "generationTool": "kapitza", "description": comment(program.description),
    })  # fmt: skip
    if not new:
        root.set("variableNamingConvention", "flat")
        root.set("numberOfEventIndicators", str(len(program.switches) + len(program.walls)))
    # Without the call after each step a unit would not know which surfaces the motion has left.
    steps = {"needsCompletedIntegratorStep": "true"} if new else {}
    kinds = {
        "ModelExchange": {"modelIdentifier": stem, _state_key(new): "true", **steps},
        "CoSimulation": {
            "modelIdentifier": stem,
            _state_key(new): "true",
            "canHandleVariableCommunicationStepSize": "true",
        },
    }
    for kind, attributes in kinds.items():
        element = ET.SubElement(root, kind, attributes)
        if not new:
            ET.SubElement(ET.SubElement(element, "SourceFiles"), "File", {"name": f"{stem}.c"})
    log = ET.SubElement(root, "LogCategories")
    ET.SubElement(log, "Category", {"name": "logStatusError"})
    start, stop = (repr(float(t)) for t in program.span)
    ET.SubElement(root, "DefaultExperiment", {"startTime": start, "stopTime": stop})
    variables = ET.SubElement(root, "ModelVariables")
    structure = ET.SubElement(root, "ModelStructure")
    (_new_variables if new else _old_variables)(program, inputs, variables, structure)
    ET.indent(root)
    return ET.tostring(root, encoding="utf-8", xml_declaration=True)


def _state_key(new: bool) -> str:
    return "canGetAndSetFMUState" if new else "canGetAndSetFMUstate"


def variable_names(program: Program) -> dict[str, tuple[str, ...]]:
    """Return the names of a unit's variables.

    They are distinct: states, their rates, parameters, outputs.
    """
    states = identifiers(q.name for q in program.states)
    rates = tuple(f"der({name})" for name in states)
    parameters = identifiers((q.name for q in program.parameters), (*states, "time"))
    outputs = identifiers((q.name for q in program.outputs), (*states, *parameters, "time"))
    return {"states": states, "rates": rates, "parameters": parameters, "outputs": outputs}


def _text(q: Quantity) -> str:
    words = [comment(q.name), comment(q.description), f"[{comment(q.unit)}]" if q.unit else ""]
    return " ".join(t for t in words if t)


def _new_variables(program: Program, inputs: Sequence[str], variables: ET.Element, structure: ET.Element) -> None:
    names, count = variable_names(program), len(program.states)
    first = {"states": 1, "rates": 1 + count, "parameters": 1 + 2 * count}
    first["outputs"] = first["parameters"] + len(program.parameters)
    independent = {"causality": "independent", "variability": "continuous"}
    ET.SubElement(variables, "Float64", {"name": "time", "valueReference": "0", **independent})
    for i, (name, q) in enumerate(zip(names["states"], program.states, strict=True)):
        _float(
            variables, name, 1 + i, q, causality="local", variability="continuous", initial="exact", start=repr(q.value)
        )
    for i, (name, q) in enumerate(zip(names["rates"], program.states, strict=True)):
        rate = {"causality": "local", "variability": "continuous", "initial": "calculated", "derivative": str(1 + i)}
        _float(variables, name, first["rates"] + i, Quantity(f"rate of {q.name}", 0.0), **rate)
        ET.SubElement(structure, "ContinuousStateDerivative", {"valueReference": str(first["rates"] + i)})
    for i, (name, q) in enumerate(zip(names["parameters"], program.parameters, strict=True)):
        _float(variables, name, first["parameters"] + i, q, **_set_from_outside(q, inputs), start=repr(q.value))
    for i, (name, q) in enumerate(zip(names["outputs"], program.outputs, strict=True)):
        _float(
            variables, name, first["outputs"] + i, q, causality="output", variability="continuous", initial="calculated"
        )
    outputs = [first["outputs"] + i for i in range(len(program.outputs))]
    for r in reversed(outputs):
        structure.insert(0, ET.Element("Output", {"valueReference": str(r)}))
    for r in (*range(first["rates"], first["rates"] + count), *outputs):
        ET.SubElement(structure, "InitialUnknown", {"valueReference": str(r)})
    base = first["outputs"] + len(program.outputs)
    for i in range(len(program.switches) + len(program.walls)):
        attributes = {"causality": "local", "variability": "continuous", "initial": "calculated"}
        _float(variables, f"event_indicator_{i + 1}", base + i, Quantity("", 0.0), **attributes)
        ET.SubElement(structure, "EventIndicator", {"valueReference": str(base + i)})


def _set_from_outside(q: Quantity, inputs: Sequence[str]) -> dict[str, str]:
    if q.name in inputs:
        return {"causality": "input", "variability": "continuous"}
    return {"causality": "parameter", "variability": "fixed", "initial": "exact"}


def _float(parent: ET.Element, name: str, reference: int, q: Quantity, **attributes: str) -> None:
    words = {"description": text} if (text := _text(q)) else {}
    ET.SubElement(parent, "Float64", {"name": name, "valueReference": str(reference), **words, **attributes})


def _old_variables(program: Program, inputs: Sequence[str], variables: ET.Element, structure: ET.Element) -> None:
    names, count = variable_names(program), len(program.states)
    rows: list[tuple[str, Quantity, dict[str, str], dict[str, str]]] = []
    exact = {"initial": "exact"}
    for name, q in zip(names["states"], program.states, strict=True):
        rows.append((name, q, {"causality": "local", "variability": "continuous", **exact}, {"start": repr(q.value)}))
    for i, name in enumerate(names["rates"]):
        quantity = Quantity(f"rate of {program.states[i].name}", 0.0)
        local = {"causality": "local", "variability": "continuous", "initial": "calculated"}
        rows.append((name, quantity, local, {"derivative": str(1 + i)}))
    for name, q in zip(names["parameters"], program.parameters, strict=True):
        rows.append((name, q, _set_from_outside(q, inputs), {"start": repr(q.value)}))
    for name, q in zip(names["outputs"], program.outputs, strict=True):
        rows.append((name, q, {"causality": "output", "variability": "continuous", "initial": "calculated"}, {}))
    for i, (name, q, attributes, real) in enumerate(rows):
        words = {"description": text} if (text := _text(q)) else {}
        scalar = ET.SubElement(
            variables, "ScalarVariable", {"name": name, "valueReference": str(1 + i), **words, **attributes}
        )
        ET.SubElement(scalar, "Real", real)
    places: dict[str, Sequence[int]] = {
        "Outputs": range(len(rows) - len(program.outputs) + 1, len(rows) + 1),
        "Derivatives": range(count + 1, 2 * count + 1),
    }
    places["InitialUnknowns"] = [*places["Outputs"], *places["Derivatives"]]
    for kind, numbers in places.items():
        if not numbers:
            continue
        element = ET.SubElement(structure, kind)
        for number in sorted(numbers):
            ET.SubElement(element, "Unknown", {"index": str(number)})


def _build_description(stem: str) -> bytes:
    root = ET.Element("fmiBuildDescription", {"fmiVersion": "3.0"})
    configuration = ET.SubElement(root, "BuildConfiguration", {"modelIdentifier": stem})
    sources = ET.SubElement(configuration, "SourceFileSet", {"language": "C99"})
    ET.SubElement(sources, "SourceFile", {"name": f"{stem}.c"})
    ET.SubElement(configuration, "Library", {"name": "m"})
    return ET.tostring(root, encoding="utf-8", xml_declaration=True)
