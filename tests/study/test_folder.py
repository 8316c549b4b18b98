"""Results folders: only what a study wrote is replaced, by one run at a time; a stop keeps finished fits."""

import json
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

import kapitza as kz
from cart_study import CART
from kapitza.base.files import locked
from kapitza.errors import LockedError, WriteError
from kapitza.study import StudyError, keeping_copy, read_results, read_study, running
from kapitza.study.fits import StudyFit
from kapitza.study.folder import MARK, working_folder


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "run.csv"
    model = kz.Model.from_equations(
        "x'' + c*x' + k*x = 0", parameters={"c": 0.3, "k": 4.0}, start={"x": 1.0, "x'": 0.0}
    )
    kz.write(kz.measure(kz.simulate(model, t=np.linspace(0, 6, 121)).select(["x"]), noise=0.01, seed=1), path)
    return path


@pytest.fixture
def place(tmp_path, recording):
    """A folder of the user's with a study in it."""
    place = tmp_path / "box"
    place.mkdir()
    (place / "run.csv").write_bytes(recording.read_bytes())
    write(place)
    return place


@pytest.fixture
def without_fits(monkeypatch):
    """Studies whose fits fail at once: what they write into a folder is the same."""

    def failed(study, step):
        return StudyFit(step.candidate.name, step.method, failure="No fit was made.")

    monkeypatch.setattr(running, "run_step", failed)


def write(place: Path, output: str = "", method: str = '"harmonic"') -> Path:
    text = CART.replace("[fit]\n", f"[fit]\nmethod = {method}\n") + f"\n[output]\nreport = false\n{output}"
    (place / "cart.toml").write_text(text, encoding="utf-8")
    return place / "cart.toml"


def names(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if not p.is_dir()}


def test_a_folder_with_a_file_of_the_same_name_is_not_taken_for_results(place):
    (place / "v").mkdir()
    (place / "v" / "result.json").write_text("{}")
    (place / "v" / "thesis.txt").write_text("mine")
    with pytest.raises(StudyError, match="not results of a study"):
        read_study(write(place, 'folder = "v"'))
    assert names(place / "v") == {"result.json", "thesis.txt"}


def test_results_of_an_earlier_version_are_kept_and_explained(place, without_fits):
    read_study(write(place)).run()
    folder = place / "cart-results"
    (folder / MARK).unlink()
    before = names(folder)
    with pytest.raises(StudyError, match=r"earlier version of Kapitza.*Move the folder away"):
        read_study(write(place))
    assert names(folder) == before
    read_results(folder)
    folder.rename(place / "mine")
    part = working_folder(folder)
    (part / "fits").mkdir(parents=True)
    (part / "identity.json").write_text("{}")
    with pytest.raises(WriteError, match="unfinished run of an earlier version"):
        read_study(write(place)).run()
    assert names(part) == {"identity.json"}


@pytest.mark.parametrize("folder", [".", "..", "../box", "../../{0}/box", "x/../../box", "link", "{1}", "a\\u0000b"])
def test_a_folder_that_holds_the_study_or_its_data_is_refused(place, folder):
    (place / "link").symlink_to(place.parent)
    folder = folder.format(place.parent.name, place)
    with pytest.raises(StudyError, match=r"holds the study itself|cannot be used"):
        read_study(write(place, f'folder = "{folder}"'))


def test_a_folder_that_holds_the_data_or_is_inside_of_them_is_refused(place):
    (place / "data").mkdir()
    (place / "run.csv").rename(place / "data" / "run.csv")
    path = write(place, 'folder = "data"')
    path.write_text(path.read_text().replace('"run.csv"', '"data/run.csv"'))
    with pytest.raises(StudyError, match=r"holds the file run\.csv that the study reads"):
        read_study(path)
    assert names(place) == {"cart.toml", "data/run.csv"}
    kz.write(kz.read(place / "data" / "run.csv"), place / "run.zarr")
    path = write(place, 'folder = "run.zarr/results"')
    path.write_text(path.read_text().replace('"run.csv"', '"run.zarr"'))
    with pytest.raises(StudyError, match=r"is inside of run\.zarr"):
        read_study(path)


@pytest.mark.usefixtures("without_fits")
def test_the_working_directory_is_not_replaced(place, monkeypatch):
    read_study(place / "cart.toml").run()
    monkeypatch.chdir(place / "cart-results" / "fits")
    with pytest.raises(WriteError, match="is the working directory"):
        read_study(place / "cart.toml").run()
    assert (place / "cart-results" / "result.json").is_file()


