"""Ready laws: the forces they add, their sign whatever the equation's, and what is refused."""

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import ModelError
from kapitza.flow import Flow
from kapitza.model import LAWS, with_laws

STATE = {"x": 0.7, "x'": -1.3}
FORCES = {
    "viscous": ({"c": 0.5}, 0.5 * -1.3),
    "coulomb": ({"c": 0.5}, -0.5),
    "quadratic": ({"c": 0.5}, -0.5 * 1.69),
    "cubic_damping": ({"c": 0.5}, 0.5 * (-1.3) ** 3),
    "stribeck": ({"c": 0.5, "s": 0.2, "w": 1.0}, -(0.5 + 0.2 * np.exp(-1.69))),
    "linear": ({"k": 2.0}, 1.4),
    "cubic": ({"k": 2.0}, 2.0 * 0.343),
    "quintic": ({"k": 2.0}, 2.0 * 0.7**5),
    "bilinear": ({"k": 2.0}, 1.4),
    "gap": ({"k": 2.0, "d": 0.3}, 0.8),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("equation", ["m*x'' + x = 0", "0 = m*x'' + x"])
def test_each_law_adds_its_force(law, equation):
    base = kz.Model.from_equations(equation, parameters={"m": 2.0})
    values, force = FORCES[law]
    model = with_laws(base, [f"{law} x"]).with_values(**{f"{law}_x_{n}": v for n, v in values.items()})
    state = np.array([list(STATE.values())])
    change = Flow(model).rates(state)[0, 1] - Flow(base).rates(state)[0, 1]
    assert change == pytest.approx(-force / 2.0)


def test_laws_and_coordinates_that_are_not_there_are_refused():
    model = kz.Model.from_equations(["x'' + x = 0", "y'' + y = 0"])
    with pytest.raises(ModelError, match='Did you mean "coulomb"'):
        with_laws(model, ["coulom x"])
    with pytest.raises(ModelError, match="on which coordinate"):
        with_laws(model, ["coulomb"])
    with pytest.raises(ModelError, match="named twice"):
        with_laws(model, ["coulomb x", "coulomb x"])
    with pytest.raises(ModelError, match="no second-order coordinate"):
        with_laws(kz.library.lorenz(), ["coulomb x"])
