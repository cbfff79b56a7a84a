"""The verdict of an audit of pairs: the rule of a bundle's audit, and what it cannot be given for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.attacks.families.boosting import GradientBoosting
from edgeveil.trainer.attacks.families.cnn import BatchNormCNN
from edgeveil.trainer.attacks.families.code_counts import CodeCounts
from edgeveil.trainer.attacks.families.forest import Forest
from edgeveil.trainer.attacks.families.lda import ShrinkageLDA
from edgeveil.trainer.attacks.families.logistic import Logistic
from edgeveil.trainer.attacks.families.mlp import BatchNormMLP
from edgeveil.trainer.attacks.families.transfer import Transfer
from edgeveil.trainer.attacks.findings import Journal, Row, Scored
from edgeveil.trainer.attacks.parts import Part, parts
from edgeveil.trainer.attacks.problem import BUDGETS, FEWEST_ROWS, FEWEST_UNITS, Budget, Released, blank, units_of
from edgeveil.trainer.attacks.protocol import Adversary
from edgeveil.trainer.attacks.registry import adversaries, meant_for, without_d_z
from edgeveil.trainer.attacks.rows import FOLDS, Question, in_order, question_of_fresh
from edgeveil.trainer.attacks.run_all import attack_all, run, summed_up
from edgeveil.trainer.audit.card import rate
from edgeveil.trainer.audit.document import Audited, Making, interval, kept_answers, same
from edgeveil.trainer.audit.pairs import Match, Pairs, match, spec, units, without_rare
from edgeveil.trainer.audit.sections import what_else
from edgeveil.trainer.audit.sections.what_else import Label, Labelled, labels_of
from edgeveil.trainer.audit.verdict import (
    CANNOT_TELL,
    DEFAULT,
    HEAD,
    HOLDS,
    LEAKS,
    attack_line,
    guess,
    judge,
    notes,
    percent,
    what_else_lines,
)
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.datasets.readings import Readings
from edgeveil.trainer.measures.attack_metrics import counted_prior
from edgeveil.trainer.measures.intervals import Interval
from edgeveil.trainer.progress import progress
from edgeveil.trainer.tensorflow_quiet import load_tensorflow


def concluded(document: Mapping[str, Any], fewest: Mapping[str, int]) -> dict[str, Any]:
    """The ``verdict`` of docs/reference/schemas/audit.schema.json, at the default limits.

    It is *cannot tell* also where there are fewer than ``fewest`` rows or units, too few to attack, and where no attack
    reads z in the samples before.
    """
    data, count = document["data"], document["data"]["units"]["count"]
    kind = data["units"]["kind"]
    if document["worst_adaptive"] is None:
        total = fewest["rows" if kind == "rows" else "units"]
        return {
            "word": CANNOT_TELL,
            "limit": {"points": DEFAULT.points, "bits": DEFAULT.bits},
            "reasons": [
                f"at least {fewest['rows']} rows of {fewest['units']} {kind} are needed to attack at all, and there "
                f"are {data['rows']['after']} rows of {count}; to say that z is hidden takes hundreds"
            ],
            "upper": {"points": None, "bits": None},
            "fresh": False,
            "needed": {"unit": kind, "total": total, "more": max(1, total - count)},
        }
    tested = document["test"]
    clusters = None if kind == "rows" else {"kind": kind.removesuffix("s"), "test": tested["units"]}
    found = judge(document, {}, {"rows": {"test": tested["rows"]}, "clusters": clusters})
    if found["word"] != LEAKS and document["raw"]["sensitive"]["low"] <= guess(document):
        reason = (
            f"no attack surely reads {data['sensitive']} in the rows before, so finding nothing after says nothing "
            "about the mechanism"
        )
        return {**found, "word": CANNOT_TELL, "reasons": [reason], "needed": None}
    return found


def sentence(document: Mapping[str, Any]) -> str:
    """The verdict, its reasons, and what the best attack found reads."""
    found, worst, data = document["verdict"], document["worst_adaptive"], document["data"]
    why = "; ".join(found["reasons"])
    within = f"{found['limit']['points']:g} points and {found['limit']['bits']:g} bits"
    needed = found["needed"]
    more = "" if needed is None else f"; about {needed['more']:,} more {needed['unit']} would be needed"
    if worst is None:
        return f"Cannot tell: {why}{more}."
    attack = (
        f"the best attack found ({worst['name']}, retrained on {worst['train_samples']:,} rows after) reads "
        f"{data['sensitive']} right {percent(worst['accuracy'])} of the time (95 % interval "
        f"{100 * worst['low']:.1f} to {percent(worst['high'])}), where guessing from {data['target']} alone is right "
        f"{percent(guess(document))} and an attack on rows before {percent(document['raw']['sensitive']['accuracy'])}"
    )
    clean = [row["accuracy"] for row in document["adversaries"] if row["kind"] == "transfer"]
    if clean and max(clean) > worst["accuracy"]:
        attack += f", and one who learned on rows before alone {percent(max(clean))}"
    if found["word"] == LEAKS:
        return f"It leaks: {attack}; {why}."
    if found["word"] == HOLDS:
        return f"It holds to within {within}: {attack}. A lower bound on what leaks, not a guarantee."
    return f"Cannot tell whether it holds to within {within}: {attack}; {why}{more}."


# The audit of pairs: y read before and after, z attacked before and after, and the verdict.

ENOUGH_ROWS = 5000  # with more, one fold of three has test rows enough; with fewer, each fold is tested in turn
READERS: tuple[Adversary, ...] = (
    Logistic(),
    ShrinkageLDA(),
    GradientBoosting(),
    Forest(),
    CodeCounts(),
    BatchNormMLP(),
    BatchNormCNN(),
    Transfer(),  # trained on rows before, tried on rows after
)  # of y, and of z in rows before: a reference needs no more
NOT_COVERED = (
    "Many samples of one person, linked.",
    "An adversary who knows anything about the sample beyond y and what was given as after.",
    "Attacks stronger than those listed: every number is a lower bound on what leaks, not a guarantee.",
    "Attributes other than z and the further labels that were given.",
    "People, places and sensors unlike those in the data; a device that does not run exactly what made after.",
)


@dataclass(frozen=True)
class _Asked:
    """The settings that all questions of one audit share."""

    budget: Budget
    seed: int
    judged: int

    def of(self, rows: Released, clean: bool, input_: InputSpec, classes: tuple[int, int]) -> Question:
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
    resume: bool = False,
) -> dict[str, Any]:
    """Attack what a mechanism made of samples, and compare with the samples.

    ``target`` and ``sensitive`` are words for y and z. All families that need no D_z attack z, and ``READERS`` read y
    of both and z of the rows before. All of three folds of the rows are test rows, or one where there are more than
    ``ENOUGH_ROWS`` rows. P(z|y), the chance, is counted on all rows. In the folder ``keep`` each attack's answers are
    kept as it ends, until all is done; ``resume`` continues from them.
    Returns the document of docs/reference/schemas/pairs.schema.json; writes nothing. Raises ``BadInput`` where the rows
    seem not to be in one order, or no class has rows enough.
    """
    making = Making("edgeveil-audit-pairs", budget, seed)
    pairs = without_rare(pairs)
    before, after = pairs.before, pairs.after
    cluster, kind = units(after)
    order = _order(pairs, seed)
    rows = len(after.y)
    count = rows if cluster is None else len(np.unique(cluster))
    document: dict[str, Any] = {
        "data": {
            "name": name,
            "target": target,
            "sensitive": sensitive,
            "y_classes": len(after.y_names),
            "z_classes": len(after.z_names),
            "rows": {"before": len(before.y), "after": rows},
            "units": {"kind": f"{kind}s" if kind else "rows", "count": count},
            "shape": {"before": list(before.x.shape[1:]), "after": list(after.x.shape[1:])},
        },
        "order": {"given": pairs.order, **order._asdict()},
        "notes": list(pairs.notes),
    }
    # The smallest of the folds to learn on has two thirds of the units.
    needed = {"rows": -(-FEWEST_ROWS * FOLDS // (FOLDS - 1)), "units": -(-FEWEST_UNITS * FOLDS // (FOLDS - 1)) + 1}
    found: dict[str, Any]
    if rows < needed["rows"] or count < needed["units"]:
        names = "target chance worst_adaptive most_bits learning_curve permutation raw utility what_else"
        found = {**dict.fromkeys(names.split()), "adversaries": [], "not_run": [], "warnings": []}
        found["test"] = {"rows": 0, "units": 0}
    else:
        load_tensorflow()
        attackers = without_d_z(meant_for(adversaries(), after.kind))
        answers = nullcontext(Journal(None)) if keep is None else kept_answers(keep, resume=resume)
        with answers as journal, progress("audit", total=len(attackers) + 3) as advance:
            journal.begins = advance.begin
            tries = replace(BUDGETS[budget], journal=journal)
            asked = _Asked(tries, seed, judged=1 if rows > ENOUGH_ROWS else FOLDS)

            def done(rows_found: Sequence[Row]) -> None:
                advance(**({"right": rows_found[0].accuracy} if rows_found else {}))

            found = _measured(pairs, cluster, asked, attackers, done)
    document |= {
        **making.fields(),
        **found,
        "intervals": "Wilson" if cluster is None else f"Wilson on the effective number of {kind}s",
        "not_covered": list(NOT_COVERED),
    }
    document["verdict"] = concluded(document, needed)
    return {**document, "sentence": sentence(document)}


def _order(pairs: Pairs, seed: int) -> Match:
    if pairs.order == "shuffled":
        return Match(None, None, "Rows are in another order after: each row has the label that came with it.")
    found = match(pairs.before.x, pairs.after.x, seed=seed)
    if found.matched is False and pairs.order == "test":
        raise BadInput(
            f"{found.sentence} Labels would be those of other rows. Put the rows in one order; give --rows matched if "
            "they surely are; or --rows shuffled if after has labels of its own."
        )
    return found


def _measured(
    pairs: Pairs,
    cluster: np.ndarray | None,
    asked: _Asked,
    attackers: tuple[Adversary, ...],
    done: Any,
) -> dict[str, Any]:
    before, after = pairs.before, pairs.after
    # Where rows have partners of the same shape, adversaries know the samples behind the rows that they learn on.
    known = pairs.order != "shuffled" and before.x.shape[1:] == after.x.shape[1:]
    raw = before.x if known else None
    target, sensitive = _read(before, units(before)[0], asked)
    done([])
    done([])
    input_ = spec(after, [before] if known else [])
    nothing = np.zeros(len(after.y), np.int64)
    y_rows = Released(after.x, nothing, after.y, cluster, raw=raw)
    y_question = asked.of(y_rows, known, input_, (1, len(after.y_names)))
    of_y = attack_all(y_question, seed=asked.seed, families=READERS, curve=False)
    done([])
    z_rows = Released(after.x, after.y, after.z, cluster, raw=raw)
    z_rows = z_rows if pairs.order == "shuffled" else in_order(z_rows)
    z_question = asked.of(z_rows, known, input_, (len(after.y_names), len(after.z_names)))
    ran = run(z_question, seed=asked.seed, families=attackers, done=done)
    of_z = summed_up(z_question, ran, seed=asked.seed)
    apart: tuple[Part, ...] = ()
    if ran.most_bits is not None:
        judged = ran.most_bits.judged("choose"), ran.most_bits.judged("test")
        apart = parts(*judged, z_question.whole.counted, {}, rng=np.random.default_rng([asked.seed, 10]))
    transfer = next((row for row in of_y.rows if row.kind == "transfer"), None)
    return {
        **Audited(_rate(of_y.worst_adaptive), of_z, ran.most_bits, apart).as_dict(),
        "what_else": _what_else(pairs, z_rows, asked, ran.most_bits, z_question.whole.counted, known, input_),
        "test": {"rows": len(z_question.whole.test), "units": units_of(z_question.whole.test)},
        "raw": {"target": interval(target), "sensitive": interval(sensitive)},
        "utility": {
            "chance": of_y.chance.majority,
            "before": interval(target),
            "after": {**interval(_rate(of_y.worst_adaptive)), "by": of_y.worst_adaptive.name},
            "trained_on_before": None if transfer is None else interval(_rate(transfer)),
        },
    }


def _what_else(
    pairs: Pairs,
    z_rows: Released,
    asked: _Asked,
    of_z: Scored | None,
    counted_z: np.ndarray,
    clean: bool,
    input_: InputSpec,
) -> dict[str, Any] | None:
    """What else can be read of the rows after; None where no other label is known of them."""
    after = pairs.after
    if of_z is None or not after.known:
        return None
    every = np.arange(len(after.y))
    rows = Labelled(after.y, after.z, after.z_names, after.known, {}, learn=every, test=every)
    smaller = replace(asked, budget=what_else.quicker(asked.budget))

    def classes(label: Label) -> tuple[int, int]:
        return len(after.y_names), len(label.names)

    def prior_of(label: Label) -> np.ndarray:
        return counted_prior(after.y, label.values, classes(label))

    def posed(label: Label, _counted: np.ndarray) -> Question:
        return smaller.of(replace(z_rows, z=label.values), clean, input_, classes(label))

    return what_else.asked(labels_of(rows), of_z, counted_z, prior_of, posed, asked.budget, asked.seed)


def _read(before: Readings, cluster: np.ndarray | None, asked: _Asked) -> tuple[Interval, Interval]:
    """How well y and z are read of samples that nothing was done to."""

    def best(y: np.ndarray, z: np.ndarray, classes: tuple[int, int]) -> Interval:
        question = asked.of(Released(before.x, y, z, cluster), False, spec(before), classes)
        return _rate(attack_all(question, seed=asked.seed, families=READERS, curve=False).worst_adaptive)

    nothing = np.zeros(len(before.y), np.int64)
    counts = len(before.y_names), len(before.z_names)
    return best(nothing, before.y, (1, counts[0])), best(before.y, before.z, counts)


def _rate(row: Row) -> Interval:
    return Interval(row.accuracy, row.low, row.high)


# The document of an audit of pairs as text for a terminal.


def as_text(document: Mapping[str, Any]) -> str:
    """The verdict first, then what it rests on."""
    data = document["data"]
    lines = [
        document["sentence"],
        "",
        f"{data['name']}: {data['rows']['after']:,} rows after of {data['units']['count']:,} {data['units']['kind']}, "
        f"{document['test']['rows']:,} of them tested, {document['budget']} audit, 95 % intervals "
        f"({document['intervals']})",
        document["order"]["sentence"],
        *document["notes"],
    ]
    if document["worst_adaptive"] is not None:
        chance = document["chance"]
        lines += [
            "",
            *utility_lines(document),
            f"{data['sensitive']} right before, {rate(document['raw']['sensitive'])}; chance: prior "
            f"{percent(chance['prior'])}, majority {percent(chance['majority'])}; after:",
            HEAD,
            *(attack_line(row, best=same(row, document["worst_adaptive"])) for row in document["adversaries"]),
            *notes(document),
            *what_else_lines(document),
        ]
    return "\n".join(lines)


def utility_lines(document: Mapping[str, Any]) -> list[str]:
    """How well y is read before and after."""
    target, found = document["data"]["target"], document["utility"]
    lines = [
        f"{target} right before: {rate(found['before'])} (guessing: {percent(found['chance'])})",
        f"{target} right after: {rate(found['after'])} ({found['after']['by']}, trained on rows after)",
    ]
    if found["trained_on_before"] is not None:
        lines.append(
            f"{target} right after, by a classifier trained on rows before: {rate(found['trained_on_before'])}"
        )
    return lines
