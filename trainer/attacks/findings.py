"""Results of the attacks: a row for each, the families that did not run and why, and the worst."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Callable, Literal, NamedTuple, cast
from zipfile import BadZipFile

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.util.atomic import atomic_path
from edgeveil.trainer.attacks import exposure
from edgeveil.trainer.attacks.problem import Problem, Released, keys
from edgeveil.trainer.attacks.protocol import Adversary, Attack, Kind, Learned
from edgeveil.trainer.measures import attack_metrics, intervals
from edgeveil.trainer.measures.attack_metrics import Chance, Permuted
from edgeveil.trainer.measures.intervals import Interval
from edgeveil.trainer.results import code_of


@dataclass(frozen=True)
class Row:
    """One attack, measured on the test rows.

    ``learned_on`` are the rows it learned from: *old* ones, which trained the perturber, *fresh* ones, or *both*;
    *crossed* is both and the other folds of the test rows, *clean* raw samples, *several* an ensemble of these.
    ``right`` is how often it is right; ``auc`` is within y (0.5: no information; NaN where z never varies within y);
    ``bits`` are those about z beyond theta_y, ``bits_counted`` beyond the counted P(z|y) (the public prior may be
    wrong, and bits gained by correcting it are not leaked by x').
    ``validation_accuracy`` and ``validation_bits`` (beyond the counted P(z|y)) chose the worst attack.
    Adaptive attacks are judged calibrated; for fixed and transfer ones the bits alone are.

    ``balanced`` is the balanced accuracy within y. ``recognised`` is the share of the test rows of the most exposed z
    that are recognised at 1 % false positives within y (where no y has 100 rows of another z, nothing), ``worst_class``
    the recall of the most exposed z. Both z are chosen on validation and never named. ``members`` are the attacks an
    ensemble is made of.
    """

    name: str
    kind: Kind
    learned_on: str
    seed: int
    train_samples: int
    right: Interval
    auc: float
    bits: Interval
    bits_counted: Interval
    balanced: exposure.Rate
    recognised: exposure.Rate
    worst_class: exposure.Rate
    validation_accuracy: float
    validation_bits: float
    seconds: float
    members: str = ""

    @property
    def label(self) -> str:
        """Its name, and what it learned on."""
        return f"{self.name} on {self.learned_on} rows"


class Curve(NamedTuple):
    """The best attack found, trained again on 1/8, 1/4 and 1/2 of its rows, and as it was on all of them.

    ``points`` are so many training rows, and how often it is right after them; ``gain`` is that in accuracy of the last
    doubling, on the same test rows.
    """

    name: str
    seed: int
    points: tuple[tuple[int, Interval], ...]
    gain: Interval

    @property
    def rising(self) -> bool:
        """Whether the interval of the gain is above 0."""
        return self.gain.low > 0


class NotRun(NamedTuple):
    """A family that did not attack, and why."""

    name: str
    kind: Kind
    reason: str


Done = Callable[[Sequence[Row]], object]  # gets the rows of each family when it is done; none where it did not run


def done_by(advance: Callable[..., object]) -> Done:
    """Steps of a progress bar, each with how often the family is right."""
    return lambda rows: advance(**({"right": rows[0].right.estimate} if rows else {}))


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
    adaptive = (row for row in rows if row.kind == "adaptive")
    return max(adaptive, key=lambda row: (row.validation_accuracy, row.validation_bits))


def most_bits(rows: Sequence[Row]) -> Row:
    """The adaptive row with most bits beyond counting, on validation."""
    return max((row for row in rows if row.kind == "adaptive"), key=lambda row: row.validation_bits)


# The score of a trained attack: its metrics on the test rows, and on the rows that choose the worst.


class Diverged(Exception):
    """An attack whose probabilities are not finite: its training diverged."""


@dataclass(frozen=True)
class Scored:
    """A row, its attack's probabilities for the validation and test rows, ``raw`` and calibrated (``sure``), and those
    rows (``choose``, ``test``) in the order of these; ``fold`` is that of ``Problem``."""

    row: Row
    raw: dict[str, np.ndarray]
    sure: dict[str, np.ndarray]
    choose: Released
    test: Released
    fold: np.ndarray | None = None

    def hits(self) -> np.ndarray:
        """Whether the best guess is right, of each test row (n,)."""
        return (self.raw if self.row.kind != "adaptive" else self.sure)["test"].argmax(axis=1) == self.test.z

    def judged(self, part: Literal["choose", "test"]) -> exposure.Judged:
        """What the calibrated attack says of the rows of a part."""
        rows: Released = getattr(self, part)
        return exposure.Judged(self.sure[part], rows.y, rows.z, rows.cluster, self.fold if part == "test" else None)


class Answers(NamedTuple):
    """What an attack said of the rows to ``choose`` by and of the ``test`` rows: (n, classes of z) each.

    ``seconds`` is what learning and answering took.
    """

    raw: dict[str, np.ndarray]
    train_samples: int
    seconds: float = 0.0


def answers(problem: Problem, attack: Attack, name: str) -> Answers:
    """Ask a trained attack. Raises ``BadInput`` where it does not return probabilities, ``Diverged`` where they are not
    finite."""
    raw = {
        part: checked(_each_once(attack, rows, problem), rows, problem, name)
        for part, rows in (("choose", problem.choose), ("test", problem.test))
    }
    return Answers(raw, attack.train_samples)


def _each_once(attack: Attack, rows: Released, problem: Problem) -> np.ndarray:
    """What the attack says of the rows; where they are few different ones many times, it is asked about each once."""
    if not isinstance(attack, Learned) or rows.beside is not None or not problem.few_values:
        return attack.probabilities(rows)
    known = [rows.y[:, None].astype(np.float32), *(() if rows.also is None else (rows.also,))]
    number: dict[bytes, int] = {}
    which = [number.setdefault(key, len(number)) for key in keys(replace(rows, also=np.concatenate(known, axis=1)))]
    return attack.probabilities(rows.take(np.unique(which, return_index=True)[1]))[which]


def score(
    problem: Problem,
    raw: dict[str, np.ndarray],
    *,
    name: str,
    kind: Kind,
    learned_on: str,
    seed: int,
    train_samples: int,
    begun: float,
    members: str = "",
) -> Scored:
    """The row of probabilities ``raw`` (``choose`` and ``test``: (n, classes of z)).

    ``begun`` is when the attack's training began, by ``time.perf_counter``.
    """
    choose, test = problem.choose, problem.test
    base = {"choose": problem.base(choose), "test": problem.base(test)}
    calibration = attack_metrics.calibrate(raw["choose"], base["choose"], choose.z)
    sure = {part: calibration.apply(raw[part], of) for part, of in base.items()}
    judged = sure if kind == "adaptive" else raw
    guesses, scored = (
        [exposure.Judged(p[part], rows.y, rows.z, rows.cluster) for part, rows in (("choose", choose), ("test", test))]
        # Scores rank rows, so they are not calibrated: calibration and its floor would tie the surest.
        for p in ({part: np.maximum(p, attack_metrics.FLOOR) for part, p in judged.items()}, raw)
    )
    bits, counted = (
        attack_metrics.bits_beyond(prior, sure["test"], test.y, test.z, test.cluster)
        for prior in (problem.theta, problem.counted)
    )
    row = Row(
        name,
        kind,
        learned_on,
        seed,
        train_samples,
        intervals.rate(judged["test"].argmax(axis=1) == test.z, test.cluster),
        attack_metrics.auc_within_y(raw["test"], test.y, test.z),
        bits,
        counted,
        exposure.balanced(guesses[1], problem.counted),
        exposure.at_low_fpr(*scored),
        exposure.worst_class(guesses[0], guesses[1], problem.counted),
        float(np.mean(judged["choose"].argmax(axis=1) == choose.z)),
        attack_metrics.bits_beyond(problem.counted, sure["choose"], choose.y, choose.z).estimate,
        round(time.perf_counter() - begun, 3),
        members,
    )
    return Scored(row, raw, sure, choose, test, problem.fold)


def checked(probabilities: np.ndarray, rows: Released, problem: Problem, name: str) -> np.ndarray:
    """``probabilities`` if they are (n, classes of z), none negative, rows summing to 1; else raise."""
    p = np.asarray(probabilities, np.float64)
    expected = (len(rows), problem.z_classes)
    if p.shape != expected:
        raise BadInput(f"The adversary {name!r} must answer with probabilities of shape {expected}; got {p.shape}.")
    if not np.isfinite(p).all():
        raise Diverged
    if (p < -1e-9).any() or np.abs(p.sum(axis=1) - 1).max() > 1e-3:
        raise BadInput(f"The adversary {name!r} must answer with probabilities: each row at least 0, and 1 in all.")
    return np.maximum(p, 0.0)


# What each attack answered, kept as it ends, so that an interrupted audit loses one attack and not all of them.
#
# An answer is found by what it depends on: the rows, the budget, the seed, the family and its code. So nothing has to
# be named, an answer of other rows is never taken, and where two artefacts send the same (label-only does), one is
# enough.

_UNREADABLE = (OSError, ValueError, KeyError, EOFError, BadZipFile)


class Journal:
    """Keeps answers in ``folder`` (None: nowhere); ``made_by`` are versions of what computes them.

    ``begins`` is called with the attack that starts to learn; one whose answer is here does not. ``ahead``
    (``attacks.ahead``) is what learns in other processes, None where nothing does.
    """

    ahead: Any = None

    def __init__(
        self, folder: Path | None, *, made_by: str = "", begins: Callable[[str], None] = lambda _: None
    ) -> None:
        self.folder, self.made_by, self.begins = folder, made_by, begins

    def __len__(self) -> int:
        return 0 if self.folder is None else len(list(self.folder.glob("*.npz")))

    def answers(self, problem: Problem, family: Adversary, seed: int) -> Answers:
        """As ``answered``, from here where it is kept."""
        if self.folder is None:
            return _trained(problem, family, seed, self.begins)
        key = self.key(problem, family, seed)
        path = self.path(key)
        if self.ahead is not None:
            self.ahead.wait(key, lambda: self.begins(family.name))
        try:
            with np.load(path, allow_pickle=False) as stored:
                raw = {part: stored[part] for part in ("choose", "test")}
                return Answers(raw, int(stored["train_samples"]), float(stored["seconds"]))
        except _UNREADABLE:
            pass
        new_answers = _trained(problem, family, seed, self.begins)
        self.folder.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as temporary:
            stored = {**new_answers.raw, "train_samples": new_answers.train_samples, "seconds": new_answers.seconds}
            np.savez(temporary, **cast(Any, stored))
        return new_answers

    def path(self, key: str) -> Path:
        """The file of the answer with this key."""
        return cast(Path, self.folder) / f"{key}.npz"

    def key(self, problem: Problem, family: Adversary, seed: int) -> str:
        """All that the answer depends on, as a hash."""
        digest = hashlib.sha256(problem.digest)
        for part in (self.made_by, family.name, str(seed)):
            digest.update(part.encode() + b"\0")
        digest.update(code_of(Path(__file__).parent) + code_of_family(family))  # families share code
        return digest.hexdigest()[:32]


def answered(problem: Problem, family: Adversary, seed: int) -> Answers:
    """Train a family on a problem and ask it, or take what it answered before from the budget's journal.

    Raises as ``scoring.answers`` does.
    """
    journal: Journal | None = problem.budget.journal
    return _trained(problem, family, seed) if journal is None else journal.answers(problem, family, seed)


def _trained(problem: Problem, family: Adversary, seed: int, begins: Callable[[str], None] = lambda _: None) -> Answers:
    begins(family.name)
    begun = time.perf_counter()
    untimed = answers(problem, family.fit(problem, seed), family.name)
    return untimed._replace(seconds=time.perf_counter() - begun)


def code_of_family(family: Adversary) -> bytes:
    """The source of a family: another version of a plugin is another family."""
    file = getattr(sys.modules.get(type(family).__module__), "__file__", None)
    return Path(file).read_bytes() if file else b""
