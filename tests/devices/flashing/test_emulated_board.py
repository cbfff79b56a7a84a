"""A bundle from the workstation to an emulated arm64 board over ssh, and what it computes there beside here."""

import json

import numpy as np
import pytest

from edgeveil.devices import profiles
from edgeveil.devices.flashing.wheels import collect
from edgeveil.devices.zipapp import zipapp_bytes
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.pipeline.pipeline import load_pipeline
from edgeveil.edge_runtime.signing.keys import public_key_line
from edgeveil.trainer.attacks.families.fixed import Fixed
from edgeveil.trainer.attacks.families.logistic import Logistic
from edgeveil.trainer.audit.audit import audit
from edgeveil.trainer.audit.document import save
from edgeveil.trainer.export.export import export
from edgeveil.trainer.sealing.seal import keygen, seal
from edgeveil.trainer.sealing.trust_file import TrustFolder
from scripts import audit_rows
from tests.support import bundles, output, tiny_models
from tests.support.boards import emulated_boards
from tests.support.checkout import ROOT
from tests.support.export_runs import noise_run
from tests.support.promised import local_examples
from tests.support.trial import short_audit

pytestmark = [pytest.mark.boards, pytest.mark.slow, pytest.mark.programs]

FRAMES = 100
ARTEFACTS = ("tflite-int8", "tflite-float32")


@pytest.fixture(scope="module")
def board():
    with emulated_boards.board("userland") as up:
        yield up


@pytest.fixture(scope="module")
def owner(tmp_path_factory):
    """A trust folder and two releases of one security version; ``keys`` in it may sign further ones."""
    folder = tmp_path_factory.mktemp("owner")
    (folder / "test.pub").write_text(public_key_line(bundles.trusted()))
    keygen(folder / "keys")
    may_sign = [folder / "test.pub", folder / "keys/signing.pub"]
    TrustFolder.init(folder / "root", may_sign, passphrase="correct horse")  # noqa: S106
    manifest, members = tiny_models.example()
    manifest["profiles"]["raspberry-pi-cpu"] = {"artefacts": list(ARTEFACTS), "backends": ["tflite"]}
    members[bundles.RUNTIME_MEMBER] = zipapp_bytes()
    made = []
    for name in ("first", "second"):
        manifest["name"] = name
        made.append(bundles.make_bundle(folder, example=(manifest, members), name=f"{name}.veil"))
    return folder, *made


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """The interpreter that a new board lacks."""
    out = tmp_path_factory.mktemp("wheels") / "wheels"
    collect(profiles.load("raspberry-pi-cpu"), out, [emulated_boards.LITERT])
    return out


@pytest.fixture
def edgeveil(board, tmp_path, capfd, monkeypatch):
    """Runs ``edgeveil`` and returns (exit code, stdout, stderr)."""
    monkeypatch.setenv("HOME", str(tmp_path))
    run = output.in_process(monkeypatch, capfd)
    return lambda *words: run(*words, *board.options())


def test_flashed_run_beside_the_workstation_flashed_again_replaced_and_rolled_back(
    edgeveil, board, owner, wheels, tmp_path
):
    folder, first, second = owner

    def flash(bundle, *more):
        common = ["--on", board.target, "--for", "raspberry-pi-cpu", "--trust", folder / "root", "--no-service"]
        return edgeveil("flash", bundle.path, *common, "--json", *more)

    def status():
        code, out, said = edgeveil("board", "status", "--on", board.target, "--json")
        assert code == 0, said
        return json.loads(out)

    code, out, said = edgeveil("board", "probe", "--on", board.target, "--json")
    facts = json.loads(out)
    assert (code, facts["architecture"], facts["interpreters"].get("ai-edge-litert")) == (0, "aarch64", None), said
    assert board.run("printenv QEMU_CPU").stdout == b"cortex-a53\n"

    code, _, said = flash(first)
    assert code == 2, "a board without an interpreter was flashed"
    code, out, said = flash(first, "--wheels", wheels)
    assert code == 0, said
    steps = json.loads(out)
    assert steps["steps"] == ["trust", "wheels", "upload", "install"]
    assert steps["artefact"] == "tflite-int8"
    assert status()["current"] == steps["sha"]

    beside = _same_outputs(board, first, tmp_path)
    printed = _a_hundred_frames(board, first)

    code, out, said = flash(first, "--wheels", wheels)
    assert (code, json.loads(out)["steps"]) == (0, []), said
    code, out, said = flash(second, "--wheels", wheels)
    assert code == 0, said
    newer = json.loads(out)
    assert newer["steps"] == ["upload", "install"]
    assert (status()["current"], status()["previous"]) == (newer["sha"], steps["sha"])
    code, _, said = edgeveil("board", "rollback", "--on", board.target)
    assert code == 0, said
    assert (status()["current"], status()["previous"]) == (steps["sha"], newer["sha"])
    emulated_boards.record(
        "emulated_arm64.json", {"frames": FRAMES, "facts": facts, "beside": beside, "printed": printed}
    )


