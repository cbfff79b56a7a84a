"""What a publication of recordings says beyond its rows: statistics, an attack, and its card."""

import json

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.edge_runtime.ext.ledger.book import Ledger, create
from edgeveil.trainer.attacks.families.logistic import Logistic
from edgeveil.trainer.ext.publish import attack, frames, publishing, reader
from edgeveil.trainer.ext.publish import attack as of_files
from edgeveil.trainer.ext.publish.master_key import open_key
from edgeveil.trainer.ext.publish.publishing import publish_archive
from edgeveil.trainer.ext.publish.verify_publication import verify_publication
from edgeveil.trainer.sealing import keys
from tests.support import bundles
from tests.support.promised import counted_bundles
from tests.support.publishing import archives, visit_tables
from tests.support.publishing.breaking import Broken, bad_frames, broken_off_at_the_end, unlink_rows

PEOPLE, HIGH = 200, 16
ILLNESSES = ("flu", "cold", "rash")
WIDE, NARROW = "points = 100\nbits = 9\n", "points = 25\nbits = 0.4\n"
MEANS = np.rint(np.random.default_rng(0).random((archives.FEATURES,) * 2, np.float32) * HIGH).astype(np.uint8)


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    monkeypatch.setattr(frames, "engine_of", archives.here)
    monkeypatch.setattr(attack, "adversaries", lambda: (Logistic(),))
    monkeypatch.setattr(attack, "load_tensorflow", lambda: None)


def asking(archive, limits=WIDE, *changes):
    """The archive with a plan that asks for statistics and an attack on the illness, and texts replaced."""
    for old, new in (('action = "sensitive"\ndistinct_l = 2', 'action = "drop"'), *changes):
        assert old in archive.plan
        archive.plan = archive.plan.replace(old, new)
    archive.plan += f'{visit_tables.STATISTICS}\n[attack]\nsensitive = "illness"\n{limits}'
    return archive


@pytest.fixture
def own(tmp_path):
    return archives.make(tmp_path, people=PEOPLE)


def telling(archive):
    """Each frame is of the class that says its person's illness."""
    x = np.zeros((len(archive.rows), archives.FEATURES), np.uint8)
    for row in archive.rows:
        x[int(row["recording"]), ILLNESSES.index(row["illness"])] = HIGH
    np.savez(archive["x.npz"], x=x)
    return archive


def test_the_statement_has_statistics_attack_and_card(own):
    document = asking(own).published()
    assert json.loads(own["out/publication.json"].read_bytes()) == document
    assert [one["name"] for one in document["statistics"]["released"]] == ["people", "ages", "minutes"]
    assert document["statistics"]["unit"] == document["attack"]["unit"] == "person"
    # Geometric noise at epsilon 1 is above 40 once in 1e17 times.
    assert abs(document["statistics"]["released"][0]["value"] - PEOPLE) < 40
    assert list(document["attack"]["views"]) == ["columns", "frames", "both"]
    assert document["attack"]["copies"] == {"rows": document["rows"], "own": 0, "others": 0, "people": 0}
    assert document["unique_after"] == 0 < document["statement"]["unique_before"]["all"]
    card, page = own["out/publication.md"].read_text(), own["out/card.html"].read_text()
    for shown in (card, page):
        assert "this bundle was not audited" in shown
        assert document["attack"]["verdict"] in shown.lower()
        assert document["bundle"]["sha256"] in shown
    found = verify_publication(own["out"], own.made.trust)
    assert found["cards"] == ["card.html", "publication.md"]


def test_without_an_attack_the_card_has_the_verdict_of_the_bundle_alone(tmp_path):
    manifest, members = archives.example()
    verdict = {"word": "leaks", "upper": {"points": None, "balanced": None, "bits": None}}
    audit = {**bundles.audit_document(manifest, "numpy", members), "verdict": verdict}
    bundles.add_audit(manifest, members, audit)
    own = archives.make(tmp_path, bundle=(manifest, members))
    document = own.published(unaudited=False)
    assert document["statistics"] is document["attack"] is None
    card = own["out/publication.md"].read_text()
    assert "the plan asks for no attack" in card
    assert "* Verdict of its card: leaks" in card


def test_what_frames_tell_is_found_in_the_rows_that_were_written(own, monkeypatch):
    bad_frames(monkeypatch, set(range(3, 300, 16)))
    document = asking(telling(own)).published()
    assert document["dropped"] >= 15
    assert document["attack"]["rows"] == document["rows"]
    right = {name: part["best"]["accuracy"] for name, part in document["attack"]["views"].items()}
    assert right["frames"] > 0.95
    assert right["columns"] < 0.6
    assert document["attack"]["verdict"] == "leaks"


