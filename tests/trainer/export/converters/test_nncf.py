"""nncf: int8 of OpenVINO's own quantiser, which OpenVINO and onnxruntime run as near to Keras as ours."""

import os
from importlib.util import find_spec

import numpy as np
import pytest

from edgeveil.devices import profiles
from edgeveil.edge_runtime.backends import open_backend
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.pipeline.pipeline import load_pipeline
from edgeveil.edge_runtime.pipeline.reconstruction import self_test
from edgeveil.trainer.export.artefact import artefact_entry
from edgeveil.trainer.export.converters.nncf import Nncf
from edgeveil.trainer.export.export import export
from edgeveil.trainer.export.manifest import lint
from edgeveil.trainer.graphs.files import read
from tests.support.export_models import calibration, classifier, image_net, two_input_net

pytestmark = [
    pytest.mark.vendors,
    pytest.mark.skipif(find_spec("nncf") is None, reason="no NNCF: scripts/environments/vendors makes .venvs/nncf"),
]


@pytest.mark.parametrize("make", [image_net, classifier, two_input_net])
def test_int8_is_near_to_keras_on_both_interpreters(make):
    model = make()
    rows = calibration(model)
    expected = model.predict(list(rows.values()), verbose=0)
    expected = expected if isinstance(expected, list) else [expected]
    data = Nncf(13).convert(model, ["int8"], rows)["int8"]
    graph = read(data, "onnx")
    assert lint(graph, "int8") == []
    assert (graph.opset, graph.ir) == (13, 7)
    names = {"inputs": [t.name for t in model.inputs], "outputs": list(model.output_names)}
    facts = artefact_entry(data, graph, file="a.onnx", precision="int8", max_abs=1.0, **names)
    for backend in ("openvino", "onnxruntime"):
        got = open_backend("onnx", data, facts, backend=backend).run(rows)
        for name, values in zip(model.output_names, expected, strict=True):
            assert np.abs(got[name] - values).max() < 0.05 * np.abs(values).max(), (backend, name)
    assert os.environ["NNCF_CI"] == "1"  # nothing is reported to its makers


@pytest.mark.nightly  # by day test_keras_litert.py
def test_the_same_bytes_twice_and_a_layer_that_stays_float():
    model = image_net()
    rows = calibration(model)
    converter = Nncf(13)
    data = converter.convert(model, ["int8"], rows)["int8"]
    assert converter.convert(model, ["int8"], rows)["int8"] == data
    converter.keep_float = ("conv-4",)
    graph = read(converter.convert(model, ["int8"], rows)["int8"], "onnx")
    assert {one.rule for one in lint(graph, "int8")} == {"no-float-island"}
    assert lint(graph, "int8", kept=["conv-4"]) == []


def test_a_profile_that_names_it_gets_it_and_openvino_is_near_its_golden_vectors(run, tmp_path):
    text = (profiles.FOLDER / "intel-n100.toml").read_text()
    mine = tmp_path / "mine.toml"
    mine.write_text(f'converters = ["tf.lite", "nncf"]\n{text}'.replace('"intel-n100"', '"mine"'))
    folder = export(run.folder, [str(mine)], tmp_path / "out")
    assert folder.report["converters"]["onnx"]["name"] == "nncf"
    assert folder.report["converters"]["onnx"]["packages"]["nncf"]
    assert {row["findings"] for row in folder.report["lint"]} == {0}
    parity = {row["artefact"]: row for row in folder.report["parity"]}
    assert parity["onnx-int8"]["target_agreement"] >= 0.95
    manifest = parse(folder.manifest)
    on_openvino = load_pipeline(manifest, folder.members, "onnx-int8", backend="openvino")
    self_test(on_openvino, manifest, folder.members, "onnx-int8")  # raises where it is further off than the tolerance