@pytest.mark.nightly
def test_audited_on_the_board(edgeveil, board, owner, wheels, tmp_path, monkeypatch):
    """A generator with noise on digits, by the board's own int8 kernels, attacked there beside the workstation's."""
    monkeypatch.setattr("edgeveil.trainer.attacks.run_all.adversaries", lambda: (Fixed(), Logistic()))
    short_audit.shorten(monkeypatch)
    folder, run, export_folder = owner[0], tmp_path / "run", tmp_path / "export"
    noise_run(run)
    export(run, ["raspberry-pi-cpu"], export_folder)
    bundle = seal(export_folder, folder / "keys/signing.key", tmp_path / "noise.veil", allow_unaudited=True)
    save(audit(export_folder, artefact="tflite-int8"), export_folder)
    where = ["--for", "raspberry-pi-cpu", "--trust", folder / "root", "--wheels", wheels, "--no-service"]
    code, _, said = edgeveil("flash", bundle, "--on", board.target, *where)
    assert code == 0, said
    more = ["--into", export_folder, "--trust", folder / "keys", "--json"]
    code, out, said = edgeveil("audit", "board", bundle, "--on", board.target, *more)
    assert code == 0, said
    assert "raw samples of the test slice" in said
    document = json.loads(out)
    there = document["on_board"]
    assert (there["architecture"], document["artefact"]) == ("aarch64", "tflite-int8")
    assert there["rows"] == document["data"]["rows"]["test"]
    frame, y = there["compared"]
    assert (frame["what"], y["what"]) == ("frame", "y read from it")
    # Other kernels round otherwise here and there; a wrong one would change most frames, and what is read from them.
    assert frame["share"] < 0.5
    assert y["share"] < 0.02
    found = board.run("ls -d /dev/shm/edgeveil-audit* /root/.cache/edgeveil-audit* 2>/dev/null; true").stdout
    assert found == b"", "the board kept what was sent for the audit"
    assert [("on_board" in other) for other in json.loads((export_folder / "audit.json").read_text())["others"]] == [
        True
    ]
    keys = ("artefact", "speaks_of", "backends", "on_board", "target", "worst_adaptive", "chance")
    keys += ("budget", "seed", "versions", "machine")
    fields = {**document, **audit_rows.fields(document)}
    emulated_boards.record("emulated_arm64_audit.json", {key: fields[key] for key in keys})


@pytest.mark.nightly
def test_a_promise_is_kept_on_arm64(edgeveil, board, owner, wheels, tmp_path):
    """Integers are checked there, golden reports are those of here, and what is released is as likely; of every op."""
    folder, first, _ = owner
    common = ["--on", board.target, "--for", "raspberry-pi-cpu", "--trust", folder / "root", "--no-service"]
    code, _, said = edgeveil("flash", first.path, *common, "--wheels", wheels)
    assert code == 0, said
    for op in local_examples.OPS:
        made = bundles.make_bundle(tmp_path, example=local_examples.example(op), name=f"{op}.veil")
        board.put(made.path.read_bytes(), f"/root/{op}.veil")
    board.put(REPORTS.encode(), "/root/reports.py")
    place = "/opt/edgeveil"
    said = board.run(
        f"cd /root && timeout 300 python3 reports.py {place}/current/edgeveil-edge.pyz {place}/site {place}/trust "
        f"{' '.join(local_examples.OPS)}"
    ).stdout
    assert said == b"aarch64\n"
    (tmp_path / "reports.npz").write_bytes(board.run("cat /root/reports.npz").stdout)
    there = np.load(tmp_path / "reports.npz")
    for op in local_examples.OPS:
        parts, tables = local_examples.document(op, 1.0, 4)
        x = np.tile(np.array([16, 0, 4, 12], np.uint8), (2000, 1))
        here, sent = local_examples.pipeline(parts, tables).run(x)["report"].astype(float), there[op].astype(float)
        z = (sent.mean(axis=0) - here.mean(axis=0)) / np.sqrt((sent.var(axis=0) + here.var(axis=0)) / 2000 + 1e-30)
        assert np.abs(z).max() < 6, op


