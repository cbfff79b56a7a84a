"""Pages and product text use standard terms: phrases of the old dialect are refused."""

import io
import re
import tokenize

import pytest

from tests.support import import_graph
from tests.support.checkout import ROOT

# "beside" is refused for "next to" and "in addition to", "nobody" for "no one" and for a role.
PHRASES = r"of before|of then|gone on with|hears? of|whoever|what leaves|nobody|(?:is|are) told(?! apart)|beside"
PHRASE = re.compile(rf"(?<![\w-])({PHRASES})(?![\w-])", re.IGNORECASE)
# Comments, docstrings and strings of the product with such a phrase. These numbers may only fall.
MOST = {"edge_runtime": 58, "trainer": 76, "devices": 8, "models": 0, "scripts": 11}
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
_CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]*`|\]\([^)]*\)", re.MULTILINE | re.DOTALL)


def in_page(text: str) -> list[str]:
    """The refused phrases of a page, its code and addresses left out."""
    return PHRASE.findall(" ".join(_CODE.sub("", text).split()))


def in_source(text: str) -> list[str]:
    """The refused phrases in comments, docstrings and strings of Python source."""
    kinds = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    texts = (" ".join(token.string.split()) for token in tokens if token.type in kinds)
    return [phrase for text in texts for phrase in PHRASE.findall(text)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_uses_a_refused_phrase(page):
    assert in_page(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("root", MOST)
def test_refused_phrases_in_the_product_only_fall(root):
    count = sum(len(in_source(path.read_text(encoding="utf-8"))) for path in (ROOT / root).rglob("*.py"))
    assert count <= MOST[root]


def test_every_root_has_a_ceiling():
    assert set(import_graph.ROOTS) <= set(MOST)


def test_a_refused_phrase_is_found():
    assert in_page("A runtime of\nbefore, run by `nobody`.\n\n```\nwhoever\n```\n* loop-beside-others") == ["of before"]
    source = 'x = "Nobody"  # hears of it\n\n\ndef beside():\n    """What\n    leaves."""\n    return f"whoever {x}"\n'
    assert in_source(source) == ["Nobody", "hears of", "What leaves", "whoever"]
