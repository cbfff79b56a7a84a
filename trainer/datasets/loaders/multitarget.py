"""Feature vectors with several numeric labels each: what a linear cleaner is fitted on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import Known, Labels
from edgeveil.trainer.datasets.readings import Readings, check_attributes


@dataclass(frozen=True)
class MultiTarget:
    """Vectors x (N, features) and labels (N, labels), both float64."""

    name: str
    x: np.ndarray
    labels: np.ndarray
    label_names: tuple[str, ...]

    def readings(self, *, wanted: int, target: str, sensitive: str) -> Readings:
        """For a recipe: the first ``wanted`` labels are kept, the others are confidential; y and z are two as classes.

        ``target`` names a wanted label and ``sensitive`` a confidential one, in upper or lower case. The classes of a
        label are its smallest value (absent) and all others (present). Raises ``BadInput``.
        """
        names, count = [name.lower() for name in self.label_names], self.labels.shape[1]
        if not 1 <= wanted < count:
            raise BadInput(f"{self.name} has {count} labels: 1 to {count - 1} of them can be wanted, not {wanted}.")
        target, sensitive = target.lower(), sensitive.lower()
        check_attributes(target, sensitive, targets=names[:wanted], others=names[wanted:])
        present = (self.labels > self.labels.min(axis=0)).astype(np.int64)
        classes = ("absent", "present")
        known = {name: Known(present[:, number], classes) for number, name in enumerate(names)}
        return Readings(
            self.x.astype(np.float32),
            known[target].values,
            known[sensitive].values,
            classes,
            classes,
            "vector",
            known=known,
            labels=Labels(self.labels, wanted),
        )


def checked_features(x: np.ndarray) -> np.ndarray:
    """Feature vectors (n, features) as float64. Raises ``BadInput`` if they are not finite numbers."""
    x = np.asarray(x)
    if x.ndim != 2 or x.shape[0] == 0 or x.shape[1] == 0:
        raise BadInput(f"Feature vectors must be a matrix (samples, features), got shape {x.shape}.")
    if x.dtype.kind not in "fiub":
        raise BadInput(f"Features must be numbers, got dtype {x.dtype}; encode them first.")
    bad = ~np.isfinite(x).all(axis=1)
    if bad.any():
        raise BadInput(
            f"{bad.sum()} of {len(x)} feature vectors hold NaN or infinity (the first in row {np.argmax(bad)}, "
            "counted from 0); fill them in or leave them out."
        )
    return x.astype(np.float64)


def checked_labels(y: np.ndarray) -> np.ndarray:
    """Labels (n,) or (n, labels) as a float64 matrix. Raises ``BadInput`` if they are not finite numbers."""
    y = np.asarray(y)
    if y.dtype.kind not in "fiub":
        raise BadInput(f"Labels must be numbers, got dtype {y.dtype}; encode classes as numbers, such as -1 and 1.")
    if y.ndim not in (1, 2) or y.size == 0:
        raise BadInput(f"Labels must have shape (samples,) or (samples, labels), got {y.shape}.")
    if not np.isfinite(y).all():
        raise BadInput("Labels hold NaN or infinity; leave those samples out.")
    return y.reshape(len(y), -1).astype(np.float64)
