"""From a folder of a camera's pictures of two classes to a service that shows a film, by commands alone."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import numpy as np
import pytest

from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.scaffold import first_look
from tests.support import network_receivers
from tests.support.output import edgeveil
from tests.support.trial import no_trial, short_audit
from tests.trainer.datasets.made_pictures import cv2, write_film, write_folder

pytestmark = pytest.mark.slow


def shorter(path):
    """Less training, from which less is asked."""
    text = re.sub("(?m)^look = .*", "", path.read_text())
    text = re.sub("quick = .*", "quick = { rows = 3000, classifier_epochs = 3, epochs = 3 }", text)
    text = re.sub("dropout = .*", "steps = 20", re.sub(r"\bsteps = \d+", "", text))  # no folds, each with a network
    path.write_text(re.sub("target_accuracy = .*", "target_accuracy = 0.3", text))


@pytest.fixture
def little(monkeypatch):
    """Adversaries and readers with hardly any training: this is about the way, not about the numbers."""
    short_audit.shorten(monkeypatch, families=short_audit.FEW)
    no_trial.shorten(monkeypatch)
    monkeypatch.setattr(first_look, "with_networks", lambda *_, **__: [first_look.Tried("small", 0.97)])


@pytest.mark.nightly  # by day each step: datasets/test_own_data.py, scaffold/test_new.py, test_bring_your_own.py
@pytest.mark.parametrize("audited", [False, True])
def test_a_folder_of_pictures_becomes_a_service_that_shows_a_film(audited, little, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_folder(tmp_path / "pictures", people=24, each=10, height=144, width=192)
    write_film(tmp_path / "hall.avi", height=144, width=192)
    edgeveil("data", "inspect", "images:pictures")
    said = capsys.readouterr()
    assert "each 144 x 192 x 3, uint8" in said.out
    assert (
        "--sensitive COLUMN [--subject COLUMN] --camera frame=192x144x3 --camera size=32x24 --out mine.toml" in said.err
    )

    words = ["--sensitive", "group", "--subject", "person", "--camera", "frame=192x144x3", "--camera", "crop=144x144"]
    edgeveil("recipe", "new", "images:pictures", *words, "--camera", "size=32x32", "--out", "mine.toml")
    shorter(tmp_path / "mine.toml")
    assert Recipe.find(tmp_path / "mine.toml").perturber.kind == "codebook"
    edgeveil("train", "mine.toml", "--out", "runs/mine", "--budget", "quick")
    edgeveil("export", "runs/mine", "--for", "jetson-nano", "--out", "runs/mine-export")
    if audited:
        edgeveil("audit", "runs/mine-export", "--artefact", "onnx-float32")
    edgeveil("key", "new", "keys", "--development")
    unaudited = () if audited else ("--no-audit",)
    edgeveil("seal", "runs/mine-export", "--key", "keys/signing.key", "--out", "mine.veil", *unaudited)

    capsys.readouterr()
    edgeveil("bundle", "inspect", "mine.veil", "--trust", "keys", "--json")
    capture = json.loads(capsys.readouterr().out)["manifest"]["capture"]
    assert (capture["frame"]["shape"], capture["window"]) == ([144, 192, 3], [0, 24, 144, 144])

    edgeveil("bundle", "inspect", "mine.veil", "--trust", "keys")
    assert "camera: image 144x192x3 uint8, made image 32x32x3 uint8" in capsys.readouterr().out

    port = network_receivers.free_port()
    words = ["run", "mine.veil", "--trust", "keys", "--source", "video:hall.avi", "--realtime", "--repeat"]
    service = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "edgeveil.edge_runtime",
            *words,
            "--sink",
            f"preview:{port}",
            "--health",
            "off",
            "--as-root",
        ],
        env=os.environ,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert network_receivers.eventually(lambda: frame_of(port) is not None, 60)
        assert frame_of(port).shape == (32, 32, 3)
    finally:
        service.send_signal(signal.SIGINT)
        out, _ = service.communicate(timeout=60)
    assert re.search(r"^\d+ frames? in, ", out, re.M)


def frame_of(port):
    """The picture that the preview shows, or None."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/frame.png?slot=0", timeout=5) as answer:
            return cv2.imdecode(np.frombuffer(answer.read(), np.uint8), cv2.IMREAD_UNCHANGED)
    except (urllib.error.URLError, OSError):
        return None