REPORTS = """
import platform, sys
sys.path[:0] = sys.argv[1:3]
import numpy as np
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.pipeline.perturber import Perturber
found, x = {}, np.array([16, 0, 4, 12], np.uint8)
for op in sys.argv[4:]:
    with Perturber.open(op + ".veil", trust=sys.argv[3]) as perturber:
        sent = perturber.perturb_batch([RawFrame(x, i) for i in range(2000)])
    found[op] = np.stack([one.outputs["report"] for one in sent])
np.savez("reports.npz", **found)
print(platform.machine())
"""


def _same_outputs(board, bundle, folder):
    """``FRAMES`` frames with the same noise: bit for bit by reference kernels, else within the bundle's tolerance."""
    rng = np.random.default_rng(1)
    x = rng.integers(0, 256, (FRAMES, *tiny_models.SHAPE)).astype(np.uint8)
    noise = rng.random((FRAMES, 4), np.float32)
    np.savez(folder / "rows.npz", x=x, noise=noise)
    for name, data in (
        ("rows.npz", (folder / "rows.npz").read_bytes()),
        ("probe.py", (ROOT / "tests/support/boards/arm_probe.py").read_bytes()),
        ("tiny.veil", bundle.path.read_bytes()),
    ):
        board.put(data, f"/root/{name}")
    place = "/opt/edgeveil"
    arguments = f"{place}/current/edgeveil-edge.pyz {place}/site {place}/trust tiny.veil rows.npz out.npz"
    said = board.run(f"cd /root && timeout 100 python3 probe.py {arguments} {' '.join(ARTEFACTS)}").stdout
    assert said.startswith(b"aarch64")
    (folder / "out.npz").write_bytes(board.run("cat /root/out.npz").stdout)
    there = np.load(folder / "out.npz")
    most = {}
    for artefact in ARTEFACTS:
        tolerance = bundle.manifest["models"]["generator"]["artefacts"][artefact]["tolerance"]["max_abs"]
        for kernels in ("reference", "production"):
            pipeline = load_pipeline(parse(bundle.manifest), bundle.members, artefact, kernels=kernels)
            here = np.stack(
                [pipeline.run(x[n : n + 1], {"noise": noise[n : n + 1]})["frame"][0] for n in range(FRAMES)]
            )
            found = there[f"{artefact}.{kernels}"]
            assert found.shape == here.shape
            assert len(np.unique(here)) > 10, "a flat picture would agree with anything"
            apart = np.abs(found.astype(float) - here).max()
            most[f"{artefact}, {kernels} kernels"] = {"apart": float(apart), "tolerance": tolerance}
            if kernels == "reference" and artefact == "tflite-int8":
                np.testing.assert_array_equal(found, here)
            assert apart <= tolerance
    return {"versions": said.decode().strip(), "most": most}


def _a_hundred_frames(board, bundle):
    """The same frames through the installed command, with noise of its own."""
    command = "timeout 100 python3 /opt/edgeveil/current/edgeveil-edge.pyz run tiny.veil --trust /opt/edgeveil/trust"
    said = board.run(f"cd /root && {command} --source npz:rows.npz --sink npz:perturbed.npz --json").stdout
    count = "import numpy; print(numpy.load('/root/perturbed.npz')['x'].shape)"
    shape = board.run(f'python3 -c "{count}"').stdout.decode().strip()
    assert shape == str((FRAMES, *tiny_models.SHAPE))
    return json.loads(said)
