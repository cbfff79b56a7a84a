"""A private bundle the whole way: trained, exported with its head, audited, sealed, verified, run, its card read."""

import copy
import json
from dataclasses import replace

import jsonschema
import numpy as np
import pytest

from edgeveil.edge_runtime.bundle.audit_figures import ATTACKS
from edgeveil.edge_runtime.bundle.reader import read_bundle
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.cli import main as edge
from edgeveil.trainer.attacks import problem
from edgeveil.trainer.attacks.families.code_counts import CodeCounts
from edgeveil.trainer.attacks.families.fixed import Fixed
from edgeveil.trainer.audit import card
from edgeveil.trainer.audit.audit import audit
from edgeveil.trainer.audit.document import save
from edgeveil.trainer.audit.findings import about_label_only, findings
from edgeveil.trainer.audit.probes import artefact_membership
from edgeveil.trainer.audit.sections import head as head_spending
from edgeveil.trainer.audit.sections import retained
from edgeveil.trainer.audit.sections import training as training_spending
from edgeveil.trainer.audit.sections.training import promised
from edgeveil.trainer.audit.text import as_text
from edgeveil.trainer.export.export import export
from edgeveil.trainer.ext.private import cover
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.sealing.inspect import inspect, verify
from edgeveil.trainer.sealing.seal import keygen, seal
from edgeveil.trainer.train import train
from tests.support import audit_documents
from tests.support.checkout import ROOT
from tests.support.trial import short_audit

pytestmark = pytest.mark.usefixtures("coarse_accountant")
SCHEMAS = ROOT / "docs/reference/schemas"
RECIPE = """
name = "digits-private"
[data]
source = "digits"
target = "parity"
sensitive = "less-than-five"
[prior]
kind = "uniform"
[classifiers]
architecture = "small"
[perturber]
kind = "label-only"
network = "small"
width = 4
epsilon = 2.0
[spending]
unit = "release"
most = 1000.0
[private]
epsilon = 8.0
delta = 1e-4
lot = 64
steps = 10
[head]
kind = "functional-logistic"
of = "sent"
epsilon = 3.0
[budget]
classifier_epochs = 4
epochs = 1
[limits]
target_accuracy = 0.05
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with ``run``, ``export``, ``keys`` and ``digits.veil``, and the audit's document."""
    folder = tmp_path_factory.mktemp("digits")
    run = train(Recipe.parse(RECIPE), folder / "run")
    export(run.folder, ["coral-dev-board"], folder / "export", emit="both")
    with pytest.MonkeyPatch.context() as patch:
        for module in ("audit.audit", "attacks.run_all"):
            patch.setattr(f"edgeveil.trainer.{module}.adversaries", lambda: (Fixed(), CodeCounts()))
        patch.setitem(problem.BUDGETS, "quick", replace(problem.BUDGETS["quick"], epochs=1, trees=5))
        patch.setattr(training_spending, "STEPS", 4000)
        patch.setattr(training_spending, "MEANS", 200)
        patch.setattr(head_spending, "FITS", 90)
        patch.setitem(artefact_membership.SHADOWS, "quick", 4)
        patch.setattr(retained, "section", lambda *_, **__: [])
        short_audit.shuffle_less(patch)
        floor = about_label_only(audit_documents.document())  # cheap
        document = audit(folder / "export", artefact="tflite-int8", spending=True, label_only=floor)
    sent = [one for one in document["findings"] if "of" not in one]
    mine = [one for one in sent if one["more"]["kind"] in (*ATTACKS, "guess", "reader")]
    rest = [one for one in document["findings"] if one.get("of") != "label-only"]
    document["findings"] = [*rest, *({**one, "of": "label-only"} for one in mine)]  # and might be true
    save(document, folder / "export")
    keygen(folder / "keys", development=True)
    seal(folder / "export", folder / "keys" / "signing.key", folder / "digits.veil")
    return folder, document


def test_the_manifest_promises_what_the_recipe_asked_and_marks_every_part(made):
    folder, _ = made
    manifest = read_bundle(str(folder / "digits.veil"), open_trust(str(folder / "keys"))).manifest.document
    assert manifest["training"] == {
        "epsilon": 8.0,
        "delta": 1e-4,
        "unit": "row",
        "neighbours": "add or remove",
        "marks": {
            "models": {
                "classifier": "private: DP-SGD, 0.9 of the budget",
                "head": "private: logistic regression by the functional mechanism, epsilon 3 on a slice of its own",
            },
            "tables": {"means": "private: Gaussian mechanism, 0.1 of the budget", "response": "public"},
            "range": "public",
            "calibration": "public",
        },
    }
    assert manifest["spending"]["micro_epsilon"] == 2_000_000
    assert [output["name"] for output in manifest["outputs"]] == ["frame", "label", "head"]


