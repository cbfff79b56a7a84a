"""edgeveil.edge_runtime.releases.runtimes: what a board runs was approved by its root key, and the one before stays."""

import hashlib
import json
import shutil
import subprocess
import sys

import pytest

from edgeveil.devices.zipapp import zipapp_bytes
from edgeveil.edge_runtime import paths
from edgeveil.edge_runtime.bundle.archive import pack, read_archive
from edgeveil.edge_runtime.bundle.trust_file import Trust
from edgeveil.edge_runtime.cli.main import main
from edgeveil.edge_runtime.errors import BadInput, BundleRefused, DeviceFailed
from edgeveil.edge_runtime.releases import runtimes as module
from edgeveil.edge_runtime.releases.runtimes import Runtimes, check_running, read_update
from edgeveil.edge_runtime.signing.keys import public_key_line
from edgeveil.edge_runtime.signing.roles import Role
from edgeveil.trainer.sealing.keys import write_runtime
from edgeveil.trainer.sealing.trust_file import TrustFolder
from tests.support import bundles

SECRET = "correct horse"  # noqa: S105 - opens nothing but keys made here
ANY = Trust([bundles.trusted()])


@pytest.fixture(scope="module")
def owner(tmp_path_factory):
    """The owner's trust folder and a bundle that carries the real runtime."""
    folder = tmp_path_factory.mktemp("owner")
    (folder / "test.pub").write_text(public_key_line(bundles.trusted()))
    TrustFolder.init(folder / "root", [folder / "test.pub"], passphrase=SECRET)

    def change(manifest, members):
        manifest["security_version"] = 1
        members["runtime/edgeveil-edge.pyz"] = zipapp_bytes()

    bundles.make_bundle(folder, change=change, name="first.veil")
    return folder


def update(owner, out, version, patch=None, **changes):
    """A runtime update of that version; ``patch`` is put in the place of the zipapp's beginning."""
    if patch is not None:
        with pytest.MonkeyPatch.context() as context:
            context.setattr("edgeveil.trainer.sealing.keys.zipapp_bytes", lambda: patch)
            return update(owner, out, version, **changes)
    write_runtime(owner / "root/signing.key", out, version=version, passphrase=SECRET, **changes)
    return out


@pytest.fixture(scope="module")
def flashed(owner):
    """A board with its trust and an installed runtime, by the very commands of a first flash."""
    root = owner / "opt"
    (root / "trust").mkdir(parents=True)
    for name in ("root.pub", "trust.json"):
        shutil.copy(owner / "root" / name, root / "trust")
    (owner / "sent.pyz").write_bytes(zipapp_bytes())
    edge(owner / "sent.pyz", "install", owner / "first.veil", "--root", root, "--frames", "3")
    return root


@pytest.fixture
def board(tmp_path, flashed):
    """A copy of it."""
    return shutil.copytree(flashed, tmp_path / "opt", symlinks=True)


