"""What the scripts here have in common: each page at each width and scheme, what must be mended, and the record."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from edgeveil.edge_runtime.errors import BadInput
from scripts.reproduce import record
from scripts.reproduce.looks import measured
from scripts.reproduce.looks.chromium import Chromium
from scripts.reproduce.looks.draw import draw

LIVE_WAIT_S, FILE_WAIT_S = 1.0, 0.3


class Shown(NamedTuple):
    """A page that a picture of the documentation shows; its first ``height`` pixels, or all of it."""

    page: str
    width: int
    scheme: str
    height: int | None


def parse(script: record.Script) -> argparse.Namespace:
    """The command line with --axe and --pictures, whose folder is there then. Raises ``BadInput``."""
    script.add_argument("--axe", type=Path, required=True, help="axe.min.js of the npm package axe-core")
    script.add_argument("--pictures", type=Path, default=Path("runs/looks"), help="folder for all pictures")
    asked = script.parse_args()
    if not asked.axe.is_file():
        raise BadInput(f"axe.min.js was expected at {asked.axe}: npm pack axe-core, unpack it, and name that file.")
    asked.pictures.mkdir(parents=True, exist_ok=True)
    return asked


def look(
    browser: Chromium, pages: Mapping[str, str], shown: Mapping[str, Shown], asked: argparse.Namespace
) -> dict[str, Any]:
    """``verdict``, ``pages`` and ``versions`` of a record. ``pages`` are addresses by name, ``shown`` by file."""
    rows, versions = list[dict[str, Any]](), {"Chromium": browser.version}
    for name, url in pages.items():
        for width in measured.WIDTHS:
            for scheme in measured.SCHEMES:
                wait_s = FILE_WAIT_S if url.startswith("file:") else LIVE_WAIT_S
                browser.show(url, width=width, dark=scheme == "dark", wait_s=wait_s)
                (asked.pictures / f"{name}-{width}-{scheme}.png").write_bytes(browser.picture())
                for file, one in shown.items():
                    if one[:3] == (name, width, scheme):
                        draw(browser, file, one.height)
                found = measured.measure(browser, asked.axe)
                versions["axe-core"] = found.pop("axe")
                problems = measured.problems(found, width)
                rows.append({"page": name, "width": width, "scheme": scheme, **found, "problems": problems})
                print(f"{name}, {width} px, {scheme}: {'; '.join(problems) or 'nothing to mend'}", file=sys.stderr)
    verdict = "INVALID" if any(row["problems"] for row in rows) else "VALID"
    return {"verdict": verdict, "pages": rows, "versions": versions}


def write(script: record.Script, asked: argparse.Namespace, looked: Mapping[str, Any], **facts: Any) -> int:
    """The record of what was looked at, with ``facts``; 3 where something must be mended."""
    here = record.here()
    document = {**facts, **looked, "machine": here["machine"]}
    document["versions"] = {**looked["versions"], "edgeveil": here["versions"]["edgeveil"]}
    record.write(asked.out, script.made_by(asked), document)
    return 3 if looked["verdict"] == "INVALID" else 0
