"""The manifest's stages of a codebook: from x to the class, and from the code to its picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from edgeveil.edge_runtime.pipeline.preprocess import to_raw
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.perturbers.codebook.channel import donors_within
from edgeveil.trainer.runs.fitted import FittedPerturber, frame_output, output_stage, preprocess_stage


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
            donor_stages = [draw_stage(code, "donors", "donor_drawn"), keep_stage("donor_drawn", code, row)]
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
