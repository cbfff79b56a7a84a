"""Files for a Hailo and an RK3588: compiled, sealed and opened by stand-ins; and by the real toolkit where it is."""

import io
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from edgeveil.devices.agents import gather_facts
from edgeveil.devices.profiles import load
from edgeveil.edge_runtime.api import Perturber
from edgeveil.edge_runtime.device import NoDevice, forms
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.cli.doctor import examine
from edgeveil.trainer.cli.main import app
from edgeveil.trainer.export.artefact import Artefact
from edgeveil.trainer.export.compilers import hailo, rockchip
from edgeveil.trainer.export.compilers.compiled import NotCompiled
from edgeveil.trainer.export.compilers.quantising import Quantising
from edgeveil.trainer.export.compilers.vendors import COMPILERS, check_compilers
from edgeveil.trainer.export.converters.tf2onnx import Tf2Onnx
from edgeveil.trainer.export.export import calibration_of, export
from edgeveil.trainer.sealing.keys import keygen
from edgeveil.trainer.sealing.seal import seal
from tests.support.checkout import ROOT
from tests.support.export_models import calibration
from tests.support.vendors import stand_ins

RK, HAILO, HAILO_L = "onnx-float32-rk3588", "tflite-float32-hailo8", "tflite-float32-hailo8l"
TEN = "tflite-float32-hailo10h"
REAL = Path(os.environ.get("EDGEVEIL_VENVS", ROOT / ".venvs")) / "rknn/bin/python"


@pytest.fixture(scope="module")
def made(run, tmp_path_factory):
    """An export for all three boards, its bundle, and the folder of public keys."""
    folder = tmp_path_factory.mktemp("vendors")
    boards = ["rockchip-rk3588", "raspberry-pi5-hailo8", "raspberry-pi5-hailo8l"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{stand_ins.hailo(folder / 'bin')}:{os.environ['PATH']}")
        stand_ins.rknn_python(folder / "rk")
        patch.chdir(folder)
        out = export(run.folder, boards, folder / "out", compiler_python=Path("rk/python"))
    keygen(folder / "key", development=True)
    return (
        out,
        seal(out.folder, folder / "key" / "signing.key", folder / "a.veil", allow_unaudited=True),
        folder / "key",
    )


@pytest.fixture(scope="module")
def ten(run, tmp_path_factory):
    """An export for a Hailo-10H by the Dataflow Compiler 5, its bundle, and the folder of public keys."""
    folder = tmp_path_factory.mktemp("ten")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{stand_ins.hailo(folder / 'bin', version='5.2.0')}:{os.environ['PATH']}")
        out = export(run.folder, ["raspberry-pi5-hailo10h"], folder / "out")
    keygen(folder / "key", development=True)
    sealed = seal(out.folder, folder / "key" / "signing.key", folder / "a.veil", allow_unaudited=True)
    return out, sealed, folder / "key"


@pytest.fixture
def runtimes(request, tmp_path, monkeypatch):
    """The boards' modules; HailoRT's for the chip that the test names, the Hailo-8 else."""
    monkeypatch.syspath_prepend(stand_ins.runtimes(tmp_path / "runtimes", **getattr(request, "param", {})))
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] in ("rknnlite", "hailo_platform")]:
        del sys.modules[name]
    for name in ("hailo", "rockchip"):
        sys.modules.pop(f"edgeveil.edge_runtime.backends.{name}", None)


def test_each_board_gets_its_own_file_beside_the_one_it_was_made_of(made):
    manifest = made[0].manifest
    entries = manifest["models"]["generator"]["artefacts"]
    assert {name: entries[name]["format"] for name in (RK, HAILO, HAILO_L)} == {
        RK: "rknn",
        HAILO: "hef",
        HAILO_L: "hef",
    }
    assert entries[RK]["compiled"]["by"] == "rknn-toolkit2 2.5.0"
    assert entries[HAILO]["compiled"]["from"] == "tflite-float32"
    assert entries[RK]["tolerance"]["max_abs"] >= 16 * 3 / 255  # the input goes from 0 to 16
    assert manifest["profiles"]["rockchip-rk3588"]["artefacts"][0] == RK
    assert manifest["profiles"]["raspberry-pi5-hailo8l"]["artefacts"][0] == HAILO_L
    assert set(manifest["preference"][-3:]) == {HAILO, HAILO_L, RK}
    rows = {row["artefact"]: row for row in made[0].report["profiles"]}
    assert "left to the processor: Reshape" in rows[RK]["status"]
    assert "--simulate" in rows[RK]["audited"]
    assert "--simulate" not in rows[HAILO]["audited"]


