"""What else can be read: every label that the data set knows, thresholds of it, and all groupings of its classes.

A perturber hides what it was told to hide. Its neighbours it may publish: a codebook that hid "digit < 5" of MNIST told
"digit < 3". So each known label is attacked in place of z, by a few families.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from edgeveil.trainer.attacks.exposure import MOST_CLASSES, Answer, groupings, holm, thresholds, worst
from edgeveil.trainer.attacks.families.code_counts import BayesKnowingChannel, CodeCounts
from edgeveil.trainer.attacks.families.lda import ShrinkageLDA
from edgeveil.trainer.attacks.families.mlp import BatchNormMLP
from edgeveil.trainer.attacks.findings import Scored
from edgeveil.trainer.attacks.problem import Budget, Released
from edgeveil.trainer.attacks.protocol import Adversary
from edgeveil.trainer.attacks.rows import Question, prior, question_of, to_learn
from edgeveil.trainer.attacks.run_all import of_most_bits, run
from edgeveil.trainer.audit import attributes
from edgeveil.trainer.audit.findings import SENT, Finding
from edgeveil.trainer.audit.verdict import SIGNIFICANT
from edgeveil.trainer.datasets.base import Dataset, Known
from edgeveil.trainer.measures import attack_metrics
from edgeveil.trainer.measures.attack_metrics import counted_prior

# The labels that a data set knows besides y, as an audit asks about them: rare classes together, numbers in ranges.

TO_LEARN, TO_TEST = 20, 5  # rows of each class; rarer ones are put together
BINS, MOST_ATTRIBUTES = 10, 6
TO = " to "  # between the ends of a range of an ordered label


class Label(NamedTuple):
    """A label to attack: class numbers ``values`` (N,), their ``names``, and which questions to ask about it."""

    name: str
    values: np.ndarray
    names: tuple[str, ...]
    ordered: bool
    grouped: bool


@dataclass(frozen=True)
class Labelled:
    """Rows (N,) with y and z, what else is known of them, and the numbers of those to learn on and to test on."""

    y: np.ndarray
    z: np.ndarray
    z_names: tuple[str, ...]
    known: Mapping[str, Known]
    attributes: Mapping[str, np.ndarray]
    learn: np.ndarray
    test: np.ndarray

    @classmethod
    def from_dataset(cls, dataset: Dataset) -> Labelled:
        """All rows of a data set."""
        about = dataset.y, dataset.z, dataset.z_names, dataset.known, dataset.attributes
        return cls(*about, learn=to_learn(dataset), test=dataset.slices.test)


def labels_of(rows: Labelled) -> tuple[list[Label], list[tuple[str, str]]]:
    """What is asked about, z first, and what is not, with the reason."""
    known = {name: (one.values, one.names, one.ordered, True) for name, one in rows.known.items()}
    name_of_z = next((name for name, one in known.items() if np.array_equal(one[0], rows.z)), "z")
    known.pop(name_of_z, None)
    for name, values in list(rows.attributes.items())[:MOST_ATTRIBUTES]:
        if np.ptp(values) > 0 and name not in known:
            known[name] = (*_binned(values), True, False)
    ordered = name_of_z in rows.known and rows.known[name_of_z].ordered
    labels, skipped = [Label(name_of_z, rows.z, rows.z_names, ordered, True)], []
    for name, (values, names, ordered, grouped) in known.items():
        if np.array_equal(values, rows.y):
            continue
        reason, label = None, None
        if _follows(values, rows.y):
            reason = "it follows from y"
        elif _follows(values, rows.z) and _follows(rows.z, values):
            reason = "it is z under another name"
        else:
            label = _merged(rows, Label(name, values, names, ordered, grouped))
        if label is None:
            skipped.append((name, reason or _too_few(rows, values)))
        else:
            labels.append(label)
    for coarse in labels[1:]:
        fine = next((one for one in labels[1:] if _asks(one, coarse)), None)
        if fine is not None:
            labels = [one for one in labels if one is not coarse]
            skipped.append((coarse.name, f"it is one of the groupings of {fine.name}"))
    return labels, skipped


def _follows(values: np.ndarray, of: np.ndarray) -> bool:
    """Whether ``values`` (N,) are a function of ``of`` (N,)."""
    return len(np.unique(np.stack([of, values]), axis=1).T) == len(np.unique(of))


def _asks(fine: Label, coarse: Label) -> bool:
    """Whether ``coarse`` is one of the questions about ``fine``."""
    if fine is coarse or not fine.grouped or not len(coarse.names) < len(fine.names) <= MOST_CLASSES:
        return False
    return len(coarse.names) == 2 and _follows(coarse.values, fine.values)


def _binned(values: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """Classes of a number, and their names: its values where they are few, else ranges of equally many rows."""
    different = np.unique(values)
    if len(different) > BINS:
        different = np.unique(np.quantile(values, np.linspace(0, 1, BINS + 1)[:-1], method="lower"))
    return np.searchsorted(different, values, side="right") - 1, tuple(f"{value:.4g}" for value in different)


def _merged(rows: Labelled, label: Label) -> Label | None:
    """The label with its rare classes put together; None where fewer than two classes are left."""
    learn, test = (np.bincount(label.values[of], minlength=len(label.names)) for of in (rows.learn, rows.test))

    def enough(group: list[int]) -> bool:
        return bool(learn[group].sum() >= TO_LEARN and test[group].sum() >= TO_TEST)

    order = np.arange(len(learn)) if label.ordered else np.argsort(learn, kind="stable")
    groups: list[list[int]] = [[]]
    for number in order:
        if groups[-1] and enough(groups[-1]):
            groups.append([])
        groups[-1].append(int(number))
    if len(groups) > 1 and not enough(groups[-1]):
        groups[-2:] = [groups[-2] + groups[-1]]
    if len(groups) < 2 or not enough(groups[0]):
        return None
    groups.sort(key=min)
    number_of = np.empty(len(learn), np.int64)
    for place, group in enumerate(groups):
        number_of[group] = place
    names = tuple(label.names[group[0]] if len(group) == 1 else _together(label, group) for group in groups)
    return label._replace(values=number_of[label.values], names=names)


def _together(label: Label, group: list[int]) -> str:
    if label.ordered:
        return f"{label.names[group[0]]}{TO}{label.names[group[-1]]}"
    commonest = label.names[group[-1]]
    return f"{commonest} or {'a rarer one' if len(group) == 2 else f'{len(group) - 1} rarer ones'}"


def _too_few(rows: Labelled, values: np.ndarray) -> str:
    fewest = []
    for of, needed in ((rows.learn, TO_LEARN), (rows.test, TO_TEST)):
        rest = len(of) - np.bincount(values[of]).max()
        fewest.append(np.ceil(len(of) * needed / max(1, rest)))
    return (
        f"cannot tell: all but its commonest value need {TO_LEARN} rows to learn on and {TO_TEST} to test on; about "
        f"{int(fewest[0]):,} and {int(fewest[1]):,} rows in all would be needed"
    )


COUNTING: tuple[Adversary, ...] = (CodeCounts(), BayesKnowingChannel())
FAMILIES: tuple[Adversary, ...] = (*COUNTING, ShrinkageLDA(), BatchNormMLP())
MOST_LABELS = 12  # in a quick audit
QUICKER = 10  # by which a network's budget is divided: the label is not what is priced
GROUPING, THRESHOLD = "worst_grouping", "worst_threshold"


def section(
    dataset: Dataset, released: Released, budget: Budget, seed: int, *, of_z: Sequence[Scored], of: str = SENT
) -> list[Finding]:
    """What else can be read of the outputs ``of`` something for the rows of all slices, in their order.

    ``of_z`` are the attacks on z: the one with most bits on validation stands next to its neighbours, and each
    attribute of a joint z has its figures. Where none ran, nothing is asked. Everything is beyond y: that is sent
    anyway.
    """
    most = of_most_bits(of_z)
    if most is None:
        return []
    learn, smaller = to_learn(dataset), quicker(budget)

    def pose(label: Label, counted: np.ndarray) -> Question:
        other = replace(dataset, z=label.values, z_names=label.names, theta=counted)
        left = replace(released, z=label.values[dataset.slices.rows()])
        return question_of(other, left, smaller, {"sensitive": None}, seed=seed)

    def prior_of(label: Label) -> np.ndarray:
        shape = dataset.theta.shape[0], len(label.names)
        return counted_prior(dataset.y[learn], label.values[learn], shape)

    labels = labels_of(Labelled.from_dataset(dataset))
    attacked, skipped = attack_labels(labels, most, prior(dataset), prior_of, pose, budget, seed)
    whole = {name: one.names for name, one in dataset.known.items()}  # of others rare classes are one
    alone = {one.label.name: one.attack for one in attacked[1:] if one.label.names == whole.get(one.label.name)}
    of_each = attributes.hidden(dataset, of_z, alone)
    findings = [*findings_of(attacked, skipped, seed, parts={one.question for one in of_each}), *of_each]
    return [replace(one, of=of) for one in findings]


def quicker(budget: Budget) -> Budget:
    """What is tried on a label that is not z."""
    return replace(budget, macs=budget.macs / QUICKER, seeds=1)


def attack_labels(
    labels: tuple[list[Label], list[tuple[str, str]]],
    of_z: Scored,
    prior_of_z: np.ndarray,
    prior_of: Callable[[Label], np.ndarray],
    pose: Callable[[Label, np.ndarray], Question],
    budget: Budget,
    seed: int,
) -> tuple[list[_Found], list[tuple[str, str]]]:
    """The attack on z and on each of ``labels`` (``labels_of``), and which were not attacked, with the reason.

    ``prior_of`` computes P(label|y), ``pose`` puts a label with its prior in the place of z.
    """
    (z, *others), skipped = labels
    attacked = [_Found(z, of_z, prior_of_z)]
    for place, label in enumerate(others):
        if place >= MOST_LABELS and not budget.every_family:
            skipped.append((label.name, f"a quick audit attacks {MOST_LABELS} labels; the thorough one attacks all"))
            continue
        counted = prior_of(label)
        # The best attack on a label, by counting, and by two more families where x' are no codes.
        question = pose(label, counted)
        if not question.whole.budget.every_family:
            question = replace(question, settings=question.settings[-1:])
        attack = run(question, seed=seed, families=COUNTING if question.whole.few_values else FAMILIES).most_bits
        if attack is None:
            skipped.append((label.name, "no attack on it could be trained"))
        else:
            attacked.append(_Found(label, attack, counted))
    return attacked, skipped


def findings_of(
    attacked: list[_Found], skipped: list[tuple[str, str]], seed: int, *, parts: Collection[str] = ()
) -> list[Finding]:
    """What the attacks found; ``parts`` are the attributes of a joint z, whose classes are not named either."""
    rng = np.random.default_rng([seed, 11])
    answers = {(place, kind): answer for place, one in enumerate(attacked) for kind, answer in _answers(one, rng)}
    tested = [key for key, answer in answers.items() if answer.p is not None]
    p = dict(zip(tested, holm([answers[key].p or 0.0 for key in tested]), strict=True))
    others = [place > 0 and one.label.name not in parts for place, one in enumerate(attacked)]
    neighbours = [key for key in answers if others[key[0]]]
    # A threshold is one of the groupings too, and the name that a reader knows it by.
    most = max(neighbours, key=lambda key: (round(answers[key].chosen_by, 3), key[1] == THRESHOLD), default=None)
    rows: list[Finding] = []
    for place, one in enumerate(attacked):
        rows += _of_label(one)
        for kind in (GROUPING, THRESHOLD):
            answer = answers.get((place, kind))
            if answer is not None:
                known = p.get((place, kind))
                rows += _of_side(one, kind, answer, known, named=others[place], worst=(place, kind) == most)
    return [*rows, *(Finding(name, "", not_run=reason, more={"kind": "label"}) for name, reason in skipped)]


class _Found(NamedTuple):
    """A label, the attack on it, and P(label|y)."""

    label: Label
    attack: Scored
    prior: np.ndarray

    @property
    def about(self) -> dict[str, Any]:
        """The facts of each finding about it."""
        row = self.attack.row
        return {"question": self.label.name, "name": row.name, "learned_on": row.learned_on}


def _answers(found: _Found, rng: np.random.Generator) -> Iterator[tuple[str, Answer]]:
    """The worst question of each kind, by the kind's name."""
    attack = found.attack
    choose = attack.judged("choose")._replace(p=attack.raw["choose"])
    test = attack.judged("test")._replace(p=attack.raw["test"])
    for kind, sides in _sides(found.label).items():
        answer = worst(sides, choose, test, found.prior, rng=rng)
        if answer is not None:
            yield kind, answer


