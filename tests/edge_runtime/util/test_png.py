"""edgeveil.edge_runtime.util.png: what zlib alone writes, OpenCV reads."""

import cv2
import numpy as np
import pytest

from edgeveil.edge_runtime.util.png import encode, viewable


@pytest.mark.parametrize("shape", [(1, 1), (28, 28), (7, 5, 1), (180, 181, 3)])
def test_there_and_back(shape):
    picture = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    read = cv2.imdecode(np.frombuffer(encode(picture), np.uint8), cv2.IMREAD_UNCHANGED)
    if picture.ndim == 3 and shape[2] == 3:
        read = read[:, :, ::-1]
    assert np.array_equal(read.reshape(shape), picture)


def test_the_range_of_the_reading_is_black_to_white():
    assert viewable(np.array([[[0], [8], [16]]], np.uint8), 0.0, 16.0).ravel().tolist() == [0, 128, 255]
    assert viewable(np.array([[[0], [65535]]], np.uint16), 0.0, 65535.0).ravel().tolist() == [0, 255]
    assert viewable(np.array([[[np.nan], [2.0]]], np.float32), 0.0, 1.0).ravel().tolist() == [0, 255]


def test_a_vector_becomes_bars():
    bars = viewable(np.array([0.0, 0.5, 1.0], np.float32), 0.0, 1.0)
    assert bars.shape == (64, 3)
    lit = (bars == 220).sum(axis=0)
    assert lit[0] == 1
    assert abs(int(lit[1]) - 32) <= 1
    assert lit[2] == 64
