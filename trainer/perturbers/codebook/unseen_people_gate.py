"""The accuracy of y-hat on people outside the training data; the limit is on the worst of them.

Errors about a person outside the training data are characteristic of that person and repeat: on streams of unseen
people they are the leak. So the encoder is trained once without each person and measured on that person.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import Dataset, Part
from edgeveil.trainer.perturbers.codebook.stream_codes import majority

FEWEST_PEOPLE = 3


def leave_one_out(dataset: Dataset, part: Part, without: Callable[[Part], Any], votes: int | None) -> dict[str, Any]:
    """Accuracy of y-hat on each person of ``part`` by an encoder trained without them: worst, mean, and each.

    People are the data set's subjects or, without any, the classes of z. ``without`` trains on rows and returns a
    function from raw samples to labels. With ``votes``, the label of each track (session) is the majority of so many
    first rows, and each track counts once. Raises ``BadInput`` for fewer than three people.
    """
    subjects = dataset.cluster if dataset.cluster_kind == "subject" else None
    who = (dataset.z if subjects is None else subjects)[part.index]
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
