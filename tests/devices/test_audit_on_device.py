"""From an export with a compiler to a card that speaks of the accelerator, by way of rows that it made.

The accelerator is the stand-in of ``edge_tpu``; the rows go through ``audit_rows``, as on a board.
"""

import ctypes
import json
from dataclasses import replace

import edge_tpu
import jsonschema
import pytest
from edge_tpu import COMPILED

from devices.rows import Rows
from edge_runtime import Perturber, audit_rows, perturber
from edge_runtime.bundle import read_bundle
from edge_runtime.errors import BundleRefused
from edge_runtime.policy import Demand, Policy
from edge_runtime.trust import Trust

pytestmark = [pytest.mark.slow, edge_tpu.needed]


def test_a_card_speaks_of_the_accelerator_once_it_was_audited_there(tmp_path, monkeypatch):
    from export_runs import prgan_run

    from trainer.audit import audit, on_board, problem, save
    from trainer.audit.adversaries.fixed import Fixed
    from trainer.audit.adversaries.logistic import Logistic
    from trainer.audit.document import add_column
    from trainer.export import export
    from trainer.export.bundle_view import inspect
    from trainer.export.folder import ExportFolder
    from trainer.export.seal import keygen, seal

    monkeypatch.setattr("trainer.audit.attack.adversaries", lambda: (Fixed(), Logistic()))
    monkeypatch.setitem(problem.BUDGETS, "quick", replace(problem.BUDGETS["quick"], epochs=2, trees=5))
    # Nine tenths of the time, and no part of what is looked at here.
    monkeypatch.setattr("trainer.audit.auditing.collateral.section", lambda *_, **__: None)
    monkeypatch.setattr("trainer.audit.auditing.collateral.beside", lambda *_: {})
    monkeypatch.setattr("trainer.export.compiled._file", lambda _program, model: edge_tpu.compiled(model))
    monkeypatch.setattr("trainer.export.compiled._run", lambda *_: "a stand-in of a compiler\n")
    monkeypatch.setattr("trainer.export.compiled.shutil.which", lambda _name: "here")
    # The stand-in complements: what is sealed must have that as its golden outputs, or no self-test would pass.
    monkeypatch.setattr("edge_runtime.selftest._difference", lambda *_: 0.0)
    run, folder, keys = tmp_path / "run", tmp_path / "export", tmp_path / "keys"
    prgan_run(run)
    export(run, ["coral-dev-board"], folder)
    keygen(keys)
    bundle = seal(folder, keys / "signing.key", tmp_path / "one.veil", allow_unaudited=True)
    save(audit(folder, artefact="tflite-int8"), folder)

    ctypes.CDLL(str(edge_tpu.build(tmp_path) / edge_tpu.LIBRARY))
    trust = Trust.open(str(keys))
    subject = on_board.open_target(bundle, run=run, trust=keys, artefact="auto").subject
    x = on_board.open_target(bundle, run=run, trust=keys, artefact="auto").run.dataset().part("test").x
    with Perturber.open(str(bundle), trust=trust, device="edgetpu") as opened:
        further = [*on_board.further_outputs(subject), *on_board.draws(subject.manifest)]
        outputs = audit_rows.through(opened.manifest, opened.pipeline, x, further)
        ran = {**opened.info, "edge_runtime": "0", "numpy": "2"}
    place = {"board": "a stand-in", "architecture": "x86_64", "system": None, "python": "3.11"}
    monkeypatch.setattr(on_board, "through_board", lambda *_, **__: Rows(ran["artefact"], outputs, ran, place))
    board = type("Board", (), {"transport": None})()
    document = on_board.audit_on_board(bundle, board, run=run, trust=keys, device="edgetpu")
    schema = json.loads((edge_tpu.SOURCE.parents[1] / "docs/reference/schemas/audit.schema.json").read_text())
    jsonschema.validate(document["on_board"], {**schema["properties"]["on_board"], "$defs": schema["$defs"]})
    assert (document["artefact"], document["on_board"]["device"]) == (COMPILED, "edgetpu")
    frame = document["on_board"]["compared"][0]
    assert frame["differ"] == len(x)  # complemented, beside what the workstation's int8 makes of the same readings

    add_column(document, folder)
    assert ExportFolder.open(folder).audit["others"][0]["on_board"]["device"] == "edgetpu"
    card = seal(folder, keys / "signing.key", tmp_path / "two.veil")
    assert set(read_bundle(str(card), trust).manifest["privacy"]["speaks_of"]) == {"tflite-int8", COMPILED}
    assert f"{COMPILED} on a stand-in, its edgetpu" in inspect(card, keys).text()
    trust.policy = Policy([Demand(subject.manifest["perturber"]["sensitive"], None, True)])
    with pytest.raises(BundleRefused, match="no audit in it speaks of"):
        Perturber.open(str(card), trust=trust, device="edgetpu")  # this is not the board that it was made on
    monkeypatch.setattr(perturber, "here", lambda: (place["board"], place["architecture"]))
    with Perturber.open(str(card), trust=trust, device="edgetpu") as opened:
        assert opened.info["audited"] is True
    with pytest.raises(BundleRefused, match="must be audited"):
        Perturber.open(str(bundle), trust=trust, device="edgetpu")
