"""Parity of each artefact with its Keras network on validation samples: the error, and D_y's accuracy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.graphs.prediction import predict
from edgeveil.trainer.runs.fitted import FittedPerturber


def compare(
    fitted: FittedPerturber,
    dataset: Dataset,
    target: Any,
    keras: Mapping[str, np.ndarray],
    artefact: Mapping[str, np.ndarray],
) -> dict[str, Any]:
    """One row of the parity table from the outputs (n, ...) of both.

    ``max_abs`` and ``mean_abs`` are in units of x', or of the code where no frame is sent (codes that are numbered are
    off by 1 where they differ, so the mean is the share of these), ``max_abs_unit`` and
    ``mean_abs_unit`` in the unit cube; ``target_agreement`` is the share of samples whose arg max of D_y (``target``,
    a Keras model from the unit cube to logits) is the same, ``label_agreement`` that of all label outputs, null where
    there is none.
    """
    row: dict[str, Any] = {"frames": len(next(iter(keras.values())))}
    names = {output["kind"]: output["name"] for output in fitted.outputs}
    compared = names.get("frame", names.get("code"))
    if compared:
        ours, theirs = artefact[compared], keras[compared]
        numbered = compared != "frame" and ours.ndim == 1
        difference = (ours != theirs).astype(np.float64) if numbered else np.abs(ours.astype(np.float64) - theirs)
        row |= {"max_abs": float(difference.max()), "mean_abs": float(difference.mean())}
    if "frame" in names:
        unit = difference / dataset.input.span
        row |= {"max_abs_unit": float(unit.max()), "mean_abs_unit": float(unit.mean())}
        labels = [predict(target, dataset.unit(x)).argmax(axis=1) for x in (ours, theirs)]
        row["target_agreement"] = float((labels[0] == labels[1]).mean())
    agree = [artefact[o["name"]] == keras[o["name"]] for o in fitted.outputs if o["kind"] == "label"]
    row["label_agreement"] = float(np.all(agree, axis=0).mean()) if agree else None
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """The table for a terminal."""
    lines = []
    for row in rows:
        agreement = f"D_y agrees on {100 * row['target_agreement']:.1f} %" if "target_agreement" in row else ""
        off = f"off by at most {row['max_abs']:g}, {row['mean_abs']:.3g} on average" if "max_abs" in row else ""
        on = f"({row['frames']} validation samples, {row['backend']})"
        lines.append(f"  {row['artefact']:16} {off}; {agreement} {on}")
    return "\n".join(lines)
