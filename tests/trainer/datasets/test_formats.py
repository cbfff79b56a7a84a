"""Formats of files: what their own writers wrote comes back, by name; what runs code or leaves the file is refused."""

import gzip
import io
import json
import pickle
import re
import sys
import tarfile

import cv2
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer import datasets
from edgeveil.trainer.datasets.columns import read_table
from edgeveil.trainer.recipe import data_section
from edgeveil.trainer.recipe.data_section import SETS, data_at, field_at
from edgeveil.trainer.scaffold.given import Given, Steps
from edgeveil.trainer.scaffold.look import look, next_command
from edgeveil.trainer.scaffold.new import first_guess
from tests.support.output import in_process

ROWS = 120
RNG = np.random.default_rng(0)
X = RNG.integers(0, 256, (ROWS, 8, 6), np.uint8)
Y = np.where(np.arange(ROWS) % 2, "stand", "sit")
Z = np.array([f"group {row % 3}" for row in range(ROWS)])
WHO = np.array([f"{row // 4:019d}" for row in range(ROWS)])  # identifiers of 19 digits, some with zeros before them


def png(picture: np.ndarray) -> bytes:
    """A file of it."""
    return cv2.imencode(".png", picture)[1].tobytes()


def hdf5(folder, x=X):
    """x, y and z in one file, y and z as text in a group; means that are no rows."""
    with h5py.File(folder / "a.h5", "w") as file:
        file["x"] = x
        file.create_dataset("about/y", data=Y.tolist(), dtype=h5py.string_dtype())
        file["about/z"] = Z.astype("S")
        file.create_dataset("about/who", data=WHO.tolist(), dtype=h5py.string_dtype())
        file["mean"] = x.mean(axis=0)
        file["about/again"] = file["about"]  # a group that holds itself
    return "a.h5", {"target": "about/y", "sensitive": "about/z", "subject": "about/who"}


def webdataset(folder, x=X):
    """Two shards of pictures with a .cls and a .json."""
    for shard in range(2):
        with tarfile.open(folder / f"part-{shard}.tar", "w") as archive:
            for row in range(shard, ROWS, 2):
                about = json.dumps({"z": Z[row], "who": WHO[row], "box": [1, 2]})
                for ending, data in (("png", png(x[row])), ("cls", Y[row].encode()), ("json", about.encode())):
                    put(archive, f"{row:04d}.{ending}", data)
    return ".", {"target": "cls", "sensitive": "z", "subject": "who"}


def put(archive, name, data):
    """A member of a tar file."""
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))


def tfrecord(folder, x=X):
    """Examples with a picture's file and texts, by TensorFlow."""
    import tensorflow as tf

    with tf.io.TFRecordWriter(str(folder / "a.tfrecord")) as writer:
        for row in range(ROWS):
            cells = {"image": png(x[row]), "y": Y[row].encode(), "z": Z[row].encode(), "who": WHO[row].encode()}
            features = {name: tf.train.Feature(bytes_list={"value": [cell]}) for name, cell in cells.items()}
            writer.write(tf.train.Example(features={"feature": features}).SerializeToString())
    return "a.tfrecord", {"target": "y", "sensitive": "z", "subject": "who"}


def huggingface(folder, x=X):
    """What save_to_disk writes: pictures, and a label whose classes have names."""
    hf = pytest.importorskip("datasets")
    features = {"image": hf.Image(), "y": hf.ClassLabel(names=["sit", "stand"]), "z": hf.Value("string")}
    rows = {
        "image": [{"bytes": png(one), "path": None} for one in x],
        "y": (Y == "stand").astype(int),
        "z": Z,
        "who": WHO,
    }
    hf.Dataset.from_dict(rows, hf.Features({**features, "who": hf.Value("string")})).save_to_disk(folder / "saved")
    return "saved", {"target": "y", "sensitive": "z", "subject": "who"}


ALL = {one.__name__: one for one in (hdf5, webdataset, tfrecord, huggingface)}


