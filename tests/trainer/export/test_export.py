"""A run becomes a folder that the edge accepts, whole or not at all, the same twice, with nobody's data in it."""

import errno
import hashlib
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgeveil.devices import profiles
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.manifest.schema import check_manifest
from edgeveil.edge_runtime.pipeline.pipeline import load_pipeline
from edgeveil.edge_runtime.pipeline.reconstruction import self_test
from edgeveil.trainer import datasets
from edgeveil.trainer.datasets.ranges import input_spec
from edgeveil.trainer.export.converters.tf_lite import TfLite
from edgeveil.trainer.export.export import export
from edgeveil.trainer.export.folder import ExportFolder
from edgeveil.trainer.export.kept_pieces import KeptPieces
from edgeveil.trainer.progress import Steps
from edgeveil.trainer.results import locked
from tests.support.audit_documents import document
from tests.support.checkout import PACKAGES, ROOT
from tests.support.export_models import image_net
from tests.support.export_runs import label_only_run, noise_run, numbers_of, prgan_run

EVERY = ["tflite-int8", "tflite-float16", "tflite-float32", "onnx-int8", "onnx-float16", "onnx-float32"]
BOARDS = ["coral-dev-board", "jetson-nano", "workstation"]


@pytest.fixture(scope="module")
def exported(run):
    """All formats, for three boards."""
    return export(run.folder, BOARDS, run.folder.parent / "export", all_formats=True)


def test_the_folder_is_what_the_edge_accepts(exported):
    check_manifest(exported.manifest, sealed=False)
    assert list(exported.manifest["models"]) == ["generator"]
    artefacts = exported.manifest["models"]["generator"]["artefacts"]
    assert sorted(artefacts) == sorted(EVERY)
    assert exported.manifest["preference"][:3] == ["tflite-int8", "onnx-float32", "tflite-float32"]
    for entry in artefacts.values():
        assert hashlib.sha256(exported.members[entry["file"]]).hexdigest() == entry["sha256"]
        assert entry["weight_bytes"] < len(exported.members[entry["file"]])
    assert exported.manifest["profiles"]["coral-dev-board"]["artefacts"] == ["tflite-int8"]
    on_disk = {str(path.relative_to(exported.folder)) for path in exported.folder.rglob("*") if path.is_file()}
    assert on_disk == {"manifest.json", "export.json", *exported.members}


def test_it_is_read_back_with_its_run(exported, run):
    assert exported.run.resolve() == run.folder.resolve()
    assert exported.report["run"] == "../run"
    assert exported.audit is None
    audited = json.dumps(document())
    (exported.folder / "audit.json").write_text(audited)
    try:
        assert ExportFolder.open(exported.folder).audit == json.loads(audited)
    finally:
        (exported.folder / "audit.json").unlink()


@pytest.mark.parametrize("artefact", EVERY)
def test_reference_kernels_give_the_golden_bytes_and_production_kernels_are_within_the_tolerance(exported, artefact):
    manifest, golden = exported.manifest, numbers_of(exported.folder)
    plain = load_pipeline(parse(manifest), exported.members, artefact, kernels="reference")
    assert np.array_equal(plain.run(golden["input"])["frame"], golden[f"{artefact}.frame"])
    fast = load_pipeline(parse(manifest), exported.members, artefact)
    worst = self_test(fast, parse(manifest), exported.members, artefact)
    assert worst <= manifest["models"]["generator"]["artefacts"][artefact]["tolerance"]["max_abs"]
    assert golden[f"{artefact}.frame"].dtype == np.uint8


def test_a_changed_artefact_is_not_the_one_that_was_exported(exported, tmp_path):
    shutil.copytree(exported.folder, tmp_path / "copy")
    path = tmp_path / "copy" / "artefacts" / "generator.tflite-int8.tflite"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(BadInput, match="its hash is another"):
        ExportFolder.open(tmp_path / "copy")
    path.unlink()
    with pytest.raises(BadInput, match=r"lacks artefacts/generator\.tflite-int8\.tflite"):
        ExportFolder.open(tmp_path / "copy")


def test_the_lint_says_what_it_judged(exported):
    rows = {(row["profile"], row["artefact"]): row for row in exported.report["lint"]}
    coral = rows["coral-dev-board", "tflite-int8"]
    assert coral["findings"] == 0
    assert coral["operations"]["RESIZE_NEAREST_NEIGHBOR"] == 2
    assert coral["min_runtime_version"] < "2.5"
    assert rows["jetson-nano", "onnx-float32"]["opset"] == 13


