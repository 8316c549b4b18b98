"""Export models for other programs.

MATLAB, C, Modelica, Julia, SciPy, CasADi, FMI.
"""

from kapitza.exports.export import Exported, export
from kapitza.exports.program import ExportError
