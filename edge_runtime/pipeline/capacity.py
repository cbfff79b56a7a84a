"""How many bits labels and codes can carry, against the bits of a reading.

A frame has the form of x, so that its capacity says nothing; what it carries is measured (``pipeline.reconstruction``).
Labels and codes are small by design: an index has as many values as what it is an index of, a code as many as its type
and shape. Together they must carry less than one reading, or they could hold it in any encoding.
"""

import math
from typing import Dict, Mapping, Tuple

import numpy as np

from edgeveil.edge_runtime.errors import PrivacyStop
from edgeveil.edge_runtime.manifest.manifest import Input, Manifest


def refuse_capacity(manifest: Manifest, artefact: str, outputs: Mapping[str, np.ndarray]) -> None:
    """Raise ``PrivacyStop`` if labels and codes can hold a reading, or ``outputs`` (n, ...) more than they declare."""
    values = index_values(manifest, artefact)
    bits = 0.0
    for output in manifest.outputs:
        if output.kind == "frame":
            continue
        count = values.get(output.tensor)
        if count is None:
            bits += 8 * np.dtype(output.dtype).itemsize * int(np.prod(output.shape))
            continue
        bits += math.log(max(count, 1), 2)
        made = outputs[output.name]
        if (made < 0).any() or (made >= count).any():
            raise PrivacyStop(
                "the output {} has other values than the {} that the manifest declares. Do not use the bundle; tell "
                "its maker.".format(output.name, count)
            )
    if manifest.spending is not None:
        # What is epsilon-private tells at most epsilon nats, whatever its form.
        bits = min(bits, manifest.spending.micro_epsilon * 1e-6 / math.log(2))
    reading = reading_bits(manifest.input)
    if bits >= reading:
        raise PrivacyStop(
            "labels and codes can carry {:.0f} bits, and a reading has {:.0f}: raw data could leave in them, and the "
            "manifest does not allow that. Do not use the bundle; its maker should quantise the code or make it "
            "shorter.".format(bits, reading)
        )


def reading_bits(spec: Input) -> float:
    """The bits of one x: of an integer type those of its range, of a float type all."""
    dtype = np.dtype(spec.dtype)
    if dtype.kind == "f" or spec.low is None:
        each = np.full(spec.shape, 8.0 * dtype.itemsize)
    else:
        steps = np.asarray(spec.high, np.float64) - np.asarray(spec.low, np.float64) + 1
        each = np.broadcast_to(np.log2(steps), spec.shape)
    return float(each.sum())


def index_values(manifest: Manifest, artefact: str) -> Dict[str, int]:
    """How many values each index of the stages has, by its name."""
    shapes: Dict[str, Tuple[int, ...]] = {manifest.input.name: manifest.input.shape}
    counts: Dict[str, int] = {}
    for stage in manifest.stages:
        if stage.stage in ("preprocess", "add"):
            shapes[stage.output] = shapes[stage.input]
        elif stage.stage == "artefact":
            for tensor in manifest.models[stage.model].artefacts[artefact].entry["outputs"]:
                shapes[stage.outputs[tensor["name"]]] = tuple(tensor["shape"][1:])
        elif stage.stage == "synthesis":
            shapes[stage.output] = manifest.tables[stage.table].shape[1:]
        elif stage.stage == "table":
            counts[stage.output] = int(np.prod(shapes[stage.input]))
        elif stage.distribution == "channel":
            counts[stage.output] = manifest.tables[stage.table].shape[1]
        elif stage.op == "majority":
            counts[stage.output] = stage.groups + 1  # one more until the track has voted
        elif stage.op == "keep":
            counts[stage.output] = counts[stage.input]
    return counts
