"""The language of messages: Python in Python, study files and commands on the command line.

Messages are written where the problem is found, mostly with the cure in Python. `spoken` turns that cure into the one
of a study file or command: `method="shooting"` into `method = "shooting"`, `model.with_values(k=...)` into
`values = {k = ...}`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

METHODS = {
    "ShootingFit": "shooting",
    "HarmonicFit": "harmonic",
    "OrbitFit": "orbits",
    "InvariantFit": "invariant",
    "Automatic": "auto",
}
"""Classes of settings, and the names of these methods in a study."""

QUOTED = r'"[^"]*"|--[a-z-]+ [^\s=]+=[^\s,;]+'
"""What a user wrote, and options with their values: these are repeated as they are."""

NEW = "`kapitza new FILE`, then `kapitza identify STUDY`"

PHRASES = (
    (r"kz\.find_orbits\(record\), then kz\.identify\(model, orbits, free=\[\.\.\.\]\)",
     f'look for its orbits, `kapitza orbits FILE`, or write a study with method = "orbits": {NEW}'),
    (r"try kz\.find_orbits\(record\); if it finds nothing, fit the series itself with method=kz\.ShootingFit\(\)",
     f'try `kapitza orbits FILE`; if it finds nothing, fit the series itself by a study: {NEW}'),
    (r"kz\.identify\(model, record, free=\[\.\.\.\], method=kz\.ShootingFit\(process_noise=True\)\)",
     f"a study with process_noise = true in [fit.shooting]: {NEW}"),
    (r"kz\.identify\(model, record, free=\[\.\.\.\](?:, method=kz\.ShootingFit\(\))?\)", NEW),
    (r"\(kz\.identify\)", "(`kapitza identify`)"),
    (r"kz\.read\(\.\.\.\)\.split_at_gaps\(\)", 'cut it there, gaps = "split" in [data]'),
    (r"(?:Cut it there first: )?record\.split_at_gaps\(\)", 'Cut it there: gaps = "split" in [data]'),
    (r"(?:first: )?record\.resampled\(interval\)(?:, and inspect again)?", "before it is read, at a constant interval"),
    (r"by before it is read", "before it is read"),
    (r"\bread\(\.\.\., missing=\"drop\"\)", 'missing = "drop" (--missing drop)'),
    (r"(?:with |by )?record\.select\(\[?\.\.\.\]?\)", "by ignore = [...]"),
    (r"kz\.Signal\(\"([^\"]*)\", times, values, period\)", r'drive = ["\1"]'),
    (r"(?:Convert first, |find them in )record\.in_units\(\{(\"[^\"]*\"): (\"[^\"]*\")\}\)",
     r"Say the unit of the model, coordinates.NAME.unit, or give the noise in [data]"),
    (r"(?:by |set it by )?model\.with_values\((?:\*\*fit\.values|\.\.\.)\)", "by values = {...} in [model]"),
    (r"(?:by |set it by )?model\.with_values\(([^)]*)\)", lambda m: f"by values = {{{_spaced(m[1])}}} in [model]"),
    (r"model\.with_values", "values in [model]"),
    (r"Use model\.linearise\(model\.equilibrium\(near\)\)\.", "Start nearer to its equilibrium."),
    (r"Parameter\(\.\.\., prior=Prior\(mean, deviation\)\)", "[fit.priors] NAME = {mean = ..., deviation = ...}"),
    (r"give Prior\(mean, deviation\)", "give {mean = ..., deviation = ...}"),
    (r"orbit\.with_\(([a-z_]+)=([^)]*)\)", r"\1 = \2 (in Python)"),
    (r"with_\(covariance=None\)", "no covariance (in Python)"),
    (r"with_attributes\(period=\.\.\.\)", "period = ... in [data] (--period)"),
    (r"\(angles= of the record, or the coordinate of the model\)", "(angles in [data], or of the model)"),
    (r"as Model\.from_lagrangian writes them", "as a Lagrangian gives them"),
    (r"or build the model with Model\.from_hamiltonian", "or give the model invariants = {...}"),
    (r"kz\.Record\.from_arrays\(\.\.\.\)|kapitza\.read, kapitza\.simulate or Record\.from_arrays", "a file"),
    (r"\bkz\.read\(\.\.\.\)", "a file"),
    (r"join the orbits, OrbitSet\(tuple\(orbits\), angles\)", "give its recording"),
    (r"an OrbitSet: find orbits first, by find_orbits", 'orbits: method = "orbits" finds them'),
    (r"with an OrbitSet", "with orbits"),
    (r"flow\.section with a surface, or flow\.trajectory with times", "--duration"),
    (r"pass settings such as \w+\(\)", "choose one of the methods of a study"),
    (r"kz\.(SectionSearch|ReturnSearch)\(\.\.\.\)", r"\1 (in Python)"),
    (r"\boutputs=(?=\{)", "measures="),
    (r"say periods=number of steps instead of t", "say --periods instead of --duration"),
    (r"\(Signal\(kind=\"fourier\"\)\)", '(kind = "fourier")'),
    (r"make it by kapitza\.model\.symbol, or use Model\.from_equations, which converts them", "write it as text"),
    (r"write its residual, or use Model\.from_equations", "write its residual"),
    (r"\(period=\.\.\. when reading or in Record\.from_arrays\)", "(period = ... in [data], --period)"),
    (r"InvariantFit\(then=ShootingFit\(\)\), and ask kz\.suggest what is missing",
     'method = "shooting", whose report says what is missing'),
    (r"kz\.validate\(model, record\)", "`kapitza validate`"),
    (r"kz\.Signal\(([^,\"]*), times, values, period\)", r'drive = ["\1"]'),
    (r"make one by kz\.with_control\(model, \.\.\.\)", "a controlled model is made in Python"),
    (r"kz\.(Bar|Silent)\(\)", r"\1"),
)  # fmt: skip


def spoken(message: str) -> str:
    """A message with its cures in the language of study files and commands.

    >>> spoken('The filter has no value: give it by model.with_values(k=...), or pass HarmonicFit(width=...).')
    'The filter has no value: give it by values = {k = ...} in [model], or pass [fit.harmonic] width = ....'
    >>> spoken('Write --set m=0.09, not "k=fast".')
    'Write --set m=0.09, not "k=fast".'
    """
    quoted: list[str] = []

    def set_aside(match: re.Match[str]) -> str:
        quoted.append(match[0])
        return f"\N{SYMBOL FOR SUBSTITUTE}{len(quoted) - 1}\N{SYMBOL FOR SUBSTITUTE}"

    message = re.sub(QUOTED, lambda m: set_aside(m) if "=" in m[0] else m[0], message)
    for pattern, said in PHRASES:
        replacement: str | Callable[[re.Match[str]], str] = said
        message = re.sub(pattern, replacement, message)
    message = re.sub(rf"\b({'|'.join(METHODS)})\(([^()]*)\)", lambda m: _setting(METHODS[m[1]], m[2]), message)
    message = re.sub(rf"\b({'|'.join(METHODS)})\b", lambda m: f'method "{METHODS[m[1]]}"', message)
    message = re.sub(r"\bmethod method ", "method ", message)
    message = _keywords(message)
    return re.sub("\N{SYMBOL FOR SUBSTITUTE}(\\d+)\N{SYMBOL FOR SUBSTITUTE}", lambda m: quoted[int(m[1])], message)


def _setting(method: str, inside: str) -> str:
    """`HarmonicFit(width=...)` as `[fit.harmonic] width = ...`; without settings as the method itself."""
    return f"[fit.{method}] {_spaced(inside)}" if "=" in inside else f'method = "{method}"'


def _spaced(text: str) -> str:
    return re.sub(r"\b([A-Za-z_]\w*)=(?!=)\s*", r"\1 = ", text)


def _keywords(message: str) -> str:
    """`units={"t": "ms"}` as `units = {"t" = "ms"}`, `time="..."` as `time = "..."`."""
    message = re.sub(r"\b([a-z_]+)=(\{[^{}]*\})", lambda m: f"{m[1]} = {re.sub(r': *', ' = ', m[2])}", message)
    message = re.sub(r"\b([a-z_]+)=(?=[^\s=,;:)])", r"\1 = ", message)
    message = re.sub(r"\b([a-z_]+)=(?=[ ,;:)]|$)", r"\1", message)
    return message.replace(" = True", " = true").replace(" = False", " = false")
