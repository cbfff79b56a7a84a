"""The card of a publication in headless Chromium: wide and on a phone, light and dark, and what axe-core finds.

    npm pack axe-core && tar xf axe-core-*.tgz
    python -m scripts.reproduce.looks.check_publication --axe package/axe.min.js

Publishes made-up recordings and their table with statistics, and shows the card. Writes pictures of it
into --pictures, docs/results/publication_looks.json, and docs/looks/publication.png. Ends with 3 where the page has a
serious fault.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from unittest import mock

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.publish.work.passes import frame_passes
from scripts.reproduce import record
from scripts.reproduce.looks import measured
from scripts.reproduce.looks.chromium import Chromium, file_url
from scripts.reproduce.looks.draw import draw
from tests.support.publishing import archives, visit_tables

OUT = Path("docs/results/publication_looks.json")
PICTURE, SHOWN, HEIGHT = "publication.png", (1280, "light"), 900
PEOPLE = 400


def main() -> int:
    """Publish, show, measure and record; 3 where something must be mended."""
    script = record.Script(__file__, __doc__, "--axe package/axe.min.js", out=OUT)
    script.add_argument("--axe", type=Path, required=True, help="axe.min.js of the npm package axe-core")
    script.add_argument("--pictures", type=Path, default=Path("runs/looks"), help="folder for all pictures")
    asked = script.parse_args()
    if not asked.axe.is_file():
        raise BadInput(f"axe.min.js was expected at {asked.axe}: npm pack axe-core, unpack it, and name that file.")
    asked.pictures.mkdir(parents=True, exist_ok=True)
    rows, versions = [], {}
    with tempfile.TemporaryDirectory() as folder, Chromium() as browser:
        url = file_url(_published(Path(folder)) / "card.html")
        versions["Chromium"] = browser.version
        for width in measured.WIDTHS:
            for scheme in measured.SCHEMES:
                browser.show(url, width=width, dark=scheme == "dark", wait_s=0.3)
                (asked.pictures / f"publication-{width}-{scheme}.png").write_bytes(browser.picture())
                if (width, scheme) == SHOWN:
                    draw(browser, PICTURE, HEIGHT)
                found = measured.measure(browser, asked.axe)
                versions["axe-core"] = found.pop("axe")
                problems = measured.problems(found, width)
                rows.append({"page": "publication", "width": width, "scheme": scheme, **found, "problems": problems})
                print(f"{width} px, {scheme}: {'; '.join(problems) or 'nothing to mend'}", file=sys.stderr)
    here = record.here()
    document = {
        "what": "the card of a publication in headless Chromium: sizes in CSS pixels, faults that axe-core finds",
        "verdict": "INVALID" if any(row["problems"] for row in rows) else "VALID",
        "pages": rows,
        "versions": {**versions, "edgeveil": here["versions"]["edgeveil"]},
        "machine": here["machine"],
    }
    record.write(asked.out, script.made_by(asked), document)
    return 3 if document["verdict"] == "INVALID" else 0


def _published(folder: Path) -> Path:
    """A publication, with numbers beside its rows."""
    archive = archives.make(folder, people=PEOPLE)
    archive.plan += visit_tables.STATISTICS
    with mock.patch.object(frame_passes, "engine_of", archives.here):
        archive.published()
    return archive["out"]


if __name__ == "__main__":
    record.run(main)
