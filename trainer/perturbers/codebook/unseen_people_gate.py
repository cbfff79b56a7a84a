"""How well is y read of somebody who was not there in training? The worst such person is the one to gate on.

Errors about a person outside the calibration are that person's own and come again: on streams of unseen people they
are the leak. So the encoder is trained once without each person, and asked about that one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import Dataset, Part
from edgeveil.trainer.perturbers.codebook.stream_codes import majority

FEWEST_PEOPLE = 3

Labels = Callable[[np.ndarray, Part], np.ndarray]


def people(dataset: Dataset) -> np.ndarray:
    """Who each row is of (N,): the data's subjects; without any, the classes of z."""
    if dataset.cluster is not None and dataset.cluster_kind == "subject":
        return dataset.cluster
    return dataset.z


def leave_one_out(dataset: Dataset, part: Part, without: Callable[[Part], Any], votes: int | None) -> dict[str, Any]:
    """Accuracy of y-hat on each person of ``part`` by an encoder trained without them: worst, mean, and each.

    ``without`` trains on rows and returns a function from raw readings to labels. With ``votes``, the label of each
    track (session) is the majority of so many first rows; a track counts once then. Raises ``BadInput`` for fewer than
    three people.
    """
    who = people(dataset)[part.index]
    if len(np.unique(who)) < FEWEST_PEOPLE:
        raise BadInput(
            f"`limits.unseen_accuracy` leaves out one person at a time and needs at least {FEWEST_PEOPLE} of them; "
            f"the training rows are of {len(np.unique(who))}. Add people, or leave that limit out."
        )
    found = []
    for one in np.unique(who):
        label_of = without(part.take(np.flatnonzero(who != one)))
        left = part.take(np.flatnonzero(who == one)[np.argsort(part.index[who == one])])
        label, truth = label_of(left.x), left.y
        if votes is not None and left.cluster is not None:
            first = np.unique(left.cluster, return_index=True)[1]
            label, truth = majority(label, left.cluster, votes)[first], truth[first]
        found.append(float((label == truth).mean()))
    return {"people": len(found), "worst": min(found), "mean": float(np.mean(found)), "each": sorted(found)}
