"""Recordings and their table: each frame perturbed once, in an order that says nothing, and a vault that knows whom."""

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet
import pytest

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet, PrivacyStop
from edgeveil.edge_runtime.ext.ledger.book import Ledger, create
from edgeveil.trainer.ext.publish import frames, publishing, reader
from edgeveil.trainer.ext.publish.master_key import Cipher, Scope, open_key
from edgeveil.trainer.ext.publish.publishing import publish_archive
from edgeveil.trainer.ext.publish.vault import Vault
from edgeveil.trainer.ext.publish.verify_publication import verify_publication
from edgeveil.trainer.sealing import keys
from tests.support import bundles
from tests.support.promised import counted_bundles
from tests.support.publishing import archives
from tests.support.publishing.breaking import Broken, bad_frames, broken_off_at_the_end, rows_in, unlink_rows


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch):
    monkeypatch.setattr(frames, "engine_of", archives.here)


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    return archives.make(tmp_path_factory.mktemp("archive"))


@pytest.fixture
def own(tmp_path):
    return archives.make(tmp_path)


def rows_of(folder):
    return [row for path in sorted(folder.glob("part-*")) for row in pyarrow.parquet.read_table(path).to_pylist()]


def test_each_row_has_the_frame_that_its_table_names(archive):
    document = archive.published("whole")
    rows = rows_of(archive["whole"])
    assert len(rows) == document["rows"] == sum(part["rows"] for part in document["parts"])
    assert not archive["whole/work"].exists()
    raw = np.load(archive["x.npz"])["x"]
    label = {row["minutes"] + row["illness"]: set() for row in archive.rows}
    for row in archive.rows:
        label[row["minutes"] + row["illness"]].add(int(raw[int(row["recording"])].argmax()))
    assert all(row["label"] in label[f"{row['minutes']}{row['illness']}"] for row in rows)
    means = np.load(archive["x.npz"])["x"]
    assert {len(row["frame"]) for row in rows} == {archives.FEATURES}
    assert not {frame.tobytes() for frame in means} & {row["frame"] for row in rows}
    assert "recording" not in rows[0]
    assert json.loads(archive["whole/publication.json"].read_bytes()) == document
    assert document["anonymity"]["found"]["k"] >= 3
    assert not pyarrow.parquet.read_schema(archive["whole/part-00000.parquet"]).metadata


def test_the_vault_knows_who_was_sent_what(archive):
    archive.published("known", vault="known-vault")
    key = open_key(archive["pseudonyms.key"])
    cipher = Cipher(key, Scope("university", "visitor", 1))
    with Vault(archive["known-vault"], key) as vault:
        salts = {cipher.open(row["visitor"]) for row in rows_of(archive["known"])}
        assert {vault.identifier("visitor", salt) for salt in salts} <= {
            " ".join(row["visitor"].split()).lower() for row in archive.rows
        }
        assert [len(vault.holding(salt)) for salt in salts] == [1] * len(salts)


def test_the_order_is_of_the_key_alone(archive):
    for name in ("first", "second"):
        archive.published(name)
    assert archive.parts("first") == archive.parts("second")
    archive.published("other", recipient="ministry")
    place = {row["minutes"] + row["illness"]: int(row["recording"]) for row in archive.rows}
    orders = [[place[f"{row['minutes']}{row['illness']}"] for row in rows_of(archive[n])] for n in ("first", "other")]
    assert orders[0] != orders[1]
    for order in orders:  # of a shuffled order the correlation has a deviation of 1 / sqrt(n)
        assert abs(np.corrcoef(order, np.arange(len(order)))[0, 1]) < 6 / np.sqrt(len(order))


def test_dropped_frames_drop_their_rows_and_k_is_counted_without_them(own, monkeypatch):
    bad_frames(monkeypatch, {20, 21, 90})
    document = own.published(chunk_rows=50)
    assert document["dropped"] == 3
    rows = rows_of(own["out"])
    shown = [[str(row[name]) for row in rows] for name in ("day", "door", "age")]
    assert min(map(len, reader.alike(shown, [row["visitor"] for row in rows], linked=True))) >= 3


def test_a_chunk_of_which_nothing_is_left(own, monkeypatch):
    bad_frames(monkeypatch, set(range(40, 60)))
    document = own.published(chunk_rows=8)
    assert document["dropped"] >= 16
    assert sum(part["rows"] for part in document["parts"]) == len(rows_of(own["out"])) == document["rows"]


def test_people_whom_a_drop_singles_out_are_left_out_too(own, monkeypatch):
    bad_frames(monkeypatch, set(range(10, 200, 9)))
    own.plan = own.plan.replace("most_dropped = 0.1", "most_dropped = 0.3")
    document = own.published()
    assert document["dropped"] + document["rows"] <= len(own.rows)
    assert document["anonymity"]["found"]["k"] >= 3

    def as_before(_, shown, there):
        staying = there[shown.rows]
        labels = {name: values[staying] for name, values in shown.labels.items()}
        return replace(shown, rows=there, labels=labels)

    monkeypatch.setattr(publishing, "_without_dropped", as_before)
    with pytest.raises(LimitNotMet, match=r"What was written has k = [12]"):  # the reader is a second guard
        own.published("unguarded")
    assert not own["unguarded"].exists()


