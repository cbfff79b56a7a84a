"""Linkage: are two releases of the same person? Tested on people whom the attacker never saw.

An attribute may be hidden well and the person not: an attacker who can tell that two releases are of one person can
link all of that person's. The attacker knows releases of other people with their names, learns what tells people apart
(linear discriminants on principal components, or boosted trees on differences, on all people or on those alone whom the
perturber never saw; the best one on such people held out), and scores pairs of releases of people unknown so far. Pairs
of different people have the same two y as pairs of one person, so y alone is worth nothing here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from edgeveil.trainer.attacks.problem import Released
from edgeveil.trainer.attacks.rows import Places, places
from edgeveil.trainer.audit.findings import RAW, Finding
from edgeveil.trainer.audit.probes import Probe, areas
from edgeveil.trainer.audit.probes.areas import Scored
from edgeveil.trainer.audit.sections import About
from edgeveil.trainer.measures.predictor_metrics import boosted_trees

ASKED, PAIRS = "linkage", "pairs of releases"
FEWEST_PEOPLE = 6  # to learn on, to choose by and to be judged by: two of each
FEWEST_PAIRS = 20
FOLDS = 4
COMPONENTS = 40
ROWS_EACH = 60  # of one person
PAIRS_EACH = 40

Score = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Fold(NamedTuple):
    """Places of rows: those of people to learn on, those of them that never trained the perturber, and those of people
    to judge by."""

    learn: np.ndarray
    fresh: np.ndarray
    judge: np.ndarray


class Known(NamedTuple):
    """What is known of all rows: the person, y, and the session where there are any; (n,) each."""

    who: np.ndarray
    y: np.ndarray
    session: np.ndarray | None

    def people(self, rows: np.ndarray) -> np.ndarray:
        """The different people of some rows."""
        return np.unique(self.who[rows])


class Pairs(NamedTuple):
    """Places ``i`` and ``j`` of two rows each, and whether they are of one person."""

    i: np.ndarray
    j: np.ndarray
    same: np.ndarray


def _apart(who: np.ndarray, at: Places) -> list[Fold] | str:
    """The slices, which cut people apart; or, as text, why there are too few."""
    place = np.arange(len(who))
    fold = Fold(place[at.learn], place[at.fresh], place[at.test])
    known, new = len(np.unique(who[fold.learn])), len(np.unique(who[fold.judge]))
    if known < FEWEST_PEOPLE - 2 or new < 2:
        return f"{known} people to learn on and {new} to judge by; at least {FEWEST_PEOPLE - 2} and 2 are needed"
    return [fold]


def _folds(who: np.ndarray, first: int, rng: np.random.Generator) -> list[Fold] | str:
    """People cut apart, judged by their rows from place ``first`` on; or, as text, why they cannot be."""
    place = np.arange(len(who))
    people = rng.permutation(np.unique(who))
    if len(people) < FEWEST_PEOPLE:
        return (
            f"z has {len(people)} values; at least {FEWEST_PEOPLE} people are needed to learn on some and judge others"
        )
    parts = np.array_split(people, min(FOLDS, len(people) // 2))
    folds = []
    for part in parts:
        own, fresh = np.isin(who, part), place >= first
        folds.append(Fold(place[~own], place[~own & fresh], place[own & fresh]))
    return folds


def _pairs(among: np.ndarray, known: Known, rng: np.random.Generator) -> Pairs:
    """Random pairs of one person (of two sessions, where known), and as many of two people with the same two y."""
    who, y, session = known
    i, j, same = [], [], []
    for person in np.unique(who[among]):
        own = among[who[among] == person]
        others = among[who[among] != person]
        for _ in range(PAIRS_EACH):
            one, two = rng.choice(own, 2, replace=len(own) < 2)
            if one == two or (session is not None and session[one] == session[two]):
                continue
            like = others[y[others] == y[two]]
            if len(like):
                i += [one, one]
                j += [two, rng.choice(like)]
                same += [True, False]
    return Pairs(np.array(i, np.int64), np.array(j, np.int64), np.array(same, bool))


def _scored(
    features: np.ndarray, folds: list[Fold], pairs: list[Pairs], known: Known, trees: int, rng: np.random.Generator
) -> Scored:
    """Every fold's pairs, scored by what was learned of the other people."""
    scores = []
    for fold, pair in zip(folds, pairs, strict=True):
        score = _learned(features, fold, known, trees, rng)
        scores.append(score(features[pair.i], features[pair.j]))
    number = np.concatenate([np.full(len(pair.i), at) for at, pair in enumerate(pairs)])
    i, j, same = (np.concatenate([getattr(pair, name) for pair in pairs]) for name in ("i", "j", "same"))
    return Scored(np.concatenate(scores), same, number, known.who[i], known.who[j])


