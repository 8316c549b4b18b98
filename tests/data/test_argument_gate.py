"""Arguments of records and readers: the wrong kind is named, never a traceback."""

import contextlib

import numpy as np
import pytest

import kapitza as kz
from kapitza.data import Record
from kapitza.errors import KapitzaError


@pytest.fixture
def record() -> Record:
    return Record.from_arrays(np.arange(50) / 10, {"x": np.sin(np.arange(50.0))}, period=1.0)


ODD = [None, -1, 3.5, "word", [], [[1], 2], {"a": 1}, b"bytes", float("nan"), object(), 10**400, True]


@pytest.mark.parametrize("odd", ODD, ids=[type(odd).__name__ + str(place) for place, odd in enumerate(ODD)])
def test_anything_at_all_is_taken_or_refused(odd, record, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("t,x\n0,1\n1,2\n2,4\n")
    calls = [
        lambda: Record.from_arrays(odd, {"x": [0.0, 1.0]}),
        *(
            lambda key=key: Record.from_arrays(**{"time": [0.0, 1.0], "channels": {"x": [0.0, 1.0]}, key: odd})
            for key in ("channels", "units", "angles", "segment", "noise", "period", "phase")
        ),
        *(
            lambda name=name: getattr(record, name)(odd)
            for name in ("samples", "between", "resampled", "strobed", "select", "renamed", "in_units", "split_at_gaps")
        ),
        lambda: record[odd],
        lambda: kz.measure(record, seed=odd),
        lambda: kz.measure(record, noise=odd),
        lambda: kz.read(odd),
        *(
            lambda key=key: kz.read(path, **{key: odd})
            for key in ("time", "channels", "interval", "names", "units", "angles", "separator", "decimal", "missing")
        ),
    ]
    ended = 0
    for call in calls:
        with contextlib.suppress(KapitzaError):
            call()
        ended += 1
    assert ended == len(calls)
