"""Membership inference: was this sample among those the perturber was trained on?

In some studies, taking part is itself a secret.

Members are the rows of the second slice, others those of the slices ``attack`` and test. The classifier that judges a
row learned on the other half of the units. One attacker has x' and y; the other also has the sample itself, and so sees
how the perturber changes it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgeveil.trainer.attacks.problem import Released
from edgeveil.trainer.attacks.rows import places
from edgeveil.trainer.audit.findings import Finding
from edgeveil.trainer.audit.probes import Probe
from edgeveil.trainer.audit.probes.areas import Scored
from edgeveil.trainer.audit.sections import About
from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.measures.enough import PERCENT_ROWS
from edgeveil.trainer.measures.predictor_metrics import boosted_trees

ASKED = "membership"
SENT, HELD = "from x' and y", "from x, x' and y"
MEANING = "whether a sample was in the slice that trained the perturber; interval by resampled units"
ON_BOARD = "what left of members was made on the workstation, and of others on the board: that alone tells them apart"
FEWEST = 2 * PERCENT_ROWS  # members, and others: half of each to judge
FEWEST_UNITS = 8
MOST = 6000
COMPONENTS = 40


def not_run(name: str, reason: str) -> Finding:
    """An attacker that there was nothing for."""
    return Finding(ASKED, name, not_run=reason, more={"kind": "probe"})


def _halves(unit: np.ndarray, member: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """0 or 1 for each row, by whole units, half of the members' and half of the others'."""
    fold = np.zeros(len(unit), np.int64)
    for side in (True, False):
        units = rng.permutation(np.unique(unit[member == side]))
        fold[(member == side) & np.isin(unit, units[: len(units) // 2])] = 1
    return fold


def _held(released: Released, dataset: Dataset, rows: np.ndarray, place: np.ndarray) -> np.ndarray:
    """How far x' is from x: the distance, the largest change, and how alike they are; (n, 3)."""
    before = dataset.unit(dataset.x[rows[place]]).reshape(len(place), -1).astype(np.float64)
    after = released.x[place].reshape((len(place), *dataset.input.shape))
    after = dataset.unit(after).reshape(len(place), -1).astype(np.float64)
    change = after - before
    scale = np.linalg.norm(before, axis=1) * np.linalg.norm(after, axis=1)
    alike = (before * after).sum(axis=1) / np.maximum(scale, 1e-9)
    return np.stack([np.linalg.norm(change, axis=1), np.abs(change).max(axis=1), alike], axis=1)


class Membership(Probe):
    """An attacker without the sample, and one with it."""

    name = "membership"
    asks = "membership"

    def run(self, about: About) -> list[Finding]:
        """AUC and true positives at 1 % false ones, for an attacker without the sample and for one with it."""
        released, dataset, budget, seed = about.released, about.dataset, about.budget, about.seed
        if about.there is not None:
            return [not_run("on a board", ON_BOARD)]
        rows = dataset.slices.rows()
        rng = np.random.default_rng([seed, 6])
        at = places(dataset)
        sides = [
            rng.permutation(np.arange(len(rows))[of])[:MOST] for of in (at.second, slice(at.fresh.start, at.test.stop))
        ]
        place, member = np.concatenate(sides), np.repeat([True, False], [len(side) for side in sides])
        unit = np.arange(len(place)) if released.cluster is None else released.cluster[place]
        units = [len(np.unique(unit[member == side])) for side in (True, False)]
        if min(len(side) for side in sides) < FEWEST or min(units) < FEWEST_UNITS:
            reason = (
                f"{len(sides[0])} rows of {units[0]} units were trained on and {len(sides[1])} of {units[1]} were not; "
                f"at least {FEWEST} of {FEWEST_UNITS} of each are needed"
            )
            return [not_run(name, reason) for name in (SENT, HELD)]
        fold = _halves(unit, member, rng)
        # Principal components of x', further outputs, and y.
        from sklearn.decomposition import PCA

        flat = released.x[place].reshape(len(place), -1).astype(np.float32)
        parts = [np.eye(len(dataset.y_names), dtype=np.float32)[released.y[place]]]
        if flat.std() > 0:
            parts.append(
                PCA(min(COMPONENTS, flat.shape[1]), svd_solver="randomized", random_state=0).fit_transform(flat)
            )
        if released.also is not None:
            parts.append(released.also[place])
        sent = np.concatenate(parts, axis=1)
        held = np.concatenate([sent, _held(released, dataset, rows, place)], axis=1)
        settings: dict[str, Any] = {"max_leaf_nodes": 8, "learning_rate": 0.05, "random_state": seed}
        findings = []
        for name, features in ((SENT, sent), (HELD, held)):
            score = np.zeros(len(place))
            for half in (0, 1):
                learn = features[fold != half], member[fold != half]
                model = boosted_trees(*learn, max_iter=min(budget.trees, 100), **settings)
                score[fold == half] = model.predict_proba(features[fold == half])[:, 1]
            scored = Scored(score, member, fold, unit, unit)
            findings += [scored.finding(ASKED, name, one, rng, text=MEANING) for one in ("auc", "recognised")]
        return findings