@pytest.mark.usefixtures("without_fits")
def test_what_the_user_put_into_the_results_is_kept(place):
    first = read_study(place / "cart.toml").run()
    results = place / "cart-results"
    (results / "notes.txt").write_text("mine")
    (results / "mine" / "empty").mkdir(parents=True)
    (results / "fits" / "sketch.svg").write_text("mine")
    (results / "mine" / "data").symlink_to("../../run.csv")
    again = read_study(place / "cart.toml").run()
    assert str(again) == str(first)
    assert (results / "notes.txt").read_text() == "mine"
    assert (results / "fits" / "sketch.svg").read_text() == "mine"
    assert (results / "mine" / "empty").is_dir()
    assert (results / "mine" / "data").samefile(place / "run.csv")
    assert {p.name for p in place.iterdir()} == {"cart.toml", "run.csv", "cart-results"}
    assert "notes.txt" not in json.loads((results / MARK).read_text())["files"]


@pytest.mark.usefixtures("without_fits")
@pytest.mark.parametrize("name", ["parameters.csv", "comparison.csv", "fits/cart-harmonic.nc"])
def test_what_the_user_edited_is_not_overwritten(place, name):
    """Also a file that the study has not written, but could."""
    read_study(place / "cart.toml").run()
    (place / "cart-results" / name).write_text("mine")
    with pytest.raises(WriteError, match=rf"{name} is not as the study wrote it"):
        read_study(place / "cart.toml").run()
    assert (place / "cart-results" / name).read_text() == "mine"
    os.rename(place / "cart-results" / name, place / "cart-results" / "kept")
    read_study(place / "cart.toml").run()
    assert (place / "cart-results" / "kept").read_text() == "mine"


@pytest.mark.usefixtures("without_fits")
def test_pipes_in_the_results_are_refused_by_name(place):
    read_study(place / "cart.toml").run()
    os.mkfifo(place / "cart-results" / "pipe")
    with pytest.raises(WriteError, match="pipe is a device or a pipe"):
        read_study(place / "cart.toml").run()


@pytest.mark.usefixtures("without_fits")
def test_a_file_that_comes_while_the_study_runs_is_kept(place):
    read_study(place / "cart.toml").run()
    late = place / "cart-results" / "late.txt"

    class Visitor:
        cancelled = False

        def show(self, progress):
            if progress.text == "results":
                late.write_text("mine")

    read_study(place / "cart.toml").run(Visitor())
    assert late.read_text() == "mine"


@pytest.mark.usefixtures("without_fits")
def test_neighbours_of_the_results_are_not_removed(place):
    for name in (".cart-results.part", ".cart-results.old"):
        (place / name).mkdir()
        (place / name / "thesis.txt").write_text("mine")
    with pytest.raises(WriteError, match=r"\.cart-results\.part is not of an unfinished run"):
        read_study(place / "cart.toml").run()
    (place / ".cart-results.part").rename(place / "mine")
    read_study(place / "cart.toml").run()
    assert (place / ".cart-results.old" / "thesis.txt").read_text() == "mine"
    assert (place / "mine" / "thesis.txt").read_text() == "mine"


def test_a_file_in_an_unfinished_run_is_not_removed(place):
    stop_at(place, 3)
    working = working_folder(place / "cart-results")
    (working / "fits" / "thesis.txt").write_text("mine")
    with pytest.raises(WriteError, match=r"thesis\.txt is not of an unfinished run"):
        read_study(place / "cart.toml").run()
    assert (working / "fits" / "thesis.txt").read_text() == "mine"


@pytest.mark.usefixtures("without_fits")
@pytest.mark.parametrize("there", [True, False])
def test_a_linked_results_folder_stays_a_link(place, there):
    elsewhere = place.parent / "disk"
    elsewhere.mkdir()
    if there:
        (elsewhere / "results").mkdir()
    (place / "cart-results").symlink_to(elsewhere / "results")
    for _ in range(2):
        result = read_study(place / "cart.toml").run()
        assert (place / "cart-results").is_symlink()
        assert str(read_results(place / "cart-results")) == str(result)
    assert [p.name for p in elsewhere.iterdir()] == ["results"]


@pytest.mark.usefixtures("without_fits")
def test_two_runs_at_once_are_refused_with_the_holder(place):
    with locked(place / "cart-results"):
        with pytest.raises(LockedError, match=rf"cart-results.*in use by process {os.getpid()} "):
            read_study(place / "cart.toml").run()
        command = [sys.executable, "-m", "kapitza", "identify", str(place / "cart.toml"), "--quiet"]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert (ran.returncode, ran.stdout) == (4, "")
        assert f"in use by process {os.getpid()} on" in ran.stderr
    read_study(place / "cart.toml").run()


