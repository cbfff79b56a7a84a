"""Pairs are read from .npz files, folders and films; what does not fit is one error that says what to do."""

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.audit import pair_files
from edgeveil.trainer.audit.pair_files import read_pairs

cv2 = pytest.importorskip("cv2")
N = 40
RNG = np.random.default_rng(3)
X = RNG.integers(0, 256, (N, 8, 8)).astype(np.uint8)
Y, Z = np.arange(N) % 2, np.arange(N) // 2 % 3


@pytest.fixture
def npz(tmp_path):
    """raw.npz, and a function that writes out.npz."""
    np.savez(tmp_path / "raw.npz", x=X, y=Y, z=Z, session=np.arange(N) // 4)

    def write(**arrays):
        np.savez(tmp_path / "out.npz", **arrays)
        return tmp_path / "raw.npz", tmp_path / "out.npz"

    return write


def test_arrays_with_x_alone(npz):
    pairs = read_pairs(*npz(x=255 - X))
    assert pairs.after.x.shape == (N, 8, 8, 1)
    assert (pairs.after.z == Z).all()
    assert (pairs.after.session == np.arange(N) // 4).all()


def test_labels_from_a_file(npz, tmp_path):
    raw, out = npz(x=X)
    np.savez(raw, x=X)
    rows = (f"{y},person {z},{i % 20},{i % 3 - 1},{'ab'[i % 2]}" for i, (y, z) in enumerate(zip(Y, Z, strict=True)))
    (tmp_path / "labels.csv").write_text("\n".join(["y,z,subject,label_age,label_mood", *rows]))
    pairs = read_pairs(raw, out, labels=tmp_path / "labels.csv")
    known = pairs.after.known
    assert known["age"].names == ("-1", "0", "1")
    assert (known["age"].ordered, known["mood"].ordered) == (True, False)
    assert (known["mood"].values == np.arange(N) % 2).all()
    assert pairs.before.z_names == ("person 0", "person 1", "person 2")
    assert len(np.unique(pairs.after.subject)) == 20


def test_unequal_lengths(npz):
    with pytest.raises(BadInput, match="got 40 before and 39 after"):
        read_pairs(*npz(x=X[1:]))


def test_labels_that_differ_are_another_order(npz):
    order = RNG.permutation(N)
    paths = npz(x=X[order], y=Y[order], z=Z[order])
    with pytest.raises(BadInput, match="another order"):
        read_pairs(*paths)
    pairs = read_pairs(*paths, order="shuffled")
    assert (pairs.after.z == Z[order]).all()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda raw, out: out.write_bytes(b"no zip"), "cannot be read"),
        (lambda raw, out: out.unlink(), "AFTER"),
        (lambda raw, out: np.savez(raw, x=X), "`y` is missing"),
        (lambda raw, out: np.savez(out, frames=X), "`x` is missing"),
    ],
)
def test_files_that_cannot_be_used(npz, spoil, words):
    raw, out = npz(x=X)
    spoil(raw, out)
    with pytest.raises(BadInput, match=words):
        read_pairs(raw, out)


def test_kinds_that_differ(npz, tmp_path):
    raw, _ = npz(x=X)
    with pytest.raises(BadInput, match="Two of one kind"):
        read_pairs(raw, tmp_path)


@pytest.fixture
def folders(tmp_path):
    """Folders of pictures before and after, in folders of classes."""
    for name, x in (("before", X), ("after", 255 - X)):
        for i in range(N):
            path = tmp_path / name / f"y{Y[i]}" / f"z{Z[i]}" / f"{i:03d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            cv2.imwrite(str(path), x[i])
    return tmp_path / "before", tmp_path / "after"


def test_folders_of_classes(folders):
    pairs = read_pairs(*folders)
    assert pairs.before.y_names == ("y0", "y1")
    assert (pairs.before.x.astype(int) + pairs.after.x == 255).all()


def test_folders_with_a_file_of_labels(folders, tmp_path):
    lines = ["file,y,z", *(f"y{Y[i]}/z{Z[i]}/{i:03d}.png,{Y[i]},{Z[i]}" for i in range(N - 3))]
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    pairs = read_pairs(*folders, labels=tmp_path / "labels.csv")
    assert len(pairs.before.x) == N - 3
    assert "3 of 40 pictures have no labels" in pairs.notes[0]


def test_a_picture_that_is_missing_or_cannot_be_read(folders):
    before, after = folders
    picture = next(after.rglob("*.png"))
    picture.write_bytes(b"none")
    with pytest.raises(BadInput, match="cannot be read as a picture"):
        read_pairs(before, after)
    picture.unlink()
    with pytest.raises(BadInput, match=r"got 40 in .* and 39 in"):
        read_pairs(before, after)


def test_large_pictures_of_many_sizes_are_made_small(tmp_path):
    for i, size in enumerate([(100, 90), (200, 150)]):
        cv2.imwrite(str(tmp_path / f"{i}.png"), RNG.integers(0, 256, (*size, 3)).astype(np.uint8))
    x, notes = pair_files.pictures({str(i): tmp_path / f"{i}.png" for i in range(2)})
    assert x.shape == (2, 64, 64, 3)
    assert "2 sizes" in notes[0]


def write_film(path, frames):
    """A film of grey frames, without loss where OpenCV can."""
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), 25, frames.shape[2:0:-1], True)
    if not writer.isOpened():
        pytest.skip("this OpenCV writes no films")
    for frame in frames:
        writer.write(np.repeat(frame[..., None], 3, axis=2))
    writer.release()


def test_a_film_that_is_late_is_moved_back(tmp_path):
    rng = np.random.default_rng(1)
    place = np.cumsum(rng.normal(0, 2, (150, 2)), axis=0) % 40
    grid = np.mgrid[:48, :48].transpose(1, 2, 0)
    frames = (255 * np.exp(-((grid[None] - 4 - place[:, None, None]) ** 2).sum(axis=-1) / 40)).astype(np.uint8)
    write_film(tmp_path / "before.avi", frames)
    write_film(tmp_path / "after.avi", np.concatenate([frames[:1].repeat(3, axis=0), frames]))
    labels = tmp_path / "labels.csv"
    labels.write_text("\n".join(["frame,y,z", *(f"{i},{i // 10 % 2},{i // 20 % 2}" for i in range(150))]))
    pairs = read_pairs(tmp_path / "before.avi", tmp_path / "after.avi", labels=labels)
    assert any("3 frames late" in note for note in pairs.notes)
    assert any("15 runs of frames" in note for note in pairs.notes)
    assert np.abs(pairs.before.x.astype(int) - pairs.after.x).mean() < 1
    with pytest.raises(BadInput, match="Films need a file of labels"):
        read_pairs(tmp_path / "before.avi", tmp_path / "after.avi")
    (tmp_path / "after.avi").write_bytes(b"none")
    with pytest.raises(BadInput, match="no picture in it"):
        read_pairs(tmp_path / "before.avi", tmp_path / "after.avi", labels=labels)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2", "`y` is missing"),
        ("y,z\n", "no line of labels"),
        ("y,z\n1,", "line 2: `z` is empty"),
        ("y,z\n1,2", "labels of 1 rows and there are 40"),
    ],
)
def test_labels_that_cannot_be_used(npz, tmp_path, text, words):
    (tmp_path / "labels.csv").write_text(text)
    with pytest.raises(BadInput, match=words):
        read_pairs(*npz(x=X), labels=tmp_path / "labels.csv")
