"""What a receiver makes of a perturber's outputs: codes and reports decoded into samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Declared = list[Mapping[str, Any]]


def as_received(
    outputs: Sequence[Mapping[str, Any]],
    input_: Mapping[str, Any],
    tables: Mapping[str, np.ndarray],
    values: Mapping[str, np.ndarray],
) -> tuple[Declared, dict[str, np.ndarray]]:
    """The declared ``outputs`` and their ``values`` (n, ...), with all that has a decoder as a frame.

    ``outputs`` and ``input_`` are the manifest's, ``tables`` its arrays. Pictures come within the range of x, of its
    type; vectors as they are decoded, float32.
    """
    declared: Declared = []
    received = dict(values)
    for output in outputs:
        if "decoder" in output:
            decoder = tables[output["decoder"]]
            if output["shape"]:
                frame = _as_x(decoded(values[output["name"]], decoder), input_)
                if input_["kind"] == "image":  # rounded and clipped: an adversary has the report itself, too
                    received["frame"] = frame
                    declared.append({"name": "frame", "kind": "frame"})
                else:
                    received[output["name"]] = frame
                    output = {**output, "kind": "frame"}
            else:  # the number of a code, which an adversary has beside the sample that is drawn of it
                received["frame"] = drawn(values[output["name"]], decoder, np.random.default_rng(0))
                declared.append({"name": "frame", "kind": "frame"})
        declared.append(output)
    return declared, received


def decoded(code: np.ndarray, decoder: np.ndarray) -> np.ndarray:
    """x~ (n, features) of a code (n, r), as a receiver computes it; float32."""
    return code.astype(np.float32) @ decoder[:-1] + decoder[-1]


def drawn(code: np.ndarray, decoder: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """x' (n, *shape) of the numbers of codes (n,), as a receiver draws it: evenly of ``decoder`` (codes, m, *shape)."""
    return decoder[code, rng.integers(0, decoder.shape[1], len(code))]


def _as_x(x: np.ndarray, input_: Mapping[str, Any]) -> np.ndarray:
    """x (n, features) in the shape of the input; pictures clipped to its range and of its type."""
    x = x.reshape(len(x), *input_["shape"])
    if input_["kind"] != "image":
        return x
    x = np.clip(x, input_["low"], input_["high"])
    whole = np.dtype(input_["dtype"]).kind in "iu"
    return (np.rint(x) if whole else x).astype(input_["dtype"])
