"""Model inversion: a sensitive attribute guessed from a model's output and all else that is known of a person.

Fredrikson et al., "Privacy in Pharmacogenetics", USENIX Security 2014, in the form of paper 004, section 2.2. The
attacker has the model, the marginals of what it does not know, and the model's confusion matrix. These figures are a
release about the training people of their own; ``Figures.noised`` pays for them.

Much of what the attack finds is known without the model, so ``without_model`` stands next to it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.measures.intervals import count
from edgeveil.trainer.measures.predictor_metrics import boosted_trees

MOST_COMBINATIONS = 1024  # of values of unknown attributes; of more, as many are drawn
TREES = 100

Predict = Callable[[np.ndarray], np.ndarray]
Laplace = Callable[[np.ndarray, float], np.ndarray]


class Histogram(NamedTuple):
    """How often each of an attribute's ``values`` (k,) occurs: ``counts`` (k,)."""

    values: np.ndarray
    counts: np.ndarray

    @property
    def shares(self) -> np.ndarray:
        """Probabilities (k,); all alike where nothing was counted."""
        total = self.counts.sum()
        return self.counts / total if total > 0 else np.full(len(self.counts), 1 / len(self.counts))


@dataclass(frozen=True)
class Figures:
    """What was published with a model: ``marginals`` by column, and ``confusion`` (classes, classes), the counts of
    rows of each class [y, what the model says]."""

    marginals: Mapping[int, Histogram]
    confusion: np.ndarray

    @classmethod
    def counted(
        cls, x: np.ndarray, y: np.ndarray, said: np.ndarray, *, domains: Mapping[int, np.ndarray], classes: int
    ) -> Figures:
        """Of rows x (n, d) of classes y (n,) for which the model says ``said`` (n,).

        ``domains``: the public values, in order, of every column that an attacker does not know.
        """
        marginals = {
            column: Histogram(values, np.bincount(np.searchsorted(values, x[:, column]), minlength=len(values)))
            for column, values in domains.items()
        }
        return cls(marginals, np.bincount(y * classes + said, minlength=classes**2).reshape(classes, classes))

    def noised(self, epsilon: float, laplace: Laplace) -> Figures:
        """The same, ``epsilon``-private for all of it when one row is replaced: it moves each table by 2 at most.

        ``laplace`` adds noise of a scale to values, as ``edgeveil.trainer.ext.private.noise`` does.
        """
        scale = 2 * (len(self.marginals) + 1) / epsilon

        def noisy(counts: np.ndarray) -> np.ndarray:
            return np.maximum(laplace(counts.reshape(-1).astype(np.float64), scale), 0).reshape(counts.shape)

        marginals = {column: Histogram(values, noisy(counts)) for column, (values, counts) in self.marginals.items()}
        return Figures(marginals, noisy(self.confusion))

    def chance_of(self, y: np.ndarray, said: np.ndarray) -> np.ndarray:
        """P(y | what the model says) of each row (n,); that of y alone for a class that the model never says."""
        overall = self.confusion.sum(axis=1) / max(self.confusion.sum(), 1e-300)
        totals = self.confusion.sum(axis=0)
        shares = np.where(totals > 0, self.confusion / np.maximum(totals, 1e-300), overall[:, None])
        return shares[y, said]


def invert(
    predict: Predict, x: np.ndarray, y: np.ndarray, sensitive: int, figures: Figures, rng: np.random.Generator
) -> np.ndarray:
    """The likeliest value (n,) of the column ``sensitive`` for targets x (n, d) of classes y (n,).

    ``predict`` gives classes (n,) of rows (n, d). Columns of ``figures.marginals`` are not known to the attacker, and
    are not read in x: values there are summed over, weighted by their marginals. Of more than ``MOST_COMBINATIONS``
    combinations, that many are drawn by ``rng``.
    """
    unknown = [column for column in figures.marginals if column != sensitive]
    combinations = _combinations([figures.marginals[column] for column in unknown], rng)
    values, shares = figures.marginals[sensitive].values, figures.marginals[sensitive].shares
    scores = np.zeros((len(x), len(values)))
    rows = np.array(x, np.float64)
    for place, value in enumerate(values):
        rows[:, sensitive] = value
        for combination, weight in combinations:
            rows[:, unknown] = combination
            scores[:, place] += shares[place] * weight * figures.chance_of(y, predict(rows))
    return values[scores.argmax(axis=1)]