def _learned(features: np.ndarray, fold: Fold, known: Known, trees: int, rng: np.random.Generator) -> Score:
    """The best of some scores on a quarter of the people to learn on, learned from the others of them.

    They are held out of the rows that never trained the perturber, where those are of enough people; such rows are
    also learned from alone.
    """
    who, enough = known.who, len(known.people(fold.fresh)) >= FEWEST_PEOPLE
    among = fold.fresh if enough else fold.learn
    people = rng.permutation(known.people(among))
    held = people[: max(2, len(people) // 4)]
    judged = _pairs(among[np.isin(who[among], held)], known, rng)
    candidates: list[Score] = []
    for rows in [fold.learn, fold.fresh] if enough and len(fold.fresh) < len(fold.learn) else [fold.learn]:
        fit = _at_most(rows[~np.isin(who[rows], held)], who, rng)
        candidates.append(_discriminants(features[fit], who[fit]))
        learned = _pairs(fit, known, rng)
        if min(learned.same.sum(), (~learned.same).sum()) >= FEWEST_PAIRS:
            candidates.append(_trees(features, fit, learned, trees, rng))
    if not judged.same.any():
        return candidates[0]

    def quality(score: Score) -> float:
        scores = score(features[judged.i], features[judged.j])
        return areas.area(areas.curve(scores, judged.same))

    return max(candidates, key=quality)


def _discriminants(x: np.ndarray, who: np.ndarray) -> Score:
    """How alike two samples are in what tells people apart: the cosine between their discriminants."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    reduce = _components(x)
    seen = reduce(x)
    # Perfect leaks have no spread within a person; a little noise keeps the equations solvable.
    seen = seen + np.random.default_rng(0).normal(0, 1e-3, seen.shape)
    model = LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto").fit(seen, who)

    def score(one: np.ndarray, two: np.ndarray) -> np.ndarray:
        a, b = (model.transform(reduce(part)) for part in (one, two))
        scale = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
        return (a * b).sum(axis=1) / np.maximum(scale, 1e-9)

    return score


def _trees(features: np.ndarray, fit: np.ndarray, pairs: Pairs, trees: int, rng: np.random.Generator) -> Score:
    """Boosted trees on how far two samples are apart in each component."""
    reduce = _components(features[fit])

    def distance(one: np.ndarray, two: np.ndarray) -> np.ndarray:
        return np.abs(reduce(one) - reduce(two))

    settings = {"max_iter": trees, "max_leaf_nodes": 8, "random_state": int(rng.integers(2**31))}
    model = boosted_trees(distance(features[pairs.i], features[pairs.j]), pairs.same, **settings)
    return lambda one, two: model.predict_proba(distance(one, two))[:, 1]


def _components(x: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Standardised features on their first principal components, each to variance 1."""
    from sklearn.decomposition import PCA

    mean, spread = x.mean(axis=0), x.std(axis=0)
    scale = np.where(spread > 1e-7, 1 / np.maximum(spread, 1e-7), 0.0)
    with np.errstate(invalid="ignore"):  # constant features have no variance to take a share of
        pca = PCA(min(COMPONENTS, x.shape[1], len(x) // 2), random_state=0).fit((x - mean) * scale)
    deviation = np.sqrt(np.maximum(pca.explained_variance_, 1e-6))
    return lambda part: pca.transform((part - mean) * scale) / deviation


def _at_most(among: np.ndarray, who: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    mixed = rng.permutation(among)
    return np.concatenate([mixed[who[mixed] == person][:ROWS_EACH] for person in np.unique(who[among])])


def _features(released: Released) -> np.ndarray:
    flat = released.x.reshape(len(released), -1).astype(np.float32)
    return flat if released.also is None else np.concatenate([flat, released.also.astype(np.float32)], axis=1)


class Linkage(Probe):
    """Pairs of releases of people whom the attacker never saw."""

    name = "linkage"
    asks = "linkage"

    def run(self, about: About) -> list[Finding]:
        """AUC and equal error rate of pairs of releases, and the AUC of the same pairs of raw readings."""
        released, dataset = about.released, about.dataset
        rows = dataset.slices.rows()
        rng = np.random.default_rng([about.seed, 5])

        def refused(reason: str) -> list[Finding]:
            return [Finding(ASKED, PAIRS, not_run=reason, more={"kind": "probe"})]

        if dataset.cluster_kind is None:
            return refused("the data do not say who is who: give `subject` (or `session`, where z is the person)")
        # Where sessions are the units z is the person, or close to it: two sessions of one z are to be linked.
        by_subject = dataset.cluster_kind == "subject"
        who = dataset.cluster[rows] if by_subject and dataset.cluster is not None else dataset.z[rows]
        session = None if by_subject or dataset.cluster is None else dataset.cluster[rows]
        at, four = places(dataset), len(dataset.slices.attack) > 0
        folds = _apart(who, at) if by_subject else _folds(who, at.fresh.start if four else 0, rng)
        if isinstance(folds, str):
            return refused(folds)
        known = Known(who, dataset.y[rows], session)
        pairs = [_pairs(fold.judge, known, rng) for fold in folds]
        if min(pair.same.sum() for pair in pairs) < FEWEST_PAIRS:
            return refused(
                f"there are too few pairs of releases of one person{'' if by_subject else ' from two sessions'} for "
                f"which others with the same y can be found; each fold needs {FEWEST_PAIRS}: give more samples of each "
                "person"
            )
        trained = "other samples of them" if four else "them"
        unseen = (
            "people whom neither the attacker nor the perturber's training saw"
            if by_subject
            else f"z that the attacker never saw (the perturber was trained on {trained})"
        )
        meaning = f"whether two releases are of one person, asked of {unseen}; interval by resampled people"
        sent, raw = _features(released), dataset.unit(dataset.x[rows]).reshape(len(rows), -1)
        trees = min(about.budget.trees, 100)
        scored = _scored(sent, folds, pairs, known, trees, rng)
        before = _scored(raw, folds, pairs, known, trees, rng)
        return [
            scored.finding(ASKED, PAIRS, "auc", rng, text=meaning),
            scored.finding(ASKED, PAIRS, "eer", rng, text=meaning),
            before.finding(ASKED, PAIRS, "auc", rng, of=RAW, text="the same pairs before the perturber"),
        ]
