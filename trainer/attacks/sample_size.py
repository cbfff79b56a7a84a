"""Warnings where there are too few rows for an attack or a figure, with how many are needed."""

from __future__ import annotations

import numpy as np

from edgeveil.edge_runtime.formats.plurals import counted
from edgeveil.trainer.attacks.problem import Problem

ROWS_OF_A_CLASS = 20  # to train on, of each z; with fewer, an attack at chance is no evidence
TEST_ROWS = 385  # independent ones, for an interval of +-5 points at 50 %
UNITS = 30  # subjects or sessions in the test slice, for an interval that is not mostly theirs


def warnings(problem: Problem) -> tuple[str, ...]:
    """One sentence for each shortage, in words that fit under a table."""
    found = []
    rows = np.bincount(problem.training().z, minlength=problem.z_classes)
    short = rows[(rows > 0) & (rows < ROWS_OF_A_CLASS)]
    if len(short):
        found.append(
            f"{len(short)} of {int((rows > 0).sum())} classes of z have fewer than {ROWS_OF_A_CLASS} training rows "
            f"(the rarest {short.min()}): too few for adversaries, so finding no leak says little. Give at least "
            f"{ROWS_OF_A_CLASS} of each."
        )
    test = problem.test
    if test.cluster is None:
        if len(test) < TEST_ROWS:
            found.append(
                f"{len(test)} test rows give intervals wider than 5 points either way; {TEST_ROWS} are needed."
            )
    else:
        units = len(np.unique(test.cluster))
        if units < UNITS:
            found.append(
                f"The test slice holds {units} subjects or sessions: intervals are mostly about how these differ. At "
                f"least {UNITS} are needed for results about others like them."
            )
    missing = np.setdiff1d(np.unique(test.z), np.unique(problem.training().z))
    if len(missing):
        found.append(
            f"{counted(len(missing), 'class of z is', 'classes of z are')} in the test slice and in no training "
            f"row: no adaptive attack can name "
            "them, so cut the slices such that each z is in all of them."
        )
    return tuple(found)
