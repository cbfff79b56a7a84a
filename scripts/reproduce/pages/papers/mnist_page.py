"""The page docs/results/mnist.md from the recorded run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scripts.reproduce.pages.four_slices_page import noted
from scripts.reproduce.pages.rendering import render, write_from

NAME = "mnist"
RECORD, PAGE = Path("docs/results/privacy/mnist-prgan.json"), Path("docs/results/mnist.md")


def page(record: dict[str, Any]) -> str:
    """The page on MNIST as Markdown."""
    audits = record["audits"]
    rows = [(name, audits[name]) for name in ("keras", "tflite-float32", "tflite-int8", "onnx-float32")]
    rows.append(("label-only", audits["tflite-int8"]["label_only"]))
    bench = list(record["bench"].items())
    return noted(render("mnist", record=record, shipped=audits["tflite-int8"], rows=rows, bench=bench), record)


def write() -> None:
    """Write the page, where its record is."""
    write_from(RECORD, PAGE, page)
