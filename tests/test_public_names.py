"""The public surface: every name is there, and loading is lazy."""

import subprocess
import sys

import pytest

import kapitza as kz


@pytest.mark.parametrize("name", kz.__all__)
def test_public_name_resolves(name):
    assert getattr(kz, name) is not None
    assert name in dir(kz)


def test_unknown_name_is_refused():
    with pytest.raises(AttributeError, match="no attribute 'symulate'"):
        _ = kz.symulate


def test_a_flow_alone_loads_no_tables_and_no_figures():
    code = (
        "import sys, kapitza as kz; kz.Flow(kz.library.parametric_pendulum());"
        "print([m for m in ('pandas', 'xarray', 'matplotlib') if m in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"
