"""edgeveil.edge_runtime.stages.preprocess: the unit cube and back."""

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.stages.preprocess import to_raw, to_unit
from edgeveil.trainer.datasets.base import Dataset, InputSpec


@pytest.mark.parametrize(("low", "high"), [(0, 255), (0, 16), (3, 200)])
def test_the_table_gives_the_bits_of_the_arithmetic(low, high):
    x = np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1)
    plain = to_unit("int16", low, high)(x.astype(np.int16))
    table = to_unit("uint8", low, high)(x)
    assert table.dtype == plain.dtype == np.float32
    assert table.shape == x.shape
    assert table.tobytes() == plain.tobytes()
    assert table.min() >= 0
    assert table.max() <= 1


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32", "float64"])
@pytest.mark.parametrize(("low", "high"), [(0.0, 16.0), ((0.0, -3.0, 2.0), (1.0, 4.0, 9.5))])
def test_the_board_computes_what_training_computes(dtype, low, high):
    rng = np.random.default_rng(0)
    x = (rng.random((40, 3)) * 20).astype(dtype)
    data = Dataset.__new__(Dataset)
    object.__setattr__(data, "input", InputSpec("vector", (3,), dtype, low, high))
    assert to_unit(dtype, low, high)(x).tobytes() == data.unit(x).tobytes()


@pytest.mark.parametrize(("dtype", "low", "high"), [("uint8", 0, 255), ("uint8", 0, 16), ("int16", -300, 300)])
def test_whole_numbers_come_back_as_they_went(dtype, low, high):
    x = np.arange(low, high + 1).astype(dtype)[None]
    assert np.array_equal(to_raw(dtype, low, high)(to_unit(dtype, low, high)(x)), x)


def test_half_goes_to_even_and_outside_is_clipped():
    v = np.array([[0.5 / 4, 1.5 / 4, 2.5 / 4, -1, 2]], np.float32)
    assert to_raw("uint8", 0, 4)(v).tolist() == [[0, 2, 2, 0, 4]]
    assert to_raw("float32", 0, 4)(v).tolist() == [[0.5, 1.5, 2.5, 0, 4]]


def test_the_given_array_is_left_alone():
    v = np.array([[2.0, -1.0]], np.float32)
    to_raw("float32", 0, 1)(v)
    x = np.array([[2.0, -1.0]], np.float32)
    to_unit("float32", 0, 1)(x)
    assert v.tolist() == x.tolist() == [[2, -1]]


@pytest.mark.parametrize(("low", "high"), [(1, 1), (2, 1), (0, float("nan")), (0, float("inf")), ([0, 0], [1, 0])])
def test_an_empty_range_is_refused(low, high):
    with pytest.raises(BadInput, match="low < high"):
        to_unit("float32", low, high)
    with pytest.raises(BadInput, match="low < high"):
        to_raw("float32", low, high)


def test_a_range_that_the_type_cannot_hold_is_refused():
    with pytest.raises(BadInput, match="uint8"):
        to_raw("uint8", 0, 256)