def _combinations(unknown: Sequence[Histogram], rng: np.random.Generator) -> list[tuple[np.ndarray, float]]:
    """Values of the unknown attributes, and the weight of each combination."""
    if math.prod(len(one.values) for one in unknown) > MOST_COMBINATIONS:
        drawn = np.stack([rng.choice(one.values, MOST_COMBINATIONS, p=one.shares) for one in unknown], axis=1)
        return [(row, 1 / MOST_COMBINATIONS) for row in drawn]
    pairs = itertools.product(*(zip(one.values, one.shares, strict=True) for one in unknown))
    weighted = [(np.array([value for value, _ in row]), math.prod(share for _, share in row)) for row in pairs]
    return [(row, weight) for row, weight in weighted if weight > 0]


def without_model(
    public: tuple[np.ndarray, np.ndarray], x: np.ndarray, y: np.ndarray, sensitive: int, known: Sequence[int], seed: int
) -> dict[str, np.ndarray]:
    """What the same attacker guesses (n,) without the model, from a ``public`` sample (rows, classes) alone.

    From the ``marginal``; from ``y``; from the ``attributes`` of the columns ``known`` and y, by boosted trees.
    """
    sample, classes = public
    values, hidden = np.unique(sample[:, sensitive], return_inverse=True)
    together = count(classes, hidden, shape=(max(classes.max(), y.max()) + 1, len(values)))
    columns = [column for column in known if column != sensitive]
    features, targets = (np.column_stack([rows[:, columns], labels]) for rows, labels in ((sample, classes), (x, y)))
    by_attributes = boosted_trees(features, hidden, max_iter=TREES, random_state=seed).predict(targets)
    return {
        "marginal": np.full(len(x), values[together.sum(axis=0).argmax()]),
        "y": values[together.argmax(axis=1)][y],
        "attributes": values[by_attributes],
    }


# Membership inference from a classifier's logits: was this row among those that it was trained on?
#
# For an attacker who holds the bundle, and so can run its artefact on any row. Two attacks: the loss alone (Yeom et
# al. 2018), and the likelihood ratio of Carlini et al., "Membership Inference Attacks From First Principles", 2022, by
# shadow models that were trained like the target, each on half of the rows.

TINY = 1e-6  # of a deviation: scores that are all alike


def confidence(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """log p / (1 - p) of the right class (n,), of ``logits`` (n, classes): near a normal law, as the ratio needs.

    It orders rows as minus the loss does, so it is the score of the attack by the loss, too.
    """
    rows = np.arange(len(labels))
    others = np.array(logits, np.float64)
    right = others[rows, labels].copy()
    others[rows, labels] = -np.inf
    return right - logsumexp(others, axis=1)


def halves(rows: int, models: int, rng: np.random.Generator) -> np.ndarray:
    """Which rows each model is trained on, bool (models, rows): every row is in half of the models, but for one where
    their number is odd."""
    order = np.argsort(rng.random((models, rows)), axis=0)
    return order < models // 2


def likelihood_ratio(target: np.ndarray, shadows: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """log of how much likelier the target's confidences (n,) are of a model that was trained on the row, (n,).

    ``shadows`` (m, n) are the confidences of models that were trained on the rows ``inside`` (m, n). Each row has two
    means of its own; both deviations are common to all rows, since few shadows know no better. Raises ``BadInput``
    where a row is in all shadows or in none.
    """
    if inside.all(axis=0).any() or not inside.any(axis=0).all():
        raise BadInput("Expected every row in some shadow models and not in others; draw their rows by halves().")
    logs = []
    for side in (inside, ~inside):
        confidences = np.where(side, shadows, np.nan)
        means = np.nanmean(confidences, axis=0)
        freedom = side.sum() - len(means)  # a mean for each row is taken off
        deviation = max(float(np.sqrt(np.nansum((confidences - means) ** 2) / max(freedom, 1))), TINY)
        # The mean itself is known from so many shadows only.
        spread = deviation * np.sqrt(1 + 1 / side.sum(axis=0))
        logs.append(-(((target - means) / spread) ** 2) / 2 - np.log(spread))
    return np.asarray(logs[0] - logs[1])
