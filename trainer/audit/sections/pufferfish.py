"""Theorem 2 and Corollary B.6 of paper 001, as what they are: a diagnostic of one classifier, and no guarantee.

The theorem bounds how far the answers of a classifier D_z on x' lie from pi(z|y): gamma = sup |D_z(x')_z - pi(z|y)|,
and calls (0, 2 gamma) a Pufferfish bound. But it bounds that classifier's answers and not the law of x', and a
classifier that retrains undoes it. The supremum over samples is set by one confident answer and is near its largest
value even for samples that were never perturbed; the mean is not the theorem's gamma. So this section has both, as a
"model-relative diagnostic", with the same for raw samples. The total variation of a channel does bound the law of the
output, exactly; it is in the certificate's section.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from edgeveil.trainer.attacks.families.fixed import masked
from edgeveil.trainer.attacks.families.networks import logits
from edgeveil.trainer.attacks.rows import places
from edgeveil.trainer.audit.document import short
from edgeveil.trainer.audit.sections import About, Section
from edgeveil.trainer.datasets.base import Dataset

TITLE = "model-relative diagnostic: shift of classifier D"
MEANING = (
    "How far the answers of the one classifier that was trained with the perturber lie from what y alone tells. "
    "It says nothing about a classifier that learns from perturbed samples, and it is no guarantee."
)


def section(dataset: Dataset, frames: np.ndarray, sensitive: Any) -> dict[str, Any]:
    """gamma of D_z (``sensitive``, a Keras model from the unit cube to logits) on the test ``frames`` (n, ...).

    ``unseen_error`` is the epsilon of Corollary B.6 estimated on raw samples: how far D_z is from the truth there.
    ``bound_mean`` and ``bound_sup`` are 2 gamma + 4 epsilon, at most 1, where 1 says nothing.
    """
    test = dataset.part("test")
    prior = dataset.theta[test.y]
    raw = masked(logits(sensitive, dataset.unit(test.x)), prior)
    error = np.abs(raw - np.eye(raw.shape[1])[test.z]).max(axis=1)
    gamma = {
        "perturbed": _shift(masked(logits(sensitive, dataset.unit(frames)), prior), prior),
        "raw": _shift(raw, prior),
    }
    bounds = {
        f"bound_{end}": short(min(1.0, 2 * gamma["perturbed"][end] + 4 * value))
        for end, value in (("mean", float(error.mean())), ("sup", float(error.max())))
    }
    return {
        "title": TITLE,
        "gamma": gamma,
        "unseen_error": {"mean": short(float(error.mean())), "sup": short(float(error.max()))},
        **bounds,
        "meaning": MEANING,
    }


def _shift(answers: np.ndarray, prior: np.ndarray) -> dict[str, float]:
    """Mean and supremum over samples of the largest |D_z(x)_z - pi(z|y)| over z."""
    shift = np.abs(answers - prior).max(axis=1)
    return {"mean": short(float(shift.mean())), "sup": short(float(shift.max()))}


class Diagnostic(Section):
    """The shift of D_z on what left and on raw samples."""

    name = "diagnostic"
    order = 9

    def measure(self, about: About, _found: Mapping[str, Any]) -> dict[str, Any]:
        """As ``section``."""
        frames = about.released.x[places(about.dataset).test]
        return section(about.dataset, frames, about.classifiers["sensitive"])

    def lines(self, found: Mapping[str, Any], _document: Mapping[str, Any]) -> Iterator[str]:
        """Mean and largest shift."""
        perturbed, untouched = (found["gamma"][kind] for kind in ("perturbed", "raw"))
        yield ""
        yield (
            f"{found['title']}: mean {perturbed['mean']:.3f}, largest {perturbed['sup']:.3f}; "
            f"raw {untouched['mean']:.3f}, {untouched['sup']:.3f}"
        )
