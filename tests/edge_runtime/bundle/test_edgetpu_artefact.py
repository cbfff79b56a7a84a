"""What was compiled for an accelerator: in a manifest, in audits and policies, and in what a flash decides."""

from __future__ import annotations

import copy
import ctypes
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import urllib.request
import zipfile
from types import SimpleNamespace

import cv2
import numpy as np
import pytest

from edgeveil.devices.flashing.card import flash_card
from edgeveil.devices.flashing.flash import flash
from edgeveil.devices.flashing.records import Facts, Installed, Wanted
from edgeveil.devices.flashing.service_files import CONFIG
from edgeveil.devices.flashing.wheels import read_inputs
from edgeveil.devices.zipapp import build_zipapp
from edgeveil.edge_runtime.api import Perturber
from edgeveil.edge_runtime.bundle import policy as audit_of
from edgeveil.edge_runtime.bundle.audit_schema_1 import as_schema_2
from edgeveil.edge_runtime.bundle.board_state import State, write_state
from edgeveil.edge_runtime.bundle.policy import Demand, Policy
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.errors import BadInput, BundleRefused
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.manifest.schema import PRIVACY_MEMBER, check_manifest
from edgeveil.edge_runtime.signing.keys import public_key_line, read_public_key
from edgeveil.edge_runtime.sinks.page import card_lines
from edgeveil.edge_runtime.util.filesystem import Filesystem
from edgeveil.trainer.audit import verdict
from edgeveil.trainer.audit.subject import Subject
from edgeveil.trainer.cli.main import main
from edgeveil.trainer.sealing.trust_file import TrustFolder
from tests.support import bundles, network_receivers, tiny_models
from tests.support.boards import edge_tpu
from tests.support.boards.edge_tpu import COMPILED
from tests.support.checkout import PACKAGES, ROOT

pytestmark = pytest.mark.programs

SECRET = "correct horse"  # noqa: S105 - opens nothing but keys made here


def _say(**facts):
    return lambda artefact: artefact["compiled"].update(facts)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda artefact: artefact.pop("compiled"), "missing-key"),
        (lambda artefact: artefact["compiled"].pop("by"), "missing-key"),
        (_say(more=1), "unknown-key"),
        ({"for": "npu"}, "bad-value"),
        ({"from": "tflite-float32"}, "artefact-mismatch"),
        ({"from": COMPILED}, "artefact-mismatch"),
        ({"sha256": "0" * 64}, "artefact-hash"),
        ({"by": 16}, "wrong-type"),
        (lambda artefact: artefact["tolerance"].update(max_abs=99.0), "artefact-mismatch"),
        (lambda artefact: artefact["outputs"][0].update(scale=0.5), "artefact-mismatch"),
        (lambda artefact: artefact.update(precision="float32"), "artefact-mismatch"),
    ],
)
def test_a_manifest_says_what_a_compiled_file_is_of_or_is_refused(made, change, reason):
    manifest = copy.deepcopy(made.manifest)
    check_manifest(manifest)
    artefact = manifest["models"]["generator"]["artefacts"][COMPILED]
    artefact["compiled"].update(change) if isinstance(change, dict) else change(artefact)
    with pytest.raises(BundleRefused) as caught:
        check_manifest(manifest)
    assert caught.value.reason == reason


def test_the_source_of_a_compiled_file_is_there(made):
    manifest = copy.deepcopy(made.manifest)
    del manifest["models"]["generator"]["artefacts"]["tflite-int8"]
    with pytest.raises(BundleRefused, match="the model has no such variant to compile"):
        check_manifest(manifest)


def audited(made, folder, *parts):
    """The bundle with an audit for each (artefact, device or None for a workstation, accuracy of the best attack), and
    what kind of board it was made on, where that is not this one."""

    def change(manifest, members):
        documents = []
        for artefact, device, accuracy, *place in parts:
            one = bundles.audit_document(manifest, artefact, members)
            one["worst_adaptive"].update(accuracy=accuracy, low=accuracy, high=accuracy)
            there = dict(zip(("board", "architecture"), place or audit_of.current_place(), strict=True), device=device)
            documents.append(one if device is None else {**one, "on_board": there})
        main, *others = documents
        bundles.add_audit(manifest, members, {**main, "others": others})

    example = copy.deepcopy(made.manifest), dict(made.members)
    del example[0]["members"]
    return bundles.make_bundle(folder, example=example, change=change)


