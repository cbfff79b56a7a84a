"""The best attack on single frames, summed up over the linked frames of a person.

A mean over frames hides what a frame tells only as a whole. The log-odds that an attack reads from each are added up:
it learned on other people's frames, and its sums are calibrated on people that are neither tested nor learned from.
"""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.trainer.attacks.findings import Row, Scored, done_by, score
from edgeveil.trainer.attacks.problem import BUDGETS, Released, blank, units_of
from edgeveil.trainer.attacks.protocol import Adversary
from edgeveil.trainer.attacks.registry import adversaries, without_d_z
from edgeveil.trainer.attacks.rows import FOLDS, Question, question_of_fresh
from edgeveil.trainer.attacks.run_all import Ran, run, summed_up
from edgeveil.trainer.audit.document import attacked, interval
from edgeveil.trainer.audit.findings import plain
from edgeveil.trainer.audit.pairs import FEWEST_OF_A_CLASS
from edgeveil.trainer.audit.verdict import CANNOT_TELL, LEAKS, NOTHING_FOUND, judge
from edgeveil.trainer.datasets.columns import FEW_CLASSES, Cells
from edgeveil.trainer.ext.publish.actions import Attack, drawn_once, released
from edgeveil.trainer.ext.publish.attack_units import Units, View, units
from edgeveil.trainer.ext.publish.frequency import unique_shown
from edgeveil.trainer.ext.publish.generalise import Generalised
from edgeveil.trainer.ext.publish.levels import normal
from edgeveil.trainer.ext.publish.plan import Plan
from edgeveil.trainer.ext.publish.published import Output, Published, read
from edgeveil.trainer.measures.attack_metrics import FLOOR, counted_prior
from edgeveil.trainer.measures.enough import LEARN_ROWS, LEARN_UNITS
from edgeveil.trainer.progress import progress
from edgeveil.trainer.tensorflow_quiet import load_tensorflow


def summed(question: Question, best: Scored) -> Scored:
    """The scored attack on people; ``best`` attacks rows of ``question``, whose clusters are people."""
    begun = time.perf_counter() - best.row.seconds
    whole, (setting,) = question.whole, question.settings
    parts, probabilities = {}, {}
    for part in ("choose", "test"):
        rows: Released = getattr(best, part)
        # Rows to choose by may be of one person in two folds.
        fold = np.repeat(np.arange(len(setting.folds)), [len(getattr(one, part)) for one in setting.folds])
        if rows.cluster is None:
            raise AssertionError("rows of people have a cluster")
        unit = fold * (int(rows.cluster.max()) + 1) + rows.cluster
        _, first, person = np.unique(unit, return_index=True, return_inverse=True)
        base = whole.counted[rows.y]
        odds = np.log(np.maximum(best.sure[part], FLOOR)) - np.log(np.maximum(base, FLOOR))
        total = np.zeros((len(first), odds.shape[1]))
        np.add.at(total, person.reshape(-1), odds)
        probabilities[part] = special.softmax(total + np.log(np.maximum(base[first], FLOOR)), axis=1)
        parts[part] = Released(np.empty((len(first), 0), np.float32), rows.y[first], rows.z[first])
    return score(
        replace(whole, choose=parts["choose"], test=parts["test"]),
        probabilities,
        name=f"{best.row.name}, summed up over linked frames",
        kind="adaptive",
        learned_on=best.row.learned_on,
        seed=best.row.seed,
        train_samples=best.row.train_samples,
        begun=begun,
    )


# What attacks on a publication may learn by its plan, against what they may have learned.


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
    "points": "attacks may reach {found:.1f} points above y alone (upper end of 95 %)",
    "bits": "attacks may learn {found:.3f} bits (upper end of 95 %)",
}
_GENERALISE = "Drop or generalise columns that tell of it, or publish more people."
_CURE = {
    "columns": _GENERALISE,
    "frames": 'Take a perturber that hides more, or link = "none", or publish more people.',
    "both": _GENERALISE,
}


def exceeded(upper: Mapping[str, float | None], asked: Attack) -> list[dict[str, Any]]:
    """The limits that upper ends do not show to be met."""
    points = [upper[name] for name in ("points", "balanced") if name in upper]
    worst = {"points": None if None in points else max(one for one in points if one is not None)}
    worst["bits"] = upper.get("bits")
    limits = {"points": asked.points, "bits": asked.bits}
    return [
        {"limit": name, "asked": limits[name], "found": high}
        for name, high in worst.items()
        if high is None or high > limits[name]
    ]


