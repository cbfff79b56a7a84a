"""From an export with a compiler to a card that speaks of the accelerator, by way of rows that it made.

The accelerator is the stand-in of ``edge_tpu``; the rows go through ``audit_rows``, as on a board.
"""

import ctypes
import json
from dataclasses import replace

import jsonschema
import pytest

from edgeveil.devices.agents import run_rows
from edgeveil.devices.remote import RemoteRows
from edgeveil.edge_runtime.api import Perturber
from edgeveil.edge_runtime.bundle import policy
from edgeveil.edge_runtime.bundle.policy import Demand, Policy
from edgeveil.edge_runtime.bundle.reader import read_bundle
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.errors import BundleRefused
from tests.support.boards import edge_tpu
from tests.support.boards.edge_tpu import COMPILED
from tests.support.checkout import ROOT

# By day its parts: test_edgetpu_artefact.py, a card that speaks of an Edge TPU; test_remote_rows.py, rows of a board.
pytestmark = [pytest.mark.slow, pytest.mark.programs, pytest.mark.nightly]


def complements(run):
    """The stand-in sends every picture's complement, which is raw data under another name: the bundle must say so."""
    path = run / "perturber/perturber.json"
    said = json.loads(path.read_text())
    said["perturber"]["identity_allowed"] = True
    path.write_text(json.dumps(said))


def test_a_card_speaks_of_the_accelerator_once_it_was_audited_there(tmp_path, monkeypatch):
    from edgeveil.trainer.attacks import problem
    from edgeveil.trainer.attacks.families.fixed import Fixed
    from edgeveil.trainer.attacks.families.logistic import Logistic
    from edgeveil.trainer.audit import frozen as on_board
    from edgeveil.trainer.audit.audit import audit
    from edgeveil.trainer.audit.document import add_column, save
    from edgeveil.trainer.audit.sections import board_section
    from edgeveil.trainer.export.export import export
    from edgeveil.trainer.export.folder import ExportFolder
    from edgeveil.trainer.sealing.inspect import inspect
    from edgeveil.trainer.sealing.seal import keygen, seal
    from tests.support.export_runs import prgan_run

    monkeypatch.setattr("edgeveil.trainer.attacks.run_all.adversaries", lambda: (Fixed(), Logistic()))
    monkeypatch.setitem(problem.BUDGETS, "quick", replace(problem.BUDGETS["quick"], epochs=2, trees=5))
    # Nine tenths of the time, and no part of what is looked at here.
    monkeypatch.setattr("edgeveil.trainer.audit.sections.retained.section", lambda *_, **__: [])
    monkeypatch.setattr("edgeveil.trainer.audit.sections.retained.label_only", lambda *_, **__: [])
    monkeypatch.setattr(
        "edgeveil.trainer.export.compilers.edgetpu._file", lambda _program, model: edge_tpu.compiled(model)
    )
    monkeypatch.setattr(
        "edgeveil.trainer.export.compilers.edgetpu.run_compiler", lambda *_: "a stand-in of a compiler\n"
    )
    library = edge_tpu.build(tmp_path) / edge_tpu.LIBRARY  # while the C compiler can be looked for
    monkeypatch.setattr("edgeveil.trainer.export.compilers.vendors.shutil.which", lambda _name: "here")
    # The stand-in complements: what is sealed must have that as its golden outputs, or no self-test would pass.
    monkeypatch.setattr("edgeveil.edge_runtime.pipeline.reconstruction._difference", lambda *_: 0.0)
    run, folder, keys = tmp_path / "run", tmp_path / "export", tmp_path / "keys"
    prgan_run(run)
    complements(run)
    export(run, ["coral-dev-board"], folder)
    keygen(keys)
    bundle = seal(folder, keys / "signing.key", tmp_path / "one.veil", allow_unaudited=True)
    save(audit(folder, artefact="tflite-int8"), folder)

    ctypes.CDLL(str(library))
    trust = open_trust(str(keys))
    subject = on_board.open_target(bundle, run=run, trust=keys, artefact="auto").subject
    x = on_board.open_target(bundle, run=run, trust=keys, artefact="auto").run.dataset().part("test").x
    with Perturber.open(str(bundle), trust=trust, device="edgetpu") as opened:
        further = [*on_board.further_outputs(subject), *board_section.draws(subject.manifest)]
        outputs = run_rows.perturb(opened.manifest.document, opened.pipeline, x, further)
        ran = {**opened.info, "edge_runtime": "0", "numpy": "2"}
    place = {"board": "a stand-in", "architecture": "x86_64", "system": None, "python": "3.11"}
    monkeypatch.setattr(on_board, "perturb_on_board", lambda *_, **__: RemoteRows(ran["artefact"], outputs, ran, place))
    board = type("Board", (), {"transport": None})()
    document = on_board.audit_on_board(bundle, board, run=run, trust=keys, device="edgetpu")
    schema = json.loads((ROOT / "docs/reference/schemas/audit.schema.json").read_text())
    jsonschema.validate(document["on_board"], {**schema["properties"]["on_board"], "$defs": schema["$defs"]})
    assert (document["artefact"], document["on_board"]["device"]) == (COMPILED, "edgetpu")
    frame = document["on_board"]["compared"][0]
    assert frame["differ"] == len(x)  # complemented, beside what the workstation's int8 makes of the same readings

    add_column(document, folder)
    assert ExportFolder.open(folder).audit["others"][0]["on_board"]["device"] == "edgetpu"
    card = seal(folder, keys / "signing.key", tmp_path / "two.veil")
    assert set(read_bundle(str(card), trust).manifest.privacy.speaks_of) == {"tflite-int8", COMPILED}
    assert f"{COMPILED} on a stand-in, its edgetpu" in inspect(card, keys).text()
    trust.policy = Policy([Demand(subject.manifest["perturber"]["sensitive"], None, True)])
    with pytest.raises(BundleRefused, match="no audit in it speaks of"):
        Perturber.open(str(card), trust=trust, device="edgetpu")  # this is not the board that it was made on
    monkeypatch.setattr(policy, "current_place", lambda: (place["board"], place["architecture"]))
    with Perturber.open(str(card), trust=trust, device="edgetpu") as opened:
        assert opened.info["audited"] is True
    with pytest.raises(BundleRefused, match="must be audited"):
        Perturber.open(str(bundle), trust=trust, device="edgetpu")
