"""A board that version 0.1 flashed, by its own code, goes over to roles and never stops having its release."""

import hashlib
import json
import os
import shutil
import time

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from edgeveil.devices.zipapp import zipapp_bytes
from edgeveil.trainer.sealing.keys import write_index
from tests.support import bundles, output
from tests.support.boards import board_service, emulated_boards, sshd, version_0_1

pytestmark = [pytest.mark.boards, pytest.mark.slow, pytest.mark.programs]

RUNTIME = hashlib.sha256(zipapp_bytes()).hexdigest()
ROOT = "/opt/edgeveil"
WORST = 3.0  # of systemd-analyze's 10
# What a board committed to and what it runs: every file, and where every link leads.
TREE = r"""cd {} && find . -name __pycache__ -prune -o -name lock -prune -o \( -type f -o -type l \) -print | sort |
while read f; do test -L "$f" && echo "$f -> $(readlink "$f")" || sha256sum "$f"; done"""


@pytest.fixture(scope="module")
def older(tmp_path_factory):
    return version_0_1.unpacked(tmp_path_factory.mktemp("older"))


@pytest.fixture(scope="module")
def board(older):
    with emulated_boards.board("userland") as up:
        yield up


@pytest.fixture
def here(tmp_path):
    """This machine as a board, by an sshd of its own."""
    if os.geteuid() != 0:
        pytest.skip("a board's steps are root's")
    (tmp_path / "sshd").mkdir()
    with sshd.running(tmp_path / "sshd") as up:
        yield emulated_boards.Emulated(up.target, up.port, up.identity, up.known_hosts)


@pytest.fixture
def virtual_board(older, tmp_path_factory):
    """From a card, so that it can boot again."""
    if "EDGEVEIL_VIRTUAL_BOARD" not in os.environ:
        pytest.skip("THE VIRTUAL BOARD WAS NOT BOOTED: it takes minutes; set EDGEVEIL_VIRTUAL_BOARD=1 for it")
    folder = tmp_path_factory.mktemp("card")
    with emulated_boards.board("vm", card=emulated_boards.new_card(folder / "card.img")) as up:
        yield up
    shutil.rmtree(folder)