def test_over_the_limit_nothing_is_left(own):
    with pytest.raises(LimitNotMet, match='Nothing was published: of "illness", from the frames, attacks may') as said:
        asking(telling(own), NARROW).published()
    assert said.value.exit_code == 3
    assert not own["out"].exists()


@pytest.mark.parametrize("link", ["person", "none"])
def test_frames_that_are_recordings_are_counted_for_their_people(own, link):
    """One person's recording is the mean that the bundle shows for a class."""
    x = np.load(own["x.npz"])["x"]
    name = {int(row["recording"]): " ".join(row["visitor"].split()).lower() for row in own.rows}
    often = {who: [number for number in name if name[number] == who] for who in name.values()}
    first, second = next(numbers for numbers in often.values() if len(numbers) == 2)
    x[:, 5] = np.where(np.arange(len(x)) % 3, 0, HIGH + 1)
    x[second, 5], x[first] = HIGH + 1, MEANS[5]
    np.savez(own["x.npz"], x=np.minimum(x, HIGH))
    x = np.load(own["x.npz"])["x"]
    copied = [number for number in name if x[number].argmax() == 5]
    assert second in copied
    kept = sum(name[number] == name[first] for number in copied)
    asking(own, WIDE, ("suppress = 20", "suppress = 0"))
    if link == "none":
        unlink_rows(own)
        key, signer = open_key(own["pseudonyms.key"]), keys.Signer.open(own["keys/signing.key"])
        document = publish_archive(own.wanted(), key, signer)
    else:
        document = own.published()
    assert document["rows"] == len(own.rows)
    found = document["attack"]["copies"]
    assert found == {"rows": len(own.rows), "own": kept, "others": len(copied) - kept, "people": 1}


def test_a_resumed_one_draws_nothing_twice(own, monkeypatch):
    asking(own)
    right = of_files.attack

    def stop(*_, **__):
        raise Broken

    monkeypatch.setattr(of_files, "attack", stop)
    with pytest.raises(Broken):
        own.published()
    drawn = json.loads(own["out/work/statistics.json"].read_bytes())
    monkeypatch.setattr(of_files, "attack", right)
    assert own.published()["statistics"] == drawn
    assert own.published("other")["statistics"] != drawn


def test_broken_off_at_the_end_it_says_what_was_signed(own, monkeypatch):
    broken_off_at_the_end(asking(own), monkeypatch)

    def again(*_, **__):
        raise Broken  # an attack that learns again may find something else than was signed

    monkeypatch.setattr(publishing, "rest_of_statement", again)
    assert own.published()["unique_after"] == 0
    assert verify_publication(own["out"], own.made.trust)["k"] >= 3


def test_what_was_signed_already_goes_where_a_limit_is_not_met(own, monkeypatch):
    broken_off_at_the_end(own, monkeypatch)
    assert own["out/publication.signed.json"].exists()
    right = reader.alike
    monkeypatch.setattr(reader, "alike", lambda *a, **k: [*right(*a, **k), {right(*a, **k)[0].pop()}])
    with pytest.raises(LimitNotMet, match="k = 1"):
        own.published()
    assert not own["out"].exists()


def test_another_version_does_not_go_on(own, monkeypatch):
    asking(own)
    monkeypatch.setattr(of_files, "attack", lambda *_, **__: (_ for _ in ()).throw(Broken))
    with pytest.raises(Broken):
        own.published()
    state = json.loads(own["out/work/state.json"].read_bytes())
    own["out/work/state.json"].write_text(json.dumps({**state, "EdgeVeil version": "0.0.1"}))
    with pytest.raises(BadInput, match="the EdgeVeil version has changed"):
        own.published()


def test_what_cannot_be_attacked_leaves_nothing(tmp_path):
    few = asking(archives.make(tmp_path, people=60))
    with pytest.raises(BadInput, match=r'An attack on "illness" needs 91 people at least; there are [0-9]+'):
        few.published()
    assert not few["out"].exists()


def test_a_statistic_that_cannot_be_is_found_before_anything_is_charged(tmp_path):
    own = asking(archives.make(tmp_path, bundle=counted_bundles.counted_example(releases=900)))
    own.plan = own.plan.replace('column = "minutes"', 'column = "remark"')
    create(str(tmp_path / "ledger"))
    with pytest.raises(BadInput, match='Column "remark", row 1: a number was expected'):
        own.published(ledger=tmp_path / "ledger")
    assert Ledger(str(tmp_path / "ledger")).book().lifetime == 0
    assert not own["vault"].exists()
    assert not own["out"].exists()
