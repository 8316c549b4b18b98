"""Branches whose bifurcations are known: from closed forms, other codes and other methods."""

import numpy as np
import pytest
from tests.continuation.systems import duffing

import kapitza as kz
from kapitza.continuation import ChordNewton, End, Kind, Natural, Secant, walk_branch
from kapitza.errors import KapitzaError, Status
from kapitza.solve import ByEffort

FOLDS = (1.7797195242986, 1.3242362007706)
"""Fourier collocation with 129 points and a Moore-Spence system, an independent code."""


@pytest.fixture(scope="module")
def response():
    return kz.follow(duffing(), None, "omega", (0.5, 3.0))


def test_duffing_folds_as_by_fourier_collocation(response):
    assert [b.kind for b in response.bifurcations] == [Kind.FOLD, Kind.FOLD]
    assert [b.value for b in response.bifurcations] == pytest.approx(FOLDS, abs=1e-10)
    assert all(b.verified for b in response.bifurcations)
    assert response.ends == (End.BOUND, End.BOUND)
    assert response.values[[0, -1], 0] == pytest.approx([0.5, 3.0])


def test_the_branch_between_the_folds_is_unstable_and_the_rest_is_not(response):
    marks = [b.position for b in response.bifurcations]
    stability = response.stability
    assert set(stability[: marks[0] + 1]) == {"stable"}
    assert set(stability[marks[0] + 1 : marks[1] + 1]) == {"unstable"}
    assert set(stability[marks[1] + 1 :]) == {"stable"}


