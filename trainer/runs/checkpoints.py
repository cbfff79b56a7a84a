"""A checkpoint of a training in one file: all variables of its networks and optimisers, and a few facts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, reason
from edgeveil.edge_runtime.storage.atomic import atomic_path
from edgeveil.trainer.datasets.npz_errors import UNREADABLE


class Checkpoint:
    """``holders`` are named objects with ``variables`` (Keras models, optimisers), all built.

    Written whole or not at all: after Ctrl-C or a power cut, training can continue from the file on disk.
    """

    def __init__(self, path: Path, **holders: Any) -> None:
        self.path, self._holders = path, holders

    def save(self, **facts: Any) -> None:
        """Write the variables and JSON ``facts``. Raises ``DeviceFailed`` if the disk is full."""
        arrays: dict[str, Any] = {
            f"{name}/{number}": variable.numpy()
            for name, holder in self._holders.items()
            for number, variable in enumerate(holder.variables)
        }
        text = np.frombuffer(json.dumps(facts).encode(), np.uint8)
        with atomic_path(self.path) as temporary, Path(temporary).open("wb") as file:
            np.savez(file, facts=text, **arrays)

    def restore(self) -> dict[str, Any] | None:
        """Restore the variables and return the facts; None, and nothing changed, if there is no checkpoint.

        Raises ``BadInput`` if the file does not fit these networks.
        """
        if not self.path.is_file():
            return None
        try:
            with np.load(self.path, allow_pickle=False) as file:
                values = {key: file[key] for key in file.files}
            for name, holder in self._holders.items():
                for number, variable in enumerate(holder.variables):
                    variable.assign(values[f"{name}/{number}"])
            return json.loads(values["facts"].tobytes())
        except UNREADABLE as error:
            raise BadInput(
                f"The checkpoint {self.path} does not fit this recipe's networks or is damaged ({reason(error)}). "
                "Remove it to repeat that step, or train into another folder."
            ) from None
