"""Parts of a model without symbols are finite real numbers, also where SymPy expressions are given."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

from kapitza import Model, Parameter
from kapitza.errors import ModelError
from kapitza.model import rate, symbol

WRONG = (sp.acos(2), 1 / (sp.sin(1) ** 2 + sp.cos(1) ** 2 - 1), sp.asin(sp.Rational(-3, 2)), sp.log(sp.cos(2)))
RIGHT = {
    sp.acos(sp.Rational(1, 3)): np.arccos(1 / 3),
    1 / (sp.sin(1) ** 2 + sp.cos(1) ** 2 - sp.Rational(999, 1000)): 1000.0,
    sp.exp(-3) * sp.sqrt(2): np.exp(-3) * np.sqrt(2),
}
X, SLOPE = symbol("x"), rate("x")


@pytest.mark.parametrize("constant", WRONG)
def test_a_constant_that_is_no_real_number_is_refused(constant):
    for law in (X + constant, X * constant, sp.cos(X + constant)):
        with pytest.raises(ModelError, match="real number"):
            Model.from_equations([SLOPE + law])
    with pytest.raises(ModelError, match="real number"):
        Model.from_equations("x' = -k*x", parameters=[Parameter("k", expression=constant)])


@pytest.mark.parametrize("constant", RIGHT)
def test_other_constants_keep_their_value(constant):
    model = Model.from_equations([SLOPE - constant])
    assert float(model.structure.rates[0]) == pytest.approx(RIGHT[constant], rel=1e-12)
