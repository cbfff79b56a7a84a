"""audit.json and report.html of an audit of samples before and after a mechanism."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.storage.atomic import file_place, write_atomic
from edgeveil.trainer.audit.before_after.pairs_text import utility_lines
from edgeveil.trainer.audit.document import same
from edgeveil.trainer.audit.verdict import CANNOT_TELL, HOLDS, LEAKS
from edgeveil.trainer.report.card_page import environment
from edgeveil.trainer.report.page_facts import GROUPS

TONES = {LEAKS: ("bad", "It leaks"), HOLDS: ("good", "No attack found reads it"), CANNOT_TELL: ("some", "Cannot tell")}


def render_pairs(document: Mapping[str, Any]) -> str:
    """The page, one file without pictures of samples; every value is escaped."""
    tone, words = TONES[document["verdict"]["word"]]
    groups: list[dict[str, Any]] = []
    for kind, title in GROUPS:
        rows = [
            {**row, "best": same(row, document["worst_adaptive"])}
            for row in document["adversaries"]
            if row["kind"] == kind
        ]
        if rows:
            groups.append({"title": title, "rows": sorted(rows, key=lambda row: -row["accuracy"])})
    machine = document["machine"]
    facts = [
        ("Rows", f"{document['data']['rows']['before']:,} before, {document['data']['rows']['after']:,} after"),
        ("Units", f"{document['data']['units']['count']:,} {document['data']['units']['kind']}"),
        ("Order", document["order"]["sentence"]),
        *(("Note", note) for note in document["notes"]),
        *(("Too little", warning) for warning in document["warnings"]),
        ("Adversaries", f"{document['budget']} budget, seed {document['seed']}, {document['wall_time_s']:.0f} s"),
        ("Machine", f"{machine['system']} {machine['architecture']}, {machine['cores']} cores"),
        ("Versions", ", ".join(f"{name} {version}" for name, version in sorted(document["versions"].items()))),
    ]
    return (
        environment()
        .get_template("pairs.html")
        .render(
            audit=document,
            data=document["data"],
            tone=tone,
            verdict=words,
            groups=groups,
            utility=[] if document["utility"] is None else utility_lines(document),
            facts=facts,
        )
    )


def write_pairs_report(document: Mapping[str, Any], folder: Path) -> tuple[Path, Path]:
    """Write both files into ``folder``, which is made where it is not there; earlier ones get a dated name.

    Raises ``BadInput``.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"--out: the folder {folder} cannot be made ({error.strerror}). Name another.") from None
    data, page = folder / "audit.json", folder / "report.html"
    text = json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n"
    file_place(page)
    write_atomic(data, text.encode(), keep_old=True)
    write_atomic(page, render_pairs(document).encode(), keep_old=True)
    return data, page
