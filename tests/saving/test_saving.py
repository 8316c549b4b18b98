"""save and load: every noun comes back equal, fits go on as before, other files are refused."""

import hashlib
import json
import re

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
    return kz.simulate(pendulum, periods=12000, noise={"phi": 0.003, "phi'": 0.02}, seed=1)


@pytest.fixture(scope="module")
def found(record):
    return kz.find_orbits(record, max_period=2)


@pytest.fixture(scope="module")
def orbit_fit(pendulum, found):
    return kz.identify(pendulum.with_values(m=0.09), found, ["m", "l"], method=kz.OrbitFit(multipliers=True))


def forced():
    return kz.Model.from_equations(
        "x'' + c*x' + x + k*x**3 = B*cos(w*t)", parameters={"c": 0.1, "k": 1.0, "B": 0.3, "w": 0.6}, period="2*pi/w"
    )


def families():
    """A branch through a fold, what a laboratory would have of it, and what is made of both."""
    branch = kz.follow(forced().with_values(w=1.2), None, "w", (1.2, 2.0), direction=1)
    slow = kz.follow(forced(), None, "w", bounds=(0.6, 0.7), direction=1)
    measured = kz.MeasuredBranch("response", "w", slow.values[1:-1, 0], slow.amplitude("x")[1:-1], state="x")
    method = kz.BranchFit(bounds=(0.6, 0.7))
    return {
        "branch": branch,
        "diagram": kz.diagram(forced().with_values(w=1.2), None, "w", (1.2, 2.0), depth=1, direction=1),
        "responses": kz.frequency_response(forced(), "w", (0.6, 0.65), force="B", levels=[0.1, 0.2]),
        "measured branch": measured,
        "branch fit": kz.identify(forced().with_values(k=0.9), measured, ["k"], method=method),
    }


def conserved():
    """An invariant looked for, and parameters fitted to one."""
    model = kz.library.henon_heiles()
    record = kz.measure(kz.simulate(model, t=np.arange(100.0)), noise=1e-3, seed=1)
    away = model.with_values(b=0.8)
    return {
        "invariant search": kz.find_invariant(record, degree=3),
        "invariant fit": kz.identify(away, record, ["b"], method=kz.InvariantFit(bootstrap=5)),
        "surface fit": kz.identify(away, record, ["b"], method=kz.InvariantFit("surface")),
        "balance fit": balanced(),
    }


def balanced():
    model = kz.Model.from_equations(
        "x'' + c*x' + k*x = 0", parameters={"c": 0.1, "k": 4.0}, start={"x": 1.0, "x'": 0.0}
    )
    record = kz.measure(kz.simulate(model, t=np.arange(400) * 0.05), noise=0.01, seed=1)
    return kz.identify(model, record, method=kz.InvariantFit("balance", invariant="x'**2/2 + k*x**2/2"))


def sensed():
    """A fit to a sensor with a known gain, an unknown offset and a short delay."""
    model = kz.Model.from_equations(
        "x'' + c*x' + k*x = 0", parameters={"c": 0.1, "k": 4.0}, start={"x": 1.0, "x'": 0.0}
    )
    clean = kz.simulate(model, t=np.arange(300) * 0.05)
    noise = 0.01 * np.random.default_rng(1).standard_normal(clean.size)
    record = kz.Record.from_arrays(clean.time, {"volt": 0.3 + 1.7 * clean["x"] + noise})
    sensor = kz.Sensor("x", "offset", gain=1.7, delay=0.002)
    return kz.identify(model, record, ["c", "k"], method=kz.ShootingFit(outputs={"volt": sensor}))


def nouns(pendulum, record, found, orbit_fit):
    """One of every noun, with as many of its parts as there are."""
    duffing = kz.library.duffing()
    shot = kz.solve_orbit(duffing, wrt=("k",))
    series = kz.simulate(duffing, t=np.arange(0, 20, 0.05), noise=0.01, seed=2)
    points = henon(3000)
    strobed = kz.Record.from_arrays(np.arange(3000.0), {"x": points[:, 0], "y": points[:, 1]}, period=1.0)
    series_fit = kz.identify(duffing.with_values(k=0.06), series, ["k"], method=kz.ShootingFit())
    later = kz.simulate(duffing, periods=300, noise=0.01, seed=3)
    damped = kz.Model.from_equations("x'' + c*x' + x = 0", parameters={"c": 0.1}, start={"x": 1.0, "x'": 0.0})
    motion = kz.simulate(damped, t=np.arange(100) * 0.1)
    return {
        "shot orbit": shot,
        "collocated orbit": kz.solve_orbit(duffing, shot, method=kz.Collocation()),
        "harmonic orbit": kz.solve_orbit(duffing, shot, method=kz.HarmonicBalance()),
        "orbits of a record": found,
        "orbits of a model": kz.find_orbits(duffing, 1, starts=64, rounds=2, region={"x": (-2, 2), "x'": (-2, 2)}),
        "orbits of a free motion": kz.find_orbits(kz.library.lorenz(), 2, section="z - 27", starts=200),
        "record": record,
        "inspection": kz.inspect(strobed),
        "model": pendulum,
        "orbit fit": orbit_fit,
        "series fit": series_fit,
        "weak fit": kz.identify(duffing, series, ["k", "B"], method=kz.HarmonicFit()),
        "automatic fit": kz.identify(duffing.with_values(k=0.06), series, ["k"], method="auto"),
        "fit of combinations": kz.identify(duffing.with_values(k=0.06), series, ["k/B"], method=kz.ShootingFit()),
        "validation": kz.validate(
            series_fit, later, parts=["prediction", "section", "exponent", "orbits"], max_period=1
        ),
        "sensor fit": sensed(),
        "suggestion": kz.suggest(series_fit),
        "profile": kz.profile_curve(series_fit, "k", points=3),
        "coverage": kz.coverage(damped, motion, 0.01, ["c"], kz.HarmonicFit(), fits=2),
        "basins": kz.basins(duffing, {"x": (-1, 1), "x'": (-1, 1)}, grid=4),
        "exponents": kz.exponents(duffing, plane={"k": (0.05, 0.1)}, grid=2, length=100.0),
        "modes": kz.modal_reduction(np.eye(2), np.array([[2.0, -1.0], [-1.0, 2.0]]), 1),
        **families(),
        **conserved(),
    }


