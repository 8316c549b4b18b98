from sympy import Boolean as Boolean
