"""The public surface: every name is there, and loading is lazy."""

import inspect
import subprocess
import sys
from operator import attrgetter

import pytest
from harness import public_names

import kapitza as kz
from kapitza.public import PUBLIC, RENAMED, RENAMED_ARGUMENTS, RESULTS


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


def test_stub_and_reference_are_those_of_the_list():
    """A name that is added to kapitza/public.py is in both after `python -m harness`."""
    assert public_names.STUB.read_text(encoding="utf-8") == public_names.stub()
    assert public_names.REFERENCE.read_text(encoding="utf-8") == public_names.reference()
    for name in kz.__all__:
        assert name == "library" or f".{name}\n" in public_names.reference()


def test_every_name_has_one_home():
    listed = [name for homes in PUBLIC.values() for names in homes.values() for name in names]
    assert len(listed) == len(set(listed))
    assert set(RESULTS) <= set(listed)


@pytest.mark.parametrize("former", sorted(RENAMED))
def test_former_names_work_and_warn(former):
    assert former not in kz.__all__
    with pytest.warns(DeprecationWarning, match=f"{former} is called {RENAMED[former]} now"):
        assert getattr(kz, former) is getattr(kz, RENAMED[former])


@pytest.mark.parametrize("verb", sorted(RENAMED_ARGUMENTS))
def test_former_arguments_have_names_of_today(verb):
    taken = inspect.signature(attrgetter(verb)(kz)).parameters
    for former, name in RENAMED_ARGUMENTS[verb].items():
        assert name in taken
        assert former not in taken


def test_a_former_argument_is_passed_on_with_a_warning():
    model = kz.Model.from_map({"x": "a*x"}, parameters={"a": 0.5}, start={"x": 1.0})
    with (
        pytest.warns(DeprecationWarning, match="find_invariant: held_back is called hold_back now"),
        pytest.raises(kz.KapitzaError, match="hold_back is a fraction"),
    ):
        kz.find_invariant(kz.simulate(model, periods=50), held_back=2.0)


def test_former_names_of_settings_work_with_a_warning():
    cases = [
        (kz.Automatic, "starts", "start_from", ("harmonic",)),
        (kz.OrbitFit, "starts", "start_orbits", ([1.0, 0.0],)),
        (kz.GlobalMap, "held_out", "hold_back", 0.3),
    ]
    for kind, former, name, value in cases:
        with pytest.warns(DeprecationWarning, match=f"{kind.__name__}: {former} is called {name} now"):
            settings = kind(**{former: value})
        with pytest.warns(DeprecationWarning, match=f"{kind.__name__}.{former} is called {name} now"):
            assert getattr(settings, former) == getattr(settings, name)
