"""A user's own npz with subjects, from file to privacy card, by commands alone."""

import json
import re
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import referencing

from edgeveil.edge_runtime.cli.main import main as edge
from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.trainer.attacks import ahead
from edgeveil.trainer.audit.findings import best, findings, guess
from edgeveil.trainer.audit.sections.certificate_section import AVERAGE, CAPACITY
from edgeveil.trainer.recipe.schema import Recipe
from tests.support.checkout import ROOT
from tests.support.output import edgeveil
from tests.support.trial import short_audit

pytestmark = pytest.mark.slow
SCHEMAS = ROOT / "docs/reference/schemas"
SUBJECTS, EACH = 48, 8


def schema(name: str) -> jsonschema.Draft202012Validator:
    """A schema of docs/reference/schemas, which may name another of them."""
    documents = {path.name: json.loads(path.read_text()) for path in SCHEMAS.glob("*.json")}
    resources = [(key, referencing.Resource.from_contents(value)) for key, value in documents.items()]
    registry = referencing.Registry().with_resources(resources)
    return jsonschema.Draft202012Validator(documents[name], registry=registry)


@pytest.fixture(scope="module")
def trial():
    """Two adversaries and readers with hardly any training: this is about the way, not about the numbers."""
    with pytest.MonkeyPatch.context() as patch:
        short_audit.shorten(patch, families=short_audit.FEW)
        patch.setattr(ahead, "in_background", None)  # another process would audit at length
        yield


