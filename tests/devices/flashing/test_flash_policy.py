"""A flash is refused by the owner's policy before anything travels, for the very artefact that this board would run."""

import json

import pytest

from edgeveil.devices.flashing.flash import flash
from edgeveil.devices.flashing.records import Facts, Wanted
from edgeveil.devices.flashing.wheels import read_inputs
from edgeveil.edge_runtime.errors import BundleRefused
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