def test_the_simulator_s_golden_outputs_are_its_own(made):
    folder = made[0]
    golden = folder.manifest["golden"]["outputs"]
    own, source = (np.load(io.BytesIO(folder.members[golden[name]["frame"]])) for name in (RK, "onnx-float32"))
    assert golden[RK] != golden["onnx-float32"]
    assert np.abs(own.astype(float) - source).max() <= 1
    assert golden[HAILO] == golden["tflite-float32"]


@pytest.mark.parametrize(("device", "artefact"), [("rk3588", RK), ("hailo8", HAILO)])
def test_a_board_opens_it_tests_it_and_perturbs(made, runtimes, device, artefact):
    _, bundle, trust = made
    x = np.random.default_rng(0).integers(0, 17, (3, 8, 8, 1)).astype(np.uint8)
    found = {}
    for name, place in (("auto", device), (artefact.rpartition("-")[0], "cpu")):
        with Perturber.open(bundle, trust=trust, artefact=name, device=place) as opened:
            assert opened.artefact == (artefact if place == device else name)
            found[place] = opened.pipeline.run(x)["frame"].astype(float)
    assert np.abs(found[device] - found["cpu"]).max() <= 1
    assert np.abs(found[device] - x).max() > 1


@pytest.mark.parametrize("runtimes", [{"chip": "hailo10h", "version": "5.2.0"}], indirect=True)
def test_a_hailo_10h_is_compiled_for_by_5_and_runs_as_an_infer_model(ten, runtimes):
    out, bundle, trust = ten
    entry = out.manifest["models"]["generator"]["artefacts"][TEN]
    assert (entry["format"], entry["compiled"]["by"]) == ("hef", "Hailo Dataflow Compiler 5.2.0")
    assert out.manifest["profiles"]["raspberry-pi5-hailo10h"]["artefacts"][0] == TEN
    x, found = np.random.default_rng(0).integers(0, 17, (3, 8, 8, 1)).astype(np.uint8), {}
    for name, place in (("auto", "hailo10h"), ("tflite-float32", "cpu")):
        with Perturber.open(bundle, trust=trust, artefact=name, device=place) as opened:
            assert opened.artefact == (TEN if place != "cpu" else name)
            found[place] = opened.pipeline.run(x)["frame"].astype(float)
    assert np.abs(found["hailo10h"] - found["cpu"]).max() <= 1
    assert np.abs(found["hailo10h"] - x).max() > 1


@pytest.mark.parametrize("runtimes", [{"chip": "hailo10h", "version": "5.2.0"}], indirect=True)
def test_a_file_of_the_hailo_8_is_refused_there(made, runtimes):
    with pytest.raises(NoDevice, match=r"did not open the artefact on a hailo8 \(HAILO_NOT_IMPLEMENTED"):
        Perturber.open(made[1], trust=made[2], device="hailo8")


def test_a_hailo_10h_s_file_is_refused_by_the_hailort_of_another(ten, runtimes):
    with pytest.raises(NoDevice, match=r"did not open the artefact on a hailo10h \(HAILO_HEF_NOT_COMPATIBLE"):
        Perturber.open(ten[1], trust=ten[2], device="hailo10h")


