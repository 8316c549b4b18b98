"""Models for other programs: MATLAB, C, Modelica, Julia, SciPy, CasADi, FMI."""

from kapitza.exports.export import KINDS, Exported, export
from kapitza.exports.program import ExportError

__all__ = ["KINDS", "ExportError", "Exported", "export"]
