"""A study that is right in every line, for tests that spoil one of them."""

CART = """\
title = "A cart"

[model]
equations = ["x'' + c*x' + k*x = 0"]
parameters = {c = 0.2, k = 3.0}

[data]
file = "run.csv"
channels = ["x"]

[fit]
free = ["c", "k"]
hold_back = 0.25
"""