CODEBOOK = """[perturber]
kind = "codebook"
keep = ["pixels"]
codes = 4
steps = 60
fewest_subjects = 2

[budget]"""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with mine.npz: people (z: their group) doing one of two things (y), eight readings of each person.

    Recipes for it: mine.toml as ``recipe new`` writes it, with less training, and own.toml, which sends codes.
    """
    folder = tmp_path_factory.mktemp("own")
    edgeveil("key", "new", folder / "keys", "--development")
    rng = np.random.default_rng(0)
    subject = np.repeat(np.arange(SUBJECTS), EACH)
    y, z = np.arange(SUBJECTS * EACH) % 2, subject % 2
    x = rng.normal(size=(len(y), 10)).astype(np.float32)  # of six, half come out exact at times
    x[:, 0] += 4 * y
    x[:, 1] += 4 * z
    np.savez(folder / "mine.npz", x=x, y=np.array(["sit", "walk"])[y], z=z, subject=subject)
    path = folder / "mine.toml"
    words = ["--kind", "prgan", "--no-trial", "--out", path]
    edgeveil("recipe", "new", f"npz:{folder / 'mine.npz'}", *words)
    text = re.sub("quick = .*", "quick = { rows = 3000, classifier_epochs = 10, epochs = 5 }", path.read_text())
    text = re.sub("target_accuracy = .*", "target_accuracy = 0.3", text)
    path.write_text(text)
    before, rest = text.split("[perturber]")
    codes = before + CODEBOOK + rest.split("[budget]")[1] + "\n[certificate]\ntried = 2\n"
    (folder / "own.toml").write_text(codes)
    return folder


def card_of(work: Path, name: str, capsys: pytest.CaptureFixture[str]) -> dict:
    """Train NAME.toml, export, audit, seal and inspect; the card as JSON."""
    edgeveil("train", work / f"{name}.toml", "--out", work / name, "--budget", "quick")
    edgeveil("export", work / name, "--for", "jetson-nano", "--out", work / f"{name}-export")
    edgeveil("audit", work / f"{name}-export", "--artefact", "onnx-float32")
    edgeveil("seal", work / f"{name}-export", "--key", work / "keys" / "signing.key", "--out", work / f"{name}.veil")
    capsys.readouterr()
    edgeveil("bundle", "inspect", work / f"{name}.veil", "--trust", work / "keys", "--json")
    shown = json.loads(capsys.readouterr().out)
    schema("audit.schema.json").validate(shown["audit"])
    schema("privacy.schema.json").validate(shown["card"])
    return shown["card"]


def test_from_a_file_to_a_privacy_card_with_no_code_written(work, trial, capsys):
    card = card_of(work, "mine", capsys)
    assert card["data"]["clusters"] == {"kind": "subject", "test": SUBJECTS // 3}
    assert card["guarantees"] == []  # a generator has no certificate
    assert any("No certificate" in one.not_run for one in findings(card["artefacts"][0]))
    edgeveil("bundle", "inspect", work / "mine.veil", "--trust", work / "keys", "--full")
    text = capsys.readouterr().out
    for words in ("best attack found", "the maker's own statement", "told apart from raw samples", "not tested:"):
        assert words in text
    edgeveil("run", "report", work / "mine", "--export", work / "mine-export", "--out", work / "report.html")
    assert "trained on it" in (work / "report.html").read_text()


@pytest.mark.nightly  # by day counted on made-up codes: audit/test_sections.py; of an export: audit/test_code_alone.py
def test_a_codebook_of_ones_own_data_is_certified_by_its_people(work, trial, capsys):
    """The same recipe with another perturber: what leaves is a code, and codes are counted, on people never seen."""
    card = card_of(work, "own", capsys)
    every = [one for one in findings(card["artefacts"][0]) if one.kind == "certificate"]
    found = next(one for one in every if one.name == AVERAGE)
    assert (found.more["units"], found.more["unit"], found.more["tried"]) == (SUBJECTS // 3, "subjects", 2)
    assert not found.bound
    assert "Too few subjects for a certificate: 16 were counted, and at least" in found.not_run
    assert "never saw" in found.more["people"]
    free = next(one for one in every if one.name == CAPACITY)
    assert [one["sentence"] for one in card["guarantees"]] == [free.text]


@pytest.mark.nightly  # by day a table is read in datasets/test_own_data.py, and goes to a card above
def test_a_table_as_people_write_them_is_sealed_and_the_board_reads_its_raw_rows(work, trial, capsys):
    """Text, true and false, empty cells, decimal commas, long identifiers, and a class that is called none."""
    rng, lines = np.random.default_rng(1), ["person;city;member;weight;steps;activity;group"]
    for row in range(SUBJECTS * EACH):
        person, y = row // EACH, row % 2
        weight = f"{60 + 20 * y + rng.normal():.1f}".replace(".", ",")
        steps = "" if row % 7 == 3 else f"{rng.integers(1000, 9000)}"
        about = ("Bern", "Ulm", "Wien")[row % 3], ("true", "false")[row % 5 == 0], weight, steps
        lines.append(";".join([str(10**18 + person), *about, ("none", "walk")[y], ("a", "b")[person % 2]]))
    table = work / "people.csv"
    table.write_text("\n".join(lines) + "\n", encoding="utf-8-sig")
    named = ["--target", "activity", "--sensitive", "group", "--subject", "person"]
    path = work / "people.toml"
    edgeveil("data", "inspect", f"csv:{table}", *named)
    assert "wrong:" not in capsys.readouterr().out
    edgeveil("recipe", "new", f"csv:{table}", *named, "--kind", "label-only", "--no-trial", "--out", path)
    card = card_of(work, "people", capsys)
    assert card["target"]["classes"] == ["none", "walk"]
    assert card["data"]["clusters"] == {"kind": "subject", "test": SUBJECTS // 3}
    raw, sent = work / "raw.csv", work / "sent.npz"
    raw.write_text("\n".join(";".join(line.split(";")[1:5]) for line in lines[:9]) + "\n")
    run = ["run", work / "people.veil", "--trust", work / "keys", "--source", f"csv:{raw}", "--sink", f"npz:{sent}"]
    assert edge([str(word) for word in run]) == 0
    with np.load(sent) as found:
        assert len(found["x"]) == 8


def test_a_limit_that_is_exceeded_ends_with_three_and_says_by_how_much(work, trial, capsys):
    recipe, audit = work / "mine" / "recipe.toml", work / "mine-export" / "audit.json"
    asked = Recipe.find(recipe)
    document = json.loads(audit.read_text())
    found = 100 * (best(document).figures["right"].value - guess(document))
    limits = asked.limits.model_copy(update={"attack_points": max(0.0, found - 1), "bits": 0.0})
    recipe.write_text(asked.model_copy(update={"limits": limits}).toml())
    with pytest.raises(BadInput, match="is an audit already: seal it, show it with --full, or add --replace"):
        edgeveil("audit", work / "mine-export", "--artefact", "onnx-float32")
    with pytest.raises(LimitNotMet, match="exceeded by") as caught:
        edgeveil("audit", work / "mine-export", "--artefact", "onnx-float32", "--replace")
    (old,) = (work / "mine-export").glob("audit.2*Z.json")
    assert json.loads(old.read_text()) == document
    assert caught.value.exit_code == 3
    out, err = capsys.readouterr()
    assert "LIMIT NOT MET" in out
    answers = ["What is kept", "What leaks", "How sure", "What next"]
    assert [line.split(":")[0] for line in out.splitlines() if line.split(":")[0] in answers] == answers
    assert "learned on" not in out
    assert "Next: edgeveil seal" in err
    edgeveil("audit", work / "mine-export", "--full")
    tables = capsys.readouterr().out
    assert "learned on" in tables
    assert tables.splitlines()[-3:] == out.splitlines()[-3:]
    assert not re.search(r"\b(ink|slant|stroke)\b", tables)
    assert json.loads(audit.read_text())["limits"]["exceeded"]  # it is kept, and the card will say so