def test_a_file_for_another_board_is_refused_in_one_sentence(made, runtimes):
    _, bundle, trust = made
    with pytest.raises(NoDevice, match=r"did not open the artefact on a hailo8l \(HAILO_HEF_NOT_COMPATIBLE"):
        Perturber.open(bundle, trust=trust, device="hailo8l")
    with pytest.raises(BadInput, match="a rknn artefact runs on its accelerator alone: choose --device rk3588"):
        Perturber.open(bundle, trust=trust, artefact=RK)
    from edgeveil.edge_runtime.backends.rockchip import RKNNToolkitLite

    entry = made[0].manifest["models"]["generator"]["artefacts"][RK]
    with pytest.raises(NoDevice, match=r"did not open the artefact on an rk3588 \(load_rknn gave -1\)"):
        RKNNToolkitLite(b"RKNNrk3576  ", entry, device="rk3588")


def test_without_its_runtime_the_board_says_what_to_install(made):
    _, bundle, trust = made
    with pytest.raises(Exception, match=r"pip install rknn-toolkit-lite2") as caught:
        Perturber.open(bundle, trust=trust, device="rk3588")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("device", "program", "why"),
    [
        (
            "hailo8",
            {"version": "5.2.0"},
            "hailo is 5.2.0; <4,>=3.27 was expected, which is for the Hailo-8 and Hailo-8L",
        ),
        ("hailo10h", {}, "hailo is 3.33.0; <6,>=5 was expected, which is for the Hailo-10H"),
        ("hailo8", {"magic": b"no"}, "hailo made a file that is no HEF"),
    ],
)
def test_a_wrong_compiler_is_a_row_with_the_reason(run, made, tmp_path, device, program, why):
    folder = made[0]
    source = folder.manifest["models"]["generator"]["artefacts"]["tflite-float32"]
    one = Artefact("tflite-float32", {"generator": folder.members[source["file"]]}, entries={"generator": source})
    fitted = run.perturber()
    ready = Quantising(fitted, calibration_of(run, fitted)[0], folder.manifest, folder.members)
    place = stand_ins.hailo(tmp_path / "bin", **program)
    found = hailo.Hailo().compile(one, device, place / "hailo", ready)
    assert found.text() == f"exported uncompiled: {why}"
    assert found.files == {} == found.entries


def test_a_wrong_python_ends_the_export_with_one_sentence_and_nothing_made(run, tmp_path):
    other = stand_ins.rknn_python(tmp_path / "a", version="1.7.5")
    asked = ["export", str(run.folder), "--for", "rockchip-rk3588", "--out", str(tmp_path / "out"), "--compiler-python"]
    for python, says in (
        (other, "rknn-toolkit2 <3,>=2.3 was expected"),
        (Path(sys.executable), "A Python with rknn-toolkit2 was expected"),
        (tmp_path / "none", "A Python with rknn-toolkit2 was expected"),
    ):
        done = CliRunner().invoke(app, [*asked, str(python)])
        assert isinstance(done.exception, BadInput)
        assert says in str(done.exception)
        assert not (tmp_path / "out").exists()
    check_compilers([load("workstation")], other)  # it is asked where a board needs it


