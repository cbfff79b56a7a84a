"""What pages say in passing holds too: files that they name, commands within a sentence; and they stay short."""

import re
import shlex
from pathlib import Path

import tomllib

from tests.walk.examples import edgeveil

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MOST_WORDS = 34_800  # the pages after the redesign's cut; see also the budget of tests/test_rooms.py

_FENCE = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
_GENERATED = re.compile(r"<!-- recorded: .*?<!-- end -->", re.DOTALL)
_FILE = re.compile(r"`((?:scripts|tests|devices|requirements|docs)/[a-z0-9_./-]+)`")  # NAME in it stands for many
_TEST = re.compile(r"`((?:tests/)?[a-z_/]+/test_[a-z0-9_]+\.py)::(test_\w+)`")  # the folder may be left out
_COMMAND = re.compile(r"`(edgeveil [a-z][^`\n\\]*)`")


def name_of(page: Path) -> str:
    """A page as pytest names it."""
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def words(page: Path) -> int:
    """Words of a page that a person wrote: in sentences, tables and examples; none of a page of results."""
    if page.parent == ROOT / "docs" / "results":
        return 0
    text = _GENERATED.sub("", page.read_text(encoding="utf-8"))
    return sum(any(letter.isalnum() for letter in word) for word in text.split())


def unknown(line: str) -> list[str]:
    """The words of a command that do not exist: a command's own name, or options. Arguments may be left out."""
    here, known, wrong = edgeveil(), {"--help", "--version"}, []
    for word in shlex.split(line)[1:]:
        inner = getattr(here, "commands", {})
        if word not in inner and getattr(here, "default", None):  # edgeveil audit EXPORT
            here, inner = inner[here.default], {}
        if word in inner:
            here = inner[word]
        elif word.startswith("--"):
            known |= {name for one in here.params for name in (*one.opts, *one.secondary_opts)}
            wrong += [] if word.partition("=")[0] in known else [word]
        elif inner and not any(one.param_type_name == "argument" for one in here.params):
            return [*wrong, word]
    return wrong


def test_every_file_of_the_repository_that_is_named_exists():
    named = [(name_of(page), name) for page in PAGES for name in _FILE.findall(prose(page))]
    assert [one for one in named if not (ROOT / one[1]).exists()] == []


def test_every_test_that_is_named_is_there():
    found = {(name_of(page), *one) for page in PAGES for one in _TEST.findall(prose(page))}
    named = [(page, path.removeprefix("tests/"), test) for page, path, test in found]
    assert [one for one in named if f"\ndef {one[2]}(" not in (ROOT / "tests" / one[1]).read_text()] == []


def test_every_public_report_that_showed_a_fault_names_a_test_that_is_there():
    found = tomllib.loads((ROOT / "tests/public_reports.toml").read_text())
    review = tomllib.loads((ROOT / "tests/field_review.toml").read_text())["faults"]
    assert all(row["red"] for row in review)
    named = [row["test"].split("::") for row in found["reports"] if row["test"] or row["kind"]]
    named += [row["test"].split("::") for row in review]
    assert [one for one in named if f"\ndef {one[1]}(" not in (ROOT / "tests" / one[0]).read_text()] == []


def test_every_command_within_a_sentence_exists():
    found = {(name_of(page), line): unknown(line) for page in PAGES for line in _COMMAND.findall(prose(page))}
    assert {line: wrong for line, wrong in found.items() if wrong} == {}


def test_the_prose_stays_within_its_words():
    counted = {name_of(page): words(page) for page in PAGES}
    assert sum(counted.values()) <= MOST_WORDS, counted


def test_what_does_not_exist_is_noticed():
    assert unknown("edgeveil train mnist --out runs/mnist --budget quick") == []
    assert unknown("edgeveil bundle inspect") == []
    assert unknown("edgeveil fleet flash x.veil --dry-run") == []
    assert unknown("edgeveil train mnist --fast") == ["--fast"]
    assert unknown("edgeveil trian mnist") == ["trian"]


def test_generated_parts_and_rulers_of_tables_are_no_words(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("two words | --- |\n<!-- recorded: x -->\nnot these\n<!-- end -->\nand 3\n")
    assert words(page) == 4
