"""Writes docs/results-mnist.md from its record; no measured number in it is typed by hand."""

import json
from pathlib import Path
from typing import Any

import jinja2

RECORD = Path("docs/results/privacy/mnist-prgan.json")
TEMPLATES = Path(__file__).parent / "templates"
PAGE = Path("docs/results-mnist.md")


def rate(value: dict[str, Any]) -> str:
    """An accuracy in % with its 95 % interval."""
    return f"{100 * value['accuracy']:.1f} [{100 * value['low']:.1f}, {100 * value['high']:.1f}]"


def share(value: float) -> str:
    """A share in %."""
    return f"{100 * value:.1f}"


def strongest(document: dict[str, Any], kind: str) -> dict[str, Any]:
    """The adversary of that kind which was right most often."""
    return max((row for row in document["adversaries"] if row["kind"] == kind), key=lambda row: row["accuracy"])


def page(record: dict[str, Any]) -> str:
    """The whole page as Markdown."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=jinja2.select_autoescape(),
    )
    environment.filters.update(rate=rate, share=share, strongest=strongest)
    audits = record["audits"]
    rows = [(name, audits[name]) for name in ("keras", "tflite-float32", "tflite-int8", "onnx-float32")]
    rows.append(("label-only", audits["tflite-int8"]["label_only"]))
    template = environment.get_template("results-mnist.md.j2")
    return template.render(record=record, shipped=audits["tflite-int8"], rows=rows, bench=list(record["bench"].items()))


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(json.loads(RECORD.read_text())))


if __name__ == "__main__":
    main()
