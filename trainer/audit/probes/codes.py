"""Attackers of a codebook's codes, who link T releases of one source: as strong as networks on x', and a hundredth of
their time.

Different samples with one (y, z) are put together, T = 1, 4 and 16 of them, as if an attacker knew that they belong
together. Three attackers, all given y: *Bayes knowing the channel* sums log P(c' | y, z) with the true Q, *sum of
log-posteriors* counts c' as it arrives, and the *forest* looks at the histogram of a track's codes and at how they
follow each other, which no sum sees. At T = 1 the first is right as often as the certificate's plug-in value says.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.attacks import sequences
from edgeveil.trainer.attacks.families.code_counts import shrunk
from edgeveil.trainer.attacks.problem import Budget, Codes, Released
from edgeveil.trainer.attacks.sequences import Tracks
from edgeveil.trainer.audit.probes.answer import not_run, row
from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.measures.attack_metrics import counted_prior
from edgeveil.trainer.measures.certificate import count, released_counts
from edgeveil.trainer.measures.intervals import rate

LENGTHS = (1, 4, 16)
MOST_TRACKS = 6000  # for the forest to learn from
SHRINKAGE = 4.0  # rows that P(z|y) counts for in every code


def run(released: Released, dataset: Dataset, rows: np.ndarray, budget: Budget, seed: int) -> list[dict[str, Any]]:
    """Accuracy of the three attackers on the test slice, for each T; they learn on the first two slices."""
    codes, classes = released.codes, (len(dataset.y_names), len(dataset.z_names))
    if codes is None:
        return [not_run("linked codes", "no code leaves")]
    first = len(rows) - len(dataset.slices.test)
    rng = np.random.default_rng([seed, 7])
    number = int(codes.received.max()) + 1 if codes.channel is None else codes.channel.shape[1]
    learn, judge = released.take(np.arange(first)), released.take(np.arange(first, len(rows)))
    known = _knowing(learn, codes, classes)
    found = []
    for length in LENGTHS:
        try:
            fit, test = (
                sequences.pooled(sent.astype(np.int64), part.y, part.z, length=length, rng=rng)
                for part, sent in ((learn, codes.received[:first]), (judge, codes.received[first:]))
            )
        except BadInput:
            reason = f"a slice has no {length} readings of one y and one z: give more"
            found.append(not_run(f"{length} linked codes", reason))
            continue
        prior = counted_prior(learn.y, learn.z, classes)
        chance = round(float((prior[test.y].argmax(axis=1) == test.z).mean()), 6)
        answers = {
            "sum of log-posteriors": sequences.log_posteriors(fit, test, classes=classes, codes=number),
            "forest on histograms": sequences.histogram_forest(
                _some(fit, rng), test, classes=classes, codes=number, trees=budget.trees, seed=seed
            ),
        }
        if known is not None:
            answers["Bayes knowing the channel"] = _summed(known, prior, test)
        for name, p in answers.items():
            right = rate(p.argmax(axis=1) == test.z)
            meaning = "how often z is right from y and linked codes of different readings"
            found.append(row(f"{length} linked, {name}", right, n=len(test), chance=chance, meaning=meaning))
    return found


def _knowing(learn: Released, codes: Codes, classes: tuple[int, int]) -> np.ndarray | None:
    """P(z | y, c') by Bayes' rule through the true channel; None where there is none, or c is not known."""
    sent = None if learn.codes is None else learn.codes.sent
    if codes.channel is None or sent is None:
        return None
    q = codes.channel / codes.channel.sum(axis=1, keepdims=True)
    counts = released_counts(count(learn.y, sent, learn.z, shape=(classes[0], len(q), classes[1])), q)
    return shrunk(counts, counted_prior(learn.y, learn.z, classes), SHRINKAGE)


def _summed(table: np.ndarray, prior: np.ndarray, test: Tracks) -> np.ndarray:
    """log P(z|y) plus the sum over a track of log P(z|y, c') - log P(z|y); (tracks, classes of z)."""
    ratio = np.log(table) - np.log(prior)[:, None, :]
    return np.log(prior)[test.y] + ratio[test.y[:, None], test.code].sum(axis=1)


def _some(tracks: Tracks, rng: np.random.Generator) -> Tracks:
    pick = rng.permutation(len(tracks))[:MOST_TRACKS]
    return Tracks(tracks.code[pick], tracks.y[pick], tracks.z[pick])