def test_an_audit_speaks_of_the_device_it_was_made_on(made, library, tmp_path, capfd):
    ctypes.CDLL(str(library / edge_tpu.LIBRARY))
    here = audited(made, tmp_path / "here", ("tflite-int8", None, 0.6))
    there = audited(made, tmp_path / "there", ("tflite-int8", None, 0.6), (COMPILED, "edgetpu", 0.7))
    for one, device, expected in ((here, "cpu", True), (here, "edgetpu", False), (there, "edgetpu", True)):
        with Perturber.open(one.path, trust=one.trust, device=device) as opened:
            assert opened.info["audited"] is expected
        assert ("no audit has measured what leaks when " in capfd.readouterr().err) is not expected
    other = audited(made, tmp_path / "other", (COMPILED, "edgetpu", 0.7, "Coral Dev Board", "aarch64"))
    with Perturber.open(other.path, trust=other.trust, device="edgetpu") as opened:
        assert opened.info["audited"] is False  # by another board's Edge TPU, of another make perhaps
    elsewhere = audited(made, tmp_path / "elsewhere", ("onnx-float32", "cuda", 0.6))
    with Perturber.open(elsewhere.path, trust=elsewhere.trust, artefact="onnx-float32") as opened:
        assert opened.info["audited"] is False


def test_the_card_in_the_preview_is_of_what_runs(made, tmp_path):
    parts = [("tflite-int8", None, 0.6), (COMPILED, "edgetpu", 0.7), (COMPILED, "edgetpu", 0.65)]
    one = audited(made, tmp_path, *parts, (COMPILED, "edgetpu", 0.9, "another board", "arm"))
    with zipfile.ZipFile(one.path) as file:
        document = as_schema_2(json.loads(file.read(PRIVACY_MEMBER)))
    for runs, told in (
        ({}, "60.0 %"),
        ({"artefact": "tflite-int8", "device": "cpu"}, "60.0 %"),
        ({"artefact": COMPILED, "device": "edgetpu"}, "70.0 %"),
        ({"artefact": "tflite-float32", "device": "cuda"}, "leaks when tflite-float32 runs on cuda"),
    ):
        text = str(card_lines(parse(one.manifest), document, **runs))
        assert told in text
        assert sum(f"{number} %" in text for number in ("60.0", "65.0", "70.0", "90.0")) == (told.endswith("%"))


def test_the_page_of_a_service_shows_what_was_measured_on_its_accelerator(made, library, tmp_path):
    one = audited(made, tmp_path / "b", ("tflite-int8", None, 0.6), (COMPILED, "edgetpu", 0.7))
    (tmp_path / "in").mkdir()
    cv2.imwrite(str(tmp_path / "in" / "0.png"), np.zeros(tiny_models.SHAPE, np.uint8))
    port = network_receivers.free_port()
    words = ["run", one.path, "--trust", one.trust, "--device", "edgetpu", "--source", f"images:{tmp_path}/in"]
    words += ["--repeat", "--sink", f"preview:{port}", "--health", "off", "--as-root"]
    process = subprocess.Popen(
        [sys.executable, "-m", "edgeveil.edge_runtime", *map(str, words)],
        env={**os.environ, "PYTHONPATH": str(PACKAGES), "LD_LIBRARY_PATH": str(library)},
        stderr=subprocess.DEVNULL,
    )

    def page():
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
                return answer.read().decode()
        except OSError:
            return ""

    try:
        assert network_receivers.eventually(page, 60)
        assert "70.0 %" in page()
        assert "60.0 %" not in page()
    finally:
        process.terminate()
        process.wait(20)


