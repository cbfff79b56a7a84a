"""The mechanisms do what their papers say, on made-up pictures."""

import numpy as np
import pytest

from edgeveil.trainer.datasets.readings import Readings
from scripts.reproduce.peers.mechanisms import _private, cell_means, groups_of, peers

pytest.importorskip("cv2")
RNG = np.random.default_rng(2)
N = 60
READINGS = Readings(
    RNG.integers(0, 256, (N, 21, 18, 1)).astype(np.uint8),
    np.arange(N) % 2,
    np.arange(N) // 2 % 6,
    ("a", "b"),
    tuple("123456"),
    "image",
)


@pytest.mark.parametrize("peer", peers(faces=True), ids=lambda peer: f"{peer.name}, {peer.strength}")
def test_every_mechanism_gives_as_many_pictures_of_the_same_kind(peer):
    made = peer.run(READINGS, np.random.default_rng(0))
    assert made.shape == READINGS.x.shape
    assert made.dtype == np.uint8
    assert (made != READINGS.x).any()


def test_cells_at_the_edge_are_means_too():
    picture = RNG.random((5, 7))
    made = cell_means(picture, 4)
    assert np.allclose(made[:4, :4], picture[:4, :4].mean())
    assert np.allclose(made[4:, 4:], picture[4:, 4:].mean())


def test_noise_is_of_the_papers_scale():
    x = np.full((400, 16, 16, 1), 128, np.uint8)
    grey = Readings(x, np.zeros(400, int), np.zeros(400, int), ("a",), ("b",), "image")
    made = _private(8.0)(grey, np.random.default_rng(1)).astype(float)
    cells = made[:, ::8, ::8]
    assert (made == cells.repeat(8, axis=1).repeat(8, axis=2)).all()
    assert np.abs(cells - 128).mean() == pytest.approx(255 * 16 / (64 * 8.0), rel=0.1)


def test_groups_are_of_k_different_people():
    flat = READINGS.x.reshape(N, -1).astype(float)
    groups = groups_of(flat, READINGS.z, RNG.permutation(N), 4)
    assert sorted(np.concatenate(groups)) == list(range(N))
    assert all(len(set(READINGS.z[group])) >= 4 for group in groups)


def test_the_ellipse_leaves_the_corners():
    peer = next(one for one in peers(faces=True) if "ellipse" in one.strength)
    made = peer.run(READINGS, np.random.default_rng(0))
    assert (made[:, 0, 0] == READINGS.x[:, 0, 0]).all()
    assert (made[:, 10, 9] != READINGS.x[:, 10, 9]).any()
