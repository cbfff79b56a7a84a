"""Series of every origin: the kind is as the recipe says, windows of one recording stay together, mistakes are said."""

import copy

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import Input, Sampling, Windows
from edgeveil.edge_runtime.sources.series import Windower
from edgeveil.trainer import datasets
from edgeveil.trainer.datasets import readings
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.datasets.loaders import recordings as attributes
from edgeveil.trainer.datasets.loaders import recordings as windows
from edgeveil.trainer.datasets.loaders import utd_mhad, wrist
from edgeveil.trainer.ext.sweep.axes import with_settings
from edgeveil.trainer.recipe.data_section import Series
from edgeveil.trainer.recipe.schema import Recipe
from tests.support.small_runs import write_watch

RATE_HZ = 20.0
TABLE = {
    "name": "made-up",
    "data": {
        "kind": "series",
        "target": "move",
        "sensitive": "person",
        "series": {"rate_hz": RATE_HZ, "channels": ["ax", "ay"], "units": ["g", "g"]},
    },
    "prior": {"kind": "counted"},
    "classifiers": {"architecture": "series"},
    "perturber": {"kind": "label-only"},
    "budget": {"classifier_epochs": 1, "epochs": 1},
    "limits": {"target_accuracy": 0.5},
}


def recipe(source, *, series=None, **data):
    """A recipe for such data."""
    table = copy.deepcopy(TABLE)
    table["data"] |= {"source": source, **data}
    table["data"]["series"] |= series or {}
    table["data"]["series"] = {key: value for key, value in table["data"]["series"].items() if value is not None}
    return Recipe.check(table)


def made(rows=240, steps=32):
    """x, y and z of windows."""
    rng = np.random.default_rng(0)
    y, z = rng.integers(0, 2, rows), rng.integers(0, 3, rows)
    t = np.arange(steps) / RATE_HZ
    x = rng.normal(0, 0.05, (rows, steps, 2)) + np.sin(2 * np.pi * (1 + 2 * y[:, None, None]) * t[None, :, None])
    return (x + 0.3 * z[:, None, None]).astype(np.float32), y, z


def test_npz_is_pictures_unless_the_recipe_says_series(tmp_path):
    x, y, z = made()
    np.savez(tmp_path / "x.npz", x=x, y=y, z=z)
    found = datasets.load(recipe(f"npz:{tmp_path / 'x.npz'}"))
    assert (found.input.kind, found.input.shape) == ("series", (32, 2))
    assert found.input.series.rate_hz == RATE_HZ
    training = found.x[found.slices.training()].reshape(-1, 2)
    np.testing.assert_allclose(found.input.low, training.min(axis=0), atol=0.1)  # rounded outward
    np.testing.assert_allclose(found.input.high, training.max(axis=0), atol=0.1)
    assert 0 <= found.unit(found.x).min() <= found.unit(found.x).max() <= 1
    np.savez(tmp_path / "wide.npz", x=np.tile(x, 2), y=y, z=z)
    table = copy.deepcopy(TABLE)
    table["data"] = {"source": f"npz:{tmp_path / 'wide.npz'}", "target": "move", "sensitive": "person"}
    assert datasets.load(Recipe.check(table)).input.kind == "image"


def test_an_input_reads_back_as_it_was_written():
    spec = InputSpec("series", (8, 2), "float32", (0.0, 1.0), (2.0, 3.0), utd_mhad.SAMPLING)
    assert InputSpec.from_json(spec.as_json()) == spec
    assert "series" not in InputSpec("vector", (2,), "float32", 0.0, 1.0).as_json()


def recordings(folder, *, count=48, seconds=4.0, labels=True, rate_hz=RATE_HZ):
    """A folder of recordings, each of one move and person."""
    folder.mkdir()
    rng = np.random.default_rng(1)
    for number in range(count):
        move, person = number % 2, number // 2 % 3
        t = np.arange(int(seconds * rate_hz)) / rate_hz + 0.001 * rng.random(int(seconds * rate_hz))
        values = np.stack([np.sin((3 + 4 * move) * t), np.cos(3 * t) + person], axis=1)
        head = "t,ax,ay" + (",move,person" if labels else "")
        rest = f",m{move},p{person}" if labels else ""
        lines = [f"{at:.4f},{a:.5f},{b:.5f}{rest}" for at, (a, b) in zip(t, values, strict=True)]
        (folder / f"r{number:02}.csv").write_text("\n".join([head, *lines]))
    return folder


COLUMNS = {"time": "t", "target": "move", "sensitive": "person"}
CUT = {"length": 32, "hop": 8}