def test_an_owners_limit_is_held_by_what_was_measured_on_the_device(made, library, tmp_path):
    ctypes.CDLL(str(library / edge_tpu.LIBRARY))
    both = audited(made, tmp_path / "both", ("tflite-int8", None, 0.6), (COMPILED, "edgetpu", 0.7))
    here = audited(made, tmp_path / "here", ("tflite-int8", None, 0.6))
    other = audited(
        made, tmp_path / "other", ("tflite-int8", None, 0.6), (COMPILED, "edgetpu", 0.6, "another board", "aarch64")
    )
    for one, most, device, problem in (
        (both, 0.1, "cpu", None),
        (both, 0.1, "edgetpu", "may beat chance"),
        (both, 0.2, "edgetpu", None),
        (here, 0.2, "edgetpu", "no audit in it speaks of " + COMPILED),
        (other, 0.2, "edgetpu", "no audit in it speaks of " + COMPILED),
    ):
        trust = open_trust(one.trust)
        trust.policy = Policy([Demand(one.manifest["perturber"]["sensitive"], most, True)])
        if problem is None:
            Perturber.open(one.path, trust=trust, device=device).close()
            continue
        with pytest.raises(BundleRefused, match=problem):
            Perturber.open(one.path, trust=trust, device=device)


def test_rows_of_an_audit_go_through_the_device_that_was_asked_for(made, library, tmp_path):
    root = tmp_path / "root"
    (root / "current").mkdir(parents=True)
    shutil.copytree(made.trust, root / "trust")
    write_state(Filesystem(), str(root), State())
    build_zipapp(root / "current" / "edgeveil-edge.pyz")
    x = np.random.default_rng(5).integers(0, 256, (4, *tiny_models.SHAPE)).astype(np.uint8)
    np.savez(tmp_path / "rows.npz", x=x)
    script = ROOT / "devices/agents/run_rows.py"
    words = [sys.executable, "-I", str(script), str(root), str(made.path), "auto"]
    rest = [str(tmp_path / "rows.npz"), str(tmp_path / "out.npz"), "[]"]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(library)}
    done = subprocess.run([*words, "edgetpu", *rest], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (json.loads(done.stdout)["artefact"], json.loads(done.stdout)["device"]) == (COMPILED, "edgetpu")
    out = np.load(tmp_path / "out.npz")["frame"].astype(int)
    assert np.abs(out - (255 - x.astype(int))).max() <= 1


def test_a_workstation_stands_in_with_what_a_file_was_compiled_from(made):
    assert Subject(made.manifest, made.members, COMPILED).runs_here() == "tflite-int8"
    assert Subject(made.manifest, made.members, "onnx-int8").runs_here() == "onnx-int8"


def test_a_boards_columns_are_told_apart_by_their_devices():
    place = {"board": "Coral Dev Board", "architecture": "aarch64", "system": None, "python": "3.7"}
    old, cpu, tpu = (
        {"artefact": "a", "on_board": {**place, **more}} for more in ({}, {"device": "cpu"}, {"device": "x"})
    )
    assert verdict.joined(cpu, [old]) == [cpu]
    assert verdict.joined(tpu, [old]) == [old, tpu]
    assert verdict.column_title(tpu) == "a on Coral Dev Board, its x"
    assert verdict.column_title(old) == "a on Coral Dev Board"


class Coral:
    """A Coral Dev Board's facts; it keeps what was to be carried out."""

    root = "/opt/edgeveil"
    sudo = SimpleNamespace(allowed=lambda: True, has_password=False)

    def __init__(self, edgeveil=None, **facts):
        known = {"architecture": "aarch64", "python": "3.7.3", "free_bytes": 10**10, "read_only": False, "sudo": True}
        interpreters = {
            "numpy": "1.16.2",
            "tflite-runtime": "2.5.0",
            "paho-mqtt": "1.4.0",
            "cv2": "3.2.0",
        }  # any; unchecked
        self._facts = Facts(**known, systemd=True, interpreters=interpreters, edgeveil=edgeveil, **facts)

    def facts(self, _accelerator, _needs=()):
        return self._facts

    def keep(self, plan):
        steps = {step.kind: step for step in plan.steps}
        files = steps["service"].files if "service" in steps else {}
        self.settings = json.loads(files[CONFIG]) if CONFIG in files else None
        self.tried_on = steps["install"].device


def test_a_flash_writes_the_accelerator_into_the_settings_and_says_what_nobody_measured(made, tmp_path, monkeypatch):
    monkeypatch.setattr("edgeveil.devices.flashing.flash.execute", lambda plan, board, _progress: board.keep(plan))
    here = audited(made, tmp_path / "here", ("tflite-int8", None, 0.6))
    (tmp_path / "test.pub").write_text(public_key_line(bundles.trusted()))
    folder = TrustFolder.init(tmp_path / "root", [tmp_path / "test.pub"], passphrase=SECRET).folder
    usual = Wanted("camera:0", ("mqtts://broker/hall",))
    there = {"accelerator": True, "devices": ("edgetpu",)}

    def put(coral, wanted=usual):
        said = []
        inputs = read_inputs(here.path, "coral-dev-board", folder, None)
        done = flash(inputs, coral, wanted, show=said.append)
        return done.plan.device, coral.settings and coral.settings.get("device"), coral.tried_on, "\n".join(said)

    device, settings, tried, said = put(Coral(**there))
    assert (device, settings, tried) == ("edgetpu", "edgetpu", "edgetpu")
    assert f"test {COMPILED} on edgetpu" in said
    assert f"no audit has measured what leaks when {COMPILED} runs on edgetpu" in said
    device, settings, tried, said = put(Coral(**there), dataclasses.replace(usual, device="cpu"))
    assert (device, settings, tried) == ("cpu", None, None)
    assert "no audit has measured" not in said
    device, settings, tried, said = put(Coral(accelerator=False))
    assert (device, settings) == ("cpu", None)
    assert "no Edge TPU is there: tflite-runtime runs tflite-int8 on the processor" in said
    # A board in use: what its settings say is what a trial asks, unless that is to change.
    root = read_public_key(folder / "root.pub").key
    used = Installed("00", 0, root, 1, (bundles.trusted().key,), service=True, device="edgetpu")
    assert put(Coral(used, **there), Wanted())[:3] == ("edgetpu", None, None)
    assert put(Coral(used, **there), dataclasses.replace(usual, device="cpu"))[:3] == ("cpu", None, "cpu")
    # What looks for releases was told then what it may open.
    files = {"/etc/systemd/system/edgeveil-update.service": "00"}
    updating = dataclasses.replace(used, device="cpu", service_files=files)
    with pytest.raises(BadInput, match="Repeat update in boards"):
        put(Coral(updating, **there))
    again = dataclasses.replace(usual, update_from="https://releases.example/hall")
    assert put(Coral(updating, **there), again)[0] == "edgetpu"


def test_a_card_for_an_edge_tpu_needs_what_was_compiled_for_it(made, tiny, tmp_path):
    (tmp_path / "test.pub").write_text(public_key_line(bundles.trusted()))
    folder = TrustFolder.init(tmp_path / "root", [tmp_path / "test.pub"], passphrase=SECRET).folder
    (tmp_path / "card").mkdir()
    (tmp_path / "card/cmdline.txt").write_text("root=/dev/mmcblk0p2 rootwait\n")
    wanted = Wanted("camera:0", ("mqtts://broker/hall",), device="edgetpu")

    def put(bundle):
        where = f"dir:{tmp_path}/card"
        inputs = read_inputs(bundle.path, "coral-dev-board", folder, None)
        return flash_card(inputs, where, wanted, root="/opt/edgeveil", dry_run=True)

    assert put(made).plan.device == "edgetpu"
    with pytest.raises(BadInput, match="edgetpu_compiler on PATH"):
        put(tiny)


@pytest.mark.parametrize("words", [["bench", "a.veil", "--against", "mobilenet-v1"]])
def test_a_device_is_a_boards(words, monkeypatch, capfd):
    monkeypatch.setattr(sys, "argv", ["edgeveil", *words, "--device", "cuda"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "name the board with --on" in capfd.readouterr().err
