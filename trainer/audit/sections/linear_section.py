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
from edgeveil.trainer.measures.intervals import Interval, unit_numbers
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
    known, clusters, test = LinearRefit(x[:first], hidden[:first]), dataset.part("test").cluster, len(rows) - first
    on_raw, truth, at_mean = known.predict(x[first:]), hidden[first:], hidden[:first].mean(axis=0)
    units = np.repeat(unit_numbers(test, clusters), truth.shape[1])
    old = len(dataset.slices.training())
    erased = predictor_metrics.fit(x[:old], hidden[:old]).clean(x)
    error = {"eps": problem.eps, "below_eps": float((most[first:] < problem.eps * (1 - 1e-9)).mean())}
    if section.meets_eps:
        error["largest_error"] = float(np.abs(moved - most).max())

    def complete(predicted: np.ndarray) -> Interval:
        worse = np.abs(predicted - truth) > np.abs(at_mean - truth)
        return intervals.rate(worse.ravel(), units)

    def leak(predicted: np.ndarray, name: str, of: str = SENT) -> Iterator[Finding]:
        """e_privacy and complete privacy of predictions (n, labels), with 95 % intervals over vectors or clusters."""
        change = intervals.mean(((predicted - on_raw) ** 2).mean(axis=1), clusters)
        facts: dict[str, Any] = {"of": of, "rows": test, "more": KIND}
        yield Finding.measured(HIDDEN, f"{PRIVACY}, {name}", "number", change, **facts)
        facts |= {"null": complete(on_raw).estimate, "text": COMPARE}
        yield Finding.measured(HIDDEN, f"{COMPLETE}, {name}", "share", complete(predicted), **facts)

    spread = intervals.mean(moved[first:], clusters)
    findings = [Finding.measured(WANTED, ERROR, "number", spread, rows=test, more={**KIND, **error})]
    findings += [*leak(on_raw, KNOWN, RAW), *leak(known.predict(sent[first:]), KNOWN)]
    for name, vectors in ((REFIT, sent), (LEACE, erased)):
        findings += leak(LinearRefit(vectors[:first], hidden[:first]).predict(vectors[first:]), name)
    for name, of, vectors in ((REFIT, RAW, x), (REFIT, SENT, sent), (LEACE, SENT, erased)):
        for side, labels in ((HIDDEN, hidden), (WANTED, retained)):
            findings += _ranked(side, vectors, labels, first, seed, name, of)
    return findings


def _ranked(
    side: str, x: np.ndarray, labels: np.ndarray, first: int, seed: int, name: str, of: str
) -> Iterator[Finding]:
    """Mean AUC of refits on x, the vectors of all rows, the ``first`` for training: two of confidential labels.

    Labels that are all alike in training are left out.
    """
    positive = binary(labels, labels[:first])
    varied = positive[:first].any(axis=0) & ~positive[:first].all(axis=0)
    positive = positive[:, varied]
    refits: dict[str, Any] = {name: LinearRefit(x[:first], labels[:first, varied])}
    if side == HIDDEN:
        refits[f"{name}, boosted"] = BoostedRefit(x[:first], positive[:first], seed=seed)
    for one, refit in refits.items():
        auc = float(mean_auc(refit.predict(x[first:]), positive[first:]))
        if np.isfinite(auc):
            yield Finding(side, one, "auc", auc, null=0.5, of=of, rows=len(x) - first, more=KIND)


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
