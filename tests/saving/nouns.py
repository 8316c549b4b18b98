"""Equality to the last digit, for every part of a noun."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass

import numpy as np
import pandas as pd
import xarray as xr

from kapitza.model import Model


def assert_same(one, other, place: str = "", skipped: tuple[str, ...] = ("workings",)) -> int:
    """Fail where two nouns differ in any part; gives the number of single values compared."""
    assert type(one) is type(other), f"{place}: {type(one)} and {type(other)}"
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype, place
        np.testing.assert_array_equal(one, other, err_msg=place)
        return one.size
    if isinstance(one, Model):
        assert one == other, place
        return len(one.values)
    if isinstance(one, xr.Dataset):
        xr.testing.assert_identical(one, other)
        return sum(v.size for v in one.variables.values())
    if isinstance(one, pd.DataFrame):
        pd.testing.assert_frame_equal(one, other, check_exact=True)
        return one.size
    if is_dataclass(one):
        names = [f.name for f in fields(one) if f.init and f.name not in skipped]
        return sum(assert_same(getattr(one, n), getattr(other, n), f"{place}.{n}") for n in names)
    if isinstance(one, Mapping):
        assert list(one) == list(other), place
        return sum(assert_same(one[k], other[k], f"{place}.{k}") for k in one)
    if isinstance(one, (tuple, list)):
        assert len(one) == len(other), place
        return sum(assert_same(a, b, f"{place}.{i}") for i, (a, b) in enumerate(zip(one, other, strict=True)))
    if type(one).__name__ == "Flow":
        return assert_same(one.core.settings, other.core.settings, place)
    assert one == other or (one != one and other != other), f"{place}: {one} and {other}"
    return 1
