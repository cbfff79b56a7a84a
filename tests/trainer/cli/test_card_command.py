"""``edgeveil bundle card`` and ``edgeveil audit verify``: a small label-only bundle, made and asked by commands."""

import copy
import hashlib
import json
import re
import shutil
import sys

import jsonschema
import numpy as np
import pytest
import referencing
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from edgeveil.trainer.audit.audit import audit
from edgeveil.trainer.audit.document import save
from edgeveil.trainer.audit.findings import best, findings, kept
from edgeveil.trainer.export.export import export
from edgeveil.trainer.report.ml_bom import FAIL_CLOSED, RETAINED
from edgeveil.trainer.results import own_folder
from edgeveil.trainer.sealing.seal import keygen, seal
from edgeveil.trainer.train import train
from tests.support import bundles
from tests.support.checkout import ROOT
from tests.support.small_runs import small_recipe, write_npz
from tests.support.trial import short_audit

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def short():
    with pytest.MonkeyPatch.context() as patch:
        short_audit.shorten(patch, families=short_audit.FEW)
        yield


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with ``run``, ``other`` (a run of another recipe), ``export``, ``keys``, ``unaudited.veil``, ``it.veil``
    and ``lie.veil``, which the maker signed with a better attack than was measured."""
    folder = tmp_path_factory.mktemp("small")
    data = write_npz(folder)
    with np.load(data) as file:
        arrays = dict(file)
    np.savez(data, **arrays, label_hue=np.random.default_rng(0).integers(0, 3, len(arrays["y"])))
    recipe = small_recipe(data, kind="label-only")
    train(recipe, folder / "run")
    train(recipe.model_copy(update={"name": "another"}), folder / "other", classifiers=folder / "run")
    export(folder / "run", ["coral-dev-board", "jetson-nano"], folder / "export")
    keygen(folder / "keys", development=True)
    key = folder / "keys" / "signing.key"
    seal(folder / "export", key, folder / "unaudited.veil", allow_unaudited=True)
    document = audit(folder / "export")
    save(document, folder / "export")
    seal(folder / "export", key, folder / "it.veil")
    shutil.copytree(folder / "export", folder / "lie")
    # Consistently: what contradicts itself is refused before it is signed.
    for one in document["findings"]:
        if one.get("figure") == "right" and one["more"].get("chosen") and "of" not in one:
            one |= {"value": 0.9, "interval": [0.85, 0.95]}
    document["verdict"]["upper"]["points"] = 95.0
    save(document, folder / "lie")
    seal(folder / "lie", key, folder / "lie.veil")
    return folder


@pytest.fixture(scope="module", autouse=True)
def once_each(short):
    """An audit with a seed is made once: ``lie.veil`` differs from ``it.veil`` in its figures alone."""
    kept = {}

    def audited(path, *, seed=0, **asked):
        if seed not in kept:
            kept[seed] = audit(path, seed=seed, **asked)
        return copy.deepcopy(kept[seed])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("edgeveil.trainer.audit.audit.audit", audited)
        yield


def verify(work, bundle="it.veil", *more, run="run", trust="keys"):
    return ("audit", "verify", work / bundle, "--run", work / run, "--trust", work / trust, *more)


def test_the_model_card_is_strictly_valid_and_says_what_the_card_says(work, edgeveil, tmp_path):
    path = tmp_path / "it.cdx.json"
    code, _, err = edgeveil("bundle", "card", work / "it.veil", "--trust", work / "keys", path)
    assert code == 0, err
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(path.read_text()) is None
    made = json.loads(path.read_text())
    found = json.loads((work / "export" / "audit.json").read_text())
    metrics = {row["type"]: row for row in made["metadata"]["component"]["modelCard"]["quantitativeAnalysis"][
        "performanceMetrics"
    ]}  # fmt: skip
    right = kept(found)
    on = f" on {right.learned_on} rows" if right.learned_on else ""
    said = metrics[f"y, {right.name}{on}: rows read right"]
    assert said["value"] == str(right.value)
    assert said["confidenceInterval"]["upperBound"] == str(right.interval[1])
    assert metrics["verdict"]["value"] == f"{found['verdict']['word']}: {found['verdict']['line']}"
    worst = next(one for one in findings(found) if one.more.get("worst") and one.figure == "auc")
    asked = (
        f"{worst.question}, {worst.name} on {worst.learned_on} rows ({worst.about}): area under the ROC curve within y"
    )
    assert metrics[asked]["value"] == str(worst.value)
    hashes = {one["name"]: one["hashes"][0]["content"] for one in made["components"] if one["type"] == "file"}
    for name in ("classifier.tflite-int8.tflite", "classifier.onnx-float32.onnx"):
        data = (work / "export" / "artefacts" / name).read_bytes()
        assert hashes[f"artefacts/{name}"] == hashlib.sha256(data).hexdigest()
    again = tmp_path / "again.json"
    edgeveil("bundle", "card", work / "it.veil", "--trust", work / "keys", again)
    assert again.read_bytes() == path.read_bytes()


def test_without_the_library_it_says_what_to_install(work, edgeveil, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "cyclonedx.schema", None)
    out = tmp_path / "it.json"
    code, _, err = edgeveil("bundle", "card", work / "it.veil", "--trust", work / "keys", out)
    assert code == 2
    assert 'pip install "edgeveil[cyclonedx]"' in err
    assert not out.exists()


def test_the_assessment_has_the_four_headings_and_the_cards_numbers(work, edgeveil, tmp_path):
    out = tmp_path / "it.html"
    code, _, err = edgeveil("bundle", "card", work / "it.veil", "--trust", work / "keys", out)
    assert code == 0, err
    page = out.read_text()
    assert re.findall(r"<h2>\((.)\)", page) == ["a", "b", "c", "d"]
    assert "no legal advice" in page
    assert "[to be filled in: what y is needed for" in page
    found = json.loads((work / "export" / "audit.json").read_text())
    assert best(found).figures["right"].shown() in page
    assert "What else can be read" in page
    assert "hue" in page.partition("What else can be read")[2]
    for line in found["not_covered"]:
        assert line.replace("'", "&#39;") in page
    assert not re.search(r"(src|href)=\"[^#]", page)  # one file, which fetches nothing


@pytest.mark.parametrize("name", [name for _, names in (*RETAINED, *FAIL_CLOSED) for name in names])
def test_every_test_that_the_assessment_names_is_there(name):
    path, _, test = name.partition("::")
    assert (ROOT / path).exists()
    assert not test or f"def {test}(" in (ROOT / path).read_text()


def test_a_card_reproduces_with_another_seed(work, edgeveil):
    before = sorted(own_folder(work / "run").rglob("*"))
    code, out, err = edgeveil(*verify(work), "--json")
    assert code == 0, err
    document = json.loads(out)
    schemas = {
        name: json.loads((ROOT / "docs/reference/schemas" / name).read_text())
        for name in ("audit.schema.json", "rerun.schema.json")
    }
    contents = [(name, referencing.Resource.from_contents(schema)) for name, schema in schemas.items()]
    registry = referencing.Registry().with_resources(contents)
    jsonschema.Draft202012Validator(schemas["rerun.schema.json"], registry=registry).validate(document)
    assert document["rerun"]["seed"] == document["recorded"]["seed"] + 1000
    assert document["reproduces"]
    assert sorted(own_folder(work / "run").rglob("*")) == before  # perturbed anew, and nothing of it kept
    assert not (work / "run" / "audit-cache").exists()


def test_a_figure_that_was_never_measured_ends_with_three(work, edgeveil):
    code, out, err = edgeveil(*verify(work, "lie.veil"), "--seed", 1000)
    assert code == 3
    assert re.search(r"z, best attack .*90\.0 %.* DOES NOT REPRODUCE: -\d", out)
    assert "these do not reproduce: z, best attack" in err


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"run": "other"}, "was not made from the run"),
        ({"run": "nowhere"}, "there is none"),
        ({"bundle": "unaudited.veil"}, "has no privacy card"),
        ({"bundle": "export"}, "no regular file"),
        ({"trust": "strangers"}, "which is not in the trust folder"),
    ],
)
def test_what_does_not_belong_together_is_one_sentence(work, edgeveil, more, words):
    (work / "strangers").mkdir(exist_ok=True)
    stranger = bundles.public_key_line(bundles.trusted(bundles.STRANGER))
    (work / "strangers" / "other.pub").write_text(stranger)
    code, out, err = edgeveil(*verify(work, **more))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err


def test_a_bundle_with_a_changed_byte_is_refused(work, edgeveil, tmp_path):
    data = bytearray((work / "it.veil").read_bytes())
    place = data.index(b'"findings"')
    data[place + 1] ^= 1
    (work / "changed.veil").write_bytes(bytes(data))
    code, _, err = edgeveil(*verify(work, "changed.veil"))
    assert (code, err.count("\n")) == (2, 1)
    code, _, _ = edgeveil("bundle", "card", work / "changed.veil", "--trust", work / "keys", tmp_path / "no.html")
    assert code == 2
    assert not (tmp_path / "no.html").exists()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--artefact", "tflite-int4"), "has no audit of tflite-int4 to repeat; it has tflite-int8"),
        (("--budget", "thorough"), "No such option: --budget"),
        (("--seed", 0), "a rerun needs another"),
        (("--out", "report"), "No such option: --out"),
    ],
)
def test_what_cannot_be_repeated_is_one_sentence(work, edgeveil, more, words):
    code, out, err = edgeveil(*verify(work), *more)
    assert (code, out, err.count("\n") == 1 or "Usage: " in err) == (2, "", True)
    assert words in err
    code, _, err = edgeveil("audit", "verify", work / "it.veil")
    assert code == 2
    assert "Missing option" in err


def test_a_card_of_nothing_is_one_sentence(work, edgeveil, tmp_path):
    code, _, err = edgeveil("bundle", "card", work / "it.veil", "--trust", work / "keys")
    assert code == 2
    assert "Missing argument" in err
    code, _, err = edgeveil("bundle", "card", work / "it.veil", tmp_path / "one", "--trust", work / "keys")
    assert code == 2
    assert "FILE.json (CycloneDX) or FILE.html" in err
    code, _, err = edgeveil("bundle", "card", work / "unaudited.veil", "--trust", work / "keys", tmp_path / "no.html")
    assert code == 2
    assert "has no privacy card" in err
