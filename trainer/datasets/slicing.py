"""Equal stratified slices, cut before anything is fitted: the three of paper 001 (section 5.3), and one to attack with.

Where the data are too few for four, there are three. `hold_out` cuts within a slice.

Rows that belong together (one subject, one session) are never cut apart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.util.validate import counted
from edgeveil.trainer.datasets.base import PARTS, Dataset, Kind, Part, SliceName, Slices, Units
from edgeveil.trainer.datasets.samples import Stored
from edgeveil.trainer.measures.enough import ATTACK_ROWS, SLICE_ROWS

SLICES = 3  # at least; four where the data allow
THREE: tuple[SliceName, ...] = ("classifiers", "perturber", "test")
VALIDATION_SHARE = 0.2  # of a slice, to stop and to choose by
FEWEST_GROUPS = 2 * SLICES  # of each class: two to a slice, so that one can be held out
WORD = 2.0**-64

Cluster = tuple[np.ndarray | None, Literal["subject", "session"] | None]


def clusters(z: np.ndarray, *, subject: np.ndarray | None, session: np.ndarray | None) -> Cluster:
    """Numbers (N,) of what must stay together: subjects, or sessions where z is the subject or close to it.

    Raises ``BadInput`` if z follows from the subject and no session says which rows were recorded together.
    """
    if subject is None:
        return (None, None) if session is None else (_numbered(session), "session")
    pairs = np.unique(np.stack([z, _numbered(subject)]), axis=1)
    fewest = np.bincount(pairs[0]).min()
    if fewest >= SLICES:
        return _numbered(subject), "subject"
    if session is None:
        raise BadInput(
            f"Some class of z has only {counted(fewest, 'subject')}, so three slices cannot have "
            "different subjects each: add an array `session` (which recording a row is from), or leave out "
            "`subject` and `groups` to cut by row, which flatters the numbers where rows of one recording are alike."
        )
    return _numbered(np.stack([_numbered(subject), _numbered(session)], axis=1)), "session"


def cut(
    y: np.ndarray,
    z: np.ndarray,
    *,
    cluster: np.ndarray | None,
    rng: np.random.Generator,
    rows: int | None = None,
    test: np.ndarray | None = None,
) -> Slices:
    """Four slices of labels y, z (N,), equal in size and in the share of each (y, z) as far as clusters allow.

    Three, where the fourth would have fewer than ``ATTACK_ROWS`` rows or too few of a class: ``attack`` is empty
    then. The rows of a slice are in random order. ``rows``: cut about this many rows instead of all. ``test`` (N,) bool
    are those that the data themselves keep for the test; the others are cut. Raises ``BadInput`` where a cluster is in
    both.
    """
    stratum = y * (int(z.max()) + 1) + z
    if rows is not None and rows < len(y):
        keep = thin(stratum, rows=rows, cluster=cluster, rng=rng)
        of, test_rows = (None if one is None else one[keep] for one in (cluster, test))
        some = cut(y[keep], z[keep], cluster=None if of is None else _numbered(of), rng=rng, test=test_rows)
        return Slices(**{part: keep[getattr(some, part)] for part in PARTS})
    names = THREE
    if _enough_for_four(y, z, cluster):
        names = PARTS
    free, given = np.arange(len(y)), dict[str, np.ndarray]()
    if test is not None:
        if cluster is not None and (both := np.intersect1d(cluster[test], cluster[~test])).size:
            raise BadInput(
                f"{counted(both.size, 'subject or session has', 'subjects or sessions have')} rows both in the folder "
                "of the test and outside it, which flatters every number. Move the rows of each into one of them."
            )
        free, given = np.flatnonzero(~test), {"test": rng.permutation(np.flatnonzero(test))}
        names = tuple(name for name in names if name != "test")
        stratum = stratum[free]
        cluster = None if cluster is None else _numbered(cluster[free])
    deal = (
        _deal_rows(stratum, rng, len(names)) if cluster is None else _deal_clusters(stratum, cluster, rng, len(names))
    )
    return Slices(**{name: rng.permutation(free[deal == i]) for i, name in enumerate(names)}, **given)


def _enough_for_four(y: np.ndarray, z: np.ndarray, cluster: np.ndarray | None) -> bool:
    """Whether a fourth slice would have enough rows, and as many of each class as ``check_classes`` asks of three."""
    if len(y) < 4 * ATTACK_ROWS:
        return False
    classes = [labels == value for labels in (y, z) for value in np.unique(labels)]
    if any(rows.sum() < 4 * SLICE_ROWS for rows in classes):
        return False
    return cluster is None or all(len(np.unique(cluster[rows])) >= 4 * FEWEST_GROUPS // SLICES for rows in classes)


def check_classes(
    labels: np.ndarray, names: Sequence[str], *, of: str, slices: Slices, cluster: np.ndarray | None
) -> None:
    """Raise ``BadInput`` if a class of ``labels`` (N,) is too rare to learn, to choose by and to test."""
    if len(names) < 2:
        raise BadInput(
            f'{of} must have at least 2 classes; got {len(names)} ("{names[0]}"). There is nothing to tell apart.'
        )
    parts = [part for name in PARTS if len(part := getattr(slices, name)) or name != "attack"]
    least = SLICES * SLICE_ROWS
    for number, name in enumerate(names):
        rows = np.concatenate([part[labels[part] == number] for part in parts])
        if len(rows) < least:
            raise BadInput(
                f'{of} "{name}" has {len(rows)} rows; at least {least} are needed ({SLICE_ROWS} for each of '
                f"{SLICES} slices). Add rows of it, or leave that class out."
            )
        if cluster is None:
            continue
        groups = len(np.unique(cluster[rows]))
        in_slices = min(int((labels[part] == number).sum()) for part in parts)
        if groups < FEWEST_GROUPS or in_slices < SLICE_ROWS:
            raise BadInput(
                f'{of} "{name}" has {len(rows)} rows of {groups} subjects or sessions; at least {FEWEST_GROUPS} '
                f"of them and {SLICE_ROWS} rows in each of {SLICES} slices are needed. Add recordings of it, or leave "
                "that class out."
            )


def check_hidden(y: np.ndarray, z: np.ndarray) -> None:
    """Raise ``BadInput`` if z (n,) follows from y (n,): then every receiver of y has z."""
    pairs = np.unique(np.stack([y, z]), axis=1)
    if pairs.shape[1] == len(np.unique(y)):
        raise BadInput(
            "z follows from y: every y comes with a single z, so every receiver of y has z, and nothing can hide it. "
            "Keep a coarser y, or hide another z."
        )


def units_of(
    rows: int,
    asked: Kind | None,
    *,
    subject: np.ndarray | None,
    session: np.ndarray | None,
    kept_whole: Literal["subject", "session"] | None,
    people: bool,
    seed: int,
) -> Units:
    """The units of [private] of so many rows; ``subject`` and ``session`` are the data's own numbers of them (rows,).

    What is ``kept_whole`` stays in one slice, also where rows are guarded. ``people``: the data say whose a row is.

    Raises ``BadInput`` where people are to be guarded whom the data do not name, or of whom z has too few.
    """
    if asked == "subject" and not people:
        raise BadInput('`private.unit` is "subject", and these data do not say whose a row is. Add it, or write "row".')
    kind: Kind = asked or ("subject" if people else "row")
    if kind == "subject" and kept_whole != "subject":
        raise BadInput(
            "z nearly says who it is, so slices of different people have no classes of z in common: [private] can "
            'guard the rows of these data, with `private.unit = "row"`, and not the people.'
        )
    own = np.arange(rows)
    together = [own]
    if kept_whole is not None:
        together = [one for one in (subject, session if kept_whole == "session" else None) if one is not None]
    number = together[0] if kind == "subject" else own
    return Units(kind, number, *_hashed(together, seed))


def _hashed(numbers: list[np.ndarray], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two values in [0, 1) of each row (N,), of its numbers alone."""
    rows, back = np.unique(np.stack(numbers, axis=1), axis=0, return_inverse=True)
    key = f"edgeveil slices {seed}".encode()
    digests = b"".join(hashlib.blake2b(repr(row).encode(), key=key, digest_size=16).digest() for row in rows.tolist())
    values = np.frombuffer(digests, np.uint64).reshape(-1, 2) * WORD
    first, second = np.minimum(values, 1 - 2.0**-53)[back.reshape(-1)].T
    return first, second


