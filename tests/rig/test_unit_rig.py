"""Units as rigs: what is measured on them against closed forms and continuation, and what is refused."""

import shutil

import numpy as np
import pytest

import kapitza as kz
from kapitza.errors import RigError, RigLimitError
from kapitza.rig import Experiment, FourierSeries, RigParameter, Sensors, Shaking, UnitFeedback, UnitRig

pytest.importorskip("fmpy", reason="units are run by FMPy: pip install kapitza[fmu]")
if not any(shutil.which(name) for name in ("cc", "gcc", "clang")):
    pytest.skip("no C compiler on this computer", allow_module_level=True)

DEMAND = FourierSeries(1.2, [0.0, 0.9, 0.15])


@pytest.fixture(scope="module", params=["2.0", "3.0"])
def unit(request, tmp_path_factory):
    """x'' + 0.1 x' + x + k3 x³ = f + u, with f and u as inputs."""
    model = kz.Model.from_equations(
        "x'' + d*x' + x + k3*x**3 = f + u",
        parameters={"d": 0.1, "k3": 1.0, "f": 0.0, "u": 0.0},
        outputs={"y": "x", "v": "x'"},
    )
    path = tmp_path_factory.mktemp("unit") / "duffing.fmu"
    kz.export(model, path, fmi=request.param, inputs=["f", "u"])
    return kz.open_unit(path, trusted=True)


def rig_of(unit, **settings) -> UnitRig:
    shaking = Shaking("f", RigParameter("B", 0.3, "", (0.0, 2.0)), RigParameter("omega", 1.2, "rad/s", (0.2, 5.0)))
    feedback = UnitFeedback("y", "u", (1.0, 0.8), "v", limit=10.0, rate_limit=100.0)
    return UnitRig(unit, shaking, [feedback], **{"sample_time": 0.02, "ramp": 1.0, **settings})


def test_a_unit_has_the_inputs_asked_for(unit):
    assert unit.inputs == ("f", "u")
    assert set(unit.values) == {"x", "x_dot", "d", "k3"}


def test_a_linear_unit_answers_by_its_transfer_function(unit):
    """Under u = -k1 (x - D) - k2 (x' - D'): (k - w² + iw(d + k2) + k1) X = B + (k1 + iw k2) D."""
    with rig_of(unit, values={"k3": 0.0}) as rig:
        found = kz.rig.settle_and_measure(rig, {"y": DEMAND}, {"B": 0.3, "omega": 1.2})
        c, s = found.series("y").coefficients[1:3]
    w, demand = 1.2, complex(0.9, -0.15)
    exact = (0.3 + (1.0 + 0.8j * w) * demand) / (1.0 - w**2 + 1j * w * (0.1 + 0.8) + 1.0)
    # Controls are held for a sample of 0.02 s, half a sample late on average: 1 % of the phase.
    assert abs(complex(c, -s) - exact) < 0.02 * abs(exact)


def test_a_unit_is_followed_round_its_fold(unit):
    """The fold of x'' + 0.1 x' + x + x³ = 0.3 cos ωt lies at ω = 1.7797195 by continuation of the equations."""
    with rig_of(unit, sensors=Sensors(noise={"y": 1e-3})) as rig:
        test = Experiment(rig, frequency="omega", modes=4, scales={"y": 1.0}, values={"B": 0.3, "omega": 1.5})
        branch = kz.follow(test, {"y": FourierSeries(1.5, [0.0, 1.3, 0.3])}, "omega", bounds=(1.4, 1.9))
    fold = branch.folds[0]
    assert abs(fold.value - 1.7797195) < 3 * fold.deviation + 1e-3
    assert fold.deviation < 0.01


def test_limits_hold_and_nothing_is_sent(unit):
    rig = rig_of(unit)
    with pytest.raises(RigLimitError, match="reaches a value of"):
        rig.set({"y": FourierSeries(1.2, [0.0, 11.0, 0.0])})
    with pytest.raises(RigLimitError, match="omega"):
        rig.set({"y": DEMAND}, omega=9.0)
    with pytest.raises(RigError, match="whole multiple"):
        rig.set({"y": DEMAND}, omega=1.3)
    with pytest.raises(RigError, match="safe state"):
        rig.run(10)


def test_a_stopped_unit_starts_again_at_rest(unit):
    rig = rig_of(unit)
    with rig:
        rig.set({"y": DEMAND})
        first = rig.run(200).values
        rig.stop()
        rig.set({"y": DEMAND})
        assert np.array_equal(rig.run(200).values, first)
    with pytest.raises(RigError, match="safe state"):
        rig.run(1)


def test_wrong_names_are_refused(unit):
    shaking = rig_of(unit).shaking
    for feedback, message in (
        (UnitFeedback("z", "u", (1.0, 1.0)), 'no output "z"'),
        (UnitFeedback("y", "force", (1.0, 1.0)), 'no input "force"'),
        (UnitFeedback("y", "f", (1.0, 1.0)), "share an input"),
    ):
        with pytest.raises(RigError, match=message):
            UnitRig(unit, shaking, [feedback])
    with pytest.raises(RigError, match='no value "k4"'):
        rig_of(unit, values={"k4": 1.0})
