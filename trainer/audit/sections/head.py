"""What the fit of a private head spends at the least, by fitting it again and again: a bound from below.

The recipe's own estimator is fitted on one row, and on the same row with another label. Its regularization, which the
noise follows, is such that one row moves the fit by nearly all that it may. Where the fit is by DP-SGD, one step of it
is run, as an encoder's; of PATE the votes on one row. A bound above the claim proves that less is hidden than was
promised; one below proves nothing: the logistic loss moves by half of what its noise is made for, and of many classes
that share epsilon two differ.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.attacks.rows import places
from edgeveil.trainer.audit.findings import Finding
from edgeveil.trainer.audit.sections import About, Section
from edgeveil.trainer.audit.sections.training import judged, noisy_steps, promised, shared
from edgeveil.trainer.ext import private
from edgeveil.trainer.ext.private import Secret, clipped_sum, unfitted
from edgeveil.trainer.measures import intervals
from edgeveil.trainer.measures.black_box import most_proved, mu_lower_bound, without_noise
from edgeveil.trainer.recipe.private import Head as Recipe
from edgeveil.trainer.runs.run import Head

FITS = 10_000  # on each neighbour; a third of them judges
STIFF = 20.0  # times the one row
FAR = 100.0  # of weights: the row's class is all but impossible, so that its gradient is as long as can be


def measured(facts: Mapping[str, Any], section: Recipe, classes: int, confidence: float) -> Finding:
    """What is claimed of the fit and what is spent at least, of ``facts``, run.json's ``head``, in epsilon, or of a
    step of DP-SGD or a vote in mu. Raises ``BadInput`` where the run does not say enough.
    """
    if section.kind == "dp-sgd":
        return _of_step(facts, classes, confidence)
    if section.kind == "pate":
        return _of_vote(facts, confidence)
    claimed = facts["promise"]["epsilon"]
    fits, what = _fits(section, classes), "the head's fit"
    if without_noise(fits):
        return judged("head", what, "epsilon", claimed, None, FITS)
    proof = most_proved(fits, confidence=confidence)
    if proof is None:
        raise AssertionError("two neighbours were fitted")
    return judged("head", what, "epsilon", claimed, proof.spent.epsilon, proof.spent.runs)


def _fits(section: Recipe, classes: int) -> dict[str, np.ndarray]:
    """By the row's label the scores of the row itself after every fit, (FITS, problems): along it lies what differs."""
    split = section.kind == "functional-logistic" and section.sensitive
    estimator, _ = unfitted(section, 2 if split else 1, classes)
    if split:
        estimator.set_params(sensitive=[1])
    if section.kind in ("logistic", "huber-svm"):
        estimator.set_params(regularization=STIFF)
    # At the far corner: a row as long as the bounds allow.
    x = np.full((1, 2 if split else 1), getattr(estimator, "data_norm", 1.0))
    by_label = {}
    with warnings.catch_warnings(action="ignore"):  # of few rows
        for label in (0, 1):
            scores = [estimator.fit(x, np.array([label])).decision_function(x) for _ in range(FITS)]
            by_label[str(label)] = np.array(scores).reshape(FITS, -1)
    return by_label


def _of_step(facts: Mapping[str, Any], classes: int, confidence: float) -> Finding:
    steps = facts.get("steps")
    if steps is None:
        raise BadInput("run.json does not say which noise the head's steps had: train again, to measure them.")
    x = np.array([[1.0], [0.0]])  # the unit, and another whose gradient is 0
    hot, weights = np.eye(classes)[[1, 1]], FAR * np.eye(classes)[:, :1]
    sums = [clipped_sum(x[first:], hot[first:], weights, steps["clip"]).ravel() for first in (0, 1)]
    apart = noisy_steps(sums, facts["rows"], steps, confidence)
    what = "a step of DP-SGD with the row in its lot, of the head"
    return judged("head", what, "mu", 1 / steps["sigma"], apart.mu, apart.runs)


def _of_vote(facts: Mapping[str, Any], confidence: float) -> Finding:
    """Of the noisy votes on one row, which teachers split in halves, with one person in one's place or another."""
    votes, noise = facts["votes"], Secret()
    half = votes["teachers"] // 2
    scores = []
    for moved in (0, 1):
        counts = np.tile([half + moved, half + 1 - moved], (FITS, 1))
        noisy = noise.whole_gaussian(counts.ravel(), votes["sigma"]).reshape(counts.shape)
        scores.append((noisy[:, 0] - noisy[:, 1]).astype(np.float64))
    apart = mu_lower_bound(*scores, confidence=confidence)
    return judged("head", "the votes on one row", "mu", math.sqrt(2) / votes["sigma"], apart.mu, apart.runs)


class HeadSection(Section):
    """How well the private head's label tells y, and what its fit promises."""

    name = "head"
    order = 4
    last = True

    def applies(self, about: About) -> bool:
        """Where a head's label is among the outputs."""
        return private.HEAD in about.perturbed.outputs

    def measure(self, about: About, found: Sequence[Finding]) -> list[Finding]:
        """Raises ``BadInput`` where the head that was exported is no longer in the folder of the run."""
        dataset, run = about.dataset, about.run
        head = Head.of_run(run.folder)
        if head is None or head.promise is None:
            raise BadInput(f"The head of this export is not in {run.folder}: export again.")
        test = dataset.part("test")
        right = intervals.rate(about.perturbed.outputs[private.HEAD][places(dataset).test] == test.y, test.cluster)
        of = f"head, of {'the reading' if head.of == 'reading' else 'what is sent'}"
        reads = Finding.measured(about.target, of, "right", right, rows=len(test), more={"kind": "head"})
        promise = private.head_section(about.subject.manifest, head.mechanism, head.promise)
        findings = [reads, promised("head", promise, promise["mechanism"])]
        if about.spending and run.recipe.head is not None:
            confidence = shared(sum("holds" in one.more for one in found) + 1)
            findings.append(measured(run.facts["head"], run.recipe.head, len(dataset.y_names), confidence))
        return findings
