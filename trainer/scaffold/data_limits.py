"""What data cannot support, said before any training, with what to do."""

from __future__ import annotations

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.attacks.problem import FEWEST_ROWS, FEWEST_UNITS
from edgeveil.trainer.datasets.base import Dataset

ENOUGH_ROWS = 30  # of a class: below that a rate of it is mostly chance
ENOUGH_PEOPLE = 30
TELLING = 0.95  # share of rows in which y alone tells z


def check(dataset: Dataset) -> None:
    """Raise ``BadInput`` where too few rows or people are left for an adversary to learn on: no audit, so no bundle."""
    rows = dataset.slices.training()
    units = len(rows) if dataset.cluster is None else len(np.unique(dataset.cluster[rows]))
    if len(rows) >= FEWEST_ROWS and units >= FEWEST_UNITS:
        return
    of = dataset.cluster_kind or "row"
    raise BadInput(
        f"The audit needs at least {FEWEST_ROWS} rows of {FEWEST_UNITS} subjects or sessions to learn on, and "
        f"the training slices have {len(rows)} rows of {units} {of}s: add {'rows' if of == 'row' else of + 's'}, until "
        f"there are {2 * FEWEST_UNITS} in all."
    )


def of_data(dataset: Dataset) -> list[str]:
    """Sentences about rare classes, few people, and a z that y almost determines."""
    return [*_rare(dataset), *_people(dataset), *_pairs(dataset), *_told(dataset)]


def _rare(dataset: Dataset) -> list[str]:
    rows = dataset.slices.rows()
    said = []
    for of, labels, names in (("y", dataset.y, dataset.y_names), ("z", dataset.z, dataset.z_names)):
        counts = np.bincount(labels[rows], minlength=len(names))
        few = [f'"{name}" {count}' for name, count in zip(names, counts, strict=True) if count < ENOUGH_ROWS]
        if few:
            listed = ", ".join(few[:3]) + (f" and {len(few) - 3} more" if len(few) > 3 else "")
            said.append(
                f"Classes of {of} with fewer than {ENOUGH_ROWS} rows: {listed}. What is said of them is mostly chance: "
                "add rows, merge classes, or leave these out."
            )
    return said


def _people(dataset: Dataset) -> list[str]:
    if dataset.cluster is None or dataset.cluster_kind != "subject":
        return []
    people = len(np.unique(dataset.cluster[dataset.slices.rows()]))
    if people >= ENOUGH_PEOPLE:
        return []
    return [
        f"There are {people} people, and no one is in two slices: figures about people never seen are wide. Add people "
        f"until there are {ENOUGH_PEOPLE}."
    ]


def _pairs(dataset: Dataset) -> list[str]:
    """A pair of y and z that no training row has is impossible for who knows z given y, and then comes all the same."""
    pair = dataset.y * len(dataset.z_names) + dataset.z
    known, met = np.unique(pair[dataset.slices.training()]), pair[dataset.slices.test]
    new = ~np.isin(met, known)
    if not new.any():
        return []
    return [
        f"{new.mean():.0%} of the test rows have a pair of y and z that no training row has, so z given y cannot be "
        f"counted for them: add rows{' of more ' + dataset.cluster_kind + 's' if dataset.cluster_kind else ''} of each "
        "pair, or merge classes of z."
    ]


def _told(dataset: Dataset) -> list[str]:
    rows = dataset.slices.training()
    counts = np.zeros((len(dataset.y_names), len(dataset.z_names)))
    np.add.at(counts, (dataset.y[rows], dataset.z[rows]), 1.0)
    told, guessing = counts.max(axis=1).sum() / counts.sum(), counts.sum(axis=0).max() / counts.sum()
    if told < TELLING or told < guessing + (1 - guessing) / 2:
        return []
    return [
        f"y alone tells z in {told:.1%} of rows ({guessing:.1%} by guessing): whoever gets y has nearly all of z. Keep "
        "a coarser y, or hide another z."
    ]
