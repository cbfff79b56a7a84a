"""Feature vectors with several numeric labels each: what a linear cleaner is fitted on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import Labels
from edgeveil.trainer.datasets.readings import Readings


@dataclass(frozen=True)
class MultiTarget:
    """Vectors x (N, features) and labels (N, labels), both float64. Which labels are wanted and which are
    confidential is the experiment's choice: ``parts``."""

    name: str
    x: np.ndarray
    labels: np.ndarray
    feature_names: tuple[str, ...]
    label_names: tuple[str, ...]

    @classmethod
    def checked(
        cls, name: str, x: np.ndarray, labels: np.ndarray, feature_names: list[str], label_names: list[str]
    ) -> MultiTarget:
        """The record, or BadInput where values are not finite numbers, lengths differ or a feature is constant."""
        x, labels = checked_features(x), checked_labels(labels)
        if len(x) != len(labels):
            raise BadInput(f"{name} has {len(x)} feature vectors and {len(labels)} rows of labels; they must match.")
        if len(feature_names) != x.shape[1] or len(label_names) != labels.shape[1]:
            raise BadInput(f"{name} has {x.shape[1]} features and {labels.shape[1]} labels; name each of them once.")
        flat = [feature_names[i] for i in np.flatnonzero(np.ptp(x, axis=0) == 0)]
        if flat:
            raise BadInput(f"{len(flat)} features of {name} are constant (the first is {flat[0]}); leave them out.")
        return cls(name, x, labels, tuple(feature_names), tuple(label_names))

    def readings(self, *, wanted: int, target: str, sensitive: str) -> Readings:
        """For a recipe: the first ``wanted`` labels are kept; y and z are two of them as classes.

        ``target`` names a wanted label and ``sensitive`` a confidential one, whatever the case of the letters. A class
        is a label's value above the smallest there is (present) or not (absent).
        """
        kept, _ = self.desired_first(wanted)
        names = [name.lower() for name in self.label_names]
        parts = {"target": (target, names[:wanted]), "sensitive": (sensitive, names[wanted:])}
        classes = {}
        for key, (name, known) in parts.items():
            if name.lower() not in known:
                raise BadInput(f'`data.{key}`: expected one of {", ".join(known)}; got "{name}".')
            column = self.labels[:, names.index(name.lower())]
            classes[key] = (column > column.min()).astype(np.int64)
        return Readings(
            self.x.astype(np.float32),
            classes["target"],
            classes["sensitive"],
            ("absent", "present"),
            ("absent", "present"),
            "vector",
            labels=Labels(self.labels, kept.shape[1]),
        )

    def desired_first(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The paper's choice: the first ``count`` labels in file order are wanted, the others confidential."""
        if not 1 <= count < self.labels.shape[1]:
            raise BadInput(
                f"{self.name} has {self.labels.shape[1]} labels: from 1 to {self.labels.shape[1] - 1} of them can be "
                f"wanted, not {count}."
            )
        return self.labels[:, :count], self.labels[:, count:]


def checked_features(x: np.ndarray) -> np.ndarray:
    """Feature vectors (n, features) as float64; BadInput where they are not finite numbers."""
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
    """Labels (n,) or (n, labels) as a float64 matrix; BadInput where they are not finite numbers."""
    y = np.asarray(y)
    if y.dtype.kind not in "fiub":
        raise BadInput(f"Labels must be numbers, got dtype {y.dtype}; encode classes as numbers, such as -1 and 1.")
    if y.ndim not in (1, 2) or y.size == 0:
        raise BadInput(f"Labels must have shape (samples,) or (samples, labels), got {y.shape}.")
    if not np.isfinite(y).all():
        raise BadInput("Labels hold NaN or infinity; leave those samples out.")
    return y.reshape(len(y), -1).astype(np.float64)
