"""Tables with text, dates, booleans, decimal commas and empty cells: proposed rules, and the board's own vectors."""

import datetime

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import expected, parse_input
from edgeveil.edge_runtime.sources.text import LinesSource
from edgeveil.trainer import datasets
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.datasets.columns import read_table
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.scaffold.given import Given
from edgeveil.trainer.scaffold.look import look
from edgeveil.trainer.scaffold.new import compose, first_guess

pytestmark = pytest.mark.usefixtures("few_trees")

PEOPLE, EACH = 48, 8
HEAD = ["person", "weight", "steps", "city", "smokes", "since", "aid", "class", "sex"]
RAW = HEAD[1:7]


def rows(*, seed=0):
    """Rows of 48 people: 19-digit numbers that are one float, a class "none", rare and empty cells."""
    rng, made = np.random.default_rng(seed), []
    for person in range(PEOPLE):
        city = ["Bern", "Genève", "Ulm; Donau", "Bern"][person % 4] if person else "Hinterdorf"  # all of one person
        for row in range(EACH):
            made.append(
                [
                    str(10**18 + person),
                    f"{50 + 20 * rng.random():.1f}".replace(".", ","),
                    "" if row == 3 and person % 2 else f"{rng.integers(2, 20)}.{rng.integers(0, 1000):03d}",
                    "" if row == 5 and person % 3 == 0 else city,
                    ["true", "False"][rng.integers(2)],
                    f"{rng.integers(1, 29):02d}.{rng.integers(1, 13):02d}.2021",
                    ["none", "NA", "glasses"][rng.integers(3)],
                    ["none", "walk"][row % 2],
                    "fm"[person // 2 % 2],
                ]
            )
    return made


def write(path, made, *, names=HEAD):
    quoted = [[f'"{cell}"' if ";" in cell else cell for cell in row] for row in made]
    path.write_text("\r\n".join(map(";".join, [names, *quoted])), encoding="utf-8-sig")
    return path


def given(path, **more):
    return Given(f"{path.suffix[1:]}:{path}", target="class", sensitive="sex", subject="person", **more)


def on_a_board(spec, path):
    """x (rows, features) as a board reads a table of the raw columns."""
    entry = {"name": "x", **InputSpec.from_json(spec.as_json()).as_json()}
    with LinesSource(str(path), expected(parse_input(entry), None)) as source:
        found = []
        while (block := source.next_block()) is not None:
            found += [frame._data for frame in block]
        assert source.refused() == []
    return np.array(found)


def test_a_recipe_proposes_rules_and_a_board_makes_the_same_vectors(tmp_path):
    path = write(tmp_path / "mine.csv", rows())
    draft = compose(given(path), tmp_path / "mine.toml", kind="label-only")
    text = draft.text("label-only", draft.network, 0.9, 0.5)
    recipe = Recipe.parse(text, origin="mine.toml", folder=tmp_path)
    rules = {name: one.model_dump(exclude_defaults=True) for name, one in recipe.data.columns.encode.items()}
    assert rules["weight"] == {"kind": "number", "decimal": ","}
    steps = rules["steps"]
    assert (steps["decimal"], steps["thousands"], steps["flag"]) == (",", ".", True)
    assert rules["city"] == {"kind": "one-hot", "values": ["", "Bern", "Genève", "Ulm; Donau"]}  # and no Hinterdorf
    assert rules["smokes"] == {"kind": "boolean"}
    assert rules["since"] == {"kind": "date", "days": "day.month.year"}
    assert rules["aid"]["values"] == ["NA", "glasses", "none"]
    data = datasets.load(recipe)
    assert data.y_names == ("none", "walk")
    assert len(np.unique(data.cluster)) == PEOPLE
    there = [float(row[2].replace(".", "")) for at, row in enumerate(rows()) if row[2] and at in data.slices.training()]
    assert steps["fill"] == pytest.approx(np.mean(there), rel=1e-4)  # of training rows alone
    raw = write(tmp_path / "raw.csv", [row[1:7] for row in rows()], names=RAW)
    assert on_a_board(data.input, raw).tolist() == data.x.tolist()
    other = write(tmp_path / "other.csv", [row[6:0:-1] for row in rows()], names=RAW[::-1])
    assert on_a_board(data.input, other).tolist() == data.x.tolist()


def test_what_is_missing_is_what_the_user_names(tmp_path):
    path = write(tmp_path / "mine.csv", rows())
    found = look(given(path, missing=("NA",)))
    assert found.wrong == []
    said = "\n".join(found.notes)
    assert '"weight" is read as number, decimal ","' in said
    assert '"aid" becomes a feature for each of "(no value)", "glasses", "none"' in said
    assert first_guess(given(path, missing=("NA",))).data.columns.missing == ["NA"]


def test_parquet_and_csv_of_one_table_are_one_x(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    made = [list(column) for column in zip(*rows(), strict=True)]
    made[1] = [float(cell.replace(",", ".")) for cell in made[1]]
    made[2] = [int(cell.replace(".", "")) if cell else None for cell in made[2]]
    made[4] = [cell == "true" for cell in made[4]]
    made[5] = [datetime.datetime.strptime(cell, "%d.%m.%Y").date() for cell in made[5]]
    table = {name: pa.array(column) for name, column in zip(HEAD, made, strict=True)}
    table["city"] = pa.array([cell or None for cell in made[3]]).dictionary_encode()
    table["person"] = pa.array([int(cell) for cell in made[0]])
    parquet.write_table(pa.table(table), tmp_path / "mine.parquet")
    one = datasets.load(first_guess(given(tmp_path / "mine.parquet")))
    two = datasets.load(first_guess(given(write(tmp_path / "mine.csv", rows()))))
    assert one.input.features == two.input.features
    assert np.array_equal(one.x, two.x)
    assert len(np.unique(one.cluster)) == PEOPLE
    assert len(read_table("parquet", tmp_path / "mine.parquet").columns) == len(HEAD)


@pytest.mark.parametrize(
    ("rule", "match"),
    [
        ({"kind": "number"}, r'"city" does not fit `kind = "number"` in \d+ of 384 rows, first in row 1'),
        ({"kind": "ordinal", "values": ["Bern"]}, '"city" does not fit'),
        ({"kind": "one-hot"}, "`values` with"),
        ({"kind": "one-hot", "values": ["a"], "fill": 1.0}, "no `fill` or `flag`"),
        ({"kind": "number", "thousands": "."}, "expected a thousands mark that is not the decimal mark too"),
    ],
)
def test_a_rule_that_does_not_fit_is_one_sentence(rule, match, tmp_path):
    document = first_guess(given(write(tmp_path / "mine.csv", rows()))).model_dump(exclude_none=True, mode="json")
    document["data"]["columns"]["encode"]["city"] = rule
    with pytest.raises(BadInput, match=match):
        datasets.load(Recipe.check(document))


def test_free_text_gets_no_rule(tmp_path):
    made = [[*row, f"said {at}"] for at, row in enumerate(rows())]
    path = write(tmp_path / "mine.csv", made, names=[*HEAD, "note"])
    assert "note" not in first_guess(given(path)).data.columns.encode
    assert any('"note" holds text' in wrong for wrong in look(given(path)).wrong)
