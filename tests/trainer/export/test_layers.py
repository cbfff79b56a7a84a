"""The operation that int8 harms most is named first, of files of each converter."""

import pytest

from edgeveil.devices import profiles
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.export import layers
from edgeveil.trainer.export.converters.converter import choose
from edgeveil.trainer.export.converters.keras_litert import KerasLitert
from edgeveil.trainer.export.converters.tf2onnx import Tf2Onnx
from edgeveil.trainer.export.converters.tf_lite import TfLite
from edgeveil.trainer.export.export import export
from edgeveil.trainer.export.manifest import lint
from edgeveil.trainer.graphs.files import read
from tests.support.export_models import calibration, classifier, image_net


@pytest.mark.parametrize("kind", [TfLite, KerasLitert])
def test_a_planted_bad_layer_comes_first(kind):
    model = classifier()
    rows = calibration(model)
    dense = next(layer for layer in model.layers if layer.name.startswith("dense"))
    kernel, bias = dense.get_weights()
    kernel[0, 0] = 300.0  # the others are one step of the scale that this asks for, or none
    dense.set_weights([kernel, bias])
    rows["image"][:, :2, :2] = 0  # where its weight is not used much
    files = kind().convert(model, ["float32", "int8"], rows)
    found = layers.errors(files["float32"], files["int8"], rows)
    first = {one["operation"]: one["error"] for one in found}
    assert found[0]["operation"].startswith("FULLY_CONNECTED")
    assert [one["error"] for one in found] == sorted(first.values(), reverse=True)
    before = next(error for name, error in first.items() if name.startswith("CONV_2D"))
    assert found[0]["error"] > 10 * before


def test_a_network_that_fits_int8_is_near_everywhere():
    model = image_net()
    rows = calibration(model)
    files = TfLite().convert(model, ["float32", "int8"], rows)
    found = layers.errors(files["float32"], files["int8"], rows)
    assert {one["operation"].split("-")[0] for one in found} == {"CONV_2D", "RESIZE_NEAREST_NEIGHBOR", "LOGISTIC"}
    assert 0 < found[0]["error"] < 0.05
    assert layers.errors(files["float32"], files["float32"], rows)[0]["error"] == 0


def test_an_export_has_them_where_it_has_both_precisions(run, tmp_path):
    folder = export(run.folder, ["workstation"], tmp_path / "out")
    (report,) = folder.report["layers"]
    assert report["model"] == "generator"
    worst = report["layers"][0]
    assert f"int8 of generator is furthest from float32 in {worst['operation']} (" in folder.text()
    assert export(run.folder, ["coral-dev-board"], tmp_path / "one").report["layers"] == []


@pytest.mark.parametrize("kind", [KerasLitert, Tf2Onnx])
def test_a_layer_that_is_kept_is_float_and_no_other(kind):
    model, form = image_net(), kind.format
    converter = kind()
    exact = read(converter.convert(model, ["float32"])["float32"], form)
    name = next(op.name for op in exact.ops if op.kind.upper().startswith("CONV"))
    converter.keep_float = (name,)
    graph = read(converter.convert(model, ["int8"], calibration(model))["int8"], form)
    found = lint(graph, "int8")
    assert {one.rule for one in found} == {"no-float-island"}
    assert len({one.op.name for one in found if one.op.kind.upper().startswith("CONV")}) == 1
    assert lint(graph, "int8", kept=[name]) == []
    # It allows one of that kind, and nothing of another.
    assert lint(graph, "int8", kept=["LOGISTIC-3"])
    converter.keep_float = tuple(op.name for op in exact.ops if op.kind.upper().startswith("CONV"))
    both = read(converter.convert(model, ["int8"], calibration(model))["int8"], form)
    assert lint(both, "int8", kept=[name])


def test_an_export_keeps_the_layer_that_its_table_names(run, tmp_path):
    plain = export(run.folder, ["raspberry-pi5"], tmp_path / "plain")
    # One that the network ends in, or is rounded at once again, gains little.
    worst = next(one for one in plain.report["layers"][0]["layers"] if one["operation"].startswith("CONV_2D"))
    mixed = export(run.folder, ["raspberry-pi5"], tmp_path / "mixed", keep_float=[worst["operation"]])
    after = {one["operation"]: one["error"] for one in mixed.report["layers"][0]["layers"]}
    assert after[worst["operation"]] < worst["error"]
    assert mixed.report["converters"]["tflite"]["name"] == "keras-litert"
    assert all(row["findings"] == 0 for row in mixed.report["lint"])
    assert f"In float32 in the int8 files: {worst['operation']}" in mixed.text()
    assert mixed.report["keep_float"] == [worst["operation"]]
    assert plain.report["keep_float"] == []


def test_what_cannot_be_kept_is_refused_in_one_sentence(run, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(BadInput, match=r"Edge TPU of coral-usb takes int8 alone, and CONV_2D-0 would end"):
        export(run.folder, ["raspberry-pi5", "coral-usb"], out, keep_float=["CONV_2D-0"])
    with pytest.raises(BadInput, match=r"none of these boards has one of this perturber: leave it out"):
        export(run.folder, ["jetson-nano"], out, keep_float=["CONV_2D-0"])
    with pytest.raises(BadInput, match=r"expected an operation of CONV_2D-0, .*; got CONV_2D-99\.$"):
        export(run.folder, ["raspberry-pi5"], out, keep_float=["CONV_2D-99"])
    alone = profiles.load("raspberry-pi5").model_copy(update={"converters": ("tf.lite",)})
    with pytest.raises(BadInput, match=r"tf\.lite cannot keep .* name keras-litert"):
        choose([alone], ["tflite"], ["CONV_2D-0"])
    assert not out.exists()
