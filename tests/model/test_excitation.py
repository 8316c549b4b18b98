"""The period of an excitation that is written in t, where the model does not state it."""

import pytest

import kapitza as kz
from kapitza.base.cures import in_study
from kapitza.errors import ModelError
from kapitza.model.excitation import stated_by_waves


@pytest.mark.parametrize(
    ("equation", "period"),
    [
        ("x'' + x = F*cos(omega*t)", "2*pi/omega"),
        ("x'' + x = cos(2*t) + sin(3*t)", "2*pi"),
        ("x'' + x = cos(omega*t + 0.3) + 0.1*sin(3*omega*t)", "2*pi/omega"),
        ("x'' + (1 + 0.1*cos(0.5*t))*x = 0", "4*pi"),
        ("x'' + x = sin(pi*t/3)", "6"),
        ("x'' + x = cos(t) + cos(sqrt(2)*t)", None),
        ("x'' + x = t*cos(t)", None),
        ("x'' + x = cos(t**2)", None),
        ("x'' + x = cos(x*t)", None),
    ],
)
def test_the_period_of_waves_in_t(equation, period):
    names = {name: 1.3 for name in ("F", "omega") if name in equation}
    model = kz.Model.from_equations(equation, parameters=names)
    assert stated_by_waves(model.equations, model.states) == period


@pytest.mark.parametrize(
    "verb",
    [
        lambda model: kz.solve_orbit(model, {"x": 0.1, "x'": 0.0}),
        lambda model: kz.follow(model, None, "omega", (0.5, 2.0)),
        kz.find_orbits,
    ],
)
def test_a_driven_model_without_a_period_is_not_called_autonomous(verb):
    model = kz.Model.from_equations("x'' + 0.2*x' + x = F*cos(omega*t)", parameters={"F": 0.3, "omega": 1.2})
    with pytest.raises(ModelError, match=r'state period="2\*pi/omega"') as refused:
        verb(model)
    assert 'excitation = {period = "2*pi/omega"}' in in_study(refused.value.args[0])