@pytest.fixture
def edgeveil(monkeypatch, capfd, tmp_path):
    """Runs this version's ``edgeveil``: exit code, standard output, standard error."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return output.in_process(monkeypatch, capfd)


@pytest.fixture
def done(edgeveil):
    """The same where it must succeed: the document it prints."""

    def run(*arguments):
        code, out, said = edgeveil(*arguments, "--json")
        assert code == 0, said
        return json.loads(out)

    return run


@pytest.fixture
def owner(older, tmp_path):
    """What 0.1 made: ``root``, ``first.veil``; by this version and the same key ``second.veil`` and an index of it."""
    folder = older.owner(tmp_path)
    second = make(folder, "second")
    pem = bundles.KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "signing.key").touch(0o600)
    (folder / "signing.key").write_bytes(pem)
    shutil.copy(folder / "test.pub", folder / "signing.pub")
    write_index([second.path], folder / "signing.key", folder / "index.json", name="hall")
    return folder


def make(folder, name, key=bundles.KEY):
    def change(manifest, members):
        manifest["name"] = name
        everywhere = {"artefacts": [], "backends": []}
        manifest["profiles"] = {"raspberry-pi-cpu": everywhere, "workstation": everywhere}
        members[bundles.RUNTIME_MEMBER] = zipapp_bytes()

    return bundles.make_bundle(folder, change=change, key=key, name=f"{name}.veil")


def take_over(edgeveil, folder):
    """A copy of the owner's trust folder, with roles and with this version's runtime approved."""
    shutil.copytree(folder / "root", folder / "new")
    (folder / "word").write_text("correct horse\n")
    (folder / "edge.pyz").write_bytes(zipapp_bytes())
    for words in (("set", folder / "new", "--upgrade"), ("set", folder / "new", "--runtime", folder / "edge.pyz")):
        code, _, said = edgeveil("trust", *words, "--passphrase-file", folder / "word")
        assert code == 0, said
    return folder / "new"


def on_board(board, root, *words, code=0):
    """What the runtime that a unit would start says."""
    said = board.run(f"python3 {root}/current/edgeveil-edge.pyz {' '.join(words)}", any_code=True)
    assert said.returncode == code, said.stderr.decode()
    return said.stdout.decode() + said.stderr.decode()


@pytest.mark.nightly
def test_it_keeps_its_release_through_a_flash_the_new_trust_an_update_and_back(older, board, owner, edgeveil, done):
    where = ["--for", "raspberry-pi-cpu", "--trust", owner / "root", "--no-service"]
    first = older.edgeveil("flash", owner / "first.veil", "--to", board.target, *where, *version_0_1.login(board))
    where += board.options()
    sha, to = first["sha"], ["--on", board.target]
    assert first["steps"] == ["trust", "upload", "install"]

    def status():
        return done("status", *to, *board.options())

    def runs_still():
        """The bytes that 0.1 installed are what runs, and they perturb."""
        there = status()
        assert (there["committed"], there["current"], there["floor"]) == (sha, sha, 1)
        assert board.run(f"cat {ROOT}/releases/{sha}/bundle.veil").stdout == (owner / "first.veil").read_bytes()
        tried = on_board(board, ROOT, "try", f"{ROOT}/current/bundle.veil", "--trust", f"{ROOT}/trust", "--frames", "3")
        assert "passed: 3 frames" in tried
        return there

    assert "runtime" not in runs_still()
    # The new trust, sent to 0.1 too early, is refused and nothing changes.
    new = take_over(edgeveil, owner)
    for name in ("trust.json", "trust-chain.json"):
        board.put((new / name).read_bytes(), f"/root/{name}")
    before = board.run(TREE.format(ROOT)).stdout
    for name in ("trust.json", "trust-chain.json"):
        on_board(board, ROOT, "trust", f"/root/{name}", "--root", ROOT, code=2)
    assert board.run(TREE.format(ROOT)).stdout == before

    # The running release again: the board gets its runtime, and keeps everything else.
    assert done("flash", owner / "first.veil", *to, *where)["steps"] == ["upload", "install"]
    there = runs_still()
    assert (there["runtime"], there["previous"], there["failed"]) == (RUNTIME, None, {})
    assert done("flash", owner / "first.veil", *to, *where)["steps"] == []

    assert "taken" in on_board(board, ROOT, "trust", "/root/trust-chain.json", "--root", ROOT)
    runs_still()
    assert "has it already" in on_board(board, ROOT, "trust", "/root/trust.json", "--root", ROOT)
    board.put((owner / "root/trust.json").read_bytes(), "/root/of-0.1.json")
    on_board(board, ROOT, "trust", "/root/of-0.1.json", "--root", ROOT, code=2)
    payload = json.loads(json.loads(board.run(f"cat {ROOT}/trust/trust.json").stdout)["payload"])
    assert (payload["schema"], payload["runtimes"]) == (2, [RUNTIME])
    assert payload["revoked"] == [bundles.public_hex(bundles.STRANGER)]

    # From now on as any board: the revoked key stays revoked, a newer release comes and goes.
    gone = make(owner, "gone", bundles.STRANGER)
    assert edgeveil("flash", gone.path, *to, *where)[0] == 2
    board.put(gone.path.read_bytes(), "/root/gone.veil")
    assert "revoked" in on_board(board, ROOT, "install", "/root/gone.veil", "--root", ROOT, code=2)
    where[3] = new
    newer = done("flash", owner / "second.veil", *to, *where)
    assert (status()["current"], status()["previous"]) == (newer["sha"], sha)
    assert edgeveil("board", "rollback", *to, *board.options())[0] == 0
    record = {"flashed by": version_0_1.COMMIT, "release": sha, "trust": payload, "status at the end": runs_still()}
    emulated_boards.record("version-0.1.json", record)


@pytest.mark.nightly  # by day a plan for such a board (test_plan.py), and releases/test_runtimes.py
def test_one_that_updates_itself_goes_over_without_a_flash(older, here, owner, edgeveil, done, tmp_path):
    board, root, updates = here, str(tmp_path / "hall"), tmp_path / "updates"
    where = ["--for", "workstation", "--trust", owner / "root", "--no-service", *version_0_1.login(board, root)]
    sha = older.edgeveil("flash", owner / "first.veil", "--to", board.target, *where)["sha"]
    updates.mkdir()
    for name in ("second.veil", "index.json"):
        shutil.copy(owner / name, updates)

    def timer():
        return on_board(board, root, "update", "--root", root, "--from", f"dir:{updates}")

    def status():
        return done("status", "--on", board.target, *board.options(root=root))

    assert "now runs" in timer()  # by the runtime of 0.1
    there = status()
    assert (there["previous"], there["runtime"]) == (sha, None)
    # Its unit of 0.1 starts the release's runtime, which is ours, and that one installs itself.
    on_board(board, root, "recover", "--root", root)
    now = status()
    aged, keyed = {"age_s": now["index"]["age_s"]}, {"key": now["settings"]["key"]}  # it has made a key of its own
    assert keyed["key"].startswith("edgeveil-ed25519 ")
    changed = {"index": {**there["index"], **aged}, "settings": {**there["settings"], **keyed}}
    assert now == {**there, "runtime": RUNTIME, **changed}
    chain = take_over(edgeveil, owner) / "trust-chain.json"
    assert "taken" in on_board(board, root, "trust", str(chain), "--root", root)
    assert "runs already" in timer()
    # Back to the release of 0.1: the installed runtime runs it.
    on_board(board, root, "rollback", "--root", root)
    assert status()["current"] == sha
    tried = on_board(board, root, "try", f"{root}/current/bundle.veil", "--trust", f"{root}/trust", "--frames", "3")
    assert "passed: 3 frames" in tried


def test_its_service_goes_on_with_the_units_of_0_1_and_with_new_ones(older, virtual_board, tmp_path, edgeveil, done):
    board, wheels = virtual_board, tmp_path / "wheels"
    owner = older.owner(tmp_path, "watching")
    edgeveil("board", "wheels", "raspberry-pi-cpu", *emulated_boards.wheels(emulated_boards.LITERT), "--out", wheels)
    where = ["--for", "raspberry-pi-cpu", "--trust", owner / "root", "--wheels", wheels]
    service = ["--source", "simulate:depth?fps=5", "--sink", "npz:/var/lib/edgeveil/hall?rotate=1MB,20s"]
    board.run("systemctl is-system-running --wait || true", timeout_s=600)
    login = version_0_1.login(board)
    sha = older.edgeveil("flash", owner / "first.veil", "--to", board.target, *where, *login, *service)["sha"]
    where += board.options()
    health = board_service.healthy(board)
    assert health["bundle"] == "first"
    record = {"flashed by": version_0_1.COMMIT, "isolation by 0.1": health["isolation"], "seconds": {}}

    # The running release again: its units of 0.1 start the new runtime.
    began = time.monotonic()
    assert done("flash", owner / "first.veil", "--on", board.target, *where)["steps"] == ["upload", "install", "start"]
    record["isolation with the units of 0.1"] = board_service.healthy(board)["isolation"]
    record["seconds"]["flash of what runs to frames"] = round(time.monotonic() - began, 1)
    record["exposure of the units of 0.1"] = board_service.exposure(board)
    facts = done("status", "--on", board.target, *board.options())
    assert (facts["committed"], facts["runtime"], facts["previous"]) == (sha, RUNTIME, None)

    # The new trust, under the running service: it reads it, and does not stop.
    processes = [board_service.process(board, unit) for unit in board_service.UNITS[:2]]
    frames = board_service.healthy(board)["frames_out"]
    board.put((take_over(edgeveil, owner) / "trust-chain.json").read_bytes(), "/root/chain.json")
    assert "taken" in on_board(board, ROOT, "trust", "/root/chain.json", "--root", ROOT)
    board.run("systemctl reload edgeveil")
    time.sleep(90)  # it looks every minute as well
    board_service.healthy(board, more_than=frames)
    assert [board_service.process(board, unit) for unit in board_service.UNITS[:2]] == processes

    # New units, for the same settings.
    made = done("flash", owner / "first.veil", "--on", board.target, *where, *service)
    assert made["steps"] == ["service", "start"]
    record["isolation with new units"] = board_service.healthy(board)["isolation"]
    record["exposure of new units"] = board_service.exposure(board)
    assert max(record["exposure of new units"].values()) <= WORST
    board.restarted()
    assert board_service.healthy(board)["bundle"] == "first"
    assert board_service.units(board) == ["active"] * 3
    there = done("status", "--on", board.target, *board.options())
    assert (there["committed"], there["failed"]) == (sha, {})
    record["status at the end"] = there
    emulated_boards.record("version-0.1-service.json", record)