def cut_by_unit(units: Units, *, rng: np.random.Generator, rows: int | None = None) -> Slices:
    """Slices of whole ``units`` by their hashes, whatever their labels; of about ``rows`` rows, if it is given."""
    count = len(units.number)
    row_count = count if rows is None else min(rows, count)
    names = PARTS if row_count >= 4 * ATTACK_ROWS else THREE
    parts = units.dealt(len(names), share=row_count / count)
    return Slices(**{name: rng.permutation(part) for name, part in zip(names, parts, strict=True)})


def fit_and_validation(dataset: Dataset, name: SliceName) -> tuple[Part, Part]:
    """The rows of a slice to fit, and those to stop and to choose by: the same cut each time.

    Of samples that stay on disk the second are at most ``few``, in memory.
    """
    part = dataset.part(name)
    if dataset.units is not None:
        held = dataset.units.second[part.index] < VALIDATION_SHARE
        return part.take(np.flatnonzero(~held)), part.take(np.flatnonzero(held))
    fit, validation = hold_out(part, share=VALIDATION_SHARE, seed=dataset.seed)
    return part.take(fit), few(dataset, part.take(validation))


SAMPLE = 20_000  # rows of a slice, where samples stay on disk, by which is judged and audited
SAMPLE_BYTES = 20 * 2**20  # and as float32: the adversaries hold some forty times that


