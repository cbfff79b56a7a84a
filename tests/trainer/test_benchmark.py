"""Networks in turns: ratios by hand, files made ready, and the whole of it where the bench environment is."""

import json
import random

import numpy as np
import pytest
from typer.testing import CliRunner

from edgeveil.devices.compare import Use, document, measure, ratio
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.cli import bench_command
from edgeveil.trainer.cli.main import app
from edgeveil.trainer.export.converters.tf2onnx import Tf2Onnx
from edgeveil.trainer.export.converters.tf_lite import TfLite
from tests.support import tiny_models
from tests.support.export_models import calibration, image_net


def test_ratios_are_taken_within_rounds_and_survive_a_machine_that_slows_down():
    slow = np.linspace(1, 10, 40)
    middle, low, high = ratio(list(2 * slow), list(slow), np.random.default_rng(0))
    assert (middle, low, high) == (2, 2, 2)
    noisy = np.random.default_rng(1).lognormal(0, 0.2, 200)
    middle, low, high = ratio(list(3 * noisy), [1.0] * 200, np.random.default_rng(0))
    assert low < 3 < high
    assert high / low < 1.2


def test_every_contender_gets_a_turn_in_every_round():
    order = []
    opened = [
        {"name": n, "artefact": "tflite-int8", "backend": "b", "version": "1", "macs": 5, "ms": []} for n in "abc"
    ]
    for one in opened:
        one["call"] = lambda n=one["name"]: order.append(n)
    measure(opened, rounds=4, seconds=1e-9, rng=random.Random(0))  # noqa: S311
    assert [len(one["ms"]) for one in opened] == [4, 4, 4]
    assert sorted(order) == sorted("abc" * 5)  # and one to warm up
    spec = {"files": [{"name": "a"}], "rounds": 4, "seconds": 1, "threads": 1}
    made = document(spec, opened, [], Use(1, 1, 0))
    assert made["verdict"] == "VALID"
    beside = document(spec, opened, [], Use(1, 0.5, 1.5))
    assert beside["verdict"] == "INVALID"
    assert [reason.partition(":")[0] for reason in beside["reasons"]] == ["busy", "busy"]
    assert [row["ratio"]["to"] for row in made["rows"]] == ["a tflite-int8 b"] * 3
    json.dumps(made, allow_nan=False)


def test_a_file_is_made_ready_from_what_it_says_of_itself(tmp_path):
    model = image_net()
    rows = calibration(model, 4)
    data = TfLite().convert(model, ["int8"], rows)["int8"]
    (tmp_path / "net.tflite").write_bytes(data)
    (tmp_path / "net.onnx").write_bytes(Tf2Onnx().convert(model, ["float32"])["float32"])
    quantised, plain = (bench_command.model_file(tmp_path / f"net.{s}") for s in ("tflite", "onnx"))
    assert (quantised["artefact"], plain["artefact"]) == ("tflite-int8", "onnx-float32")
    assert quantised["macs"] == plain["macs"] > 0
    from edgeveil.edge_runtime.backends import open_backend

    for one in (quantised, plain):
        open_backend(one["format"], (tmp_path / f"net.{one['format']}").read_bytes(), one["entry"]).bare_call(
            np.random.RandomState(0)
        )()


@pytest.mark.parametrize(("name", "match"), [("x.txt", "onnx file was expected"), ("none.onnx", "cannot be read")])
def test_what_cannot_be_put_beside_is_one_sentence(tmp_path, name, match):
    with pytest.raises(BadInput, match=match):
        bench_command.model_file(tmp_path / name)


def test_without_the_environment_the_command_says_how_to_make_it(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEVEIL_BENCH_PYTHON", str(tmp_path / "none"))
    with pytest.raises(BadInput, match="scripts/environments/bench"):
        bench_command.bench_python()


def test_either_a_board_or_other_networks(tmp_path):
    for more in ([], ["--on", "ssh://x", "--against", "other.tflite"]):
        done = CliRunner().invoke(app, ["bench", str(tmp_path / "x.veil"), *more])
        assert "Exactly one of" in str(done.exception)


@pytest.mark.pythons
def test_a_bundle_beside_a_file_on_every_interpreter(tmp_path):
    try:
        bench_command.bench_python()
    except BadInput as error:
        pytest.skip(str(error))
    made = tiny_models.write(tmp_path)
    (tmp_path / "other.onnx").write_bytes(Tf2Onnx().convert(image_net(), ["float32"])["float32"])
    command = ["bench", str(made.path), "--trust", str(made.trust), "--against", str(tmp_path / "other.onnx")]
    done = CliRunner().invoke(app, [*command, "--rounds", "3", "--json"], catch_exceptions=False)
    found = json.loads(done.stdout)
    seen = {(row["name"], row["artefact"], row["backend"]) for row in found["rows"]}
    name = made.manifest["name"]
    for backend in ("ai-edge-litert", "tflite-runtime"):
        assert (name, "tflite-int8", backend) in seen, found["refused"]
    for backend in ("onnxruntime", "openvino"):
        assert {(name, "onnx-float32", backend), ("other", "onnx-float32", backend)} <= seen, found["refused"]
    assert all(row["ratio"]["low"] <= row["ratio"]["median"] <= row["ratio"]["high"] for row in found["rows"])


@pytest.mark.parametrize(
    ("ran", "missing"), [(["mine"], "the other networks"), (["peer"], "the bundle"), ([], "the bundle")]
)
def test_a_comparison_of_nothing_is_not_done_and_an_earlier_result_is_kept(tmp_path, monkeypatch, ran, missing):
    rows = [{"name": one, "artefact": "tflite-int8", "backend": "b", "p50_ms": 1.0} for one in ran]
    refused = [{"name": "peer", "artefact": "onnx-float32", "backend": "b", "refused": "an operation"}]
    document = {"kind": "side-by-side", "rows": rows, "refused": refused, "reasons": [], "verdict": "valid"}
    monkeypatch.setattr(bench_command, "bench_python", lambda: "python")
    monkeypatch.setattr(bench_command, "verified_bundle", lambda *_: None)
    monkeypatch.setattr(bench_command, "bundle_files", lambda *_: [{"name": "mine"}])
    monkeypatch.setattr(bench_command, "model_file", lambda path: {"name": path.stem})
    monkeypatch.setattr(bench_command, "run", lambda *_, **__: document)
    (tmp_path / "result.json").write_text("earlier")
    command = ["bench", "x.veil", "--trust", "t", "--against", "peer.onnx", "--out", str(tmp_path / "result.json")]
    done = CliRunner().invoke(app, command)
    assert getattr(done.exception, "exit_code", 0) == 3
    assert f"nothing was compared: no interpreter here ran a file of {missing}" in str(done.exception)
    assert "earlier" in [path.read_text() for path in tmp_path.glob("result.*.json")]
