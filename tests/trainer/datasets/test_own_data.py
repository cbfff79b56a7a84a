"""A user's own pictures and tables: what is read, and one sentence for each thing that is wrong with them."""

import csv
import datetime
import subprocess
import sys

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.pipeline.crops import Capture as Runner
from edgeveil.trainer import datasets
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.datasets.columns import read_table
from edgeveil.trainer.datasets.loaders import image_folder
from edgeveil.trainer.recipe.schema import Recipe
from tests.trainer.datasets.made_pictures import write_folder

cv2 = pytest.importorskip("cv2")
REST = {
    "name": "mine",
    "prior": {"kind": "counted"},
    "classifiers": {"architecture": "small"},
    "perturber": {"kind": "label-only"},
    "budget": {"classifier_epochs": 1, "epochs": 1},
    "limits": {"target_accuracy": 0.5},
}
PICTURES = {"sensitive": "group", "subject": "person"}
COLUMNS = {"target": "Activity", "sensitive": "Sex", "subject": "Person", "leave_out": ["Note"]}


def recipe_of(source, *, columns, labels=None, **sections):
    data = {"source": source, "target": "y", "sensitive": "z", "columns": columns}
    return Recipe.check({**REST, "data": data if labels is None else {**data, "labels": str(labels)}, **sections})


def pictures_of(folder, *, columns=PICTURES, **sections):
    return recipe_of(f"images:{folder}", columns=columns, labels=folder / "labels.csv", **sections)


def table_of(path, *, columns=COLUMNS):
    return recipe_of(f"csv:{path}", columns=columns)


def write_csv(path, *, separator=",", rows=240, head="Person;Sex;Activity;ax;count;Note", change=None):
    """People of two sexes at two activities, with a measurement, a count and a note."""
    rng, people = np.random.default_rng(0), np.arange(rows) // 6
    lines = [head.split(";")]
    for row in range(rows):
        sex, activity = "fm"[people[row] % 2], ("sit", "walk")[row % 2]
        lines.append([f"p{people[row]}", sex, activity, f"{rng.normal():.3f}", str(rng.integers(9)), "said, hello"])
    for row, column, cell in change or ():
        lines[row][column] = cell
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter=separator).writerows(lines)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("pictures"), people=24, each=4, height=48, width=64)


def test_a_folder_of_pictures_is_read_by_class_with_z_and_subjects_of_its_csv(folder):
    data = datasets.load(pictures_of(folder))
    assert data.x.shape == (96, 48, 64, 3)
    assert (data.y_names, data.z_names) == (("lying", "standing"), ("blue", "red"))
    assert (data.name, data.cluster_kind) == ("images", "subject")
    assert (data.input.dtype, data.input.low, data.input.high) == ("uint8", 0.0, 255.0)
    names = image_folder.find(folder).names
    row = names.index("standing/07-01.png")
    assert (data.y[row], data.z_names[data.z[row]]) == (1, "red")
    # As on a board: red first.
    assert np.array_equal(data.x[row], cv2.imread(str(folder / names[row]))[:, :, ::-1])


def test_the_cameras_frames_become_samples_by_the_boards_own_code(folder):
    capture = {"frame": {"shape": [48, 64, 3], "dtype": "uint8"}, "window": [0, 8, 48, 48], "size": [12, 12]}
    recipe = pictures_of(folder, capture={**capture, "resize": "area"})
    data = datasets.load(recipe)
    assert data.x.shape == (96, 12, 12, 3)
    runner = Runner(parse(recipe.capture.document()))
    first = image_folder.read_picture(folder / image_folder.find(folder).names[0])
    assert np.array_equal(data.x[0], runner.frames(RawFrame(first, 0))[0][1]._data)
    # The window is cut out before it is resized: what is outside it has no effect.
    other = first.copy()
    other[:, :8], other[:, 56:] = 255, 255
    assert np.array_equal(data.x[0], runner.frames(RawFrame(other, 0))[0][1]._data)


def test_pictures_of_another_size_than_the_cameras_are_named(folder):
    with pytest.raises(BadInput, match=r"frames are uint8 \(48, 64, 3\), not uint8 \(480, 640, 3\)"):
        datasets.load(pictures_of(folder, capture={"frame": {"shape": [480, 640, 3], "dtype": "uint8"}}))


@pytest.mark.parametrize(
    ("break_it", "match"),
    [
        (lambda folder: (folder / "lying" / "00-00.png").write_bytes(b"no picture"), "cannot be read as a picture"),
        (lambda folder: cv2.imwrite(str(folder / "lying" / "00-00.png"), np.zeros((9, 9, 3))), "2 shapes or types"),
        (lambda folder: cv2.imwrite(str(folder / "lying" / "00-00.png"), np.zeros((48, 64, 4))), "alpha channel"),
        (lambda folder: (folder / "lying" / "00-00.png").rename(folder / "00-00.png"), "not among"),
        (lambda folder: (folder / "lying" / "00-00.png").unlink(), "1 of 96 files are not among"),
        (lambda folder: cv2.imwrite(str(folder / "lying" / "new.png"), np.zeros((48, 64, 3))), "1 of 97 pictures have"),
        (lambda folder: (folder / "labels.csv").unlink(), "there is no such file"),
        (lambda folder: (folder / "labels.csv").write_text("group\nred\n"), 'no column "file"'),
    ],
)
def test_what_is_wrong_with_a_folder_is_one_sentence(break_it, match, tmp_path):
    folder = write_folder(tmp_path, people=24, each=4, height=48, width=64)
    break_it(folder)
    with pytest.raises(BadInput, match=match):
        datasets.load(pictures_of(folder))


