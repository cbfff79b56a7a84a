"""Linear cleaners: take out of a feature vector what a linear predictor does not need (paper 000).

The predictor of the wanted labels starts with a known operator A_d (features, outputs): it sees only A_d^T x. Every
cleaner here removes components of x, least useful first, until the predictor's input has moved by eps:

    x~ = D ((1 - alpha) c),   c = E^T x,   alpha_i = sqrt(clip((eps - sum_{j<i} c_j^2) / c_i^2, 0, 1))

c are the coordinates of x in a basis of range(A_d), in order of removal, each in units of the error that removing it
costs: A_d^T D has orthonormal columns, so |A_d^T (x - x~)|^2 = sum (alpha_i c_i)^2, which is min(eps, |A_d^T x|^2) for
every single x. The part of x in the null space of A_d^T costs nothing and is always removed. One clip decides what
steps 5 and 6 of the paper's Algorithm 1 search for: remove all, a fraction, nothing.

The three cleaners differ only in the order: ``exact`` removes the null space and nothing else (eps = 0),
``approximate`` goes by increasing singular value of A_d, ``algorithm1`` by increasing ratio of what a component is
worth to the predictor and to the adversary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.util.validate import counted
from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.datasets.readings import checked_features, checked_labels
from edgeveil.trainer.datasets.samples import Stored, applied, extremes, pieces
from edgeveil.trainer.graphs import keras_file
from edgeveil.trainer.graphs.pt2 import read_pt2

RANK_TOLERANCE = 1e-10  # singular values below this share of the largest are rank deficiency
BLOCK = 4096  # rows at a time, so that a block's coordinates stay in the cache between the two products
RIDGE = 1e-9  # makes the adversary's quadratic form definite; share of its mean eigenvalue


@dataclass(frozen=True)
class Cleaner:
    """One fitted cleaner. ``encoder`` E and ``decoder`` D are (features, r) float64, E^T D = 1; ``eps`` is in units of
    the predictor's input squared, summed over its outputs, per vector."""

    encoder: np.ndarray
    decoder: np.ndarray
    eps: float

    @property
    def features(self) -> int:
        return self.encoder.shape[0]

    @property
    def rank(self) -> int:
        """r, the length of the code: the rank of A_d."""
        return self.encoder.shape[1]

    def astype(self, dtype: np.dtype | type) -> Cleaner:
        """The same cleaner with its matrices in ``dtype``, so that vectors of that dtype need no conversion."""
        return Cleaner(self.encoder.astype(dtype, copy=False), self.decoder.astype(dtype, copy=False), self.eps)

    def code(self, x: np.ndarray) -> np.ndarray:
        """What is kept of x (n, features): (n, r), in units of the predictor's input, in the dtype of x."""
        return shrink(x @ self.encoder.astype(x.dtype, copy=False), self.eps)

    def clean(self, x: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """x~ (n, features) of x (n, features), in the dtype of x; into ``out`` where it is given."""
        out = np.empty_like(x) if out is None else out
        typed = self if self.encoder.dtype == self.decoder.dtype == x.dtype else self.astype(x.dtype)
        if len(x) == 1:
            return np.matmul(_shrink_one(x @ typed.encoder, self.eps), typed.decoder.T, out=out)
        for start in range(0, len(x), BLOCK):
            rows = slice(start, start + BLOCK)
            np.matmul(typed.code(x[rows]), typed.decoder.T, out=out[rows])
        return out


def shrink(c: np.ndarray, eps: float) -> np.ndarray:
    """(1 - alpha) c for coordinates c (n, r): steps 4 to 6 of Algorithm 1 for all rows at once, in the dtype of c.

    The same operations as the exported graph (``models.cleaners``): a product with a triangle of ones is the running
    sum, and faster than one where r is small.
    """
    delta = c * c
    left = delta @ _before(c.shape[1], c.dtype)
    np.subtract(c.dtype.type(eps), left, out=left)
    np.maximum(left, 0, out=left)
    # eps divided by this fits float32, and it is far below any error that matters.
    np.maximum(delta, c.dtype.type(1e-30 * max(eps, 1.0)), out=delta)
    share = np.divide(left, delta, out=left)
    np.minimum(share, 1, out=share)
    np.sqrt(share, out=share)
    np.subtract(1, share, out=share)
    return np.multiply(share, c, out=share)


def _shrink_one(c: np.ndarray, eps: float) -> np.ndarray:
    """``shrink`` of one row c (1, r): a loop over numbers, which ten operations on so few would take longer than."""
    (shrunk,) = c.tolist()
    left = eps
    for place, value in enumerate(shrunk):
        if left <= 0:
            break
        delta = value * value
        shrunk[place] = 0.0 if delta <= left else value - math.sqrt(left / delta) * value
        left -= delta
    return np.array([shrunk], c.dtype)


@lru_cache
def _before(rank: int, dtype: np.dtype) -> np.ndarray:
    """Ones strictly above the diagonal: row times this is, for each coordinate, the sum of those before it."""
    triangle = np.triu(np.ones((rank, rank), dtype), 1)
    triangle.setflags(write=False)
    return triangle


def exact(a_d: np.ndarray) -> Cleaner:
    """Remove only the null space of A_d^T (a_d: features, outputs): the predictor's input does not change."""
    cleaner = approximate(a_d, eps=0.0)
    if cleaner.rank == cleaner.features:
        raise BadInput(
            f"A_d has rank {cleaner.rank} for {cleaner.features} features: its null space is empty, so nothing can be "
            "removed at no cost. Allow an error: eps above 0."
        )
    return cleaner


def approximate(a_d: np.ndarray, *, eps: float) -> Cleaner:
    """The null space, then the directions that A_d weighs least, up to an error of eps."""
    u, s = range_basis(a_d)
    return _cleaner((u * s)[:, ::-1], (u / s)[:, ::-1], eps)


def algorithm1(a_d: np.ndarray, a_c: np.ndarray, *, eps: float) -> Cleaner:
    """Algorithm 1: the null space, then by increasing gamma of B_d v = gamma B_c v on the range of A_d.

    ``a_c`` (features, confidential outputs) is the adversary's operator, estimated from training data.

    On the whole space the pencil is singular: its null part would keep what A_c does not see, but an adversary who
    refits does. Restricted to range(A_d), in the basis where B_d is the identity, it is one symmetric problem, and
    B_d- and B_c-orthogonal directions make the greedy order the exact optimum.
    """
    u, s = range_basis(a_d)
    a_c = checked_operator(a_c, "A_c")
    if len(a_c) != len(u):
        raise BadInput(f"A_c has {len(a_c)} features and A_d {len(u)}; estimate both on the same feature vectors.")
    basis = u / s
    seen = basis.T @ a_c
    # Without it, directions that A_c does not see would be in arbitrary order: of equals, remove the cheapest first.
    ridge = RIDGE * max(np.sum((u.T @ a_c) ** 2), np.sum(s**2)) / len(s)
    worth, q = np.linalg.eigh(seen @ seen.T + ridge * basis.T @ basis)
    q = q[:, np.argsort(-worth, kind="stable")]
    return _cleaner((u * s) @ q, basis @ q, eps)


def _cleaner(encoder: np.ndarray, decoder: np.ndarray, eps: float) -> Cleaner:
    if not 0 <= eps < np.inf:
        raise BadInput(f"eps must be 0 or more, the squared error allowed per vector; got {eps}.")
    return Cleaner(np.ascontiguousarray(encoder), np.ascontiguousarray(decoder), float(eps))


def range_basis(a_d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Left singular vectors (features, outputs) and singular values (outputs,) of A_d, largest first.

    Raises BadInput where A_d is empty, not a finite matrix, or not of full column rank.
    """
    a_d = checked_operator(a_d, "A_d")
    u, s, _ = np.linalg.svd(a_d, full_matrices=False)
    rank = int(np.sum(s > RANK_TOLERANCE * s[0]))
    if s[0] == 0 or rank < a_d.shape[1]:
        raise BadInput(
            f"A_d has {a_d.shape[1]} outputs and rank {rank if s[0] > 0 else 0}: some outputs depend on the "
            "others. Leave them out, or merge them (operators.merged keeps the error)."
        )
    return u, s


def checked_operator(a: np.ndarray, name: str) -> np.ndarray:
    """``a`` as a float64 matrix (features, outputs); BadInput where it is none."""
    a = np.asarray(a)
    if a.ndim != 2 or a.size == 0:
        raise BadInput(f"{name} must be a matrix (features, outputs), got shape {a.shape}; reshape it.")
    if a.dtype.kind not in "fiub" or not np.isfinite(a).all():
        raise BadInput(f"{name} must hold finite numbers, got dtype {a.dtype} or NaN or infinity; check its source.")
    return a.astype(np.float64)


# The problem that a linear cleaner solves, from a recipe and a data set: wanted and confidential labels, eps.


# Where a predictor's linear operator A (features, outputs) comes from: data, a file, a fitted model.
#
# Intercepts are left out: they stay in the predictor, which a cleaner does not change. To clean in homogeneous
# coordinates, as paper 000 does, give the samples a last feature that is 1 (``homogeneous``).


LARGEST_OPERATOR = 1 << 27  # values (1 GiB): the largest unrolled convolution


class LinearSection(Protocol):
    """What a recipe's ``[perturber]`` of a linear kind has."""

    eps: float
    eps_per: Literal["label", "vector"]
    operator: str
    ridge: float

    @property
    def meets_eps(self) -> bool:
        """Whether the error of each vector is ``eps``, or its largest where that is less."""


def homogeneous(x: np.ndarray) -> np.ndarray:
    """x (n, features) with a last feature that is 1."""
    return np.hstack([x, np.ones((len(x), 1), x.dtype)])


def least_squares(x: np.ndarray, y: np.ndarray, *, ridge: float = 0.0) -> np.ndarray:
    """A (features, labels) with y ~ A^T x, for x (n, features) and y (n, labels).

    ``ridge`` is added to the diagonal of x^T x. Raises BadInput where there is no unique solution: NaN, constant
    features (a single one, the homogeneous 1, is allowed), labels that are not numbers, or without a ridge fewer
    samples than features.
    """
    x, y = x if isinstance(x, Stored) else checked_features(x), checked_labels(y)
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
        lows, highs = extremes(x, axis=0)
        constant = np.flatnonzero(lows == highs)
        if len(constant) > 1 or (len(constant) == 1 and lows[constant[0]] == 0):
            raise BadInput(
                f"{counted(len(constant), 'feature is', 'features are')} constant (the first is column "
                f"{constant[0]}, counted from 0): their "
                "weights are not determined. Leave them out or give a ridge above 0."
            )
        weights, _, rank, _ = np.linalg.lstsq(*condensed(x, y), rcond=None)
        if rank < features:
            raise BadInput(
                f"{features} features have rank {rank}: some depend on each other, so their weights are not "
                "determined. Leave them out or give a ridge above 0."
            )
        return weights
    x, y = condensed(x, y)
    return np.linalg.solve(x.T @ x + ridge * np.eye(features), x.T @ y)


def condensed(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fewer rows with the x^T x and x^T y of x (n, features) and y (n, labels), where x is read from disk."""
    if not isinstance(x, Stored):
        return x, y
    top, of_y = np.empty((0, x.shape[1])), np.empty((0, y.shape[1]))
    for at, some in pieces(x):
        q, top = np.linalg.qr(np.vstack([top, some]))
        of_y = q.T @ np.vstack([of_y, y[at : at + len(some)]])
    return top, of_y


def mean_of(x: np.ndarray) -> np.ndarray:
    """The mean (features,) of x (n, features), float64."""
    if not isinstance(x, Stored):
        return x.mean(axis=0, dtype=np.float64)
    return np.sum([some.sum(axis=0, dtype=np.float64) for _, some in pieces(x)], axis=0) / len(x)


def as_float64(x: np.ndarray) -> np.ndarray:
    """x (n, features) in double precision."""
    return applied(lambda some: some.astype(np.float64), x)


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


def from_pt2(path: Path) -> np.ndarray:
    """A (features, outputs) of the first layer of a .pt2 of PyTorch: nn.Linear, after any Flatten. Needs no PyTorch."""
    program = read_pt2(path, path.name)
    value = program.inputs[0]
    for node in program.nodes:
        if value in node.refs() and node.op in ("flatten", "reshape", "view"):
            value = node.outputs[0]
        elif value in node.refs():
            weight = program.weights.get(getattr(node.args.get("weight"), "name", ""))
            if node.op == "linear" and weight is not None and len(program.shapes[value]) == 2:
                return checked_operator(weight.T, f"A_d of {node.where}")
            raise BadInput(
                f"{path} starts with {node.where}: give the part from its first nn.Linear on, or an .npy file."
            )
    raise BadInput(f"{path} has no nn.Linear; give A_d as a .npy file.")


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


OPERATORS = {"npy": from_npy, "keras": lambda path: from_keras(keras_file.read(path)), "pt2": from_pt2}


@dataclass(frozen=True)
class LinearProblem:
    """The inputs of a cleaner. ``a_d`` (features, outputs) has full column rank, ``eps`` is per vector, ``mean``
    (features,) is subtracted before cleaning: the training mean, or 0 in homogeneous coordinates."""

    a_d: np.ndarray
    eps: float
    mean: np.ndarray


def linear_problem(section: LinearSection, dataset: Dataset) -> LinearProblem:
    """A_d, eps and mean for a recipe's ``[perturber]``, from the training slices of ``dataset`` alone."""
    rows = dataset.slices.classifiers
    x = as_float64(dataset.x[rows])
    training = dataset.slices.training()
    mean = np.zeros(x.shape[1]) if dataset.homogeneous else mean_of(dataset.x[training])
    kind, _, place = section.operator.partition(":")
    if kind == "data":
        outputs = wanted(dataset, rows)
        a_d = least_squares(
            applied(lambda some: some - mean, x), outputs - _centre(outputs, dataset), ridge=section.ridge
        )
    else:
        a_d = OPERATORS[kind](Path(place))
        if len(a_d) != x.shape[1]:
            raise BadInput(
                f"The operator of {place} is for {len(a_d)} features and the vectors have {x.shape[1]}; give the "
                "operator for these vectors."
            )
    eps = section.eps * (a_d.shape[1] if section.eps_per == "label" else 1)
    return LinearProblem(merged(a_d), eps, mean)


def hidden_operator(section: LinearSection, dataset: Dataset, mean: np.ndarray) -> np.ndarray:
    """A_c (features, confidential outputs) by least squares on both training slices."""
    rows = dataset.slices.training()
    outputs = confidential(dataset, rows)
    x = applied(lambda some: some - mean, as_float64(dataset.x[rows]))
    return least_squares(x, outputs - _centre(outputs, dataset), ridge=section.ridge)


def wanted(dataset: Dataset, rows: np.ndarray) -> np.ndarray:
    """Wanted labels (n, labels) of some rows; without numeric labels, y one-hot."""
    return np.eye(len(dataset.y_names))[dataset.y[rows]] if dataset.labels is None else dataset.labels.parts(rows)[0]


def confidential(dataset: Dataset, rows: np.ndarray) -> np.ndarray:
    """Confidential labels (n, labels) of some rows; without numeric labels, z one-hot."""
    return np.eye(len(dataset.z_names))[dataset.z[rows]] if dataset.labels is None else dataset.labels.parts(rows)[1]


def _centre(outputs: np.ndarray, dataset: Dataset) -> np.ndarray | float:
    # The constant feature stands for the mean in homogeneous coordinates.
    return 0.0 if dataset.homogeneous else outputs.mean(axis=0)


# The Laplace mechanism on every feature, tuned to the error a cleaner makes (paper 000, figure 3).


def scale_for(a_d: np.ndarray, *, eps: float) -> float:
    """The scale b at which independent Laplace noise moves A_d^T x by eps in the mean square.

    Noise of scale b has variance 2 b^2 in every feature, so E|A_d^T noise|^2 = 2 b^2 |A_d|_F^2.
    """
    weight = np.sum(checked_operator(a_d, "A_d") ** 2)
    if not 0 <= eps < np.inf or weight == 0:
        raise BadInput(f"The Laplace mechanism needs eps from 0 up (got {eps}) and an A_d that is not zero.")
    return float(np.sqrt(eps / (2 * weight)))