class StopAt:
    """Cancels at its n-th report."""

    def __init__(self, number: int):
        self.left = number

    @property
    def cancelled(self) -> bool:
        return self.left <= 0

    def show(self, progress):
        self.left -= 1


def stop_at(place: Path, number: int) -> bool:
    """Return whether a run was stopped at its n-th report."""
    try:
        read_study(place / "cart.toml").run(StopAt(number), resume=True)
    except KeyboardInterrupt:
        return True
    return False


def test_a_stop_at_any_report_keeps_finished_fits_and_no_half_one(place):
    """A fit that was stopped was taken for an answer, or ended in an AssertionError when its motion was drawn."""
    whole = read_study(write(place, method='["harmonic", "shooting"]')).run()
    expected = {p.name: p.read_bytes() for p in (place / "cart-results" / "fits").iterdir()}
    assert len(expected) == 4
    fits = working_folder(place / "cart-results") / "fits"
    kept, stops = set(), 0
    # Every second report; the runs go on from each other, so each of them is stopped in another place.
    while stop_at(place, 3 + 2 * stops):
        now = {p.name: p.read_bytes() for p in fits.iterdir()}
        assert kept <= set(now)
        assert now.items() <= expected.items()
        kept, stops = set(now), stops + 1
    assert stops > 5
    assert kept
    assert str(read_results(place / "cart-results")) == str(whole)
    assert not fits.exists()


def test_a_damaged_fit_of_a_stopped_run_is_made_again(place):
    whole = read_study(write(place, method='["harmonic", "shooting"]')).run()
    fits = working_folder(place / "cart-results") / "fits"
    number = 3
    while not fits.is_dir() or not any(fits.iterdir()):
        assert stop_at(place, number)
        number += 3
    for path in fits.iterdir():
        path.write_bytes(path.read_bytes()[:-40])
    assert str(read_study(place / "cart.toml").run(resume=True)) == str(whole)


def test_a_new_report_belongs_to_the_results(place):
    from kapitza.cli import main

    read_study(place / "cart.toml").run()
    with pytest.raises(SystemExit, match="0"):
        main(["report", str(place / "cart-results")])
    assert (place / "cart-results" / "report.html").is_file()
    read_study(place / "cart.toml").run()
    assert not (place / "cart-results" / "report.html").exists()


@pytest.mark.parametrize("name", ["run.zarr", "run.parquet"])
def test_data_that_are_a_folder_have_a_checksum(place, name, without_fits):
    kz.write(kz.read(place / "run.csv"), place / name, append=True)
    study = place / "cart.toml"
    study.write_text(study.read_text().replace("run.csv", name))
    told = read_study(study).run(kz.Silent()).checksums
    files = [path for path in (place / name).rglob("*") if path.is_file()]
    files.sort(key=lambda path: path.relative_to(place / name).as_posix())
    lines = [
        f"{sha256(path.read_bytes()).hexdigest()}  {path.relative_to(place / name).as_posix()}\n" for path in files
    ]
    assert len(lines) > 0
    assert told == {name: sha256("".join(lines).encode()).hexdigest()}
    kz.write(kz.read(place / "run.csv"), place / name, append=True)
    assert read_study(study).run(kz.Silent()).checksums != told


def stopped_run(folder):
    """Stop a run over older results before it replaces them."""
    with pytest.raises(KeyboardInterrupt), keeping_copy(folder):
        raise KeyboardInterrupt


def failed_run(folder, study):
    """Fail behind a run that has replaced the older results."""
    with keeping_copy(folder):
        read_study(study).run()
        raise OSError("the disk is full")


def test_a_stopped_run_leaves_no_copy_of_the_older_results(place, without_fits):
    results = read_study(write(place)).run().folder
    stopped_run(results)
    assert not (place / "cart-results-1").exists()
    with keeping_copy(results) as kept:
        (results / "mine.txt").write_text("a note")
    assert kept == place / "cart-results-1"
    # The same results are not copied again, as after a run that was killed; the copy there stays.
    with keeping_copy(results) as again:
        assert again == kept
    stopped_run(results)
    assert names(kept) == names(results) - {"mine.txt"}
    # A run that has replaced the results before it failed keeps what was there.
    read_study(write(place, method='"shooting"')).run()
    with pytest.raises(OSError, match="full"):
        failed_run(results, write(place, method='"harmonic"'))
    assert sorted(p.name for p in place.glob("cart-results-*")) == ["cart-results-1", "cart-results-2"]
