"""The documentation hangs together: links lead somewhere, named files are there (its commands: tests/walk)."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from edgeveil.trainer.report.card_page import environment
from tests.support.checkout import ROOT, docs_tool

MOST_TERMS = 40  # of the glossary
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
    named = set(re.findall(r"`(tests/[\w/.]+)`", (ROOT / "CONTRIBUTING.md").read_text()))
    assert named
    assert sorted(name for name in named if not (ROOT / name).exists()) == []
    rows = set(re.findall(r"`(\w+\.toml|test_\w+)`", (ROOT / "docs/reference/tested.md").read_text()))
    files = list((ROOT / "tests").rglob("*.*"))
    defined = set(re.findall(r"def (test_\w+)", " ".join(one.read_text() for one in files if one.suffix == ".py")))
    assert sorted(rows - defined - {one.name for one in files}) == []


def site(folder, *, plant=""):
    """The site of docs/, built strictly in a copy; ``plant`` is added to its first page."""
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copy(ROOT / "zensical.toml", folder)
    with (folder / "docs/index.md").open("a") as page:
        page.write(plant)
    return subprocess.run([docs_tool("zensical"), "build", "--strict"], cwd=folder, capture_output=True, text=True)


class Loads(HTMLParser):
    """What a page makes a browser fetch."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        known = dict(attributes)
        self.found += [known["src"]] if known.get("src") else []
        self.found += [known["href"]] if tag == "link" and known.get("rel") not in ("canonical", "next", "prev") else []


def test_the_site_is_built_strictly_can_be_searched_and_loads_nothing_from_elsewhere(tmp_path):
    done = site(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    built = tmp_path / "build/site"
    found = {item["location"].partition("#")[0] for item in json.loads((built / "search.json").read_text())["items"]}
    pages = (path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md"))
    assert {str(page).replace("README.html", "index.html") for page in pages} == found
    loaded = {one for page in built.rglob("*.html") for one in Loads(page.read_text()).found}
    loaded |= {one for sheet in built.rglob("*.css") for one in re.findall(r"url\(([^)]*)\)", sheet.read_text())}
    assert len(loaded) > 5
    assert sorted(one for one in loaded if re.match(r"""["']?(https?:)?//""", one)) == []


@pytest.mark.nightly  # by day that the site is built strictly, above
def test_a_site_with_a_broken_link_is_not_built(tmp_path):
    done = site(tmp_path, plant="\n[x](how-to/no-page.md)\n")
    assert done.returncode != 0
    assert "page does not exist" in done.stdout + done.stderr


def glossary():
    words = environment().get_template("words.html").module
    return [*words.measured, *words.others]


def test_the_glossary_is_short_and_each_of_its_words_is_in_use():
    terms = [term for term, _ in glossary()]
    assert len(terms) == len(set(terms)) <= MOST_TERMS
    sources = [*PAGES, *(ROOT / "trainer/audit").glob("*.py"), *(ROOT / "trainer/report").glob("*.py")]
    text = " ".join(path.read_text() for path in sources if path.name not in ("glossary.md", "CHANGELOG.md"))
    assert [term for term in terms if not re.search(rf"(?<!\w){re.escape(term)}(?!\w)", text, re.IGNORECASE)] == []


def test_the_glossary_is_linked_from_the_readme_and_stands_on_the_pages_of_audits():
    assert "docs/reference/glossary.md" in (ROOT / "README.md").read_text()
    pages = ("card.html", "pairs.html", "report.html")
    templates = (ROOT / "trainer/report/templates" / name for name in pages)
    assert [path.name for path in templates if "words.list()" not in path.read_text()] == []
