"""Random: a picture that has nothing to do with x, of values spread evenly over their range, as a row of tables.

Nothing is left to attack, and nothing to use. It never ships: a manifest in which mere noise leaves is refused.
"""

from __future__ import annotations

from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.runs.fitted import FittedPerturber, frame_output, output_stage, preprocess_stage


def perturber(dataset: Dataset) -> FittedPerturber:
    """Fresh noise for every reading; nothing is trained."""
    return FittedPerturber(
        kind="random",
        input=dataset.input,
        stages=(
            preprocess_stage(dataset.input),
            {"stage": "draw", "distribution": "uniform", "output": "noise", "shape": list(dataset.input.shape)},
            {**output_stage(dataset.input), "input": "noise"},
        ),
        outputs=(frame_output(dataset.input),),
    )
