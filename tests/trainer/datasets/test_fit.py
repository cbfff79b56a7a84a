"""Pictures of several sizes: brought to one by the trainer and by the board's capture, with the same numbers."""

import csv

import cv2
import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput, BundleRefused, FrameDropped, Unsupported
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.late_imports import MOST_FITTED
from edgeveil.edge_runtime.manifest.capture import check_capture
from edgeveil.edge_runtime.manifest.manifest import expected, parse, parse_capture
from edgeveil.edge_runtime.pipeline.crops import Capture as Runner
from edgeveil.edge_runtime.pipeline.resize import Fit
from edgeveil.edge_runtime.sources.images import ImagesSource
from edgeveil.edge_runtime.sources.video import VideoSource
from edgeveil.trainer import datasets
from edgeveil.trainer.datasets.loaders import image_folder
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.recipe.training_sections import Capture
from edgeveil.trainer.scaffold.given import Given, camera_of
from edgeveil.trainer.scaffold.look import look
from edgeveil.trainer.scaffold.new import first_guess, write_recipe
from tests.support import bundles
from tests.support.once import nightly_but
from tests.trainer.datasets.made_pictures import write_film

pytestmark = pytest.mark.usefixtures("few_trees")

SIZES = ((40, 60), (60, 40), (24, 32), (9, 70))
PEOPLE = 24


