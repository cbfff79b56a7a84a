"""edgeveil.edge_runtime.lut: the same bits as without it, and nothing that could come apart from its table."""

import numpy as np
import pytest

from edgeveil.edge_runtime.backends.base import Tensor
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.lut import Flow, LutArray, gather, lazy, map_values
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.pipeline.pipeline import Pipeline
from edgeveil.edge_runtime.stages import preprocess

TABLE = np.linspace(-3, 3, 256).astype(np.float32)
CODES = np.random.default_rng(0).integers(0, 256, (1, 9, 7)).astype(np.uint8)
ENTRY = {"name": "a", "tensor": "a", "shape": [1, 9, 7], "dtype": "int8", "scale": 1 / 255, "zero_point": -128}


@pytest.mark.parametrize(
    "function", [np.exp, preprocess.to_raw("uint8", 0.0, 255.0), preprocess.to_raw("int16", -9, 9)]
)
def test_a_function_of_one_value_gives_the_same_bits(function):
    looked, calls = LutArray(TABLE, CODES), []
    fast = map_values(lambda values: calls.append(values.size) or function(values))
    for _ in range(3):
        assert np.array_equal(fast(looked), function(TABLE[CODES]))
    assert calls == [256]
    plain = np.array(TABLE[CODES])
    assert np.array_equal(fast(plain), function(plain))


@pytest.mark.parametrize("shift", [0, 1, 100, 128, 255])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_a_table_that_only_moves_its_codes_is_a_sum(shift, dtype):
    table = (np.arange(256) + shift).astype(np.uint8).view(dtype)
    taken = gather(table)(CODES)
    assert taken.dtype == dtype
    assert np.array_equal(taken, table[CODES])


@pytest.mark.parametrize("zero", [-128, -127, 0, 5])
def test_quantising_what_was_looked_up_gives_the_same_bits(zero):
    # With -128 the codes only move, as the readings of a generator do; the others saturate.
    tensor = Tensor(dict(ENTRY, zero_point=zero))
    unit = preprocess.to_unit("uint8", 0.0, 255.0)(np.arange(256, dtype=np.uint8))
    for table in (TABLE, unit):
        quantised = tensor.encode(LutArray(table, CODES))
        assert quantised.dtype == np.int8
        assert np.array_equal(quantised, tensor.encode(table[CODES]))
    back = tensor.decode(tensor.encode(TABLE[CODES]))
    assert type(back) is LutArray
    assert np.array_equal(tensor.encode(back), tensor.encode(back.array()))


def test_a_flow_gives_numbers_to_whoever_reads_and_the_table_to_whoever_asks_for_it():
    flow = Flow({"a": LutArray(TABLE, CODES), "b": TABLE})
    assert np.array_equal(flow["a"], TABLE[CODES])
    assert type(lazy(flow, "a")) is LutArray
    assert lazy(flow, "b") is flow["b"] is lazy({"b": TABLE}, "b")
    assert all(isinstance(value, np.ndarray) for value in flow.values())
    with pytest.raises(ValueError, match="read-only"):
        flow["a"][0] = 1


def test_a_table_that_is_not_finite_is_refused_where_the_artefact_is_opened():
    with pytest.raises(BadInput, match="expected a finite scale for 'a'"):
        Tensor(dict(ENTRY, scale=3e38))


@pytest.mark.parametrize("ends", [(0.0, 255.0), ([0.0] * 4, [255.0, 15.0, 3.0, 200.0])])
def test_a_pipeline_gives_the_same_bits_with_one_range_and_with_one_for_each_feature(ends):
    low, high = ends
    description = {
        "input": {"name": "x", "kind": "vector", "shape": [4], "dtype": "uint8", "low": low, "high": high},
        "stages": [
            {"stage": "preprocess", "input": "x", "output": "u", "low": low, "high": high},
            {"stage": "output", "input": "u", "output": "y", "low": low, "high": high, "dtype": "uint8"},
        ],
        "outputs": [{"name": "frame", "kind": "frame", "tensor": "y", "shape": [4], "dtype": "uint8"}],
        "stream": None,
    }
    x = np.random.default_rng(1).integers(0, 256, (50, 4)).astype(np.uint8)
    out = Pipeline(parse(description), tables={}, runners={}).run(x)["frame"]
    assert np.array_equal(out, preprocess.to_raw("uint8", low, high)(preprocess.to_unit("uint8", low, high)(x)))
