"""From a folder of recordings to what leaves a device: train, export int8, audit, seal, run; for each kind."""

import copy
import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from edgeveil.edge_runtime.cli import main as edge
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.attacks.families.code_counts import CodeCounts
from edgeveil.trainer.attacks.families.logistic import Logistic
from edgeveil.trainer.attacks.families.signal_boosting import SignalBoosting
from edgeveil.trainer.audit.findings import findings, kept
from edgeveil.trainer.graphs.prediction import predict
from edgeveil.trainer.perturbers.prgan import build_generator
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.train import train
from tests.support import seeds
from tests.support.output import edgeveil
from tests.support.trial import short_audit
from tests.trainer.cli.test_bring_your_own import schema
from tests.trainer.datasets.test_series_data import COLUMNS, CUT, TABLE, recordings

pytestmark = pytest.mark.slow
PERTURBERS = {
    "codebook": {
        "kind": "codebook", "keep": ["energy"], "codes": 2, "steps": 30, "width": 8,
        "synthesis": "donor", "donors": 2, "public_data": True,
    },
    "prgan": {
        "kind": "prgan", "alpha": 20.0, "distance": 4.0, "learning_rate": 5e-3,
        "generator": {"architecture": "conv", "width": 8, "halvings": 2, "blocks": 1},
    },
    "label-only": {"kind": "label-only", "picture": "donor", "donors": 4, "public_data": True},
}  # fmt: skip


def recipe(folder, kind):
    table = copy.deepcopy(TABLE)
    table["name"] = f"moves-{kind}"
    table["seed"] = seeds.seed(0)
    table["data"] |= {"source": f"csv:{folder}", "columns": COLUMNS}
    table["data"]["series"] |= CUT
    table["perturber"] = PERTURBERS[kind]
    table["classifiers"] |= {"learning_rate": 3e-3}
    table["budget"] = {"classifier_epochs": 10, "epochs": 25, "batch": 32}
    return Recipe.check(table)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return recordings(tmp_path_factory.mktemp("series") / "rec", count=72)


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    return train(recipe(data, "codebook"), tmp_path_factory.mktemp("run") / "codebook")


@pytest.mark.parametrize("audited", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_a_codebook_of_recordings_runs_on_a_device(audited, data, run, tmp_path, monkeypatch):
    short_audit.shorten(monkeypatch, families=(Logistic(), CodeCounts(), SignalBoosting()))
    exported = tmp_path / "exported"
    edgeveil("export", run.folder, "--for", "coral-dev-board", "--out", exported)
    manifest = json.loads((exported / "manifest.json").read_text())
    assert manifest["input"]["series"] == {"rate_hz": 20.0, "channels": ["ax", "ay"], "units": ["g", "g"]}
    assert manifest["capture"]["windows"] == {"hop": 8, "longest_gap_s": 0.1, "full_scale": None}
    assert manifest["capture"]["tick_hz"] == 2.75  # a little faster than its windows
    if audited:
        edgeveil("audit", exported, "--artefact", "tflite-int8")
        document = json.loads((exported / "audit.json").read_text())
        schema("audit.schema.json").validate(document)
        assert document["data"]["series"] == {"steps": 32, **manifest["input"]["series"]}
        assert "boosted signal features" in {one.name for one in findings(document)}
        assert kept(document).value > 0.8
    edgeveil("key", "new", tmp_path / "keys", "--development")
    sealed = tmp_path / "moves.veil"
    edgeveil(
        "seal",
        exported,
        "--key",
        tmp_path / "keys" / "signing.key",
        "--out",
        sealed,
        *([] if audited else ["--no-audit"]),
    )
    if audited:
        with zipfile.ZipFile(sealed) as bundle:
            card = bundle.read("privacy/card.html").decode()
        assert "windows of 1.6 s, 20 steps a second: ax (g), ay (g)" in card
    rows = [line.rsplit(",", 2)[0] for line in (data / "r01.csv").read_text().splitlines()]
    source, sink = tmp_path / "live.csv", tmp_path / "out.npz"
    source.write_text("\n".join(rows))
    flags = ["--trust", str(tmp_path / "keys"), "--source", f"csv:{source}", "--sink", f"npz:{sink}"]
    assert edge.main(["run", str(sealed), *flags]) == 0
    with np.load(sink) as file:
        assert file["x"].shape[1:] == (32, 2)
        assert (file["label"] == 1).mean() > 0.5  # r01 is of m1


@pytest.mark.nightly  # by day perturbers/test_label_only.py
def test_label_only_is_trained_and_exported_as_int8(data, run, tmp_path):
    made = train(recipe(data, "label-only"), tmp_path / "label-only", classifiers=run.folder)
    out = tmp_path / "exported"
    edgeveil("export", made.folder, "--for", "coral-dev-board", "--out", out)
    assert "tflite-int8" in (out / "export.json").read_text()


@pytest.mark.nightly  # by day of pictures and vectors: runs/test_train.py
def test_a_prgan_of_recordings_keeps_the_move_and_changes_the_rest(data, run, tmp_path):
    made = train(recipe(data, "prgan"), tmp_path / "prgan", classifiers=run.folder)
    dataset = made.dataset()
    test = dataset.part("test")
    sent = made.perturber().perturb(test.x)["frame"]
    assert sent.shape == test.x.shape
    read = predict(made.classifiers()["target"], dataset.unit(sent)).argmax(axis=1)
    assert (read == test.y).mean() > 0.8
    assert np.abs(dataset.unit(sent) - dataset.unit(test.x)).mean() > 0.01


def test_too_many_halvings_of_a_short_series_are_refused(data, run):
    asked = recipe(data, "prgan").model_dump(exclude_none=True)
    asked["perturber"]["generator"]["halvings"] = 5
    short = replace(run.dataset().input, shape=(20, 2))
    with pytest.raises(BadInput, match="samples of 20 steps: take at most 4"):
        build_generator(short, Recipe.check(asked).perturber.generator)


def test_pictures_classifiers_do_not_take_series(data, tmp_path):
    asked = recipe(data, "label-only").model_dump(exclude_none=True)
    asked["classifiers"]["architecture"] = "small"
    with pytest.raises(BadInput, match='series "series"'):
        train(Recipe.check(asked), tmp_path / "run")
