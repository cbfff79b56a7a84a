"""``input.table``: cells become a vector by a signed rule; what does not fit is refused by its column, never shown."""

import copy
import math

import numpy as np
import pytest

from edgeveil.edge_runtime.cli import main
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.columns import Encoder, checked, date, number
from edgeveil.edge_runtime.pipeline.perturber import Perturber
from tests.support import bundles

KG = {"name": "kg", "kind": "number", "decimal": ",", "thousands": ".", "fill": 60.5, "flag": True}
CITY = {"name": "city", "kind": "one-hot", "values": ["", "Ulm, Donau"]}
SMOKES = {"name": "smokes", "kind": "boolean", "fill": None, "flag": False}
GRADE = {"name": "grade", "kind": "ordinal", "values": ["low", "mid", "high"], "fill": None, "flag": False}
TABLE = checked([KG, CITY, SMOKES, GRADE], ["NA"])


@pytest.mark.parametrize(
    ("cell", "marks", "value"),
    [
        ("57,0", (",", ""), 57.0),
        ("1.234.567,25", (",", "."), 1234567.25),
        ("1,234", (".", ","), 1234.0),
        ("1\u202f234,5", (",", " "), 1234.5),
        ("1\u2019234.5", (".", "'"), 1234.5),
        ("-.5e3", (".", ""), -500.0),
        ("12.34", (",", "."), None),  # no groups of three
        ("1.5", (",", ""), None),
        ("1,5", (".", ""), None),
        ("1_000", (".", ""), None),
        ("\u0663", (".", ""), None),
        ("nan", (".", ""), None),
        ("1e999", (".", ""), None),
    ],
)
def test_a_number_is_read_with_the_marks_of_its_column(cell, marks, value):
    assert number(cell, *marks) == value


@pytest.mark.parametrize(
    ("cell", "days", "value"),
    [
        ("1970-01-02", "year-month-day", 1.0),
        ("29.02.2024", "day.month.year", 19782.0),
        ("02/29/2024", "month/day/year", 19782.0),
        ("29/2/2024", "day/month/year", 19782.0),
        ("1970-01-01T06:00:00", "year-month-day", 0.25),
        ("1970-01-01 00:00:00.000000000", "year-month-day", 0.0),
        ("1970-01-01T02:00+02:00", "year-month-day", 0.0),
        ("1969-12-31 22:00:00-0200", "year-month-day", 0.0),
        ("29.02.2023", "day.month.year", None),
        ("2024-02-29", "day.month.year", None),
        ("29.02.24", "day.month.year", None),
        ("1970-01-01 25:00", "year-month-day", None),
    ],
)
def test_a_date_is_its_days_since_1970(cell, days, value):
    assert date(cell, days) == value


def test_every_kind_of_cell_has_its_features():
    encoder = Encoder(TABLE)
    assert encoder.features == ["kg", "kg=", "city=", "city=Ulm, Donau", "smokes", "grade"]
    cells = [
        ["57,5", " NA ", "", "seven"],
        ["Ulm, Donau", "", "Rome", "NA"],
        ["YES", "0", "False", "true"],
        ["high", "low", "mid", "mid"],
    ]
    x, wrong = encoder.encode(cells)
    assert x.dtype == np.float32
    assert x.tolist() == [[57.5, 0, 0, 1, 1, 2], [60.5, 1, 1, 0, 0, 0], [60.5, 1, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0]]
    assert wrong == {3: 'column "kg" holds no number, or one that float32 cannot hold'}
    for place, cell in ((2, "maybe"), (2, ""), (3, "unheard"), (3, "NA")):
        row = [[column[0]] for column in cells]
        row[place] = [cell]
        assert list(encoder.encode(row)[1]) == [0], cell


def test_numbers_of_a_file_are_what_their_texts_are():
    encoder = Encoder(checked([{**KG, "decimal": ".", "thousands": ""}], []))
    values, missing = np.array([0.1, 1e-7, 12345678.9, math.pi]), np.array([False, False, True, False])
    texts = ["" if gone else repr(value) for value, gone in zip(values.tolist(), missing, strict=True)]
    from_numbers, from_texts = encoder.numbers(0, values, missing), encoder.column(0, texts)
    assert all(np.array_equal(a, b) for a, b in zip(from_numbers, from_texts, strict=True))


def example():
    manifest, members = bundles.cleaner_example()
    manifest["input"]["features"] = Encoder(TABLE).features
    manifest["input"]["table"] = copy.deepcopy(TABLE)
    return manifest, members


def test_a_bundle_encodes_the_rows_of_a_csv(tmp_path, capsys):
    made = bundles.make_bundle(tmp_path, example=example())
    text = "\ufeffgrade;kg;city;smokes\r\nhigh;57,5;Ulm, Donau;yes\r\nlow;NA;;no\r\n\r\nmid;secret;;no\r\nmid;1;2\r\n"
    (tmp_path / "raw.csv").write_text(text + "mid;1.000,5;Rome;TRUE", encoding="utf-8")
    x = np.array([[57.5, 0, 0, 1, 1, 2], [60.5, 1, 1, 0, 0, 0], [1000.5, 0, 0, 0, 1, 1]], np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    call = ["run", str(made.path), "--trust", str(made.trust)]
    assert main.main([*call, "--source", f"csv:{tmp_path}/raw.csv", "--sink", f"npz:{tmp_path}/raw-out.npz"]) == 0
    said = capsys.readouterr()
    assert 'line 5 refused: column "kg" holds no number' in said.err
    assert "line 6 refused: 3 cells, and 4 were expected" in said.err
    assert "secret" not in said.err + said.out
    assert main.main([*call, "--source", f"npz:{tmp_path}/x.npz", "--sink", f"npz:{tmp_path}/x-out.npz"]) == 0
    with np.load(tmp_path / "raw-out.npz") as raw, np.load(tmp_path / "x-out.npz") as same:
        assert raw["x"] == pytest.approx(same["x"], rel=1e-5)  # one by one, or all at once
        assert raw["index"].tolist() == [2, 3, 7]
    for head in ("grade;kg;city", "grade;kg;city;smokes;z", "high;57,5;Ulm;yes"):
        (tmp_path / "raw.csv").write_text(head + "\nhigh;57,5;Ulm;yes\n")
        end = ["--source", f"csv:{tmp_path}/raw.csv", "--sink", f"npz:{tmp_path}/other.npz"]
        assert main.main([*call, *end]) == 2
        assert "this bundle takes kg, city, smokes, grade" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda table: table.update(sha256="0" * 64), "encodes made-up rows otherwise"),
        (lambda table: table["columns"][1]["values"].append("Rome"), "do not make the features"),
        (lambda table: table["columns"][1]["values"].append(" Ulm, Donau"), "two values are alike"),
        (lambda table: table["columns"][0].update(thousands=","), "thousands mark too"),
        (lambda table: table["columns"][0].update(kind="magic"), "'decimal' is not known"),
        (lambda table: table["columns"].append({"name": "a", "kind": "magic"}), "one of number"),
        (lambda table: table["columns"][0].update(values=["1"]), "values"),
        (lambda table: table["columns"][2].pop("fill"), "fill"),
        (lambda table: table["columns"].append(table["columns"][0]), "same name"),
        (lambda table: table["columns"][0].update(fill=1e300), "fill"),
    ],
)
def test_a_table_that_is_not_whole_is_refused(change, match, tmp_path):
    manifest, members = example()
    change(manifest["input"]["table"])
    refused = bundles.make_bundle(tmp_path, example=(manifest, members))
    with pytest.raises(BadInput, match=match):
        Perturber.open(refused.path, trust=refused.trust)
