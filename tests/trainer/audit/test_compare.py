"""Made-up data before and after: an identity is read in full, noise and a label alone are not; mistakes are told."""

import json
from dataclasses import replace

import jsonschema
import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.attacks import problem
from edgeveil.trainer.attacks.families.code_counts import CodeCounts
from edgeveil.trainer.attacks.families.lda import ShrinkageLDA
from edgeveil.trainer.attacks.families.transfer import Transfer
from edgeveil.trainer.audit import compare, pairs
from edgeveil.trainer.audit.compare import audit_pairs
from edgeveil.trainer.audit.findings import RAW, SENT, Finding, attacks, best, findings, guess, kept
from edgeveil.trainer.audit.pairs import Pairs, paired
from edgeveil.trainer.audit.sections import other_attributes
from edgeveil.trainer.audit.text import as_text
from edgeveil.trainer.audit.verdict import CANNOT_TELL, LEAKS, NOTHING_FOUND
from edgeveil.trainer.cli import main
from edgeveil.trainer.datasets.base import Known
from edgeveil.trainer.datasets.readings import Readings
from edgeveil.trainer.report.card_page import render_pairs
from scripts.audit_rows import labels_of
from tests.support.checkout import ROOT
from tests.support.trial import short_audit

N = 900
QUICK = (ShrinkageLDA(), CodeCounts())
CHECK = jsonschema.Draft202012Validator(json.loads((ROOT / "docs/reference/schemas/audit.schema.json").read_text()))


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Adversaries, and a test of the order of rows, that take no time."""
    monkeypatch.setattr(pairs, "MOST_FOR_DISTANCES", 150)
    monkeypatch.setattr(compare, "adversaries", lambda: QUICK)
    monkeypatch.setattr(compare, "READERS", QUICK)
    monkeypatch.setattr(other_attributes, "FAMILIES", QUICK)
    short_audit.shuffle_less(monkeypatch)


def made(n=N, classes=3, **groups):
    """Vectors that show y and z plainly."""
    rng = np.random.default_rng(1)
    y, z = rng.integers(0, 2, n), rng.integers(0, classes, n)
    x = rng.normal(size=(n, 8)).astype(np.float32)
    x[:, 0] += 5 * y
    x[:, 1] += 5 * z
    names = tuple(f"person {i}" for i in range(classes))
    return Readings(x, y, z, ("sit", "walk"), names, "vector", **groups)


def found(before, after, **settings):
    """The document, which fits the schema, and whose text and page can be written."""
    document = audit_pairs(paired(before, after, order=settings.pop("order", "test")), **settings)
    CHECK.validate(json.loads(json.dumps(document)))
    assert document["verdict"]["line"] in as_text(document)
    assert "<h2>What these numbers are about</h2>" in render_pairs(document)
    return document


def reads(document, question, name=None, of=SENT):
    """How often a reader reads something; of all readers the best, where no name is given."""
    every = [one for one in findings(document, of) if (one.question, one.kind) == (question, "reader")]
    return next((one for one in every if name in (None, one.name)), Finding(question, ""))


def test_an_identity_is_read_in_full():
    before = made()
    document = found(before, before.x.copy())
    assert document["verdict"]["word"] == LEAKS
    assert document["order"]["matched"]
    assert best(document).figures["right"].value > 0.95
    assert abs(kept(document).value - kept(document, RAW).value) < 0.02
    assert document["data"]["rows"]["test"] == N


@pytest.mark.nightly  # by day test_other_attributes.py
def test_a_further_label_is_attacked_too():
    before = made()
    rng = np.random.default_rng(6)
    mood, age = rng.integers(0, 2, N), rng.integers(0, 4, N)
    known = {
        "mood": Known(mood, ("calm", "cross")),
        "age": Known(age, ("0", "1", "2", "3"), ordered=True),
        "hidden": Known(rng.integers(0, 2, N), ("no", "yes")),
    }
    after = np.column_stack([before.y, mood, age >= 2]).astype(np.float32)
    after += rng.normal(0, 0.1, after.shape).astype(np.float32)
    document = found(replace(before, known=known), after, order="matched")
    rows = {row["name"]: row for row in labels_of(findings(document))["labels"]}
    assert list(rows) == ["z", "mood", "age", "hidden"]
    assert rows["mood"]["bits"]["low"] > 0.8
    assert rows["age"]["worst_threshold"]["question"] == "whether age is below 2"
    assert rows["age"]["worst_threshold"]["read"]
    assert not rows["hidden"]["worst_grouping"]["read"]
    assert labels_of(findings(document))["worst"]["label"] in ("mood", "age")
    assert "Of other labels, which the verdict is not about, the worst: mood itself" in as_text(document)
    assert "whether age is below 2" in render_pairs(document)
    assert labels_of(findings(found(before, after, order="matched")))["labels"] == []


def test_noise_destroys_both():
    before = made()
    noise = np.random.default_rng(2).normal(size=before.x.shape).astype(np.float32)
    with pytest.raises(BadInput, match="--rows matched"):
        found(before, noise)
    document = found(before, noise, order="matched")
    assert document["verdict"]["word"] == NOTHING_FOUND
    assert kept(document).interval[0] < kept(document).null
    assert reads(document, "z", of=RAW).value > 0.95


def test_the_label_alone_gives_chance_and_keeps_y():
    before = made()
    document = found(before, np.repeat(before.y[:, None], 8, axis=1).astype(np.float32))
    assert document["verdict"]["word"] == NOTHING_FOUND
    assert kept(document).value == 1.0
    assert abs(best(document).figures["right"].value - guess(document)) < 0.03


@pytest.mark.nightly  # by day that it learns on clean rows: test_end_to_end.py
def test_the_transfer_classifier_learns_on_rows_before(monkeypatch):
    monkeypatch.setitem(problem.BUDGETS, "quick", replace(problem.BUDGETS["quick"], epochs=6))
    before = made(400)
    monkeypatch.setattr(compare, "adversaries", lambda: (*QUICK, Transfer()))
    monkeypatch.setattr(compare, "READERS", (*QUICK, Transfer()))
    monkeypatch.setattr(compare, "ENOUGH_ROWS", 1)
    document = found(before, before.x + 1.0)
    assert reads(document, "y", "transfer").value > 0.6
    assert [one.learned_on for one in attacks(document) if one.name == "transfer"] == ["clean"]


def test_another_shape_after():
    before = made()
    document = found(before, before.x[:, :3].astype(np.float64))
    assert document["verdict"]["word"] == LEAKS
    assert reads(document, "y", "transfer").value is None


def test_shuffled_rows_are_refused_and_attacked_with_their_own_labels():
    before = made()
    order = np.random.default_rng(3).permutation(N)
    with pytest.raises(BadInput, match="seem not to be matched"):
        found(before, before.x[order])
    own = replace(before, x=before.x[order], y=before.y[order], z=before.z[order])
    document = audit_pairs(Pairs(before, own, "shuffled"))
    assert document["verdict"]["word"] == LEAKS
    assert document["order"]["p"] is None


def test_too_few_rows_or_units_cannot_tell():
    few = made(60)
    document = found(few, few.x, order="matched")
    assert document["verdict"]["word"] == CANNOT_TELL
    assert document["verdict"]["needed"] == {"unit": "rows", "total": 90, "more": 30}
    assert document["findings"] == []
    people = made(600, session=np.arange(600) // 60)
    document = found(people, people.x, order="matched")
    assert document["verdict"]["word"] == CANNOT_TELL
    assert document["verdict"]["needed"]["unit"] == "sessions"


def test_a_wide_interval_cannot_tell_and_says_how_many_are_needed():
    before = made(150)
    noise = np.random.default_rng(4).normal(size=before.x.shape)
    document = found(before, noise, order="matched")
    assert document["verdict"]["word"] == CANNOT_TELL
    assert 300 <= document["verdict"]["needed"]["total"] <= 30_000


def test_a_z_that_is_not_in_the_rows_before_cannot_tell():
    before = made()
    blind = replace(before, x=np.random.default_rng(5).normal(size=before.x.shape))
    document = found(blind, blind.x)
    assert document["verdict"]["word"] == CANNOT_TELL
    assert "no attack surely reads z in the rows before" in document["verdict"]["line"]


def test_people_are_never_on_both_sides():
    sessions = np.arange(N) // 5
    before = made(session=sessions)
    document = found(before, before.x)
    assert document["data"]["clusters"] == {"kind": "session", "test": N // 5, "after": N // 5}
    assert "sessions" in document["intervals"]


@pytest.mark.nightly  # by day what there is too little of: attacks/test_exposure.py
def test_many_classes_and_rare_ones():
    rng = np.random.default_rng(6)
    before = made(300, classes=40)
    before = replace(before, x=before.x[:, :2] + rng.normal(0, 0.1, (300, 2)).astype(np.float32))
    document = found(before, before.x)
    assert document["verdict"]["word"] == LEAKS
    assert any("classes of z have fewer than 5 rows" in note for note in document["notes"])
    assert any("fewer than 20 training rows" in warning for warning in document["warnings"])
    with pytest.raises(BadInput, match="Group z"):
        found(replace(before, z=np.arange(300), z_names=tuple(map(str, range(300)))), before.x)


def test_z_that_follows_from_y_is_refused():
    before = made()
    with pytest.raises(BadInput, match="z follows from y"):
        found(replace(before, z=before.y, z_names=before.y_names), before.x)


def run(*words):
    """The command, in this process."""
    main.app([str(word) for word in ("audit", *words)], standalone_mode=False)


def test_the_command_writes_a_report(tmp_path, capsys):
    before = made(600)
    np.savez(tmp_path / "raw.npz", x=before.x, y=before.y, z=before.z)
    np.savez(tmp_path / "out.npz", x=before.x * 2)
    run("pairs", tmp_path / "raw.npz", tmp_path / "out.npz", "--out", tmp_path / "report")
    assert capsys.readouterr().out.startswith("Leaks: ")
    written = json.loads((tmp_path / "report/audit.json").read_text())
    CHECK.validate(written)
    assert str(tmp_path) not in (tmp_path / "report/audit.json").read_text()
    assert "<strong>leaks</strong>" in (tmp_path / "report/report.html").read_text()
    assert sorted(path.name for path in (tmp_path / "report").iterdir()) == ["audit.json", "report.html"]
    with pytest.raises(BadInput, match="add --replace"):
        run("pairs", tmp_path / "raw.npz", tmp_path / "out.npz", "--out", tmp_path / "report")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--before", "a.npz", "--after", "b.npz"), "BEFORE: an .npz file"),
        (("pairs", "a.npz", "b.npz"), "BEFORE: an .npz file"),
        (("pairs", "a.npz", "b.npz", "--replace"), "name that folder"),
    ],
)
def test_the_command_says_what_is_wrong(words, text):
    with pytest.raises(BadInput, match=text):
        run(*words)
