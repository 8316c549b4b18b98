"""save and load: every noun comes back equal, fits go on as before, other files are refused."""

import hashlib
import json

import h5py
import numpy as np
import pytest
from tests.saving.nouns import assert_same

import kapitza as kz
from henon_map import henon
from kapitza.errors import DataError, KapitzaError
from kapitza.saving import sealed, verbs


@pytest.fixture(scope="module")
def pendulum():
    return kz.library.parametric_pendulum()


@pytest.fixture(scope="module")
def record(pendulum):
    return kz.simulate(pendulum, periods=8000, noise={"phi": 0.003, "phi'": 0.02}, seed=1)


@pytest.fixture(scope="module")
def found(record):
    return kz.find_orbits(record, max_period=2)


@pytest.fixture(scope="module")
def orbit_fit(pendulum, found):
    return kz.identify(pendulum.with_values(m=0.09), found, ["m", "l"], method=kz.OrbitFit(multipliers=True))


def nouns(pendulum, record, found, orbit_fit):
    """One of every noun, with as many of its parts as there are."""
    duffing = kz.library.duffing()
    shot = kz.solve_orbit(duffing, wrt=("k",))
    series = kz.simulate(duffing, t=np.arange(0, 20, 0.05), noise=0.01, seed=2)
    points = henon(3000)
    strobed = kz.Record.from_arrays(np.arange(3000.0), {"x": points[:, 0], "y": points[:, 1]}, period=1.0)
    return {
        "shot orbit": shot,
        "collocated orbit": kz.solve_orbit(duffing, shot, method=kz.Collocation()),
        "harmonic orbit": kz.solve_orbit(duffing, shot, method=kz.HarmonicBalance()),
        "orbits of a record": found,
        "orbits of a model": kz.find_orbits(duffing, 1, starts=64, rounds=2, region={"x": (-2, 2), "x'": (-2, 2)}),
        "orbits of a free motion": kz.find_orbits(kz.library.lorenz(), 2, section="z - 27", starts=200),
        "branch": kz.follow(duffing, shot, "B", bounds=(0.9 * duffing.values["B"], 1.1 * duffing.values["B"])),
        "record": record,
        "inspection": kz.inspect(strobed),
        "model": pendulum,
        "orbit fit": orbit_fit,
        "series fit": kz.identify(duffing.with_values(k=0.06), series, ["k"], method=kz.ShootingFit()),
        "weak fit": kz.identify(duffing, series, ["k", "B"], method=kz.HarmonicFit()),
    }


