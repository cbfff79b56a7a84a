"""Tables as other programs write them: separators, heads, identifiers, words for no value, cells of Parquet."""

import csv
import datetime
from pathlib import Path

import numpy as np
import pytest
import tomllib
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.columns import read_table, recordings_at
from edgeveil.trainer.datasets.encoding import features
from edgeveil.trainer.recipe.data_section import Columns, data_at
from edgeveil.trainer.scaffold.given import Given
from edgeveil.trainer.scaffold.look import look

CASES = tomllib.loads(Path(__file__).with_name("messy_tables.toml").read_text())["case"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["row"])
def test_a_table_is_read_as_it_was_written(tmp_path, case):
    path = tmp_path / "t.csv"
    path.write_bytes(case["text"].encode())
    if "said" in case:
        with pytest.raises(BadInput) as refused:
            read_table("csv", path)
        assert case["said"] in str(refused.value)
        return
    found = read_table("csv", path, case.get("missing")).columns
    if "columns" in case:
        assert {name: column.classes.astype(str).tolist() for name, column in found.items()} == case["columns"]
    for name, many in case.get("gone", {}).items():
        assert found[name].missing.sum() == many


@settings(max_examples=25, deadline=None)
@example(",", [["", "", ""], ["", "", "1"]], False)
@given(
    st.sampled_from(",;\t|"),
    st.lists(st.lists(st.text("ab ,;|\t\"'1.5", max_size=6), min_size=3, max_size=3), min_size=1, max_size=5),
    st.booleans(),
)
def test_any_cells_come_back_under_any_separator(tmp_path_factory, mark, rows, excel):
    path = tmp_path_factory.mktemp("t") / "t.csv"
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        file.write(f"sep={mark}\r\n" if excel else "")
        csv.writer(file, delimiter=mark, quoting=csv.QUOTE_ALL).writerows([["one", "two", "three"], *rows])
    table = read_table("csv", path)
    texts = [table.columns[name].classes.astype(str).tolist() for name in ("one", "two", "three")]
    assert list(zip(*texts, strict=True)) == [tuple(cell.strip() for cell in row) for row in rows]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.from_regex(r"[0-9]{1,20}([.eE][0-9]{1,2})?", fullmatch=True), min_size=2, max_size=6, unique=True))
def test_no_two_identifiers_are_one_class(tmp_path_factory, codes):
    path = tmp_path_factory.mktemp("t") / "t.csv"
    path.write_text("\n".join(["code", *codes]))
    table = read_table("csv", path)
    assert table.classes("code", "data.columns.subject").astype(str).tolist() == codes


PLAIN = Columns(target="y", sensitive="z")


@pytest.mark.parametrize("head", ["", "Unnamed: 0", "__index_level_0__", "...1"])
def test_row_numbers_are_no_feature_until_they_are_left_out(tmp_path, head):
    path = tmp_path / "t.csv"
    path.write_text(f"{head},y,z,a,n\n" + "".join(f"{row},{row % 2},{row % 3},{row * 7},\n" for row in range(60)))
    table = read_table("csv", path)
    name = head or "unnamed 1"
    with pytest.raises(BadInput, match=r"column 1 has no name.*index=False, row.names=FALSE.*--leave-out") as refused:
        features(table, PLAIN)
    assert repr(name) in str(refused.value)
    assert any(repr(name) in wrong for wrong in look(Given(f"csv:{path}")).wrong)
    with pytest.raises(BadInput, match='"n" is empty in every row: leave it out'):
        features(table, Columns(target="y", sensitive="z", leave_out=[name]))
    assert features(table, Columns(target="y", sensitive="z", leave_out=[name, "n"]))[1] == ("a",)


def test_every_cell_of_parquet_is_read_or_named(tmp_path):
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    odd = {
        "ns": arrow.array([1, 1_600_000_000_123_456_789], arrow.timestamp("ns")),
        "zone": arrow.array([1, 2], arrow.timestamp("ns", "Europe/Berlin")),
        "far": arrow.array([2**40, 0], arrow.timestamp("s")),
        "lasting": arrow.array([1, 1001], arrow.duration("ns")),
        "bytes": arrow.array([b"u\xcc\x88", b"b"]),
        "nan": arrow.array([np.nan, 1.5]),
        "day": arrow.array([datetime.date(2025, 1, 2), None]),
    }
    parquet.write_table(arrow.table(odd), tmp_path / "t.parquet")
    found = read_table("parquet", tmp_path / "t.parquet").columns
    assert list(found) == list(odd)
    assert found["ns"].classes[1].startswith("2020-09-13 12:26:40.123456789")
    assert (found["bytes"].classes[0], found["nan"].missing.tolist()) == ("ü", [True, False])
    assert found["day"].missing.tolist() == [False, True]
    parquet.write_table(arrow.table({"a": arrow.array([b"a", b"\xff"])}), tmp_path / "t.parquet")
    with pytest.raises(BadInput, match='column "a", row 2: the cell cannot be read'):
        read_table("parquet", tmp_path / "t.parquet")


def test_hidden_files_are_no_recordings_and_endings_have_no_case(tmp_path):
    for name in ("b.CSV", "a.csv", "._a.csv", ".hidden.csv"):
        (tmp_path / name).write_text("t,x\n0,1\n")
    assert [path.name for path in recordings_at("csv", tmp_path)] == ["a.csv", "b.CSV"]
    (tmp_path / "X.NPZ").touch()
    assert data_at(str(tmp_path / "b.CSV")) == f"csv:{tmp_path}/b.CSV"
    assert data_at(str(tmp_path / "X.NPZ")) == f"npz:{tmp_path}/X.NPZ"
