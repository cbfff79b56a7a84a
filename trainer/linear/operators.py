"""Where a predictor's linear operator A (features, outputs) comes from: data, a file, a fitted model.

Intercepts are left out: they stay in the predictor, which a cleaner does not change. To clean in homogeneous
coordinates, as paper 000 does, give the samples a last feature that is 1 (``homogeneous``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.formats.plurals import counted
from edgeveil.trainer.datasets.loaders.multitarget import checked_features, checked_labels
from edgeveil.trainer.linear.cleaner import RANK_TOLERANCE, checked_operator

LARGEST_OPERATOR = 1 << 27  # values (1 GiB): the largest unrolled convolution


def homogeneous(x: np.ndarray) -> np.ndarray:
    """x (n, features) with a last feature that is 1."""
    return np.hstack([x, np.ones((len(x), 1), x.dtype)])


def least_squares(x: np.ndarray, y: np.ndarray, *, ridge: float = 0.0) -> np.ndarray:
    """A (features, labels) with y ~ A^T x, for x (n, features) and y (n, labels).

    ``ridge`` is added to the diagonal of x^T x. Raises BadInput where there is no unique solution: NaN, constant
    features (a single one, the homogeneous 1, is allowed), labels that are not numbers, or without a ridge fewer
    samples than features.
    """
    x, y = checked_features(x), checked_labels(y)
    if len(x) != len(y):
        raise BadInput(f"There are {len(x)} feature vectors and {len(y)} rows of labels; give one row each.")
    if ridge < 0:
        raise BadInput(f"ridge must be 0 or more, got {ridge}.")
    samples, features = x.shape
    if ridge == 0:
        if samples < features:
            raise BadInput(
                f"Least squares needs at least as many samples as features ({features}), got {samples}; "
                "give more samples or a ridge above 0."
            )
        constant = np.flatnonzero(np.ptp(x, axis=0) == 0)
        if len(constant) > 1 or (len(constant) == 1 and x[0, constant[0]] == 0):
            raise BadInput(
                f"{counted(len(constant), 'feature is', 'features are')} constant (the first is column "
                f"{constant[0]}, counted from 0): their "
                "weights are not determined. Leave them out or give a ridge above 0."
            )
        weights, _, rank, _ = np.linalg.lstsq(x, y, rcond=None)
        if rank < features:
            raise BadInput(
                f"{features} features have rank {rank}: some depend on each other, so their weights are not "
                "determined. Leave them out or give a ridge above 0."
            )
        return weights
    return np.linalg.solve(x.T @ x + ridge * np.eye(features), x.T @ y)


def merged(a: np.ndarray) -> np.ndarray:
    """An operator of full column rank with the same A A^T, for one whose outputs depend on each other.

    |A^T x|^2 is the same for every x, so a cleaner for one is a cleaner for the other. For class scores that sum to a
    constant, or the many outputs of a convolution.
    """
    u, s, _ = np.linalg.svd(checked_operator(a, "A_d"), full_matrices=False)
    keep = (s > RANK_TOLERANCE * s[0]) & (s > 0)
    if not keep.any():
        raise BadInput("A_d is zero: its predictor ignores every feature. Give the operator of one that works.")
    return u[:, keep] * s[keep]


def from_npy(path: Path) -> np.ndarray:
    """A (features, outputs) from a ``.npy`` file."""
    try:
        a = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        raise BadInput(
            f"{path} is not a .npy file of numbers; write A_d with numpy.save, a column per output."
        ) from None
    if not isinstance(a, np.ndarray):
        raise BadInput(f"{path} holds several arrays; write A_d alone with numpy.save.")
    return checked_operator(a, f"A_d in {path}")


def from_sklearn(model: Any) -> np.ndarray:
    """A (features, outputs) of a fitted scikit-learn linear model (anything with ``coef_``) or PCA.

    Raises ``BadInput`` for a Pipeline, whose linear model does not see x.
    """
    if hasattr(model, "steps"):
        raise BadInput(
            "The model is a Pipeline: its linear step does not see the features themselves. "
            "Clean what comes out of the earlier steps, or fit the linear model on the features."
        )
    weights = getattr(model, "coef_", None)
    if weights is None:
        weights = getattr(model, "components_", None)
    if weights is None:
        raise BadInput(
            f"{type(model).__name__} has neither coef_ nor components_: fit it first, or give a model that is linear."
        )
    if not isinstance(weights, np.ndarray) and hasattr(weights, "toarray"):  # sparsify() makes it a sparse matrix
        weights = weights.toarray()
    return checked_operator(np.atleast_2d(np.asarray(weights)).T, "A_d of the scikit-learn model")


def from_keras(model: Any) -> np.ndarray:
    """A (features, outputs) of the first linear layer of a Keras model: Dense, or Conv2D as its unrolled operator.

    Layers that only rearrange (InputLayer, Flatten, Reshape) may come first. A convolution's features are the
    image's values in row-major order, its outputs likewise those of the feature map.
    """
    for layer in model.layers:
        kind = type(layer).__name__
        if kind in ("InputLayer", "Flatten", "Reshape"):
            continue
        if kind == "Dense":
            # Dense on an image works along its last axis alone: then it is a 1x1 convolution, not a matrix over x.
            if len(layer.input.shape) != 2:
                raise BadInput(
                    f"The first layer, {layer.name}, is a Dense over the last axis of {tuple(layer.input.shape)}; "
                    "put a Flatten before it, or write its operator to a .npy file."
                )
            return checked_operator(np.asarray(layer.kernel), f"A_d of layer {layer.name}")
        if kind == "Conv2D":
            return _unrolled(layer)
        raise BadInput(
            f"The model starts with {layer.name} ({kind}), which is not a Dense or a Conv2D; "
            "give the part of the model from its first linear layer on, or A_d as a .npy file."
        )
    raise BadInput("The model has no Dense and no Conv2D; give A_d as a .npy file.")


def _unrolled(layer: Any) -> np.ndarray:
    """The matrix (pixels, outputs) of a convolution without its bias: its output for every unit image."""
    shape = tuple(layer.input.shape[1:])
    outputs = tuple(layer.output.shape[1:])
    if None in shape:
        raise BadInput(f"Layer {layer.name} takes images of any size; build the model with one fixed size.")
    pixels = int(np.prod(shape))
    if pixels * int(np.prod(outputs)) > LARGEST_OPERATOR:
        raise BadInput(
            f"The unrolled operator of {layer.name} would be {pixels} x {int(np.prod(outputs))} values; "
            "a convolution that large has little null space: clean smaller images, or a later layer's features."
        )
    rows = []
    for start in range(0, pixels, 256):
        unit = np.zeros((min(256, pixels - start), pixels), np.float32)
        unit[np.arange(len(unit)), start + np.arange(len(unit))] = 1
        outputs_of = np.asarray(layer.convolution_op(unit.reshape(-1, *shape), layer.kernel))
        rows.append(outputs_of.reshape(len(unit), -1))
    return checked_operator(np.concatenate(rows), f"A_d of layer {layer.name}")
