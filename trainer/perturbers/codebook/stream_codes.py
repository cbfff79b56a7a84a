"""A codebook for a stream: class, code and picture stay the same for a whole track or period.

The code of a held codebook is drawn from P(c | y-hat), independent of x. So the only thing sent about x is the class
that most of a track's first frames were classified as. Until that is known, a flat picture is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.perturbers.codebook import channel
from edgeveil.trainer.perturbers.codebook.stages import class_stages, draw_stage, keep_stage, pictured
from edgeveil.trainer.runs.fitted import FittedPerturber

FLAT = 0.5  # of the range: the picture that is sent before a track has voted


def stream(hold: str, acknowledge: str = "") -> dict[str, Any] | None:
    """The manifest's ``stream`` of a ``hold``: "none", "track:VOTES", "period:SECONDSs", "bout:GAP" or "frame"."""
    kind, _, number = hold.partition(":")
    if kind == "none":
        return None
    votes = int(number) if kind == "track" else None
    period_s = int(number.removesuffix("s")) if kind == "period" else None
    of_bout = {"gap": int(number)} if kind == "bout" else {}
    return {"hold": kind, "votes": votes, "period_s": period_s, "acknowledged": acknowledge or None, **of_bout}


def majority(label: np.ndarray, track: np.ndarray, votes: int) -> np.ndarray:
    """The label (n,) that the runtime holds for each row's track, from labels (n,) in order of time.

    ``track`` (n,) numbers the tracks. A track with fewer than ``votes`` rows is decided by those that it has.
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

    ``share`` (classes, codes) is P(c | y-hat) over the codes of all classes, ``pictures`` (codes * copies, *shape) are
    theirs, in the unit cube. ``held`` is the manifest's ``stream``.
    """
    classes, codes = share.shape
    stages, label = class_stages(spec, encoder), "label"
    if held["hold"] == "track":
        label = "held"
        stages.append({"stage": "hold", "op": "majority", "input": "label", "groups": classes, "output": label})
        # One more class, "not known yet", and one more code: the flat picture.
        flat = np.full_like(pictures[: len(pictures) // codes], FLAT)
        share, pictures = np.pad(share, ((0, 1), (0, 1))), np.concatenate([pictures, flat])
        share[classes, codes] = 1.0
    stages += [draw_stage(label, "channel", "drawn"), keep_stage("drawn", label, "code")]
    return pictured(
        spec,
        encoder,
        stages,
        {"channel": channel.integers(share)},
        pictures,
        label=label,
        code="code",
        codes=share.shape[1],
        substituted=substituted,
        stream=held,
    )