@pytest.fixture(scope="module")
def saved(pendulum, record, found, orbit_fit, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    made = nouns(pendulum, record, found, orbit_fit)
    return {name: (noun, kz.save(noun, folder / f"{name}.nc")) for name, noun in made.items()}


NAMES = (
    "shot orbit", "collocated orbit", "harmonic orbit", "orbits of a record", "orbits of a model",
    "orbits of a free motion", "branch", "record", "inspection", "model", "orbit fit", "series fit", "weak fit",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_every_part_comes_back_equal(saved, name):
    noun, path = saved[name]
    assert assert_same(noun, kz.load(path)) > 3


def test_a_loaded_orbit_set_gives_the_same_fit(saved, pendulum, orbit_fit):
    """With multipliers: their covariance with the points and the influence of the samples are needed for it."""
    again = kz.load(saved["orbits of a record"][1])
    fit = kz.identify(pendulum.with_values(m=0.09), again, ["m", "l"], method=kz.OrbitFit(multipliers=True))
    assert fit.values == orbit_fit.values
    assert np.array_equal(fit.covariance, orbit_fit.covariance)


def test_a_loaded_estimate_goes_on_where_it_was(saved):
    noun, path = saved["series fit"]
    loaded = kz.load(path)
    again = kz.identify(loaded.model.with_values(**loaded.start), loaded.data, loaded.names, method=loaded.settings)
    assert again.values == noun.values
    assert np.array_equal(again.covariance, noun.covariance)
    assert str(loaded) == str(noun)


def test_a_loaded_orbit_is_a_guess_as_good_as_the_orbit(saved):
    noun, path = saved["shot orbit"]
    one, other = (kz.solve_orbit(kz.library.duffing(), guess) for guess in (noun, kz.load(path)))
    assert np.array_equal(one.points, other.points)


def test_saving_twice_gives_the_same_bytes_of_facts(saved, tmp_path):
    path = saved["orbit fit"][1]
    again = kz.save(kz.load(path), tmp_path / "again.nc")
    facts, arrays = sealed.read_sealed(path)
    later, others = sealed.read_sealed(again)
    assert facts == later
    assert all(np.array_equal(arrays[name], others[name]) for name in arrays)


def test_other_programs_read_the_arrays(saved):
    import xarray as xr

    noun, path = saved["record"]
    with xr.open_dataset(path, engine="h5netcdf") as opened:
        assert np.array_equal(opened["dataset_phi"].values, noun["phi"])
        assert json.loads(opened["facts"].values.tobytes())["format"] == 1


@pytest.mark.parametrize("way", ["external storage", "virtual dataset", "external link", "soft link", "words", "group"])
def test_a_sealed_file_that_points_elsewhere_is_refused(way, tmp_path):
    """A checksum that is right says nothing about who wrote it: numbers of other files do not come in."""
    secret, path = tmp_path / "secret.bin", tmp_path / "made.nc"
    secret.write_bytes(np.arange(3.0).tobytes())
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = np.arange(3.0)
    with h5py.File(path, "w") as file:
        file["facts"] = np.frombuffer(b"{}", np.uint8)
        if way == "external storage":
            file.create_dataset("x", (3,), "f8", external=[(str(secret), 0, 24)])
        elif way == "virtual dataset":
            layout = h5py.VirtualLayout((3,), "f8")
            layout[:] = h5py.VirtualSource(tmp_path / "other.h5", "x", (3,))
            file.create_virtual_dataset("x", layout)
        elif way == "group":
            file.create_group("x")
        else:
            links = {"external link": h5py.ExternalLink("other.h5", "/x"), "soft link": h5py.SoftLink("/facts")}
            file["x"] = links.get(way, "words")
    content = path.read_bytes()
    path.write_bytes(content + sealed.SEAL + hashlib.sha256(content).hexdigest().encode())
    with pytest.raises(DataError, match="no array" if way in ("words", "group") else "which is not followed"):
        kz.load(path)


def test_what_cannot_be_written_is_refused(found, tmp_path):
    method = kz.SectionSearch(partition=lambda points: ["A"] * len(points))
    with pytest.raises(DataError, match=r"Its part partition is a builtins\.function"):
        kz.save(method, tmp_path / "method.nc")
    with pytest.raises(DataError, match="cannot be saved without loss"):
        kz.save(object(), tmp_path / "object.nc")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_write_leaves_the_old_file(saved, tmp_path, monkeypatch):
    path = kz.save(saved["record"][0], tmp_path / "record.nc")
    before = path.read_bytes()

    def broken(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sealed, "_write", broken)
    with pytest.raises(KapitzaError, match="No space left on device"):
        kz.save(saved["model"][0], path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["record.nc"]


def test_two_hundred_damaged_files_are_refused(saved, tmp_path):
    rng = np.random.default_rng(5)
    path = tmp_path / "damaged.nc"
    contents = [saved[name][1].read_bytes() for name in ("shot orbit", "orbits of a record", "series fit", "model")]
    for number in range(200):
        content = bytearray(contents[number % len(contents)])
        place = int(rng.integers(len(content)))
        if number % 3 == 0:
            content[place] ^= 1 << int(rng.integers(8))
        elif number % 3 == 1:
            del content[place:]
        else:
            content[place : place + 50] = rng.bytes(50)
        path.write_bytes(bytes(content))
        with pytest.raises(KapitzaError):
            kz.load(path)


def changed(saved, tmp_path, monkeypatch, change):
    """A file with a right checksum whose facts somebody changed."""
    facts, arrays = sealed.read_sealed(saved["shot orbit"][1])
    change(facts, arrays)
    path = tmp_path / "changed.nc"
    sealed.write_sealed(path, json.dumps(facts), arrays, "PeriodicOrbit")
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f, a: f.update(format=verbs.FORMAT + 1), "update it"),
        (lambda f, a: f["noun"].update({"$": "Popen"}), 'a "Popen"'),
        (lambda f, a: f["noun"]["fields"].pop("points"), "points"),
        (lambda f, a: f["noun"]["fields"].update(evil=1), "evil"),
        (lambda f, a: f["noun"]["fields"]["points"].update(name="absent"), "absent"),
        (lambda f, a: f.pop("noun"), "noun"),
        (lambda f, a: f["models"].clear(), "changed.nc"),
    ],
)
def test_changed_files_are_refused(saved, tmp_path, monkeypatch, change, message):
    path = changed(saved, tmp_path, monkeypatch, change)
    with pytest.raises(DataError, match=message):
        kz.load(path)


def test_absent_files_and_folders_are_named(saved, tmp_path):
    with pytest.raises(DataError, match="no file"):
        kz.load(tmp_path / "absent.nc")
    (tmp_path / "text.nc").write_text("x,y\n1,2\n")
    with pytest.raises(DataError, match="another file"):
        kz.load(tmp_path / "text.nc")
