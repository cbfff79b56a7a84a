"""edgeveil bundle cost: figures by hand, the same ones from Keras, TFLite and ONNX, and what a bundle says."""

import json

import pytest
from typer.testing import CliRunner

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.models.generators import conv_generator
from edgeveil.trainer.cli.main import app
from edgeveil.trainer.export.converters.tf2onnx import Tf2Onnx
from edgeveil.trainer.export.converters.tf_lite import TfLite
from edgeveil.trainer.graphs.cost import file_cost, keras_cost, model_file_cost
from tests.support import shufflenet
from tests.support.export_models import calibration, classifier, image_net, two_input_net


def everywhere(model, precisions=("float32", "int8")):
    rows = calibration(model, 4)
    costs = {"keras": keras_cost(model)}
    costs |= {f"tflite-{p}": file_cost(d, "tflite") for p, d in TfLite().convert(model, precisions, rows).items()}
    costs |= {f"onnx-{p}": file_cost(d, "onnx") for p, d in Tf2Onnx().convert(model, precisions, rows).items()}
    return costs


def test_a_small_network_by_hand():
    cost = keras_cost(image_net())
    assert (cost.flops, cost.depthwise_macs) == (2 * cost.macs, 0)
    # At most 4x4x8 numbers and the 8x8x8 that resizing makes of them; then these and the 8x8x1 output.
    assert cost.peak_activation_bytes == 4 * (4 * 4 * 8 + 8 * 8 * 8)
    assert (cost.input_bytes, cost.output_bytes) == (4 * 64, 4 * 64)
    assert cost.moved_bytes == 4 * (4 * 4 * 8 + 8 * 8 * 8)  # the resize alone
    assert cost.ops["Conv2D"] == 2


def odd_net():
    return conv_generator((11, 6, 1), width=8, halvings=2, blocks=1)


@pytest.mark.parametrize(
    "make", [two_input_net, *(pytest.param(net, marks=pytest.mark.nightly) for net in (image_net, classifier, odd_net))]
)
def test_keras_tflite_and_onnx_agree(make):
    costs = everywhere(make(), ("float32", "float16", "int8"))
    for field in ("macs", "flops", "parameters", "depthwise_macs"):
        assert len({getattr(c, field) for c in costs.values()}) == 1, (field, costs)
    floats = [costs[name].peak_activation_bytes for name in ("keras", "tflite-float32", "onnx-float32")]
    # Where a network has branches, each file's own order says what lives at the same time.
    assert max(floats) <= (2 if make is two_input_net else 1) * min(floats), floats
    assert costs["tflite-int8"].peak_activation_bytes * 4 == costs["tflite-float32"].peak_activation_bytes
    assert costs["tflite-int8"].input_bytes * 4 == costs["keras"].input_bytes
    assert costs["tflite-int8"].weight_bytes < costs["tflite-float32"].weight_bytes


def test_depthwise_macs_are_told_apart_everywhere():
    import keras

    image = h = keras.Input((8, 8, 3), name="image")
    h = keras.layers.DepthwiseConv2D(3, padding="same", use_bias=False)(h)
    output = keras.layers.Conv2D(4, 1, name="output")(h)
    costs = everywhere(keras.Model(image, output))
    assert {c.depthwise_macs for c in costs.values()} == {8 * 8 * 3 * 9}
    assert {c.macs for c in costs.values()} == {8 * 8 * 3 * 9 + 8 * 8 * 3 * 4}


def test_the_command_reads_a_file_an_export_folder_and_a_bundle(tmp_path):
    from edgeveil.trainer.export.export import export
    from edgeveil.trainer.sealing.seal import keygen, seal
    from tests.support.export_runs import prgan_run

    run = prgan_run(tmp_path / "run")
    export(run.folder, ["coral-dev-board"], tmp_path / "export")
    keygen(tmp_path / "trust", development=True)
    bundle = seal(tmp_path / "export", tmp_path / "trust" / "signing.key", tmp_path / "x.veil", allow_unaudited=True)

    def said(*arguments):
        done = CliRunner().invoke(app, ["bundle", "cost", *map(str, arguments), "--json"], catch_exceptions=False)
        return json.loads(done.stdout)["costs"]

    sealed, exported = said(bundle, "--trust", tmp_path / "trust"), said(tmp_path / "export")
    assert sealed == exported
    manifest = json.loads((tmp_path / "export" / "manifest.json").read_text())
    assert {c["macs"] for c in sealed.values()} == {manifest["models"]["generator"]["macs"]}
    file = next((tmp_path / "export").rglob("*int8*.tflite"))
    assert said(file)[file.name] == sealed["generator/tflite-int8"]
    assert "MACs" in CliRunner().invoke(app, ["bundle", "cost", str(file)]).stdout


def test_a_keras_file_costs_what_its_model_does(tmp_path):
    model = image_net()
    model.save(tmp_path / "net.keras")
    assert model_file_cost(tmp_path / "net.keras") == keras_cost(model)


def test_what_is_no_network_is_one_sentence(tmp_path):
    for name, match in [("a.txt", "was expected"), ("a.keras", "no such file"), ("a.tflite", "cannot be read")]:
        with pytest.raises(BadInput, match=match):
            model_file_cost(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "precisions", "macs", "parameters"),
    [
        pytest.param("MobileNet", ("float32", "int8"), 568_740_352, 4_221_032, marks=pytest.mark.nightly),
        ("MobileNetV2", (), 300_774_272, 3_487_816),
        pytest.param("MobileNetV2", ("float32", "int8"), 300_774_272, 3_487_816, marks=pytest.mark.nightly),
    ],
)
def test_mobilenets_have_the_papers_macs_everywhere(name, precisions, macs, parameters):
    import keras

    model = getattr(keras.applications, name)(weights=None)
    costs = everywhere(model, precisions) if precisions else {"keras": keras_cost(model)}
    assert {(c.macs, c.flops, c.parameters) for c in costs.values()} == {(macs, 2 * macs, parameters)}
    assert len({c.depthwise_macs for c in costs.values()}) == 1


def test_shufflenet_costs_what_was_published():
    """292 M multiply-adds and 3.4 M parameters; of NASNet 564 M and 5.3 M."""
    cost = keras_cost(shufflenet.shufflenet())
    assert (cost.macs, round(cost.parameters, -5)) == (292_443_552, 3_400_000)


@pytest.mark.nightly  # by day ShuffleNet, above
def test_nasnet_costs_what_was_published():
    import keras

    cost = keras_cost(keras.applications.NASNetMobile(weights=None))
    assert (cost.macs, round(cost.parameters, -5)) == (563_638_816, 5_300_000)
