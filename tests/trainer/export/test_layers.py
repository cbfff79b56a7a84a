"""The operation that int8 harms most is named first, of files of each converter."""

import pytest

from edgeveil.trainer.export import layers
from edgeveil.trainer.export.converters.keras_litert import KerasLitert
from edgeveil.trainer.export.converters.tf_lite import TfLite
from edgeveil.trainer.export.export import export
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
