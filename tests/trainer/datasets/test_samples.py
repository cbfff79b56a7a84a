"""Samples that stay on disk: what is read of them is what an array has, and what is made of pictures is made once."""

import os

import cv2
import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets import samples, slicing
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.datasets.loaders import image_folder, npz
from edgeveil.trainer.datasets.loaders.captured import captured
from edgeveil.trainer.datasets.samples import Stored
from edgeveil.trainer.recipe.data_section import Columns
from edgeveil.trainer.recipe.training_sections import Capture


@pytest.fixture(autouse=True)
def nothing_in_memory(monkeypatch, tmp_path):
    monkeypatch.setattr(samples, "IN_MEMORY", 1)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def pictures(rows=40):
    rng = np.random.default_rng(0)
    return rng.integers(0, 255, (rows, 6, 5, 3), np.uint8)


def write(path, x, *, save=np.savez):
    y = np.arange(len(x)) % 2
    save(path, x=x, y=y, z=y[::-1])
    return path


def conversions(folder):
    return sorted(path.name for path in (folder / "cache").rglob("*") if path.is_file())


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_stored_samples_are_those_of_the_file(save, tmp_path, monkeypatch):
    monkeypatch.setattr(samples, "PIECE", 700)
    x = pictures()
    stored = npz.load(write(tmp_path / "a.npz", x, save=save)).x
    assert isinstance(stored, Stored)
    assert (stored.shape, stored.dtype, stored.ndim, len(stored)) == (x.shape, x.dtype, 4, 40)
    rows = np.array([3, 39, 3, 0, 17])
    for chosen in (rows, slice(3, 9), np.arange(40) % 3 == 0):
        np.testing.assert_array_equal(np.asarray(stored[chosen]), x[chosen])
        np.testing.assert_array_equal(np.asarray(stored[chosen][1:]), x[chosen][1:])
    np.testing.assert_array_equal(stored[39], x[39])
    np.testing.assert_array_equal(stored[rows][-1], x[17])
    assert list(map(int, samples.extremes(stored[rows]))) == [x[rows].min(), x[rows].max()]
    np.testing.assert_array_equal(samples.extremes(stored, axis=0)[0], x.min(axis=0))
    assert len(list(stored.pieces())) > 3


def test_a_small_selection_is_an_array(tmp_path, monkeypatch):
    stored = npz.load(write(tmp_path / "a.npz", pictures())).x
    monkeypatch.setattr(samples, "IN_MEMORY", 10 * 90 * 4)
    assert isinstance(stored[:10], np.ndarray)
    assert isinstance(stored[:11], Stored)


def test_what_is_made_of_samples_is_made_when_they_are_read(tmp_path):
    x = pictures().transpose(0, 3, 1, 2)  # channels first
    stored = npz.load(write(tmp_path / "a.npz", x)).x
    np.testing.assert_array_equal(np.asarray(stored), x.transpose(0, 2, 3, 1))
    half = samples.applied(lambda some: some.astype(np.float32) / 2, stored)
    assert (half.shape, half.dtype) == ((40, 6, 5, 3), np.float32)
    np.testing.assert_array_equal(half[5], x[5].transpose(1, 2, 0) / np.float32(2))


def test_bad_values_are_found_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(samples, "PIECE", 64)
    x = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    x[37, 2] = np.nan
    with pytest.raises(BadInput, match="1 of 60 rows have NaN or infinite values, the first is row 37"):
        npz.load(write(tmp_path / "a.npz", x))


def test_a_file_that_changes_or_is_cut_off_is_a_sentence(tmp_path):
    path = write(tmp_path / "a.npz", pictures())
    stored = npz.load(path).x
    os.utime(path, ns=(1, 1))
    with pytest.raises(BadInput, match="has changed while it was read"):
        stored[0]
    cut = tmp_path / "cut.bin"
    cut.write_bytes(bytes(100))
    with pytest.raises(BadInput, match="ends before its last sample: it is cut off"):
        np.asarray(Stored(cut, 0, (4, 30), "float32"))


def test_too_little_memory_is_a_sentence(tmp_path, monkeypatch):
    stored = npz.load(write(tmp_path / "a.npz", pictures())).x
    monkeypatch.setattr(samples, "free_memory", lambda: 1000)
    with pytest.raises(BadInput, match=r"40 samples of shape \(6, 5, 3\) need 0.0 GB of memory, and 0.0 GB are free"):
        np.asarray(stored)


def test_a_conversion_is_reused_until_the_source_changes(tmp_path, capsys):
    path = write(tmp_path / "a.npz", pictures(), save=np.savez_compressed)
    first, said = npz.load(path).x, "are written once to"
    assert said in capsys.readouterr().err
    kept = conversions(tmp_path)
    npz.load(path)
    assert conversions(tmp_path) == kept
    assert said not in capsys.readouterr().err
    write(path, pictures(41), save=np.savez_compressed)
    again = npz.load(path).x
    assert (len(first), len(again)) == (40, 41)
    assert len(conversions(tmp_path)) == len(kept)
    assert not set(conversions(tmp_path)) & set(kept)