# The attack on a whole publication: z from linked frames, from columns, and from both, by the audit's adversaries.
#
# Anyone who is attacked is in no row that an adversary learned on: people are cut into folds, and none is in two. The
# columns alone stand next to the others, for what they tell no perturber hides.


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

    ``copies`` is the document of ``copies``. Raises ``BadInput`` where there are too few people, or no two values.
    """
    z_class, y_class = _classes(asked.sensitive, z), np.zeros(len(z), np.int64)
    if asked.target is not None and y is not None:
        y_class = _classes(asked.target, y)
    published, y_class, z_class, rare = _without_rare(asked, published, y_class, z_class)
    by_unit = units(published, y_class, z_class)
    _require_enough(asked, by_unit)
    if families is None:
        load_tensorflow()
        families = without_d_z(adversaries())
    attackers = tuple(families)
    steps = (len(by_unit.views) + (by_unit.single is not None)) * len(attackers)
    with progress("attack on the publication", total=steps) as advance:

        def ran(view: View) -> tuple[Question, Ran]:
            question = _question(view, asked, seed)
            return question, run(question, seed=seed, families=attackers, done=done_by(advance))

        views = {name: _with_single(name, by_unit, ran, view) for name, view in by_unit.views.items()}
    parts = {name: _part(*one, by_unit.unit, asked, seed) for name, one in views.items()}
    over = [{"view": name, **one} for name, part in parts.items() for one in exceeded(part["verdict"]["upper"], asked)]
    return {
        "sensitive": asked.sensitive,
        "target": asked.target,
        "unit": by_unit.unit,
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
    names, numbers = np.unique([normal(cell) for cell in cells], return_inverse=True)
    if len(names) > FEW_CLASSES:
        raise BadInput(
            f'Column "{column}" has {len(names)} different values, and an attack takes {FEW_CLASSES} at most: group '
            "them in a column of their own."
        )
    return numbers.reshape(-1)


def _without_rare(
    settings: Attack, published: Published, y: np.ndarray, z: np.ndarray
) -> tuple[Published, np.ndarray, np.ndarray, int]:
    """Without the rows of a z that too few people have, and how many values that were."""
    person = published.person
    people = [len(np.unique(person[z == value])) for value in range(int(z.max()) + 1)]
    rare = np.flatnonzero(np.array(people) < FEWEST_OF_A_CLASS)
    frequent = np.flatnonzero(~np.isin(z, rare))
    numbers, z = np.unique(z[frequent], return_inverse=True)
    if len(numbers) < 2:
        raise BadInput(
            f'attack.sensitive = "{settings.sensitive}": two values at least were expected that {FEWEST_OF_A_CLASS} '
            f"people have each; there is {len(numbers) or 'none'}. Name another column, or leave out [attack]."
        )
    return published.take(frequent), y[frequent], z.reshape(-1), len(rare)


def _require_enough(settings: Attack, units: Units) -> None:
    rows = units.views["columns"][1]
    for count, fewest, what in ((len(rows), LEARN_ROWS, "rows"), (units_of(rows), LEARN_UNITS, "people")):
        needed = -(-fewest * FOLDS // (FOLDS - 1)) + 1  # the smallest of the parts to learn on lacks a fold
        if count < needed:
            raise BadInput(
                f'An attack on "{settings.sensitive}" needs {needed} {"people" if units.unit == "person" else what} at '
                f"least; there are {count}, and hundreds are needed to show that little can be read. Publish more, or "
                "leave out [attack]: the card says so."
            )


def _question(view: View, settings: Attack, seed: int) -> Question:
    spec, rows = view
    counted = counted_prior(rows.y, rows.z, (int(rows.y.max()) + 1, int(rows.z.max()) + 1))
    return question_of_fresh(rows, blank(spec, counted, counted, rows, BUDGETS[settings.budget]), seed=seed)


def _with_single(name: str, by_unit: Units, ran: Any, view: View) -> tuple[Question, Ran]:
    """The attacks on a view; on frames also the best one on single frames, summed up over each person's."""
    question, attacks = ran(view)
    if name != "frames" or by_unit.single is None:
        return question, attacks
    of_one, alone = ran(by_unit.single)
    more = () if alone.most_bits is None else (summed(of_one, alone.most_bits),)
    return question, attacks._replace(kept=(*attacks.kept, *more))


def _part(question: Question, ran: Ran, unit: str, settings: Attack, seed: int) -> dict[str, Any]:
    summary = summed_up(question, ran, seed=seed, curve=False)
    test = question.whole.test
    clusters = {"kind": "person", "test": units_of(test)} if unit == "row" and test.cluster is not None else None
    limits = {"attack_points": settings.points, "bits": settings.bits}
    data = {"sensitive": settings.sensitive, "rows": {"test": len(test)}, "clusters": clusters}
    findings = [one.as_json() for one in attacked(summary, settings.sensitive)]
    return {
        "units": len(test),
        "chance": plain(summary.chance._asdict())["majority"],
        "best": _kept(summary.worst_adaptive),
        "adversaries": [_kept(row) for row in summary.rows],
        "not_run": [left._asdict() for left in summary.not_run],
        "warnings": list(summary.warnings),
        "verdict": judge({"findings": findings, "data": data}, limits),
    }


