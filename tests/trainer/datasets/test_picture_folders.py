"""Folders of pictures as people have them: links, other kinds, EXIF, names of other systems; what x is taken for."""

import io
import shutil
import unicodedata

import cv2
import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput, FrameDropped
from edgeveil.edge_runtime.sources.images import ImagesSource, upright
from edgeveil.edge_runtime.sources.picture_size import read_size
from edgeveil.trainer.datasets.columns import read_table
from edgeveil.trainer.datasets.loaders import image_folder, npz
from edgeveil.trainer.datasets.readings import checked_samples, taken_for
from edgeveil.trainer.scaffold.given import Given
from edgeveil.trainer.scaffold.look import look

PICTURE = np.arange(6 * 8 * 3, dtype=np.uint8).reshape(6, 8, 3)
SENSOR = {"kind": "image", "shape": [8, 6, 3], "dtype": "uint8", "unit_mm": None, "access_points": None}


def written(path, picture=PICTURE):
    path.parent.mkdir(parents=True, exist_ok=True)
    assert cv2.imwrite(str(path), picture)
    return path


def labels_of(folder, *names):
    path = folder / "labels.csv"
    path.write_text("file,z\n" + "".join(f"{name},{at % 2}\n" for at, name in enumerate(names)))
    return read_table("csv", path)


def test_folders_that_are_links_are_classes_and_a_circle_ends(tmp_path):
    written(tmp_path / "elsewhere/1.png")
    written(tmp_path / "d/cat/1.png")
    (tmp_path / "d/dog").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "d/ape").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "d/cat/up").symlink_to(tmp_path / "d")
    (tmp_path / "d/.hidden").symlink_to(tmp_path / "elsewhere")
    found = image_folder.find(tmp_path / "d")
    assert found.names == ("ape/1.png", "cat/1.png", "dog/1.png")
    assert found.classes().tolist() == ["ape", "cat", "dog"]
    (tmp_path / "d/fox").symlink_to(tmp_path / "gone")  # a link to nothing is a file that is named
    assert image_folder.find(tmp_path / "d").others == {"fox": 1}


@pytest.mark.parametrize("kind", [".gif", ".webp", ".HEIC", ".txt"])
def test_what_is_no_picture_here_is_counted_and_named(tmp_path, kind):
    names = [written(tmp_path / f"a/{at}.png").relative_to(tmp_path) for at in range(3)]
    (tmp_path / f"a/x{kind}").write_bytes(b"other")
    found = image_folder.find(tmp_path)
    (said,) = found.left_out()
    assert f"1 file was left out of {tmp_path} (1 {kind.lower()})" in said
    with pytest.raises(BadInput, match=rf"1 of 4 files are not among the pictures .*left out .*1 \{kind.lower()}"):
        image_folder.matched(found, labels_of(tmp_path, *names, f"a/x{kind}"))
    labels_of(tmp_path, *names)
    assert any(kind.lower() in note for note in look(Given(f"images:{tmp_path}")).notes)
    with ImagesSource(str(tmp_path / "a"), {**SENSOR, "shape": [6, 8, 3]}) as source:
        assert source.size == (3 if kind == ".txt" else 4)
        assert sum(source.next() is not None for _ in range(3)) == 3
        if kind != ".txt":  # a picture that the board cannot read is a dropped frame, and is counted as one
            with pytest.raises(FrameDropped, match="unreadable"):
                source.next()


def test_a_picture_under_another_kinds_ending_is_unreadable_for_trainer_and_board(tmp_path):
    data = cv2.imencode(".webp", PICTURE)[1].tobytes()
    (tmp_path / "1.png").write_bytes(data)
    assert upright(data) is None
    with pytest.raises(BadInput, match="damaged, too large, or of another kind"):
        image_folder.read_picture(tmp_path / "1.png")


def turned(kind, orientation):
    """The picture with an EXIF orientation, big-endian where it is odd."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    exif, data = image.Exif(), io.BytesIO()
    exif[0x112] = orientation
    image.fromarray(PICTURE[:, :, ::-1]).save(data, kind, exif=exif, **({"quality": 95} if kind == "JPEG" else {}))
    return data.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "JPEG"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_pictures_are_turned_as_exif_says_by_trainer_and_board(tmp_path, kind, orientation):
    data = turned(kind, orientation)
    expected = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)  # an oracle: OpenCV turns these
    assert np.array_equal(upright(data), expected)
    assert read_size(data) == expected.shape[:2]
    path = tmp_path / f"a/1.{kind.lower()}"
    path.parent.mkdir()
    path.write_bytes(data)
    assert np.array_equal(image_folder.read_picture(path), expected[:, :, ::-1])
    with ImagesSource(str(path.parent), {**SENSOR, "shape": list(expected.shape)}) as source:
        assert np.array_equal(source.next()._data, expected[:, :, ::-1])
    labels_of(tmp_path, f"a/1.{kind.lower()}")
    said = any("turned as EXIF says" in note for note in look(Given(f"images:{tmp_path}")).notes)
    assert said == (orientation > 1)


@pytest.mark.parametrize("form", ["NFD", "NFC"])
def test_names_are_compared_in_one_form(tmp_path, form):
    here, there = (unicodedata.normalize(one, "Tür/ä.png") for one in (form, {"NFC": "NFD", "NFD": "NFC"}[form]))
    written(tmp_path / "1.png")
    (tmp_path / here).parent.mkdir()
    shutil.move(tmp_path / "1.png", tmp_path / here)
    found = image_folder.find(tmp_path)
    assert image_folder.matched(found, labels_of(tmp_path, there)).rows == 1
    assert found.classes().tolist() == ["Tür"]
    with pytest.raises(BadInput, match=r'such as "Tür/\\u0430.png"'.replace("ü", r"\\xfc")):  # a Cyrillic letter
        image_folder.matched(found, labels_of(tmp_path, "Tür/\u0430.png"))


def test_a_picture_of_two_readings_says_what_it_was_taken_for(tmp_path, capsys):
    for shape in ((4, 16, 16), (16, 16, 16), (8, 5, 7), (4, 16, 4)):
        assert taken_for((9, *shape))[0].startswith(f"x, {' x '.join(map(str, shape))}, is taken for pictures of")
    assert [taken_for((9, *shape)) for shape in ((3, 16, 16), (16, 16, 3), (16, 16, 4), (7,))] == [[]] * 4
    with pytest.raises(BadInput, match=r"channels are first, turn it round with numpy.moveaxis"):
        checked_samples(np.zeros((9, 2, 16, 16), np.uint8), tmp_path)
    np.savez(tmp_path / "x.npz", x=np.zeros((9, 4, 16, 16), np.uint8), y=np.arange(9), z=np.arange(9))
    npz.load(tmp_path / "x.npz")
    assert "4 x 16 pixels and 16 channels" in capsys.readouterr().err
