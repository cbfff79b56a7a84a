"""What can be measured of a page in a browser: whether it scrolls sideways, its widest table, what axe-core finds."""

from __future__ import annotations

import importlib.util
import os
import time
from pathlib import Path
from typing import Any

from tests.support.browser.chromium import Chromium

PACKAGED = importlib.util.find_spec("axe_playwright_python")  # of requirements/axe.txt; it is never imported
# axe.min.js of axe-core; EDGEVEIL_AXE names another.
AXE = Path(os.environ.get("EDGEVEIL_AXE") or Path(str(PACKAGED and PACKAGED.origin)).with_name("axe.min.js"))

WIDTHS = (1280, 390)
SCHEMES = ("light", "dark")
EACH = [(width, scheme) for width in WIDTHS for scheme in SCHEMES]
NOTHING: dict[tuple[int, str], list[str]] = {each: [] for each in EACH}
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


def found(browser: Chromium, url: str, *, wait_s: float = 0.0) -> dict[tuple[int, str], list[str]]:
    """What must be mended, of each width and scheme; ``NOTHING`` where all is well."""
    said = {}
    for width, scheme in EACH:
        browser.show(url, width=width, dark=scheme == "dark", wait_s=wait_s)
        said[width, scheme] = problems(measure(browser, AXE if AXE.is_file() else None), width)
    return said


def under_pointer(browser: Chromium, selector: str) -> str:
    """What a page shows next to the pointer on the middle of an element."""
    x, y = browser.evaluate(
        f"""(() => {{ const one = document.querySelector({selector!r}); one.scrollIntoView({{block: 'center'}});
        const box = one.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; }})()"""
    )
    browser.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    shown = browser.evaluate("document.querySelector('.tip').hidden ? '' : document.querySelector('.tip').textContent")
    return str(shown)


def wait_for(browser: Chromium, expression: str, expected: Any, most_s: float = 20.0) -> Any:
    """The value of an expression in the page, once it is ``expected`` or that long has passed."""
    deadline = time.monotonic() + most_s
    while (value := browser.evaluate(expression)) != expected and time.monotonic() < deadline:
        time.sleep(0.05)
    return value