@pytest.fixture(scope="module")
def saved(pendulum, record, found, orbit_fit, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    made = nouns(pendulum, record, found, orbit_fit)
    return {name: (noun, kz.save(noun, folder / f"{name}.nc")) for name, noun in made.items()}


FITS = (
    "orbit fit", "series fit", "weak fit", "automatic fit", "fit of combinations", "branch fit", "invariant fit",
    "surface fit", "balance fit", "sensor fit",
)  # fmt: skip
NAMES = (
    "shot orbit", "collocated orbit", "harmonic orbit", "orbits of a record", "orbits of a model",
    "orbits of a free motion", "record", "inspection", "model", "validation", "suggestion", "profile", "coverage",
    "basins", "exponents", "modes", "branch", "diagram", "responses", "measured branch", "invariant search", *FITS,
)  # fmt: skip


def test_every_noun_is_among_them(saved):
    assert set(NAMES) == set(saved)


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


@pytest.mark.parametrize("name", FITS)
def test_a_loaded_estimate_goes_on_where_it_was(saved, name):
    noun, path = saved[name]
    loaded = kz.load(path)
    begun = loaded if loaded.base is None else loaded.base
    start = loaded.model.with_values(**begun.start)
    again = kz.identify(start, loaded.data, loaded.names, method=loaded.settings)
    assert again.values == noun.values
    assert np.array_equal(again.covariance, noun.covariance)
    assert str(loaded) == str(noun)


@pytest.mark.parametrize("name", ["automatic fit", "branch fit", "invariant fit"])
def test_the_report_of_a_loaded_fit_is_that_of_the_fit(saved, name, tmp_path):
    noun, path = saved[name]
    pages = [one.report(tmp_path / f"{number}.html").read_text() for number, one in enumerate((noun, kz.load(path)))]
    # The footer holds the minute at which a page was written.
    pages = [re.sub(r"\d\d:\d\d UTC</footer>", "</footer>", page) for page in pages]
    assert len(pages[0]) > 1000
    assert pages[0] == pages[1]


@pytest.mark.parametrize("name", ["series fit", "orbit fit"])
def test_what_a_loaded_fit_is_asked_next(saved, name):
    """Profiles go on from the workings of the fit, which are not in the file."""
    noun, path = saved[name]
    parameter = noun.names[0]
    assert kz.profile_interval(kz.load(path), parameter) == kz.profile_interval(noun, parameter)


@pytest.mark.parametrize("name", ["series fit", "automatic fit"])
def test_terms_that_a_loaded_fit_misses(saved, name):
    noun, path = saved[name]
    assert assert_same(kz.suggest(noun), kz.suggest(kz.load(path))) > 10


def test_a_loaded_measured_branch_gives_the_same_fit(saved):
    noun, _ = saved["branch fit"]
    data = kz.load(saved["measured branch"][1])
    again = kz.identify(forced().with_values(k=0.9), data, ["k"], method=kz.BranchFit(bounds=(0.6, 0.7)))
    assert (again.values, again.chi2) == (noun.values, noun.chi2)


def test_a_loaded_branch_is_gone_on_from(saved):
    noun, path = saved["branch"]
    settings = {"bounds": {"w": (1.2, 2.0), "B": (0.28, 0.32)}}
    one, other = (kz.follow(b.bifurcations[0], ("w", "B"), **settings) for b in (noun, kz.load(path)))
    assert len(one) > 3
    assert np.array_equal(one.points, other.points)
    longer = [kz.follow(b, bounds=(1.2, 2.1)) for b in (noun, kz.load(path))]
    assert np.array_equal(longer[0].points, longer[1].points)


@pytest.mark.parametrize("name", ["diagram", "validation", "coverage", "suggestion", "invariant search"])
def test_loaded_results_give_the_same_tables_and_words(saved, name):
    noun, path = saved[name]
    loaded = kz.load(path)
    assert assert_same(noun.table(), loaded.table()) > 0
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
    with pytest.raises(DataError, match="not an array" if way in ("words", "group") else "which is not followed"):
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
    contents = [saved[name][1].read_bytes() for name in NAMES]
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


@pytest.mark.parametrize("name", NAMES)
def test_files_of_a_newer_version_are_refused(saved, name, monkeypatch):
    written = verbs.FORMAT
    monkeypatch.setattr(verbs, "FORMAT", written - 1)
    with pytest.raises(DataError, match=f"has the format {written}, this version of Kapitza reads up to {written - 1}"):
        kz.load(saved[name][1])


@pytest.mark.parametrize("value", [np.float64(0.1), np.array(0.1), np.array([0.1]), np.int64(3), np.bool_(True)])
def test_single_numbers_keep_their_shape(value, tmp_path):
    """A number of NumPy is not a row of one."""
    orbits = kz.load(kz.save(kz.OrbitSet((), source=value), tmp_path / "a.nc"))
    assert assert_same(orbits.source, value) == 1
    assert np.shape(orbits.source) == np.shape(value)


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
