"""What a board's own compiler makes of an artefact is exported beside it, or the row says why not."""

import os
import shutil
import sys

import numpy as np
import pytest

from edgeveil.devices.profiles import load
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.audit.audit import audit
from edgeveil.trainer.cli.cost_command import costs_of
from edgeveil.trainer.export.artefact import Artefact
from edgeveil.trainer.export.compilers.vendors import compile_for
from edgeveil.trainer.export.export import export
from edgeveil.trainer.sealing.inspect import inspect
from edgeveil.trainer.sealing.keys import keygen
from edgeveil.trainer.sealing.seal import seal
from tests.support.checkout import ROOT


def compiler(folder, script):
    folder.mkdir()
    path = folder / "edgetpu_compiler"
    path.write_text(f"#!{shutil.which('sh')}\n{script}\n")
    path.chmod(0o755)
    return folder


# Stand-ins with the real one's command line: --version; -s -o FOLDER FILE writes FOLDER/NAME_edgetpu.tflite.
VERSION = (
    'test "$1" != "--version" || { echo "Edge TPU Compiler version 16.0"; exit; }\ntest "$1$2" = "-s-o" || exit 9\n'
)
COMPILES = """
import pathlib, sys
sys.path[:0] = [{root!r}]
from tests.support.boards import edge_tpu
folder, source = map(pathlib.Path, sys.argv[1:])
(folder / (source.stem + "_edgetpu.tflite")).write_bytes(edge_tpu.compiled(source.read_bytes()))
"""


def test_what_a_compiler_on_path_made_is_an_artefact_of_its_own(run, tmp_path, monkeypatch):
    program = tmp_path / "compile.py"
    program.write_text(COMPILES.format(root=str(ROOT)))
    script = VERSION + f'exec {sys.executable} {program} "$3" "$4"'
    monkeypatch.setenv("PATH", f"{compiler(tmp_path / 'bin', script)}:{os.environ['PATH']}")
    folder = export(run.folder, ["coral-dev-board", "workstation"], tmp_path / "out")
    manifest, (row, compiled, *others) = folder.manifest, folder.report["profiles"]
    assert "compiled by Edge TPU Compiler version 16.0 as tflite-int8-edgetpu" in row["status"]
    assert compiled["artefact"] == "tflite-int8-edgetpu"
    assert compiled["audited"].startswith("nothing, until edgeveil audit --on")
    assert all(other["profile"] == "workstation" for other in others)
    source, entry = (manifest["models"]["generator"]["artefacts"][n] for n in ("tflite-int8", "tflite-int8-edgetpu"))
    by = "Edge TPU Compiler version 16.0"
    assert entry["compiled"] == {"for": "edgetpu", "from": "tflite-int8", "sha256": source["sha256"], "by": by}
    assert entry["file"] == "artefacts/generator.tflite-int8-edgetpu.tflite"
    assert b"edgetpu-custom-op" in folder.members[entry["file"]]
    assert (entry["inputs"], entry["outputs"], entry["tolerance"]) == (
        source["inputs"],
        source["outputs"],
        source["tolerance"],
    )
    assert manifest["golden"]["outputs"]["tflite-int8-edgetpu"] == manifest["golden"]["outputs"]["tflite-int8"]
    assert manifest["preference"][-1] == "tflite-int8-edgetpu"
    assert manifest["profiles"]["coral-dev-board"]["artefacts"] == ["tflite-int8-edgetpu", "tflite-int8"]
    assert "tflite-int8-edgetpu" not in manifest["profiles"]["workstation"]["artefacts"]
    assert "generator/tflite-int8-edgetpu" not in costs_of(folder.folder, None)
    with pytest.raises(BadInput, match="runs on its accelerator alone"):
        audit(folder.folder, artefact="tflite-int8-edgetpu")
    keygen(tmp_path / "key", development=True)
    bundle = seal(folder.folder, tmp_path / "key" / "signing.key", tmp_path / "a.veil", allow_unaudited=True)
    view = inspect(bundle, tmp_path / "key").text()
    assert "tflite-int8-edgetpu" in view


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ('echo "Invalid model" >&2; exit 1', "failed (Invalid model)"),
        (VERSION, "left no model_edgetpu.tflite"),
        (VERSION + 'cp "$4" "$3/model_edgetpu.tflite"', "took none of its operations for the Edge TPU"),
        (VERSION + 'echo no > "$3/model_edgetpu.tflite"', "made a file that is no TFLite flatbuffer"),
    ],
)
def test_a_compiler_that_made_nothing_of_use_is_a_row_too(run, tmp_path, monkeypatch, script, why):
    monkeypatch.setenv("PATH", f"{compiler(tmp_path / 'bin', script)}:{os.environ['PATH']}")
    (one,) = compile_for([load("coral-dev-board")], [int8_of(run)], None).values()
    assert one.text() == f"exported uncompiled: edgetpu_compiler {why}"
    assert one.files == {}


def int8_of(run):
    """The int8 artefact of a run, made without the rest of an export."""
    from edgeveil.trainer.export import runners
    from edgeveil.trainer.export.converters.tf_lite import TfLite

    fitted = run.perturber()
    (network,) = fitted.models.values()
    x = run.dataset().part("perturber").x[:16]
    data = TfLite().convert(network, ["int8"], runners.calibration(fitted, x, np.random.default_rng(0))["generator"])
    made = Artefact("tflite-int8")
    made.add(fitted, "generator", data["int8"])
    return made