def test_a_folder_of_recordings_is_cut_into_windows_that_stay_in_one_slice(tmp_path):
    folder = recordings(tmp_path / "rec")
    found = datasets.load(recipe(f"csv:{folder}", series=CUT, columns=COLUMNS))
    assert found.y_names == ("m0", "m1")
    assert found.z_names == ("p0", "p1", "p2")
    assert found.input.shape == (32, 2)
    assert (found.cluster_kind, len(np.unique(found.cluster))) == ("session", 48)
    assert len(found.x) >= 48 * 6
    of = [set(found.cluster[getattr(found.slices, part)]) for part in ("classifiers", "perturber", "attack", "test")]
    assert sum(map(len, of)) == len(set().union(*of))
    assert set(found.attributes) == {"energy", "tempo"}


def test_labels_of_a_table_beside(tmp_path):
    folder = recordings(tmp_path / "rec", labels=False)
    lines = [f"r{n:02}.csv,m{n % 2},p{n // 2 % 3},{n // 6}" for n in range(48)]
    (tmp_path / "labels.csv").write_text("\n".join(["file,move,person,who", *lines]))
    columns = {**COLUMNS, "subject": "who"}
    found = datasets.load(recipe(f"csv:{folder}", series=CUT, columns=columns, labels=str(tmp_path / "labels.csv")))
    assert len(found.z_names) == 3
    (tmp_path / "labels.csv").write_text("\n".join(["file,move,person,who", *lines[1:]]))
    with pytest.raises(BadInput, match=r'no row has "r00\.csv"'):
        datasets.load(recipe(f"csv:{folder}", series=CUT, columns=columns, labels=str(tmp_path / "labels.csv")))


def test_training_and_device_make_the_same_windows():
    rng = np.random.default_rng(2)
    time = np.cumsum(rng.uniform(0.01, 0.04, 300))
    values = rng.normal(size=(300, 2))
    steps = windows.resampled(time, values, RATE_HZ)
    cut = windows.cut_windows([steps], Series(length=32, hop=8)).x
    spec = Input("x", "series", (32, 2), "float32", [0, 0], [1, 1], None, Sampling(RATE_HZ, ("a", "b"), ("g", "g")))
    windower = Windower(spec, spec.series, Windows(8, 0.1, None))
    live = np.stack([one for t, row in zip(time, values, strict=True) for one in windower.push(t, row)])
    assert len(live) == len(cut)
    np.testing.assert_allclose(live, cut, atol=1e-5)


def gap(text):
    lines = text.splitlines()
    return "\n".join(lines[:30] + lines[40:])


def back(text):
    lines = text.splitlines()
    return "\n".join([*lines[:30], lines[5], *lines[30:]])


def stuck(text):
    head, *lines = text.splitlines()
    held = lines[30].split(",")[1:]
    return "\n".join([head, *lines[:30], *(",".join([line.split(",")[0], *held]) for line in lines[30:])])


def milliseconds(text):
    head, *lines = text.splitlines()
    return "\n".join(
        [head, *(",".join([f"{1000 * float(t):g}", rest]) for t, _, rest in (x.partition(",") for x in lines))]
    )