def test_pictures_in_no_class_are_named_and_may_have_a_column_of_y(tmp_path):
    folder = write_folder(tmp_path / "deep", people=24, each=4, height=8, width=8)
    for path in folder.rglob("*.png"):
        path.rename(folder / f"{path.parent.name}-{path.name}")
    rows = [line.split(",") for line in (folder / "labels.csv").read_text().replace("/", "-").split()]
    lines = [[*rows[0], "pose"], *([*row, row[0].partition("-")[0]] for row in rows[1:])]
    (folder / "labels.csv").write_text("\n".join(map(",".join, lines)))
    with pytest.raises(BadInput, match="96 pictures lie in no class"):
        datasets.load(pictures_of(folder))
    assert datasets.load(pictures_of(folder, columns={**PICTURES, "target": "pose"})).y_names == ("lying", "standing")


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_table_is_read_by_the_names_of_its_columns(separator, tmp_path):
    data = datasets.load(table_of(write_csv(tmp_path / "t.csv", separator=separator)))
    assert (data.x.shape, data.x.dtype) == ((240, 2), np.float32)
    assert (data.y_names, data.z_names, data.cluster_kind) == (("sit", "walk"), ("f", "m"), "subject")
    assert data.x[:, 1].max() == 8
    assert data.input.features == ("ax", "count")
    assert InputSpec.from_json(data.input.as_json()) == data.input


@pytest.mark.parametrize(
    ("settings", "columns", "match"),
    [
        ({}, {"leave_out": []}, r'"Note" holds text, first ".+" in row 1. Correct it, leave out with --leave-out'),
        ({"change": [(3, 3, "tall")]}, {}, '"ax" holds text, first "tall" in row 3'),
        ({}, {"sensitive": "sex"}, r'no column "sex" for data.columns.sensitive \(did you mean "Sex"\?\)'),
        ({}, {"sensitive": "ax"}, "different numbers with fractions, and classes were expected"),
        ({}, {"leave_out": ["Note", "ax", "count"]}, "no column is left for x"),
        ({"change": [(3, 3, "")]}, {}, '1 of 2 features have empty cells, "ax" 1 of 240'),
        ({"change": [(3, 1, "")]}, {}, r'column "Sex" .* no value in 1 of 240 rows, first in row 3'),
        ({"head": "1;2;3;4;5;6"}, {}, "the first line holds numbers"),
        ({"head": "Sex;Sex;a;b;c;d"}, {}, 'the column "Sex" is there twice'),
        ({"head": "Sex;a;b"}, {}, "line 2 has 6 cells and the first has 3"),
        ({"rows": 0}, {}, "names of columns and no rows"),
    ],
)
def test_what_is_wrong_with_a_table_is_one_sentence(settings, columns, match, tmp_path):
    path = write_csv(tmp_path / "t.csv", **settings)
    with pytest.raises(BadInput, match=match):
        datasets.load(table_of(path, columns={**COLUMNS, **columns}))


def test_a_file_that_is_no_text_is_one_sentence(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match="cannot be read as a CSV file"):
        read_table("csv", tmp_path / "t.csv")
    (tmp_path / "t.csv").write_bytes(b"")
    with pytest.raises(BadInput, match="is empty"):
        read_table("csv", tmp_path / "t.csv")
    with pytest.raises(BadInput, match="it is a folder"):
        read_table("csv", tmp_path)


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(BadInput, match=r"pip install 'edgeveil\[parquet\]', or save the table as CSV"):
        read_table("parquet", tmp_path / "t.parquet")


