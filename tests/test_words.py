"""Pages and product text use standard terms: phrases of the old dialect are refused."""

import io
import re
import tokenize

import pytest

from tests.support.checkout import ROOT

# "beside" is refused for "next to" and "in addition to", "nobody" for "no one" and for a role.
KINDS = (
    *("of before", "of then", "gone on with", "hears? of", "whoever", "what leaves", "nobody", "beside", "in vain"),
    *("(?:is|are) told(?! apart)", "told by its", "said no", "an error is in its answer", "whose signature:"),
    *("may forget what", "report there after"),
)
PHRASE = re.compile(rf"(?<![\w-])({'|'.join(KINDS)})(?![\w-])", re.IGNORECASE)
# A sentence of each kind, as it stood here once; shared/design/spine.md, section 9, has what stands there now.
REFUSED = {
    "of before": "A runtime of before said no age",
    "gone on with": "It cannot be gone on with: the plan is another one than at the start.",
    "of then": "The plan of then has another key.",
    "an error is in its answer": "A function that never raises: an error is in its answer.",
    "is told": "An unexpected one is told by its place in the code.",
    "hears of": "where a bundle that reports gradients hears of each round",
    "Whose signature:": "Whose signature: signing.key of edgeveil keygen",
    "report there after": "Have it report there after each look",
    "in vain": "before the minutes that would be in vain",
    "told by its": "values told by its label",
    "Whoever": "Whoever may write the ledger",
    "may forget what": "They may forget what was spent",
    "nobody": "a bundle that nobody audited",
    "What leaves": "What leaves is a code.",
    "beside": "the audit beside it",
}
# The names of an account, of a file's member and of a record's rows.
ALLOWED = {
    "edge_runtime/config.py": ["nobody"],
    "trainer/audit/frozen.py": ["beside"],
    "scripts/measure/capture_loop.py": ["beside", "beside"],
}
PRODUCT = ("edge_runtime", "trainer", "devices", "models", "scripts")
PAGES = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if page.name != "CHANGELOG.md"]
_CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]*`|\]\([^)]*\)", re.MULTILINE | re.DOTALL)
_NAMES = re.compile(r"``[^`]*``|\{[^{}]*\}|^[rbf]*([\"'])\w+\1$")  # in a comment or string of a source


def in_page(text: str) -> list[str]:
    """The refused phrases of a page, its code and addresses left out."""
    return PHRASE.findall(" ".join(_CODE.sub("", text).split()))


def in_source(text: str) -> list[str]:
    """The refused phrases in comments, docstrings and strings of Python source, names of its own left out."""
    kinds = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    texts = (" ".join(_NAMES.sub("", token.string).split()) for token in tokens if token.type in kinds)
    return [phrase for text in texts for phrase in PHRASE.findall(text)]


def test_no_page_uses_a_refused_phrase():
    found = {str(page.relative_to(ROOT)): in_page(page.read_text(encoding="utf-8")) for page in PAGES}
    assert {name: said for name, said in found.items() if said} == {}


@pytest.mark.parametrize("root", PRODUCT)
def test_no_source_and_no_template_uses_a_refused_phrase(root):
    found = {path.relative_to(ROOT).as_posix(): in_source(path.read_text()) for path in (ROOT / root).rglob("*.py")}
    found |= {path.relative_to(ROOT).as_posix(): in_page(path.read_text()) for path in (ROOT / root).rglob("*.html")}
    assert {name: said for name, said in found.items() if said != ALLOWED.get(name, [])} == {}


@pytest.mark.parametrize(("phrase", "sentence"), REFUSED.items(), ids=REFUSED)
def test_a_sentence_of_each_kind_is_refused(phrase, sentence):
    assert phrase in in_page(sentence)
    assert phrase in in_source(f'"""{sentence}"""\n')
    assert phrase in in_source(f"x = 1  # {sentence}\n")
    assert in_source(f'x = f"{{y}} {sentence}"\n') == in_page(sentence)


def test_every_kind_has_a_sentence():
    assert [kind for kind in KINDS if not re.search(kind, " ".join(REFUSED.values()), re.IGNORECASE)] == []


def test_names_and_code_are_let_through():
    assert in_page("A runtime of\nbefore, run by `nobody`.\n\n```\nwhoever\n```\n* loop-beside-others") == ["of before"]
    source = (
        'x = "nobody"  # ``beside``\n\n\ndef beside():\n    """What\n    leaves."""\n    return f"whoever {beside}"\n'
    )
    assert in_source(source) == ["What leaves", "whoever"]
