"""Dropped frames take rows from people: who looks like fewer than k others then is left out as well."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from edgeveil.edge_runtime.errors import LimitNotMet
from edgeveil.trainer.publish.actions import Quasi, Sensitive
from edgeveil.trainer.publish.anonymity.criteria import Criteria
from edgeveil.trainer.publish.anonymity.criteria import Sensitive as Asked
from edgeveil.trainer.publish.anonymity.frequency import Frequencies
from edgeveil.trainer.publish.anonymity.levels import Levels
from edgeveil.trainer.publish.anonymity.suppression import kept
from edgeveil.trainer.publish.people import sensitive_values
from edgeveil.trainer.publish.plan import Plan
from edgeveil.trainer.publish.work.passes.row_table import Rows


def left_out(plan: Plan, work: Path, there: np.ndarray, *, suppressed: int) -> tuple[np.ndarray, int]:
    """The rows of ``there`` (numbers) that are to go, and how many people that is.

    ``suppressed`` people went before. Raises ``LimitNotMet`` where the plan allows no more.
    """
    quasi, sensitive = list(plan.of(Quasi)), plan.of(Sensitive)
    rows = Rows.read(work, [*quasi, *sensitive])
    _, person = np.unique(rows.person[there], return_inverse=True)
    texts = {name: np.array(rows.texts(name), object)[there].tolist() for name in (*quasi, *sensitive)}
    values, asked = {}, {}
    for name, one in sensitive.items():
        values[name], levels = sensitive_values(name, texts[name], one, person)
        asked[name] = Asked(levels, one.distinct_l, one.entropy_l, one.t, one.distance)
    coded = [_coded(texts[name]) for name in quasi]
    frequencies = Frequencies.of(
        plan.anonymity.link, [levels for _, levels in coded], [codes for codes, _ in coded], person, values
    )
    budget = plan.anonymity.suppress - suppressed
    classes = frequencies.classes((0,) * len(quasi))
    staying = kept(frequencies, classes, Criteria(plan.anonymity.k, asked), budget=budget)
    if staying is None:
        raise LimitNotMet(
            f"Without the rows whose frames were dropped, more people than `suppress` allows ({budget} are left of it) "
            "look like too few others: nothing was published. Allow more, or mend the frames."
        )
    return there[~staying[person]], int((~staying).sum())


def _coded(texts: list[str]) -> tuple[np.ndarray, Levels]:
    """Texts as codes of one level: what is published."""
    distinct, codes = np.unique(np.array(texts, object).astype(str), return_inverse=True)
    count = len(distinct)
    return codes, Levels((np.arange(count),), (tuple(map(str, distinct)),), (np.zeros(count),), None)
