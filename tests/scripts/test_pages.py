"""Every page of docs/results is what the renderer makes of the records, fits a screen, and types no measured number."""

import importlib
import json
import re
import sys

import pytest

import edgeveil
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.recipe.perturber import KINDS
from scripts import pages
from tests.support.checkout import ROOT

NAMES = pages.names_of_pages()
LINES = 60  # of a screen
# What a text may name by number: papers and their parts, sections, intervals, and the names of formats and protocols.
NAMED = re.compile(r"([Pp]apers?|[Ss]ection|Table|[Ff]igures?|and|or) [0-9.]+|95 %|\d+ x \d+")
MEASURED = re.compile(r"(?<![\w./-])(\d+\.\d+|\d+ (%|ms|s|us|MB|bits|points|minutes|times))(?![\w/])")


def prose(description: dict) -> str:
    """What a description says without its expressions, code and addresses."""
    text = "\n".join(part.get("text", "") for part in description["part"])
    for known in (r"\{\{.*?\}\}", r"\{%.*?%\}", r"`[^`]*`", r"\]\([^)]*\)"):
        text = re.sub(known, " ", text, flags=re.DOTALL)
    return NAMED.sub(" ", text)


def test_pages_are_what_their_records_say_and_fit_a_screen():
    for name in NAMES:
        text = pages.page(name)
        assert (ROOT / pages.RESULTS / f"{name}.md").read_text() == text, f"run python -m scripts.pages {name}"
        assert len(text.splitlines()) <= LINES, name


def test_no_measured_number_of_a_page_is_typed():
    assert {name: found for name in NAMES if (found := MEASURED.findall(prose(pages.described(name))))} == {}


def test_a_typed_number_is_found():
    typed = {"part": [{"text": "Right are 97.5 of them within 12 ms, at {{ x|fixed(2) }} of `0.5`; paper 001, 95 %."}]}
    assert [found[0] for found in MEASURED.findall(prose(typed))] == ["97.5", "12 ms"]


def test_every_page_is_described_and_the_index_is_current():
    folder = ROOT / pages.RESULTS
    assert {path.stem for path in folder.glob("*.md")} == {*NAMES, "README"}
    assert (ROOT / pages.INDEX).read_text() == pages.index(), "run python -m scripts.pages"


def test_a_record_names_the_script_that_made_it():
    """Here, or in a commit of pages.COMMITS."""
    made = {path.stem: pages.made_by(path) for path in (ROOT / pages.RESULTS).rglob("*.json")}
    gone = {name: script for name, script in made.items() if not pages.here_now(script)}
    later = {name: script for name, script in gone.items() if not script.startswith(("scripts/reproduce/", "tests/"))}
    assert {pages.of_commit(script).partition(":")[0] for script in later.values()} == set(pages.COMMITS[1:])
    assert {script.partition("/")[2].partition("/")[0] for script in later.values()} == {"measure", "papers"}


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A function that renders a description with its records, each a JSON file below docs/results."""
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    monkeypatch.setattr(pages, "DESCRIPTIONS", tmp_path)
    (tmp_path / pages.RESULTS).mkdir(parents=True)

    def render(toml: str, **records: dict) -> str:
        (tmp_path / "x.toml").write_text(toml)
        for name, record in records.items():
            (tmp_path / pages.RESULTS / f"{name}.json").write_text(json.dumps({"made_by": "scripts/gone.py", **record}))
        return "\n\n".join(pages.parts(pages.described("x"), pages.records_of(pages.described("x"), tmp_path)))

    return render


TOML = """
title = "X"
records = { one = "a.json", every = "*.json" }
given = { chance = 50 }
[[part]]
heading = "Rates"
text = "{{ every|length }} records, chance {{ given.chance }}."
rows = ["name, row in one.rows.items()", "seed in row.seeds"]
where = "seed.ran"
columns = { what = "name", right = "seed.rate|rate", of = "row.seeds|length", none = "seed|at('no.such')" }
"""
SEEDS = [{"ran": True, "rate": {"accuracy": 0.5, "low": 0.4, "high": 0.625}}, {"ran": False}]


def test_loops_conditions_and_columns_make_a_table(made):
    assert made(TOML, a={"rows": {"x": {"seeds": SEEDS}}}, b={}) == (
        "## Rates\n\n2 records, chance 50.\n\n"
        "| what | right | of | none |\n|---|---|---|---|\n| x | 50.0 [40.0, 62.5] | 2 | - |"
    )


def test_what_is_not_in_a_record_is_one_sentence(made):
    with pytest.raises(BadInput, match=r"has no value.*rows"):
        made(TOML, a={})
    with pytest.raises(BadInput, match=r"A record was expected at docs/results/gone\.json"):
        made(TOML.replace("a.json", "gone.json"), b={})


def test_seeds_are_averaged_and_the_interval_is_that_of_the_widest_ends():
    rows = [{"z": {"accuracy": 0.6, "low": 0.5, "high": 0.7}}, {"z": {"accuracy": 0.8, "low": 0.75, "high": 0.9}}, {}]
    assert pages.over(rows, "z") == {"mean": pytest.approx(0.7), "low": 0.5, "high": 0.9}
    assert pages.over(rows, "no.such") is None


def test_the_family_of_attackers_is_the_one_that_is_best_over_all_splits():
    assert pages.best_of([{"a": 0.3, "b": 0.5, "c": 1.0}, {"a": 0.9, "b": 0.6}, None]).startswith("60.0 [")
    assert pages.best_of([None]) == "-"


def test_a_page_that_is_not_known_is_the_users_mistake(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["pages", "no-such"])
    with pytest.raises(SystemExit) as ended:
        pages.run(pages.main)
    assert ended.value.code == 2
    assert "came no-such" in capsys.readouterr().err


def test_every_part_of_the_papers_is_shown_and_named_by_what_is_here():
    """No row is empty; classes are of the public names, kinds of a recipe's."""
    rows = [row for name in NAMES for row in pages.described(name).get("papers", [])]
    assert {paper for paper, _, _ in rows} == {"000", "001", "002", "003", "004"}
    assert all(len(row) == 3 and all(row) for row in rows)
    named = [name for _, _, by in rows for name in re.findall("`([^`]+)`", by)]
    classes = {name for name in named if name[0].isupper()}
    kinds = {name for name in named if name[0].islower() and not name.startswith("edgeveil")}
    modules = {name for name in named if name.startswith("edgeveil.")}
    assert classes <= set(edgeveil.__all__)
    assert kinds <= set(KINDS.kinds())
    assert all(map(importlib.import_module, modules))
    assert min(map(len, (classes, kinds, modules))) > 0
