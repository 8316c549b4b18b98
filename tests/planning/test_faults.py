"""What a plan must not pass over in silence: sensors, several records, drives without a period, lost samples, stops."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

import kapitza as kz
from kapitza.errors import DataError, RigError
from kapitza.planning import Ending
from kapitza.planning.done import done_by
from kapitza.planning.knowledge import known_from
from kapitza.planning.plan import _mean_and_band
from kapitza.planning.rigs import rig_measurer
from kapitza.rig import Sensors, SimulatedRig

RUN = kz.Choice({"F": 0.1, "w": 1.0}, duration=20.0, step=0.1, channels={"x": 0.01})
FEW = kz.Search(points=2, polish=0, shown=8)


def resonator() -> kz.Model:
    known = [
        kz.Parameter("c", 0.1, prior=kz.Prior(0.1, 0.02), bounds=(0.0, np.inf)),
        kz.Parameter("k", 1.0, prior=kz.Prior(1.0, 0.05)),
    ]
    set_ = [kz.Parameter("F", 0.3, bounds=(0.0, 0.5)), kz.Parameter("w", 1.0, bounds=(0.4, 2.2))]
    return kz.Model.from_equations("x'' + c*x' + k*x = F*cos(w*t)", parameters=[*known, *set_], period="2*pi/w")


def recording(model: kz.Model, x0: float = 0.0, seed: int = 1) -> kz.Record:
    states = kz.simulate(model, x0=[x0, 0.0], t=np.arange(200) * 0.1)
    return kz.measure(kz.Record.from_arrays(states.time, {"x": states["x"]}), noise=0.01, seed=seed)


def rig(kind: type[SimulatedRig] = SimulatedRig, drop: float = 0.0) -> SimulatedRig:
    sensors = Sensors(noise={"x": 0.01}, drop=drop)
    return kind(resonator(), adjustable=("F", "w"), sample_time=0.05, sensors=sensors, seed=1)


def test_the_gain_and_offset_of_a_sensor_are_those_of_the_plan():
    """Volts = 3 x + offset with three times the noise tell of c and k what x alone tells."""
    record = recording(resonator())
    volts = kz.Record.from_arrays(record.time, {"x": 3 * record["x"] + 1})
    plain = kz.identify(resonator(), record, free=["c", "k"])
    method = kz.ShootingFit(outputs={"x": kz.Sensor("x", gain=3.0, unknown="offset")})
    fit = kz.identify(resonator(), volts, free=["c", "k"], method=method)
    run = replace(RUN, settings={"F": 0.3, "w": 1.0})
    one = kz.plan(plain, {"w": [0.8]}, run=run, search=FEW)[0]
    same = kz.plan(fit, {"w": [0.8]}, run=replace(run, channels={"x": 0.03}), search=FEW)[0]
    assert same.after[:2] == pytest.approx(one.after, rel=0.1)
    assert same.after[2] < 0.8 * same.now[2]
    best = kz.best_set(fit, [replace(run, channels={"x": 0.03})], size=1)
    assert best.sets[0].after[2] < 0.8 * best.now[2]


def test_runs_of_several_records_begin_with_their_own_states():
    model = resonator()
    data = [(recording(model.with_values(F=f), x0), {"F": f}) for f, x0 in ((0.3, 0.2), (0.2, -0.7))]
    done = done_by(kz.identify(model, data, free=["c", "k"]))
    assert [d.choice.start["x"] for d in done] == pytest.approx([0.2, -0.7], abs=0.03)
    assert [d.choice.settings["F"] for d in done] == [0.3, 0.2]


def test_a_campaign_leaves_earlier_recordings_at_their_settings():
    """The first recording was made at the values of the model, the next ones elsewhere."""
    model = resonator()
    fit = kz.identify(model, recording(model), free=["c", "k"])

    def measure(choice: kz.Choice) -> kz.Record:
        return recording(model.with_values(**choice.settings), seed=2)

    found = kz.experiment(measure, fit, {"w": [0.7, 1.3]}, replace(RUN, settings={"F": 0.4}), 1e-5, 1, search=FEW)
    assert found.ending is Ending.SPENT
    assert found.fit is not None
    assert abs(found.fit.values["k"] - 1.0) < 5 * found.fit.deviations["k"]


def test_windows_share_no_sample():
    """x' = 40 x grows by 1e7 in 0.4 s: a sample counted in two windows would add its own information once more."""
    model = kz.Model.from_equations("x' = a*x", parameters={"a": 40.0})
    run = kz.Choice(start={"x": 1e-9}, duration=0.9, step=0.1, channels={"x": 0.01})
    # |J| passes 1e7 between 0.4 and 0.5: windows of five samples with the readings e^(a t) and their slopes t e^(a t).
    expected = 0.0
    for first in (0, 5):
        t = np.arange(5) * 0.1
        rows = np.stack([np.exp(40 * t), t * np.exp(40 * t) * 1e-9 * np.exp(4 * first)], axis=1) / 0.01
        full = rows.T @ rows
        expected += full[1, 1] - full[0, 1] ** 2 / full[0, 0]
    assert kz.information(model, run, ["a"])[0, 0] == pytest.approx(expected, rel=1e-4)


