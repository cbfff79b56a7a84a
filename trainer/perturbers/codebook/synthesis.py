"""What a code looks like: a function of c' and fresh noise alone, never of x.

* *centroid*: the mean sample of the code, over at least ``fewest`` different people, so that it shows no single person;
* *donor*: a real sample of the code. It is a person's record, so it needs their consent, and the bundle is marked
  "substituted".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.slicing import fit_and_validation
from edgeveil.trainer.perturbers.codebook import Codebook
from edgeveil.trainer.tensorflow_quiet import load_tensorflow

if TYPE_CHECKING:
    from edgeveil.trainer.datasets.base import Dataset
    from edgeveil.trainer.runs.run import Run

SURE = 0.95  # the least probability of the true y that makes a sample a good donor


def centroids(
    u: np.ndarray,
    code: np.ndarray,
    kept: np.ndarray,
    y: np.ndarray,
    *,
    codes: int,
    per_class: int,
    subject: np.ndarray | None,
    fewest: int,
) -> np.ndarray:
    """The table float32 (codes, *shape): per code the mean of its unit-cube samples u (n, ...).

    A code with fewer than ``fewest`` different subjects (``subject`` (n,); None: every row is one) is extended by the
    samples of its class (``per_class`` codes each) that are nearest to it in T (``kept`` (n, d)) until it has them.
    Where too few are classified as the whole class, those that are of it count (``y`` (n,)): such a code is hardly ever
    sent. Raises ``BadInput`` where the class itself has fewer: see ``check_people``.
    """
    who = np.arange(len(u)) if subject is None else subject
    table = np.empty((codes, *u.shape[1:]), np.float32)
    for number in range(codes):
        rows, group = np.flatnonzero(code == number), number // per_class
        if len(np.unique(who[rows])) < fewest:
            classified = code // per_class == group
            enough = len(np.unique(who[classified])) >= fewest
            rows = _nearest_subjects(rows, classified if enough else classified | (y == group), kept, who, fewest)
        table[number] = u[rows].mean(axis=0)
    return table


def fewest_people(y: np.ndarray, subject: np.ndarray | None, *, classes: int) -> np.ndarray:
    """How many different people (``subject`` (n,); None: every row is one) each of ``classes`` of y (n,) has."""
    who = np.arange(len(y)) if subject is None else subject
    return np.array([len(np.unique(who[y == value])) for value in range(classes)])


def check_people(people: np.ndarray, names: Sequence[str], *, fewest: int) -> None:
    """Raise ``BadInput`` where a class of y has fewer than ``fewest`` ``people`` to take a mean of."""
    worst = int(people.argmin())
    if people[worst] >= fewest:
        return
    cure = f"`fewest_subjects` of {people[worst]}, " if people[worst] > 1 else ""
    raise BadInput(
        f'A centroid is the mean of at least {fewest} different people, and y "{names[worst]}" has {people[worst]} in '
        f'the slices that pictures are made of: add people, or take {cure}`kind = "label-only"`, which sends the class.'
    )


def donors(
    code: np.ndarray,
    kept: np.ndarray,
    sure: np.ndarray,
    z: np.ndarray,
    *,
    codes: int,
    per_class: int,
    copies: int,
    allowed: np.ndarray | None = None,
) -> np.ndarray:
    """Row numbers int64 (codes * copies,) of the donors of every code: its most typical samples by T.

    They are the most typical of each z (n,), as many as its share of the code: the most typical of all would show some
    digits hardly ever, and what is trained on them would not know these. ``sure`` (n,) is the classifier's probability
    of the true y of each row: rows above ``SURE`` are taken first. A code with fewer than ``copies`` samples repeats
    them; one without any uses those of its class nearest to the class's mean. ``allowed`` (n,) marks the rows that may
    be shown; None: all. Raises ``BadInput`` where a whole class has none.
    """
    chosen = np.empty((codes, copies), np.int64)
    for number in range(codes):
        rows = _of_code(number, code, per_class, allowed)
        far = ((kept[rows] - kept[rows].mean(axis=0)) ** 2).sum(axis=1)
        order = rows[np.lexsort((far, _turn(z[rows], far, copies), sure[rows] <= SURE))]
        chosen[number] = np.resize(order[:copies], copies)
    return chosen.reshape(-1)


def any_of(
    code: np.ndarray,
    right: np.ndarray,
    *,
    codes: int,
    per_class: int,
    copies: int,
    allowed: np.ndarray | None = None,
    rng: np.random.Generator,
) -> np.ndarray:
    """Row numbers int64 (codes * copies,): any samples of every code, not its most typical ones as ``donors``.

    ``right`` (n,) marks the rows with the true y, which are taken where a code has any. A code with fewer than
    ``copies`` repeats them. Raises ``BadInput`` where a whole class has none that may be shown.
    """
    chosen = np.empty((codes, copies), np.int64)
    for number in range(codes):
        rows = _of_code(number, code, per_class, allowed)
        rows = rows[right[rows]] if right[rows].any() else rows
        chosen[number] = np.resize(rng.permutation(rows)[:copies], copies)
    return chosen.reshape(-1)


def _of_code(number: int, code: np.ndarray, per_class: int, allowed: np.ndarray | None) -> np.ndarray:
    """The rows of a code that may be shown; of its class, where the code has none."""
    may = np.ones(len(code), bool) if allowed is None else allowed
    rows = np.flatnonzero((code == number) & may)
    if not len(rows):
        rows = np.flatnonzero((code // per_class == number // per_class) & may)
    if not len(rows):
        raise BadInput(
            f"No sample that may be shown is classified as class {number // per_class} of y, so its codes have "
            'no donors: train longer, ask for consent, or set `synthesis = "centroid"`.'
        )
    return rows


def _turn(z: np.ndarray, far: np.ndarray, copies: int) -> np.ndarray:
    """The turn (n,) in which a row is taken: in each, every z gives its share of the copies, its nearest first."""
    order = np.lexsort((far, z))
    size = np.bincount(z)[z]
    first = np.concatenate([[0], np.cumsum(np.bincount(z))])[z]
    place = np.empty(len(z), np.int64)
    place[order] = np.arange(len(z))
    return (place - first) // np.maximum(copies * size / len(z), 1)


def check_consent(consent: np.ndarray | None, *, public: bool) -> np.ndarray | None:
    """Which rows may be donors: a mask (n,), or None for all. Raises ``BadInput`` where there is no consent.

    ``consent`` (n,) is the data set's column; ``public`` is the recipe's statement that the data set is public.
    """
    if consent is not None:
        allowed = np.asarray(consent).astype(bool)
        if not allowed.any():
            raise BadInput("No row of the data set's `consent` allows its use as a donor: set another `synthesis`.")
        return allowed
    if not public:
        raise BadInput(
            "A donor is a real person's record, and these data have no column `consent`: add it, set "
            '`public_data = true` if the data are public, or set `synthesis = "centroid"`.'
        )
    return None


def _nearest_subjects(
    rows: np.ndarray, in_class: np.ndarray, kept: np.ndarray, who: np.ndarray, fewest: int
) -> np.ndarray:
    pool = np.flatnonzero(in_class)
    have = len(np.unique(who[pool]))
    if have < fewest:
        raise BadInput(
            f"A centroid must be the mean of at least {fewest} different subjects, and a class of y has {have}: lower "
            "`fewest_subjects`, or add people."
        )
    centre = kept[rows if len(rows) else pool].mean(axis=0)
    order = pool[np.argsort(((kept[pool] - centre) ** 2).sum(axis=1), kind="stable")]
    _, first = np.unique(who[order], return_index=True)
    return np.union1d(rows, order[: np.sort(first)[fewest - 1] + 1])


def fewest_drawn(dataset: Dataset, *, stream: bool) -> np.ndarray:
    """How many people (samples, where none are named) each class of y has among the rows that codes are drawn from."""
    part, _ = fit_and_validation(dataset, "perturber")
    if not stream:
        first, _ = fit_and_validation(dataset, "classifiers")
        part = dataset.rows(np.concatenate([part.index, first.index]))
    return fewest_people(part.y, part.cluster, classes=len(dataset.y_names))


# The samples from which the receiver of a codebook's codes draws x': any of a code, not its most typical ones.
#
# Typical donors keep most of T, so a device shows them. Networks that learn on x' need what is unusual too. What leaks
# is the code, whichever of its samples are drawn.


MOST = 4096  # samples of a code, as for donors


def receiver_pool(run: Run, size: int) -> np.ndarray:
    """Raw samples (codes, size, *shape) of a finished run's training slices, drawn evenly of each code by its seed.

    Raises ``BadInput`` for a perturber that shows no donors, a ``size`` out of range, and samples without consent.
    """
    section = run.recipe.perturber
    if not isinstance(section, Codebook) or section.synthesis != "donor":
        raise BadInput(
            "--emit code:N is for a codebook whose pictures are real samples: in this run's recipe "
            '`perturber.synthesis` is not "donor". Leave N out.'
        )
    if not 1 <= size <= MOST:
        raise BadInput(f"--emit code:N expected 1 to {MOST} samples of each code; got {size}.")
    dataset = run.sample()
    allowed = check_consent(dataset.consent, public=section.public_data)
    first, second = fit_and_validation(dataset, "classifiers")[0], fit_and_validation(dataset, "perturber")[0]
    rows = dataset.rows(np.concatenate([first.index, second.index]))
    load_tensorflow()
    sent = run.perturber().perturb(rows.x)
    chosen = any_of(
        sent["code"],
        sent["label"] == rows.y,
        codes=len(dataset.y_names) * section.codes,
        per_class=section.codes,
        copies=size,
        allowed=None if allowed is None else allowed[rows.index],
        rng=np.random.default_rng([run.recipe.seed, 3]),
    )
    return rows.x[chosen].reshape(-1, size, *dataset.input.shape)
