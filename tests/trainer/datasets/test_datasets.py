"""What loaders hand over, and one sentence for every way in which a user's arrays can be wrong."""

import gzip

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer import datasets
from edgeveil.trainer.datasets.base import PARTS
from edgeveil.trainer.datasets.loaders import digits, mnist, npz
from edgeveil.trainer.recipe.schema import Recipe

N = 90


def arrays(**changes):
    """A good set of arrays, with some replaced, or left out where None."""
    rng = np.random.default_rng(0)
    good = {"x": rng.random((N, 6)), "y": rng.integers(0, 2, N), "z": rng.integers(0, 3, N)}
    return {name: value for name, value in {**good, **changes}.items() if value is not None}


def recipe(path, **sections):
    table = {
        "name": "mine",
        "data": {"source": f"npz:{path}", "target": "y", "sensitive": "z"},
        "prior": {"kind": "counted"},
        "classifiers": {"architecture": "table1-wifi"},
        "perturber": {"kind": "label-only"},
        "budget": {"classifier_epochs": 1, "epochs": 1},
        "limits": {"target_accuracy": 0.5},
    }
    return Recipe.check({**table, **sections})


def saved(folder, **changes):
    path = folder / "mine.npz"
    np.savez(path, **arrays(**changes))
    return path


def test_digits_are_those_of_scikit_learn():
    dataset = datasets.load(Recipe.find("digits-prgan"))
    assert dataset.x.shape == (1797, 8, 8, 1)
    assert dataset.x.dtype == np.uint8
    assert (dataset.input.low, dataset.input.high) == (0.0, 16.0)
    assert dataset.y_names == ("even", "odd")
    assert dataset.z_names == ("below-five", "five-or-more")
    assert sorted(len(dataset.part(part)) for part in PARTS) == [449, 449, 449, 450]
    np.testing.assert_allclose(dataset.theta, [[0.6, 0.4], [0.4, 0.6]])
    u = dataset.unit(dataset.x)
    assert (u.min(), u.max(), u.dtype) == (0.0, 1.0, np.float32)


def test_digits_that_changed_are_refused(monkeypatch):
    monkeypatch.setattr(digits, "SHA256", "0" * 64)
    with pytest.raises(BadInput, match="Expected scikit-learn's digits with SHA-256 0000"):
        datasets.load(Recipe.find("digits-prgan"))


def test_an_attribute_that_digits_lack_is_refused():
    with pytest.raises(BadInput, match=r'`data.target`: expected "parity" or "less-than-five" or "digit"; got "prime"'):
        digits.load(target="prime", sensitive="parity")


def test_training_sees_no_test_row():
    dataset = datasets.load(Recipe.find("digits-prgan"))
    seen = dataset.for_training()
    assert len(seen.x) == len(dataset.slices.training())
    assert len(seen.part("attack")) == 0
    assert len(seen.part("test")) == 0
    for part in ("classifiers", "perturber"):
        np.testing.assert_array_equal(seen.part(part).x, dataset.part(part).x)
        np.testing.assert_array_equal(seen.part(part).z, dataset.part(part).z)


def test_the_seed_decides_the_slices():
    one, again = (datasets.load(Recipe.find("digits-prgan")) for _ in range(2))
    np.testing.assert_array_equal(one.slices.test, again.slices.test)
    other = datasets.load(Recipe.find("digits-prgan").model_copy(update={"seed": 1}))
    assert not np.array_equal(np.sort(one.slices.test), np.sort(other.slices.test))


@pytest.mark.nightly  # by day digits and made-up sets, above
@pytest.mark.data
def test_mnist_is_pooled_to_seventy_thousand(data_folder):
    readings = mnist.load(target="parity", sensitive="less-than-five")
    assert readings.x.shape == (70000, 28, 28, 1)
    assert readings.x.dtype == np.uint8
    assert readings.x.max() == 255
    assert np.bincount(readings.y).tolist() == [34418, 35582]


def test_mnist_with_a_wrong_checksum_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEVEIL_DATA", str(tmp_path))
    (tmp_path / "mnist").mkdir()
    for name in ("train-images-idx3-ubyte.gz", "t10k-images-idx3-ubyte.gz"):
        (tmp_path / "mnist" / name).write_bytes(gzip.compress(b"not digits"))
    with pytest.raises(BadInput, match=r"is not MNIST's train-images.*expected SHA-256 440fcabf.*, got "):
        mnist.load(target="parity", sensitive="less-than-five")