def test_the_document_is_of_the_schema_and_has_every_section(made):
    _, document = made
    found = json.loads(json.dumps(document))
    jsonschema.validate(found, json.loads((SCHEMAS / "audit.schema.json").read_text()))
    every = findings(found)
    assert [one.more["holds"] for one in every if one.kind == "training" and "holds" in one.more] == [True, True]
    members = [one for one in every if one.question == "membership"]
    assert all(one.value is not None for one in members if one.name.startswith("from the artefact"))
    text = as_text(document)
    assert "head, of what is sent" in text
    assert "mu is" in text
    assert [one.more["holds"] for one in every if one.kind == "head" and "holds" in one.more] == [True]
    assert "Of the head's fit, epsilon is 3 as claimed and at least" in text
    # The head's label is a function of the class that leaves.
    assert any(one.bound for one in every if one.kind == "certificate")


def test_the_card_says_what_is_promised_of_a_release_of_the_training_and_of_the_head(made):
    folder, _ = made
    bundle = read_bundle(str(folder / "digits.veil"), open_trust(str(folder / "keys")))
    told = [one["sentence"] for one in card.of_bundle(bundle)["guarantees"]]
    release, training, head = told[:3]
    assert (
        "One release of this bundle changes the odds of anything about its reading by a factor of at most e^2"
        in release
    )
    assert "Adding or removing one row of the training data changes the odds of all networks, tables" in training
    assert "but for its head, whose guarantee stands apart by a factor of at most e^8" in training
    assert "Replacing one row by any other of the training data changes the odds of the head of this bundle" in head
    assert "e^3" in head
    for sentence in (training, head):
        assert "given" in sentence
        assert "golden vectors are synthetic" in sentence.partition("leaves out")[2]
    seen = inspect(folder / "digits.veil", folder / "keys", full=True).text()
    assert all(sentence in " ".join(seen.split()) for sentence in told[:3])


def test_it_verifies_and_runs_and_its_head_is_a_function_of_what_is_sent(made, capsys):
    folder, _ = made
    assert "digits-private" in verify(folder / "digits.veil", folder / "keys").text()
    x = np.random.default_rng(0).integers(0, 17, (40, 8, 8, 1)).astype(np.uint8)
    np.savez(folder / "in.npz", x=x)
    assert edge.main(["ledger", "new", str(folder / "ledger")]) == 0
    capsys.readouterr()
    words = ["run", folder / "digits.veil", "--trust", folder / "keys", "--ledger", folder / "ledger"]
    words += ["--source", f"npz:{folder / 'in.npz'}", "--sink", f"npz:{folder / 'out.npz'}", "--json"]
    assert edge.main([str(word) for word in words]) == 0
    assert json.loads(capsys.readouterr().out)["frames_out"] == 40
    with np.load(folder / "out.npz") as sent:
        assert sorted(sent.files) == ["head", "index", "label", "x"]
        assert set(sent["label"]) == {0, 1}
        for label in (0, 1):
            assert len(set(sent["head"][sent["label"] == label])) == 1


def test_a_part_without_noise_takes_the_heads_guarantee_away_too(made):
    folder, document = made
    manifest = json.loads((folder / "export" / "manifest.json").read_text())
    manifest["training"]["marks"]["tables"]["means"] = "data"
    promise = {**json.loads((folder / "run" / "run.json").read_text())["head"]["promise"]}
    mechanism = "logistic regression by the functional mechanism"
    found = cover.head_section(manifest, mechanism, promise)
    assert not found["given"]
    assert found["sentence"].endswith("the table means depends on them without noise.")
    changed = copy.deepcopy(document)
    promises = [promised("head", found, mechanism), promised("training", cover.section(manifest), "[private]")]
    replaced = {one.question: one.as_json() for one in promises}
    changed["findings"] = [
        replaced[one["question"]] if one["question"] in replaced and one.get("bound") else one
        for one in changed["findings"]
    ]
    told = card.card(changed, manifest)
    assert len(told["guarantees"]) < len(card.card(document, manifest)["guarantees"])
    assert any(found["sentence"] in warning for warning in told["warnings"])
