"""The audit of pairs: samples before a mechanism and what it made of them, attacked, judged and shown as a bundle is.

y is read before and after, and z is attacked before and after, by all families that need no D_z.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.bundle.audit_figures import CANNOT_TELL, LEAKS
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.attacks.ahead import ahead, at_most
from edgeveil.trainer.attacks.families.transfer import Transfer
from edgeveil.trainer.attacks.findings import Journal, Row, Scored
from edgeveil.trainer.attacks.parts import Part, parts
from edgeveil.trainer.attacks.problem import BUDGETS, Budget, Released, blank, units_of
from edgeveil.trainer.attacks.protocol import Adversary
from edgeveil.trainer.attacks.registry import adversaries, meant_for, without_d_z
from edgeveil.trainer.attacks.rows import FOLDS, Question, in_order, question_of_fresh
from edgeveil.trainer.attacks.run_all import attack_all, run, summed_up
from edgeveil.trainer.audit import readers
from edgeveil.trainer.audit.document import Making, attacked, kept_answers
from edgeveil.trainer.audit.findings import RAW, SENT, Finding, findings, guess
from edgeveil.trainer.audit.pairs import Match, Pairs, match, spec, units, without_rare
from edgeveil.trainer.audit.sections import other_attributes
from edgeveil.trainer.audit.sections.other_attributes import Label, Labelled, labels_of
from edgeveil.trainer.audit.verdict import DEFAULT, judge
from edgeveil.trainer.child_processes import Engine
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.datasets.readings import Readings
from edgeveil.trainer.measures.attack_metrics import counted_prior
from edgeveil.trainer.measures.enough import LEARN_ROWS, LEARN_UNITS
from edgeveil.trainer.measures.intervals import Interval
from edgeveil.trainer.progress import progress
from edgeveil.trainer.tensorflow_quiet import load_tensorflow

ENOUGH_ROWS = 5000  # with more, one fold of three has test rows enough; with fewer, each fold is tested in turn
READERS = (*readers.READERS, Transfer())  # of y, and of z in rows before; one learned on rows before, tried on after
NOT_COVERED = (
    "Many samples of one person, linked.",
    "An adversary who knows anything about the sample beyond y and what was given as after.",
    "Attacks stronger than those listed: figures of attacks are lower bounds; only a bound is a guarantee.",
    "Attributes other than z and the further labels that were given.",
    "People, places and sensors unlike those in the data; a device that does not run exactly what made after.",
)


@dataclass(frozen=True)
class _Asked:
    """The settings that all questions of one audit share."""

    budget: Budget
    seed: int
    judged: int

    def pose(self, rows: Released, clean: bool, input_: InputSpec, classes: tuple[int, int]) -> Question:
        counted = counted_prior(rows.y, rows.z, classes)
        bare = blank(input_, counted, counted, rows, self.budget)
        bare = replace(bare, clean=bare.fit) if clean else bare
        return question_of_fresh(rows, bare, seed=self.seed, judged=self.judged)


def audit_pairs(
    pairs: Pairs,
    *,
    name: str = "pairs",
    target: str = "y",
    sensitive: str = "z",
    budget: str = "quick",
    seed: int = 0,
    keep: Path | None = None,
    jobs: int | None = None,
    engine: Engine = "processes",
) -> dict[str, Any]:
    """Attack what a mechanism made of samples, and compare with the samples.

    ``target`` and ``sensitive`` are words for y and z. All families that need no D_z attack z, and ``READERS`` read y
    of both and z of the rows before. All of three folds of the rows are test rows, or one where there are more than
    ``ENOUGH_ROWS`` rows. P(z|y), the chance, is counted on all rows. In the folder ``keep`` each attack's answers are
    kept as it ends, until all is done; the next audit there continues from them. With ``keep``, ``jobs`` and
    ``engine`` are as in ``audit.audit``.
    Returns the document of docs/reference/schemas/audit.schema.json; writes nothing. Raises ``BadInput`` where the rows
    seem not to be in one order, or no class has rows enough.
    """
    making = Making("edgeveil-audit-pairs", budget, seed)
    pairs = without_rare(pairs)
    before, after = pairs.before, pairs.after
    cluster, kind = units(after)
    order = _order(pairs, seed)
    rows = len(after.y)
    count = rows if cluster is None else len(np.unique(cluster))
    # The smallest of the folds to learn on has two thirds of the units.
    needed = {"rows": -(-LEARN_ROWS * FOLDS // (FOLDS - 1)), "units": -(-LEARN_UNITS * FOLDS // (FOLDS - 1)) + 1}
    all_findings: list[Finding] = []
    warnings: tuple[str, ...] = ()
    tested = {"rows": 0, "units": 0}
    if rows >= needed["rows"] and count >= needed["units"]:
        load_tensorflow()
        attackers = without_d_z(meant_for(adversaries(), after.kind))
        answers = nullcontext(Journal(None)) if keep is None else kept_answers(keep)
        jobs = None if jobs is None else at_most(jobs, pairs.before.x.size + after.x.size)
        with (
            answers as journal,
            ahead(jobs, journal, lambda: None, engine=engine),
            progress("audit", total=len(attackers) + 3) as advance,
        ):
            journal.begins = advance.begin
            tries = replace(BUDGETS[budget], journal=journal)
            settings = _Asked(tries, seed, judged=1 if rows > ENOUGH_ROWS else FOLDS)

            def done(rows_found: Sequence[Row]) -> None:
                advance(**({"right": rows_found[0].accuracy} if rows_found else {}))

            all_findings, tested, warnings = _measured(pairs, cluster, settings, attackers, done, (target, sensitive))
    document: dict[str, Any] = {
        **making.fields(),
        "data": {
            "name": name,
            "target": target,
            "sensitive": sensitive,
            "y_classes": len(after.y_names),
            "z_classes": len(after.z_names),
            "rows": {"before": len(before.y), "after": rows, "test": tested["rows"]},
            "clusters": None if kind is None else {"kind": kind, "test": tested["units"], "after": count},
            "shape": {"before": list(before.x.shape[1:]), "after": list(after.x.shape[1:])},
        },
        "order": {"given": pairs.order, **order._asdict()},
        "notes": list(pairs.notes),
        "findings": [one.as_json() for one in all_findings],
        "warnings": list(warnings),
        "intervals": "Wilson" if cluster is None else f"Wilson on the effective number of {kind}s",
        "not_covered": list(NOT_COVERED),
    }
    return {**document, "verdict": _concluded(document, needed, count)}


def _concluded(document: Mapping[str, Any], fewest: Mapping[str, int], count: int) -> dict[str, Any]:
    """The verdict of any audit, at the default limits.

    It is *cannot tell* also where there are fewer than ``fewest`` rows or units, too few to attack, and where no attack
    reads z in the samples before.
    """
    data, clusters = document["data"], document["data"]["clusters"]
    kind = "rows" if clusters is None else f"{clusters['kind']}s"
    if not document["findings"]:
        total = fewest["rows" if clusters is None else "units"]
        reason = (
            f"at least {fewest['rows']} rows of {fewest['units']} {kind} are needed to attack at all, and there are "
            f"{data['rows']['after']} rows of {count}; to show that {data['sensitive']} is hidden takes hundreds"
        )
        judged: dict[str, Any] = {"limit": DEFAULT._asdict(), "upper": {"points": None, "bits": None}, "findings": []}
        judged["needed"] = {"unit": kind, "total": total, "more": max(1, total - count)}
        return {**judged, "word": CANNOT_TELL, "line": reason, "reasons": [reason]}
    judged = judge(document, {})
    every = findings(document)
    place, raw = next((n, one) for n, one in enumerate(every) if (one.of, one.question) == (RAW, data["sensitive"]))
    if judged["word"] != LEAKS and (raw.interval[0] or 0.0) <= guess(document):
        reason = (
            f"no attack surely reads {data['sensitive']} in the rows before, so finding nothing after says nothing "
            "about the mechanism"
        )
        return {**judged, "word": CANNOT_TELL, "line": reason, "findings": [place], "reasons": [reason], "needed": None}
    return judged


def _order(pairs: Pairs, seed: int) -> Match:
    if pairs.order == "shuffled":
        return Match(None, None, "Rows are in another order after: each row has the label that came with it.")
    tested = match(pairs.before.x, pairs.after.x, seed=seed)
    if tested.matched is False and pairs.order == "test":
        raise BadInput(
            f"{tested.sentence} Labels would be those of other rows. Put the rows in one order; give --rows matched if "
            "they surely are; or --rows shuffled if after has labels of its own."
        )
    return tested


def _measured(
    pairs: Pairs,
    cluster: np.ndarray | None,
    asked: _Asked,
    attackers: tuple[Adversary, ...],
    done: Any,
    names: tuple[str, str],
) -> tuple[list[Finding], dict[str, int], tuple[str, ...]]:
    """The findings about y and z of ``names``, how much was tested, and what there is too little of."""
    before, after = pairs.before, pairs.after
    # Where rows have partners of the same shape, adversaries know the samples behind the rows that they learn on.
    known = pairs.order != "shuffled" and before.x.shape[1:] == after.x.shape[1:]
    raw = before.x if known else None
    of_raw = _read(before, units(before)[0], asked, names)
    done([])
    done([])
    input_ = spec(after, [before] if known else [])
    nothing = np.zeros(len(after.y), np.int64)
    y_rows = Released(after.x, nothing, after.y, cluster, raw=raw)
    y_question = asked.pose(y_rows, known, input_, (1, len(after.y_names)))
    of_y = attack_all(y_question, seed=asked.seed, families=READERS, curve=False)
    done([])
    z_rows = Released(after.x, after.y, after.z, cluster, raw=raw)
    z_rows = z_rows if pairs.order == "shuffled" else in_order(z_rows)
    z_question = asked.pose(z_rows, known, input_, (len(after.y_names), len(after.z_names)))
    ran = run(z_question, seed=asked.seed, families=attackers, done=done)
    of_z = summed_up(z_question, ran, seed=asked.seed)
    apart: tuple[Part, ...] = ()
    if ran.most_bits is not None:
        judged = ran.most_bits.judged("choose"), ran.most_bits.judged("test")
        apart = parts(*judged, z_question.whole.counted, {}, rng=np.random.default_rng([asked.seed, 10]))
    transfer = [row for row in of_y.rows if row.kind == "transfer"]
    all_findings = [
        *(_reader(names[0], row, of_y.chance.majority) for row in (of_y.worst_adaptive, *transfer)),
        *attacked(of_z, names[1], apart),
        *_other_attributes(pairs, z_rows, asked, ran.most_bits, z_question.whole.counted, known, input_),
        *of_raw,
    ]
    test = z_question.whole.test
    return all_findings, {"rows": len(test), "units": units_of(test)}, of_z.warnings


def _other_attributes(
    pairs: Pairs,
    z_rows: Released,
    asked: _Asked,
    of_z: Scored | None,
    counted_z: np.ndarray,
    clean: bool,
    input_: InputSpec,
) -> list[Finding]:
    """What else can be read of the rows after; nothing where no other label is known of them."""
    after = pairs.after
    if of_z is None or not after.known:
        return []
    every = np.arange(len(after.y))
    rows = Labelled(after.y, after.z, after.z_names, after.known, {}, learn=every, test=every)
    smaller = replace(asked, budget=other_attributes.quicker(asked.budget))

    def classes(label: Label) -> tuple[int, int]:
        return len(after.y_names), len(label.names)

    def prior_of(label: Label) -> np.ndarray:
        return counted_prior(after.y, label.values, classes(label))

    def pose(label: Label, _counted: np.ndarray) -> Question:
        return smaller.pose(replace(z_rows, z=label.values), clean, input_, classes(label))

    labels = labels_of(rows)
    attacked = other_attributes.attack_labels(labels, of_z, counted_z, prior_of, pose, asked.budget, asked.seed)
    return other_attributes.findings_of(*attacked, asked.seed)


def _read(before: Readings, cluster: np.ndarray | None, asked: _Asked, names: tuple[str, str]) -> list[Finding]:
    """How well y and z are read of samples that nothing was done to."""

    def best(name: str, y: np.ndarray, z: np.ndarray, classes: tuple[int, int]) -> Finding:
        question = asked.pose(Released(before.x, y, z, cluster), False, spec(before), classes)
        attack_findings = attack_all(question, seed=asked.seed, families=READERS, curve=False)
        return _reader(name, attack_findings.worst_adaptive, attack_findings.chance.majority, of=RAW)

    nothing = np.zeros(len(before.y), np.int64)
    counts = len(before.y_names), len(before.z_names)
    return [best(names[0], nothing, before.y, (1, counts[0])), best(names[1], before.y, before.z, counts)]


def _reader(question: str, row: Row, chance: float, *, of: str = SENT) -> Finding:
    """A row of the attacks as what a reader reads."""
    value = Interval(row.accuracy, row.low, row.high)
    facts: dict[str, Any] = {"learned_on": row.learned_on, "seed": row.seed, "of": of, "more": {"kind": "reader"}}
    chosen_by = None if row.kind == "transfer" else row.validation_accuracy
    return Finding.measured(question, row.name, "right", value, null=chance, chosen_by=chosen_by, **facts)