def test_every_artefact_is_near_keras(exported):
    assert {row["artefact"] for row in exported.report["parity"]} == set(EVERY)
    for row in exported.report["parity"]:
        assert row["frames"] == 90  # a fifth of the second slice, which is a quarter of the digits
        assert row["max_abs"] <= (2 if "int8" in row["artefact"] else 1)
        assert row["target_agreement"] >= 0.95


def test_costs_agree_everywhere(exported):
    for row in exported.report["costs"]:
        figures = [value for key, value in row.items() if key != "model"]
        assert len(figures) == 7
        assert all(figure == figures[0] for figure in figures)
    model = exported.manifest["models"]["generator"]
    assert {"macs": model["macs"], "parameters": model["parameters"]} == figures[0]


def test_what_could_not_run_here_is_a_row_with_its_reason(exported):
    rows = {(row["profile"], row["artefact"]): row for row in exported.report["profiles"]}
    coral = rows["coral-dev-board", "tflite-int8"]["status"]
    assert "exported, not runnable here: no Edge TPU" in coral
    assert "exported uncompiled: edgetpu_compiler not on PATH" in coral
    assert "no Maxwell GPU" in rows["jetson-nano", "onnx-float32"]["status"]
    assert "not audited here" in rows["jetson-nano", "onnx-float32"]["audited"]
    assert "runs on this CPU by onnxruntime" in rows["workstation", "onnx-float32"]["status"]
    assert "no board here asks for it" in rows["-", "onnx-int8"]["status"]
    assert len(rows) == 5 + 3
    assert all(row["status"] in exported.text() for row in rows.values())


@pytest.mark.nightly  # by day of each converter: converters/test_keras_litert.py, test_tf2onnx.py
def test_the_same_run_gives_the_same_bytes(exported, run, tmp_path):
    again = export(run.folder, BOARDS, tmp_path / "again", all_formats=True)
    assert again.members == exported.members
    assert {**again.manifest, "created": ""} == {**exported.manifest, "created": ""}


def test_no_class_name_of_z_and_no_path_is_in_it(exported, run):
    text = json.dumps(exported.manifest)
    for name in run.dataset().z_names:
        assert name not in text
    assert run.recipe.data.sensitive in text
    inside = text.encode() + b"".join(exported.members.values())
    here = str(run.folder), str(exported.folder), str(ROOT), str(Path.home()), tempfile.gettempdir()
    for secret in (*here, "site-packages", "trainer/export"):
        assert secret.encode() not in inside


def test_no_golden_input_is_a_reading(exported, run):
    real = {reading.tobytes() for reading in run.dataset().x}
    assert not real & {reading.tobytes() for reading in numbers_of(exported.folder)["input"]}


@pytest.mark.nightly  # by day cli/test_card_command.py
def test_label_only_ships_through_the_same_door(tmp_path):
    run = label_only_run(tmp_path / "run")
    folder = export(run.folder, ["coral-dev-board", "jetson-nano"], tmp_path / "out")
    assert folder.manifest["preference"] == ["tflite-int8", "onnx-float32"]
    assert list(folder.manifest["tables"]) == ["means"]
    golden = numbers_of(tmp_path / "out")
    means = np.load(tmp_path / "out" / "tables" / "means.npy")
    for artefact in folder.manifest["preference"]:
        drawn = np.rint(means[golden[f"{artefact}.label"]] * 16).astype(np.uint8)
        assert np.array_equal(golden[f"{artefact}.frame"], drawn)
        assert folder.manifest["models"]["classifier"]["artefacts"][artefact]["tolerance"] == {"max_abs": 0.0}
        self_test(
            load_pipeline(parse(folder.manifest), folder.members, artefact),
            parse(folder.manifest),
            folder.members,
            artefact,
        )
    assert all(row["label_agreement"] > 0.95 for row in folder.report["parity"])


def test_a_noise_input_is_exported_with_recorded_draws(tmp_path):
    run = noise_run(tmp_path / "run")
    folder = export(run.folder, ["raspberry-pi-cpu", "jetson-nano"], tmp_path / "out")
    golden = numbers_of(tmp_path / "out")
    assert golden["draws.noise"].shape == (len(golden["input"]), 4)
    for artefact in folder.manifest["preference"]:
        pipeline = load_pipeline(parse(folder.manifest), folder.members, artefact, kernels="reference")
        out = pipeline.run(golden["input"], {"noise": golden["draws.noise"]})["frame"]
        assert np.array_equal(out, golden[f"{artefact}.frame"])
        other = pipeline.run(golden["input"], {"noise": 1 - golden["draws.noise"]})["frame"]
        assert not np.array_equal(out, other)
    scales = [t["scale"] for t in folder.manifest["models"]["generator"]["artefacts"]["tflite-int8"]["inputs"]]
    assert scales == [pytest.approx(1 / 255)] * 2


