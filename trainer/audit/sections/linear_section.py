"""The ``predictors`` section of an audit of cleaners and of noise: what paper 000 counts, and what that hides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import numpy as np

from edgeveil.trainer.attacks.rows import to_learn
from edgeveil.trainer.audit.sections import About, Section
from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.linear import LinearSection, confidential, linear_problem, wanted
from edgeveil.trainer.measures import intervals, predictor_metrics
from edgeveil.trainer.measures.intervals import Interval
from edgeveil.trainer.measures.predictor_metrics import BoostedRefit, LinearRefit, binary, e_utility, mean_auc, promised

MEANING = {
    "e_utility": "squared error that cleaning makes in what the predictor sees, per vector",
    "e_privacy": "squared change of the adversary's prediction against hers on raw vectors, mean over (vector, label)",
    "complete_privacy": "share of (vector, label) pairs predicted worse than by the label's mean; uncleaned vectors "
    "have it too, so only what is above that is privacy",
    "auc": "area under the ROC curve, mean over labels cut at their training median; 0.5 tells nothing",
}


def predictors(section: LinearSection, dataset: Dataset, sent: np.ndarray, *, seed: int) -> dict[str, Any]:
    """Adversaries who know the linear predictors, or refit on the output, linearly and by boosting; LEACE to compare.

    ``sent`` (n, features) is the output for the rows of all slices, in their order. LEACE is fitted on the rows that
    trained the cleaner, adversaries on fresh ones too. All is measured on the test slice, but
    ``e_utility.largest_error`` is over all rows.
    """
    rows, first = dataset.slices.rows(), len(to_learn(dataset))
    x, sent = dataset.x[rows].astype(np.float64), sent.astype(np.float64)
    hidden, kept = confidential(dataset, rows), wanted(dataset, rows)
    measure = _Measure(hidden, kept, first, dataset.part("test").cluster, seed)
    problem = linear_problem(section, dataset.for_training())
    moved = e_utility(problem.a_d, x, sent)
    most = promised(problem.a_d, x - problem.mean, problem.eps)
    exact = section.meets_eps

    known_c = LinearRefit(x[:first], hidden[:first])
    on_raw = known_c.predict(x[first:])
    old = len(dataset.slices.training())
    erased = predictor_metrics.fit(x[:old], hidden[:old]).clean(x)
    return {
        "eps": problem.eps,
        "wanted": int(kept.shape[1]),
        "confidential": int(hidden.shape[1]),
        "rows": {"training": first, "test": len(rows) - first},
        "e_utility": {
            "mean": _spread(intervals.mean(moved[first:], measure.clusters)),
            "largest_error": _number(np.abs(moved - most).max()) if exact else None,
            "below_eps": float((most[first:] < problem.eps * (1 - 1e-9)).mean()),
        },
        "uncleaned": {**measure.leak(on_raw, on_raw), **measure.ranked(x)},
        "no_attack": measure.leak(known_c.predict(sent[first:]), on_raw),
        "refit": {
            **measure.leak(LinearRefit(sent[:first], hidden[:first]).predict(sent[first:]), on_raw),
            **measure.ranked(sent),
        },
        "leace": {
            **measure.leak(LinearRefit(erased[:first], hidden[:first]).predict(erased[first:]), on_raw),
            **measure.ranked(erased),
        },
        "meaning": MEANING,
    }


class _Measure:
    """The labels of the rows, the first ``first`` of them for training, and what can be measured about them."""

    def __init__(
        self, hidden: np.ndarray, kept: np.ndarray, first: int, clusters: np.ndarray | None, seed: int
    ) -> None:
        self._first, self.clusters, self._seed = first, clusters, seed
        self._hidden, self._at_mean = hidden, hidden[:first].mean(axis=0)
        self._sides = {"confidential": _columns(hidden, first), "wanted": _columns(kept, first)}

    def leak(self, predicted: np.ndarray, on_raw: np.ndarray) -> dict[str, Any]:
        """e_privacy and complete privacy of predictions (n, labels), with 95 % intervals over vectors or clusters."""
        truth = self._hidden[self._first :]
        worse = np.abs(predicted - truth) > np.abs(self._at_mean - truth)
        units = np.arange(len(truth)) if self.clusters is None else self.clusters
        pairs = np.repeat(units, truth.shape[1])
        return {
            "e_privacy": _spread(intervals.mean(((predicted - on_raw) ** 2).mean(axis=1), self.clusters)),
            "complete_privacy": _spread(intervals.rate(worse.ravel(), pairs)),
        }

    def ranked(self, x: np.ndarray) -> dict[str, Any]:
        """Mean AUC of refits on x, the vectors of all rows: of confidential labels (two refits), and of wanted ones."""
        first = self._first
        found: dict[str, Any] = {}
        for side, (labels, positive) in self._sides.items():
            linear = LinearRefit(x[:first], labels[:first]).predict(x[first:])
            found[f"auc_{side}_linear"] = _number(mean_auc(linear, positive[first:]))
        boosted = BoostedRefit(x[:first], self._sides["confidential"][1][:first], seed=self._seed)
        found["auc_confidential_boosted"] = _number(
            mean_auc(boosted.predict(x[first:]), self._sides["confidential"][1][first:])
        )
        return found


def _columns(labels: np.ndarray, first: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels, and the same as booleans; those that are all alike in training are left out."""
    positive = binary(labels, labels[:first])
    varied = positive[:first].any(axis=0) & ~positive[:first].all(axis=0)
    return labels[:, varied], positive[:, varied]


