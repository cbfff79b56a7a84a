"""The page docs/results/rk3588.md, on the NPU of the RK3588, from its record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scripts.reproduce.pages.rendering import alike, recipes, render, write_from

NAME = "rk3588"
RECORD, PAGE = Path("docs/results/devices/rk3588.json"), Path("docs/results/rk3588.md")


def page(record: dict[str, Any]) -> str:
    """The page on the RK3588 as Markdown; recipes with the same figures share a row."""
    made = [row for row in record["rows"] if "not_compiled" not in row]
    rows = [
        [
            recipes(same),
            str(same[0]["on_npu"]),
            ", ".join(same[0]["on_cpu"]) or "nothing",
            f"{100 * max(one['max'] for one in same[0]['outputs']):.2f} %",
            f"{100 * max(one['mean'] for one in same[0]['outputs']):.3f} %",
        ]
        for same in alike(made, "on_npu", "on_cpu", "outputs")
    ]
    failed = [row for row in record["rows"] if "not_compiled" in row]
    return render("rk3588", record=record, rows=rows, failed=failed)


def write() -> None:
    """Write the page, where its record is."""
    write_from(RECORD, PAGE, page)