@pytest.fixture(params=ALL.values(), ids=ALL)
def given(request, tmp_path):
    """Data of each format, with the columns named."""
    place, columns = request.param(tmp_path)
    return Given(data_at(str(tmp_path / place)), **columns)


def test_what_was_written_comes_back_by_inspect_and_in_a_recipe(given):
    assert given.kind in ALL
    found = look(given)
    assert (found.rows, found.wrong, found.dtype, found.low, found.high) == (ROWS, [], "uint8", 0, 255)
    assert tuple(found.shape) in ((8, 6), (8, 6, 1))
    assert {one.name for one in found.labels} >= {given.target, given.sensitive, given.subject}
    assert given.source in next_command(given, found)
    data = datasets.load(first_guess(given))
    order = np.argsort(np.arange(ROWS) % 2, kind="stable") if given.kind == "webdataset" else np.arange(ROWS)
    np.testing.assert_array_equal(data.x, X[order][..., None])
    assert np.array(data.y_names)[data.y].tolist() == Y[order].tolist()
    assert np.array(data.z_names)[data.z].tolist() == Z[order].tolist()
    assert (data.input.low, data.input.high, data.cluster_kind) == (0, 255, "subject")
    assert len(np.unique(data.cluster)) == ROWS // 4  # no two identifiers of 19 digits are one


UNEVEN = [kind for kind in ALL if kind != "hdf5"]  # whose arrays have one size


@pytest.mark.parametrize("given", [ALL[kind] for kind in UNEVEN], ids=UNEVEN, indirect=True)
def test_pictures_of_several_sizes_are_refused_by_the_rule_of_folders_and_fitted_by_a_camera(given, tmp_path):
    again = tmp_path / "again"
    again.mkdir()
    place, columns = ALL[given.kind](again, [*X[:5], X[5, :4, :4], *X[6:]])
    uneven = Given(data_at(str(again / place)), **columns)
    assert re.search(r"2 shapes.*--camera fit=letterbox", look(uneven).wrong[0])
    fitted = Given(uneven.source, **columns, capture="6x8x1", fit="letterbox")
    assert datasets.load(first_guess(fitted)).x.shape == (ROWS, 8, 6, 1)


def test_columns_that_are_not_named_are_listed(given):
    bare = Given(given.source)
    assert look(bare).wrong == []
    with pytest.raises(
        BadInput, match=rf"has the columns .*{given.target}.*, and arrays or pictures in .*--target"
    ) as one:
        first_guess(bare)
    assert "\n" not in str(one.value)


def test_a_missing_package_is_refused_with_its_line(given, monkeypatch):
    kind = SETS[given.kind].load()
    monkeypatch.setitem(sys.modules, kind.module, None)
    if kind.module == "numpy":
        return  # the standard library reads it
    with pytest.raises(BadInput, match=rf"not installed: pip install 'edgeveil\[{kind.extra}\]'"):
        kind.table(given.path, {""}, None)


