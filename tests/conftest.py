"""Fixtures that every test may use."""

import gc
import os
import sys
from functools import cache
from pathlib import Path

import hypothesis
import matplotlib
import pytest

import kapitza

matplotlib.use("Agg")

# The check of arguments is put in front of a public name when it is first used: every test sees it everywhere.
for _name in kapitza.__all__:
    getattr(kapitza, _name)

# Seeded like every test, and without a deadline: the first example pays for imports, a busy machine for all.
hypothesis.settings.register_profile("kapitza", deadline=None, derandomize=True)
hypothesis.settings.load_profile("kapitza")

# A walk over all that models and compiled code hold, after every few hundred objects, is a tenth of the suite's time.
gc.set_threshold(100_000, 50, 100)

# Processes that tests start would compile every module of the project anew, a second each.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

ROOT = Path(__file__).resolve().parent.parent

LONG = (
    "hostile/test_hostile.py", "test_examples.py", "test_docstrings.py", "test_monitor.py", "test_executor.py",
    "test_ensembles.py", "test_fit_matrix.py", "study/test_running.py", "saving/test_saving.py",
)  # fmt: skip
"""Files whose single tests take long: begun first, so that no worker is left alone with one of them at the end."""


QUICK = (
    "base/", "data/", "library/", "model/", "signal/", "solve/", "saving/test_corpus.py",
    "continuation/test_equilibria.py", "continuation/test_families.py", "continuation/test_maps.py",
    "orbits/of_models/test_floquet.py",
    "orbits/of_models/test_pieces.py", "estimate/invariant_fit/conserved/test_terms.py", "test_architecture.py",
    "test_one_table.py",
)  # fmt: skip
"""Folders and files of `make quick`: theory of the parts, without fits; files that start processes are left out."""


@cache
def is_quick(path: Path) -> bool:
    """Tell whether a file of tests belongs to `make quick`."""
    place = path.relative_to(ROOT / "tests").as_posix()
    if not place.startswith(QUICK):
        return False
    text = path.read_text(encoding="utf-8")
    return not any(word in text for word in ("subprocess", "import processes", "multiprocessing", "workers="))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if is_quick(item.path):
            item.add_marker("quick")
    places = [str(ROOT / "tests" / name) for name in LONG]
    items.sort(key=lambda item: places.index(str(item.path)) if str(item.path) in places else len(places))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--signs", type=int, default=None, help="random signs of eigenvectors, from this seed")
    parser.addoption("--other-code", action="store_true", help="code of the integrator that rounds otherwise")


def pytest_configure(config: pytest.Config) -> None:
    seed = config.getoption("--signs")
    if seed is not None:
        import other_signs

        other_signs.install(seed)
    if config.getoption("--other-code"):
        import other_code

        other_code.install()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly at the end what was not tested, why, and how to get it tested."""
    reasons: dict[str, int] = {}
    for report in terminalreporter.stats.get("skipped", []):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reasons[why.removeprefix("Skipped: ")] = reasons.get(why.removeprefix("Skipped: "), 0) + 1
    if reasons:
        terminalreporter.section(f"NOT TESTED: {sum(reasons.values())} tests were skipped", red=True, bold=True)
        for why, count in sorted(reasons.items()):
            terminalreporter.line(f"{count:5d}  {why}", red=True)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Folder of measured data by others: $KAPITZA_DATA, or ../shared/data beside the repository."""
    folder = Path(os.environ.get("KAPITZA_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no measured data in {folder}; set KAPITZA_DATA to a folder that holds them")
    return folder


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