def folder_of(folder, *, nested=False):
    """Pictures of four sizes, some gray; y is the class folder, z the group, 24 people."""
    rng, rows = np.random.default_rng(0), []
    for person in range(PEOPLE):
        for number in range(8):
            y, shape = number % 2, SIZES[number % 4]
            where = ("train", "test")[person % 4 == 0] + "/" if nested else ""
            name = f"{where}{('low', 'high')[y]}/{person:02}-{number}.png"
            picture = rng.integers(0, 256, shape if number == 6 else (*shape, 3)).astype(np.uint8)
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            assert cv2.imwrite(str(folder / name), picture)
            rows.append((name, "ab"[person // 4 % 2], f"p{person}"))
    with (folder / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("file", "group", "person"), *rows])
    return folder


def given(folder, *camera, **more):
    capture, size, crop, fit = camera_of(camera)
    more = {"sensitive": "group", "subject": "person", **more}
    return Given(f"images:{folder}", capture=capture, size=size, crop=crop, fit=fit, **more)


@pytest.mark.parametrize(
    ("fit", "further"),
    nightly_but(
        (
            ("stretch", ()),
            ("stretch", ("size=16x16x1",)),
            ("letterbox", ()),
            ("letterbox", ("size=16x16x1",)),
            ("crop", ()),
        ),
        ("crop", ()),
        ("letterbox", ("size=16x16x1",)),
    ),
)
def test_trainer_and_board_make_the_same_samples_of_pictures_of_any_size(tmp_path, fit, further):
    folder = folder_of(tmp_path)
    write_recipe(given(folder, "frame=32x24x3", f"fit={fit}", *further), tmp_path / "r.toml")
    recipe = Recipe.parse((tmp_path / "r.toml").read_text(), folder=tmp_path)
    assert f'fit = "{fit}"' in (tmp_path / "r.toml").read_text()
    x = datasets.load(recipe).x
    assert x.shape[1:] == ((16, 16, 1) if further else (24, 32, 3))
    document = recipe.capture.document()
    rules = parse(document)
    runner, spec = Runner(rules), expected(rules.input, rules.capture)
    with ImagesSource(str(folder), spec) as source:  # the board descends as the trainer does
        board = [runner.frames(source.next())[0][1]._data for _ in range(len(x))]
        assert source.next() is None
    assert np.array_equal(np.stack(board), x)
    assert len(np.unique(x)) > 50


def test_a_letterbox_keeps_the_ratio_and_is_black_around_and_stretch_fills():
    picture = np.full((40, 60, 3), 200, np.uint8)
    boxed = Fit("letterbox", "area", (32, 32))(picture)
    assert boxed.dtype == np.uint8
    assert (boxed[5:26] == 200).all()  # 40 x 32/60 is 21.3
    assert not boxed[:5].any()
    assert not boxed[26:].any()
    assert (Fit("stretch", "area", (32, 32))(picture) == 200).all()
    tall = Fit("letterbox", "nearest", (32, 32))(np.full((300, 1), 7, np.uint16))
    assert (tall.shape, tall.dtype, int((tall == 7).sum())) == ((32, 32), np.uint16, 32)
    gradient = np.random.default_rng(1).integers(0, 256, (60, 90, 3)).astype(np.uint8)
    oracle = cv2.resize(gradient, (30, 20), interpolation=cv2.INTER_AREA)
    assert np.abs(Fit("stretch", "area", (20, 30))(gradient).astype(int) - oracle).max() <= 1


def test_a_picture_beyond_what_is_fitted_is_dropped_before_it_is_resized():
    huge = np.broadcast_to(np.uint8(0), (2**13, MOST_FITTED // 2**13 + 1, 3))
    with pytest.raises(FrameDropped, match="shape"):
        Fit("stretch", "area", (8, 8))(huge)
    section = Capture.model_validate({"frame": {"shape": [8, 8, 3], "dtype": "uint8"}, "fit": "stretch"})
    runner = Runner(parse({"capture": section.manifest(), "input": section.input()}))
    for data in (np.zeros((9, 9, 4), np.uint8), np.zeros((9, 9, 3), np.uint16), np.zeros(9, np.uint8)):
        with pytest.raises(FrameDropped):
            runner.frames(RawFrame(data, 0))


def test_a_film_of_another_size_runs_where_the_bundle_has_a_fit(tmp_path):
    section = {"frame": {"shape": [24, 32, 3], "dtype": "uint8"}, "fit": "letterbox", "resize": "area"}
    capture = Capture.model_validate(section)
    rules = parse(capture.document())
    film = str(write_film(tmp_path / "f.avi", frames=3))
    with VideoSource(film, expected(rules.input, rules.capture)) as source:
        ((_, frame),) = Runner(rules).frames(source.next())
    assert frame._data.shape == (24, 32, 3)
    with pytest.raises(Unsupported, match=r"480 x 640 .*24 x 32.*--camera fit=letterbox"):
        VideoSource(film, expected(rules.input, rules.capture._replace(fit=None)))


def test_a_data_set_of_crops_meets_a_camera_of_640_x_480_and_one_of_1280_x_720(tmp_path):
    rng = np.random.default_rng(2)
    x, labels = rng.integers(0, 256, (160, 32, 32, 3)).astype(np.uint8), np.arange(160)
    np.savez(tmp_path / "crops.npz", x=x, y=labels % 2, z=labels // 2 % 2, subject=labels // 4)
    recipe = first_guess(Given(f"npz:{tmp_path}/crops.npz", capture="32x32x3", fit="crop"))
    assert np.array_equal(datasets.load(recipe).x, x)
    rules = parse(recipe.capture.document())
    assert expected(rules.input, rules.capture)["any_size"]
    for size in ((480, 640), (720, 1280)):
        picture = rng.integers(0, 256, (*size, 3)).astype(np.uint8)
        ((_, frame),) = Runner(rules).frames(RawFrame(picture, 0))
        middle = picture[:, (size[1] - size[0]) // 2 :][:, : size[0]]
        assert np.array_equal(frame._data, Fit("stretch", "area", (32, 32))(middle))


def test_the_way_is_signed_and_only_these_three_are_taken():
    document = bundles.captured_example()[0]
    document["capture"].update(crop=None, measure="value", low=None, high=None, slots=1, resize="area")
    document["capture"]["frame"].update(shape=[9, 9], dtype=document["input"]["dtype"], unit_mm=None)
    assert "fit" not in document["capture"]
    assert parse_capture(document["capture"]).fit is None
    document["capture"]["fit"] = "letterbox"
    assert parse_capture(document["capture"]).fit == "letterbox"
    for wrong in ("cover", None, 1):
        document["capture"]["fit"] = wrong
        with pytest.raises(BundleRefused, match=r"capture\.fit"):
            check_capture(document["capture"], document["input"])


def test_pictures_of_several_sizes_are_refused_with_the_options_that_bring_them_to_one(tmp_path):
    folder = folder_of(tmp_path)
    (wrong,) = look(given(folder)).wrong
    assert "4 shapes or types" in wrong or "5 shapes or types" in wrong
    assert "--camera frame=" in wrong
    assert "x3 --camera fit=letterbox, or fit=stretch." in wrong
    frame, fit = (word.strip(",") for word in wrong.split("--camera ")[1:3])
    assert datasets.load(first_guess(given(folder, frame.strip(), fit.split(",")[0]))).x.ndim == 4
    with pytest.raises(BadInput, match=r"got 32x24x3\. Or say with --camera fit=stretch, letterbox or crop how"):
        first_guess(given(folder, "frame=32x24x3"))
    with pytest.raises(BadInput, match="expected stretch or letterbox or crop, without crop=people; got cover"):
        first_guess(given(folder, "frame=32x24x3", "fit=cover"))
    with pytest.raises(BadInput, match="--camera fit does not go with images"):
        first_guess(given(folder, "fit=letterbox"))


def test_folders_train_and_test_are_a_split_that_is_kept(tmp_path):
    folder = folder_of(tmp_path, nested=True)
    pictures = image_folder.find(folder)
    held = pictures.held()
    assert held.sum() == len(held) // 4
    assert set(pictures.classes()) == {"low", "high"}
    assert "the split is kept: 48 of 192 pictures are for the test" in look(given(folder)).notes
    loaded = datasets.load(first_guess(given(folder, "frame=32x24x3", "fit=stretch")))
    assert sorted(loaded.slices.test) == np.flatnonzero(held).tolist()
    assert not held[loaded.slices.training()].any()
    assert not held[loaded.slices.attack].any()
    (folder / "other").mkdir()
    (folder / "train/low/00-x.png").write_bytes((folder / "train/low/01-0.png").read_bytes())
    with (folder / "labels.csv").open("a") as file:
        file.write("train/low/00-x.png,a,p0\n")
    with pytest.raises(BadInput, match="1 subject or session has rows both in the folder of the test and outside"):
        datasets.load(first_guess(given(folder, "frame=32x24x3", "fit=stretch")))
    (folder / "train/1.png").write_bytes((folder / "train/low/01-0.png").read_bytes())
    with pytest.raises(BadInput, match="1 picture lies in no class"):
        image_folder.find(folder).classes()
    (folder / "train/1.png").rename(folder / "other/1.png")  # a third folder: no split, but classes
    assert image_folder.find(folder).held() is None