def test_mnist_that_is_nowhere_says_where_to_put_it(tmp_path, monkeypatch):
    import pooch

    monkeypatch.setenv("EDGEVEIL_DATA", str(tmp_path))
    monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path / "cache" / name)
    monkeypatch.setattr(mnist, "ADDRESS", "http://127.0.0.1:9/")
    with pytest.raises(BadInput, match=r"expected in \$EDGEVEIL_DATA/mnist or .*could not be downloaded.*Put the four"):
        mnist.load(target="parity", sensitive="less-than-five")


def test_vectors_get_a_range_for_each_feature_from_the_training_slices(tmp_path):
    x = np.random.default_rng(1).normal(size=(N, 6))
    x[:, 5] = 3.0
    dataset = datasets.load(recipe(saved(tmp_path, x=x)))
    training = np.concatenate([dataset.slices.classifiers, dataset.slices.perturber])
    np.testing.assert_allclose(dataset.input.low, x[training].min(axis=0), atol=0.1)  # rounded outward
    np.testing.assert_allclose(dataset.input.high[:5], x[training, :5].max(axis=0), atol=0.1)
    assert (dataset.input.low[5], dataset.input.high[5]) == (3.0, 4.0)
    assert dataset.input.kind == "vector"


def test_grey_images_get_a_channel_and_labels_may_be_text(tmp_path):
    x = np.random.default_rng(1).integers(0, 256, (N, 8, 9)).astype(np.uint8)
    y = np.where(np.arange(N) % 2, "walk", "sit")
    dataset = datasets.load(recipe(saved(tmp_path, x=x, y=y, z=np.arange(N) % 3 == 0)))
    assert dataset.input.shape == (8, 9, 1)
    assert dataset.y_names == ("sit", "walk")
    assert dataset.z_names == ("False", "True")


def test_groups_are_subjects(tmp_path):
    groups = np.arange(N) % 30
    dataset = datasets.load(recipe(saved(tmp_path, z=groups % 2, groups=groups)))
    assert dataset.cluster_kind == "subject"
    assert not set(dataset.part("test").cluster) & set(dataset.part("perturber").cluster)


def test_a_cap_on_rows_thins_the_data_evenly(tmp_path):
    y = np.repeat([0, 1], [600, 300])
    path = saved(tmp_path, x=np.random.default_rng(0).random((900, 6)), y=y, z=np.arange(900) % 3)
    dataset = datasets.load(recipe(path, budget={"classifier_epochs": 1, "epochs": 1, "rows": 300}))
    assert [len(dataset.part(part)) for part in PARTS] == [100, 100, 0, 100]
    assert np.bincount(dataset.part("test").y).tolist() in ([66, 34], [67, 33])


def nan_in(x):
    x[7, 2] = np.nan
    return x


class Trap:
    """Would say so if it were ever unpickled."""

    def __reduce__(self):
        return (print, ("unpickled",))


MUSEUM = {
    "nan": ({"x": nan_in(np.ones((N, 6)))}, r"1 of 90 rows have NaN or infinite values, the first is row 7"),
    "infinite": ({"x": np.full((N, 6), -np.inf)}, r"90 of 90 rows have NaN or infinite"),
    "huge": ({"x": np.full((N, 6), 1e300)}, r"must lie within ±1e\+30"),
    "one-dimension": ({"x": np.ones(N)}, r"`x` must be \(N, features\).*got \(90,\)"),
    "no-rows": ({"x": np.ones((0, 6)), "y": np.ones(0, int), "z": np.ones(0, int)}, r"has no rows; got shape \(0, 6"),
    "tiny-images": ({"x": np.ones((N, 2, 9))}, "at least 4 x 4 pixels; got 2 x 9"),
    "complex": ({"x": np.ones((N, 6), complex)}, "`x` must be one of uint8.*got complex128"),
    "truth-values": ({"x": np.ones((N, 6), bool)}, "got bool"),
    "constant": ({"x": np.zeros((N, 8, 8), np.uint8)}, "`data.high` must be above `data.low`; got 0 and 0"),
    "objects": ({"x": np.array([Trap()] * N, dtype=object)}, "`x` is an array of Python objects"),
    "object-labels": ({"y": np.array([Trap()] * N, dtype=object)}, "`y` is an array of Python objects"),
    "float-labels": ({"y": np.linspace(0, 1, N)}, "`y` must be whole numbers or text.*got float64"),
    "short-labels": (
        {"z": np.arange(N - 1)},
        r"`z` must have one value for each of the 90 rows of x; got shape \(89,\)",
    ),
    "one-hot-labels": ({"y": np.eye(2, dtype=int)[np.arange(N) % 2]}, r"got shape \(90, 2\)"),
    "short-session": ({"session": np.arange(3)}, "`session` must have one value"),
    "missing": ({"z": None}, "the array `z` is missing; there is x, y"),
    "slip": ({"sesion": np.arange(N)}, r'`sesion` is not a known array \(did you mean "session"\?\)'),
    "consent-slip": ({"concent": np.ones(N, int)}, r'is not a known array \(did you mean "consent"\?\)'),
    "consent-of-text": (
        {"consent": np.array(["yes"] * N)},
        "`consent` must be 1 \\(true\\) or 0 \\(false\\) for each of the 90",
    ),
    "consent-of-some": ({"consent": np.ones(N - 1, int)}, r"`consent` must be.*got int64 of shape \(89,\)"),
    "z-follows-from-y": ({"y": np.arange(N) % 2, "z": 1 - np.arange(N) % 2}, "z follows from y"),
    "both-groups": ({"groups": np.arange(N), "subject": np.arange(N)}, "`groups` is another name for `subject`"),
    "rare-class": ({"y": (np.arange(N) < 9).astype(int)}, 'y "1" has 9 rows; at least 15 are needed'),
    "one-class": ({"z": np.zeros(N, int)}, "z must have at least 2 classes; got 1"),
    "z-is-the-subject": ({"z": np.arange(N) % 3, "subject": np.arange(N) % 3}, "add an array `session`"),
}