def test_a_lint_failure_refuses_the_export_and_writes_nothing(tmp_path):
    import keras

    run = prgan_run(tmp_path / "run", network=image_net(keras.layers.LeakyReLU()))
    says = r"(?s)for coral-dev-board.*allowed-op.*LEAKY_RELU.*tensor.*Cure: use ReLU.*Nothing"
    with pytest.raises(BadInput, match=says):
        export(run.folder, ["jetson-nano", "coral-dev-board"], tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]
    # The board that can run it still gets it.
    assert export(run.folder, ["jetson-nano"], tmp_path / "out").manifest["preference"][0] == "onnx-float32"


def test_what_no_converter_can_do_is_one_sentence(tmp_path):
    import keras
    import tensorflow as tf

    class Odd(keras.layers.Layer):
        def call(self, x):
            return x + tf.cast(tf.strings.length(tf.strings.as_string(x)), tf.float32)

    run = prgan_run(tmp_path / "run", network=image_net(keras.layers.ReLU()))
    fitted = run.perturber()
    fitted.models["generator"] = image_net(Odd())
    run.perturber = lambda: fitted
    from edgeveil.trainer.export import export as make

    samples = make.runners.calibration(fitted, run.validation().x, np.random.default_rng(0))
    by, kept = {"tflite": TfLite()}, KeptPieces(tmp_path / "kept", {})
    with pytest.raises(BadInput, match=r"'generator' cannot be converted to tflite by tf\.lite"):
        make._convert(fitted, [make.Artefact("tflite-int8")], by, samples, kept, Steps(1), lambda: None)


def test_a_board_whose_maker_has_stopped_is_named_with_what_to_take_instead(run, tmp_path, capsys):
    stopped = {name for name in profiles.names() if profiles.load(name).stopped}
    assert stopped == {"coral-dev-board", "coral-usb", "raspberry-pi3-ncs2"}
    for name in stopped:
        instead = [other for other in profiles.names() if other in profiles.load(name).stopped]
        assert instead
        assert not {*instead} & stopped
        assert f"  stopped: {profiles.load(name).stopped}\n" in profiles.load(name).text()
    export(run.folder, ["coral-dev-board"], tmp_path / "out")
    lines = capsys.readouterr().err.splitlines()
    assert f"coral-dev-board: {profiles.load('coral-dev-board').stopped}." in lines


def test_a_folder_that_is_not_an_export_is_left_alone(run, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.txt").write_text("precious")
    with pytest.raises(BadInput, match="exists and is not an export folder"):
        export(run.folder, ["workstation"], tmp_path / "thesis")
    assert (tmp_path / "thesis" / "chapter1.txt").read_text() == "precious"
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="is not a folder"):
        export(run.folder, ["workstation"], tmp_path / "file")


def test_an_audited_export_is_refused_and_with_replace_kept_under_a_dated_name(run, tmp_path, monkeypatch, capfd):
    out = tmp_path / "out"
    monkeypatch.setattr(datasets, "input_spec", lambda *of, **how: replace(input_spec(*of, **how), extremes=True))
    export(run.folder, ["coral-dev-board"], out)
    asked = "Set `data.low` and `data.high` to what the sensor can give"
    assert f"are extremes of training rows, and they ship with the bundle. {asked}" in capfd.readouterr().err
    monkeypatch.undo()
    audited = json.dumps(document())
    (out / "audit.json").write_text(audited)
    with pytest.raises(BadInput, match="--replace"):
        export(run.folder, ["jetson-nano"], out)
    assert (out / "audit.json").exists()
    assert export(run.folder, ["jetson-nano"], out, replace=True).audit is None
    assert "extremes" not in capfd.readouterr().err
    assert sorted(path.name for path in (out / "artefacts").iterdir()) == ["generator.onnx-float32.onnx"]
    new, old = sorted(tmp_path.iterdir())
    assert (new.name, bool(re.fullmatch(r"out\.\d{8}T\d{6}Z", old.name))) == ("out", True)
    assert ExportFolder.open(old).audit == json.loads(audited)


