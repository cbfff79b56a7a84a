"""The ``head`` section of an audit: how well the head's label tells y, and what its fit promises."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.attacks.rows import places
from edgeveil.trainer.audit.document import interval
from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.measures import intervals
from edgeveil.trainer.private import cover
from edgeveil.trainer.runs.fitted_head import Head


def section(
    manifest: Mapping[str, Any], run: Path, dataset: Dataset, outputs: Mapping[str, np.ndarray]
) -> dict[str, Any] | None:
    """None where no head's label is among the ``outputs`` (n, ...) of the rows of all slices.

    ``run`` is the folder of the run. Raises ``BadInput`` where the head that was exported is no longer there.
    """
    if cover.HEAD not in outputs:
        return None
    head = Head.of_run(run)
    if head is None or head.promise is None:
        raise BadInput(f"The head of this export is not in {run}: export again.")
    test = dataset.part("test")
    right = intervals.rate(outputs[cover.HEAD][places(dataset).test] == test.y, test.cluster)
    return {"of": head.of, "target": interval(right), **cover.head_section(manifest, head.mechanism, head.promise)}