def _sides(label: Label) -> dict[str, np.ndarray]:
    classes, sides = len(label.names), {}
    if classes == 2 or (label.grouped and classes <= MOST_CLASSES):
        sides[GROUPING] = groupings(classes)
    if label.ordered and classes > 2:
        sides[THRESHOLD] = thresholds(classes)
    return sides


def _of_label(found: _Found) -> list[Finding]:
    label, row, test = found.label, found.attack.row, found.attack.test
    questions = sum(map(len, _sides(label).values())) or 1
    more = {"kind": "label", "classes": len(label.names), "ordered": label.ordered, "questions": questions}
    chance = attack_metrics.accuracy(found.prior[test.y], test.z)
    return [
        Finding.measured(figure="right", value=row.right, null=chance, more=more, **found.about),
        Finding.measured(
            figure="bits-counted", value=row.bits_counted, null=0.0, more={"kind": "label"}, **found.about
        ),
    ]


def _of_side(
    found: _Found, kind: str, answer: Answer, p: float | None, *, named: bool, worst: bool
) -> Iterator[Finding]:
    """The worst question of a kind; ``read``: it is surely answered beyond y."""
    read = answer.bits.low > 0 if p is None else p <= SIGNIFICANT and answer.bits.estimate > 0
    words = _words(found.label, kind, answer.side, named=named)
    more = {"kind": "side", "about": words, "threshold": kind == THRESHOLD, "read": bool(read)}
    more |= {"worst": True} if worst else {}
    for figure, value, null in (("auc", answer.auc, 0.5), ("bits-counted", answer.bits, 0.0)):
        yield Finding.measured(figure=figure, value=value, null=null, p=p, more=more, **found.about)


def _words(label: Label, kind: str, side: np.ndarray, *, named: bool) -> str:
    """The question in words. Classes of z are never named."""
    if len(side) == 2:
        return f"{label.name} itself"
    if not named:
        return f"a {'threshold' if kind == 'worst_threshold' else 'grouping'} of {label.name}"
    if kind == THRESHOLD:
        return f"whether {label.name} is below {label.names[int(side.sum())].partition(TO)[0]}"
    fewer = side if 2 * side.sum() <= len(side) else ~side
    *names, last = (name for name, there in zip(label.names, fewer, strict=True) if there)
    return f"whether {label.name} is " + (f"one of {', '.join(names)} and {last}" if names else last)