def test_points_are_orbits_and_liouville_holds(response):
    """det M = exp(-0.1 T), whatever the branch."""
    determinants = np.prod(response.multipliers, axis=1)
    assert np.abs(determinants - np.exp(-0.1 * response.periods)).max() < 1e-7
    orbit = response.orbit(len(response) // 2)
    assert orbit.closure < 1e-10
    assert orbit.parameters["omega"] == pytest.approx(response.values[len(response) // 2, 0])


def test_tables_iteration_and_amplitudes(response):
    table = response.table()
    assert len(table) == len(response) == len(list(response))
    assert (table["then"] == "fold").sum() == 2
    assert len(response.bifurcation_table()) == 2
    low, high = response.extent("x")
    # The resonance peak lies on the backbone, where ω² ≈ 1 + ¾ a² and 0.1 ω a = 0.3 to a few per cent.
    peak = np.argmax(response.amplitude("x"))
    amplitude = (high - low)[peak] / 2
    omega = response.values[peak, 0]
    assert omega**2 == pytest.approx(1 + 0.75 * amplitude**2, rel=0.03)
    assert 0.1 * omega * amplitude == pytest.approx(0.3, rel=0.05)


@pytest.mark.parametrize("stepping", [kz.Stepping(predictor=Secant()), kz.Stepping(corrector=ChordNewton(chords=0))])
def test_other_predictors_and_correctors_find_the_same(stepping):
    branch = kz.follow(duffing(1.2), None, "omega", (1.0, 2.0), stepping=stepping, direction=1)
    assert [b.value for b in branch.bifurcations] == pytest.approx(FOLDS, abs=1e-10)


def test_natural_continuation_ends_at_the_fold():
    stepping = kz.Stepping(predictor=Natural(), rule=ByEffort(0.02, 1e-5, 0.05, wanted=6))
    branch = kz.follow(duffing(1.2), None, "omega", (1.0, 2.0), stepping=stepping, direction=1)
    assert branch.ends[1] is End.STEP
    assert branch.values[-1, 0] == pytest.approx(FOLDS[0], abs=1e-3)


def test_the_half_map_finds_the_same_folds():
    branch = kz.follow(duffing(), None, "omega", (0.5, 3.0), half_map=True)
    assert [b.value for b in branch.of(Kind.FOLD)] == pytest.approx(FOLDS, abs=1e-10)
    assert np.abs(np.prod(branch.multipliers, axis=1) - np.exp(-0.1 * branch.periods)).max() < 1e-7


def test_a_walk_can_be_stopped_and_gives_what_it_has():
    walker = walk_branch(duffing(), None, "omega", (0.5, 3.0), direction=1)
    seen = []
    for node in walker:
        seen.append(node.value)
        if len(seen) == 10:
            break
    branch = walker.branch
    assert branch.values[1:, 0] == pytest.approx(seen, abs=0)


def test_a_monitor_sees_the_points_and_may_cancel():
    class Impatient:
        shown = 0

        @property
        def cancelled(self):
            return self.shown > 4

        def show(self, progress):
            self.shown += 1
            assert "following" in progress.title

    stopped = kz.follow(duffing(), None, "omega", (0.5, 3.0), monitor=Impatient())
    assert stopped.status is Status.INTERRUPTED
    assert End.INTERRUPTED in stopped.ends


def test_lorenz_from_equilibrium_over_hopf_to_homoclinic():
    """ρ_H = σ(σ + β + 3)/(σ - β - 1) = 470/19; the homoclinic orbit at 13.926557 (Sparrow 1982, ch. 2: 13.926…)."""
    model = kz.library.lorenz().with_values(rho=20.0)
    x = np.sqrt(8 / 3 * 19)
    rest = kz.follow(model, {"x": x, "y": x, "z": 19.0}, "rho", (15, 30), equilibrium=True)
    (hopf,) = rest.of(Kind.HOPF)
    assert hopf.value == pytest.approx(470 / 19, abs=1e-8)
    assert rest.stability[0] == "stable"
    assert rest.stability[-1] == "unstable"
    born = kz.switch_branch(hopf, (5, 30))
    assert born.ends[1] is End.HOMOCLINIC
    assert born.values[-1, 0] == pytest.approx(13.926557, abs=1e-5)
    assert born.periods[0] == pytest.approx(2 * np.pi / hopf.frequency, rel=0.01)
    assert not born.of(Kind.DOUBLING)
    assert set(born.stability) == {"unstable"}


def test_lorenz_pitchfork_of_the_origin_at_one():
    model = kz.library.lorenz().with_values(rho=0.5)
    rest = kz.follow(model, {"x": 0.0, "y": 0.0, "z": 0.0}, "rho", (0.1, 2.0), equilibrium=True)
    (point,) = rest.of(Kind.PITCHFORK)
    assert point.value == pytest.approx(1.0, abs=1e-6)


@pytest.fixture(scope="module")
def hanging():
    model = kz.library.pendulum_on_spring().with_values(a=2.0)
    return kz.follow(model, {"y": 0, "theta": 0, "y'": 0, "theta'": 0}, "a", (0.5, 4.0))


def test_hybrid_doubling_fold_and_pitchfork(hanging):
    """HYBRID: doubling of the hanging state, fold and symmetry breaking of the swinging branch at Ω = 13."""
    quoted = np.hypot(13 * 0.1, 200.0)
    (doubling,) = hanging.of(Kind.DOUBLING)
    assert doubling.value / quoted == pytest.approx(0.01320818105, abs=1e-9)
    swinging = kz.switch_branch(doubling, (0.5, 12.0))
    (fold,) = swinging.of(Kind.FOLD)
    assert fold.value / quoted == pytest.approx(0.00800907598, abs=1e-9)
    (point,) = swinging.of(Kind.BRANCH_POINT)
    assert point.value / quoted == pytest.approx(0.04816379748, abs=1e-8)
    # Born subcritically: unstable down to the fold, stable up to where the symmetry breaks.
    stability = swinging.stability
    assert set(stability[2 : fold.position + 1]) == {"unstable"}
    assert set(stability[fold.position + 1 : point.position + 1]) == {"stable"}


def test_hybrid_on_the_half_map_the_pitchfork_is_regular(hanging):
    quoted = np.hypot(13 * 0.1, 200.0)
    swinging = kz.switch_branch(hanging.of(Kind.DOUBLING)[0], (0.5, 4.0))
    model = hanging.model.with_values(a=float(swinging.values[-1, 0]))
    branch = kz.follow(model, swinging.orbit(-1), "a", (3.9, 12.0), half_map=True, direction=1)
    (pitchfork,) = branch.of(Kind.PITCHFORK)
    assert pitchfork.value / quoted == pytest.approx(0.04816379748, abs=1e-10)
    assert pitchfork.verified
    broken = kz.switch_branch(pitchfork, (3.9, 12.0))
    mirrored = broken.points[-1] * np.array([1, -1, 1, -1])
    assert np.abs(broken.points[-1] - mirrored).max() > 1e-2


def test_pendulum_doublings():
    """ORBITS' pendulum, the rotation that random starts settle on at ω = 13."""
    model = kz.library.parametric_pendulum().with_values(omega=13.0)
    first = kz.follow(model, {"phi": 2.9909, "phi'": 11.4389}, "omega", (9.0, 13.5), direction=-1)
    (one,) = first.of(Kind.DOUBLING)
    assert one.value == pytest.approx(12.1078218842, abs=1e-8)
    second = kz.switch_branch(one, (9.0, 13.0))
    assert second.of(Kind.DOUBLING)[0].value == pytest.approx(9.4647067819, abs=1e-8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parameter": "omgea"}, 'Did you mean "omega"'),
        ({"parameter": 3}, "Name the parameter"),
        ({"bounds": (1.0, 2.0)}, r"starts at omega = 0\.5, outside"),
        ({"bounds": (2.0, 2.0)}, "not a range"),
        ({"start": {"x": 1e6, "x'": 0.0}}, "The branch has no start"),
    ],
)
def test_what_cannot_be_followed_is_named(change, message):
    call = {"start": None, "parameter": "omega", "bounds": (0.4, 2.0), **change}
    with pytest.raises(KapitzaError, match=message):
        kz.follow(duffing(), **call)


def test_a_forced_model_has_no_equilibria_and_a_fold_no_branch(response):
    with pytest.raises(KapitzaError, match="is forced"):
        kz.follow(duffing(), {"x": 0.0, "x'": 0.0}, "omega", (0.4, 2.0), equilibrium=True)
    with pytest.raises(KapitzaError, match="No branch of orbits leaves at a fold"):
        kz.switch_branch(response.bifurcations[0])
    with pytest.raises(KapitzaError, match="takes a Model"):
        kz.follow("duffing", None, "omega")
    with pytest.raises(KapitzaError, match="declares no linear symmetry"):
        kz.follow(kz.library.rossler(), None, "c", (5.0, 6.0), period=5.9, half_map=True)


def test_a_hopeless_step_is_named():
    stepping = kz.Stepping(rule=ByEffort(3.0, 2.9, 3.0))
    branch = kz.follow(duffing(1.7), None, "omega", (0.5, 3.0), stepping=stepping, direction=1)
    assert branch.ends[1] in (End.STEP, End.BOUND)
    short = kz.Stepping(corrector=ChordNewton(chords=0, max_iterations=1, tolerance=1e-15))
    branch = kz.follow(duffing(), None, "omega", (0.5, 3.0), stepping=short, direction=1)
    assert branch.ends[1] is End.STEP
    assert "step fell below" in branch.end_messages[1]


def test_a_branch_is_saved_loaded_and_followed_on(tmp_path):
    part = kz.follow(duffing(), None, "omega", (0.5, 1.5), direction=1)
    kz.save(part, tmp_path / "part.nc")
    again = kz.load(tmp_path / "part.nc")
    assert np.array_equal(again.points, part.points)
    assert np.array_equal(again.multipliers, part.multipliers)
    assert again.ends == part.ends
    whole = kz.follow(again, bounds=(0.5, 3.0))
    assert [b.value for b in whole.bifurcations] == pytest.approx(FOLDS, abs=1e-10)
    assert whole.values[: len(part)] == pytest.approx(part.values)
    assert whole.orbit(-1).closure < 1e-9
    position = whole.bifurcations[0].position
    assert whole.values[position, 0] < FOLDS[0]


def test_a_branch_that_turns_at_its_birth_has_one_label_there():
    """Orbits of twice the period leave the hanging state and come back to it shifted: the parameter's extreme there is
    the branching, not a fold besides."""
    model = kz.library.pendulum_on_spring().with_values(a=2.4)
    rest = {"y": 0, "theta": 0, "y'": 0, "theta'": 0}
    (doubling,) = kz.follow(model, rest, "a", (2.3, 2.9), direction=1).of(Kind.DOUBLING)
    swinging = kz.switch_branch(doubling, (0.5, 4.0))
    start = model.with_values(a=float(swinging.values[-1, 0]))
    branch = kz.follow(start, swinging.orbit(-1), "a", (1.0, 4.5), direction=-1)
    assert [b.kind for b in branch.bifurcations] == [Kind.FOLD, Kind.PITCHFORK, Kind.FOLD]
    assert branch.bifurcations[1].value == pytest.approx(doubling.value, abs=1e-8)


def test_a_loop_whose_nodes_change_on_the_way_is_closed():
    """x = 0.3 sin t ± √(1 - p²): multipliers from 4e-6 to 3e5 along one loop, folds at p = ±1."""
    model = kz.Model.from_equations(
        "x' = 1 - (x - 0.3*sin(t))**2 - p**2 + 0.3*cos(t)",
        parameters={"p": 0.1}, period="2*pi", start={"x": 0.99}, name="ring",
    )  # fmt: skip
    branch = kz.follow(model, None, "p", (-2.0, 2.0), direction=1)
    assert branch.counts.max() > 1
    assert branch.ends[1] is End.CLOSED
    assert [b.value for b in branch.of(Kind.FOLD)] == pytest.approx([1.0, -1.0], abs=1e-8)
    assert len(branch.bifurcations) == 2


def test_a_rest_state_at_the_origin_is_followed():
    """x'' + 2ζx' + (1 + ε cos 2t) x = 0 loses its rest near ε = 4ζ (first order in ε, second order away)."""
    model = kz.Model.from_equations(
        "x'' + 0.02*x' + (1 + epsilon*cos(2*t))*x + x**3 = 0",
        parameters={"epsilon": 0.01}, period="pi", start={"x": 0.0, "x'": 0.0}, name="parametric",
    )  # fmt: skip
    branch = kz.follow(model, None, "epsilon", (0.0, 0.2), direction=1)
    (doubling,) = branch.bifurcations
    assert doubling.kind is Kind.DOUBLING
    assert doubling.value == pytest.approx(0.04, abs=2e-4)


def test_a_branch_that_begins_at_its_bound_has_that_point_once():
    branch = kz.follow(duffing(0.8), None, "omega", (0.8, 1.2))
    assert branch.ends == (End.BOUND, End.BOUND)
    assert (np.diff(branch.values[:, 0]) > 0).all()


def test_slips_of_the_keyboard_are_named():
    model = kz.Model.from_equations(
        "x'' + 0.1*x' + x + x**3 = B*cos(omega*t)", parameters={"B": 0.3, "omega": 0.8, "unused": 1.0},
        period="2*pi/omega", name="duffing",
    )  # fmt: skip
    with pytest.raises(KapitzaError, match='"unused" is in no equation of "duffing"'):
        kz.follow(model, None, "unused", (0.5, 2.0))
    with pytest.raises(KapitzaError, match='no setting "direcion"'):
        kz.follow(model, None, "omega", (0.5, 2.0), direcion=1)


@pytest.mark.parametrize("index", [9999, -9999, 1.5, "last", None])
def test_a_point_that_is_not_on_the_branch_is_named(response, index):
    with pytest.raises(KapitzaError, match=rf"give a whole number( from -{len(response)} to {len(response) - 1})?\."):
        response.orbit(index)


def test_points_are_counted_from_the_end_as_well(response):
    last = len(response) - 1
    assert np.array_equal(response.vector(-1), response.vector(last))
    for one, other in zip(response.nodes_of(-2), response.nodes_of(last - 1), strict=True):
        assert np.array_equal(one, other)


def test_equilibria_are_followed_on(tmp_path):
    """x² = p: the branch that was saved ends at p = 2, and goes on as √p."""
    model = kz.Model.from_equations("x' = p - x**2", parameters={"p": 1.0}, name="square root")
    part = kz.follow(model, {"x": 1.0}, "p", (0.5, 2.0), equilibrium=True)
    kz.save(part, tmp_path / "rest.nc")
    whole = kz.follow(kz.load(tmp_path / "rest.nc"), bounds=(0.5, 5.0))
    assert whole.values[-1, 0] == pytest.approx(5.0)
    assert whole.points[:, 0] == pytest.approx(np.sqrt(whole.values[:, 0]), rel=1e-10)
    assert len(whole.table()) == len(whole) > len(part)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b: kz.follow(b, "B", bounds=(0.5, 4.0)), "along its own parameter"),
        (lambda b: kz.follow(b, (0.5, 4.0)), "along its own parameter"),
        (lambda b: kz.follow(b, bounds=(0.5, 2.0)), "ended at omega = 3, outside"),
        (lambda b: kz.follow(b.bifurcations[0], ("omega", "B"), direcion=1), 'no setting "direcion" here'),
        (lambda b: kz.follow(duffing(), None, "omega", (0.5 - 1e-12, 0.5 + 1e-12)), "differ by rounding only"),
        (lambda b: kz.follow(duffing(), None, "omega", (0.4, 0.6), method=kz.Collocation), "not a periodic solver"),
        (lambda b: kz.follow(kz.library.trace_map(), None, "a", equilibrium=True), "is a map"),
        (lambda b: kz.follow(kz.library.lorenz(), "here", "rho", equilibrium=True), "The start"),
        (lambda b: kz.follow(kz.library.lorenz(), [np.nan, 0, 0], "rho", equilibrium=True), "give finite numbers"),
        (lambda b: b.of("folds"), "kind"),
        (lambda b: b.profiles(0), "samples = 0"),
        (lambda b: b.waterfall(of="q"), 'no state "q"'),
        (lambda b: b.waterfall(count=0), "count = 0"),
        (lambda b: kz.switch_branch(None), "bifurcation is None; give a Bifurcation"),
        (lambda b: kz.other_orbits(duffing(), None), "known"),
        (lambda b: kz.other_orbits(duffing(), [b]), "known, entry 0, is .*; give a PeriodicOrbit"),
        (lambda b: kz.other_orbits(duffing(), [], starts=0), "starts = 0"),
        (
            lambda b: kz.other_orbits(duffing(), [kz.PeriodicOrbit(states=("x",), points=[[0.4]], period=1.0)]),
            "known holds an orbit of x; .* give orbits of this model",
        ),
        (lambda b: kz.frequency_response(duffing(), "omega", (0.5, 2.0), force="B", levels=[]), "levels is empty"),
        (lambda b: kz.frequency_response(duffing(), "omega", (0.5, 2.0), force="B", levels="0.1"), "levels"),
        (lambda b: kz.frequency_response(duffing(), "omega", None, force="B"), "bounds"),
        (lambda b: kz.backbone(kz.Model.from_equations("x'' + x + x**3 = 0"), amplitude=0.0), "amplitude = 0"),
    ],
)
def test_what_verbs_of_branches_cannot_do_is_named(response, call, message):
    with pytest.raises(KapitzaError, match=message):
        call(response)


def test_search_for_a_zero_stays_between_its_ends():
    """A value at one end that is next to nothing: rounding led the secant past that end, where nothing is known."""
    from types import SimpleNamespace

    from kapitza.continuation.locate import Stretch

    def node(s):
        return SimpleNamespace(readings=s)

    stretch = object.__new__(Stretch)
    values = {0.08203627726790398: -2.008940995012009e-10, 0.08203627726838447: 1.5406659551238275e-20}
    stretch.known, asked = {s: node(s) for s in values}, []

    def at(s):
        asked.append(s)
        return stretch.known.setdefault(s, node(s))

    stretch.at = at
    stretch.zero(lambda s: values.get(s, -2e-10))
    assert asked
    assert all(min(values) <= s <= max(values) for s in asked)
