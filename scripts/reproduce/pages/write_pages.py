"""Writes the pages of docs/results, and docs/reference/recipes.md, from records and code; no number is typed by hand.

A page whose record is not there is left out; left out of the command line, all of them are written.
"""

# A page is a module below scripts/reproduce whose name ends in _page. It says its NAME on the command line,
# and write() writes it: a new page needs no entry here.

from __future__ import annotations

import importlib
from collections.abc import Callable

from scripts.reproduce.record import ROOT, Script, run


def modules() -> list[str]:
    """The modules that make pages, by their full names."""
    found = (ROOT / "scripts/reproduce").rglob("*_page.py")
    return sorted(".".join(path.relative_to(ROOT).with_suffix("").parts) for path in found)


def pages() -> dict[str, Callable[[], None]]:
    """What writes each page, by its name."""
    found = (importlib.import_module(name) for name in modules())
    return dict(sorted((module.NAME, module.write) for module in found))


def main() -> None:
    """Write the pages that are named, or all."""
    known = pages()
    script = Script(__file__, __doc__, "mnist streams")
    script.add_argument("pages", nargs="*", metavar="PAGE", help=f"of {', '.join(known)}; left out: all")
    asked = script.parse_args()
    if unknown := [name for name in asked.pages if name not in known]:
        script.error(f"pages of {', '.join(known)} were expected; came {', '.join(unknown)}")
    for name in asked.pages or known:
        known[name]()


if __name__ == "__main__":
    run(main)
