"""Pictures resized: means that are exact whatever adds them, so that every board makes the same bytes."""

import hashlib
from fractions import Fraction

import cv2
import numpy as np
import pytest

from edgeveil.edge_runtime.pipeline import resize
from edgeveil.edge_runtime.pipeline.resize import Fit

SIZES = [(int(a), int(b)) for a, b in np.random.default_rng(7).integers(1, 90, (40, 2))]


def picture(shape, dtype="uint8", seed=0):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return rng.normal(size=shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def exact(data, to):
    """The means by whole numbers of any length: (rows, columns) lists of fractions of one channel."""
    (h, w), (rows, columns) = data.shape, to

    def overlaps(a, b):
        return [[max(0, min((j + 1) * b, (i + 1) * a) - max(j * b, i * a)) for j in range(a)] for i in range(b)]

    down, across = np.array(overlaps(h, rows), object), np.array(overlaps(w, columns), object)
    return [[Fraction(int(n), h * w) for n in row] for row in down.dot(data.astype(object)).dot(across.T)]


def rounded(value):
    """A fraction as the nearest float32, ties to even: by float64, exact here within 2**-29 of a step."""
    return np.float32(value.numerator / value.denominator)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int8", "int16"])
def test_area_is_the_exact_mean_of_any_size_and_whole_type(dtype):
    for number, (size, to) in enumerate(zip(SIZES[::2], SIZES[1::2], strict=True)):
        data = picture(size, dtype, number)
        ours = resize.area(size, to, data.dtype)(data[:, :, None])[:, :, 0]
        assert ours.dtype == np.float32
        assert ours.tolist() == [[rounded(value) for value in row] for row in exact(data, to)], (size, to)


def test_the_extremes_of_a_large_picture_do_not_overflow():
    for dtype, value in (("uint8", 255), ("uint16", 65535), ("int8", -128), ("int16", -32768)):
        data = np.full((2003, 1999, 1), value, dtype)
        assert (resize.area(data.shape[:2], (7, 11), data.dtype)(data) == value).all()


def test_area_is_what_opencv_takes_and_one_byte_differs_only_where_a_mean_is_half_way():
    """Of whole ratios and others. OpenCV adds in float32, and rounds halves up where it takes 2 x 2."""
    for size, to in (((424, 512), (28, 28)), ((480, 640), (180, 180)), ((48, 64), (24, 32)), ((720, 1280), (18, 32))):
        data = picture((*size, 3))
        ours = resize.area(size, to, data.dtype)(data)
        theirs = cv2.resize(data.astype(np.float32), to[::-1], interpolation=cv2.INTER_AREA)
        assert np.allclose(ours, theirs, atol=1e-3)
        unlike = np.rint(ours) != cv2.resize(data, to[::-1], interpolation=cv2.INTER_AREA)
        assert (abs(ours[unlike] % 1 - 0.5) < 1e-3).all()


def test_the_bytes_of_area_are_these_on_every_machine():
    """Of numbers that no library draws: the same with any numpy, any BLAS and without OpenCV."""
    whole = (np.arange(97 * 131 * 3, dtype=np.uint64) ** 2 % 65521).reshape(97, 131, 3)
    made = hashlib.sha256()
    for data in ((whole % 251).astype(np.uint8), whole.astype(np.uint16), whole.astype(np.float32) / np.float32(8)):
        made.update(resize.area((97, 131), (32, 48), data.dtype)(data).astype("<f4").tobytes())
    assert made.hexdigest() == "ca02ef7039feab30913f50b924869850941ce8b47b26e9b2edc555a15b5290f5"


def test_nearest_takes_the_pixel_under_the_middle():
    data = np.arange(36).reshape(6, 6)
    assert resize.nearest((6, 6), (2, 3))(data).tolist() == [[7, 9, 11], [25, 27, 29]]


def test_gray_is_the_weighted_sum_of_every_colour():
    colours = np.stack(np.meshgrid(*[np.arange(0, 256, 5)] * 3), axis=-1).reshape(-1, 52, 3).astype(np.uint8)
    assert np.array_equal(resize.gray(colours), (colours.astype(int) @ [77, 150, 29]) // 256)


def test_a_crop_is_the_middle_with_the_ratio_of_the_frame():
    data = picture((72, 128, 3))
    assert np.array_equal(Fit("crop", "nearest", (72, 72))(data), data[:, 28:100])
    assert np.array_equal(Fit("crop", "area", (32, 32))(data), Fit("stretch", "area", (32, 32))(data[:, 28:100]))
    tall = data.transpose(1, 0, 2)
    assert np.array_equal(Fit("crop", "area", (32, 32))(tall), Fit("stretch", "area", (32, 32))(tall[28:100]))
    wide = Fit("crop", "nearest", (3, 10))  # 72 x 128 at most has 38 x 128 of it
    assert np.array_equal(wide(data), Fit("stretch", "nearest", (3, 10))(data[17:55]))
    assert Fit("crop", "area", (8, 8))(data[:1, :1]).shape == (8, 8, 3)  # a single pixel is enlarged


def test_pictures_of_two_types_and_sizes_in_turn_are_each_resized_as_alone():
    fit = Fit("letterbox", "area", (16, 16))
    for shape, dtype in (((40, 60), "uint8"), ((40, 60), "uint16"), ((60, 40), "uint16"), ((40, 60), "uint8")):
        data = picture(shape, dtype)
        assert np.array_equal(fit(data), Fit("letterbox", "area", (16, 16))(data))
        assert fit(data).dtype == data.dtype
