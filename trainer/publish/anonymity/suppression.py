"""Whole people left out, as few as a node needs.

Where the link is ``none``, a person who is left out leaves all of their classes, and others may fail then. The people
who may stay together are closed under union (a class only gains), so there is one largest such set, and leaving out
whoever is in a failing class, again and again, ends at it. It grows with generalisation: pruning stays exact.
"""

from __future__ import annotations

import numpy as np

from edgeveil.trainer.publish.anonymity.criteria import Criteria
from edgeveil.trainer.publish.anonymity.frequency import Classes, Frequencies


def kept(frequencies: Frequencies, classes: Classes, criteria: Criteria, *, budget: int) -> np.ndarray | None:
    """Mask (people,) of those who stay; None where more than ``budget`` people would have to go, or nobody stays."""
    staying = np.ones(len(frequencies.weight), bool)
    while True:
        failing = criteria.failing(frequencies, classes)
        if not failing.any():
            return staying
        staying[classes.person[failing[classes.number]]] = False
        if not staying.any() or int(frequencies.weight[~staying].sum()) > budget:
            return None
        classes = classes.of(staying)
