"""What can be measured of a page in a browser: whether it scrolls sideways, its widest table, what axe-core finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.browser.chromium import Chromium

WIDTHS = (1280, 390)
SCHEMES = ("light", "dark")
BAD = ("serious", "critical")
SIZES = """({
  page: document.documentElement.scrollWidth,
  table: Math.max(0, ...[...document.querySelectorAll('table')].map((table) => table.scrollWidth)),
  nameless: document.querySelectorAll('img:not([alt]), img[alt=""]').length,
})"""
FAULTS = """axe.run(document).then((found) => ({
  version: axe.version,
  faults: found.violations.map((one) => ({
    rule: one.id, impact: one.impact, places: one.nodes.map((node) => node.html.slice(0, 120)),
  })),
}))"""


def measure(browser: Chromium, axe: Path | None = None) -> dict[str, Any]:
    """Of the page that is shown: ``page_px`` and ``widest_table_px``, pictures without words, and, with the file of
    axe-core, its ``axe`` version and ``faults``."""
    sizes = browser.evaluate(SIZES)
    found: dict[str, Any] = {
        "page_px": sizes["page"],
        "widest_table_px": sizes["table"],
        "pictures_without_words": sizes["nameless"],
    }
    if axe is not None:
        browser.evaluate(f"{axe.read_text(encoding='utf-8')}\n;0")
        said = browser.evaluate(FAULTS)
        found |= {"axe": said["version"], "faults": said["faults"]}
    return found


def problems(found: dict[str, Any], width: int) -> list[str]:
    """What must not be: a page wider than its window, a table wider than 1,280 px there, a picture without words,
    a serious or critical fault."""
    said = []
    if found["page_px"] > width:
        said.append(f"the page is {found['page_px']} px wide")
    if width == WIDTHS[0] and found["widest_table_px"] > width:
        said.append(f"a table is {found['widest_table_px']} px wide")
    if found["pictures_without_words"]:
        said.append(f"{found['pictures_without_words']} pictures have no words")
    said += [f"{one['impact']}: {one['rule']}" for one in found.get("faults", ()) if one["impact"] in BAD]
    return said
