"""Original: readings as they are. What there was to keep and to hide, as a row of tables.

It never ships: a manifest in which a reading reaches an output unperturbed is refused (``raw-passthrough``).
"""

from __future__ import annotations

from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.runs.fitted import FittedPerturber, frame_output, output_stage, preprocess_stage


def perturber(dataset: Dataset) -> FittedPerturber:
    """The identity, but for the rounding of the unit cube; nothing is trained."""
    return FittedPerturber(
        kind="original",
        input=dataset.input,
        stages=(preprocess_stage(dataset.input), {**output_stage(dataset.input), "input": "u"}),
        outputs=(frame_output(dataset.input),),
        identity_allowed=True,
    )
