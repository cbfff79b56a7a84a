"""A flash is refused by the owner's policy before anything travels, for the very artefact that this board would run."""

import json

import pytest

from edgeveil.devices.flashing.card import plan_card
from edgeveil.devices.flashing.flash import flash
from edgeveil.devices.flashing.records import Facts, Refused, Wanted
from edgeveil.devices.flashing.wheels import read_inputs
from edgeveil.edge_runtime.bundle.reader import read_bundle
from edgeveil.edge_runtime.errors import BundleRefused
from edgeveil.edge_runtime.releases import runtimes
from tests.support import bundles
from tests.support.boards import owners


class Board:
    """A board that was never flashed; nothing may be done to it. ``interpreters``: what it has beside numpy."""

    root = "/opt/edgeveil"

    def __init__(self, **interpreters):
        self.interpreters = interpreters

    def facts(self, _accelerator, _needs=()):
        there = {"numpy": "2.4.0", **{name.replace("_", "-"): version for name, version in self.interpreters.items()}}
        return Facts("x86_64", "3.11.2", 10**10, False, True, True, glibc="2.36", interpreters=there)


@pytest.mark.parametrize(
    ("board", "runs"), [(Board(ai_edge_litert="2.3.0"), "tflite-int8"), (Board(onnxruntime="1.20.0"), "onnx-float32")]
)
def test_the_audit_must_speak_of_what_this_board_runs(tmp_path, board, runs):
    """The example was audited as tflite-int8 alone; its best attack beats chance by 13 points."""
    made = bundles.make_bundle(tmp_path, example=bundles.artefact_example())
    folder = owners.trust(tmp_path)
    demand = {"sensitive": made.manifest["perturber"]["sensitive"], "most_attack_over_chance": 0.2, "audited": True}
    (folder / "policy.json").write_text(json.dumps({"schema": 1, "hide": [demand]}))

    def put():
        wanted = Wanted(service=False)
        inputs = read_inputs(made.path, "workstation", folder, None)
        return flash(inputs, board, wanted, dry_run=True).plan.artefact

    if runs == "tflite-int8":
        assert put() == runs
        return
    with pytest.raises(BundleRefused, match=f"no audit in it speaks of {runs}") as refused:
        put()
    assert refused.value.reason == "policy-not-met"


@pytest.fixture
def leaky(tmp_path):
    """A bundle whose verdict is leaks, and its owner's trust folder."""
    manifest, members = bundles.artefact_example(audited=False)
    document = bundles.audit_document(manifest, members=members)
    document["verdict"] = {"word": "leaks", "reasons": ["much"], "limit": {"points": 5.0, "bits": 0.05}, "upper": UPPER}
    bundles.add_audit(manifest, members, document)
    return bundles.make_bundle(tmp_path, example=(manifest, members)), owners.trust(tmp_path)


UPPER = {"points": 15.0, "bits": None}


@pytest.mark.parametrize("card", [False, True])
def test_a_bundle_that_leaks_needs_its_owners_word(leaky, tmp_path, card):
    made, folder = leaky

    def put(**wanted):
        wanted, shown = Wanted(service=False, **wanted), []
        inputs = read_inputs(made.path, "workstation", folder, None)
        if card:
            plan_card(inputs.bundle, inputs.profile, wanted, trust=inputs.trust).text()
        return flash(inputs, Board(ai_edge_litert="2.3.0"), wanted, dry_run=True, show=shown.append) and shown[0]

    with pytest.raises(Refused, match="found that it leaks") as refused:
        put()
    assert (refused.value.reason, "--accept leak" in str(refused.value)) == ("leaks", True)
    assert "note: " in put(accept_leak=True)
    assert "its audit found that it leaks; its privacy card says what" in put(accept_leak=True)
    root = folder / "root.pub"
    was = root.read_text()
    root.write_text(was.rstrip() + " development\n")
    assert "found that it leaks" in put()
    root.write_text(was)
    demand = {"sensitive": made.manifest["perturber"]["sensitive"], "most_attack_over_chance": 0.5, "audited": True}
    (folder / "policy.json").write_text(json.dumps({"schema": 1, "hide": [demand]}))
    assert "found that it leaks" in put(), "its owner's policy lets it pass, and the plan says it all the same"


def test_an_install_on_the_board_says_so_too(leaky, tmp_path, monkeypatch):
    made, _ = leaky
    said = []
    monkeypatch.setattr(runtimes, "_passes", lambda *_: None)
    monkeypatch.setattr(runtimes.os, "geteuid", lambda: 1000)
    bundle = read_bundle(made.path.read_bytes(), bundles.trust())
    runtimes.trial(str(tmp_path), say=said.append)(str(tmp_path), bundle)
    assert f"note: {bundle.manifest.name}: its audit found that it leaks; its privacy card says what" in said
