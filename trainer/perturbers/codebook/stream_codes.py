"""A codebook for a stream: the class is held for a track, and what is drawn for it is drawn once.

The code of a held codebook is drawn from P(c | y-hat) whatever x was, so all that leaves of x is one word: the class
that most of a track's first frames were taken for. Before that word is known a flat picture leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.perturbers.codebook import channel
from edgeveil.trainer.runs.fitted import FittedPerturber, frame_output, output_stage, preprocess_stage

FLAT = 0.5  # of the range: what leaves before a track has voted


def stream(hold: str, acknowledge: str = "") -> dict[str, Any] | None:
    """The manifest's ``stream`` of a recipe's ``hold``: "none", "track:VOTES", "period:SECONDSs" or "frame"."""
    kind, _, number = hold.partition(":")
    if kind == "none":
        return None
    votes = int(number) if kind == "track" else None
    period_s = int(number.removesuffix("s")) if kind == "period" else None
    return {"hold": kind, "votes": votes, "period_s": period_s, "acknowledged": acknowledge or None}


def majority(label: np.ndarray, track: np.ndarray, votes: int) -> np.ndarray:
    """What the runtime holds of labels (n,) in order of time: each row's is its track's, once all has been seen.

    ``track`` (n,) numbers the tracks. One with fewer than ``votes`` rows goes by those that it has.
    """
    held = np.empty(len(label), np.int64)
    for number in np.unique(track):
        rows = np.flatnonzero(track == number)
        held[rows] = np.bincount(label[rows[:votes]]).argmax()
    return held


def assemble(
    spec: InputSpec,
    encoder: Any,
    share: np.ndarray,
    pictures: np.ndarray,
    held: Mapping[str, Any],
    *,
    substituted: bool,
) -> FittedPerturber:
    """The stages around an encoder that gives ``label_logits``.

    ``share`` (classes, codes) is P(c | y-hat) over the codes of all classes, ``pictures`` (codes * copies, *shape) in
    the unit cube are theirs, ``held`` is the manifest's ``stream``.
    """
    groups, total = share.shape
    copies = len(pictures) // total
    stages = [
        preprocess_stage(spec),
        {
            "stage": "artefact",
            "model": "encoder",
            "inputs": {encoder.inputs[0].name: "u"},
            "outputs": {"label_logits": "label_logits"},
        },
        {"stage": "table", "op": "argmax", "input": "label_logits", "output": "label"},
    ]
    label = "label"
    if held["hold"] == "track":
        label = "held"
        stages.append({"stage": "hold", "op": "majority", "input": "label", "groups": groups, "output": label})
        # One more class and one more code: not known yet, and the flat picture.
        share = np.pad(share, ((0, 1), (0, 1)))
        share[groups, total] = 1.0
        pictures = np.concatenate([pictures, np.full_like(pictures[:copies], FLAT)])
        total += 1
    tables = {"channel": channel.integers(share), "pictures": pictures.astype(np.float32)}
    drawn, last = "drawn", "code"
    stages += [
        {"stage": "draw", "distribution": "channel", "input": label, "table": "channel", "output": drawn},
        {"stage": "hold", "op": "keep", "input": drawn, "by": label, "output": last},
    ]
    if copies > 1:
        tables["donors"] = channel.donors_within(total, copies)
        stages += [
            {"stage": "draw", "distribution": "channel", "input": last, "table": "donors", "output": "donor_drawn"},
            {"stage": "hold", "op": "keep", "input": "donor_drawn", "by": last, "output": "donor"},
        ]
        last = "donor"
    stages += [
        {"stage": "synthesis", "op": "row", "input": last, "table": "pictures", "output": "v"},
        output_stage(spec),
    ]
    whole = {"shape": [], "dtype": "int64"}
    return FittedPerturber(
        kind="codebook",
        input=spec,
        stages=tuple(stages),
        outputs=(
            frame_output(spec),
            {"name": "label", "kind": "label", "tensor": label, **whole},
            {"name": "code", "kind": "code", "tensor": "code", **whole},
        ),
        models={"encoder": encoder},
        tables=tables,
        substituted=substituted,
        stream=held,
    )
