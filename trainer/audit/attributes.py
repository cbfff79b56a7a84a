"""Of a joint y or z, each attribute by itself: how often it is kept, and how often it is read.

A reader or an attack on the joint class answers for each attribute too, by the marginal of its probabilities. Which of
them is best is chosen for each attribute on validation rows. An attack on the attribute alone, among few classes, may
find more than one on the joint class, so it is one of them (``other_attributes``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from edgeveil.edge_runtime.bundle.audit_figures import HIDDEN, KEPT
from edgeveil.trainer.attacks.findings import Scored
from edgeveil.trainer.attacks.problem import Released
from edgeveil.trainer.attacks.rows import prior
from edgeveil.trainer.audit.findings import Finding
from edgeveil.trainer.datasets.base import Dataset, Joint
from edgeveil.trainer.measures import intervals
from edgeveil.trainer.measures.attack_metrics import bits_beyond, chance


class Answers(NamedTuple):
    """What a reader or an attack says of rows to ``choose`` by and of ``test`` rows: ``p`` (n, classes) for each.

    The rows' z is what it was asked about: the joint class, or one attribute.
    """

    name: str
    learned_on: str
    seed: int | None
    rows: Mapping[str, Released]
    p: Mapping[str, np.ndarray]

    @classmethod
    def of_attack(cls, attack: Scored) -> Answers:
        """Of an attack that was calibrated."""
        row, rows = attack.row, {"choose": attack.choose, "test": attack.test}
        return cls(row.name, row.learned_on, row.seed, rows, attack.sure)

    def about(self, classes: np.ndarray) -> Answers:
        """Of one attribute: ``classes`` (joint classes, classes of the attribute) as ``Joint`` gives them."""
        number = classes.argmax(axis=1)
        rows = {part: replace(one, z=number[one.z]) for part, one in self.rows.items()}
        return self._replace(rows=rows, p={part: p @ classes for part, p in self.p.items()})

    def right(self, part: str) -> np.ndarray:
        """Whether its best guess is right, of each row (n,) of a part."""
        return np.asarray(self.p[part].argmax(axis=1) == self.rows[part].z)

    def bits(self, part: str, counted: np.ndarray) -> intervals.Interval:
        """Bits per row of a part beyond ``counted`` (classes of y, classes)."""
        rows = self.rows[part]
        return bits_beyond(counted, self.p[part], rows.y, rows.z, rows.cluster)


def hidden(dataset: Dataset, attacks: Sequence[Scored], alone: Mapping[str, Scored]) -> list[Finding]:
    """How each attribute of a joint z is read by the best of ``attacks`` on z and of that on it ``alone``, by name.

    The null is the better guess from y alone, by the public prior and by counting, as for z itself. None where z is one
    attribute, or nothing attacked.
    """
    joint, on_z = dataset.joint.get("z"), [Answers.of_attack(one) for one in attacks if one.row.kind == "adaptive"]
    found: list[Finding] = []
    for name, classes in joint if joint is not None and on_z else ():
        tried = [one.about(classes) for one in on_z]
        tried += [Answers.of_attack(alone[name])] if name in alone else []
        counted = prior(dataset) @ classes
        found.append(_right(name, HIDDEN, tried, dataset.theta @ classes, counted))
        most = max(tried, key=lambda one: one.bits("choose", counted).estimate)
        facts = {"learned_on": most.learned_on, "seed": most.seed, "more": {"kind": HIDDEN}}
        found.append(Finding.measured(name, most.name, "bits-counted", most.bits("test", counted), null=0.0, **facts))
    return found


def kept(joint: Joint | None, readers: Iterable[Answers], counted: np.ndarray) -> list[Finding]:
    """How each attribute of a joint y is kept by the best of ``readers`` of y; ``counted`` (1, joint classes) is P(y).

    None where y is one attribute.
    """
    every, parts = list(readers), iter(joint or ())
    return [_right(name, KEPT, [one.about(of) for one in every], *[counted @ of] * 2) for name, of in parts]


def _right(name: str, kind: str, tried: Sequence[Answers], theta: np.ndarray, counted: np.ndarray) -> Finding:
    """How often the best of ``tried`` is right; the null is the better guess by one of both tables, P(attribute|y)."""
    best = max(tried, key=lambda one: float(one.right("choose").mean()))
    rows = best.rows["test"]
    facts = {"learned_on": best.learned_on, "seed": best.seed, "chosen_by": float(best.right("choose").mean())}
    null = max(chance(theta, counted, rows.y, rows.z))
    right = intervals.rate(best.right("test"), rows.cluster)
    return Finding.measured(name, best.name, "right", right, null=null, rows=len(rows), more={"kind": kind}, **facts)
