"""``edgeveil data inspect`` says what data hold, what could be y and z, and what is wrong."""

import json

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.scaffold.given import Given
from edgeveil.trainer.scaffold.look import look, next_command, unnamed_subjects
from tests.support.small_runs import ROWS, write_npz
from tests.trainer.datasets.made_pictures import cv2, write_folder


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("pictures"), people=24, each=4, height=48, width=64)


def write_table(folder):
    rows = [f"p{n // 6},{'fm'[n // 6 % 2]},{['sit', 'walk'][n % 2]},{n / 7:.3f},{n % 3 or ''}" for n in range(240)]
    (folder / "t.csv").write_text("\n".join(["Person,Sex,Activity,ax,steps", *rows]))
    return f"csv:{folder / 't.csv'}"


def test_a_folder_of_pictures(pictures):
    found = look(Given(f"images:{pictures}"))
    assert (found.rows, found.shape, found.dtype, found.high) == (96, (48, 64, 3), "uint8", 230)
    labels = {one.name: one for one in found.labels}
    assert dict(labels["folder"].classes) == {"lying": 48, "standing": 48}
    assert labels["folder"].could_be == ("y",)
    assert labels["group"].could_be == ["y", "z"]
    assert (labels["person"].could_be, labels["person"].different) == (["subject"], 24)
    assert found.wrong == []
    assert next_command(Given(f"images:{pictures}"), found).endswith(
        "--sensitive COLUMN [--subject COLUMN] --out mine.toml"
    )


def test_a_table(tmp_path):
    given = Given(write_table(tmp_path))
    found = look(given)
    labels = {one.name: one for one in found.labels}
    assert (found.rows, found.shape) == (240, None)
    assert labels["Person"].could_be == ["subject"]
    assert labels["Sex"].could_be == labels["Activity"].could_be == ["y", "z"]
    assert (labels["ax"].type, labels["ax"].could_be, dict(labels["ax"].classes)) == ("numbers", [], {})
    assert (labels["steps"].missing, labels["steps"].could_be) == (80, [])
    assert "steps: whole numbers, 2 different, 80 missing" in found.text()
    assert next_command(given, found).endswith("--target COLUMN --sensitive COLUMN [--subject COLUMN] --out mine.toml")


@pytest.mark.parametrize("named", [{"target": "Activty"}, {"subject": "Activty"}, {"leave_out": ("Activty",)}])
def test_a_column_that_is_not_there_is_wrong_however_little_is_named(named, tmp_path):
    (said,) = look(Given(write_table(tmp_path), **named)).wrong
    assert 'there is no column "Activty"' in said
    assert "Activity" in said


def test_with_columns_named_it_says_how_cells_are_read(tmp_path):
    given = Given(write_table(tmp_path), "Activity", "Sex", "Person")
    found = look(given)
    assert not found.wrong
    (note,) = found.notes
    assert note.startswith('"steps" is read as number; a missing cell becomes ')
    fine = Given(given.source, "Activity", "Sex", "Person", leave_out=("steps",))
    assert not look(fine).wrong
    words = "--target Activity --sensitive Sex --subject Person --leave-out steps --out mine.toml"
    assert next_command(fine, look(fine)).endswith(words)


def test_a_subject_that_nobody_named_is_said(pictures, tmp_path):
    (said,) = unnamed_subjects(Given(f"images:{pictures}", sensitive="group"))
    assert said.startswith('"person" could say whose a sample is: name it with --subject')
    source = write_table(tmp_path)
    (said,) = unnamed_subjects(Given(source, "Activity", "Sex"))
    assert said.endswith("It is a part of x now.")
    assert unnamed_subjects(Given(source, "Activity", "Sex", "Person")) == []
    assert unnamed_subjects(Given(source, "Activity", "Sex", leave_out=("Person",))) == []
    assert look(Given(source, "Activity", "Sex")).wrong[0].endswith("What says whose a row is goes to --subject.")


