"""Archives as people have them: folders of pictures, windows of a series; and what their frames are called."""

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.util.png import encode
from edgeveil.trainer.ext.publish import frames
from edgeveil.trainer.ext.publish.publication import names_of
from edgeveil.trainer.ext.publish.recordings import uri_of
from edgeveil.trainer.ext.publish.verify_publication import verify_publication
from tests.edge_runtime.sources import series_example
from tests.support.publishing import archives
from tests.support.publishing.breaking import rewrite


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch):
    monkeypatch.setattr(frames, "engine_of", archives.here)


def renamed(archive, change):
    """Other names of the frames in the table."""
    rewrite(archive, lambda rows: [{**row, "recording": change(row["recording"])} for row in rows])


def name(number):
    return f"visit-{int(number):04}.png"


@pytest.fixture
def pictures(tmp_path):
    """The archive, its frames in a folder of pictures that the table names by their files."""
    archive = archives.make(tmp_path, bundle=archives.picture_example())
    (tmp_path / "pictures").mkdir()
    for number, frame in enumerate(np.load(tmp_path / "x.npz")["x"]):
        (tmp_path / "pictures" / name(number)).write_bytes(encode(frame[..., 0]))
    renamed(archive, name)
    return archive


def held(archive, out):
    """The rows, without their order."""
    tables = [pyarrow.parquet.read_table(path) for path in sorted(archive[out].glob("part-*"))]
    return {(row["visitor"], row["minutes"], row["label"], row["frame"]) for one in tables for row in one.to_pylist()}


def test_a_folder_of_pictures_is_published_as_their_numbers_in_a_file_are(pictures):
    document = pictures.published("pictures-out", recordings=str(pictures["pictures"]))
    assert document["dropped"] == 0
    assert verify_publication(pictures["pictures-out"], pictures.made.trust)["k"] >= 3
    renamed(pictures, lambda file: str(int(file[6:-4])))
    pictures.published("npz-out")
    assert held(pictures, "pictures-out") == held(pictures, "npz-out")
    text = (pictures["pictures-out"] / "publication.json").read_text()
    assert "visit-" not in text
    assert str(pictures.folder) not in text


def test_a_picture_that_cannot_be_read_costs_its_row(pictures):
    (pictures["pictures"] / name(7)).write_bytes(b"no picture")
    (pictures["pictures"] / name(9)).write_bytes(encode(np.zeros((8, 9), np.uint8)))
    (pictures["pictures"] / "notes.txt").write_text("no picture of the archive")
    document = pictures.published(recordings=str(pictures["pictures"]))
    assert document["dropped"] == 2


def test_a_picture_without_a_row_and_a_row_without_its_picture(pictures):
    (pictures["pictures"] / "extra.png").write_bytes(encode(np.zeros((8, 8), np.uint8)))
    with pytest.raises(BadInput, match="1 frame has no row in the table, the first of them number 0"):
        pictures.published(recordings=str(pictures["pictures"]))
    (pictures["pictures"] / "extra.png").unlink()
    (pictures["pictures"] / name(3)).unlink()
    with pytest.raises(
        BadInput, match=r'Column "recording", row [0-9]+: expected the name of a file in the folder'
    ) as no:
        pictures.published(recordings=str(pictures["pictures"]))
    assert "visit-" not in str(no.value)


def test_windows_of_a_series_are_frames_by_themselves(tmp_path):
    archive = archives.make(tmp_path, bundle=series_example.example())
    document = archive.published()
    assert document["dropped"] == 0
    assert document["frames"][0] == {"column": "frame", "shape": [8, 2], "dtype": "float32"}
    cells = [window.tobytes() for window in np.load(tmp_path / "x.npz")["x"]]
    pyarrow.parquet.write_table(pyarrow.table({"x": cells}), tmp_path / "x.parquet")
    archive.published("parquet-out", recordings=str(tmp_path / "x.parquet"))
    assert held(archive, "parquet-out") == held(archive, "out")


def test_names_are_known_without_a_bundle(pictures, tmp_path):
    assert names_of(uri_of(str(pictures["pictures"])))[:2] == [name(0), name(1)]
    assert names_of(uri_of(f"npz:{pictures['x.npz']}")) == range(len(pictures.rows))
    pyarrow.parquet.write_table(pyarrow.table({"x": [b"1", b"2"]}), tmp_path / "x.parquet")
    assert names_of(uri_of(str(tmp_path / "x.parquet"))) == range(2)
