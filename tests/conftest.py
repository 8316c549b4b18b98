"""Fixtures that every test may use."""

import os
from pathlib import Path

import hypothesis
import matplotlib
import pytest

matplotlib.use("Agg")

# Seeded like every test, and without a deadline: the first example pays for imports, a busy machine for all.
hypothesis.settings.register_profile("kapitza", deadline=None, derandomize=True)
hypothesis.settings.load_profile("kapitza")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Folder of measured data by others: $KAPITZA_DATA, or ../shared/data beside the repository."""
    folder = Path(os.environ.get("KAPITZA_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no measured data in {folder}; set KAPITZA_DATA to a folder that holds them")
    return folder


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")
