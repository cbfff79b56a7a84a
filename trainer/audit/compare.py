"""The audit of pairs: samples before a mechanism and what it made of them, attacked, judged and shown as a bundle is.

y is read before and after, and z is attacked before and after, by all families that need no D_z.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.bundle.audit_figures import CANNOT_TELL, LEAKS
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.attacks.ahead import ahead, at_most
from edgeveil.trainer.attacks.families.transfer import Transfer
from edgeveil.trainer.attacks.findings import Done, Journal, Scored, done_by
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
from edgeveil.trainer.measures.attack_metrics import counted_prior
from edgeveil.trainer.measures.enough import LEARN_ROWS, LEARN_UNITS
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
    """What all questions of one audit share; ``cluster`` (n,) are the units of the rows after, ``names`` those of y and
    z."""

    pairs: Pairs
    cluster: np.ndarray | None
    budget: Budget
    seed: int
    names: tuple[str, str]

    @property
    def known(self) -> bool:
        """Whether rows have partners of their shape: then adversaries know the samples behind those they learn on."""
        pairs = self.pairs
        return pairs.order != "shuffled" and pairs.before.x.shape[1:] == pairs.after.x.shape[1:]

    def pose(
        self, rows: Released, input_: InputSpec, classes: tuple[int, int], budget: Budget | None = None
    ) -> Question:
        """What is z of the rows, given y?"""
        counted = counted_prior(rows.y, rows.z, classes)
        bare = blank(input_, counted, counted, rows, budget or self.budget)
        bare = bare if rows.raw is None else replace(bare, clean=bare.fit)
        judged = 1 if len(self.pairs.after.y) > ENOUGH_ROWS else FOLDS
        return question_of_fresh(rows, bare, seed=self.seed, judged=judged)

    def read(
        self, name: str, rows: Released, input_: InputSpec, classes: tuple[int, int], of: str = SENT
    ) -> list[Finding]:
        """How often the best of ``READERS`` reads z of the rows, and one that learned on the samples behind them."""
        found = attack_all(self.pose(rows, input_, classes), seed=self.seed, families=READERS, curve=False)
        best, transfer = found.worst_adaptive, (row for row in found.rows if row.kind == "transfer")
        readings = [(best, best.validation_accuracy), *((row, None) for row in transfer)]
        measured = partial(Finding.measured, name, null=found.chance.majority, of=of, more={"kind": "reader"})
        return [
            measured(row.name, "right", row.right, chosen_by=by, learned_on=row.learned_on, seed=row.seed)
            for row, by in readings
        ]

    def findings(
        self, attackers: tuple[Adversary, ...], done: Done
    ) -> tuple[list[Finding], dict[str, int], tuple[str, ...]]:
        """The findings about y and z, how much was tested, and what there is too little of."""
        (y, z), before, after = self.names, self.pairs.before, self.pairs.after
        classes = len(before.y_names), len(before.z_names)
        rows = Released(before.x, before.y, before.z, units(before)[0])
        of_raw = [
            *self.read(y, _about_y(rows), spec(before), (1, classes[0]), RAW),
            *self.read(z, rows, spec(before), classes, RAW),
        ]
        done([])
        done([])
        classes, input_ = (len(after.y_names), len(after.z_names)), spec(after, [before] if self.known else [])
        rows = Released(after.x, after.y, after.z, self.cluster, raw=before.x if self.known else None)
        of_y = self.read(y, _about_y(rows), input_, (1, classes[0]))
        done([])
        rows = rows if self.pairs.order == "shuffled" else in_order(rows)
        question = self.pose(rows, input_, classes)
        ran = run(question, seed=self.seed, families=attackers, done=done)
        of_z, most = summed_up(question, ran, seed=self.seed), ran.most_bits
        apart: tuple[Part, ...] = ()
        others: list[Finding] = []
        if most is not None:
            judged, rng = (most.judged("choose"), most.judged("test")), np.random.default_rng([self.seed, 10])
            apart = parts(*judged, question.whole.counted, {}, rng=rng)
            others = self.other_attributes(rows, most, question.whole.counted, input_)
        test = question.whole.test
        tested = {"rows": len(test), "units": units_of(test)}
        return [*of_y, *attacked(of_z, z, apart), *others, *of_raw], tested, of_z.warnings

    def other_attributes(self, rows: Released, of_z: Scored, counted_z: np.ndarray, input_: InputSpec) -> list[Finding]:
        """What else can be read of the rows after; nothing where no other label is known of them."""
        after, every = self.pairs.after, np.arange(len(self.pairs.after.y))
        if not after.known:
            return []

        def classes(label: Label) -> tuple[int, int]:
            return len(after.y_names), len(label.names)

        def prior_of(label: Label) -> np.ndarray:
            return counted_prior(after.y, label.values, classes(label))

        def pose(label: Label, _counted: np.ndarray) -> Question:
            smaller = other_attributes.quicker(self.budget)
            return self.pose(replace(rows, z=label.values), input_, classes(label), smaller)

        labels = labels_of(Labelled(after.y, after.z, after.z_names, after.known, {}, learn=every, test=every))
        found = other_attributes.attack_labels(labels, of_z, counted_z, prior_of, pose, self.budget, self.seed)
        return other_attributes.findings_of(*found, self.seed)


def _about_y(rows: Released) -> Released:
    """The same rows, whose z is y, with nothing known."""
    return replace(rows, y=np.zeros(len(rows), np.int64), z=rows.y)


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
            asked = _Asked(pairs, cluster, replace(BUDGETS[budget], journal=journal), seed, (target, sensitive))
            all_findings, tested, warnings = asked.findings(attackers, done_by(advance))
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