def test_a_file_that_is_cut_short_is_one_sentence(given, monkeypatch, capsys):
    for file in SETS[given.kind].load().files(given.path):
        data = file.read_bytes()
        file.write_bytes(data[: len(data) * 2 // 3 + 1])
    run = in_process(monkeypatch, capsys)
    code, out, error = run("data", "inspect", given.source, "--target", given.target, "--sensitive", given.sensitive)
    assert (code, out) == (2, "")
    assert error.startswith("error: ")
    assert error.count("\n") == 1


def test_what_lies_outside_an_hdf5_file_is_not_opened(tmp_path):
    other = tmp_path / "other.h5"
    with h5py.File(other, "w") as file:
        file["x"] = X
    for name, add, said in (
        ("link", lambda file: file.__setitem__("x", h5py.ExternalLink("other.h5", "x")), "x is a link to another file"),
        ("soft", lambda file: file.__setitem__("x", h5py.SoftLink("/y")), "no column is left for x"),
        (
            "external",
            lambda file: file.create_dataset("x", (9, 4, 4), "u1", external=[("raw", 0, 144)]),
            "x lie in another file",
        ),
        ("virtual", virtual, "x lie in another file"),
        ("large", lambda file: file.create_dataset("x", (9, 2**40), "f8", chunks=(1, 2**20)), "GB of memory"),
    ):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            add(file)
            file["y"] = [0, 1, 2] * 3
            file["z"] = [0, 1, 2] * 3
        guess = Given(f"hdf5:{tmp_path / name}.h5", "y", "z")
        with pytest.raises(BadInput, match=said):
            datasets.own(first_guess(guess), "hdf5", guess.path)


def virtual(file):
    """A dataset whose values lie in another file."""
    layout = h5py.VirtualLayout((9, 8, 6), "u1")
    layout[:] = h5py.VirtualSource("other.h5", "x", (ROWS, 8, 6))[:9]
    file.create_virtual_dataset("x", layout)


@pytest.mark.parametrize("name", ["a.pickle", "a.x.pyd", "a.pth"])
def test_a_member_that_runs_code_is_refused_by_name(tmp_path, name):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        put(archive, "a.png", png(X[0]))
        put(archive, name, pickle.dumps(print))
    with pytest.raises(BadInput, match=rf"{name} is not read: that would run code in it. Write arrays as .npy"):
        read_table("webdataset", tmp_path / "a.tar")


@pytest.mark.parametrize("name", ["/etc/a.png", "../a.png", "b/../../a.png"])
def test_a_name_that_leads_out_of_a_tar_file_is_refused(tmp_path, name):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        put(archive, name, png(X[0]))
    with pytest.raises(BadInput, match=r"a.png is a link, or leads out of it"):
        read_table("webdataset", tmp_path / "a.tar")
    with tarfile.open(tmp_path / "b.tar", "w") as archive:
        entry = tarfile.TarInfo("a.png")
        entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(entry)
    with pytest.raises(BadInput, match=r"a.png is a link, or leads out of it"):
        read_table("webdataset", tmp_path / "b.tar")


def test_arrays_of_a_tar_file_are_read_and_those_of_objects_or_false_heads_are_not(tmp_path):
    def wds(name, array):
        with tarfile.open(tmp_path / f"{name}.tar", "w") as archive:
            for row in range(2):
                put(archive, f"{row}.npy", array if isinstance(array, bytes) else npy(array))
                put(archive, f"{row}.cls", b"7")
        return read_table("webdataset", tmp_path / f"{name}.tar").arrays["npy"]

    np.testing.assert_array_equal(wds("good", X[0]).stacked()[1, ..., 0], X[0])
    with pytest.raises(BadInput, match=r"row 1, cannot be read .*Python objects, which would run code"):
        wds("objects", np.array([print], object)).stacked()
    false = npy(np.zeros(8)).replace(b"(8,)", b"(9,)")
    with pytest.raises(BadInput, match="shorter than its head says"):
        wds("false", false).stacked()


def npy(array):
    """The file of an array."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=True)
    return stream.getvalue()


def test_a_compressed_tar_or_record_file_is_refused_with_the_cure(tmp_path):
    for name, kind in (("a.tar", "webdataset"), ("a.tfrecord", "tfrecord")):
        (tmp_path / name).write_bytes(gzip.compress(bytes(2**16)))
        with pytest.raises(BadInput, match=r"is compressed.*unpack"):
            read_table(kind, tmp_path / name)


def test_a_split_of_shards_is_kept(tmp_path):
    for split, rows in (("train", range(40)), ("test", range(40, 60))):
        with tarfile.open(tmp_path / f"{split}-000.tar", "w") as archive:
            for row in rows:
                put(archive, f"{row}.png", png(X[row]))
                put(archive, f"{row}.cls", Y[row].encode())
    assert read_table("webdataset", tmp_path).test.tolist() == [True] * 20 + [False] * 40


def test_other_records_of_tensorflow_are_refused_by_name(tmp_path):
    import tensorflow as tf

    def write(*records):
        with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
            for record in records:
                writer.write(record)
        return read_table("tfrecord", tmp_path / "a.tfrecord")

    def example(x, y=(1,)):
        features = {"x": tf.train.Feature(float_list={"value": x}), "y": tf.train.Feature(int64_list={"value": y})}
        return tf.train.Example(features={"feature": features}).SerializeToString()

    np.testing.assert_array_equal(write(example([1, 2]), example([3, 4])).arrays["x"].stacked(), [[1, 2], [3, 4]])
    assert write(example([1, 2]), example([3, 4], ())).columns["y"].missing.tolist() == [False, True]
    with pytest.raises(BadInput, match="record 2: x has 3 of float, and the first record has 2 of float"):
        write(example([1, 2]), example([3, 4, 5]))
    lists = tf.train.FeatureLists(feature_list={"x": tf.train.FeatureList(feature=[tf.train.Feature()])})
    with pytest.raises(BadInput, match="record 1, is a SequenceExample"):
        write(tf.train.SequenceExample(feature_lists=lists).SerializeToString())
    with pytest.raises(BadInput, match=r"record 1, is no tf.train.Example"):
        write(b"")
    file = tmp_path / "a.tfrecord"
    file.write_bytes((2**60).to_bytes(8, "little") + bytes(100))
    with pytest.raises(BadInput, match="ends within a record"):
        read_table("tfrecord", file)


def test_arrow_and_parquet_of_hugging_face_are_read_without_its_package(tmp_path):
    about = {"info": {"features": {"y": {"names": ["sit", "stand"], "_type": "ClassLabel"}}}}
    lists = pa.array(X[:4, :2, :3].tolist(), pa.list_(pa.list_(pa.uint8())))
    table = pa.table({"x": lists, "y": [0, 1, 1, None], "z": ["a", "b", "a", "b"]})
    table = table.replace_schema_metadata({"huggingface": json.dumps(about)})
    (tmp_path / "data").mkdir()
    for split in ("train", "test"):
        pa.parquet.write_table(table, tmp_path / f"data/{split}-00000-of-00001.parquet")
    found = read_table("huggingface", tmp_path)
    np.testing.assert_array_equal(found.arrays["x"].stacked(), np.concatenate([X[:4, :2, :3]] * 2))
    assert found.columns["y"].values[:3].tolist() == ["sit", "stand", "stand"]
    assert found.columns["y"].missing.tolist() == [False, False, False, True] * 2
    assert found.test.tolist() == [True] * 4 + [False] * 4
    pa.parquet.write_table(table.drop(["z"]), tmp_path / "data/other.parquet")
    with pytest.raises(BadInput, match='have different fields, "z"'):
        read_table("huggingface", tmp_path)


def test_lists_of_several_lengths_and_pictures_by_path_are_refused(tmp_path):
    def read(column, **more):
        table = pa.table({"x": column, "y": [0, 1]})
        with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return read_table("huggingface", tmp_path / "a.arrow").arrays["x"].stacked()

    with pytest.raises(BadInput, match="lists have 1 to 2 values"):
        read(pa.array([[1], [1, 2]]))
    struct = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    with pytest.raises(BadInput, match=r"row 1, cannot be read .it names a file and holds no picture"):
        read(pa.array([{"bytes": None, "path": "/etc/passwd"}] * 2, struct))


def test_offsets_that_lead_out_of_an_arrow_file_are_refused(tmp_path):
    table = pa.table({"y": ["sit", "stand"] * 50, "x": [[1, 2]] * 100})
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data = (tmp_path / "a.arrow").read_bytes()
    offsets = np.array(table["y"].chunks[0].buffers()[1], copy=False).tobytes()[:404]
    assert offsets in data
    (tmp_path / "a.arrow").write_bytes(data.replace(offsets, offsets[:200] + b"\xff\xff\xff\x7f" + offsets[204:]))
    with pytest.raises(BadInput, match=r"cannot be read .*offset"):
        read_table("huggingface", tmp_path / "a.arrow")


def test_windows_of_a_series_are_read_from_arrays(tmp_path):
    x = RNG.normal(size=(ROWS, 16, 3)).astype(np.float32)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"], file["y"], file["z"] = x, np.arange(ROWS) % 2, np.arange(ROWS) % 3
    steps = Steps.parse(["rate=50", "channels=ax:g,ay:g,az:g"])
    data = datasets.load(first_guess(Given(f"hdf5:{tmp_path}/a.h5", "y", "z", steps=steps)))
    np.testing.assert_array_equal(data.x, x)
    assert data.input.kind == "series"


def test_a_field_of_x_is_named_behind_the_data(tmp_path):
    for name in ("a.h5", "a.h5#b.h5", "a#1.csv"):
        (tmp_path / name).touch()
    found = {
        name: field_at(f"{tmp_path}/{name}") for name in ("a.h5", "a.h5#left", "a.h5#b.h5", "a#1.csv", "a.h5#b.h5#c")
    }
    assert found == {
        "a.h5": (f"hdf5:{tmp_path}/a.h5", None),
        "a.h5#left": (f"hdf5:{tmp_path}/a.h5", "left"),
        "a.h5#b.h5": (f"hdf5:{tmp_path}/a.h5#b.h5", None),
        "a#1.csv": (f"csv:{tmp_path}/a#1.csv", None),
        "a.h5#b.h5#c": (f"hdf5:{tmp_path}/a.h5#b.h5", "c"),
    }
    assert field_at("mcap:walk#/camera") == ("mcap:walk", "/camera")


def test_numbers_alone_are_a_table_and_of_several_arrays_one_is_named(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"], file["b"] = RNG.normal(size=ROWS), RNG.normal(size=ROWS)
        file["y"], file["z"] = np.arange(ROWS) % 2, np.arange(ROWS) % 3
    assert datasets.load(first_guess(Given(f"hdf5:{tmp_path}/a.h5", "y", "z"))).input.features == ("a", "b")
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file["left"], file["right"] = X, X[:, ::-1]
    given = Given(f"hdf5:{tmp_path}/a.h5", "y", "z")
    with pytest.raises(BadInput, match=r'which field is x. There are "left", "right": name it: .*a.h5#FIELD'):
        datasets.load(first_guess(given))
    right = Given(given.source, "y", "z", x="right")
    np.testing.assert_array_equal(datasets.load(first_guess(right)).x[..., 0], X[:, ::-1])
    assert f"{given.source}#right" in next_command(right, look(right))
    with pytest.raises(BadInput, match="#FIELD does not go with csv"):
        first_guess(Given("csv:a.csv", "y", "z", x="right"))


def test_a_package_adds_a_format(tmp_path, monkeypatch):
    (tmp_path / "mine-1.dist-info").mkdir()
    (tmp_path / "mine-1.dist-info/entry_points.txt").write_text("[edgeveil.datasets]\nlines = mine:Lines\n")
    (tmp_path / "mine.py").write_text(PLUGIN)
    (tmp_path / "a.lines").write_text("sit a 1 2\nstand b 3 4\nsit b 5 6\nstand a 7 8\n" * 100)
    monkeypatch.syspath_prepend(str(tmp_path))
    given = Given(data_at(str(tmp_path / "a.lines")), "y", "z")
    assert (given.kind, look(given).wrong) == ("lines", [])
    assert datasets.load(first_guess(given)).x[1].tolist() == [3, 4]
    assert '"lines:FILE"' in data_section.own_forms()


PLUGIN = """
import numpy as np

from edgeveil.trainer.datasets.columns import Table, column_of
from edgeveil.trainer.datasets.loaders.formats import Format, Samples


class Lines(Format):
    names = ("lines",)
    forms = ("lines:FILE",)
    what = "files of lines"
    endings = ("lines",)

    @classmethod
    def read(cls, path, gone, x):
        rows = [line.split() for line in path.read_text().splitlines()]
        columns = {name: column_of([row[at] for row in rows], gone, name) for at, name in enumerate("yz")}
        return Table(path, columns, {"x": Samples.of("x", np.array([row[2:] for row in rows], float))})
"""
