"""A frequency response through its folds, the backbone in it, and where the folds go when the force changes."""

import kapitza as kz

model = kz.Model.from_equations(
    "x'' + c*x' + x + x**3 = B*cos(omega*t)",
    parameters={"c": 0.1, "B": 0.3, "omega": 0.5},
    period="2*pi/omega",
    name="hardening oscillator",
)

branch = kz.follow(model, None, "omega", bounds=(0.5, 2.5))
print(branch)

# Three motions live between the folds: two that a rig shows, and one that it does not.
middle = branch.orbit(branch.bifurcations[0].position + 5)
print(f"\nBetween the folds: {middle.stability}, multipliers {middle.multipliers.real.round(3)}")

# The folds in two parameters: they meet in a cusp, below which the response is single-valued.
curve = kz.follow(branch.bifurcations[0], ("omega", "B"), ((0.9, 2.5), (0.01, 0.4)))
(cusp,) = curve.of("cusp")
print(f"Below B = {cusp.note.split('=')[1].strip()} there is one response at every frequency.")

# Free vibrations without damping: the curve on which all responses peak.
spine = kz.backbone(model, "omega", force="B", damping="c", bounds=(0.9, 2.0))
print(f"Backbone: amplitude {spine.points[-1, 0]:.3f} at {spine.values[-1, 0]:.2f} rad/s.")

# Figures: branch.plot(), curve.plot() and branch.waterfall(); branch.report("branch.html") is a page to click in.
branch.plot().savefig("branch_folds.png")
curve.plot().savefig("fold_curve.png")