BROKEN = {
    "stuck": (stuck, r"r01\.csv: [23] of its [67] windows do not move.*the first begins after 1\.6 s"),
    "milliseconds": (milliseconds, r'samples are (49|5[01])\.?\d* s apart.*If "t" is not in seconds'),
    "gap": (gap, "s without a sample after row 29.*longest_gap_s"),
    "back": (back, "time in row 30 is not after"),
    "text": (lambda text: text.replace("m1", "m0", 1), 'column "move" has 2 values; a recording has one target'),
    "empty": (lambda text: "t,ax,ay,move,person\n0.0,,1,m1,p0", 'column "ax" must hold a number in every row'),
    "short": (lambda text: "\n".join(text.splitlines()[:20]), "1 of 48 recordings are shorter than a window of 32"),
    "channel": (lambda text: text.replace("t,ax", "t,az", 1), 'no column "ax" for data.series.channels'),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_recording_that_cannot_be_taken_is_said(tmp_path, name):
    folder = recordings(tmp_path / "rec")
    change, problem = BROKEN[name]
    path = folder / "r01.csv"
    path.write_text(change(path.read_text()))
    with pytest.raises(BadInput, match=problem) as said:
        datasets.load(recipe(f"csv:{folder}", series=CUT, columns=COLUMNS))
    assert "\n" not in str(said.value)


def test_a_recording_of_another_rate_is_resampled_or_said(tmp_path):
    plain = datasets.load(recipe(f"csv:{recordings(tmp_path / 'rec')}", series=CUT, columns=COLUMNS))
    faster = recordings(tmp_path / "faster", rate_hz=3 * RATE_HZ)
    path = tmp_path / "rec" / "r01.csv"
    path.write_text((faster / "r01.csv").read_text())
    mixed = datasets.load(recipe(f"csv:{tmp_path / 'rec'}", series=CUT, columns=COLUMNS))
    assert mixed.x.shape == plain.x.shape
    of_it = plain.cluster == 1
    np.testing.assert_allclose(mixed.x[of_it], plain.x[of_it], atol=0.05)
    slower = recordings(tmp_path / "slower", rate_hz=RATE_HZ / 4)
    path.write_text((slower / "r01.csv").read_text())
    with pytest.raises(BadInput, match=r"r01.csv: its samples are 0\.(2|199)\d* s apart"):
        datasets.load(recipe(f"csv:{tmp_path / 'rec'}", series=CUT, columns=COLUMNS))


def test_a_rate_that_makes_most_steps_up(tmp_path):
    folder = recordings(tmp_path / "rec")
    datasets.load(recipe(f"csv:{folder}", series={**CUT, "rate_hz": 2 * RATE_HZ}, columns=COLUMNS))
    with pytest.raises(BadInput, match=r"r00\.csv: it has 20.* samples a second.*`data\.series\.rate_hz` is 80"):
        datasets.load(recipe(f"csv:{folder}", series={**CUT, "rate_hz": 4 * RATE_HZ}, columns=COLUMNS))


def test_windows_of_an_npz_that_no_device_would_make(tmp_path):
    x, y, z = made()
    np.savez(tmp_path / "x.npz", x=x, y=y, z=z)
    source = f"npz:{tmp_path / 'x.npz'}"
    datasets.load(recipe(source, series={"hop": 32}))
    with pytest.raises(BadInput, match=r"windows have 32 steps, and `data\.series\.hop` is 33"):
        datasets.load(recipe(source, series={"hop": 33}))
    x[[7, 9]] = 0.5
    np.savez(tmp_path / "x.npz", x=x, y=y, z=z)
    with pytest.raises(BadInput, match=r"2 of 240 windows do not move.*the first is 7"):
        datasets.load(recipe(source))


def test_no_folder_of_recordings(tmp_path):
    with pytest.raises(BadInput, match=r"Expected a folder of .csv files"):
        datasets.load(recipe(f"csv:{tmp_path / 'none'}", series=CUT, columns=COLUMNS))


def test_windows_of_other_channels(tmp_path):
    x, y, z = made()
    np.savez(tmp_path / "x.npz", x=np.moveaxis(x, 1, 2), y=y, z=z)
    with pytest.raises(BadInput, match=r"must be \(N, steps, 2\).*got \(240, 2, 32\).*moveaxis"):
        datasets.load(recipe(f"npz:{tmp_path / 'x.npz'}"))
    np.savez(tmp_path / "x.npz", x=x.reshape(len(x), -1), y=y, z=z)
    with pytest.raises(BadInput, match=r"got \(240, 64\)\. .*: x\.reshape\(len\(x\), -1, 2\)"):
        datasets.load(recipe(f"npz:{tmp_path / 'x.npz'}"))


NPZ = "npz:x.npz"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"source": NPZ, "kind": None}, r"without `kind = \"series\"`"),
        ({"source": "digits"}, "npz, csv, utd-mhad, wrist have series"),
        ({"source": NPZ, "series": {"units": ["g"]}}, "as many `units` as `channels`, 2; got 1"),
        ({"source": NPZ, "series": {"channels": ["a", "a"]}}, "different names"),
        ({"source": NPZ, "series": {"rate_hz": None}}, "`rate_hz`, `channels` and `units`"),
        ({"source": NPZ, "series": {"length": 32}}, "no `series.length` with npz"),
        ({"source": NPZ, "series": {"people": [1, 2]}}, "no `series.people` with your own data"),
        ({"source": "csv:rec", "columns": COLUMNS}, "`length` and `hop`"),
        ({"source": "csv:rec", "columns": COLUMNS, "series": {"length": 32, "hop": 33}}, "`hop` of at most `length`"),
        ({"source": "csv:rec", "series": CUT}, r"a section \[data.columns\] with `time`"),
        ({"source": "csv:rec", "series": {"length": 65000, "hop": 60000}, "columns": COLUMNS}, "a window every"),
    ],
)
def test_a_recipe_that_cannot_be_followed(given, problem):
    with pytest.raises(BadInput, match=problem):
        recipe(**given) if given.get("kind", 1) else recipe(**{**given, "kind": "series"} | {"kind": None})


def test_energy_and_tempo_are_what_they_say():
    t = np.arange(100) / 50.0
    x = np.stack([0.5 * np.sin(2 * np.pi * 4 * t), np.zeros(100)], axis=1)[None]
    assert attributes.energy(x)[0] == pytest.approx(0.5 / 2, rel=0.02)
    assert attributes.tempo(x, 50.0)[0] == pytest.approx(4.0, abs=0.1)
    assert attributes.tempo(np.zeros((1, 100, 2)), 50.0)[0] == 0


