"""The page docs/results/ethos-u.md, on Ethos-U NPUs, from its records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scripts.reproduce.pages.rendering import alike, recipes, render, write_from

NAME = "ethos-u"
RECORD, PAGE = Path("docs/results/devices/ethos-u.json"), Path("docs/results/ethos-u.md")
MICRO = RECORD.with_name("tflite-micro.json")


def page(record: dict[str, Any]) -> str:
    """The page on Ethos-U NPUs as Markdown; recipes with the same network share a row."""
    rows = [
        [
            recipes(same),
            f"{same[0]['macs'] / 1e6:,.3f}",
            *(f"{one['on_npu']} of {one['on_npu'] + one['on_cpu']}, {one['ms']:.3f}" for one in same[0]["on"]),
        ]
        for same in alike(record["rows"], "on")
    ]
    systems = ", ".join(f"{one['system']} ({one['clock_mhz']:.0f} MHz)" for one in record["rows"][0]["on"])
    micro = json.loads(MICRO.read_text()) if MICRO.is_file() else {"rows": []}
    told = {
        "micro": micro,
        "aborted": [row for row in micro["rows"] if "did_not_run" in row],
        "apart": [
            [recipes(same), f"{same[0]['differ']} of {same[0]['values']}", str(same[0]["steps"])]
            for same in alike([row for row in micro["rows"] if row.get("differ")], "differ", "values", "steps")
        ],
        "differ": sum(bool(row.get("differ")) for row in micro["rows"]),
        "equal": sum(row.get("differ") == 0 for row in micro["rows"]),
    }
    return render("ethos-u", record=record, rows=rows, systems=systems, **told)


def write() -> None:
    """Write the page, where its record is."""
    write_from(RECORD, PAGE, page)
