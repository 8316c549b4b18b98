"""What a first simulation and fit load: names of modules, not times, which depend on the machine."""

import subprocess
import sys

HEAVY = (
    "IPython", "arviz", "dask", "h5py", "jinja2", "matplotlib", "odrpack", "pandas", "pint", "plotly", "pyarrow",
    "rich", "scipy.integrate", "scipy.interpolate", "scipy.io", "scipy.optimize", "scipy.signal", "scipy.spatial",
    "scipy.stats", "typer", "xarray", "zarr",
)  # fmt: skip
"""Modules that take 50 ms of processor or more to import and are not needed for a fit of a smooth model."""

FIRST_FIT = """
import sys
import kapitza as kz
model = kz.library.duffing()
record = kz.simulate(model, periods=4, samples_per_period=40, noise=0.01, seed=1)
fit = kz.identify(model, record, free=["k", "B"])
assert fit.status.ok
assert str(fit) and str(record)
loaded = set(sys.modules)
print(sorted(loaded & set({heavy!r})))
assert fit.history is not None and len(fit.history)
assert record.dataset["x"].size == record.size
print(sorted({{"pandas", "xarray"}} - set(sys.modules)))
"""


def test_a_first_fit_loads_no_heavy_module_that_it_does_not_need():
    code = FIRST_FIT.format(heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    # The second line: history and dataset are there once they are asked for.
    assert done.stdout.splitlines() == ["[]", "[]"]
