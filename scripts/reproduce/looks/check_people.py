"""The preview of a ceiling camera with people below it, in headless Chromium, and what axe-core finds.

    edgeveil train overhead-count --budget quick --out runs/hall
    edgeveil export runs/hall --for workstation --out runs/hall-export
    edgeveil keygen keys && mkdir trust && cp keys/signing.pub trust/
    edgeveil seal runs/hall-export --key keys/signing.key --out hall.veil --no-audit
    npm pack axe-core && tar xf axe-core-*.tgz
    python -m scripts.reproduce.looks.check_people --bundle hall.veil --trust trust --axe package/axe.min.js

SIMULATED people: no sensor, nobody was seen. Writes pictures of the preview, wide and on a phone, light and dark, into
--pictures, docs/results/people_looks.json, and docs/looks/people.png. Ends with 3 where the page has a serious fault.
"""

from __future__ import annotations

import time
from pathlib import Path

from scripts.reproduce import record
from scripts.reproduce.looks import looking
from scripts.reproduce.looks.chromium import Chromium
from scripts.reproduce.looks.served import served

OUT = Path("docs/results/people_looks.json")
SHOWN = {"people.png": looking.Shown("people", 1280, "light", None)}
SOURCE = "simulate:depth?seed=0&people=2&fps=30"
SETTLE_S = 5  # until people have come; the page is the same for a place where nobody is, as what leaves is


def main() -> int:
    """Serve, show, measure and record; 3 where something must be mended."""
    script = record.Script(__file__, __doc__, "--bundle hall.veil --trust trust --axe package/axe.min.js", out=OUT)
    script.add_argument("--bundle", type=Path, required=True, help="a bundle that cuts people out of depth pictures")
    script.add_argument("--trust", type=Path, required=True, help="the folder of keys that it is trusted by")
    asked = looking.parse(script)
    with Chromium() as browser, served(asked.bundle, asked.trust, [SOURCE], asked.pictures) as url:
        time.sleep(SETTLE_S)
        looked = looking.look(browser, {"people": url}, SHOWN, asked)
    return looking.write(
        script,
        asked,
        looked,
        what="the preview with people in headless Chromium: sizes in CSS pixels, faults that axe-core finds",
        source=SOURCE,
    )


if __name__ == "__main__":
    record.run(main)