def test_drops_after_which_the_plan_cannot_be_met(own, monkeypatch):
    bad_frames(monkeypatch, {int(row["recording"]) for row in own.rows if row["illness"] == "flu"})
    own.plan = own.plan.replace("most_dropped = 0.1", "most_dropped = 0.9").replace("distinct_l = 2", "distinct_l = 3")
    with pytest.raises(LimitNotMet, match='frames were dropped, nothing was published: "illness" has fewer different'):
        own.published()
    assert not own["out"].exists()
    assert rows_in(own, "subject") == 0


def test_more_drops_than_the_plan_allows_leave_nothing_and_the_vault_as_it_was(own, monkeypatch):
    bad_frames(monkeypatch, set(range(100, 160)))
    with pytest.raises(LimitNotMet, match=r"frames of [0-9]+ were dropped \([0-9]+ shape\).*most_dropped allows"):
        own.published()
    assert not own["out"].exists()
    assert rows_in(own, "subject") == 0


def test_who_was_erased_meanwhile_is_not_published(own, monkeypatch):
    broken_off(own, monkeypatch)
    with Vault(own["vault"], open_key(own["pseudonyms.key"])) as vault:
        vault.erase("visitor", "person 003")
    with pytest.raises(BadInput, match="1 person was erased since this publication was begun"):
        own.published()
    assert not own["out"].exists()
    assert rows_in(own, "subject") == 0


def test_the_reader_of_the_parts_is_the_last_guard(own, monkeypatch):
    right = reader.alike
    monkeypatch.setattr(reader, "alike", lambda *a, **k: [*right(*a, **k), {right(*a, **k)[0].pop()}])
    with pytest.raises(LimitNotMet, match="k = 1 and the plan asks for 3: nothing was published"):
        own.published()
    assert not own["out"].exists()


def broken_off(own, monkeypatch, after=1, **changes):
    """Break off after some chunks; returns what was made."""
    right, count = frames.work_chunk, iter(range(100))

    def stop(**arguments):
        if next(count) == after:
            raise Broken
        return right(**arguments)

    monkeypatch.setattr(frames, "work_chunk", stop)
    with pytest.raises(Broken):
        own.published(**changes)
    monkeypatch.setattr(frames, "work_chunk", right)
    return {path.name: path.stat().st_ino for path in own["out/work"].glob("chunk-*.npy")}


def test_a_resumed_one_makes_no_chunk_twice(own, monkeypatch):
    there = broken_off(own, monkeypatch)
    assert [name[:11] for name in there] == ["chunk-00000"]
    assert not own["out/publication.json"].exists()
    seen = []
    right = frames.work_chunk
    monkeypatch.setattr(frames, "work_chunk", lambda **a: seen.append(a["number"]) or right(**a))
    own.published()
    assert 0 not in seen
    assert seen == sorted(seen)
    own.published("straight")
    assert own.parts() == own.parts("straight")
    with pytest.raises(BadInput, match="not empty"):
        own.published()


def test_a_damaged_chunk_is_made_again(own, monkeypatch):
    broken_off(own, monkeypatch)
    (chunk,) = own["out/work"].glob("chunk-00000-*.npy")
    data = chunk.read_bytes()
    chunk.write_bytes(data[:100] + bytes([data[100] ^ 1]) + data[101:])
    own.published()
    own.published("straight")
    assert own.parts() == own.parts("straight")


def test_broken_off_at_the_end_it_is_noted_once(own, monkeypatch):
    broken_off_at_the_end(own, monkeypatch)
    own.published()
    assert rows_in(own, "publication") == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("plan", "the plan has changed"),
        ("table", "the table has changed"),
        ("archive", "the archive has changed"),
        ("bundle", "the bundle has changed"),
        ("recipient", "the recipient has changed"),
        ("chunk_rows", "the chunk size has changed"),
    ],
)
def test_what_changed_meanwhile_is_not_gone_on_with(own, monkeypatch, change, said):
    there = broken_off(own, monkeypatch)
    changes = {}
    if change == "plan":
        own.plan = own.plan.replace("k = 3", "k = 4")
    elif change == "table":
        own["visits.csv"].write_text(own["visits.csv"].read_text().replace("flu", "rash", 1))
    elif change == "archive":
        np.savez(own["x.npz"], x=np.load(own["x.npz"])["x"][::-1].copy())
    elif change == "bundle":
        bundles.make_bundle(own.folder, example=archives.example(), change=lambda m, _: m.update(security_version=7))
    else:
        changes = {"recipient": "ministry"} if change == "recipient" else {"chunk_rows": 65}
    with pytest.raises(BadInput, match=said):
        own.published(**changes)
    assert {path.name: path.stat().st_ino for path in own["out/work"].glob("chunk-*.npy")} == there


