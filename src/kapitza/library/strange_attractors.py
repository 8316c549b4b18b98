"""The Lorenz and Rössler systems."""

from __future__ import annotations

from kapitza.model import Model, Parameter


def lorenz() -> Model:
    """Convection rolls after Lorenz (1963).

        x' = σ (y - x),  y' = x (ρ - z) - y,  z' = x y - β z

    Symmetric under (x, y, z) -> (-x, -y, z). Code: R where x > 0, L where x < 0, one letter per turn.

    Returns
    -------
    Model
        At the values of its source; `model.with_values(...)` changes them.

    Examples
    --------
    >>> import kapitza as kz
    >>> kz.library.lorenz().states
    ('x', 'y', 'z')
    """
    return Model.from_equations(
        ["x' = sigma*(y - x)", "y' = x*(rho - z) - y", "z' = x*y - beta*z"],
        coordinates=["x", "y", "z"],
        parameters=[
            Parameter("sigma", 10.0, description="Prandtl number"),
            Parameter("rho", 28.0, description="Rayleigh number over its critical value"),
            Parameter("beta", 8.0 / 3.0, description="aspect of the rolls"),
        ],
        symmetries=[{"map": {"x": "-x", "y": "-y"}}],
        partition=["x"],
        letters="RL",
        start={"x": 1.0, "y": 1.0, "z": 20.0},
        name="lorenz",
        description="Lorenz system of 1963",
        source="E. N. Lorenz, J. Atmos. Sci. 20, 130 (1963)",
    )


def rossler() -> Model:
    """One-scroll chaos after Rössler (1976).

        x' = -y - z,  y' = x + a y,  z' = b + z (x - c)

    The default values a = b = 0.2, c = 5.7 are chaotic.

    Returns
    -------
    Model
        At the values of its source; `model.with_values(...)` changes them.

    Examples
    --------
    >>> import kapitza as kz
    >>> kz.library.rossler().states
    ('x', 'y', 'z')
    """
    return Model.from_equations(
        ["x' = -y - z", "y' = x + a*y", "z' = b + z*(x - c)"],
        coordinates=["x", "y", "z"],
        parameters=[
            Parameter("a", 0.2, description="growth rate of the spiral"),
            Parameter("b", 0.2, description="source of z"),
            Parameter("c", 5.7, description="threshold of the fold"),
        ],
        start={"x": 1.0, "y": 1.0, "z": 0.0},
        name="rossler",
        description="Rössler system of 1976",
        source="O. E. Rössler, Phys. Lett. A 57, 397 (1976)",
    )
