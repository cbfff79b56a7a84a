"""A cleaner or codebook that sends its code, of which a receiver makes x'."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import parse_stage
from edgeveil.edge_runtime.pipeline.compiler import reads_and_writes
from edgeveil.edge_runtime.pipeline.preprocess import to_raw
from edgeveil.trainer.export import runners
from edgeveil.trainer.runs.fitted import FittedPerturber

HEAD_ROOM = 4.0  # codes beyond this many times the largest in training saturate
LARGEST = 2**15 - 1


def as_code(fitted: FittedPerturber, x: np.ndarray, pool: np.ndarray | None = None) -> FittedPerturber:
    """The same perturber, sending only its code, for a receiver that makes x' of it.

    A codebook sends class and code, and the table ``decoder`` (codes, pictures of each, *shape) holds samples as they
    would be sent, or those of ``pool``: a receiver draws one of the code's evenly. What it draws is a function of the
    code and fresh noise, so it tells no more than the code.

    A cleaner sends int16. The step is a power of two, from training samples x (n, features). The table ``decoder``
    (r + 1, features) includes the step: x~ = [code, 1] decoder. Raises ``BadInput`` for a perturber that has no code.
    """
    if fitted.kind == "codebook":
        return _without_pictures(fitted, pool)
    if fitted.kind != "cleaner":
        raise BadInput(f"A perturber of the kind {fitted.kind!r} has no code to emit; leave out --emit code.")
    from edgeveil.models.cleaners import arrays

    keras = runners.on_keras(fitted)
    keras.run(x, {})
    code = keras.flow("c")
    most = 0.0 if code is None else float(np.abs(code).max())
    scale = 2.0 ** math.ceil(math.log2(HEAD_ROOM * max(most, 1e-6) / LARGEST))
    made_of = arrays(fitted.models["cleaner"])
    decoder = np.vstack([made_of["decoder"] * np.float32(scale), made_of["decoder_bias"]])
    quantise = {"stage": "quantise", "input": "c", "output": "q", "scale": scale, "dtype": "int16"}
    output = {"name": "code", "kind": "code", "tensor": "q", "shape": [len(decoder) - 1], "dtype": "int16"}
    return replace(
        fitted,
        stages=(*(stage for stage in fitted.stages if stage["stage"] != "output"), quantise),
        outputs=({**output, "decoder": "decoder"},),
        tables={"decoder": decoder},
    )


def _without_pictures(fitted: FittedPerturber, pool: np.ndarray | None) -> FittedPerturber:
    code, label = (next(output for output in fitted.outputs if output["kind"] == kind) for kind in ("code", "label"))
    needed: set[str] = {code["tensor"], label["tensor"]}
    stages: list[dict[str, Any]] = []
    for stage in reversed(fitted.stages):
        reads, writes = reads_and_writes(parse_stage(stage))
        if needed & set(writes):
            stages.insert(0, stage)
            needed |= set(reads)
    spec, pictures = fitted.input, fitted.tables["pictures"]
    copies = fitted.tables["donors"].shape[1] // len(fitted.tables["donors"]) if "donors" in fitted.tables else 1
    if pictures.dtype.kind == "f":
        pictures = to_raw(spec.dtype, spec.low, spec.high)(pictures)
    decoder = pictures.reshape(-1, copies, *spec.shape) if pool is None else pool
    tables = {stage["table"]: fitted.tables[stage["table"]] for stage in stages if "table" in stage}
    return replace(
        fitted,
        stages=tuple(stages),
        outputs=({**code, "decoder": "decoder"}, label),
        tables={**tables, "decoder": decoder},
    )
