"""Who reads y of what is sent: utility is judged by the best reader, as privacy by the best attacker.

A label that is sent is read as it is. D_y, which learned on raw samples, is the *fixed* reader; the others learn on
what is sent. The best of them is chosen on validation rows and reported on test rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from edgeveil.trainer.attacks.families.boosting import GradientBoosting
from edgeveil.trainer.attacks.families.cnn import BatchNormCNN
from edgeveil.trainer.attacks.families.code_counts import CodeCounts
from edgeveil.trainer.attacks.families.forest import Forest
from edgeveil.trainer.attacks.families.lda import ShrinkageLDA
from edgeveil.trainer.attacks.families.logistic import Logistic
from edgeveil.trainer.attacks.families.mlp import BatchNormMLP
from edgeveil.trainer.attacks.families.networks import logits
from edgeveil.trainer.attacks.problem import Budget, Released
from edgeveil.trainer.attacks.protocol import Adversary
from edgeveil.trainer.attacks.rows import Question, question_of, to_learn
from edgeveil.trainer.attacks.run_all import FEWEST_WRONG, run
from edgeveil.trainer.audit.attributes import Answers, kept
from edgeveil.trainer.audit.findings import FIXED, Finding
from edgeveil.trainer.audit.sections.other_attributes import quicker
from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.measures import intervals
from edgeveil.trainer.measures.attack_metrics import accuracy, counted_prior
from edgeveil.trainer.measures.intervals import Interval

Y = "y"  # the question of these findings; a document puts the name of the target in its place
WHAT_IS_SENT = "the {} that is sent"
READERS: tuple[Adversary, ...] = (
    Logistic(),
    ShrinkageLDA(),
    GradientBoosting(),
    Forest(),
    CodeCounts(),
    BatchNormMLP(),
    BatchNormCNN(),
)
CHEAP: tuple[Adversary, ...] = (ShrinkageLDA(), BatchNormMLP())  # of a quick audit, where what is sent is no code


def read(
    dataset: Dataset, released: Released, labels: Mapping[str, np.ndarray], target: Any, budget: Budget, seed: int
) -> list[Finding]:
    """Every reader of y, the best first, of what left for the rows of all slices of ``dataset``, in their order; then,
    of a joint y, the best reader of each attribute.

    ``labels`` are the labels sent, by the output's name, (n,) each; ``target`` is D_y. A quick audit trains readers
    only where neither a label nor D_y reads nearly all rows.
    """
    question = question_of_y(dataset, released, budget, seed)
    whole, place = question.whole, np.empty(len(dataset.y), np.int64)
    place[dataset.slices.rows()] = np.arange(len(released))

    def finding(name: str, right: Interval, chosen_by: float, learned_on: str = "") -> Finding:
        about = {"learned_on": learned_on, "seed": seed, "chosen_by": chosen_by, "more": {"kind": "reader"}}
        return Finding.measured(Y, name, "right", right, null=chance, rows=len(whole.test), **about)

    chance = accuracy(whole.counted[whole.test.y], whole.test.z)
    rows = {"choose": whole.choose, "test": whole.test}
    readings = {
        WHAT_IS_SENT.format(name): {part: label[place[of.row]] for part, of in rows.items()}
        for name, label in labels.items()
    }
    readings[FIXED] = {part: logits(target, dataset.unit(of.x)).argmax(axis=1) for part, of in rows.items()}
    readers, answers, classes = [], [], np.arange(len(dataset.y_names))
    for name, read in readings.items():
        learned_on = "clean" if name == FIXED else ""
        p = {part: (one[:, None] == classes).astype(float) for part, one in read.items()}
        answers.append(Answers(name, learned_on, seed, rows, p))
        right = intervals.rate(read["test"] == whole.test.z, whole.test.cluster)
        readers.append(finding(name, right, float(np.mean(read["choose"] == whole.choose.z)), learned_on))
    families: tuple[Adversary, ...] = (CodeCounts(),) if whole.few_values else READERS
    if not budget.every_family:
        nearly_all = 1 - cast(float, best(readers).chosen_by) < FEWEST_WRONG
        families = () if nearly_all else families if whole.few_values else CHEAP
    for one in run(question, seed=seed, families=families).kept if families else ():
        answers.append(Answers.of_attack(one))
        readers.append(finding(one.row.name, one.row.right, one.row.validation_accuracy, one.row.learned_on))
    chosen = best(readers)
    of_attributes = kept(dataset.joint.get("y"), answers, whole.counted)
    return [chosen, *(one for one in readers if one is not chosen), *of_attributes]


def best(found: Sequence[Finding]) -> Finding:
    """The reader with most rows right on validation; of equal ones the first."""
    return max(found, key=lambda one: cast(float, one.chosen_by))


def question_of_y(dataset: Dataset, released: Released, budget: Budget, seed: int) -> Question:
    """What is y, asked as adversaries are asked about z, with nothing known; of those that learn on all rows."""
    nothing, learn = np.zeros_like(dataset.y), to_learn(dataset)
    counted = counted_prior(nothing[learn], dataset.y[learn], (1, len(dataset.y_names)))
    about_y = replace(dataset, y=nothing, z=dataset.y, y_names=("",), z_names=dataset.y_names, theta=counted)
    rows = replace(released, y=np.zeros_like(released.y), z=released.y)
    question = question_of(
        about_y, rows, budget if budget.every_family else quicker(budget), {"sensitive": None}, seed=seed
    )
    return Question(question.settings[-1:])