def test_a_folder_that_is_being_written_is_left_alone(run, tmp_path):
    with locked(tmp_path / "out", "export"), pytest.raises(BadInput, match=f"edgeveil export .process {os.getpid()}"):
        export(run.folder, ["workstation"], tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_the_bundle_says_which_sensor_it_is_for(exported):
    assert exported.manifest["input"]["sensor"] == "camera"


def test_a_full_disk_leaves_nothing_behind(run, tmp_path, monkeypatch):
    real, written = os.replace, []

    def full(source, target):
        written.append(target)
        if len(written) > 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), source)
        return real(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(Exception, match="no space left on device") as caught:
        export(run.folder, ["jetson-nano"], tmp_path / "out")
    assert caught.value.exit_code in (2, 4)
    assert list(tmp_path.iterdir()) == []


def test_boards_must_be_known_and_named(run, tmp_path):
    with pytest.raises(BadInput, match=r"there is no profile 'coral'.*coral-dev-board"):
        export(run.folder, ["coral"], tmp_path / "out")
    with pytest.raises(BadInput, match="A board to export for was expected"):
        export(run.folder, [], tmp_path / "out")
    with pytest.raises(BadInput, match="A run was expected"):
        export(tmp_path, ["workstation"], tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_nothing_reaches_stdout(run, tmp_path, capfd):
    export(run.folder, ["coral-dev-board"], tmp_path / "out")
    assert capfd.readouterr().out == ""


# Runs under another Python, which has no TensorFlow: the golden vectors of some artefacts, on both kinds of kernels.
ON_ANOTHER_PYTHON = """
import io, json, sys
import numpy as np
from edgeveil.edge_runtime.pipeline.pipeline import load_pipeline
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.manifest.schema import referenced_files
folder, artefacts, kinds = sys.argv[1], sys.argv[2].split(","), sys.argv[3].split(",")
manifest = json.load(open(folder + "/manifest.json"))
members = {name: open(folder + "/" + name, "rb").read() for name in referenced_files(manifest)}
x = np.load(folder + "/golden/input.npy")
found = {}
for artefact in artefacts:
    wanted = np.load(folder + "/golden/" + artefact + ".frame.npy").astype(float)
    off = found[artefact] = {}
    for kernels in kinds:
        pipeline = load_pipeline(parse(manifest), members, artefact, kernels=kernels)
        off[kernels] = float(abs(pipeline.run(x)["frame"] - wanted).max())
        off["backend"] = list(pipeline.runners.values())[0].info()["backend"]
print(json.dumps(found))
"""


@pytest.mark.pythons
@pytest.mark.parametrize(
    ("environment", "backend", "artefacts"),
    [
        ("py37", "tflite-runtime", ["tflite-int8", "tflite-float32"]),
        pytest.param("py39-tflite", "tflite-runtime", ["tflite-int8", "tflite-float32"], marks=pytest.mark.nightly),
        pytest.param(
            *("py311-tflite", "tflite-runtime", ["tflite-int8", "tflite-float32", "tflite-float16"]),
            marks=pytest.mark.nightly,
        ),
        ("py36", "onnxruntime", ["onnx-float32", "onnx-int8", "onnx-float16"]),
        pytest.param("py39-openvino", "openvino", ["onnx-float32"], marks=pytest.mark.nightly),
    ],
)
def test_other_interpreters_give_the_golden_vectors(exported, environment, backend, artefacts):
    """int8 under reference kernels: the same bytes on LiteRT and tflite-runtime; production within the tolerance."""
    module = runpy.run_path(str(ROOT / "scripts/environments/pythons.py"))
    python = module["environment"](environment)
    if python is None:
        pytest.skip(f"NO PYTHON FOR {environment} HERE: its interpreter was not tried on the artefacts")
    kernels = "production" if backend == "openvino" else "reference,production"
    done = subprocess.run(
        [str(python), "-c", ON_ANOTHER_PYTHON, str(exported.folder), ",".join(artefacts), kernels],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PACKAGES)},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert list(found) == artefacts
    for artefact, off in found.items():
        assert off["backend"] == backend
        if backend == "tflite-runtime":
            assert off["reference"] == 0, (artefact, off)
        tolerance = exported.manifest["models"]["generator"]["artefacts"][artefact]["tolerance"]["max_abs"]
        assert off["production"] <= tolerance, (artefact, off)
    assert sys.version_info[:2] == (3, 11)