def test_a_parquet_file_is_read_as_the_csv_of_it_is(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = write_csv(tmp_path / "t.csv")
    table = read_table("csv", path)
    columns = {name: column.values.tolist() for name, column in table.columns.items()}
    parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    again = read_table("parquet", tmp_path / "t.parquet")
    assert list(again.columns) == list(table.columns)
    for name, column in again.columns.items():
        assert np.array_equal(column.values, table.columns[name].values), name
    (tmp_path / "t.parquet").write_bytes(b"PAR1, but no more")
    with pytest.raises(BadInput, match="cannot be read as a Parquet file"):
        read_table("parquet", tmp_path / "t.parquet")


def test_what_pyarrow_reads_becomes_columns(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    person = 10**18 + np.arange(3)  # one float, and three people
    kept = {
        "a": pa.array([1, None, 3]),
        "b": pa.array(["x", "y", None]),
        "c": [0.5, 1.5, np.nan],
        "d": [1.0, 2.0, 3.0],
        "person": person,
        "large": pa.array([2**64 - 1, 2**64 - 2, 1], pa.uint64()),
        "kind": pa.array(["none", "glasses", "none"]).dictionary_encode(),
        "code": ["1E2", "10E1", "100"],
        "smokes": [True, None, False],
        "day": [datetime.date(2024, 2, 29), None, datetime.date(1969, 12, 31)],
    }
    parquet.write_table(pa.table(kept), tmp_path / "t.parquet")
    table = read_table("parquet", tmp_path / "t.parquet")
    found = table.columns
    kinds = {name: one.values.dtype.kind for name, one in found.items()}
    assert kinds == dict(zip(kept, "iOfiifOiOO", strict=True))
    for name in ("a", "b", "c", "smokes", "day"):
        assert found[name].missing.sum() == 1, name
    assert found["person"].classes.tolist() == person.tolist()
    assert found["kind"].classes.tolist() == ["none", "glasses", "none"]
    assert table.classes("code", "data.columns.subject").tolist() == ["1E2", "10E1", "100"]
    assert len(set(table.classes("large", "data.columns.subject"))) == 3
    assert found["day"].classes.tolist() == ["2024-02-29", "", "1969-12-31"]
    gone = read_table("parquet", tmp_path / "t.parquet", ["none", "3"]).columns
    assert gone["kind"].missing.tolist() == [True, False, True]
    assert gone["a"].missing.tolist() == [False, True, True]


PEAK = """import re, sys, pathlib, pyarrow.parquet
from edgeveil.trainer.datasets.columns import read_table
path, status = pathlib.Path(sys.argv[2]), pathlib.Path("/proc/self/status")
peak = lambda: int(re.search("VmHWM:[^0-9]*([0-9]+)", status.read_text())[1])
before = peak()
kept = pyarrow.parquet.read_table(path) if sys.argv[1] == "arrow" else read_table("parquet", path)
print(peak() - before)"""


@pytest.mark.nightly  # by day that it is read, above
def test_a_parquet_file_takes_hardly_more_memory_than_pyarrow_does(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rng, rows = np.random.default_rng(0), 300_000
    cells = {f"f{at}": rng.normal(size=rows) for at in range(20)}
    cells |= {"y": rng.choice(["sit", "walk"], rows), "who": rng.integers(10**18, 10**18 + 400, rows)}
    parquet.write_table(pa.table(cells), tmp_path / "t.parquet")
    call = [sys.executable, "-c", PEAK]
    used = {
        kind: int(subprocess.run([*call, kind, tmp_path / "t.parquet"], capture_output=True, check=True).stdout)
        for kind in ("arrow", "ours")
    }
    assert used["ours"] < 1.5 * used["arrow"], used


def test_columns_are_for_what_has_them_alone(tmp_path):
    with pytest.raises(BadInput, match=r"a section \[data\.columns\] with"):
        Recipe.check({**REST, "data": {"source": "csv:t.csv", "target": "y", "sensitive": "z"}})
    with pytest.raises(BadInput, match=r"no section \[data\.columns\] with"):
        recipe_of("npz:x.npz", columns=PICTURES)
    with pytest.raises(BadInput, match="`labels`, the CSV with z"):
        recipe_of("images:pictures", columns=PICTURES)
    with pytest.raises(BadInput, match="no `labels` with"):
        recipe_of("csv:t.csv", columns=COLUMNS, labels="labels.csv")
    with pytest.raises(BadInput, match=r"`columns\.target`"):
        recipe_of("csv:t.csv", columns={"sensitive": "z"})


def test_paths_are_relative_to_the_recipe_and_written_out_in_full(folder, tmp_path):
    text = pictures_of(folder).toml().replace(str(folder), "pictures")
    (tmp_path / "mine.toml").write_text(text)
    data = Recipe.find(tmp_path / "mine.toml").data
    assert data.source == f"images:{tmp_path.resolve() / 'pictures'}"
    assert data.labels == str(tmp_path.resolve() / "pictures" / "labels.csv")
    assert Recipe.parse(Recipe.find(tmp_path / "mine.toml").toml()).data == data


def test_pictures_with_channels_first_are_turned_round(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (240, 3, 8, 9)).astype(np.uint8)
    np.savez(tmp_path / "x.npz", x=x, y=np.arange(240) % 2, z=np.arange(240) // 2 % 2)
    data = {"source": f"npz:{tmp_path / 'x.npz'}", "target": "y", "sensitive": "z"}
    found = datasets.load(Recipe.check({**REST, "data": data}))
    assert np.array_equal(found.x, x.transpose(0, 2, 3, 1))


def test_text_named_npz_is_not_told_to_allow_pickles(tmp_path):
    (tmp_path / "x.npz").write_text("not arrays")
    data = {"source": f"npz:{tmp_path / 'x.npz'}", "target": "y", "sensitive": "z"}
    with pytest.raises(BadInput, match=r"no zip archive of arrays\)\. Write it with numpy\.savez") as caught:
        datasets.load(Recipe.check({**REST, "data": data}))
    assert "pickle" not in str(caught.value)
