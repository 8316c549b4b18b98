"""What a branch is followed of: its candidate, its values, its range, and what is said where there is none."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("nicegui", reason="the studio is not installed: pip install 'kapitza[studio]'")

import kapitza as kz
from kapitza.continuation import End
from kapitza.errors import KapitzaError
from kapitza.studio.followed import ends_of, old_branch, sources, suggested_range, usual, wrong_range
from kapitza.studio.work import branch_list, follow_branch, work_folder

ARM = """# An arm that swings down.
[[model]]
name = "free"
equations = ["phi'' + c*phi' + k*sin(phi) = 0"]
parameters = {c = 0.3, k = 16.0}

[[model]]
name = "driven"
equations = ["phi'' + c*phi' + k*sin(phi) = F*cos(omega*t)"]
parameters = {c = 0.3, k = 16.0, F = 1.0, omega = 3.0}
excitation = {period = "2*pi/omega"}

[[model]]
name = "self-excited"
equations = ["phi'' - c*(1 - phi**2)*phi' + k*phi = 0"]
parameters = {c = 0.3, k = 16.0}

[data]
file = "arm.csv"
channels = ["phi"]

[fit]
free = ["c", "k"]
"""

TABLES = [{"name": "a", "equations": ["x'' + k*x = 0"], "parameters": {"k": 1.0}},
          {"name": "b", "equations": ["x'' + k*x + x**3 = 0"], "parameters": {"k": 1.0}}]  # fmt: skip


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    folder = tmp_path_factory.mktemp("arm")
    model = kz.Model.from_equations("phi'' + c*phi' + k*sin(phi) = 0", parameters={"c": 0.3, "k": 16.0})
    record = kz.measure(kz.simulate(model, [1.0, 0.0], t=np.arange(200) * 0.05), noise=0.001, seed=1)
    kz.write(record.select(["phi"]), folder / "arm.csv")
    (folder / "arm.toml").write_text(ARM, encoding="utf-8")
    return folder / "arm.toml"


def followed(study, **changes):
    asked = {"study": str(study), "low": 0.2, "high": 0.5, "parameter": "c", **changes}
    return follow_branch(asked, lambda line: None, kz.Silent())


def test_a_motion_that_dies_out_is_named_with_what_to_do(arm):
    with pytest.raises(KapitzaError, match=r'"free" dies out \(.* after 40 periods\).*Add a drive.*rest state'):
        followed(arm, candidate="free")
    assert followed(arm, candidate="free", rest=True)["points"] > 2


def test_the_candidate_that_was_chosen_is_followed(arm):
    asked = {"parameter": "omega", "low": 2.8, "high": 3.2}
    assert followed(arm, candidate="driven", mark="m", **asked)["points"] > 2
    folder = work_folder(arm)
    assert kz.load(folder / "branch-0.nc").model.name == "driven"
    assert branch_list(folder)[0]["request"]["mark"] == "m"
    # Without a drive and without a fit: the limit cycle, from the motion after it has settled.
    assert followed(arm, candidate="self-excited")["points"] > 2
    branch = kz.load(folder / "branch-0.nc")
    np.testing.assert_allclose(branch.amplitude("phi"), 2.0, rtol=0.01)


def fitted_as(tables, **values):
    """Return results of a study with these candidates, the second of which was fitted."""
    text = "".join(
        f"[[model]]\nname = '{t['name']}'\nequations = [\"{t['equations'][0]}\"]\nparameters = {{k = 1.0}}\n"
        for t in tables
    )
    fit = SimpleNamespace(candidate="b", answer=SimpleNamespace(model=SimpleNamespace(values=values)))
    return SimpleNamespace(study=text, succeeded=(fit,), chosen=fit)


def test_a_branch_is_old_once_its_model_or_its_fit_has_changed():
    now = {"model": TABLES}
    request = {"candidate": "a", "mark": sources(now, None)[0].mark}
    assert old_branch(request, sources(now, None)) == ""
    other = {"model": [TABLES[0], {**TABLES[1], "parameters": {"k": 2.0}}]}
    assert old_branch(request, sources(other, None)) == ""
    changed = {"model": [{**TABLES[0], "parameters": {"k": 2.0}}, TABLES[1]]}
    assert 'the branch of "a" as it was before' in old_branch(request, sources(changed, None))
    assert old_branch(request, sources({"model": TABLES[1:]}, None)) != ""
    # Branches of earlier versions hold no mark.
    assert old_branch({"parameter": "k"}, sources(changed, None)) == ""
    result = fitted_as(TABLES, k=1.1)
    found = sources(now, result)
    assert [one.label for one in found] == ["a, at its start values", "b, as fitted"]
    assert usual(found, result) == 1
    request = {"candidate": "b", "mark": found[1].mark}
    assert old_branch(request, found) == ""
    assert old_branch(request, sources(now, fitted_as(TABLES, k=1.2))) != ""
    # A candidate that was changed since the fit is followed at the values that it has now.
    assert [one.fitted for one in sources(other, result)] == [False, False]


def test_a_range_follows_the_value_and_may_go_downwards():
    assert suggested_range(6.0) == ("3", "9")
    assert suggested_range(-2.0) == ("-3", "-1")
    assert suggested_range(math.nan) is None
    assert "begins at omega = 6" in wrong_range("omega", 0.5, 1.5, 6.0)
    assert wrong_range("omega", 9.0, 3.0, 6.0) == ""
    assert "no range" in wrong_range("omega", 3.0, 3.0, 6.0)


def test_a_branch_says_why_it_ends_before_its_range():
    ends = {"ends": (End.BOUND, End.HOPF), "end_messages": ("p = 1", "steps of 1e-9")}
    branch = SimpleNamespace(parameter="p", values=np.array([[1.0], [1.7]]), **ends)
    assert ends_of(branch) == (
        "It ends at p = 1.7: the orbits shrink to an equilibrium at a Hopf point (steps of 1e-9)."
    )
    assert ends_of(SimpleNamespace(**{**vars(branch), "ends": (End.BOUND, End.BOUND)})) == ""
