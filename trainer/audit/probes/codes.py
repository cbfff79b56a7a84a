"""Attackers of a codebook's codes who link T releases of one source: as strong as networks on x', in a hundredth of the
time.

T = 1, 4, 16, 64 and 256 different samples with one (y, z) are put together, as if an attacker knew that they belong
together. Three attackers, all given y: *Bayes knowing the channel* sums log P(c' | y, z) with the true Q, *sum of
log-posteriors* counts c' as it arrives, and the *forest* looks at the histogram of a track's codes and at how they
follow each other, which no sum sees. Each learns on all rows but the test slice, and again on the fresh ones of them
alone: codes tell less of the rows that they were learned on. At T = 1 the first is right as often as the certificate's
plug-in value says.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.attacks import sequences
from edgeveil.trainer.attacks.families.code_counts import WEIGHT, shrunk, through_channel
from edgeveil.trainer.attacks.problem import Released
from edgeveil.trainer.attacks.rows import places
from edgeveil.trainer.audit.findings import Finding
from edgeveil.trainer.audit.probes import Probe
from edgeveil.trainer.audit.sections import About
from edgeveil.trainer.measures.attack_metrics import accuracy, counted_prior
from edgeveil.trainer.measures.intervals import rate

LENGTHS = (1, 4, 16)
LONGER = tuple(length for length in sequences.LENGTHS if length not in LENGTHS)  # asked last
MOST_TRACKS = 6000  # for the forest to learn from
MEANING = "how often z is right from y and linked codes of different samples"
KIND = {"kind": "probe"}


def _knowing(learn: Released, prior: np.ndarray) -> np.ndarray | None:
    """P(z | y, c') by Bayes' rule through the true channel; None where there is none, or c is not known."""
    codes = learn.codes
    if codes is None or codes.channel is None or codes.sent is None:
        return None
    return shrunk(through_channel(learn, codes.sent, codes.channel, prior.shape), prior, WEIGHT)


class LinkedCodes(Probe):
    """Three attackers of linked codes."""

    name = "codes"
    asks = "codes"

    def run(self, about: About) -> list[Finding]:
        """Accuracy of the attackers on the test slice, for each T, learned on all other rows and on fresh ones."""
        released, dataset = about.released, about.dataset
        codes, classes = released.codes, (len(dataset.y_names), len(dataset.z_names))
        if codes is None:
            return [Finding(self.asks, "linked codes", not_run="no code leaves", more=KIND)]
        at = places(dataset)
        rng = np.random.default_rng([about.seed, 7])
        number = int(codes.received.max()) + 1 if codes.channel is None else codes.channel.shape[1]
        prior = counted_prior(released.y[at.learn], released.z[at.learn], classes)
        learns = {"both": at.learn, "fresh": at.fresh} if len(dataset.slices.attack) else {"old": at.learn}
        tables = {on: _knowing(released.take(part), prior) for on, part in learns.items()}
        received = codes.received.astype(np.int64)
        findings = []
        for (on, part), length in (*product(learns.items(), LENGTHS), *product(learns.items(), LONGER)):
            try:
                fit, test = (
                    sequences.pooled(received[of], released.y[of], released.z[of], length=length, rng=rng)
                    for of in (part, at.test)
                )
            except BadInput as error:
                findings.append(Finding(self.asks, f"{length} linked", learned_on=on, not_run=str(error), more=KIND))
                continue
            some = fit.take(rng.permutation(len(fit))[:MOST_TRACKS])
            sizes: dict[str, Any] = {"classes": classes, "codes": number}
            answers = {
                "sum of log-posteriors": sequences.log_posteriors(fit, test, **sizes),
                "forest on histograms": sequences.histogram_forest(
                    some, test, trees=about.budget.trees, seed=about.seed, **sizes
                ),
            }
            if (table := tables[on]) is not None:
                answers["Bayes knowing the channel"] = sequences.summed_log_ratios(table, prior, test)
            facts = {"null": accuracy(prior[test.y], test.z), "rows": len(test), "text": MEANING, "more": KIND}
            for name, p in answers.items():
                right, one = rate(p.argmax(axis=1) == test.z), f"{length} linked, {name}"
                findings.append(Finding.measured(self.asks, one, "right", right, learned_on=on, **facts))
        return findings
