"""The attack on a whole publication: z from linked frames, from columns, and from both, by the audit's adversaries.

Whoever is attacked is in no row that an adversary learned on: people are cut into folds, and none is in two. The
columns alone stand beside the others, for what they tell no perturber hides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.attacks.findings import Row
from edgeveil.trainer.attacks.problem import BUDGETS, FEWEST_ROWS, FEWEST_UNITS, Problem, units_of
from edgeveil.trainer.attacks.protocol import Adversary
from edgeveil.trainer.attacks.question import FOLDS, Question, question_of_fresh
from edgeveil.trainer.attacks.registry import adversaries
from edgeveil.trainer.attacks.run_all import Ran, run, summed_up
from edgeveil.trainer.audit.before_after.compare import NEED_D_Z
from edgeveil.trainer.audit.before_after.pairs import FEWEST_OF_A_CLASS
from edgeveil.trainer.audit.document import attacked
from edgeveil.trainer.audit.verdict import CANNOT_TELL, HOLDS, LEAKS, judge
from edgeveil.trainer.datasets.columns import FEW_CLASSES
from edgeveil.trainer.measures.attack_metrics import counted_prior
from edgeveil.trainer.progress import progress
from edgeveil.trainer.publish.attack.attack_limits import exceeded
from edgeveil.trainer.publish.attack.attack_units import Units, View, units
from edgeveil.trainer.publish.attack.published import Published
from edgeveil.trainer.publish.attack.summed import summed
from edgeveil.trainer.publish.requests.requested_attack import Attack
from edgeveil.trainer.tensorflow_quiet import load_tensorflow

KEPT = ("name", "kind", "train_samples", "accuracy", "low", "high", "auc", "bits_counted")


def attack(
    published: Published,
    z: Sequence[str],
    asked: Attack,
    *,
    y: Sequence[str] | None = None,
    copies: Mapping[str, Any] | None = None,
    seed: int = 0,
    families: Sequence[Adversary] | None = None,
) -> dict[str, Any]:
    """The ``attack`` of a publication. ``z`` and ``y`` are the values of the published rows (``published.place``).

    ``copies`` is what ``donors`` counted. Raises ``BadInput`` where there are too few people, or no two values.
    """
    z_class, y_class = _classes(asked.sensitive, z), np.zeros(len(z), np.int64)
    if asked.target is not None and y is not None:
        y_class = _classes(asked.target, y)
    published, y_class, z_class, rare = _without_rare(asked, published, y_class, z_class)
    found = units(published, y_class, z_class)
    _require_enough(asked, found)
    if families is None:
        load_tensorflow()
        families = [one for one in adversaries() if one.name not in NEED_D_Z]
    attackers = tuple(families)
    steps = (len(found.views) + (found.single is not None)) * len(attackers)
    with progress("attack on the publication", total=steps) as advance:

        def done(rows: Sequence[Row]) -> None:
            advance(**({"right": rows[0].accuracy} if rows else {}))

        def ran(view: View) -> tuple[Question, Ran]:
            question = _question(view, asked, seed)
            return question, run(question, seed=seed, families=attackers, done=done)

        views = {name: _with_single(name, found, ran, view) for name, view in found.views.items()}
    parts = {name: _part(*one, found.unit, asked, seed) for name, one in views.items()}
    over = [{"view": name, **one} for name, part in parts.items() for one in exceeded(part["verdict"]["upper"], asked)]
    return {
        "sensitive": asked.sensitive,
        "target": asked.target,
        "unit": found.unit,
        "rows": len(published.place),
        "left_out_values": rare,
        "budget": asked.budget,
        "seed": seed,
        "views": parts,
        "copies": None if copies is None else dict(copies),
        "verdict": _worst([part["verdict"]["word"] for part in parts.values()]),
        "limit": {"points": asked.points, "bits": asked.bits},
        "exceeded": over,
    }


def _classes(column: str, cells: Sequence[str]) -> np.ndarray:
    names, numbers = np.unique(np.asarray(cells, str), return_inverse=True)
    if len(names) > FEW_CLASSES:
        raise BadInput(
            f'Column "{column}" has {len(names)} different values, and an attack takes {FEW_CLASSES} at most: group '
            "them in a column of their own."
        )
    return numbers.reshape(-1)


def _without_rare(
    asked: Attack, published: Published, y: np.ndarray, z: np.ndarray
) -> tuple[Published, np.ndarray, np.ndarray, int]:
    """Without the rows of a z that too few people have, and how many values that were."""
    person = published.person
    people = [len(np.unique(person[z == value])) for value in range(int(z.max()) + 1)]
    rare = np.flatnonzero(np.array(people) < FEWEST_OF_A_CLASS)
    kept = np.flatnonzero(~np.isin(z, rare))
    numbers, z = np.unique(z[kept], return_inverse=True)
    if len(numbers) < 2:
        raise BadInput(
            f'attack.sensitive = "{asked.sensitive}": two values at least were expected that {FEWEST_OF_A_CLASS} '
            f"people have each; there is {len(numbers) or 'none'}. Name another column, or leave out [attack]."
        )
    return published.take(kept), y[kept], z.reshape(-1), len(rare)


def _require_enough(asked: Attack, found: Units) -> None:
    rows = found.views["columns"][1]
    for there, fewest, what in ((len(rows), FEWEST_ROWS, "rows"), (units_of(rows), FEWEST_UNITS, "people")):
        needed = -(-fewest * FOLDS // (FOLDS - 1)) + 1  # the smallest of the parts to learn on lacks a fold
        if there < needed:
            raise BadInput(
                f'An attack on "{asked.sensitive}" needs {needed} {"people" if found.unit == "person" else what} at '
                f"least; there are {there}, and hundreds are needed to show that little can be read. Publish more, or "
                "leave out [attack]: the card says so."
            )


def _question(view: View, asked: Attack, seed: int) -> Question:
    spec, rows = view
    counted = counted_prior(rows.y, rows.z, (int(rows.y.max()) + 1, int(rows.z.max()) + 1))
    empty = rows.take(np.empty(0, np.int64))
    blank = Problem(spec, counted, counted, empty, empty, empty, empty, BUDGETS[asked.budget])
    return question_of_fresh(rows, blank, seed=seed)


def _with_single(name: str, found: Units, ran: Any, view: View) -> tuple[Question, Ran]:
    """The attacks on a view; on frames also the best one on single frames, summed up over each person's."""
    question, attacks = ran(view)
    if name != "frames" or found.single is None:
        return question, attacks
    of_one, alone = ran(found.single)
    more = () if alone.most_bits is None else (summed(of_one, alone.most_bits),)
    return question, attacks._replace(kept=(*attacks.kept, *more))


def _part(question: Question, ran: Ran, unit: str, asked: Attack, seed: int) -> dict[str, Any]:
    document = attacked(summed_up(question, ran, seed=seed, curve=False))
    test = question.whole.test
    clusters = {"kind": "person", "test": units_of(test)} if unit == "row" and test.cluster is not None else None
    limits = {"attack_points": asked.points, "bits": asked.bits}
    verdict = judge(document, limits, {"rows": {"test": len(test)}, "clusters": clusters})
    rows = [{key: row[key] for key in KEPT} for row in document["adversaries"]]
    return {
        "units": len(test),
        "chance": document["chance"]["majority"],
        "best": {key: document["worst_adaptive"][key] for key in KEPT},
        "adversaries": rows,
        "not_run": document["not_run"],
        "warnings": document["warnings"],
        "verdict": verdict,
    }


def _worst(words: Sequence[str]) -> str:
    return next(word for word in (LEAKS, CANNOT_TELL, HOLDS) if word in words)
