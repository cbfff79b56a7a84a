"""The log of a training. ``Run`` is one; a caller without a run passes another."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

from edgeveil.trainer.runs.checkpoints import Checkpoint


class Log(Protocol):
    """Figures, facts, times and checkpoints of one training."""

    def metric(self, *, stage: str, step: int, **values: float) -> None:
        """Add figures; ``step`` counts epochs of ``stage`` from 1. A resumed stage replaces its later lines."""
        ...

    def record(self, **facts: Any) -> None:
        """Facts about the result, as JSON values."""
        ...

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Count the wall time of a block under ``name``."""
        ...

    def checkpoint(self, name: str, **holders: Any) -> Checkpoint:
        """The checkpoint ``name`` of objects with ``variables`` (Keras models, optimisers), all built."""
        ...
