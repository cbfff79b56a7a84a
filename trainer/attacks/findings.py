"""Results of the attacks: a row for each, the families that did not run and why, and the worst."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Callable, NamedTuple

from edgeveil.trainer.attacks.protocol import Kind
from edgeveil.trainer.measures.attack_metrics import Chance
from edgeveil.trainer.measures.permutation import Permuted

NAN = float("nan")


@dataclass(frozen=True)
class Row:
    """One attack, measured on the test rows.

    ``learned_on`` are the rows it learned from: *old* ones, which trained the perturber, *fresh* ones, or *both*;
    *crossed* is both and the other folds of the test rows, *clean* raw samples, *several* an ensemble of these.
    ``accuracy`` with its 95 % interval [``low``, ``high``]; ``auc`` within y (0.5 tells nothing; NaN where z never
    varies within y); ``bits`` about z beyond theta_y with their interval, ``bits_counted`` beyond the counted P(z|y)
    with theirs (the public prior may be wrong, and bits gained by correcting it are not leaked by x').
    ``validation_accuracy`` and ``validation_bits`` (beyond the counted P(z|y)) chose the worst attack.
    Adaptive attacks are judged calibrated; for fixed and transfer ones the bits alone are.

    ``balanced`` is the balanced accuracy within y with its interval, ``balanced_chance`` what knowing y alone gives.
    ``tpr`` is the share of the ``tpr_rows`` test rows of the most exposed z that are recognised at 1 % false positives
    within y (NaN and 0 where no y has 100 rows of another z), ``tpr_p`` the p-value of their being recognised at most
    three times as often as others are taken for them. ``worst_class`` is the recall of the most exposed z on
    its ``worst_class_rows`` test rows, ``worst_class_chance`` the same from y alone. Both z are chosen on validation
    and never named. ``members`` are the attacks an ensemble is made of.
    """

    name: str
    kind: Kind
    learned_on: str
    seed: int
    train_samples: int
    accuracy: float
    low: float
    high: float
    auc: float
    bits: float
    bits_low: float
    bits_high: float
    bits_counted: float
    bits_counted_low: float
    bits_counted_high: float
    validation_accuracy: float
    validation_bits: float
    seconds: float
    balanced: float = NAN
    balanced_low: float = NAN
    balanced_high: float = NAN
    balanced_chance: float = NAN
    tpr: float = NAN
    tpr_low: float = NAN
    tpr_high: float = NAN
    tpr_rows: int = 0
    tpr_p: float = NAN
    worst_class: float = NAN
    worst_class_low: float = NAN
    worst_class_high: float = NAN
    worst_class_chance: float = NAN
    worst_class_rows: int = 0
    members: str = ""

    @property
    def label(self) -> str:
        """Its name, and what it learned on."""
        return f"{self.name} on {self.learned_on} rows"


class Point(NamedTuple):
    """Accuracy on the test rows after ``rows`` training rows, with its 95 % interval."""

    rows: int
    accuracy: float
    low: float
    high: float


class Curve(NamedTuple):
    """The best attack found, trained again on 1/8, 1/4 and 1/2 of its rows, and as it was on all of them.

    ``gain`` is the gain in accuracy of the last doubling, on the same test rows, with its interval; ``rising`` is
    whether the interval is above 0.
    """

    name: str
    seed: int
    points: tuple[Point, ...]
    gain: float
    gain_low: float
    gain_high: float
    rising: bool


class NotRun(NamedTuple):
    """A family that did not attack, and why."""

    name: str
    kind: Kind
    reason: str


Done = Callable[[Sequence[Row]], None]  # gets the rows of each family when it is done; none where it did not run


@dataclass(frozen=True)
class Findings:
    """Everything that one set of adversaries found about one perturber.

    ``worst_adaptive`` is the best attack found: the adaptive row with the highest accuracy on validation (bits break
    ties). ``most_bits`` is the adaptive row with most bits there: at a skewed prior an attack can know a lot and
    still not guess better. ``curve`` is the best attack again on less data (None where it was not asked for).
    ``warnings`` name what there is too little of for these numbers to mean much. ``permutation`` tests whether
    ``most_bits`` gained anything at all, and ``counting`` whether codes counted crossed did (None where outputs are no
    codes).
    """

    chance: Chance
    rows: tuple[Row, ...]
    not_run: tuple[NotRun, ...]
    curve: Curve | None = None
    warnings: tuple[str, ...] = ()
    permutation: Permuted | None = None
    counting: Permuted | None = None

    @property
    def worst_adaptive(self) -> Row:
        """The best attack found."""
        return worst_adaptive(self.rows)

    @property
    def most_bits(self) -> Row:
        """The attack that learned most bits beyond counting."""
        return most_bits(self.rows)


def worst_adaptive(rows: Sequence[Row]) -> Row:
    """The adaptive row with the highest accuracy on validation, bits there breaking ties."""
    return max(_adaptive(rows), key=lambda row: (row.validation_accuracy, row.validation_bits))


def most_bits(rows: Sequence[Row]) -> Row:
    """The adaptive row with most bits beyond counting, on validation."""
    return max(_adaptive(rows), key=lambda row: row.validation_bits)


def _adaptive(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.kind == "adaptive"]
