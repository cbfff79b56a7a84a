"""What is said of a publication: each column and what became of it, k, l and t, and what is not promised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgeveil.trainer.publish.actions import Keep, Pseudonym, Quasi, Sensitive
from edgeveil.trainer.publish.anonymity.frequency import Frequencies
from edgeveil.trainer.publish.anonymity.generalise import Column, Generalised
from edgeveil.trainer.publish.anonymity.loss import discernibility, unique_people, uniqueness
from edgeveil.trainer.publish.plan import Plan

MOST_SHOWN = 5  # combinations of columns of each size, the most telling ones
LIMITS = (
    "k-anonymity guards against singling a person out by the columns called quasi. It does not guard against somebody "
    "who knows more of a person than these, against inference where a class agrees, or across two publications of one "
    "table.",
    "Columns that are kept, sensitive or the target are published as they are; whoever knows them of a person may find "
    "that person by them.",
    "Pseudonyms are deterministic: equal identifiers stay equal, and how often each occurs shows.",
)


def document(
    raw: Frequencies, plan: Plan, shown: Generalised, found: Mapping[str, float], columns: Sequence[Column]
) -> dict[str, Any]:
    """The statement as JSON has it, but for recipient and table. ``found`` is of the independent reader."""
    names = [column.name for column in columns]
    alone = sorted(uniqueness(raw, names), key=lambda pair: (len(pair[0]), -pair[1]))
    by_count = [[pair for pair in alone if len(pair[0]) == count][:MOST_SHOWN] for count in (1, 2, 3)]
    asked = plan.anonymity
    return {
        "schema": 1,
        "kind": "publication",
        "plan_sha256": plan.sha256,
        "link": asked.link,
        "asked": {"k": asked.k, "suppress": asked.suppress, **_asked(plan)},
        "found": {name: round(value, 6) for name, value in found.items()},
        "suppressed_people": 5 * round(shown.suppressed / 5),
        "generalised": dict(shown.facts),
        "loss": {
            "mean": round(shown.loss(columns), 4),
            "columns": {name: round(value, 4) for name, value in shown.losses.items()},
            "discernibility": discernibility(shown.labels, shown.rows),
        },
        "unique_before": {
            "all": round(unique_people(raw), 3),
            "most_telling": [
                {"columns": list(which), "share": round(share, 3)} for part in by_count for which, share in part
            ],
        },
        "columns": {name: _became(column) for name, column in plan.columns.items()},
        "limits": list(LIMITS),
    }


def _asked(plan: Plan) -> dict[str, float]:
    keys = ("distinct_l", "entropy_l", "t")
    sensitive = plan.of(Sensitive).items()
    return {
        f"{name}.{key}": getattr(one, key) for name, one in sensitive for key in keys if getattr(one, key) is not None
    }


def _became(column: Any) -> str:
    if isinstance(column, Keep):
        return f"kept: {column.reason}"
    if isinstance(column, Pseudonym):
        return f"pseudonym ({column.mode}, epoch {column.epoch})"
    if isinstance(column, Quasi):
        return f"generalised ({column.hierarchy.kind})"
    return {"drop": "dropped", "sensitive": "sensitive, as it was", "target": "target, as it was"}[column.action]
