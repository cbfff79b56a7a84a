"""Several attributes to keep, or to hide, as one label: the classes in which they occur together.

Everything behind a loader has one y and one z. Where a recipe lists attributes, that label is their joint class, by the
classes that occur, and ``Joint`` has which class of each attribute a joint class is. What is hidden jointly is hidden
of each attribute, by data processing; what is kept of each is read from the joint class.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import AND, MOST_CLASSES
from edgeveil.trainer.datasets.base import Joint, Known, Slices
from edgeveil.trainer.datasets.readings import Readings
from edgeveil.trainer.measures.enough import SLICE_ROWS
from edgeveil.trainer.recipe.data_section import Data
from edgeveil.trainer.recipe.messages import nearest

MOST_LETTERS = 200  # of the name of a class in a manifest


def joined(readings: Readings, data: Data) -> tuple[Readings, dict[str, Joint]]:
    """The readings with the joint labels that the recipe lists as y and z, and what their classes are.

    ``readings`` have the first attribute of each list as y and z; it and the others are among their known labels, and
    so are the joint labels of what is returned. Raises ``BadInput``: no such label, more joint classes than a manifest
    names, or two of one name.
    """
    known, joint = readings.known, dict[str, Joint]()
    for role, key, names in (("y", "target", data.targets), ("z", "sensitive", data.sensitives)):
        if len(names) == 1:
            continue
        label, joint[role] = joint_of({name: label_of(known, name, key) for name in names})
        _check(label.names, key, names)
        known = {AND.join(names): label, **known}
        labels: dict[str, Any] = {role: label.values, f"{role}_names": label.names}
        readings = replace(readings, **labels)
    return replace(readings, known=known), joint


def joint_of(labels: Mapping[str, Known]) -> tuple[Known, Joint]:
    """The joint label of several, by the classes that occur, and what its classes are; of one label, that one."""
    classes, values = np.unique(np.stack([label.values for label in labels.values()]), axis=1, return_inverse=True)
    joint = Joint(tuple(labels), tuple(label.names for label in labels.values()), classes.T)
    if len(labels) == 1:
        return next(iter(labels.values())), joint
    names = (
        AND.join(label.names[number] for label, number in zip(labels.values(), one, strict=True)) for one in joint.of
    )
    return Known(values.reshape(-1), tuple(names)), joint


def label_of(known: Mapping[str, Known], name: str, key: str) -> Known:
    """The label of that name, for ``key`` of [data]. Raises ``BadInput``."""
    if name not in known:
        there = ", ".join(f'"{one}"' for one in known if AND not in one)
        raise BadInput(
            f'`data.{key}`: there is no label "{name}" in these data{nearest(name, known)}; there are {there}.'
        )
    return known[name]


def follows(coarse: np.ndarray, fine: np.ndarray) -> bool:
    """Whether class numbers ``coarse`` (n,) are a function of ``fine`` (n,)."""
    return np.unique(np.stack([fine, coarse]), axis=1).shape[1] == len(np.unique(fine))


def refuse_determined(name: str, values: np.ndarray, target: str, y: np.ndarray) -> None:
    """Raise ``BadInput`` where the sensitive attribute ``values`` (n,) follows from y (n,)."""
    if follows(values, y):
        raise BadInput(
            f'`data.sensitive`: "{name}" follows from the target "{target}", so every receiver has it, and nothing can '
            "hide it: leave it out."
        )


def _check(classes: tuple[str, ...], key: str, names: list[str]) -> None:
    """Raise ``BadInput`` for joint classes that no manifest can name."""
    listed = AND.join(names)
    if len(classes) > MOST_CLASSES:
        raise BadInput(
            f"`data.{key}`: {listed} occur in {len(classes):,} joint classes, and a bundle names at most "
            f"{MOST_CLASSES:,}: name fewer or coarser attributes."
        )
    long = next((name for name in classes if len(name) > MOST_LETTERS), None)
    if long is not None or len(set(classes)) < len(classes):
        what = "two joint classes have one name" if long is None else f'"{long[:40]}..." is longer than {MOST_LETTERS}'
        raise BadInput(f"`data.{key}`: {what}: rename the classes of {listed}.")


# What a perturber must hide: the joint label of all sensitive attributes, each in the finest form that is known.
#
# Who hides "less than five" alone may send codes from which "less than six" is read. Every grouping and every
# threshold of a label is a function of it, so by data processing a code has no more information about any of them than
# about the label itself, and no more about each of several attributes than about all jointly: one price, on the joint
# label, covers all.


def priced(data: Data, known: Mapping[str, Known], *, slices: Slices) -> Known | None:
    """The joint label of ``data.sensitive`` and ``data.also_sensitive`` under ``data.family``; None where it is z.

    ``known`` are the data set's labels of all rows. Raises ``BadInput`` for an unknown label, one that is y or follows
    from it, also of several that z joins, one without an order where thresholds are asked for, a family where nothing
    finer than two classes is known, and a joint label of too many classes for the rows.
    """
    training = slices.training()
    y = known[data.target].values[training]
    for name in data.sensitives if len(data.sensitives) > 1 else ():
        refuse_determined(name, known[name].values[training], data.target, y)
    if not data.also_sensitive and data.family is None:
        return None
    chosen = []
    for name in dict.fromkeys([data.sensitive, *(data.also_sensitive or [])]):
        label = label_of(known, name, "sensitive")
        if name != data.sensitive:
            refuse_determined(name, label.values[training], data.target, y)
        chosen.append(name if data.family is None else finest(name, known))
        if data.family == "thresholds" and not known[chosen[-1]].ordered:
            raise BadInput(
                f'`data.family`: "thresholds" are of labels with an order, and "{chosen[-1]}" has none: take "finest".'
            )
    joint, _ = joint_of({name: known[name] for name in dict.fromkeys(chosen)})
    if data.family in ("groupings", "thresholds") and len(joint.names) == 2:
        raise BadInput(
            f'`data.family`: "{data.sensitive}" has two classes and no label in these data is finer, so it has no '
            f"other {data.family}: add a finer label to the data (label_NAME), or leave `data.family` out."
        )
    cells = len(np.unique(np.stack([known[data.target].values, joint.values])[:, training], axis=1).T)
    rows = len(slices.perturber)
    if rows < SLICE_ROWS * cells and len(joint.names) > len(known[data.sensitive].names):
        raise BadInput(
            f"`data.sensitive`: {' and '.join(dict.fromkeys(chosen))} make {cells:,} classes with y, too many for the "
            f"{rows:,} rows that codes are learned from ({SLICE_ROWS} for each are needed): name fewer or coarser "
            "attributes, or leave `data.family` out."
        )
    return joint


def finest(name: str, known: Mapping[str, Known]) -> str:
    """The label of most classes that determines ``name``: each of its classes comes with one class of ``name``."""
    determining = [one for one in known if follows(known[name].values, known[one].values)]
    return max(determining, key=lambda one: (len(np.unique(known[one].values)), one == name))
