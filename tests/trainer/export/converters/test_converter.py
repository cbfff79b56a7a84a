"""Which converter makes an export's files: the first that all its boards take and that is here; and who it was."""

import json

import pytest

from edgeveil.devices import profiles
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.export.converters import converter
from edgeveil.trainer.export.converters.converter import CONVERTERS, choose
from edgeveil.trainer.export.export import export


def board(name, *names):
    """A profile that takes these converters."""
    return profiles.load(name).model_copy(update={"converters": names or profiles.CONVERTERS})


@pytest.fixture
def without(monkeypatch):
    """Makes modules be missing."""
    real = converter.importlib.util.find_spec

    def gone(*names):
        monkeypatch.setattr(converter.importlib.util, "find_spec", lambda name: None if name in names else real(name))

    return gone


def test_every_kind_is_found_and_states_what_it_needs():
    assert list(CONVERTERS.kinds()) == ["keras-litert", "keras-onnx", "nncf", "tf2onnx", "tf.lite"]
    for kind in CONVERTERS.kinds().values():
        assert kind.facts["format"] in ("tflite", "onnx")
        assert kind.facts["modules"]
        assert kind.facts["install"].startswith("pip install 'edgeveil[")
        assert set(kind.facts["packages"]) > {"keras"}


def test_shipped_profiles_name_converters_that_there_are():
    for name in profiles.names():
        for one in profiles.load(name).converters:
            assert one in CONVERTERS.kinds()


def test_the_usual_ones_make_what_no_board_asks_otherwise():
    chosen = choose([board("jetson-nano"), board("raspberry-pi5")], ["tflite", "onnx", "tflite"])
    assert {form: one.name for form, one in chosen.items()} == {"tflite": "tf.lite", "onnx": "tf2onnx"}
    assert {form: one.name for form, one in choose([], ["tflite"]).items()} == {"tflite": "tf.lite"}


def test_the_first_that_all_boards_take(without):
    without()
    one, other = board("raspberry-pi5", "keras-litert", "tf.lite"), board("raspberry-pi-cpu", "tf.lite", "keras-litert")
    assert choose([one, other], ["tflite"])["tflite"].name == "keras-litert"
    assert choose([board("raspberry-pi5")], ["tflite"], ["CONV_2D-0"])["tflite"].keep_float == ("CONV_2D-0",)
    assert choose([other, one], ["tflite"])["tflite"].name == "tf.lite"
    # A board of another format has no say, and one that names none of this format takes the usual.
    assert choose([board("jetson-nano", "keras-onnx"), other], ["tflite"])["tflite"].name == "tf.lite"
    assert choose([board("jetson-nano", "keras-litert")], ["onnx"])["onnx"].name == "tf2onnx"


def test_int16x8_is_made_by_the_converter_that_has_it_or_refused_by_name(without):
    without()
    taking = board("raspberry-pi5")
    assert choose([taking], ["tflite-int8", "tflite-int16x8"])["tflite"].name == "keras-litert"
    assert choose([taking], ["tflite-int8", "onnx-int8"])["tflite"].name == "tf.lite"
    with pytest.raises(BadInput, match=r"^tflite-int16x8 is made by none of tf\.lite: name keras-litert in .*rasp"):
        choose([board("raspberry-pi5", "tf.lite")], ["tflite-int16x8"])


def with_int16(tmp_path, name, old):
    """A profile of a user's own that asks for int16x8 in addition to int8."""
    text = (profiles.FOLDER / f"{name}.toml").read_text()
    path = tmp_path / f"{name}.toml"
    path.write_text(text.replace(old, old.replace('"tflite-int8"', '"tflite-int8", "tflite-int16x8"')))
    return str(path)


