"""Films and a CSV of times as data: each stretch has its classes, read as a board reads films."""

import csv

import cv2
import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import expected, parse
from edgeveil.edge_runtime.pipeline.crops import Capture as Runner
from edgeveil.edge_runtime.sources.video import VideoSource
from edgeveil.trainer import datasets
from edgeveil.trainer.recipe.data_section import data_at
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.scaffold.given import Given, camera_of
from edgeveil.trainer.scaffold.look import look, next_command
from edgeveil.trainer.scaffold.new import first_guess, write_recipe

FPS, STRETCHES, EACH = 20.0, 24, 10  # half a second each


def film(path, *, height=48, width=64, seed=0):
    """Stretches of half a second, in each of which y (bright or dark) and z (left or right) stay."""
    rng = np.random.default_rng(seed)
    made = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), FPS, (width, height))
    for stretch in range(STRETCHES):
        for _ in range(EACH):
            picture = rng.integers(0, 40, (height, width, 3)).astype(np.uint8) + np.uint8(120 * (stretch % 2))
            picture[:, (stretch // 2 % 2) * width // 2 :][:, : width // 2] += 60
            made.write(picture)
    made.release()
    return path


def rows_of(name="", *, most=STRETCHES):
    return [
        (name, f"{at / 2:.3f}", f"{at / 2 + 0.5:.3f}", "db"[at % 2], "lr"[at // 2 % 2], f"p{name}{at // 4}")
        for at in range(most)
    ]


def labelled(path, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("file", "start", "end", "y", "z", "person"), *rows])


def given(where, *camera, **more):
    capture, size, crop, fit = camera_of(camera)
    return Given(f"video:{where}", "y", "z", capture=capture, size=size, crop=crop, fit=fit, **more)


def test_every_frame_has_the_classes_of_its_stretch_and_a_stretch_is_a_session(tmp_path):
    film(tmp_path / "f.avi")
    labelled(tmp_path / "f.csv", [*rows_of()[:5], *rows_of()[6:]][::-1])  # in any order, and not all of it
    data = datasets.load(first_guess(given(tmp_path / "f.avi")))
    assert data.x.shape == ((STRETCHES - 1) * EACH, 48, 64, 3)
    assert data.cluster_kind == "session"
    assert len(np.unique(data.cluster)) == STRETCHES - 1
    bright = data.x.mean(axis=(1, 2, 3)) > 110
    assert np.array_equal(bright, data.y == data.y_names.index("b"))
    right = data.x[:, :, 32:].mean(axis=(1, 2, 3)) > data.x[:, :, :32].mean(axis=(1, 2, 3))
    assert np.array_equal(right, data.z == data.z_names.index("r"))
    by_person = datasets.load(first_guess(given(tmp_path / "f.avi", subject="person")))
    assert by_person.cluster_kind == "subject"


@pytest.mark.nightly  # by day of pictures: test_own_data.py; of recordings: test_captured.py
def test_with_capture_one_frame_a_tick_is_taken_as_the_board_makes_it(tmp_path):
    film(tmp_path / "a.avi")
    film(tmp_path / "b.avi", height=60, width=50, seed=1)
    labelled(tmp_path / "labels.csv", [*rows_of("a.avi"), *rows_of("b.avi")])
    write_recipe(given(tmp_path, "frame=16x12x3", "fit=letterbox"), tmp_path / "r.toml")
    recipe = Recipe.parse((tmp_path / "r.toml").read_text(), folder=tmp_path)
    x = datasets.load(recipe).x
    assert x.shape == (2 * STRETCHES * EACH // 2, 12, 16, 3)  # 10 ticks a second, and 20 frames
    rules = parse(recipe.capture.document())
    runner, board = Runner(rules), []
    for name in ("a.avi", "b.avi"):
        with VideoSource(str(tmp_path / name), expected(rules.input, rules.capture)) as source:
            board += [runner.frames(source.next())[0][1]._data for _ in range(STRETCHES * EACH)][::2]
    assert np.array_equal(x, np.stack(board))


def test_a_film_is_known_by_its_ending_and_looked_at(tmp_path):
    film(tmp_path / "f.avi")
    labelled(tmp_path / "f.csv", rows_of())
    assert data_at(str(tmp_path / "f.avi")) == f"video:{tmp_path}/f.avi"
    found = look(given(tmp_path / "f.avi"))
    assert (found.rows, found.wrong, list(found.shape)) == (STRETCHES, [], [48, 64, 3])
    assert "--target y --sensitive z" in next_command(given(tmp_path / "f.avi"), found)
    unnamed = look(Given(f"video:{tmp_path}/f.avi"))
    assert [one.name for one in unnamed.labels] == ["y", "z", "person"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: rows.append(("", "99", "100", "d", "l", "p")), "has no frame from 99 to 100 s"),
        (lambda rows: rows.append(("", "0.2", "0.3", "d", "l", "p")), "begins before the one before it ends"),
        (lambda rows: rows.append(("", "3", "2", "d", "l", "p")), "expected start below end"),
        (lambda rows: rows.append(("", "x", "2", "d", "l", "p")), "must have seconds in every row"),
    ],
)
def test_times_that_cannot_be_are_named(tmp_path, change, said):
    film(tmp_path / "f.avi")
    rows = rows_of()
    change(rows)
    labelled(tmp_path / "f.csv", rows)
    with pytest.raises(BadInput, match=said):
        datasets.load(first_guess(given(tmp_path / "f.avi")))


def test_what_is_no_film_and_films_of_two_sizes_are_sentences(tmp_path):
    (tmp_path / "n.avi").write_bytes(b"no film")
    labelled(tmp_path / "n.csv", rows_of())
    with pytest.raises(BadInput, match="a film that OpenCV can read"):
        datasets.load(first_guess(given(tmp_path / "n.avi")))
    (tmp_path / "d").mkdir()
    film(tmp_path / "d/a.avi")
    film(tmp_path / "d/b.avi", height=60)
    labelled(tmp_path / "d/labels.csv", [*rows_of("a.avi"), *rows_of("b.avi")])
    with pytest.raises(BadInput, match=r"several sizes\. Say with --camera fit=letterbox"):
        datasets.load(first_guess(given(tmp_path / "d")))
