"""Paper 004 on Adult: Table 2, and Figures 1 and 2 with the paper's sensitivity and with the exact one.

Records docs/results/dp/functional.json. Every fit is by seeded noise of the laws that ship; accuracy is on the fold
that was left out, and so are the targets of the model inversion, which knows all other attributes. Marginals and the
confusion matrix come from the training folds. About ten minutes on one core.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from edgeveil.trainer.attacks.model_inversion import Figures, invert
from edgeveil.trainer.ext.private.estimators import FunctionalLogisticRegression
from edgeveil.trainer.ext.private.estimators import functional as of_rows
from edgeveil.trainer.measures.intervals import mean
from scripts import record
from scripts.papers import adult_of_paper_4 as adult

RESULT = Path("docs/results/dp/functional.json")
EPSILONS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
GAMMAS = (0.5, 0.25, 0.1, 0.05, 0.025, 0.01)
CALIBRATIONS = ("paper", "exact")
S, D = adult.place(adult.SENSITIVE), len(adult.COLUMNS)
MARITAL = np.array([-1.0, 1.0])


class Setting(NamedTuple):
    """What is fitted; ``sensitive``: whether it is in the model."""

    epsilon: float = 1.0
    gamma: float = 1.0
    calibration: str = "exact"
    sensitive: bool = True


def settings() -> Iterator[Setting]:
    """Those of both figures, and the model without the sensitive attribute."""
    for calibration in CALIBRATIONS:
        yield from (Setting(epsilon, calibration=calibration) for epsilon in EPSILONS)
        yield from (Setting(gamma=gamma, calibration=calibration) for gamma in GAMMAS)
        yield Setting(calibration=calibration, sensitive=False)


def fitted(setting: Setting, train: adult.People, seed: int) -> FunctionalLogisticRegression:
    """The model of the training folds; without the sensitive attribute that column has no weight."""
    columns = [column for column in range(D) if setting.sensitive or column != S]
    model = FunctionalLogisticRegression(
        setting.epsilon,
        bounds=(-1, 1),
        fit_intercept=False,
        classes=[0, 1],
        sensitive=[S] if setting.sensitive and setting.gamma < 1 else None,
        gamma=setting.gamma,
        calibration=setting.calibration,  # type: ignore[arg-type]  # one of CALIBRATIONS
        random_state=seed,
    ).fit(train.x[:, columns], train.y)
    weights = np.zeros((1, D))
    weights[:, columns] = model.coef_
    model.coef_, model.n_features_in_ = weights, D
    return model


def one_fold(setting: Setting, train: adult.People, test: adult.People, seed: int) -> tuple[float, float]:
    """Accuracy of the model, and of the model inversion."""
    model = fitted(setting, train, seed)
    figures = Figures.counted(train.x, train.y, model.predict(train.x), domains={S: MARITAL}, classes=2)
    guessed = invert(model.predict, test.x, test.y, S, figures, np.random.default_rng(seed))
    return float((model.predict(test.x) == test.y).mean()), float((guessed == test.x[:, S]).mean())


def rows(people: adult.People, repeats: int) -> Iterator[dict[str, Any]]:
    """Every setting with intervals over repeats, each with its own folds and noise."""
    by_setting: dict[Setting, list[np.ndarray]] = {setting: [] for setting in settings()}
    for repeat in range(repeats):
        folds = list(people.folds(np.random.default_rng(repeat)))
        for number, setting in enumerate(by_setting):
            seeds = [int(np.random.default_rng([repeat, number, fold]).integers(2**31)) for fold in range(len(folds))]
            both = [one_fold(setting, *fold, seed) for fold, seed in zip(folds, seeds, strict=True)]
            by_setting[setting].append(np.mean(both, axis=0))
    for setting, values in by_setting.items():
        accuracy, attack = (mean(column)._asdict() for column in np.stack(values, axis=1))
        yield {**setting._asdict(), "accuracy": accuracy, "attack": attack}


def table_2() -> list[dict[str, float]]:
    """Budgets of algorithm 1 at epsilon 1, and what noise of these really spends, by two bounds of the change.

    "triangle" counts the pairs that touch the sensitive attribute as the paper's own proof should; "exact" is
    ``sensitivity.most_moved``.
    """
    delta, table = of_rows.of_the_paper(of_rows.LOGISTIC, D), []
    for gamma in (1.0, *GAMMAS):
        ordinary, touched = of_rows.split_of_the_paper(D, 1, gamma, 1.0)
        without = (D - 1) ** 2 / 4 + 3 * (D - 1)
        triangle = (without * ordinary + (delta - without) * touched) / delta
        exact = of_rows.most_moved(of_rows.LOGISTIC, D - 1, 1, gamma) * ordinary / delta
        table.append({"gamma": gamma, "sensitive": touched, "ordinary": ordinary, "triangle": triangle, "exact": exact})
    return table


def main() -> None:
    """Run all, and write the record."""
    script = record.Script(__file__, __doc__, "--repeats 5", out=RESULT)
    script.add_argument("--repeats", type=int, default=100, help="of five folds each (default: 100)")
    options = script.parse_args()
    if options.repeats < 2:
        script.error(f"2 repeats or more were expected, for an interval; came {options.repeats}")
    began = time.monotonic()
    people = adult.load()
    document = {
        **record.here(),
        "seed": "the number of the repeat",
        "people": len(people.y),
        "columns": D,
        "delta": {"paper": of_rows.of_the_paper(of_rows.LOGISTIC, D), "exact": of_rows.most_moved(of_rows.LOGISTIC, D)},
        "majority": float(np.bincount(people.y).max() / len(people.y)),
        "married": float((people.x[:, S] > 0).mean()),
        "table_2": table_2(),
        "repeats": options.repeats,
        "rows": list(rows(people, options.repeats)),
        "wall_s": round(time.monotonic() - began),
    }
    record.write(options.out, script.made_by(options), document)


if __name__ == "__main__":
    record.run(main)