def test_a_profile_that_asks_has_int16x8_and_an_accelerator_cannot(run, tmp_path):
    mine = with_int16(tmp_path, "raspberry-pi5", 'artefacts = ["tflite-int8", "tflite-float32"]')
    folder = export(run.folder, [mine], tmp_path / "out")
    assert folder.manifest["preference"] == ["tflite-int8", "tflite-int16x8", "tflite-float32"]
    assert folder.report["converters"]["tflite"]["name"] == "keras-litert"
    off = {row["artefact"]: row["mean_abs"] for row in folder.report["parity"]}
    assert off["tflite-int16x8"] < off["tflite-int8"]
    (entry,) = folder.manifest["models"]["generator"]["artefacts"]["tflite-int16x8"]["inputs"]
    assert (entry["dtype"], entry["zero_point"]) == ("int16", 0)
    with pytest.raises(BadInput, match="the Edge TPU has no tflite-int16x8: remove it"):
        profiles.load(with_int16(tmp_path, "coral-dev-board", 'artefacts = ["tflite-int8"]'))


def test_the_opset_is_the_newest_that_all_boards_read():
    boards = [board("rockchip-rk3588"), board("workstation")]
    assert choose(boards[:1], ["onnx"])["onnx"].opset == 19
    assert choose(boards, ["onnx"])["onnx"].opset == 13


def test_boards_without_a_common_one_are_refused():
    boards = [board("raspberry-pi5", "keras-litert"), board("raspberry-pi-cpu", "tf.lite")]
    with pytest.raises(BadInput, match=r"raspberry-pi5: keras-litert; raspberry-pi-cpu: tf\.lite.* folder of its own"):
        choose(boards, ["tflite"])


def test_an_unknown_one_is_named_with_the_nearest():
    with pytest.raises(BadInput, match=r"got 'tflite'.* Did you mean tf.lite"):
        choose([board("raspberry-pi5", "tflite")], ["tflite"])


def test_a_missing_package_is_one_sentence_with_the_line_that_brings_it(without, capsys):
    without("ai_edge_quantizer")
    taking = board("raspberry-pi5", "keras-litert", "tf.lite")
    assert choose([taking], ["tflite"])["tflite"].name == "tf.lite"
    assert capsys.readouterr().err == (
        "keras-litert needs ai_edge_quantizer: pip install 'edgeveil[trainer,converters]'. tf.lite makes the tflite "
        "files in its place.\n"
    )
    with pytest.raises(BadInput, match=r"^keras-litert needs ai_edge_quantizer: pip install [^ ]*\.$"):
        choose([board("raspberry-pi5", "keras-litert")], ["tflite"])


def test_the_export_records_who_made_the_files(run, tmp_path):
    text = (profiles.FOLDER / "raspberry-pi5.toml").read_text()
    mine = tmp_path / "mine.toml"
    mine.write_text(text.replace("[[backends]]", 'converters = ["keras-litert"]\n\n[[backends]]', 1))
    folder = export(run.folder, [str(mine)], tmp_path / "out")
    by = folder.report["converters"]["tflite"]
    assert by["name"] == "keras-litert"
    assert by["packages"]["ai-edge-quantizer"] == folder.manifest["provenance"]["packages"]["ai-edge-quantizer"]
    assert f"Made by keras-litert (ai-edge-litert {by['packages']['ai-edge-litert']}, " in folder.text()
    assert {row["artefact"]: row["findings"] for row in folder.report["lint"]} == {
        "tflite-int8": 0,
        "tflite-float32": 0,
    }
    for row in folder.report["parity"]:
        assert row["max_abs"] <= 2
        assert row["target_agreement"] >= 0.95
    usual = export(run.folder, ["raspberry-pi5"], tmp_path / "usual")
    assert "ai-edge-quantizer" not in json.dumps(usual.manifest)
    assert usual.report["converters"]["tflite"]["name"] == "tf.lite"
    # Golden samples are chosen alike; the files are others.
    assert usual.members.keys() == folder.members.keys()
    assert (
        usual.members["artefacts/generator.tflite-int8.tflite"]
        != (folder.members["artefacts/generator.tflite-int8.tflite"])
    )