def edge(runtime, *arguments, code=0):
    done = subprocess.run([sys.executable, runtime, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def installed(root):
    return root / "runtime/current/edgeveil-edge.pyz"


def other_runtime(note):
    """Another zipapp that works."""
    return zipapp_bytes().replace(b"#!/usr/bin/env python3\n", note + b"\n")


def test_the_first_flash_installs_the_runtime_that_was_sent(board, owner):
    sha = hashlib.sha256(zipapp_bytes()).hexdigest()
    assert Runtimes(str(board)).current == sha
    assert json.loads(edge(installed(board), "status", "--root", board, "--json"))["runtime"] == sha
    # A unit of version 0.1 runs the installed runtime, too.
    assert (board / "current/edgeveil-edge.pyz").resolve() == installed(board).resolve()


def test_a_newer_runtime_is_installed_next_to_the_one_before_and_back_again(board, owner, tmp_path):
    before = Runtimes(str(board)).current
    newer = other_runtime(b"#!/usr/bin/env -S python3")
    file = update(owner, tmp_path / "edge.runtime", 3, newer)
    assert "installed edgeveil-edge version 3" in edge(installed(board), "runtime", file, "--root", board)
    assert "runs already" in edge(installed(board), "runtime", file, "--root", board)
    there = Runtimes(str(board))
    assert (there.current, there.previous) == (hashlib.sha256(newer).hexdigest(), before)
    older = update(owner, tmp_path / "old.runtime", 2)
    assert "has version 2, and the device has 3" in edge(installed(board), "runtime", older, "--root", board, code=2)
    edge(installed(board), "runtime", "--previous", "--root", board)
    assert (there.current, there.previous) == (before, hashlib.sha256(newer).hexdigest())
    # At a start, the one before is tried where the current one failed: it is the current one from then on.
    edge(board / "runtime/previous/edgeveil-edge.pyz", "recover", "--root", board)
    assert there.current == hashlib.sha256(newer).hexdigest()


def test_a_start_falls_back_to_no_runtime_that_the_trust_does_not_name(board, owner, tmp_path, monkeypatch):
    there = Runtimes(str(board))
    before = there.current
    file = update(owner, tmp_path / "edge.runtime", 1, other_runtime(b"#!/usr/bin/env -S python3"))
    edge(installed(board), "runtime", file, "--root", board)
    newer = there.current
    monkeypatch.setattr(paths, "zipapp", lambda: there.path(before))
    with pytest.raises(BundleRefused, match="none that this device's trust file names"):
        there.fall_back(lambda: Trust([bundles.trusted()], runtimes=frozenset([newer])))
    assert there.current == newer
    there.fall_back(lambda: Trust([bundles.trusted()], runtimes=frozenset([newer, before])))
    assert there.current == before


def test_a_runtime_that_does_not_start_is_not_installed(board, owner, tmp_path):
    before = Runtimes(str(board)).current
    file = update(owner, tmp_path / "edge.runtime", 1, b"import sys; sys.exit('no')")
    assert "does not start here" in edge(installed(board), "runtime", file, "--root", board, code=4)
    assert Runtimes(str(board)).current == before
    assert Runtimes(str(board)).previous is None


def test_a_signing_key_is_no_root_key(board, owner, tmp_path):
    other = TrustFolder.init(tmp_path / "other", [owner / "test.pub"], passphrase=SECRET)
    write_runtime(other.folder / "signing.key", tmp_path / "x.runtime", passphrase=SECRET)
    before = Runtimes(str(board)).current
    said = edge(installed(board), "runtime", tmp_path / "x.runtime", "--root", board, code=2)
    assert "which may not" in said
    assert "runtime update" in edge(installed(board), "runtime", owner / "first.veil", "--root", board, code=2)
    assert Runtimes(str(board)).current == before


def test_no_byte_of_an_update_can_be_another(owner, tmp_path):
    data = update(owner, tmp_path / "edge.runtime", 1, b"print('a small one')\n" * 9).read_bytes()
    root = Role((TrustFolder.open(owner / "root").first,))
    assert read_update(data, root).version == 1
    for place in range(0, len(data), 3):
        spoilt = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        with pytest.raises(BundleRefused):
            read_update(spoilt, root)
    (_, note), (_, zipapp) = read_archive(data)
    with pytest.raises(BundleRefused) as refused:
        read_update(pack([("runtime.json", note), ("edgeveil-edge.pyz", zipapp[::-1])]), root)
    assert refused.value.reason == "hash-mismatch"
    for members in ([("runtime.json", note)], [("edgeveil-edge.pyz", zipapp), ("runtime.json", note)]):
        with pytest.raises(BundleRefused, match="expected the members"):
            read_update(pack(members), root)


def test_where_the_trust_names_runtimes_no_other_one_is_installed_or_works(board, owner, tmp_path, monkeypatch):
    there, root = Runtimes(str(board)), Role((TrustFolder.open(owner / "root").first,))
    monkeypatch.setattr(module, "_check_starts", lambda *_: None)
    new = read_update(update(owner, tmp_path / "edge.runtime", 5, b"new").read_bytes(), root)
    named = Trust([bundles.trusted()], runtimes=frozenset([there.current]))
    with pytest.raises(BundleRefused, match="none that this device's trust file names") as refused:
        there.install(new, named)
    assert refused.value.reason == "unapproved-runtime"
    assert there.install(new, Trust([bundles.trusted()], runtimes=frozenset([new.sha256]))) is True
    with pytest.raises(BundleRefused):
        there.go_back(Trust([bundles.trusted()], runtimes=frozenset([new.sha256])))
    # The code of this test was installed by nobody.
    check_running(ANY)
    with pytest.raises(BundleRefused):
        check_running(named)
    monkeypatch.setattr(paths, "zipapp", lambda: there.path(there.previous))
    check_running(named)
    fresh = Runtimes(str(tmp_path))
    with pytest.raises(BundleRefused):
        fresh.adopt(Trust([bundles.trusted()], runtimes=frozenset(["0" * 64])))
    assert fresh.current is None


def test_install_refuses_to_run_from_a_runtime_that_is_not_named(board, owner, monkeypatch, capsys):
    named = Trust([bundles.trusted()], runtimes=frozenset(["0" * 64]))
    monkeypatch.setattr("edgeveil.edge_runtime.bundle.trust_store.open_trust", lambda *_, **__: named)
    for command in (["install", str(owner / "first.veil")], ["rollback"]):
        assert main([*command, "--root", str(board)]) == 2
        assert "edgeveil-edge runtime FILE" in capsys.readouterr().err


def test_one_of_two_is_asked_for(board, capsys):
    assert main(["runtime", "--root", str(board)]) == 2
    assert "give one of the two" in capsys.readouterr().err
    with pytest.raises(BadInput, match="no runtime before"):
        Runtimes(str(board)).go_back(ANY)


def test_a_board_of_version_0_1_goes_over_and_runs_what_it_ran(board, owner, tmp_path):
    """As 0.1 left it: the runtime in the folder of each release, one state file, an index's versions by name."""
    shutil.rmtree(board / "runtime")
    (board / "state-copy.json").unlink()
    (board / "lock").unlink()
    (board / "index-seen.json").write_text('{"hall": 7}')
    release = (board / "current").resolve()
    (release / "edgeveil-edge.pyz").unlink()
    (release / "edgeveil-edge.pyz").write_bytes(b"the runtime that the bundle brought")
    before = json.loads((board / "state.json").read_text())
    (tmp_path / "sent.pyz").write_bytes(zipapp_bytes())
    assert "installed this runtime" in edge(tmp_path / "sent.pyz", "recover", "--root", board)
    status = json.loads(edge(board / "current/edgeveil-edge.pyz", "status", "--root", board, "--json"))
    assert (status["committed"], status["current"], status["floor"]) == (before["committed"], release.name, 1)
    assert (status["index"]["name"], status["index"]["version"]) == ("hall", 7)
    assert (board / "current/edgeveil-edge.pyz").resolve() == installed(board).resolve()
    assert json.loads((board / "state-copy.json").read_text()) == dict(
        before, schema=3, has_index=True, ledger="", spent=0
    )


def test_a_runtime_that_hangs_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "START_LIMIT_S", 0.5)
    (tmp_path / "x.pyz").write_text("import time; time.sleep(60)")
    with pytest.raises(DeviceFailed, match="does not answer"):
        module._check_starts(str(tmp_path / "x.pyz"), str(tmp_path))