def test_a_drive_without_a_period_has_gone_on_when_the_recording_begins():
    text, values = "x'' + c*x' + k*x = F*cos(w*t)", {"c": 0.1, "k": 1.0, "F": 0.3, "w": 1.3}
    bare = kz.Model.from_equations(text, parameters=values)
    run = replace(RUN, settings={}, settle=2 * np.pi / 1.3 * 40)
    told = [
        kz.information(model, run, ["c", "k"])
        for model in (bare, kz.Model.from_equations(text, parameters=values, period="2*pi/w"))
    ]
    assert told[0] == pytest.approx(told[1], rel=1e-4)
    odd = kz.information(bare, replace(run, settle=200.0), ["c", "k"])
    assert np.sqrt(np.diag(odd)) == pytest.approx(np.sqrt(np.diag(told[1])), rel=0.2)  # settled, at another phase
    sweep = replace(run, settings={"w": 1.3}, approach="from below", sweep=("w", 0.5, 2.0))
    with pytest.raises(DataError, match="has no period"):
        kz.information(bare, sweep, ["c"])


def test_limits_hold_between_samples_of_a_fast_motion():
    """x = (v/2π) sin 2πt sampled once and twice per period: every reading is 0, the peak is v/2π."""
    c = kz.Parameter("c", 0.01, prior=kz.Prior(0.01, 1e-4))
    model = kz.Model.from_equations("x'' + c*x' + 4*pi**2*x = 0", parameters=[c])
    for step in (0.5, 1.0):
        run = kz.Choice(duration=10.0, step=step, channels={"x": 0.01})
        found = kz.plan(model, {"x'": [1.0, 5.0]}, run=run, limits={"abs(x)": 0.5}, search=FEW)
        assert [one.choice.start["x'"] for one in found] == [1.0]
        assert found[0].share == pytest.approx(1.05 / (2 * np.pi) / 0.5, rel=0.04)


def test_rest_is_rest_where_the_run_is_a_sweep():
    run = replace(RUN, settle=10.0, approach="from below", sweep=("w", 0.5, 2.0))
    found = kz.plan(resonator(), {"approach": ["rest", "from below"]}, run=run, search=FEW)
    assert {one.choice.approach for one in found} == {"state", "from below"}


@pytest.mark.parametrize(
    ("want", "message"),
    [(["F"], "does not depend"), (["sqrt(-k)"], "cannot be wanted"), (["c", "c"], "Wanted twice")],
)
def test_wants_without_an_answer_are_refused(want, message):
    with pytest.raises(DataError, match=message):
        kz.plan(resonator(), {"w": [0.8, 1.0]}, run=RUN, want=want, search=FEW)


def test_a_sweep_that_stays_nowhere_is_refused():
    with pytest.raises(DataError, match="stays at each level"):
        replace(RUN, approach="from below", sweep=("w", 0.5, 2.0))


