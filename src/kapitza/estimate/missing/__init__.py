"""Terms that the equations of a fit miss."""

from kapitza.estimate.missing.columns import Cuts, Window, begin_states, rows_of
from kapitza.estimate.missing.directed import REST, ModelTest, directed_test, structure_chance
from kapitza.estimate.missing.drive_filter import filtered_window, scatter_of
from kapitza.estimate.missing.suggest import Suggestion, suggest
from kapitza.estimate.missing.weighted import Weighted, shifts_by_drives
from kapitza.estimate.missing.whitening import residuals_without
