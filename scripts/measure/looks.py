"""What pages weigh, how soon they open, and what axe-core finds: report and card of a demo, and each page of its ui.

In headless Chromium, 1280 and 390 pixels wide, light and dark. ``opens_ms`` is the median of five loads, from the
request until the page and its script are done; on a busy machine it is no figure to quote. ``sheets`` are of A4,
as a report or a card is printed. Records docs/results/looks.json.
"""

import base64
import re
import statistics
from pathlib import Path
from typing import Any

from edgeveil.trainer.ext.ui.pages import Pages
from scripts import record
from tests.support import programs
from tests.support.browser.chromium import Chromium, file_url
from tests.support.browser.measured import AXE, EACH, measure, problems

RESULT = Path("docs/results/looks.json")
LOADS = 5
OPENS = "performance.getEntriesByType('navigation')[0].loadEventEnd"
WEIGHT = "performance.getEntriesByType('navigation')[0].encodedBodySize"
LINKS = "[...document.querySelectorAll('main a, nav.site a')].map((one) => one.getAttribute('href'))"


def looked_at(browser: Chromium, url: str) -> dict[str, Any]:
    """The figures of a page, and what must be mended in it."""
    found, opened = [], []
    for width, scheme in EACH:
        browser.show(url, width=width, dark=scheme == "dark")
        found += [f"{width} {scheme}: {one}" for one in problems(measure(browser, AXE), width)]
    for _ in range(LOADS):
        browser.show(url, width=EACH[0][0])
        opened.append(browser.evaluate(OPENS))
    return {"bytes": browser.evaluate(WEIGHT), "opens_ms": round(statistics.median(opened)), "problems": found}


def sheets(browser: Chromium) -> int:
    """Sheets of A4 of the page that is shown."""
    printed = base64.b64decode(browser.send("Page.printToPDF", preferCSSPageSize=True)["data"])
    return max(map(int, re.findall(rb"/Count (\d+)", printed)))


def main() -> int:
    parser = record.Script(__file__, __doc__, "--demo runs/demo", out=RESULT, timing=True)
    parser.add_argument(
        "--demo", type=Path, default=Path("runs/demo"), help="the folder of a demo (default: runs/demo)"
    )
    asked = parser.parse_args()
    use, rows = record.watch(asked), []
    programs.marked = True
    programs.need("chromium")
    pages = Pages(asked.demo, Path("boards.toml"))
    with Chromium() as browser:
        for name in ("report.html", "demo.veil"):
            path = asked.demo / name
            url = file_url(path)
            if name.endswith(".veil"):
                browser.show(pages.address, width=1280)  # the token becomes a cookie
                url = f"http://127.0.0.1:{pages.port}/bundle?at={name}"
            row = {"page": "card" if name.endswith(".veil") else "report", **looked_at(browser, url)}
            rows.append({**row, "bytes": row["bytes"] or path.stat().st_size, "sheets": sheets(browser)})
        browser.show(f"http://127.0.0.1:{pages.port}/", width=1280)
        for place in ["/", *dict.fromkeys(browser.evaluate(LINKS))][1:]:
            rows.append({"page": f"ui {place}", **looked_at(browser, f"http://127.0.0.1:{pages.port}{place}")})
    pages.close()
    wrong = [f"{row['page']}: {one}" for row in rows for one in row["problems"]]
    document = {"axe": re.search(r"axe v([\d.]+)", AXE.read_text(encoding="utf-8"))[1], "pages": rows}  # type: ignore[index]
    record.write(asked.out, parser.made_by(asked), {**record.verdict(use.use(), wrong), **document, **record.here()})
    print(*wrong or [f"{len(rows)} pages, nothing to mend"], sep="\n")
    return 3 if wrong else 0


if __name__ == "__main__":
    record.run(main)