def test_a_second_publication_by_a_bundle_that_draws_is_asked_for(tmp_path, monkeypatch):
    own = archives.make(tmp_path, bundle=bundles.laplace_example())
    broken_off(own, monkeypatch)
    own.published()  # the same one
    with pytest.raises(BadInput, match="published before by a bundle that draws"):
        own.published("again")
    assert not own["again"].exists()
    own.published("again", again=True)
    first, second = rows_of(own["out"]), rows_of(own["again"])
    assert [row.pop("frame") for row in first] != [row.pop("frame") for row in second]
    assert first == second


def test_what_is_spent_is_charged_and_no_more_leaves(tmp_path):
    own = archives.make(tmp_path, bundle=counted_bundles.counted_example(releases=3, unit="subject"))
    with pytest.raises(BadInput, match="name the ledger with --ledger"):
        own.published()
    create(str(tmp_path / "ledger"))
    document = own.published(ledger=tmp_path / "ledger")
    assert Ledger(str(tmp_path / "ledger")).book().lifetime == document["rows"] * counted_bundles.COST
    with pytest.raises(LimitNotMet, match="budget-spent"):
        own.published("again", ledger=tmp_path / "ledger", again=True)
    assert not own["again"].exists()


def test_a_ledger_that_has_too_little_is_not_charged(tmp_path):
    own = archives.make(tmp_path, bundle=counted_bundles.counted_example(releases=3))
    create(str(tmp_path / "ledger"))
    with pytest.raises(LimitNotMet, match="3 releases left"):
        own.published(ledger=tmp_path / "ledger")
    assert Ledger(str(tmp_path / "ledger")).book().lifetime == 0
    assert rows_in(own, "subject") == 0
    create(str(tmp_path / "more"))
    (tmp_path / "plain").mkdir()
    plain = archives.make(tmp_path / "plain")
    with pytest.raises(BadInput, match="leave out --ledger"):
        plain.published(ledger=tmp_path / "more")


@pytest.mark.parametrize("method", ["incognito", "mondrian"])
def test_rows_that_nothing_links(own, monkeypatch, method):
    unlink_rows(own, method)
    if method == "mondrian":
        own.plan = own.plan.replace("suppress = 20", "suppress = 0")
    else:
        bad_frames(monkeypatch, {20, 60, 100})
    key = open_key(own["pseudonyms.key"])
    signer = keys.Signer.open(own["keys/signing.key"])
    document = publish_archive(own.wanted(), key, signer)
    rows = rows_of(own["out"])
    assert "visitor" not in rows[0]
    assert document["anonymity"]["people"] is None
    owners = {}
    for row in own.rows:
        owners.setdefault((row["minutes"], row["illness"]), set()).add(" ".join(row["visitor"].split()).lower())
    classes = {}
    for row in rows:
        shown = row["day"], row["door"], row["age"]
        classes.setdefault(shown, set()).update(owners[str(row["minutes"]), row["illness"]])
    assert min(map(len, classes.values())) >= 3
    assert document["anonymity"]["found"]["k"] >= 3
    found = verify_publication(own["out"], own.made.trust)
    assert found["counted"] == "rows"
    assert found["k"] >= document["anonymity"]["found"]["k"]


def test_after_a_privacy_stop_nothing_is_left(own, monkeypatch):
    right, count = frames._Machine.perturbed, iter(range(100))

    def stop(machine, wanted):
        if next(count) == 1:
            raise PrivacyStop("frames leave as they came")
        return right(machine, wanted)

    monkeypatch.setattr(frames._Machine, "perturbed", stop)
    with pytest.raises(PrivacyStop, match="as they came"):
        own.published()
    assert not own["out"].exists()
    assert rows_in(own, "subject") == 0


@pytest.mark.parametrize("as_lists", [False, True])
def test_recordings_in_a_parquet_file_are_the_same(archive, tmp_path, as_lists):
    x = np.load(archive["x.npz"])["x"]
    cells = [row.tolist() if as_lists else row.tobytes() for row in x]
    pyarrow.parquet.write_table(pyarrow.table({"x": cells}), tmp_path / "x.parquet")
    name = f"parquet-{as_lists}"
    document = archive.published(name, recordings=str(tmp_path / "x.parquet"))
    assert document["dropped"] == 0
    archive.published("npz-" + name)
    mine, other = (
        {(row["visitor"], row["minutes"], row["label"], row["frame"]) for row in rows_of(archive[one])}
        for one in (name, "npz-" + name)
    )
    assert mine == other


@pytest.mark.parametrize("column", [[b"short"] * 250, [["a"] * 64] * 250, [[300] * 64] * 250])
def test_parquet_that_holds_something_else(archive, tmp_path, column):
    pyarrow.parquet.write_table(pyarrow.table({"x": column}), tmp_path / "x.parquet")
    with pytest.raises(BadInput, match=r"first frames cannot be perturbed \((unreadable|dtype)\)"):
        archive.published("none", recordings=str(tmp_path / "x.parquet"))
    pyarrow.parquet.write_table(pyarrow.table({"y": column}), tmp_path / "x.parquet")
    with pytest.raises(BadInput, match='has no column "x"'):
        archive.published("none", recordings=str(tmp_path / "x.parquet"))
