"""Which kind of perturber ``edgeveil recipe new`` takes."""

from __future__ import annotations

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.datasets.slicing import FEWEST_ROWS
from edgeveil.trainer.perturbers.codebook import CODES, synthesis
from edgeveil.trainer.recipe import messages
from edgeveil.trainer.recipe.perturber import KINDS

ROWS_OF_A_CODE = 10  # at least: a code's picture is a mean of so many


def check_kind(kind: str) -> None:
    """Raise ``BadInput`` for an unknown kind."""
    messages.refuse_old(kind, messages.KINDS, "--kind: the perturber kind")
    if KINDS.find(kind) is None:
        known = ", ".join([*KINDS.kinds(), *KINDS.plugins()])
        raise BadInput(f'--kind: expected one of {known}; got "{kind}".')


def usual(dataset: Dataset, *, stream: bool = False) -> tuple[str, str]:
    """The kind that holds for such data, "codebook" or "label-only", and why."""
    part = dataset.part("perturber")
    cells = len(np.unique(np.stack([part.y, part.z]), axis=1).T)
    needed = max(FEWEST_ROWS * cells, ROWS_OF_A_CODE * CODES * len(dataset.y_names))
    if synthesis.fewest_drawn(dataset, stream=stream).min() < 2:
        return "label-only", "a class of y has one person to learn codes from, and a mean must be of several"
    if len(part) < needed:
        return "label-only", f"codes are learned from {len(part)} rows here, and {needed} are needed"
    return "codebook", "what it sends can be counted"
