"""A codebook for a stream: class, code and picture stay the same for a whole track or period.

The code of a held codebook is drawn from P(c | y-hat), independent of x. So the only thing sent about x is the class
that most of a track's first frames were classified as. Until that is known, a flat picture is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.stages.preprocess import to_raw
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.runs.fitted import FittedPerturber, frame_output, output_stage, preprocess_stage

# The channel Q(c'|c) of a codebook that is held: c' is independent of c.
#
# A channel never changes the class y-hat, so it is one block per class. It ships as integers: every row of the table
# sums to the same power of two, and the certificate is computed on these integers.


TOTAL_BITS = 16  # every row of the shipped table sums to 2**16


def integers(q: np.ndarray) -> np.ndarray:
    """The shipped table uint32: each row of q (R, C) as integers that sum to 2**TOTAL_BITS, by largest remainders.

    A probability of 0 stays 0; no other is off by more than 2**-TOTAL_BITS. Rows that are equal stay equal, so an
    independent channel stays exactly independent. Raises ``BadInput`` where a row has more than 2**TOTAL_BITS entries.
    """
    total = 2**TOTAL_BITS
    if q.shape[1] > total:
        raise BadInput(f"A channel table has at most {total} codes; got {q.shape[1]}. Set fewer `perturber.codes`.")
    exact = q / q.sum(axis=1, keepdims=True) * total
    table = np.floor(exact).astype(np.int64)
    # Ties by position, the same in every row.
    order = np.argsort(-(exact - table), axis=1, kind="stable")
    missing = total - table.sum(axis=1)
    one_more = np.arange(q.shape[1]) < missing[:, None]
    np.put_along_axis(table, order, np.take_along_axis(table, order, axis=1) + one_more, axis=1)
    return table.astype(np.uint32)


def donors_within(codes: int, copies: int) -> np.ndarray:
    """The table uint32 (codes, codes * copies) that picks one of ``copies``, a power of two, evenly for each code."""
    if copies < 1 or copies & (copies - 1):
        raise BadInput(f"The number of donors of each code must be a power of two; got {copies}.")
    return np.kron(np.eye(codes, dtype=np.uint32), np.ones((1, copies), np.uint32))


# The manifest's stages of a codebook: from x to the class, and from the code to its picture.


def class_stages(spec: InputSpec, encoder: Any) -> list[dict[str, Any]]:
    """From x to ``label``, by an encoder with an output ``label_logits``."""
    return [
        preprocess_stage(spec),
        {
            "stage": "artefact",
            "model": "encoder",
            "inputs": {encoder.inputs[0].name: "u"},
            "outputs": {name: name for name in encoder.output_names},
        },
        {"stage": "table", "op": "argmax", "input": "label_logits", "output": "label"},
    ]


def code_stage(groups: int, output: str) -> dict[str, Any]:
    """From ``label`` to the code ``output``: the largest logit within the class. ``groups`` are the classes of y."""
    within = {"input": "code_logits", "group": "label", "groups": groups, "output": output}
    return {"stage": "table", "op": "argmax_within", **within}


def draw_stage(source: str, table: str, output: str) -> dict[str, Any]:
    """Draw from the row of ``table`` that ``source`` numbers."""
    return {"stage": "draw", "distribution": "channel", "input": source, "table": table, "output": output}


def keep_stage(source: str, by: str, output: str) -> dict[str, Any]:
    """Repeat the first draw for as long as ``by`` is the same."""
    return {"stage": "hold", "op": "keep", "input": source, "by": by, "output": output}


def first_stage(source: str, output: str) -> dict[str, Any]:
    """Repeat the value of a track's or period's last draw."""
    return {"stage": "hold", "op": "first", "input": source, "output": output}


def is_held(stream: Mapping[str, Any] | None) -> bool:
    """Whether a draw lasts for a whole track or period."""
    return stream is not None and stream["hold"] in ("track", "period")


def in_bouts(stream: Mapping[str, Any] | None) -> bool:
    """Whether a class keeps the code of its first frame for a bout."""
    return stream is not None and stream["hold"] == "bout"


def pictured(
    spec: InputSpec,
    encoder: Any,
    stages: list[dict[str, Any]],
    tables: Mapping[str, np.ndarray],
    pictures: np.ndarray,
    *,
    label: str,
    code: str,
    codes: int,
    substituted: bool,
    stream: Mapping[str, Any] | None,
) -> FittedPerturber:
    """Add the stages after the code, which draw one of its pictures.

    ``label`` and ``code`` are the tensors that ``stages`` end with; both are sent. ``pictures`` (codes * copies,
    *shape) are in the unit cube, those of a code together. ``stream`` is the manifest's.
    """
    copies, row = len(pictures) // codes, code
    # Whole numbers ship as they are sent, in a quarter of the room.
    whole = np.dtype(spec.dtype).kind in "iu"
    table = to_raw(spec.dtype, spec.low, spec.high)(pictures) if whole else pictures.astype(np.float32)
    tables = {**tables, "pictures": table}
    if copies > 1:
        tables["donors"], row = donors_within(codes, copies), "donor"
        if is_held(stream) or in_bouts(stream):
            of_first = any(stage.get("op") == "first" for stage in stages)
            hold = first_stage("donor_drawn", row) if of_first else keep_stage("donor_drawn", code, row)
            donor_stages = [draw_stage(code, "donors", "donor_drawn"), hold]
        else:
            donor_stages = [draw_stage(code, "donors", row)]
        stages = [*stages, *donor_stages]
    picture = {
        "stage": "synthesis",
        "op": "row",
        "input": row,
        "table": "pictures",
        "output": "x_out" if whole else "v",
    }
    number = {"shape": [], "dtype": "int64"}
    return FittedPerturber(
        kind="codebook",
        input=spec,
        stages=(*stages, picture, *([] if whole else [output_stage(spec)])),
        outputs=(
            frame_output(spec),
            {"name": "label", "kind": "label", "tensor": label, **number},
            {"name": "code", "kind": "code", "tensor": code, **number},
        ),
        models={"encoder": encoder},
        tables=tables,
        substituted=substituted,
        stream=stream,
    )


FLAT = 0.5  # of the range: the picture that is sent before a track has voted


def stream(hold: str, acknowledge: str = "") -> dict[str, Any] | None:
    """The manifest's ``stream`` of a ``hold``: "none", "track:VOTES", "period:SECONDSs", "bout:GAP", "frame", or
    "first:DRAWS" of a track, "first:DRAWS/SECONDSs" of a period."""
    kind, _, number = hold.partition(":")
    if kind == "none":
        return None
    if kind == "first":
        draws, _, seconds = number.partition("/")
        several = {"draws": int(draws)} if int(draws) > 1 else {}
        whole = stream(f"period:{seconds}" if seconds else "track:1", acknowledge)
        return {**whole, **several} if whole else None
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
        {"channel": integers(share)},
        pictures,
        label=label,
        code="code",
        codes=share.shape[1],
        substituted=substituted,
        stream=held,
    )
