"""T(x): moments are what they say, every part counts alike, and what does not vary is refused."""

from types import SimpleNamespace

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.measures.per_code import moments
from edgeveil.trainer.perturbers.codebook import fit
from edgeveil.trainer.perturbers.codebook.funnel import fit_kept


def stroke(width: int, shear: float = 0.0) -> np.ndarray:
    """A bar of 20 rows and ``width`` columns, each row moved by ``shear`` more; (28, 40, 1)."""
    image = np.zeros((28, 40, 1), np.float32)
    for row in range(4, 24):
        left = 18 + round(shear * (row - 14))
        image[row, left : left + width] = 1
    return image


def test_ink_is_the_mean_and_stroke_the_width():
    found = moments(np.stack([stroke(2), stroke(4)]))
    assert found[:, 0] == pytest.approx([40 / 1120, 80 / 1120])
    assert found[:, 2] == pytest.approx([2, 4], rel=0.25)  # the two short ends of a bar count as outline too
    assert found[:, 1] == pytest.approx(0, abs=1e-9)


def test_slant_is_the_shear():
    assert moments(np.stack([stroke(2, 0.5), stroke(2, -0.5)]))[:, 1] == pytest.approx([0.5, -0.5], abs=0.05)


def test_an_empty_image_has_moments():
    assert np.isfinite(moments(np.zeros((1, 8, 8, 1), np.float32))).all()


def data(n: int = 600) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n)
    return rng.random((n, 6, 6, 1)).astype(np.float32) * (0.5 + y[:, None, None, None]), y, np.arange(n)


def within(t: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.concatenate([t[y == v] - t[y == v].mean(axis=0) for v in np.unique(y)])


def test_every_part_has_the_same_variance_within_y():
    u, y, rows = data()
    temperature = np.random.default_rng(1).normal(20, 5, len(u)) + 100 * y
    kept = fit_kept(["pixels", "moments", "temperature"], u, rows, y=y, attributes={"temperature": temperature})
    t = kept(u, rows)
    assert t.shape == (600, 16 + 3 + 1)
    variance = within(t, y).var(axis=0)
    for part in (slice(0, 16), slice(16, 19), slice(19, 20)):
        assert variance[part].sum() == pytest.approx(1 / 3, rel=0.02)


def test_weights_are_shares_of_the_variance():
    u, y, rows = data()
    t = fit_kept(["ink", "slant", "stroke"], u, rows, y=y, weights=[3.0, 1.0, 1.0])(u, rows)
    assert within(t, y).var(axis=0) == pytest.approx([0.6, 0.2, 0.2], rel=0.02)
    with pytest.raises(BadInput, match="one number for each of the 1 of `keep`; got 2"):
        fit_kept(["ink"], u, rows, y=y, weights=[1.0, 2.0])


def test_an_attribute_is_looked_up_by_row():
    u, y, rows = data()
    values = np.random.default_rng(2).normal(size=600)
    kept = fit_kept(["a"], u[:300], rows[:300], y=y[:300], attributes={"a": values})
    assert np.corrcoef(kept(u[300:], rows[300:])[:, 0], values[300:])[0, 1] == pytest.approx(1)


@pytest.mark.parametrize(
    ("keep", "extra", "message"),
    [
        ([], {}, "at least one property"),
        (["pixels", "pixels"], {}, "each once"),
        (
            ["size"],
            {"attributes": {"age": np.arange(600.0)}},
            'no "size" in these data; it may name pixels, moments, ink, slant, stroke, age',
        ),
        (["flat"], {"attributes": {"flat": np.ones(600)}}, '"flat" does not vary within any class of y'),
        (["bad"], {"attributes": {"bad": np.full(600, np.nan)}}, '"bad" must hold one finite number for each sample'),
        (["wide"], {"attributes": {"wide": np.ones((600, 2))}}, r"for each sample; got shape \(600, 2\)"),
    ],
)
def test_what_cannot_be_kept_is_refused(keep, extra, message):
    u, y, rows = data()
    with pytest.raises(BadInput, match=message):
        fit_kept(keep, u, rows, y=y, **extra)


def test_moments_of_a_vector_are_refused():
    u, y, rows = data()
    with pytest.raises(BadInput, match="are of images"):
        fit_kept(["moments"], u.reshape(600, 36), rows, y=y)
    assert fit_kept(["pixels"], u.reshape(600, 36), rows, y=y)(u.reshape(600, 36), rows).shape == (600, 16)


def test_of_large_samples_few_rows_have_the_components_of_their_covariance():
    u, rows = np.random.default_rng(2).random((40, 300)), np.arange(40)
    kept = fit_kept(["pixels"], u, rows, y=np.zeros(40, np.int64))(u, rows)
    most = np.linalg.eigvalsh(np.cov(u, rowvar=False))[::-1][:16]
    np.testing.assert_allclose(kept.var(axis=0) / kept.var(axis=0).sum(), most / most.sum(), rtol=1e-4)


def test_what_data_have_not_is_refused_before_any_training():
    dataset = SimpleNamespace(x=np.zeros((4, 6)), unit=lambda x: x, attributes={"age": np.arange(4.0)})
    with pytest.raises(BadInput, match=r'no "energy" in these data; it may name pixels, age'):
        fit.check(SimpleNamespace(keep=["age", "energy"]), dataset)