def test_arrays_that_are_turned_round_and_rows_of_nobody_are_said(tmp_path):
    write_npz(
        tmp_path, x=np.zeros((ROWS, 3, 8, 8), np.uint8) + np.arange(ROWS, dtype=np.uint8)[:, None, None, None] % 9
    )
    found = look(Given(f"npz:{tmp_path / 'small.npz'}"))
    assert (found.shape, found.what) == ((8, 8, 3), "pictures")
    assert "x has channels first, 3 x 8 x 8; it is turned round" in found.notes[0]
    assert "no array says whose a row is" in found.notes[1]
    assert found.wrong == []


def test_vectors_that_may_be_windows_are_asked_about(tmp_path):
    x = np.random.default_rng(0).normal(size=(ROWS, 96)).astype(np.float32)
    found = look(Given(f"npz:{write_npz(tmp_path, x=x)}"))
    assert "x is taken for 96 features" in found.notes[0]
    assert "x.reshape(N, steps, channels) with --series rate=50" in found.notes[0]
    assert not any("reshape" in note for note in look(Given(f"npz:{write_npz(tmp_path, x=x[:, :95])}")).notes)


def test_classes_of_too_few_rows_are_wrong(tmp_path):
    z = np.zeros(ROWS, int)
    z[:3] = 1
    write_npz(tmp_path, z=z)
    (wrong,) = look(Given(f"npz:{tmp_path / 'small.npz'}")).wrong
    assert 'z "1" has 3 rows; at least 15 are needed' in wrong


@pytest.mark.parametrize(
    ("break_it", "match"),
    [
        (lambda folder: (folder / "labels.csv").unlink(), 'Write a CSV with a column "file"'),
        (lambda folder: (folder / "lying" / "00-00.png").write_bytes(b"no"), "cannot be read as a picture"),
        (lambda folder: cv2.imwrite(str(folder / "lying" / "00-00.png"), np.zeros((9, 9, 3))), "1 of 9 x 9 x 3 uint8"),
        (lambda folder: cv2.imwrite(str(folder / "lying" / "x.png"), np.zeros((48, 64, 3))), "1 of 33 pictures have"),
    ],
)
def test_what_is_wrong_with_a_folder_is_found_and_the_rest_is_said_all_the_same(break_it, match, tmp_path):
    folder = write_folder(tmp_path, people=8, each=4, height=48, width=64)
    break_it(folder)
    found = look(Given(f"images:{folder}"))
    assert match in found.wrong[0]
    assert found.shape == (48, 64, 3)
    assert "wrong: " in found.text()


@pytest.mark.parametrize(
    ("source", "match"),
    [
        ("digits", "digits comes with EdgeVeil"),
        ("npz:none.npz", "there is no such file"),
        ("csv:none.csv", "there is no such file"),
        ("images:none", "there is no such folder"),
        ("pictures", "Your own data were expected as"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(source, match):
    with pytest.raises(BadInput, match=match):
        look(Given(source))


def test_a_file_without_its_kind_is_told_how_to_name_it(tmp_path):
    path = write_table(tmp_path).partition(":")[2]
    with pytest.raises(BadInput, match=f"Write csv:{path}"):
        look(Given(path))


def test_one_column_is_not_both_kept_and_hidden(tmp_path):
    (said,) = look(Given(write_table(tmp_path), target="Sex", sensitive="Sex")).wrong
    assert 'expected two columns, to keep and to hide; got "Sex" twice' in said


def test_the_command_ends_with_two_where_something_is_wrong(tmp_path, edgeveil):
    source = write_table(tmp_path)
    code, out, err = edgeveil("data", "inspect", source, "--json")
    assert (code, json.loads(out)["rows"]) == (0, 240)
    assert err.startswith("Next: edgeveil recipe new csv:")
    code, out, err = edgeveil("data", "inspect", source, "--target", "Activity", "--sensitive", "Sex")
    assert code == 2
    assert "wrong:" in out
    assert err.count("\n") == 1
