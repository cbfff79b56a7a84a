"""The pages that people see, in headless Chromium: wide and on a phone, light and dark, and what axe-core finds.

    scripts/demo && npm pack axe-core && tar xf axe-core-*.tgz
    python -m scripts.reproduce.looks.check_pages --demo runs/demo --axe package/axe.min.js

Shows the report, the same with an INVALID benchmark, the privacy card, the page of benchmarks, the preview of a running
service and how an audit ends on a terminal. Writes pictures of all of them into --pictures, docs/results/looks.json,
and docs/looks, the few that the documentation shows. Ends with 3 where a page has a serious fault.
"""

from __future__ import annotations

import contextlib
import html
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.formats.png import encode
from scripts.reproduce import record
from scripts.reproduce.looks import looking, measured
from scripts.reproduce.looks.chromium import Chromium, file_url
from scripts.reproduce.looks.served import served

OUT = Path("docs/results/looks.json")
SHOWN = {
    "report.png": looking.Shown("report", 1280, "light", 700),
    "preview.png": looking.Shown("preview", 1280, "light", None),
    "audit-closing.png": looking.Shown("terminal", 1280, "dark", None),
}
TERMINAL = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>How an audit ends</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>
:root {{ color-scheme: light dark; --page: #fff; --ink: #1d2327; }}
@media (prefers-color-scheme: dark) {{ :root {{ --page: #14181b; --ink: #e8e6e1; }} }}
body {{ margin: 0; background: var(--page); color: var(--ink); }}
pre {{ margin: 0; padding: 1rem; font: 15px/1.5 monospace; white-space: pre-wrap; max-width: 120ch; }}
h1 {{ position: absolute; left: -99em; }}
</style></head><body><main><h1>How an audit ends</h1><pre>{}</pre></main></body></html>"""


def main() -> int:
    """Show, measure, draw and record; 3 where something must be mended."""
    script = record.Script(__file__, __doc__, "--demo runs/demo --axe package/axe.min.js", out=OUT)
    script.add_argument("--demo", type=Path, default=Path("runs/demo"), help="what scripts/demo left")
    asked = looking.parse(script)
    with Chromium() as browser, preview(asked.demo, asked.pictures) as live:
        pages = {**written(asked.demo, asked.pictures), "preview": live}
        looked = looking.look(browser, pages, SHOWN, asked)
    wide = [row["widest_table_px"] for row in looked["pages"] if row["width"] == measured.WIDTHS[0]]
    return looking.write(
        script,
        asked,
        looked,
        what="pages of a demo in headless Chromium: sizes in CSS pixels, faults that axe-core finds",
        widest_table_px=max(wide),
    )


def written(demo: Path, out: Path) -> dict[str, str]:
    """The address of each page that is a file, written anew from what a demo left."""
    from edgeveil.trainer.audit import closing
    from edgeveil.trainer.audit.card import card
    from edgeveil.trainer.export.folder import ExportFolder
    from edgeveil.trainer.report import card_page, comparison
    from edgeveil.trainer.report.bench import write_bench_report
    from edgeveil.trainer.report.run_page import write_report

    folder = ExportFolder.open(demo / "export")
    if folder.audit is None:
        raise BadInput(f"What scripts/demo leaves was expected in {demo}; its export is not audited. Run scripts/demo.")
    why = comparison.why(json.loads((demo / "prgan-export/audit.json").read_text()), folder.audit)
    busy = {"verdict": "INVALID", "reasons": ["busy: other processes had 38 % of the cores"]}
    results = out / "bench-results"
    results.mkdir(exist_ok=True)
    for name, changes in (("demo", {}), ("demo-busy", busy)):
        document = {**json.loads((demo / "bench.json").read_text()), **changes}
        (results / f"{name}.json").write_text(json.dumps(document))
    for page, bench in (("report", "demo"), ("report-invalid", "demo-busy")):
        write_report(
            run=demo / "run",
            export=demo / "export",
            bundle=demo / "demo.veil",
            bench=results / f"{bench}.json",
            out=out / f"{page}.html",
            pictures=True,
            comparison=(demo / "comparison.png", why),
        )
    write_bench_report(results, out / "bench")
    (out / "card.html").write_text(card_page.render(card(folder.audit, folder.manifest)))
    lines = [closing.summary(folder.audit), closing.next_step(folder.audit, Path("runs/demo/export"))]
    command = "$ edgeveil audit runs/demo/export --artefact tflite-int8"
    (out / "terminal.html").write_text(TERMINAL.format(html.escape("\n".join([command, *lines]))))
    pages = {name: out / f"{name}.html" for name in ("report", "report-invalid", "card", "terminal")}
    return {name: file_url(path) for name, path in {**pages, "bench": out / "bench/bench.html"}.items()}


@contextlib.contextmanager
def preview(demo: Path, out: Path) -> Iterator[str]:
    """The address of the preview of a service that sends the demo's digits again and again; its log is in ``out``."""
    digits = out / "digits"
    digits.mkdir(exist_ok=True)
    with np.load(demo / "frames.npz") as frames:
        for number, digit in enumerate(frames["x"][:200]):
            (digits / f"{number:03}.png").write_bytes(encode(digit[..., 0]))
    source = [f"images:{digits}", "--repeat", "--realtime"]
    with served(demo / "demo.veil", demo / "trust", source, out) as url:
        yield url


if __name__ == "__main__":
    record.run(main)