def _kept(row: Row) -> dict[str, Any]:
    facts = {"name": row.name, "kind": row.kind, "train_samples": row.train_samples, **interval(row.right)}
    return plain({**facts, "auc": row.auc, "bits_counted": row.bits_counted.estimate})


def _worst(words: Sequence[str]) -> str:
    return next(word for word in (LEAKS, CANNOT_TELL, NOTHING_FOUND) if word in words)


# Frames of a publication that are records of the archive, bit for bit: of their own person, or of somebody else.
#
# A donor codebook sends another person's record by design. A reader of such a frame reads the donor's z, not that of
# the person whose pseudonym stands next to it, and the donor's record is published unperturbed: both are counted.


def copies(published: Published, records: Iterable[tuple[Hashable, bytes]]) -> dict[str, Any] | None:
    """How many of the ``rows`` that are attacked have a frame that is their ``own`` person's record, how many one of
    ``others`` alone, and of how many ``people`` these are. None where there are no frames.

    ``records`` is the archive: whose each is, by the names of ``published.whose``, and the frame's bytes as the source
    gave it, little-endian.
    """
    frames = next((array for array in published.outputs.values() if array.ndim > 1), None)
    if frames is None:
        return None
    rows_of: dict[bytes, list[int]] = defaultdict(list)
    for row, frame in enumerate(frames):
        rows_of[_digest(frame.astype(frame.dtype.newbyteorder("<")).tobytes())].append(row)
    own: set[int] = set()
    given: dict[int, set[Hashable]] = defaultdict(set)
    for who, data in records:
        for row in rows_of.get(_digest(data), ()):
            if published.whose[row] == who:
                own.add(row)
            else:
                given[row].add(who)
    others = set(given) - own
    people = set().union(*(given[row] for row in others))
    return {"rows": len(frames), "own": len(own), "others": len(others), "people": len(people)}


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


# The attack that a plan asks for, on the files of a publication before it has its name.


def attack_files(
    files: Sequence[Path],
    plan: Plan,
    labels: Mapping[str, Sequence[str]],
    *,
    people: Sequence[Hashable] = (),
    outputs: Sequence[Output] = (),
    records: Iterable[tuple[Hashable, bytes]] = (),
) -> dict[str, Any] | None:
    """The ``attack`` of a publication's statement; None where the plan asks for none.

    ``labels`` are the raw cells of the written rows, one file after the other, of the columns that the plan's attack
    names; ``people``, ``outputs`` and ``records`` as ``read`` and ``copies`` take them. Raises ``BadInput``, and
    ``LimitNotMet`` where attacks may learn more than the plan allows.
    """
    settings = plan.attack
    if settings is None:
        return None
    published = read(files, plan, people, outputs)
    z = [labels[settings.sensitive][row] for row in published.place]
    y = None if settings.target is None else [labels[settings.target][row] for row in published.place]
    document = attack(published, z, settings, y=y, copies=copies(published, records))
    require(document)
    return document


# What a statement says beyond its columns: who is still alone, numbers with noise, and what can be read of people.


def rest_of_statement(
    plan: Plan,
    cells: Cells,
    person: np.ndarray,
    shown: Generalised,
    files: Sequence[Path],
    rows: np.ndarray,
    *,
    outputs: Sequence[Output] = (),
    records: Iterable[tuple[Hashable, bytes]] = (),
    drawn: Path | None = None,
) -> dict[str, Any]:
    """``unique_after``, ``statistics`` and ``attack``; the latter two are None where the plan asks for none.

    ``cells`` and ``person`` (rows,) are of the raw table, ``rows`` (written rows,) the numbers in it of the rows of
    ``files``, one file after the other. ``outputs`` are the files' columns of frames, ``records`` the archive as
    ``copies`` takes it. In the file ``drawn`` what was drawn is kept for a run that goes on.

    Raises ``BadInput``, and ``LimitNotMet`` where attacks may learn more than the plan allows.
    """
    settings, unit = plan.attack, plan.anonymity.unit
    if drawn is None:
        statistics = released(plan.statistics, cells, person, unit=unit)
    else:
        statistics = drawn_once(drawn, plan.statistics, cells, person, unit=unit)
    place = (np.cumsum(shown.rows) - 1)[rows]  # of a written row among those that may be shown
    written = {name: values[place] for name, values in shown.labels.items()}
    named = [] if settings is None else [name for name in (settings.sensitive, settings.target) if name is not None]
    labels = {name: [cells[name][row] for row in rows] for name in named}
    return {
        "unique_after": round(unique_shown(written, person[rows]), 3),
        "statistics": statistics,
        "attack": attack_files(files, plan, labels, people=person[rows].tolist(), outputs=outputs, records=records),
    }
