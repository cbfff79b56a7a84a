"""A table from plan to erasure, by commands alone."""

import csv
import json
import re

import numpy as np
import pytest
import tomllib

from tests.support.publishing import archives, visit_tables


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    visit_tables.write(tmp_path / "visits.csv")
    (tmp_path / "plan.toml").write_text(visit_tables.PLAN)
    return tmp_path


def ok(found):
    """What a command wrote to stdout."""
    code, out, err = found
    assert code == 0, err
    return out


def pseudonyms(path):
    with path.open(newline="") as file:
        return [row["visitor"] for row in csv.DictReader(file)]


def test_from_the_plan_to_the_erasure(folder, edgeveil):
    held = ("--key", "p.key", "--vault", "vault")
    scope = (*held, "--scope", "university/visitor/1")
    to = (
        "--table",
        "visits.csv",
        "--plan",
        "plan.toml",
        "--key",
        "p.key",
        "--vault",
        "vault",
        "--recipient",
        "university",
    )
    ok(edgeveil("pseudonym", "keygen", "p.key", "--no-passphrase"))
    document = json.loads(ok(edgeveil("publish", "table", *to, "--out", "out", "--json")))
    assert document["found"]["k"] >= 3
    first = pseudonyms(folder / "out/table.csv")
    (name,) = ok(edgeveil("pseudonym", "reveal", first[0], *scope)).splitlines()
    assert name.startswith("person ")
    assert first[0] in ok(edgeveil("pseudonym", "subject", name.upper(), *held, "--field", "visitor"))
    ok(edgeveil("pseudonym", "rotate", "out/table.csv", "--column", "visitor", *scope, "--to", "2", "--out", "r.csv"))
    assert not set(first) & set(pseudonyms(folder / "r.csv"))
    asked = json.loads(ok(edgeveil("pseudonym", "erase", f"visitor=  {name}", *held, "--json")))
    assert [one["epoch"] for one in asked] == [1, 2]
    assert asked[0]["pseudonym"] == first[0]
    code, out, err = edgeveil("pseudonym", "reveal", first[0], *scope)
    assert (code, out) == (2, "")
    assert err == "error: This subject was erased: no one can go from the pseudonym to the person.\n"
    code, _, err = edgeveil("publish", "table", *to, "--out", "out")
    assert code == 2
    assert "never written over another" in err


def test_a_drafted_plan_publishes_nothing(folder, edgeveil):
    ok(edgeveil("pseudonym", "keygen", "p.key", "--no-passphrase"))
    ok(edgeveil("publish", "plan", "--table", "visits.csv", "--out", "new.toml"))
    text = (folder / "new.toml").read_text()
    assert text.count('action = ""') == 8
    assert 'type = "prose"' in text
    assert "Person 0" not in text
    words = ("--table", "visits.csv", "--plan", "new.toml", "--key", "p.key", "--recipient", "x", "--out", "out")
    for missing in ("`link`", 'column "visitor" needs an action'):
        code, out, err = edgeveil("publish", "table", *words)
        assert (code, out) == (2, "")
        assert missing in err
        (folder / "new.toml").write_text(text.replace('# people = ""', 'people = "visitor"').replace("# link", "link"))
    code, _, err = edgeveil("publish", "plan", "--table", "visits.csv", "--out", "new.toml")
    assert code == 2
    assert not (folder / "out").exists()


@pytest.fixture
def recordings(folder):
    """Frames beside the table, whose column ``recording`` has their numbers."""
    rows = archives.write_table(folder / "visits.csv")
    np.savez(folder / "x.npz", x=np.zeros((len(rows), 4), np.uint8))
    return folder


def planned(edgeveil, out="new.toml"):
    return edgeveil("publish", "plan", "--in", "npz:x.npz", "--table", "visits.csv", "--out", out)


def test_a_plan_for_recordings_says_which_column_names_a_frame(recordings, edgeveil):
    code, _, told = planned(edgeveil)
    assert code == 0
    plan = tomllib.loads((recordings / "new.toml").read_text())
    assert plan["frames"] == {"key": "recording", "most_dropped": 0.0}
    assert {column["action"] for column in plan["columns"].values()} == {""}
    code, _, err = edgeveil(*told.partition("then: edgeveil ")[2].split())  # the next command is told whole
    assert code == 2
    assert "`link`" in err


def test_where_two_columns_could_name_a_frame_none_is_chosen(recordings, edgeveil):
    text = (recordings / "visits.csv").read_text().splitlines()
    lines = [f"{text[0]},number", *(f"{line},{number}" for number, line in enumerate(text[1:]))]
    (recordings / "visits.csv").write_text("\n".join(lines) + "\n")
    ok(planned(edgeveil))
    text = (recordings / "new.toml").read_text()
    assert tomllib.loads(text)["frames"]["key"] == ""
    assert "choose one: recording, number" in text


@pytest.mark.parametrize(
    ("frames", "change", "said"),
    [
        (1, lambda row: row, 'Column "recording", row [0-9]+: expected a number from 0 to'),
        (-1, lambda row: row, "1 frame has no row in the table, the first of them number"),
        (0, lambda row: {**row, "recording": "0"}, "No column of visits.csv says which frame is a row's"),
        (
            0,
            lambda row: {**row, "recording": row["recording"].replace("7", "8")},
            'Column "recording", row [0-9]+: it has the frame of row [0-9]+',
        ),
        (
            0,
            lambda row: {"visitor": row["visitor"]},
            "No column of visits.csv says which frame is a row's: expected one",
        ),
    ],
)
def test_table_and_recordings_that_do_not_match_make_no_plan(recordings, edgeveil, frames, change, said):
    with (recordings / "visits.csv").open(newline="") as file:
        rows = list(map(change, csv.DictReader(file)))
    with (recordings / "visits.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)
    np.savez(recordings / "x.npz", x=np.zeros((len(rows) - frames, 4), np.uint8))
    code, out, err = planned(edgeveil)
    assert (code, out) == (2, "")
    assert re.fullmatch(f"error: .*({said}).*", err.strip())
    assert not (recordings / "new.toml").exists()


def test_a_pseudonym_that_begins_with_a_dash_is_no_option(folder, edgeveil):
    ok(edgeveil("pseudonym", "keygen", "p.key", "--no-passphrase"))
    scope = ("--key", "p.key", "--scope", "x/door/1")
    for pseudonym in ("-" + "A" * 42, "-" + "h" * 42, "-RbhA" + "_-x" * 13, "--" + "A" * 41):
        code, _, err = edgeveil("pseudonym", "reveal", pseudonym, *scope)
        assert code == 2
        assert "does not decrypt" in err


def test_a_vault_that_is_not_there_is_not_made_to_look_into_it(folder, edgeveil):
    ok(edgeveil("pseudonym", "keygen", "p.key", "--no-passphrase"))
    code, _, err = edgeveil("pseudonym", "subject", "visitor=ann", "--key", "p.key", "--vault", "none")
    assert code == 2
    assert "There is no vault at none" in err
    assert not (folder / "none").exists()
