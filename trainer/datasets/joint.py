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
from edgeveil.trainer.datasets.base import Joint, Known
from edgeveil.trainer.datasets.readings import Readings
from edgeveil.trainer.recipe.data_section import Data
from edgeveil.trainer.recipe.messages import nearest

MOST_LETTERS = 200  # of the name of a class in a manifest


def joined(readings: Readings, data: Data) -> tuple[Readings, dict[str, Joint]]:
    """The readings with the joint labels that the recipe lists as y and z, and what their classes are.

    ``readings`` have the first attribute of each list as y and z; the others are among their known labels. ``known`` of
    what is returned has y and z under their names, and each attribute of a list. Raises ``BadInput``: no such label,
    more joint classes than a manifest names, or two of one name.
    """
    known = {
        data.targets[0]: Known.from_values(readings.y, readings.y_names),
        data.sensitives[0]: Known.from_values(readings.z, readings.z_names),
        **readings.known,
    }
    joint = {}
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


def refuse_told(name: str, values: np.ndarray, target: str, y: np.ndarray) -> None:
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