def folder_of_pictures(tmp_path, shapes=((6, 5),) * 12):
    folder, lines = tmp_path / "faces", ["file,z"]
    for number, shape in enumerate(shapes):
        name = f"{'ab'[number % 2]}/{number:02}.png"
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(folder / name), np.full(shape, 10 * number, np.uint8))
        lines.append(f"{name},{number % 3}")
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")
    return folder


def load(folder, capture=None):
    return image_folder.load(folder, folder / "labels.csv", Columns(sensitive="z"), capture)


CAPTURE = {"frame": {"shape": [6, 5], "dtype": "uint8"}, "fit": "letterbox", "resize": "area"}


@pytest.mark.parametrize("capture", [None, CAPTURE])
def test_pictures_are_converted_to_what_they_are_in_memory(capture, tmp_path, monkeypatch):
    asked = None if capture is None else Capture.model_validate(capture)
    folder = folder_of_pictures(tmp_path, ((6, 5),) * 12 if capture is None else ((6, 5), (12, 10)) * 6)
    stored = load(folder, asked)
    read = []
    monkeypatch.setattr(
        image_folder, "read_picture", lambda path, real=image_folder.read_picture: read.append(path) or real(path)
    )
    again = load(folder, asked)
    assert len(read) <= 1  # the first, by which it is known that they are large
    monkeypatch.setattr(samples, "IN_MEMORY", 2**30)
    whole = load(folder, asked)
    for one in (stored, again):
        assert isinstance(one.x, Stored)
        np.testing.assert_array_equal(np.asarray(one.x), whole.x)
        np.testing.assert_array_equal(one.z, whole.z)


def test_an_interrupted_conversion_leaves_nothing_and_is_made_again(tmp_path, monkeypatch):
    folder = folder_of_pictures(tmp_path)
    real = image_folder.read_picture

    def interrupted(path):
        if path.name == "07.png":
            raise KeyboardInterrupt
        return real(path)

    monkeypatch.setattr(image_folder, "read_picture", interrupted)
    with pytest.raises(KeyboardInterrupt):
        load(folder)
    assert conversions(tmp_path) == []
    monkeypatch.setattr(image_folder, "read_picture", real)
    assert len(load(folder).x) == 12
    assert len(conversions(tmp_path)) == 2


def test_pictures_of_two_sizes_are_refused_and_nothing_is_kept(tmp_path):
    sentence = r"the pictures have 2 shapes or types .*: 11 of 6 x 5 x 1 uint8; 1 of 7 x 5 x 1"
    with pytest.raises(BadInput, match=sentence):
        load(folder_of_pictures(tmp_path, ((6, 5),) * 11 + ((7, 5),)))
    assert conversions(tmp_path) == []


def test_frames_without_people_are_left_out_of_what_is_converted(tmp_path):
    """The samples' own rows are kept with them."""
    readings = npz.load(write(tmp_path / "a.npz", pictures()[..., :1]))

    class Picky:
        frame = Capture.model_validate(CAPTURE).frame

        def document(self):
            about = {"shape": [6, 5, 1], "dtype": "uint8", "kind": "image", "low": 0.0, "high": 255.0}
            return {"capture": {}, "input": about}

    def some(_document, frames):
        return ((number, frame) for number, frame in enumerate(frames) if number % 4 == 1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("edgeveil.trainer.datasets.loaders.captured.capture_frames", some)
        for _ in range(2):
            made = captured(readings, Picky(), tmp_path / "a.npz")
            np.testing.assert_array_equal(np.asarray(made.x), pictures()[1::4, ..., :1])
            np.testing.assert_array_equal(made.y, readings.y[1::4])


def test_a_sample_of_each_slice_is_the_same_each_time(tmp_path):
    from edgeveil.trainer.datasets.base import Dataset, Slices

    x = np.arange(4000, dtype=np.float32).reshape(1000, 4)
    readings = npz.load(write(tmp_path / "a.npz", x))
    cut = np.random.default_rng(0).permutation(1000).reshape(4, 250)
    dataset = Dataset(
        "a",
        readings.x,
        readings.y,
        readings.z,
        ("0", "1"),
        ("0", "1"),
        np.full((2, 2), 0.5),
        InputSpec("vector", (4,), "float32", None, None),
        Slices(*cut),
    )
    some = slicing.sample(dataset, most=50, most_bytes=10**6)
    assert slicing.sampled(some, dataset).startswith("50 of 250 (classifiers), 50 of 250 (perturber)")
    assert isinstance(some.x, np.ndarray)
    again = slicing.sample(dataset, most=50, most_bytes=10**6)
    for part in ("classifiers", "perturber", "attack", "test"):
        one = some.part(part)
        assert set(one.x[:, 0]) <= set(x[getattr(dataset.slices, part), 0])
        np.testing.assert_array_equal(one.x[:, 0] // 4 % 2, one.y)  # the labels go with them
        np.testing.assert_array_equal(one.x, again.part(part).x)
    fit, held = slicing.fit_and_validation(dataset, "perturber")
    assert (isinstance(fit.x, Stored), isinstance(held.x, np.ndarray), len(held)) == (True, True, 50)
    assert slicing.sample(some) is some
