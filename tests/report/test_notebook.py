"""Nouns in notebooks and papers: every one has HTML and LaTeX, names stay text, tables of others come in and go out."""

from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from nbclient import NotebookClient

import kapitza as kz
from kapitza.estimate import Prediction
from kapitza.report import as_html, as_latex

EVIL = "<script>alert(1)</script>"
NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebooks" / "table_to_parameters.ipynb"
TRUTH = {"c": 0.3, "k": 4.0}


@pytest.fixture(scope="module")
def fit():
    model = kz.Model.from_equations("x'' + c*x' + k*x = 0", parameters=TRUTH, name=EVIL, description=EVIL)
    record = kz.measure(kz.simulate(model, [1.0, 0.0], t=np.arange(300) * 0.05).select(["x"]), noise=0.01, seed=1)
    return kz.identify(model, record, free=["c", "k"], method=kz.ShootingFit())


def nouns(fit):
    orbit = kz.solve_orbit(kz.library.duffing())
    return {
        "model": fit.model,
        "map": kz.Model.from_map({"x": "1 - a*x**2"}, parameters={"a": 1.4}),
        "record": kz.Record.from_arrays(fit.data.time, {EVIL: fit.data["x"]}),
        "inspection": kz.inspect(fit.data),
        "orbit": orbit,
        "orbits": kz.OrbitSet((orbit, orbit), message=EVIL),
        "estimate": fit,
        "prediction": Prediction(np.arange(3.0), np.array([[0.5], [1.0], [-2.0]]), 2.0),
    }


def test_every_noun_has_html_and_latex_in_which_names_stay_text(fit):
    for name, noun in nouns(fit).items():
        html, latex = noun._repr_html_(), noun.to_latex()
        assert html == as_html(noun), name
        assert latex == as_latex(noun), name
        assert "<script" not in html, name
        assert "<table" in html or "<ul" in html, name
        environment = latex.partition("{")[2].partition("}")[0]
        assert latex.startswith(rf"\begin{{{environment}}}"), name
        assert latex.rstrip().endswith(rf"\end{{{environment}}}"), name
        assert latex.count("{") - latex.count(r"\{") == latex.count("}") - latex.count(r"\}"), name


def test_equations_and_parameters_are_in_them(fit):
    assert r"c \dot{x} + k x + \ddot{x} &= 0" in fit.model.to_latex()
    assert fit.model._repr_latex_().startswith("$$")
    assert f"{fit.values['k']:.6g}" in fit._repr_html_()
    assert f"{fit.values['k']:.6g}" in fit.to_latex()
    assert r"\toprule" in fit.to_latex()
    assert r"1 \cdot 10^{-6}" in as_latex(Prediction(np.zeros(1), np.array([[1e-6]]), 1.0)).replace("$", "")


def test_tables_of_pandas_and_xarray_are_data(fit):
    record = fit.data
    start = fit.model.with_values(c=0.2, k=3.5)
    frame = pd.DataFrame({"t [ms]": 1e3 * record.time, "x": record["x"]})
    indexed = pd.DataFrame({"x": record["x"]}, index=pd.Index(record.time, name="t"))
    clocked = pd.DataFrame({"x": record["x"]}, index=pd.to_timedelta(record.time, unit="s"))
    dataset = xr.Dataset({"x": ("time", record["x"])}, coords={"time": ("time", 1e3 * record.time, {"units": "ms"})})
    for data in (frame, indexed, dataset, record.dataset, record.to_frame(), clocked, [frame], [(indexed, {})]):
        again = kz.identify(start, data, free=["c", "k"], method=kz.ShootingFit())
        assert again.values["k"] == pytest.approx(fit.values["k"], rel=1e-6)
    assert kz.inspect(frame).record.size == record.size
    degrees = pd.DataFrame({"t": [0.0, 1.0, 2.0], "phi": [0.0, 90.0, 180.0]})
    degrees.attrs["units"] = {"phi": "deg"}
    assert kz.Record.from_frame(degrees)["phi"] == pytest.approx([0, np.pi / 2, np.pi])
    for wrong, said in (
        (pd.DataFrame({"x": [1.0, 2.0]}), "called time"),
        (xr.Dataset({"x": (("a", "b"), np.zeros((2, 2)))}), "dimensions"),
        (pd.DataFrame([[0.0, 1.0, 2.0]], columns=["t", "x", "x"]), "several columns"),
    ):
        with pytest.raises(kz.KapitzaError, match=said):
            kz.Record.from_frame(wrong)


def test_estimates_go_to_csv_netcdf_and_arviz(fit, tmp_path):
    fit.to_csv(tmp_path / "fit.csv")
    table = pd.read_csv(tmp_path / "fit.csv", index_col="name")
    assert table.loc["k", "value"] == fit.values["k"]
    kz.save(fit, tmp_path / "fit.nc")
    assert kz.load(tmp_path / "fit.nc").values == fit.values
    draws = fit.to_arviz(draws=4000).posterior
    assert float(draws["k"].std()) == pytest.approx(fit.deviations["k"], rel=0.1)
    assert np.corrcoef(draws["c"][0], draws["k"][0])[0, 1] == pytest.approx(fit.correlation[0, 1], abs=0.06)


def test_posteriors_of_motions_and_of_equations(fit):
    # nearly linear in the parameters: the posterior is the Gaussian of the fit
    harmonic = kz.identify(fit.model, fit.data, free=["c", "k"], method=kz.HarmonicFit())
    for one in (fit, harmonic):
        samples = kz.posterior(one, draws=400, tune=100, seed=2).posterior
        for name in ("c", "k"):
            assert float(samples[name].mean()) == pytest.approx(one.values[name], abs=0.25 * one.deviations[name])
            assert float(samples[name].std()) == pytest.approx(one.deviations[name], rel=0.15)
        assert samples.attrs["log_p_error"] < 0.1


def test_a_posterior_is_cut_at_a_bound_and_follows_the_model():
    # x' = -k x seen for a short while: k is hardly known, and positive
    model = kz.Model.from_equations("x' + k*x = 0", parameters=[kz.Parameter("k", 0.02, bounds=(0.0, np.inf))])
    record = kz.measure(kz.simulate(model, [1.0], t=np.arange(40) * 0.1), noise=0.05, seed=3)
    fit = kz.identify(model, record, free=["k"], method=kz.ShootingFit())
    samples = kz.posterior(fit, draws=300, tune=100, seed=1).posterior["k"]
    assert float(samples.min()) >= 0.0
    with pytest.raises(kz.KapitzaError, match="no likelihood to sample"):
        kz.posterior(kz.identify(kz.library.henon_heiles(), kz.simulate(
            kz.library.henon_heiles(), t=np.arange(400) * 0.1), free=["b"], method=kz.InvariantFit()))  # fmt: skip


def test_the_notebook_runs():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", ())]
    assert not [out for out in outputs if out["output_type"] == "error"]
    shown = [out["data"] for out in outputs if "data" in out]
    assert sum("text/html" in data for data in shown) >= 6
    assert sum("image/png" in data for data in shown) == 1
    printed = "".join(out.get("text", "") for out in outputs)
    assert "Coulomb friction of phi" in printed
    assert r"\toprule" in printed
