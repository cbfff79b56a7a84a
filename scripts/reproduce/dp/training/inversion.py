"""Paper 004's attacker on Adult beside what it knows without any model, over what it knows of its targets.

Records docs/results/dp/inversion.json. The attack guesses whether a person is married from the model's output, y and
the known attributes; those that are not known are summed over by their marginals. The same attacker without the model
guesses from the marginal, from y, and from the known attributes by boosted trees on the training folds, as a public
sample. "noised" pays for marginals and confusion matrix: half of the budget is theirs. Two minutes on one core.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.trainer.attacks.training_data.model_inversion import Figures, invert, without_model
from edgeveil.trainer.measures.intervals import mean
from edgeveil.trainer.private.noise import Seeded
from scripts.reproduce import record
from scripts.reproduce.dp.training import adult_of_paper_4 as adult
from scripts.reproduce.dp.training.functional import MARITAL, D, S, Setting, fitted

RESULT = Path("docs/results/dp/inversion.json")
EPSILON, MUCH = 1.0, 50.0  # the largest epsilon leaves hardly any noise
UNKNOWN = {
    "nothing": (),
    "relationship": ("relationship",),
    "relationship and sex": ("relationship", "sex"),
    "all but education-num and age": tuple(
        name for name in adult.COLUMNS if name not in ("education-num", "age", adult.SENSITIVE)
    ),
}

Fold = tuple[adult.People, adult.People]  # training, test


def domains(people: adult.People, unknown: tuple[str, ...]) -> dict[int, np.ndarray]:
    """Values of the sensitive attribute and of the unknown ones; of numbers those that occur stand for all."""
    return {S: MARITAL, **{adult.place(name): np.unique(people.x[:, adult.place(name)]) for name in unknown}}


def one_fold(people: adult.People, fold: Fold, seed: int) -> Iterator[tuple[str, str, np.ndarray]]:
    """What is unknown, who guesses, and where it is right (n,)."""
    train, test = fold
    models = {
        "model, hardly any noise": fitted(Setting(MUCH), train, seed),
        "model": fitted(Setting(EPSILON), train, seed),
        "model of half the budget": fitted(Setting(EPSILON / 2), train, seed),
    }
    for name, unknown in UNKNOWN.items():
        values, known = domains(people, unknown), [at for at in range(D) if adult.COLUMNS[at] not in unknown]
        hidden = test.x.copy()
        hidden[:, list(values)] = np.nan
        for which, model in models.items():
            figures = Figures.counted(train.x, train.y, model.predict(train.x), domains=values, classes=2)
            if which == "model of half the budget":
                which, figures = "model and figures, noised", figures.noised(EPSILON / 2, Seeded(seed).laplace)
            guessed = invert(model.predict, hidden, test.y, S, figures, np.random.default_rng(seed))
            yield name, which, guessed == test.x[:, S]
        beside = without_model((train.x, train.y), hidden, test.y, S, known, seed)
        yield from ((name, which, guessed == test.x[:, S]) for which, guessed in beside.items())


def rows(people: adult.People, repeats: int) -> list[dict[str, Any]]:
    """How often each attacker is right, with intervals over repeats."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for repeat in range(repeats):
        here: dict[tuple[str, str], list[np.ndarray]] = defaultdict(list)
        for number, fold in enumerate(people.folds(np.random.default_rng(repeat))):
            for name, which, right in one_fold(people, fold, 10 * repeat + number):
                here[name, which].append(right)
        for key, parts in here.items():
            found[key].append(float(np.concatenate(parts).mean()))
    return [
        {"unknown": name, "attacker": which, "right": mean(np.array(values))._asdict()}
        for (name, which), values in found.items()
    ]


def main() -> None:
    """Run all, and write the record."""
    script = record.Script(__file__, __doc__, "--repeats 2", out=RESULT)
    script.add_argument("--repeats", type=int, default=5, help="of five folds each (default: 5)")
    asked = script.parse_args()
    if asked.repeats < 2:
        script.error(f"2 repeats or more were expected, for an interval; came {asked.repeats}")
    began = time.monotonic()
    people = adult.load()
    document = {
        **record.here(),
        "seed": "ten times the number of the repeat, and the fold's",
        "epsilon": EPSILON,
        "repeats": asked.repeats,
        "rows": rows(people, asked.repeats),
        "wall_s": round(time.monotonic() - began),
    }
    record.write(asked.out, script.made_by(asked), document)


if __name__ == "__main__":
    record.run(main)
