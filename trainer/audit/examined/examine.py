"""Every adversary against released rows, and what the classifiers say of these and of raw ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from edgeveil.trainer.attacks.families.fixed import masked
from edgeveil.trainer.attacks.families.networks import logits
from edgeveil.trainer.attacks.findings import Done
from edgeveil.trainer.attacks.problem import Budget, Problem, Released
from edgeveil.trainer.attacks.protocol import Adversary
from edgeveil.trainer.attacks.question import question_of
from edgeveil.trainer.attacks.rows import places
from edgeveil.trainer.attacks.run_all import run, summed_up
from edgeveil.trainer.attacks.scores.groupings import MOST_CLASSES
from edgeveil.trainer.attacks.scores.parts import Labels, Part, parts
from edgeveil.trainer.audit.document import Audited, interval
from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.measures import intervals

Families = Callable[[Problem], tuple[Adversary, ...]]


def examine(
    dataset: Dataset,
    released: Released,
    classifiers: Mapping[str, Any],
    budget: Budget,
    seed: int,
    done: Done | None = None,
    *,
    families: Families | None = None,
) -> Audited:
    """Every adversary against the outputs for the rows of all slices, in their order; and D_y on them.

    ``families`` chooses among the adversaries of the registry, by the problem.
    """
    question = question_of(dataset, released, budget, classifiers, seed=seed)
    chosen = None if families is None else families(question.whole)
    test = released.take(places(dataset).test)
    read = logits(classifiers["target"], dataset.unit(test.x)).argmax(axis=1)
    ran = run(question, seed=seed, done=done, families=chosen)
    found = summed_up(question, ran, seed=seed)
    most = ran.most_bits
    apart: tuple[Part, ...] = ()
    if most is not None and most.test.row is not None:
        of_row = np.empty(len(dataset.y), np.int64)
        of_row[dataset.slices.test] = read
        of_choose = logits(classifiers["target"], dataset.unit(most.choose.x)).argmax(axis=1)
        apart = parts(
            most.judged("choose"),
            most.judged("test"),
            question.whole.counted,
            _attributes(dataset, most.test.row),
            label=Labels(of_choose, of_row[most.test.row]),
            rng=np.random.default_rng([seed, 10]),
        )
    return Audited(intervals.rate(read == test.y, test.cluster), found, most, apart)


def _attributes(dataset: Dataset, rows: np.ndarray) -> dict[str, np.ndarray]:
    """What is known of some rows besides y and z, by name: numbers, and names of classes where these are few."""
    found = {name: values[rows] for name, values in dataset.attributes.items()}
    for name, one in dataset.known.items():
        if len(one.names) <= MOST_CLASSES and not any(np.array_equal(one.values, of) for of in (dataset.y, dataset.z)):
            found[name] = np.array(one.names)[one.values[rows]]
    return found


def raw_rates(dataset: Dataset, classifiers: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Accuracy of D_y and of D_z (given y) on raw test samples: what there is to keep, and to hide."""
    test = dataset.part("test")
    target = logits(classifiers["target"], dataset.unit(test.x)).argmax(axis=1) == test.y
    answers = masked(logits(classifiers["sensitive"], dataset.unit(test.x)), dataset.theta[test.y])
    return {
        "target": interval(intervals.rate(target, test.cluster)),
        "sensitive": interval(intervals.rate(answers.argmax(axis=1) == test.z, test.cluster)),
    }
