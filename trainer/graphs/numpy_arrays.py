"""A cleaner's network as plain arrays, for the numpy backend on boards without an interpreter."""

from __future__ import annotations

import io
from typing import Any, cast

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.graphs.graph import Graph, Op, Tensor


def convert(model: Any) -> bytes:
    """A ``linear_cleaner`` as ``.npz`` (edge_runtime/backends/numpy_linear.py), the same bytes every time."""
    from edgeveil.models.cleaners import arrays

    if model.name != "linear_cleaner":
        raise BadInput(f"the format numpy is for linear cleaners; {model.name!r} is another network.")
    file = io.BytesIO()
    np.savez(file, **cast(Any, arrays(model)))
    return file.getvalue()


def read_arrays(data: bytes) -> Graph:
    """The same file as the graph that the backend computes: for lint, counters and tensor names."""
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        found = {name: file[name] for name in file.files}
    features, rank = found["encoder"].shape

    def constant(name: str, array: np.ndarray) -> Tensor:
        return Tensor(name, array.shape, array.dtype.name, constant=True, bytes=array.nbytes)

    def flow(name: str, size: int) -> Tensor:
        return Tensor(name, (1, size), "float32")

    x, c, delta, left, code, output = (
        flow(name, features if name in ("features", "output") else rank)
        for name in ("features", "c", "delta", "left", "code", "output")
    )
    before = Tensor("before", (rank, rank), "float32", constant=True)  # made when it is opened
    encoder, decoder = (constant(name, found[name]) for name in ("encoder", "decoder"))
    encoder_bias, decoder_bias, eps = (constant(name, found[name]) for name in ("encoder_bias", "decoder_bias", "eps"))
    ops = (
        Op("MatMul", "encoder", (x, encoder, encoder_bias), (c,)),
        Op("Square", "square", (c,), (delta,)),
        Op("MatMul", "left", (delta, before, eps), (left,)),
        Op("Shrink", "shrink", (left, delta, c), (code,)),
        Op("MatMul", "decoder", (code, decoder, decoder_bias), (output,)),
    )
    return Graph("numpy", ops, {"features": x}, {"output": output, "code": code})
