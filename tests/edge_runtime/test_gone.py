"""What was deleted is refused by name: on the command line, in edge.json, in an address and in a manifest."""

import json

import pytest

from edgeveil.edge_runtime import config
from edgeveil.edge_runtime.cli.main import main
from edgeveil.edge_runtime.errors import GONE, BadInput, BundleRefused
from edgeveil.edge_runtime.manifest.schema import check_manifest
from edgeveil.edge_runtime.sinks.preview import PreviewSink
from tests.support import bundles


def test_every_sentence_names_the_commit():
    assert all("baecb1ef" in sentence and ". " not in sentence for sentence in GONE.values())


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["run", "tally.veil", "--model", "mqtt://localhost/tally"], "run --model"),
        (["run", "tally.veil", "--turn=0"], "run --turn"),
        (["inside", "tally.veil", "--subject-column", "1"], "inside --subject-column"),
    ],
)
def test_a_deleted_option(words, option, capsys):
    assert main(words) == 2
    assert capsys.readouterr().err == f"error: edgeveil-edge {option}: {GONE[option]}.\n"


def test_a_deleted_command(monkeypatch, capsys):
    monkeypatch.setitem(GONE, "ledger burn", "use ledger create; commit baecb1ef has it")
    assert main(["ledger", "burn", "file"]) == 2
    assert capsys.readouterr().err == "error: edgeveil-edge ledger burn: use ledger create; commit baecb1ef has it.\n"


@pytest.mark.parametrize("name", ["model", "turn"])
def test_a_deleted_setting(name, tmp_path):
    (tmp_path / "edge.json").write_text(json.dumps({name: 1}))
    with pytest.raises(BadInput, match=f"'{name}' in .*: training by rounds over MQTT was deleted.*baecb1ef"):
        config.read(str(tmp_path / "edge.json"))


def test_a_deleted_option_of_a_sink():
    with pytest.raises(BadInput, match=r"taps of an operator were deleted.*baecb1ef"):
        PreviewSink("preview:0?accept=30m", [], None, {})


@pytest.mark.parametrize("kind", ["parameters", "gradient"])
def test_a_deleted_stage(kind):
    manifest, members = bundles.numpy_example()
    manifest["stages"].insert(1, {"stage": kind, "output": "theta"})
    with pytest.raises(BundleRefused, match=r"training by rounds over MQTT was deleted.*baecb1ef") as caught:
        check_manifest(bundles.with_members(manifest, members))
    assert caught.value.reason == "unsupported-stage"