def test_experiments_that_differ_in_sampling_are_compared():
    light = kz.Parameter("d", 0.1, bounds=(0.0, 1.0))
    rivals = [
        (kz.Model.from_equations(f"x'' + {law} + x = 0", parameters=[light], name=law), ["d"])
        for law in ("d*x'", "d*x'**3")
    ]
    run = kz.Choice(start={"x": 1.0}, duration=10.0, step=0.1, channels={"x": 0.01})
    assert len(kz.tell_apart(rivals, {"step": [0.1, 0.2]}, run, search=FEW)) == 2


def test_a_rig_that_loses_samples_is_identified_from_the_others():
    found = kz.experiment(rig(drop=0.5), resonator(), {"w": [0.8, 1.1]}, RUN, 1e-5, 1, limits={"x": 2}, search=FEW)
    assert found.ending is Ending.SPENT
    assert found.fit is not None
    assert abs(found.fit.values["k"] - 1.0) < 5 * found.fit.deviations["k"]


def test_a_channel_that_the_rig_has_not_is_refused_before_it_moves():
    measure = rig_measurer(rig(), resonator(), {})
    with pytest.raises(RigError, match="does not measure y"):
        measure(replace(RUN, channels={"y": 0.1}))


def test_control_c_ends_a_campaign_with_the_rig_safe(tmp_path):
    calls: list[str] = []

    class Struck(SimulatedRig):
        def run(self, samples: int):
            calls.append("run")
            if len(calls) == 5:
                raise KeyboardInterrupt
            return super().run(samples)

        def stop(self) -> None:
            calls.append("stop")
            super().stop()

    found = kz.experiment(rig(Struck), resonator(), {"w": [0.8, 1.1]}, RUN, folder=tmp_path / "runs", search=FEW)
    assert found.ending is Ending.STOPPED
    assert calls[-1] == "stop"
    again = kz.experiment(rig(), resonator(), {"w": [0.8, 1.1]}, RUN, 1e-5, 1, folder=tmp_path / "runs", search=FEW)
    assert again.runs == 1


def test_a_plan_that_is_stopped_gives_no_ranking():
    class Stop(kz.Silent):
        @property
        def cancelled(self) -> bool:
            return True

    with pytest.raises(KeyboardInterrupt):
        kz.plan(resonator(), {"w": [0.8, 1.0]}, run=RUN, search=FEW, monitor=Stop())


@pytest.mark.parametrize("name", ["journal.toml", "run_001.csv"])
def test_a_folder_of_something_else_is_left_alone(tmp_path, name):
    (tmp_path / name).write_text('title = "mine"\n')
    with pytest.raises(DataError, match="hoose another folder"):
        kz.experiment(rig(), resonator(), {"w": [0.8, 1.1]}, RUN, folder=tmp_path, search=FEW)
    assert (tmp_path / name).read_text() == 'title = "mine"\n'


def test_a_map_over_the_duration_marks_experiments_where_they_lie():
    fit = kz.identify(resonator(), recording(resonator()), free=["c", "k"])
    search = kz.Search(points=4, polish=0, draws=2, shown=2)
    found = kz.plan(fit, {"w": (0.8, 1.2), "duration": (10.0, 20.0)}, run=RUN, search=search)
    figure = found.plot("w", "duration")
    marks = [line for line in figure.axes[0].lines if line.get_marker() in "*s"]
    assert [line.get_ydata()[0] for line in marks[:-1]] == [one.choice.duration for one in found][:4]
    assert marks[-1].get_ydata()[0] == pytest.approx(19.9)


@pytest.mark.parametrize("numbers", [{"points": 0}, {"draws": 0}, {"draws": 8, "shown": 4}])
def test_searches_without_points_or_draws_are_refused(numbers):
    with pytest.raises(DataError, match="at least"):
        kz.Search(**numbers)


