"""A bundle from the workstation to an emulated arm64 board over ssh, and what it computes there beside here."""

import io
import json
import shlex

import numpy as np
import pytest
from scipy import stats

from edgeveil.devices import profiles
from edgeveil.devices.flashing.wheels import collect
from edgeveil.devices.zipapp import zipapp_bytes
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.pipeline.pipeline import load_pipeline
from edgeveil.edge_runtime.signing.keys import public_key_line
from edgeveil.trainer.audit.audit import audit
from edgeveil.trainer.audit.document import save
from edgeveil.trainer.export.export import export
from edgeveil.trainer.sealing.seal import keygen, seal
from edgeveil.trainer.sealing.trust_file import TrustFolder
from scripts import audit_rows
from tests.support import bundles, output, tiny_models
from tests.support.boards import emulated_boards, owners
from tests.support.boards.pythons import COMMANDS
from tests.support.checkout import ROOT
from tests.support.export_runs import noise_run
from tests.support.promised import local_examples
from tests.support.trial import short_audit

# By day the same on this machine: test_flash_ssh.py, test_pythons.py, tests/edge_runtime/ext/ledger.
pytestmark = [pytest.mark.boards, pytest.mark.slow, pytest.mark.programs, pytest.mark.nightly]

FRAMES = 100
ARTEFACTS = ("tflite-int8", "tflite-float32")
PLACE, REPORTS = "/srv/promised", 2000
READING = np.array([16, 0, 4, 12], np.uint8)
RUN = "run test.veil --trust trust --source npz:../in.npz --sink npz:out.npz --ledger ../ledger"


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


@pytest.fixture
def flash(edgeveil, board, owner):
    """Flashes a bundle; returns what ``edgeveil`` does."""

    def run(bundle, *more):
        where = ["--on", board.target, "--for", "raspberry-pi-cpu", "--trust", owner[0] / "root", "--no-service"]
        return edgeveil("flash", bundle.path, *where, "--json", *more)

    return run


@pytest.fixture
def status(edgeveil, board):
    """What the board answers."""

    def run():
        code, out, said = edgeveil("board", "status", "--on", board.target, "--json")
        assert code == 0, said
        return json.loads(out)

    return run


def test_flashed_and_run_beside_the_workstation(edgeveil, flash, status, board, owner, wheels, tmp_path, monkeypatch):
    first = owner[1]
    owners.few_interpreters(monkeypatch, "ai_edge_litert", "numpy")  # the others it has not, and each is a start there
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
    emulated_boards.record(
        "emulated_arm64.json", {"frames": FRAMES, "facts": facts, "beside": beside, "printed": printed}
    )


def test_flashed_again_replaced_and_rolled_back(edgeveil, flash, status, board, owner, wheels):
    _, first, second = owner
    code, out, said = flash(first, "--wheels", wheels)
    assert code == 0, said
    older = json.loads(out)["sha"]
    code, out, said = flash(first, "--wheels", wheels)
    assert (code, json.loads(out)["steps"]) == (0, []), said
    code, out, said = flash(second, "--wheels", wheels)
    assert code == 0, said
    newer = json.loads(out)
    assert newer["steps"] == ["upload", "install"]
    assert (status()["current"], status()["previous"]) == (newer["sha"], older)
    code, _, said = edgeveil("rollback", "--on", board.target)
    assert code == 0, said
    assert (status()["current"], status()["previous"]) == (older, newer["sha"])


def test_audited_on_the_board(edgeveil, board, owner, wheels, tmp_path, monkeypatch):
    """A generator with noise on digits, by the board's own int8 kernels, attacked there beside the workstation's."""
    short_audit.shorten(monkeypatch, families=short_audit.FEW)
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


@pytest.fixture(scope="module")
def promised(board):
    """The board with the runtime and no ledger yet; and the mechanisms that ran there, to be added to."""
    rows = io.BytesIO()
    np.savez(rows, x=np.tile(READING, (REPORTS, 1)))
    board.unpack({"edge.pyz": zipapp_bytes(), "in.npz": rows.getvalue()}, PLACE)
    # A userland that was never booted has no identifier; a ledger belongs to a machine.
    board.run("[ -s /etc/machine-id ] || tr -d - < /proc/sys/kernel/random/uuid > /etc/machine-id")
    return board, []


@pytest.mark.parametrize("op", local_examples.OPS)
def test_reports_there_are_those_of_this_machine_and_the_ledger_there_charged_them(promised, op, tmp_path):
    """A bundle of each mechanism: its promise is checked, charged and kept there too."""
    board, ran = promised
    manifest, members = local_examples.example(op)
    manifest["spending"]["most_micro_epsilon"] = 10**12
    made = bundles.make_bundle(tmp_path, example=(manifest, members))
    trusted = (made.trust / "test.pub").read_bytes()
    board.unpack({f"{op}/test.veil": made.path.read_bytes(), f"{op}/trust/test.pub": trusted}, PLACE)
    commands = [*[["ledger", "new", "../ledger"]] * (not ran), RUN.split(), ["ledger", "show", "../ledger", "--json"]]
    words = f"../edge.pyz {shlex.quote(json.dumps(commands))}"
    done = json.loads(board.run(f"cd {PLACE}/{op} && python3 - {words}", data=COMMANDS.encode()).stdout)
    assert [code for code, _, _ in done] == [0] * len(commands), done
    with np.load(io.BytesIO(board.run(f"cat {PLACE}/{op}/out.npz").stdout)) as out:
        sent = out["x"].reshape(REPORTS, -1)
    ran.append(op)
    parts, tables = local_examples.document(op, 1.0, 4)
    here = local_examples.pipeline(parts, tables).run(np.tile(READING, (REPORTS, 1)))["report"].reshape(REPORTS, -1)
    # The noise is the operating system's: one run in ten million fails for nothing.
    for there, mine in zip(sent.T, here.T, strict=True):
        values = np.unique(np.concatenate([there, mine]))
        if len(values) > 8:
            p = stats.ks_2samp(there, mine).pvalue
        else:
            counts = np.array([[np.sum(part == value) for value in values] for part in (there, mine)])
            p = stats.chi2_contingency(counts).pvalue if len(values) > 1 else 1.0
        assert p > 1e-7
    assert f'"lifetime_epsilon": {float(REPORTS * len(ran))}' in done[-1][1]


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
    with np.load(io.BytesIO(board.run("cat /root/perturbed.npz").stdout)) as out:
        assert out["x"].shape == (FRAMES, *tiny_models.SHAPE)
    return json.loads(said)
