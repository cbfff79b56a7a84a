"""Theorem 2 and Corollary B.6 of paper 001, as what they are: a diagnostic of one classifier, and no guarantee.

The theorem bounds how far the answers of a classifier D_z on x' lie from pi(z|y): gamma = sup |D_z(x')_z - pi(z|y)|,
and calls (0, 2 gamma) a Pufferfish bound. But it bounds that classifier's answers and not the law of x', and a
classifier that retrains undoes it. The supremum over samples is set by one confident answer and is near its largest
value even for samples that were never perturbed; the mean is not the theorem's gamma. So this section has both, as a
"diagnostic of one model", with the same for raw samples. The total variation of a channel does bound the law of the
output, exactly; it is in the certificate's section.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from edgeveil.trainer.attacks.families.fixed import masked
from edgeveil.trainer.attacks.families.networks import logits
from edgeveil.trainer.attacks.findings import Scored
from edgeveil.trainer.attacks.rows import places
from edgeveil.trainer.audit.findings import RAW, SENT, Finding
from edgeveil.trainer.audit.sections import About, Section
from edgeveil.trainer.datasets.base import Dataset

QUESTION = "diagnostic of one model"
MEANING = (
    "How far the answers of the one classifier that was trained with the perturber lie from what y alone tells. "
    "It says nothing about a classifier that learns from perturbed samples, and it is no guarantee."
)
BOUND = "2 gamma + 4 epsilon of Corollary B.6, at most 1, where 1 says nothing."


def section(dataset: Dataset, frames: np.ndarray, sensitive: Any, attack: Scored | None) -> list[Finding]:
    """gamma of D_z (``sensitive``, a Keras model from the unit cube to logits) on the test ``frames`` (n, ...) and on
    raw samples, and how far D_z is from the truth there: the epsilon of Corollary B.6; mean and largest of each.

    Of the ``attack`` on z, where one ran, how far its answers are from those of D_z: at most that epsilon, B.6 assumes.
    """
    clean = dataset.part("test")
    prior, at_z = dataset.theta[clean.y], np.eye(dataset.theta.shape[1])[clean.z]
    raw, answers = (masked(logits(sensitive, dataset.unit(x)), prior) for x in (clean.x, frames))
    gamma, error, of_raw = (_ends(one, other) for one, other in ((answers, prior), (raw, at_z), (raw, prior)))
    bound = tuple(min(1.0, 2 * one + 4 * epsilon) for one, epsilon in zip(gamma, error, strict=True))
    shifts: list[tuple[str, str, Sequence[float], str]] = [
        ("shift of classifier D", SENT, gamma, MEANING),
        ("shift of classifier D", RAW, of_raw, MEANING),
        ("error of classifier D", RAW, error, "the epsilon of Corollary B.6, estimated on raw samples"),
        ("bound of Corollary B.6", SENT, bound, BOUND),
    ]
    if attack is not None:
        test = attack.test
        ours = masked(logits(sensitive, dataset.unit(test.x)), dataset.theta[test.y])
        apart = _ends(attack.sure["test"], ours)
        holds = "holds" if apart[0] <= error[0] and apart[1] <= error[1] else "does not hold"
        text = f"of {attack.row.name} from D_z; Corollary B.6 assumes at most the epsilon of raw samples, which {holds}"
        shifts.append(("error of the best attack", SENT, apart, text))
    facts: dict[str, Any] = {"rows": len(clean), "more": {"kind": "diagnostic"}}
    return [
        Finding(QUESTION, f"{name}, {end}", "number", value, of=of, text=text, **facts)
        for name, of, both, text in shifts
        for end, value in zip(("mean", "largest"), both, strict=True)
    ]


def _ends(one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """How far answers (n, classes) are from others, on average and at most."""
    apart = np.abs(one - other).max(axis=1)
    return float(apart.mean()), float(apart.max())


class Diagnostic(Section):
    """The shift of D_z on what left and on raw samples, and what Corollary B.6 assumes of the best attack."""

    name = "diagnostic"
    order = 9
    last = True

    def measure(self, about: About, _found: Sequence[Finding]) -> list[Finding]:
        """As ``section``."""
        frames = about.released.x[places(about.dataset).test]
        return section(about.dataset, frames, about.classifiers["sensitive"], about.attack)