def test_a_reading_alone_counts_once():
    """Prior 0.05 and an error of 0.01: the width alone is (0.05⁻² + 0.01⁻²)^(-1/2)."""
    items = [kz.Reading(f"k {i}", lambda model: model.values["k"], 0.01) for i in range(2)]
    found = kz.best_set(resonator(), items, size=2, want=["k"])
    assert np.exp(found.single) == pytest.approx([(0.05**-2 + 0.01**-2) ** -0.5] * 2, rel=1e-6)


def test_draws_of_a_parameter_without_bounds_keep_its_sign_where_that_is_known():
    """At 2.5 standard errors from zero 0.6 % of a Gaussian are negative; at one the data leave the sign open."""
    model = kz.Model.from_equations(
        "x'' + c*x' + k*x = 0",
        parameters=[
            kz.Parameter("c", 0.1, prior=kz.Prior(0.1, 0.04)),
            kz.Parameter("k", -1.0, prior=kz.Prior(-1.0, 1.0)),
        ],
    )
    known = known_from(model, None, None, 0)
    assert known.draws[:, 0].min() > 0
    assert np.median(known.draws[:, 0]) == pytest.approx(0.1, rel=0.1)
    assert known.draws[:, 1].max() > 0
    assert known.either == ("k",)


def test_bands_of_widths_hold_nine_of_ten_further_draws():
    """Log widths that are Gaussian: the 5-95 % band of 32 draws holds 90 % of others, on average over many bands."""
    random = np.random.default_rng(1)
    _, low, high = _mean_and_band(np.exp(random.standard_normal((32, 4000))))
    assert np.mean(norm.cdf(np.log(high)) - norm.cdf(np.log(low))) == pytest.approx(0.9, abs=0.01)
    _, low, high = _mean_and_band(np.ones((32, 1)), 0.05)
    assert np.log([low[0], high[0]]) == pytest.approx([-1.645 * 0.05, 1.645 * 0.05])


def test_two_campaigns_do_not_share_a_folder(tmp_path):
    asked = {"folder": tmp_path / "runs", "search": FEW}
    kz.experiment(rig(), resonator(), {"w": [0.8, 1.1]}, RUN, 1e-5, 1, **asked)
    before = (tmp_path / "runs" / "run_001.csv").read_bytes()
    for change in ({"vary": {"w": [0.7, 1.1]}}, {"limits": {"abs(x)": 3.0}}, {"want": ["k"]}):
        with pytest.raises(DataError, match="another campaign"):
            kz.experiment(rig(), resonator(), **({"vary": {"w": [0.8, 1.1]}, "run": RUN, "budget": 1} | change | asked))
    assert (tmp_path / "runs" / "run_001.csv").read_bytes() == before
    again = kz.experiment(rig(), resonator(), {"w": [0.8, 1.1]}, RUN, 0.5, 2, **asked)
    assert (again.runs, again.ending) == (1, Ending.REACHED)


def test_a_recording_without_its_channel_is_not_kept(tmp_path):
    """Kept, it would end every further call of the campaign."""

    def measure(choice: kz.Choice) -> kz.Record:
        return kz.Record.from_arrays(np.arange(50) * 0.1, {"y": np.ones(50)})

    found = kz.experiment(measure, resonator(), {"w": [0.8, 1.0]}, RUN, search=FEW, folder=tmp_path)
    assert found.ending is Ending.FAILED
    assert "without x" in found.detail
    assert not list(tmp_path.glob("run_*.csv"))


@pytest.mark.parametrize("aim", [0.0, -0.01])
def test_an_aim_that_nothing_reaches_is_refused(aim):
    with pytest.raises(DataError, match="aim"):
        kz.plan(resonator(), {"w": [0.8, 1.0]}, run=RUN, search=FEW, aim=aim)
    with pytest.raises(DataError, match="aim"):
        kz.experiment(rig(), resonator(), {"w": [0.8, 1.0]}, RUN, aim=aim)
    with pytest.raises(DataError, match="budget"):
        kz.experiment(rig(), resonator(), {"w": [0.8, 1.0]}, RUN, budget=-1)
