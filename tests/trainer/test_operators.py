"""Where A_d comes from: least squares, files, fitted models; and what each of them refuses."""

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.graphs.pt2 import read_pt2
from edgeveil.trainer.linear import from_keras, from_npy, from_pt2, from_sklearn, homogeneous, least_squares
from tests.support.checkout import ROOT

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 5))
A = RNG.normal(size=(5, 2))


def test_least_squares_finds_the_operator():
    np.testing.assert_allclose(least_squares(X, X @ A), A, atol=1e-12)
    with_one = least_squares(homogeneous(X), X @ A + 3)
    np.testing.assert_allclose(with_one, np.vstack([A, [3, 3]]), atol=1e-12)


def test_ridge_is_the_textbook_one():
    ours = least_squares(X, X @ A, ridge=0.7)
    np.testing.assert_allclose((X.T @ X + 0.7 * np.eye(5)) @ ours, X.T @ X @ A, atol=1e-10)
    assert np.isfinite(least_squares(X[:3], (X @ A)[:3], ridge=1.0)).all()


BAD_DATA = {
    "fewer samples than features": (X[:4], (X @ A)[:4], "at least as many samples"),
    "constant features": (np.hstack([X, np.ones((60, 2))]), X @ A, "2 features are constant"),
    "a feature of zeros": (np.hstack([X, np.zeros((60, 1))]), X @ A, "constant"),
    "nan": (np.where(np.arange(300).reshape(60, 5) == 7, np.nan, X), X @ A, "row 1"),
    "text features": (X.astype(str), X @ A, "Features must be numbers"),
    "text labels": (X, np.array(["yes", "no"] * 30), "Labels must be numbers"),
    "nan labels": (X, np.full(60, np.nan), "Labels hold NaN"),
    "other lengths": (X, (X @ A)[:59], "60 feature vectors and 59"),
    "no samples": (X[:0], (X @ A)[:0], "matrix"),
    "dependent features": (np.hstack([X, X[:, :1] * 2]), X @ A, "depend on each other"),
}


@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_data_is_refused(name):
    x, y, word = BAD_DATA[name]
    with pytest.raises(BadInput, match=word):
        least_squares(x, y)


def test_negative_ridge_is_refused():
    with pytest.raises(BadInput, match="ridge"):
        least_squares(X, X @ A, ridge=-1)


def test_npy(tmp_path):
    np.save(tmp_path / "a.npy", A)
    np.testing.assert_array_equal(from_npy(tmp_path / "a.npy"), A)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x93NUMPY\x01\x00"])
def test_bad_npy_is_refused(tmp_path, content):
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(BadInput, match=r"numpy\.save"):
        from_npy(tmp_path / "a.npy")


def test_npz_missing_and_pickled_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", a=A)
    np.save(tmp_path / "object.npy", np.array([{}]), allow_pickle=True)
    for name in ("a.npz", "object.npy", "absent.npy"):
        with pytest.raises(BadInput, match=r"numpy\.save"):
            from_npy(tmp_path / name)


def test_sklearn_models():
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    np.testing.assert_allclose(from_sklearn(LinearRegression().fit(X, X @ A)), A, atol=1e-10)
    assert from_sklearn(Ridge().fit(X, X[:, 0])).shape == (5, 1)
    assert from_sklearn(PCA(2).fit(X)).shape == (5, 2)
    logistic = LogisticRegression().fit(X, X[:, 0] > 0)
    assert from_sklearn(logistic).shape == (5, 1)
    np.testing.assert_allclose(from_sklearn(logistic.sparsify()), from_sklearn(logistic.densify()))
    with pytest.raises(BadInput, match="fit it first"):
        from_sklearn(LinearRegression())
    with pytest.raises(BadInput, match="Pipeline"):
        from_sklearn(make_pipeline(StandardScaler(), Ridge()).fit(X, X[:, 0]))


def test_keras_first_layer_is_the_linear_operator():
    import keras

    dense = keras.Sequential(
        [keras.Input((3, 2)), keras.layers.Flatten(), keras.layers.Dense(4), keras.layers.Dense(1)]
    )
    x = RNG.normal(size=(7, 3, 2)).astype(np.float32)
    first = keras.Model(dense.inputs, dense.layers[1].output)
    dense.layers[1].bias.assign([1, 2, 3, 4])
    np.testing.assert_allclose(x.reshape(7, -1) @ from_keras(dense) + [1, 2, 3, 4], first([x]), atol=1e-5)

    for padding, strides, channels in (("same", 1, 1), ("valid", 2, 3), ("same", 2, 2)):
        image = keras.Sequential(
            [
                keras.Input((6, 5, channels)),
                keras.layers.Conv2D(4, 3, padding=padding, strides=strides, bias_initializer="ones", activation="relu"),
                keras.layers.Flatten(),
                keras.layers.Dense(1),
            ]
        )
        operator = from_keras(image)
        x = RNG.normal(size=(7, 6, 5, channels)).astype(np.float32)
        answer = np.maximum(x.reshape(7, -1) @ operator + 1, 0)
        np.testing.assert_allclose(answer, np.asarray(image.layers[0](x)).reshape(7, -1), atol=1e-5)


def test_keras_models_that_do_not_start_linear_are_refused():
    import keras

    for layers, word in (
        ([keras.Input((4,)), keras.layers.BatchNormalization(), keras.layers.Dense(1)], "BatchNormalization"),
        ([keras.Input((4, 3)), keras.layers.Dense(1)], "last axis"),
        ([keras.Input((4, 3)), keras.layers.Flatten()], "no Dense"),
        ([keras.Input((None, None, 1)), keras.layers.Conv2D(2, 3)], "any size"),
    ):
        with pytest.raises(BadInput, match=word):
            from_keras(keras.Sequential(layers))


def test_a_module_of_pytorch_lends_its_first_layer_without_pytorch(tmp_path):
    path = ROOT / "tests/trainer/networks/linear.pt2"
    program = read_pt2(path, path.name)
    (weight,) = [one for name, one in program.weights.items() if one.shape == (2, 3)]
    assert from_pt2(path).tolist() == weight.T.tolist()
    with pytest.raises(BadInput, match="there is no such file"):
        from_pt2(tmp_path / "none.pt2")
