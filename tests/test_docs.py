"""The documentation hangs together: links lead somewhere, named files are there (its commands: tests/walk)."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    titles = (title.lower().strip() for title in HEADING.findall(FENCED.sub("", page.read_text())))
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


def broken(page: Path) -> list[str]:
    """The links of a page, within the repository, that lead nowhere."""
    found = []
    for link in LINK.findall(FENCED.sub("", page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            found.append(link)
    return found


def test_every_link_leads_somewhere():
    assert {str(page.relative_to(ROOT)): found for page in PAGES if (found := broken(page))} == {}


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    (tmp_path / "other.md").write_text("# One thing, and `another`\n")
    page = tmp_path / "page.md"
    page.write_text("[a](other.md#one-thing-and-another) [b](other.md#two) [c](none.md) [d](https://example.org)\n")
    assert broken(page) == ["other.md#two", "none.md"]


def test_every_page_is_reached_from_the_start_page():
    seen, todo = set(), [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page in seen:
            continue
        seen.add(page)
        for link in LINK.findall(page.read_text()):
            target = (page.parent / link.partition("#")[0]).resolve()
            if target.suffix == ".md" and target.is_file():
                todo.append(target)
    assert [str(page.relative_to(ROOT)) for page in PAGES if page not in seen] == []


def test_every_test_that_is_named_is_there():
    for page in ("README.md", "CONTRIBUTING.md"):
        named = set(re.findall(r"`(tests/[\w/.]+)`", (ROOT / page).read_text()))
        assert named
        assert sorted(name for name in named if not (ROOT / name).exists()) == [], page
