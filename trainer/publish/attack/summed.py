"""The best attack on single frames, summed up over the linked frames of a person.

A mean over frames hides what a frame tells only as a whole. The log-odds that an attack reads from each are added up:
it learned on other people's frames, and its sums are calibrated on people that are neither tested nor learned from.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from scipy import special

from edgeveil.trainer.attacks.problem import Released
from edgeveil.trainer.attacks.question import Question
from edgeveil.trainer.attacks.scores.scoring import Scored, score
from edgeveil.trainer.measures.attack_metrics import FLOOR


def summed(question: Question, best: Scored) -> Scored:
    """The scored attack on people; ``best`` attacks rows of ``question``, whose clusters are people."""
    begun = time.perf_counter() - best.row.seconds
    whole, (setting,) = question.whole, question.settings
    parts, said = {}, {}
    for part in ("choose", "test"):
        rows: Released = getattr(best, part)
        # Rows to choose by may be of one person in two folds.
        fold = np.repeat(np.arange(len(setting.folds)), [len(getattr(one, part)) for one in setting.folds])
        if rows.cluster is None:
            raise AssertionError("rows of people have a cluster")
        unit = fold * (int(rows.cluster.max()) + 1) + rows.cluster
        _, first, person = np.unique(unit, return_index=True, return_inverse=True)
        base = whole.counted[rows.y]
        odds = np.log(np.maximum(best.sure[part], FLOOR)) - np.log(np.maximum(base, FLOOR))
        total = np.zeros((len(first), odds.shape[1]))
        np.add.at(total, person.reshape(-1), odds)
        said[part] = special.softmax(total + np.log(np.maximum(base[first], FLOOR)), axis=1)
        parts[part] = Released(np.empty((len(first), 0), np.float32), rows.y[first], rows.z[first])
    return score(
        replace(whole, choose=parts["choose"], test=parts["test"]),
        said,
        name=f"{best.row.name}, summed up over linked frames",
        kind="adaptive",
        learned_on=best.row.learned_on,
        seed=best.row.seed,
        train_samples=best.row.train_samples,
        begun=begun,
    )
