"""Pictures that a decoder drew: of their code, readable as their class, of different looks, and nobody's."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.perturbers.codebook import decoder
from edgeveil.trainer.recipe.perturber import Codebook

PER_CLASS, COPIES = 2, 8


@pytest.fixture(scope="module")
def drawn():
    """Digits 0, 1 are two codes of class 0, digits 7, 8 of class 1; a fifth and sixth code have no sample."""
    bunch = load_digits()
    code = np.select([bunch.target == d for d in (0, 1, 7, 8)], range(4), -1)
    u = (bunch.images[code >= 0] / 16).astype(np.float32)[..., None]
    code = code[code >= 0]
    kept = np.stack([u.sum(axis=(1, 2, 3)), u[:, 2:6, 3:5].sum(axis=(1, 2, 3))], axis=1)

    def read(pictures):
        """The nearest mean picture."""
        means = np.stack([u[code == c].mean(axis=0) for c in range(4)])
        far = ((pictures[:, None] - means) ** 2).sum(axis=(2, 3, 4))
        nearest = far.argmin(axis=1)
        return np.eye(2)[nearest // 2]

    settings = {"codes": PER_CLASS, "donors": COPIES, "decoder_steps": 500, "latent": 4}
    section = Codebook(kind="codebook", keep=["pixels"], **settings)
    rng = np.random.default_rng(0)
    given = {"codes": 4, "section": section, "binary": False, "read": read}
    return u, code, read, decoder.pictures(u, code, kept, rng=rng, **given)


def test_every_code_has_pictures_that_are_read_as_its_class(drawn):
    u, code, read, pictures = drawn
    assert pictures.shape == (4 * COPIES, 8, 8, 1)
    assert pictures.dtype == np.float32
    assert 0 <= pictures.min() < pictures.max() <= 1
    of_code = np.repeat(np.arange(4), COPIES)
    assert (read(pictures).argmax(axis=1) == of_code // PER_CLASS).mean() > 0.95
    means = np.stack([u[code == c].mean(axis=0).ravel() for c in range(4)])
    nearest = ((pictures.reshape(-1, 1, 64) - means) ** 2).sum(axis=2).argmin(axis=1)
    assert (nearest == of_code).mean() > 0.9


def test_they_differ_and_are_copies_of_no_sample(drawn):
    u, code, _, pictures = drawn
    for number in range(4):
        mine = pictures[number * COPIES : (number + 1) * COPIES].reshape(COPIES, -1)
        apart = np.linalg.norm(mine[:, None] - mine, axis=2)[~np.eye(COPIES, dtype=bool)]
        assert apart.min() > 0.01  # copies of one picture would be at 0; the nearest two of some seeds are at 0.05
        real = u[code == number].reshape(-1, 64)
        assert np.linalg.norm(mine[:, None] - real, axis=2).min() > 0.2


def test_a_code_without_samples_looks_like_the_commonest_of_its_class():
    code, kept = np.array([0, 0, 2, 4, 4]), np.arange(5.0)[:, None]
    told = decoder._conditions(code, kept, codes=6, per_class=2)
    np.testing.assert_array_equal(told[1], told[0])
    np.testing.assert_array_equal(told[3], told[2])
    assert told[4].tolist() == [0, 0, 0, 0, 1, 0, 3.5]
    with pytest.raises(BadInput, match="class 1 of y, so its codes have no pictures"):
        decoder._conditions(np.array([0, 5]), kept[:2], codes=6, per_class=2)