def few(dataset: Dataset, part: Part, most: int | None = None, most_bytes: int | None = None) -> Part:
    """A part whose samples are in memory: all of it where the data are, else about ``most`` of its rows (``SAMPLE``).

    These are stratified by (y, z), or whole clusters, and the same each time.
    """
    if not isinstance(dataset.x, Stored):
        return part
    rows = min(most or SAMPLE, max(ATTACK_ROWS, (most_bytes or SAMPLE_BYTES) // (dataset.x.nbytes // len(dataset.x))))
    if rows < len(part):
        stratum = part.y * (int(dataset.z.max()) + 1) + part.z
        rng = np.random.default_rng([dataset.seed, len(part), 1])
        part = part.take(thin(stratum, rows=rows, cluster=part.cluster, rng=rng))
    return part.in_memory()


def sample(dataset: Dataset, most: int | None = None, most_bytes: int | None = None) -> Dataset:
    """A data set in memory: the same one, or of each slice of stored samples ``few`` rows, numbered anew."""
    if not isinstance(dataset.x, Stored):
        return dataset
    parts = {part: few(dataset, dataset.part(part), most, most_bytes).index for part in PARTS}
    return dataset.limited(Slices(**parts)).in_memory()


def sampled(dataset: Dataset, of: Dataset) -> str:
    """How many rows of each slice a ``sample`` has of those of ``of``, in words; empty where it is the same."""
    if dataset is of:
        return ""
    counts = (
        f"{len(few):,} of {len(rows):,} ({part})"
        for part in PARTS
        for few, rows in [(getattr(dataset.slices, part), getattr(of.slices, part))]
        if len(rows)
    )
    return ", ".join(counts)


def hold_out(part: Part, *, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Cut a part into (rows to fit, rows to choose by): places within the part, the second about ``share`` of it.

    Stratified by (y, z), or by whole clusters of like (y, z). The same part and seed give the same cut.
    """
    rng = np.random.default_rng([seed, len(part)])
    stratum = part.y * (int(part.z.max()) + 1) + part.z
    unit, of_unit = _units(stratum, part.cluster)
    order = _sorted(of_unit, rng)
    # Evenly spaced over units sorted by stratum: each stratum gives its share, to within one.
    chosen = np.zeros(len(order), bool)
    chosen[order[np.floor(np.arange(rng.random(), len(order), 1 / share)).astype(int)]] = True
    held = chosen[unit]
    return np.flatnonzero(~held), np.flatnonzero(held)


def thin(stratum: np.ndarray, *, rows: int, cluster: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
    """About ``rows`` of the row numbers of ``stratum`` (N,), sorted, stratified; whole clusters if there are any."""
    unit, of_unit = _units(stratum, cluster)
    order = _sorted(of_unit, rng)
    count = max(1, round(len(of_unit) * rows / len(stratum)))
    chosen = np.zeros(len(order), bool)
    chosen[order[np.linspace(0, len(order), count, endpoint=False).astype(int)]] = True
    return np.flatnonzero(chosen[unit])


def _numbered(values: np.ndarray) -> np.ndarray:
    return np.unique(values, axis=0, return_inverse=True)[1].reshape(-1)


def _sorted(keys: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The places of ``keys`` (n,) by key, in random order where keys are equal."""
    order = rng.permutation(len(keys))
    return order[np.argsort(keys[order], kind="stable")]


def _units(stratum: np.ndarray, cluster: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The unit of each row, and the commonest stratum of each unit; a row is a unit if there are no clusters."""
    if cluster is None:
        return np.arange(len(stratum)), stratum
    unit = _numbered(cluster)
    return unit, _counts(unit, stratum).argmax(axis=1)


def _counts(unit: np.ndarray, stratum: np.ndarray) -> np.ndarray:
    """Rows of each unit and stratum."""
    table = np.zeros((int(unit.max()) + 1, int(stratum.max()) + 1))
    np.add.at(table, (unit, stratum), 1)
    return table


def _deal_rows(stratum: np.ndarray, rng: np.random.Generator, slices: int) -> np.ndarray:
    # Like cards: sorted by stratum, shuffled within, one to each slice in turn. Sizes differ by at most one.
    order = _sorted(stratum, rng)
    place = np.empty(len(stratum), np.int64)
    place[order] = (np.arange(len(stratum)) + rng.integers(slices)) % slices
    return place


def _deal_clusters(stratum: np.ndarray, cluster: np.ndarray, rng: np.random.Generator, slices: int) -> np.ndarray:
    # The largest first, each to the slice that it leaves closest to its share of every stratum.
    table = _counts(cluster, stratum)
    order = list(_sorted(-table.sum(axis=1), rng))
    of_cluster = _dealt(table, order, slices, evenly=False)
    # Where a stratum has few clusters, slices are often alike in that, and a fixed turn starves the last.
    if np.bincount(of_cluster, table.sum(axis=1), slices).min() < table.sum() / (2 * slices):
        of_cluster = _dealt(table, order, slices, evenly=True)
    return of_cluster[cluster]


def _dealt(table: np.ndarray, order: Sequence[int], slices: int, *, evenly: bool) -> np.ndarray:
    """The slice of each cluster; among slices that are alike the first one, or ``evenly`` the one with fewest rows."""
    weight = 1.0 / np.maximum(table.sum(axis=0), 1)  # a rare stratum counts as much as a common one
    have = np.zeros((slices, table.shape[1]))
    of_cluster = np.empty(len(table), np.int64)
    for c in order:
        crowding = (weight * table[c] * (2 * have + table[c])).sum(axis=1)
        alike = np.flatnonzero(crowding <= crowding.min() * (1 + 1e-9))
        of_cluster[c] = alike[have[alike].sum(axis=1).argmin()] if evenly else crowding.argmin()
        have[of_cluster[c]] += table[c]
    return of_cluster