@pytest.mark.nightly  # by day made-up recordings, above
@pytest.mark.data
def test_utd_mhad_is_861_recordings_of_27_actions_by_8_people(data_folder, monkeypatch):
    monkeypatch.setenv(readings.VARIABLE, str(data_folder))
    found = datasets.load(Recipe.find("motion-label-only"))
    assert found.input.shape == (100, 6)
    assert (len(found.y_names), len(found.z_names)) == (27, 8)
    assert len(np.unique(found.cluster)) == 861
    assert found.input.high == utd_mhad.FULL_SCALE
    assert 0.999 < np.mean(np.abs(found.x) <= np.array(utd_mhad.FULL_SCALE)) <= 1  # the file goes a little beyond
    assert np.bincount(found.z).min() > 200
    assert set(found.attributes) == {"energy", "tempo", "duration"}
    jog, sit = (found.y == utd_mhad.ACTIONS.index(one) for one in ("jog", "sit-to-stand"))
    assert found.attributes["energy"][jog].mean() > 1.5 * found.attributes["energy"][sit].mean()
    some = datasets.load(with_settings(Recipe.find("motion-label-only"), {"data.series.people": [7, 2, 5]}))
    assert some.z_names == ("person-2", "person-5", "person-7")
    assert some.y_names == found.y_names
    np.testing.assert_array_equal(some.x, found.x[np.isin(found.z, (1, 4, 6))])


def test_utd_mhad_says_itself_what_its_channels_are():
    with pytest.raises(BadInput, match=r"`data.series.rate_hz`: these data say it themselves"):
        utd_mhad.load(target="action", sensitive="person", series=Series(length=100, hop=25, rate_hz=50.0))


@pytest.mark.parametrize("people", [[1, 9], [3, 3]])
def test_utd_mhad_has_eight_people_each_once(people):
    with pytest.raises(BadInput, match=r"`data.series.people`: expected numbers of 1 to 8, each once; got \[") as said:
        utd_mhad.load(target="action", sensitive="person", series=Series(length=100, hop=25, people=people))
    assert str(people) in str(said.value)


def test_a_quarter_of_a_set_with_the_watch_is_a_session(tmp_path, monkeypatch):
    of = write_watch(tmp_path, monkeypatch)
    found = wrist.load(target="exercise", sensitive="person", series=Series(length=100, hop=50))
    assert found.x.shape == (560, 100, 6)  # of 112 or 113 steps
    np.testing.assert_array_equal(found.session, np.arange(560))
    np.testing.assert_array_equal(found.y, np.repeat(of[:, 0], 4))
    np.testing.assert_array_equal(found.z, np.repeat(of[:, 1] - 1, 4))
    assert found.z_names[9] == "person-10"
    arm = wrist.load(target="exercise", sensitive="arm", series=Series(length=100, hop=50))
    np.testing.assert_array_equal(arm.z, np.repeat(of[:, 2], 4))
    for key, value in {"rate_hz": 50.0, "people": [1, 2]}.items():
        with pytest.raises(BadInput, match=f"`data.series.{key}`: these data say it themselves"):
            wrist.load(target="exercise", sensitive="person", series=Series(length=100, hop=50, **{key: value}))


def test_another_file_than_the_known_one_is_never_unpickled(tmp_path, monkeypatch):
    write_watch(tmp_path, monkeypatch)
    monkeypatch.setattr(wrist.Wrist, "files", dict.fromkeys(wrist.Wrist.files, "0" * 64))
    monkeypatch.setattr(np, "load", None)
    with pytest.raises(BadInput, match=r"Expected seglearn/watch_dataset\.npy with SHA-256 000"):
        wrist.load(target="exercise", sensitive="person", series=Series(length=100, hop=50))


@pytest.mark.nightly  # by day made-up recordings, above
@pytest.mark.data
def test_the_watch_is_140_recordings_of_7_exercises_by_10_people(data_folder, monkeypatch):
    (name,) = wrist.Wrist.files
    if not (data_folder / name).is_file():
        pytest.skip(f"no {name}: {wrist.Wrist.where}")
    monkeypatch.setenv(readings.VARIABLE, str(data_folder))
    found = datasets.load(Recipe.find("wrist-label-only"))
    assert found.input.shape == (100, 6)
    assert (len(found.y_names), len(found.z_names)) == (7, 10)
    assert (found.cluster_kind, len(np.unique(found.cluster))) == ("session", 560)
    assert np.median(np.linalg.norm(found.x[..., :3], axis=2)) == pytest.approx(1, abs=0.15)  # g, of gravity
