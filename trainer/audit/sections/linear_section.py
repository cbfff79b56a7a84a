"""Linear predictors, in an audit of cleaners and of noise: what paper 000 counts, and what that hides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np

from edgeveil.trainer.attacks.rows import to_learn
from edgeveil.trainer.audit.findings import RAW, SENT, Finding
from edgeveil.trainer.audit.sections import About, Section
from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.linear import LinearSection, confidential, linear_problem, wanted
from edgeveil.trainer.measures import intervals, predictor_metrics
from edgeveil.trainer.measures.intervals import Interval
from edgeveil.trainer.measures.predictor_metrics import BoostedRefit, LinearRefit, binary, e_utility, mean_auc, promised

KIND = {"kind": "predictors"}
HIDDEN, WANTED = "confidential outputs of linear predictors", "wanted outputs of linear predictors"
ERROR = "squared error that cleaning makes in what the predictor sees, per vector"
PRIVACY = "squared change of the prediction against that on raw vectors"
COMPLETE = "predicted worse than by the label's mean"
COMPARE = "share of (vector, label) pairs; uncleaned vectors have it too, so only what is above that is privacy"
KNOWN, REFIT, LEACE = "that knows the predictors", "refit", "refit on LEACE"


def predictors(section: LinearSection, dataset: Dataset, sent: np.ndarray, *, seed: int) -> list[Finding]:
    """Adversaries who know the linear predictors, or refit on the output, linearly and by boosting; LEACE to compare.

    ``sent`` (n, features) is the output for the rows of all slices, in their order. LEACE is fitted on the rows that
    trained the cleaner, adversaries on fresh ones too. All is measured on the test slice, but the largest error of
    cleaning is over all rows.
    """
    rows, first = dataset.slices.rows(), len(to_learn(dataset))
    x, sent = dataset.x[rows].astype(np.float64), sent.astype(np.float64)
    hidden, retained = confidential(dataset, rows), wanted(dataset, rows)
    problem = linear_problem(section, dataset.for_training())
    moved = e_utility(problem.a_d, x, sent)
    most = promised(problem.a_d, x - problem.mean, problem.eps)
    known = LinearRefit(x[:first], hidden[:first])
    on_raw = known.predict(x[first:])
    measure = _Measure(hidden, retained, first, dataset.part("test").cluster, seed, on_raw)
    old = len(dataset.slices.training())
    erased = predictor_metrics.fit(x[:old], hidden[:old]).clean(x)
    error = {"eps": problem.eps, "below_eps": float((most[first:] < problem.eps * (1 - 1e-9)).mean())}
    if section.meets_eps:
        error["largest_error"] = float(np.abs(moved - most).max())
    spread, test = intervals.mean(moved[first:], measure.clusters), len(rows) - first
    findings = [Finding.measured(WANTED, ERROR, "number", spread, rows=test, more={**KIND, **error})]
    findings += [*measure.leak(on_raw, KNOWN, RAW), *measure.leak(known.predict(sent[first:]), KNOWN)]
    for name, vectors in ((REFIT, sent), (LEACE, erased)):
        findings += measure.leak(LinearRefit(vectors[:first], hidden[:first]).predict(vectors[first:]), name)
    for name, of, vectors in ((REFIT, RAW, x), (REFIT, SENT, sent), (LEACE, SENT, erased)):
        findings += measure.ranked(vectors, name, of)
    return findings


class _Measure:
    """The labels of the rows, the first ``first`` of them for training, and what can be measured about them."""

    def __init__(
        self,
        hidden: np.ndarray,
        kept: np.ndarray,
        first: int,
        clusters: np.ndarray | None,
        seed: int,
        on_raw: np.ndarray,
    ) -> None:
        self._first, self.clusters, self._seed, self._on_raw = first, clusters, seed, on_raw
        self._hidden, self._at_mean = hidden, hidden[:first].mean(axis=0)
        self._sides = {HIDDEN: _columns(hidden, first), WANTED: _columns(kept, first)}
        self._uncleaned = self._complete(on_raw).estimate

    def _complete(self, predicted: np.ndarray) -> Interval:
        truth = self._hidden[self._first :]
        worse = np.abs(predicted - truth) > np.abs(self._at_mean - truth)
        units = np.arange(len(truth)) if self.clusters is None else self.clusters
        return intervals.rate(worse.ravel(), np.repeat(units, truth.shape[1]))

    def leak(self, predicted: np.ndarray, name: str, of: str = SENT) -> Iterator[Finding]:
        """e_privacy and complete privacy of predictions (n, labels), with 95 % intervals over vectors or clusters."""
        change = intervals.mean(((predicted - self._on_raw) ** 2).mean(axis=1), self.clusters)
        facts: dict[str, Any] = {"of": of, "rows": len(predicted), "more": KIND}
        yield Finding.measured(HIDDEN, f"{PRIVACY}, {name}", "number", change, **facts)
        complete = self._complete(predicted)
        facts |= {"null": self._uncleaned, "text": COMPARE}
        yield Finding.measured(HIDDEN, f"{COMPLETE}, {name}", "share", complete, **facts)

    def ranked(self, x: np.ndarray, name: str, of: str) -> Iterator[Finding]:
        """Mean AUC of refits on x, the vectors of all rows: of confidential labels (two refits), and of wanted ones."""
        first = self._first
        facts: dict[str, Any] = {"null": 0.5, "of": of, "rows": len(x) - first, "more": KIND}
        for side, (labels, positive) in self._sides.items():
            refits: dict[str, Any] = {name: LinearRefit(x[:first], labels[:first])}
            if side == HIDDEN:
                refits[f"{name}, boosted"] = BoostedRefit(x[:first], positive[:first], seed=self._seed)
            for one, refit in refits.items():
                auc = float(mean_auc(refit.predict(x[first:]), positive[first:]))
                if np.isfinite(auc):
                    yield Finding(side, one, "auc", auc, **facts)


def _columns(labels: np.ndarray, first: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels, and the same as booleans; those that are all alike in training are left out."""
    positive = binary(labels, labels[:first])
    varied = positive[:first].any(axis=0) & ~positive[:first].all(axis=0)
    return labels[:, varied], positive[:, varied]


class Predictors(Section):
    """Linear predictors, of perturbers that are not bounded by classes."""

    name = "predictors"
    order = 8

    def applies(self, about: About) -> bool:
        """Cleaners and noise, of linear readings."""
        return about.run.recipe.perturber.unbounded

    def measure(self, about: About, _found: Sequence[Finding]) -> list[Finding]:
        """As ``predictors``."""
        section = cast(LinearSection, about.run.recipe.perturber)
        return predictors(section, about.dataset, about.released.x, seed=about.seed)
