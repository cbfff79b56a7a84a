"""The public prior θ_y(z) and the maximum-entropy distribution that follows from it (paper 001, eq. 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import Joint
from edgeveil.trainer.recipe.training_sections import TablePrior, TrainingPrior

# Probabilities are written in decimals: 1/3 three times over may miss 1 by this much.
TOLERANCE = 1e-3
ROUNDS, TINY = 200, 1e-300  # of iterative fitting; what no probability is below but 0


def theta(
    prior: TablePrior | TrainingPrior,
    y: np.ndarray,
    z: np.ndarray,
    *,
    names: tuple[Sequence[str], Sequence[str]],
    public: bool = False,
    joint: Joint | None = None,
) -> np.ndarray:
    """MED(z|y), (classes of y, classes of z), of a recipe's ``[prior]``; y, z (n,) are labels of the training rows.
    ``public``: the labels have no say, so "uniform" is even over all z. ``joint`` is that of z, of several attributes.

    Raises ``BadInput`` for a prior that is impossible, or that excludes a pair of the training rows.
    """
    classes = len(names[0]), len(names[1])
    if isinstance(prior, TrainingPrior) and public:
        return med({}, y_names=names[0], z_names=names[1])
    if isinstance(prior, TrainingPrior):
        return (counted if prior.kind == "counted" else even_over_seen)(y, z, classes=classes)
    completed = med(prior.table, y_names=names[0], z_names=names[1], joint=joint)
    check_possible(completed, y, z, names=names)
    return completed


def med(
    known: Mapping[str, Mapping[str, float]],
    *,
    y_names: Sequence[str],
    z_names: Sequence[str],
    joint: Joint | None = None,
) -> np.ndarray:
    """MED(z|y) of eq. (3), float64 (classes of y, classes of z), rows summing to 1.

    ``known`` is θ: class of y to class of z to P(z|y), as far as the public knows. What is left of 1 is spread evenly
    over the z not named; a y not named gets all of Z evenly. Where z is ``joint``, θ may also have classes of one of
    its attributes, each with its probability. Raises ``BadInput`` for an impossible prior.
    """
    unknown = [name for name in known if name not in y_names]
    if unknown:
        raise BadInput(f'The prior names the y "{unknown[0]}"; the classes of y are {_listed(y_names)}.')
    if joint is not None:
        return np.stack([_joint_row(y, known.get(y, {}), list(z_names), joint) for y in y_names])
    return np.stack([_row(y, known.get(y, {}), list(z_names)) for y in y_names])


def _row(y: str, known: Mapping[str, float], z_names: list[str]) -> np.ndarray:
    for z, p in known.items():
        _check_share(y, z, p, z_names)
    total = sum(known.values())
    rest = [z for z in z_names if z not in known]
    if total > 1 + TOLERANCE:
        raise BadInput(f'The prior of y "{y}" must sum to at most 1; got {total:g}. Lower its values.')
    if not rest and total < 1 - TOLERANCE:
        raise BadInput(
            f'The prior of y "{y}" names every z and must sum to 1; got {total:g}. Raise its values, or leave out the '
            "z that you know nothing of."
        )
    left = max(0.0, 1.0 - total) / len(rest) if rest else 0.0
    row = np.array([known.get(z, left) for z in z_names], np.float64)
    return row / row.sum()


def _check_share(y: str, z: str, p: float, known: Sequence[str]) -> None:
    if z not in known:
        raise BadInput(f'The prior of y "{y}" names the z "{z}"; the classes of z are {_listed(known)}.')
    if not 0 <= p <= 1:
        raise BadInput(f'The prior P({z}|{y}) must lie between 0 and 1; got {p:g}. Correct prior.table."{y}"."{z}".')


def _joint_row(y: str, known: Mapping[str, float], z_names: list[str], joint: Joint) -> np.ndarray:
    """The distribution of most entropy under what is known of joint classes and of classes of one attribute, by
    iterative proportional fitting from an even one."""
    sets = {name: np.arange(len(z_names)) == number for number, name in enumerate(z_names)}
    of_attributes = [one for classes in joint.classes for one in classes]
    for (_, classes), names in zip(joint, joint.classes, strict=True):
        sets |= {name: classes[:, k] > 0 for k, name in enumerate(names) if of_attributes.count(name) == 1}
    for z, value in known.items():
        _check_share(y, z, value, [*sets])
    p = np.full(len(z_names), 1 / len(z_names))
    for _ in range(ROUNDS):
        for z, value in known.items():
            for inside, share in ((sets[z], value), (~sets[z], 1 - value)):
                p[inside] *= share / max(p[inside].sum(), TINY)
    wrong = [z for z, value in known.items() if not abs(p[sets[z]].sum() - value) <= TOLERANCE]
    if wrong or not abs(p.sum() - 1) <= TOLERANCE:
        shares = ", ".join(f"P({z}) = {value:g}" for z, value in known.items())
        raise BadInput(f'The prior of y "{y}" cannot hold as a whole ({shares}): correct [prior.table."{y}"].')
    return p / p.sum()


def counted(y: np.ndarray, z: np.ndarray, *, classes: tuple[int, int]) -> np.ndarray:
    """P(z|y) as counted in labels y, z (n,), float64 (classes of y, classes of z); every y must occur."""
    table = np.zeros(classes)
    np.add.at(table, (y, z), 1.0)
    return table / table.sum(axis=1, keepdims=True)


def even_over_seen(y: np.ndarray, z: np.ndarray, *, classes: tuple[int, int]) -> np.ndarray:
    """1/k for each of the k values of z that occur with y in labels y, z (n,), else 0."""
    seen = counted(y, z, classes=classes) > 0
    return seen / seen.sum(axis=1, keepdims=True)


def check_possible(
    theta: np.ndarray, y: np.ndarray, z: np.ndarray, *, names: tuple[Sequence[str], Sequence[str]]
) -> None:
    """Raise ``BadInput`` if the prior is 0 for a pair of the training rows: D_z could not be compared with it."""
    ruled_out = theta[y, z] == 0
    if ruled_out.any():
        row = int(np.flatnonzero(ruled_out)[0])
        y_name, z_name = names[0][y[row]], names[1][z[row]]
        count = int((ruled_out & (y == y[row]) & (z == z[row])).sum())
        raise BadInput(
            f'The prior says that z "{z_name}" never comes with y "{y_name}"; {count} training rows have them '
            f"together. Give it a small probability, or correct the labels."
        )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(f'"{name}"' for name in names[:8])
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")
