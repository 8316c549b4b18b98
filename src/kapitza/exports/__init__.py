"""Export models for other programs.

The programs are MATLAB, C, Modelica, Julia, SciPy, CasADi and FMI.
"""

from kapitza.exports.export import Exported, export
from kapitza.exports.fitted import fitted_model
from kapitza.exports.program import ExportError
