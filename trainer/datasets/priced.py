"""What a perturber must hide: the joint label of all sensitive attributes, each in the finest form that is known.

Whoever hides "less than five" alone may send codes that tell "less than six". Every grouping and every threshold of a
label is a function of it, so by data processing a code tells no more about any of them than about the label itself, and
no more about each of several attributes than about all of them jointly: one price, on the joint label, covers all.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import Known, Slices
from edgeveil.trainer.datasets.slicing import FEWEST_ROWS
from edgeveil.trainer.recipe.data_section import Data


def priced(data: Data, known: Mapping[str, Known], *, slices: Slices) -> Known | None:
    """The joint label of ``data.sensitive`` and ``data.also_sensitive`` under ``data.family``; None where it is z.

    ``known`` are the data set's labels of all rows. Raises ``BadInput`` for an unknown label, one that is y or follows
    from it, one without an order where thresholds are asked for, a family where nothing finer than two classes is
    known, and a joint label of too many classes for the rows.
    """
    if not data.also_sensitive and data.family is None:
        return None
    training = slices.training()
    chosen = []
    for name in dict.fromkeys([data.sensitive, *(data.also_sensitive or [])]):
        if name not in known:
            raise BadInput(f'`data.sensitive`: there is no label "{name}" in these data; there are {_list(known)}.')
        if name != data.sensitive and follows(known[name].values[training], known[data.target].values[training]):
            raise BadInput(
                f'`data.sensitive`: "{name}" follows from the target "{data.target}", so every receiver has it, and '
                "nothing can hide it: leave it out."
            )
        chosen.append(name if data.family is None else finest(name, known))
        if data.family == "thresholds" and not known[chosen[-1]].ordered:
            raise BadInput(
                f'`data.family`: "thresholds" are of labels with an order, and "{chosen[-1]}" has none: take "finest".'
            )
    joint = _joint([known[name] for name in dict.fromkeys(chosen)])
    if data.family in ("groupings", "thresholds") and len(joint.names) == 2:
        raise BadInput(
            f'`data.family`: "{data.sensitive}" has two classes and no label in these data is finer, so it has no '
            f"other {data.family}: add a finer label to the data (label_NAME), or leave `data.family` out."
        )
    cells = len(np.unique(np.stack([known[data.target].values, joint.values])[:, training], axis=1).T)
    rows = len(slices.perturber)
    if rows < FEWEST_ROWS * cells and len(joint.names) > len(known[data.sensitive].names):
        raise BadInput(
            f"`data.sensitive`: {' and '.join(dict.fromkeys(chosen))} make {cells:,} classes with y, too many for the "
            f"{rows:,} rows that codes are learned from ({FEWEST_ROWS} for each are needed): name fewer or coarser "
            "attributes, or leave `data.family` out."
        )
    return joint


def finest(name: str, known: Mapping[str, Known]) -> str:
    """The label of most classes that tells ``name``: each of its classes comes with one class of ``name``."""
    tells = [one for one in known if follows(known[name].values, known[one].values)]
    return max(tells, key=lambda one: (len(np.unique(known[one].values)), one == name))


def follows(coarse: np.ndarray, fine: np.ndarray) -> bool:
    """Whether class numbers ``coarse`` (n,) are a function of ``fine`` (n,)."""
    return np.unique(np.stack([fine, coarse]), axis=1).shape[1] == len(np.unique(fine))


def _joint(labels: list[Known]) -> Known:
    if len(labels) == 1:
        return labels[0]
    classes, values = np.unique(np.stack([label.values for label in labels]), axis=1, return_inverse=True)
    names = (" and ".join(label.names[k] for label, k in zip(labels, one, strict=True)) for one in classes.T)
    return Known(values.reshape(-1), tuple(names))


def _list(known: Mapping[str, Known]) -> str:
    return ", ".join(f'"{name}"' for name in known)
