"""The card of a publication in headless Chromium: wide and on a phone, light and dark, and what axe-core finds.

    npm pack axe-core && tar xf axe-core-*.tgz
    python -m scripts.reproduce.looks.check_publication --axe package/axe.min.js

Publishes made-up recordings and their table with statistics, and shows the card. Writes pictures of it
into --pictures, docs/results/publication_looks.json, and docs/looks/publication.png. Ends with 3 where the page has a
serious fault.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest import mock

from edgeveil.trainer.publish.archive import frames
from scripts.reproduce import record
from scripts.reproduce.looks import looking
from scripts.reproduce.looks.chromium import Chromium, file_url
from tests.support.publishing import archives, visit_tables

OUT = Path("docs/results/publication_looks.json")
SHOWN = {"publication.png": looking.Shown("publication", 1280, "light", 900)}
PEOPLE = 400


def main() -> int:
    """Publish, show, measure and record; 3 where something must be mended."""
    script = record.Script(__file__, __doc__, "--axe package/axe.min.js", out=OUT)
    asked = looking.parse(script)
    with tempfile.TemporaryDirectory() as folder, Chromium() as browser:
        pages = {"publication": file_url(_published(Path(folder)) / "card.html")}
        looked = looking.look(browser, pages, SHOWN, asked)
    return looking.write(
        script,
        asked,
        looked,
        what="the card of a publication in headless Chromium: sizes in CSS pixels, faults that axe-core finds",
    )


def _published(folder: Path) -> Path:
    """A publication, with numbers beside its rows."""
    archive = archives.make(folder, people=PEOPLE)
    archive.plan += visit_tables.STATISTICS
    with mock.patch.object(frames, "engine_of", archives.here):
        archive.published()
    return archive["out"]


if __name__ == "__main__":
    record.run(main)
