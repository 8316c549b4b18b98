"""Figures, and reports as single HTML files."""

from kapitza.base.argument_checks import check_names
from kapitza.report.branch_figures import (
    plot_branch,
    plot_diagram,
    plot_frequency_response,
    plot_waterfall,
    write_branch_page,
)
from kapitza.report.estimate_figures import plot_estimate
from kapitza.report.estimate_report import orbit_table, write_report
from kapitza.report.exponent_figures import plot_exponents
from kapitza.report.figures import plot_attractor, plot_orbit, plot_orbits, plot_record
from kapitza.report.harmonic_figures import plot_residues
from kapitza.report.likelihood_figures import draw_profiles, plot_convergence, plot_decay, plot_likelihood
from kapitza.report.notebook import as_html, as_latex
from kapitza.report.orbit_figures import plot_multipliers, plot_profile
from kapitza.report.page import Section, write_page
from kapitza.report.plan_figures import plot_plan
from kapitza.report.plan_page import write_plan_report
from kapitza.report.rig_figures import plot_delay_stability, plot_growing_branch, plot_rig_branch
from kapitza.report.skeleton_figures import plot_inspection
from kapitza.report.study_figures import plot_fit, plot_force_surface, plot_forces, plot_intervals
from kapitza.report.study_report import Part, study_parts, write_study_report
from kapitza.report.torus_figures import plot_tori, plot_torus
from kapitza.report.validation_figures import plot_validation
from kapitza.report.verdict import verdict_of

__all__ = [
    "Part",
    "Section",
    "as_html",
    "as_latex",
    "draw_profiles",
    "orbit_table",
    "plot_attractor",
    "plot_branch",
    "plot_convergence",
    "plot_decay",
    "plot_delay_stability",
    "plot_diagram",
    "plot_estimate",
    "plot_exponents",
    "plot_fit",
    "plot_force_surface",
    "plot_forces",
    "plot_frequency_response",
    "plot_growing_branch",
    "plot_inspection",
    "plot_intervals",
    "plot_likelihood",
    "plot_multipliers",
    "plot_orbit",
    "plot_orbits",
    "plot_plan",
    "plot_profile",
    "plot_record",
    "plot_residues",
    "plot_rig_branch",
    "plot_tori",
    "plot_torus",
    "plot_validation",
    "plot_waterfall",
    "study_parts",
    "verdict_of",
    "write_branch_page",
    "write_page",
    "write_plan_report",
    "write_report",
    "write_study_report",
]

check_names(globals())
