"""What generalisation costs on Adult: loss, discernibility, and the accuracy of income from the columns left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from edgeveil.trainer.datasets.tables.coded import Coded
from edgeveil.trainer.measures.intervals import rate
from edgeveil.trainer.publish.anonymity.criteria import Criteria
from edgeveil.trainer.publish.anonymity.frequency import Frequencies
from edgeveil.trainer.publish.anonymity.generalise import Column, Method, generalise
from edgeveil.trainer.publish.anonymity.loss import discernibility, unique_people
from scripts.reproduce.publishing import adult_columns

NAMES = list(adult_columns.HIERARCHIES)
METHODS: tuple[Method, ...] = ("incognito", "mondrian")
# Mean loss at k = 10: (expected, tolerance) of the best full-domain node, and the most of Mondrian.
FULL_DOMAIN = {5: (0.487, 0.005), 8: (0.578, 0.005)}
MONDRIAN = {5: 0.03, 8: 0.09}
UNIQUE = {"age, sex, native-country": 0.031, "five": 0.106, "eight": 0.465}
SEED = 0


def losses(table: Coded) -> Iterator[dict[str, Any]]:
    """Mean loss and discernibility for 5 and 8 quasi-identifiers at k = 10, and for 8 at k = 2 and 50."""
    for count, k in ((5, 10), (8, 2), (8, 10), (8, 50)):
        held = adult_columns.columns(table, NAMES[:count])
        for method in METHODS:
            found = _generalised(held, len(table), k, method)
            loss = found.loss(held)
            row = {
                "quasi_identifiers": count,
                "k": k,
                "method": method,
                "loss": round(loss, 4),
                "facts": dict(found.facts),
                "discernibility": discernibility(found.labels, found.rows),
            }
            if k == 10:
                middle, tolerance = FULL_DOMAIN[count]
                row["held"] = abs(loss - middle) <= tolerance if method == "incognito" else loss <= MONDRIAN[count]
            if count == 8:
                row["accuracy"] = _accuracy(_features(found.labels, held), table.label)
            yield row


def raw_accuracy(table: Coded) -> dict[str, float]:
    """The accuracy of income from the eight columns as they are."""
    labels = {name: adult_columns.texts(table, name) for name in NAMES}
    return _accuracy(_features(labels, adult_columns.columns(table, NAMES)), table.label)


def unique_rows(table: Coded) -> Iterator[dict[str, Any]]:
    """The share of rows that some columns show alone."""
    for name, expected in UNIQUE.items():
        chosen = {"five": NAMES[:5], "eight": NAMES}.get(name) or name.split(", ")
        held = adult_columns.columns(table, chosen)
        whole = Frequencies.of(
            "rows", [one.levels for one in held], [one.codes for one in held], np.arange(len(table)), {}
        )
        share = unique_people(whole)
        yield {"columns": chosen, "share": round(share, 4), "held": abs(share - expected) < 6e-4}


def _generalised(held: list[Column], rows: int, k: int, method: Method) -> Any:
    person = np.arange(rows)
    return generalise(held, link="rows", person=person, sensitive={}, criteria=Criteria(k), method=method)


def _features(labels: Mapping[str, np.ndarray], held: list[Column]) -> np.ndarray:
    """Numbers as the middle of their range, over its domain; names one-hot."""
    parts = []
    for column in held:
        shown, codes = np.unique(labels[column.name].astype(str), return_inverse=True)
        hierarchy = adult_columns.HIERARCHIES[column.name]
        if hierarchy.ordered:
            middles = np.array([_middle(label, hierarchy) for label in shown])
            parts.append(middles[codes][:, None])
        else:
            parts.append(np.eye(len(shown))[codes])
    return np.hstack(parts)


def _middle(label: str, hierarchy: Any) -> float:
    low, _, high = label.partition("..")
    return 0.5 if label == "*" else (hierarchy.place(low) + hierarchy.place(high or low)) / 2


def _accuracy(features: np.ndarray, label: np.ndarray) -> dict[str, float]:
    """Of logistic regression, fitted on two thirds of the rows, on the others."""
    from sklearn.linear_model import LogisticRegression

    order = np.random.default_rng(SEED).permutation(len(label))
    cut = 2 * len(label) // 3
    model = LogisticRegression(max_iter=1000).fit(features[order[:cut]], label[order[:cut]])
    found = rate(model.predict(features[order[cut:]]) == label[order[cut:]])
    return {"accuracy": found.estimate, "low": found.low, "high": found.high}