@pytest.fixture
def own_board(tmp_path, monkeypatch):
    """A profile whose compiler is that of an installed package, and the program it calls."""
    monkeypatch.syspath_prepend(str(ROOT / "tests/support/plugins/own_compiler"))
    path = tmp_path / "own-board.toml"
    text = (ROOT / "devices/profiles/raspberry-pi5-hailo8.toml").read_text()
    path.write_text(text.replace("raspberry-pi5-hailo8", "own-board").replace('"hailo"', '"own-compiler"'))
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/own-compiler"
    program.write_text('#!/bin/sh\n{ printf "\\001HEF"; cat "$1"; } > "$2"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    yield path
    sys.modules.pop("own_compiler", None)


def test_the_compiler_of_an_installed_package_compiles_for_its_board(run, own_board, tmp_path):
    exported = export(run.folder, [str(own_board)], tmp_path / "out")
    entry = exported.manifest["models"]["generator"]["artefacts"][HAILO]
    assert entry["compiled"]["by"] == "own-compiler 1"
    assert exported.members[entry["file"]].startswith(hailo.MAGIC)
    assert exported.manifest["profiles"]["own-board"]["artefacts"][0] == HAILO
    keygen(tmp_path / "key", development=True)
    assert seal(exported.folder, tmp_path / "key/signing.key", tmp_path / "a.veil", allow_unaudited=True).exists()
    assert {"name": "own-compiler", "for": "artefacts of a Hailo-8", "there": True} in examine()["programs"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {'"own-compiler"': '"own-compilr"'},
            "expected a compiler of .*; got 'own-compilr'. Did you mean own-compiler",
        ),
        ({'"hailo8"': '"hailo8l"'}, "own-board: own-compiler compiles for hailo8; its device is hailo8l"),
    ],
)
def test_a_compiler_that_there_is_not_ends_the_export_before_it_begins(run, own_board, tmp_path, changes, says):
    for old, new in changes.items():
        own_board.write_text(own_board.read_text().replace(old, new))
    with pytest.raises(BadInput, match=says):
        export(run.folder, [str(own_board)], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_each_compiler_is_for_accelerators_that_run_compiled_files_alone():
    devices = [device for kind in COMPILERS.kinds().values() for device in kind.facts["devices"]]
    assert sorted(devices) == sorted(forms())


def test_what_the_toolkit_says_only_in_passing_is_a_failure(tmp_path, network):
    data, inputs = network
    for name, settings, why in (
        ("a", {"build": -1}, "failed (build failed (-1))"),
        ("b", {"magic": b"no"}, "made a file that is no RKNN model"),
    ):
        with pytest.raises(NotCompiled) as caught:
            rockchip.simulate(stand_ins.rknn_python(tmp_path / name, **settings), "rk3588", data, inputs, inputs)
        assert str(caught.value) == why
    # Min of two values that are both computed cannot become a Clip.
    from onnx import helper

    ends = [helper.make_tensor_value_info(name, 1, [1, 4]) for name in ("x", "z", "y")]
    graph = helper.make_graph([helper.make_node("Min", ["x", "z"], ["y"])], "min", ends[:2], ends[2:])
    two = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    rows = {name: np.zeros((2, 4), np.float32) for name in ("x", "z")}
    with pytest.raises(NotCompiled, match="has no code for Min on the rk3588"):
        rockchip.simulate(stand_ins.rknn_python(tmp_path / "c"), "rk3588", two.SerializeToString(), rows, rows)


@pytest.fixture(scope="module")
def network():
    """A generator's ONNX file, which ends in a clip to 1, and 16 inputs of it."""
    from edgeveil.models.generators import conv_generator
    from tests.support.export_models import trained_like

    model = trained_like(conv_generator((8, 8, 1), width=8, halvings=1, blocks=1))
    inputs = calibration(model, 16)
    return Tf2Onnx().convert(model, ["float32"], inputs)["float32"], inputs


@pytest.mark.vendors
@pytest.mark.skipif(not REAL.exists(), reason="no .venvs/rknn: run scripts/environments/vendors")
def test_the_real_toolkit_compiles_it_all_for_the_npu_and_simulates_it(network):
    import onnxruntime

    data, inputs = network
    found = rockchip.simulate(REAL, "rk3588", data, inputs, inputs)
    session = onnxruntime.InferenceSession(data)
    (name,), (output,) = inputs, session.get_outputs()
    exact = np.concatenate([session.run(None, {name: row[None]})[0] for row in inputs[name]])
    apart = np.abs(found.outputs[output.name] - exact)
    assert 0 < apart.max() < 0.2  # 8 bits, not a float
    assert apart.mean() < 0.02
    assert found.on_npu > 5
    assert set(found.on_cpu) <= {"Reshape"}


@pytest.mark.parametrize(("chip", "version"), [("hailo8", "4.23.0"), ("hailo10h", "5.2.0")])
def test_the_boards_own_modules_are_facts_of_the_board(tmp_path, monkeypatch, chip, version):
    monkeypatch.setattr(gather_facts, "INTERPRETERS", ("hailo_platform", "rknnlite"))
    modules = stand_ins.runtimes(tmp_path / "runtimes", chip=chip, version=version)
    there, devices, failed = gather_facts._interpreters([str(modules)])
    assert there == {"hailo-platform": version, "rknn-toolkit-lite2": "2.5.0"}
    assert devices == [chip]  # this machine is no RK3588
    assert failed == {}
