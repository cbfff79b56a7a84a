"""A fitted head: the linear classifier of y that a run keeps beside its perturber, and what its fit promises."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, reason
from edgeveil.edge_runtime.storage.atomic import atomic_path
from edgeveil.trainer.datasets.npz_errors import UNREADABLE

FILE = "head.npz"


@dataclass(frozen=True)
class Head:
    """``weights`` (classes, values) and ``bias`` (classes,), float32, for samples in the unit cube.

    ``of`` is "reading" or "sent", ``mechanism`` what made it private. ``promise`` has the fields of a ``Guarantee``;
    None where nothing is promised.
    """

    of: str
    mechanism: str
    weights: np.ndarray
    bias: np.ndarray
    promise: Mapping[str, Any] | None

    def save(self, run: Path) -> None:
        """Write it into a run's folder, whole or not at all."""
        facts = json.dumps({"of": self.of, "mechanism": self.mechanism, "promise": self.promise})
        with atomic_path(str(run / FILE)) as temporary, Path(temporary).open("wb") as file:
            np.savez(file, weights=self.weights, bias=self.bias, facts=np.array(facts))

    @classmethod
    def of_run(cls, run: Path) -> Head | None:
        """That of a run's folder; None where it has none. Raises ``BadInput`` where it cannot be read."""
        if not (run / FILE).is_file():
            return None
        try:
            with np.load(run / FILE, allow_pickle=False) as file:
                return cls(**json.loads(str(file["facts"])), weights=file["weights"], bias=file["bias"])
        except UNREADABLE as error:
            raise BadInput(f"{run / FILE} cannot be read ({reason(error)}). Train again.") from None

    def predict(self, u: np.ndarray) -> np.ndarray:
        """The class of each sample u (n, *shape) in the unit cube, (n,)."""
        return (u.reshape(len(u), -1) @ self.weights.T + self.bias).argmax(axis=1)
