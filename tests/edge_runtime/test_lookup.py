"""edge_runtime.lookup: the same bits as without it, and nothing that could come apart from its table."""

import numpy as np
import pytest

from edge_runtime import preprocess
from edge_runtime.backends.base import Tensor
from edge_runtime.lookup import Looked, look_up, through
from edge_runtime.pipeline import Pipeline

TABLE = np.linspace(-3, 3, 256).astype(np.float32)
CODES = np.random.default_rng(0).integers(0, 256, (1, 9, 7)).astype(np.uint8)


@pytest.mark.parametrize(
    "function", [np.exp, preprocess.to_raw("uint8", 0.0, 255.0), preprocess.to_raw("int16", -9, 9)]
)
def test_a_function_of_one_value_gives_the_same_bits(function):
    looked, calls = look_up(TABLE, CODES), []
    fast = through(lambda values: calls.append(values.size) or function(values))
    for _ in range(3):
        assert np.array_equal(fast(looked), function(TABLE[CODES]))
    assert calls == [256]
    plain = np.array(TABLE[CODES])
    assert np.array_equal(fast(plain), function(plain))


def test_quantising_what_was_looked_up_gives_the_same_bits():
    entry = {"name": "a", "tensor": "a", "shape": [1, 9, 7], "dtype": "int8", "scale": 1 / 255, "zero_point": -128}
    tensor = Tensor(entry)
    assert np.array_equal(tensor.encode(look_up(TABLE, CODES)), tensor.encode(TABLE[CODES]))
    back = tensor.decode(tensor.encode(TABLE[CODES]))
    assert isinstance(back, Looked)
    assert np.array_equal(tensor.encode(back), tensor.encode(np.array(back)))


def test_nothing_made_of_it_is_taken_for_it_and_it_cannot_be_changed():
    looked = look_up(TABLE, CODES)
    for made in (looked + 1, looked[:, 1:], looked.reshape(1, -1), looked.copy(), looked.astype(np.float64)):
        assert getattr(made, "codes", None) is None
    with pytest.raises(ValueError, match="read-only"):
        looked += 1


@pytest.mark.parametrize("ends", [(0.0, 255.0), ([0.0] * 4, [255.0, 15.0, 3.0, 200.0])])
def test_a_pipeline_gives_the_same_bits_with_one_range_and_with_one_for_each_feature(ends):
    low, high = ends
    description = {
        "input": {"name": "x", "kind": "vector", "shape": [4], "dtype": "uint8", "low": low, "high": high},
        "stages": [
            {"stage": "preprocess", "input": "x", "output": "u", "low": low, "high": high},
            {"stage": "output", "input": "u", "output": "y", "low": low, "high": high, "dtype": "uint8"},
        ],
        "outputs": [{"name": "frame", "tensor": "y", "shape": [4], "dtype": "uint8"}],
        "stream": None,
    }
    x = np.random.default_rng(1).integers(0, 256, (50, 4)).astype(np.uint8)
    out = Pipeline(description, tables={}, runners={}).run(x)["frame"]
    assert np.array_equal(out, preprocess.to_raw("uint8", low, high)(preprocess.to_unit("uint8", low, high)(x)))
