"""The pages hold together: links lead somewhere, named files exist, and the prose stays short enough to be read."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MOST_WORDS = 30_000  # of README and docs together, without what is written from records and models

_FENCE = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
_GENERATED = re.compile(r"<!-- recorded: .*?<!-- end -->", re.DOTALL)
_LINK = re.compile(r"\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)|(?:src|href)=\"([^\"]+)\"")
_FILE = re.compile(r"`((?:scripts|tests|devices|requirements|docs)/[a-z0-9_./-]+)`")  # NAME in it stands for many


def name_of(page: Path) -> str:
    """A page as pytest names it."""
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """What the headings of a page are called in links, as GitHub makes it."""
    found: set[str] = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", prose(page), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        again = sum(1 for one in found if re.fullmatch(re.escape(slug) + r"(-\d+)?", one))
        found.add(f"{slug}-{again}" if slug in found else slug)
    return found


def words(page: Path) -> int:
    """Words of a page that a person wrote: in sentences, tables and examples; none of a page of results."""
    if page.parent == ROOT / "docs" / "results":
        return 0
    text = _GENERATED.sub("", page.read_text(encoding="utf-8"))
    return sum(any(letter.isalnum() for letter in word) for word in text.split())


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_to_a_file_and_a_heading_that_exist(page):
    broken = []
    for found in _LINK.finditer(prose(page)):
        link = found[1] or found[2]
        if re.match(r"[a-z][a-z0-9+.-]*:", link):
            continue  # an address outside the repository
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_file_of_the_repository_that_is_named_exists(page):
    assert [name for name in _FILE.findall(prose(page)) if not (ROOT / name).exists()] == []


def test_the_prose_stays_within_its_words():
    counted = {name_of(page): words(page) for page in PAGES}
    assert sum(counted.values()) <= MOST_WORDS, counted


def test_links_and_headings_are_found_and_judged(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One, `two` & [three](x.md)\n\n## Again\n## Again\n```\n# no heading [a](b.md)\n```\n")
    assert anchors(page) == {"one-two--three", "again", "again-1"}
    assert [found[1] for found in _LINK.finditer(prose(page))] == ["x.md"]
    page.write_text("two words | --- |\n<!-- recorded: x -->\nnot these\n<!-- end -->\nand 3\n")
    assert words(page) == 4
