"""What a compiler's simulator computes is attacked and gets a column; it is no audit of the device."""

import dataclasses
import json

import jsonschema
import pytest
from typer.testing import CliRunner

from edgeveil.edge_runtime.bundle.policy import audits_of
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.audit.frozen import open_target
from edgeveil.trainer.audit.rerun import audit_on_simulator, simulated
from edgeveil.trainer.audit.sections import board_section
from edgeveil.trainer.audit.subject import perturb_rows
from edgeveil.trainer.audit.text import board_lines
from edgeveil.trainer.cli.main import app
from edgeveil.trainer.export.export import export
from edgeveil.trainer.export.folder import ExportFolder
from tests.support.checkout import ROOT
from tests.support.export_runs import prgan_run
from tests.support.vendors import stand_ins

COMPILED = "onnx-float32-rk3588"
SCHEMA = json.loads((ROOT / "docs/reference/schemas" / "audit.schema.json").read_text())
HOW = {"budget": "quick", "seed": 0, "tried": None, "resume": False}


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """An export for an RK3588, as if it had been audited by another budget, and the Python that compiled it."""
    folder = tmp_path_factory.mktemp("simulated")
    python = stand_ins.rknn_python(folder / "rk")
    made = export(prgan_run(folder / "run").folder, ["rockchip-rk3588"], folder / "export", compiler_python=python)
    (made.folder / "audit.json").write_text(json.dumps({"schema": 2, "budget": "another", "seed": 0}))
    return made, python


@pytest.fixture(scope="module")
def document(work):
    """The part of an audit that says what came out otherwise, of the simulator's answers; without any attack."""
    folder, python = work
    there = simulated(folder, python, COMPILED)
    opened = open_target(folder.folder, run=None, trust=None, artefact=COMPILED)
    dataset, target = opened.run.dataset(), opened.run.classifiers()["target"]
    rows = dataset.slices.rows()
    perturbed = perturb_rows(opened.subject, opened.run, dataset, rows, elsewhere=there.rows.outputs)
    section = board_section.section(there, opened.subject, dataset, perturbed, target)
    backends = there.rows.ran["backends"]
    return {"artefact": COMPILED, "speaks_of": {COMPILED: ""}, "backends": backends, "on_board": section}


def test_the_column_is_of_the_schema_and_says_what_computed_it(document):
    there = document["on_board"]
    form = {**SCHEMA["properties"]["on_board"], "$defs": SCHEMA["$defs"]}
    jsonschema.Draft202012Validator(form).validate(json.loads(json.dumps(there, allow_nan=False)))
    assert (there["simulated"], there["device"]) == (True, "rk3588")
    assert there["board"] == "rknn-toolkit2's simulator"
    (frame,) = [row for row in there["compared"] if row["kind"] == "frame"]
    assert 0 < frame["differ"] <= there["rows"]
    assert frame["max_abs"] <= 1
    lines = "\n".join(board_lines(document))
    assert "By a simulator, on no board (rknn-toolkit2's simulator" in lines
    assert "no board ran it" in lines


def test_it_is_no_audit_of_the_device(document):
    assert audits_of({**document, "others": []}, COMPILED, "rk3588") == []
    ran = {**document["on_board"]}
    del ran["simulated"]
    assert audits_of({**document, "on_board": ran, "others": []}, COMPILED, "rk3588")


def test_another_network_version_or_artefact_is_refused(work, tmp_path):
    folder, python = work
    other = stand_ins.rknn_python(tmp_path / "a", version="2.4.0")
    with pytest.raises(BadInput, match=r"compiled by rknn-toolkit2 2.5.0; .* has rknn-toolkit2 2.4.0"):
        simulated(folder, other, COMPILED)
    with pytest.raises(BadInput, match="only that has a simulator here; got onnx-float32"):
        simulated(folder, python, "onnx-float32")
    with pytest.raises(BadInput, match="was not audited yet"):
        audit_on_simulator(dataclasses.replace(folder, folder=tmp_path), python, artefact=COMPILED, **HOW)


def test_golden_outputs_of_another_network_are_refused(work, tmp_path):
    folder, python = work
    golden = folder.folder / folder.manifest["golden"]["outputs"][COMPILED]["frame"]
    kept = golden.read_bytes()
    try:
        golden.write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
        with pytest.raises(BadInput, match="golden frame was expected to be that of the export"):
            simulated(folder, python, COMPILED)
    finally:
        golden.write_bytes(kept)
    assert ExportFolder.open(folder.folder)


def test_the_command_wants_a_compiled_artefact_by_name(work):
    done = CliRunner().invoke(app, ["audit", str(work[0].folder), "--simulate", str(work[1])])
    assert isinstance(done.exception, BadInput)
    assert "name that folder and --artefact" in str(done.exception)
