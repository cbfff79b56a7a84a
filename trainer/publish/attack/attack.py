"""The attack on a whole publication: z from linked frames, from columns, and from both, by the audit's adversaries.

Whoever is attacked is in no row that an adversary learned on: people are cut into folds, and none is in two. The
columns alone stand beside the others, for what they tell no perturber hides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.trainer.attacks.findings import Row
from edgeveil.trainer.attacks.problem import BUDGETS, Problem, units_of
from edgeveil.trainer.attacks.protocol import Adversary
from edgeveil.trainer.attacks.question import Question, question_of_fresh
from edgeveil.trainer.attacks.registry import adversaries
from edgeveil.trainer.attacks.run_all import Ran, run, summed_up
from edgeveil.trainer.audit.before_after.compare import NEED_D_Z
from edgeveil.trainer.audit.before_after.pairs import FEWEST_OF_A_CLASS
from edgeveil.trainer.audit.document import attacked
from edgeveil.trainer.audit.verdict import CANNOT_TELL, HOLDS, LEAKS, judge
from edgeveil.trainer.datasets.columns import FEW_CLASSES
from edgeveil.trainer.measures.attack_metrics import counted_prior
from edgeveil.trainer.progress import progress
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
    exceeded = [
        {"view": name, **one} for name, part in parts.items() for one in _exceeded(part["verdict"]["upper"], asked)
    ]
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
        "exceeded": exceeded,
    }


def require(found: Mapping[str, Any]) -> None:
    """Raise ``LimitNotMet`` where attacks may learn more than the plan allows."""
    for one in found["exceeded"]:
        form = _FORMS[one["limit"]] if one["found"] is not None else "there are too few people to say what they learn"
        raise LimitNotMet(
            f'Nothing was published: of "{found["sensitive"]}", from {_FROM[one["view"]]}, '
            f"{form.format(**one)}, and the plan allows {one['asked']:g} (attack.{one['limit']}). {_CURE[one['view']]}"
        )


_FROM = {"columns": "the columns alone", "frames": "the frames", "both": "frames and columns together"}
_FORMS = {
    "points": "attacks may reach {found:.1f} points over chance (upper end of 95 %)",
    "bits": "attacks may learn {found:.3f} bits (upper end of 95 %)",
}
_GENERALISE = "Drop or generalise columns that tell of it, or publish more people."
_CURE = {
    "columns": _GENERALISE,
    "frames": 'Take a perturber that hides more, or link = "none", or publish more people.',
    "both": _GENERALISE,
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


def _question(view: View, asked: Attack, seed: int) -> Question:
    spec, rows = view
    counted = counted_prior(rows.y, rows.z, (int(rows.y.max()) + 1, int(rows.z.max()) + 1))
    empty = rows.take(np.empty(0, np.int64))
    parts = dict.fromkeys(("fit", "stop", "choose", "test"), empty)
    return question_of_fresh(rows, Problem(spec, counted, counted, budget=BUDGETS[asked.budget], **parts), seed=seed)


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


def _exceeded(upper: Mapping[str, float | None], asked: Attack) -> list[dict[str, Any]]:
    """The limits that upper ends do not show to be met."""
    points = [upper[name] for name in ("points", "balanced") if name in upper]
    found = {"points": None if None in points else max(one for one in points if one is not None)}
    found["bits"] = upper.get("bits")
    limits = {"points": asked.points, "bits": asked.bits}
    return [
        {"limit": name, "asked": limits[name], "found": high}
        for name, high in found.items()
        if high is None or high > limits[name]
    ]


def _worst(words: Sequence[str]) -> str:
    return next(word for word in (LEAKS, CANNOT_TELL, HOLDS) if word in words)