@pytest.mark.parametrize("name", MUSEUM)
def test_bad_arrays_get_one_sentence(name, tmp_path, capsys):
    changes, says = MUSEUM[name]
    path = saved(tmp_path, **changes)
    with pytest.raises(BadInput, match=says) as caught:
        datasets.load(recipe(path))
    assert "\n" not in str(caught.value)
    assert "unpickled" not in capsys.readouterr().out


def test_files_that_are_no_archives_are_refused(tmp_path):
    with pytest.raises(BadInput, match="there is no such file"):
        npz.load(tmp_path / "none.npz")
    path = tmp_path / "mine.npz"
    path.write_bytes(b"PK\x03\x04 and then nothing")
    with pytest.raises(BadInput, match=r"cannot be read as an \.npz file"):
        npz.load(path)
    good = saved(tmp_path)
    good.write_bytes(good.read_bytes()[:-200])
    with pytest.raises(BadInput, match=r"cannot be read as an \.npz file"):
        npz.load(good)
    np.save(tmp_path / "one.npy", np.ones(3))
    with pytest.raises(BadInput, match="is a single array"):
        npz.load(tmp_path / "one.npy")
    np.save(tmp_path / "object.npy", np.array([Trap()], dtype=object))
    with pytest.raises(BadInput, match="cannot be read"):
        npz.load(tmp_path / "object.npy")


def test_a_range_that_the_dtype_cannot_hold_is_refused(tmp_path):
    x = np.random.default_rng(1).integers(0, 256, (N, 8, 8)).astype(np.uint8)
    data = {"source": f"npz:{saved(tmp_path, x=x)}", "target": "y", "sensitive": "z", "high": 300.0}
    with pytest.raises(BadInput, match="must be values that uint8 can hold; got 0 and 300"):
        datasets.load(recipe("", data=data))


def test_a_prior_of_other_classes_is_refused(tmp_path):
    prior = {"kind": "table", "table": {"walk": {"0": 0.5}}}
    with pytest.raises(BadInput, match='names the y "walk"'):
        datasets.load(recipe(saved(tmp_path), prior=prior))


def test_a_file_names_what_else_is_known(tmp_path):
    age, town = np.arange(N) % 7 + 20, np.where(np.arange(N) % 2, "rome", "oslo")
    path = saved(tmp_path, label_age=age, label_town=town)
    dataset = datasets.load(recipe(path))
    assert set(dataset.known) == {"y", "z", "age", "town"}
    assert dataset.known["age"].ordered
    assert not dataset.known["town"].ordered
    assert dataset.known["town"].names == ("oslo", "rome")
    np.testing.assert_array_equal(dataset.known["age"].values + 20, age)
    kept = dataset.for_training()
    np.testing.assert_array_equal(kept.known["age"].values, (age - 20)[np.sort(dataset.slices.training())])


def test_a_label_with_a_name_that_no_recipe_can_say_is_refused(tmp_path):
    with pytest.raises(BadInput, match="expected `label_` and a name of a-z"):
        datasets.load(recipe(saved(tmp_path, **{"label_Ä": np.zeros(N, int)})))


def test_digits_know_all_their_labels():
    known = datasets.load(Recipe.find("digits-prgan")).known
    assert {name: (len(one.names), one.ordered) for name, one in known.items()} == {
        "parity": (2, False),
        "less-than-five": (2, False),
        "digit": (10, True),
    }