def _spread(value: Interval) -> dict[str, Any]:
    return {"mean": _number(value.estimate), "low": _number(value.low), "high": _number(value.high)}


def _number(value: float) -> float | None:
    return float(f"{value:.6g}") if np.isfinite(value) else None


def _shown(value: Mapping[str, float], form: str = ".3g") -> str:
    return f"{value['mean']:{form}} [{value['low']:{form}}, {value['high']:{form}}]"


class Predictors(Section):
    """Linear predictors, of perturbers that are not bounded by classes."""

    name = "predictors"
    order = 8

    def applies(self, about: About) -> bool:
        """Cleaners and noise, of linear readings."""
        return about.run.recipe.perturber.unbounded

    def measure(self, about: About, _found: Mapping[str, Any]) -> dict[str, Any]:
        """As ``predictors``."""
        section = cast(LinearSection, about.run.recipe.perturber)
        return predictors(section, about.dataset, about.released.x, seed=about.seed)

    def lines(self, found: Mapping[str, Any], _document: Mapping[str, Any]) -> Iterator[str]:
        """The leaks of each adversary, a line for each."""
        utility = found["e_utility"]
        error = utility["largest_error"]
        off = "" if error is None else f", off by at most {error:.1e} on any vector"
        yield ""
        yield (
            f"linear predictors: {found['wanted']} wanted outputs, {found['confidential']} confidential; "
            f"e_utility {_shown(utility['mean'])}, eps {found['eps']:g}{off}"
        )
        yield f"  {'':12} {'e_privacy':>26} {'complete privacy, %':>22}  AUC confidential (linear, boosted), wanted"
        for name in ("uncleaned", "no_attack", "refit", "leace"):
            row = found[name]
            rates = {key: 100 * value for key, value in row["complete_privacy"].items()}
            line = f"  {name.replace('_', ' '):12} {_shown(row['e_privacy']):>26} {_shown(rates, '.1f'):>22}"
            if "auc_wanted_linear" in row:
                names = ("confidential_linear", "confidential_boosted", "wanted_linear")
                aucs = (row[f"auc_{of}"] for of in names)
                line += "  " + ", ".join("-" if auc is None else f"{auc:.3f}" for auc in aucs)
            yield line
        yield "  Complete privacy has no zero: compare with uncleaned. LEACE knows the confidential labels alone."
