"""A newer trust file for all boards of a fleet, and a new board in the place of a broken one; on real sshds."""

import json
import shutil

import pytest

from edgeveil.devices.fleet import host_keys
from edgeveil.devices.fleet.inventory import load
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.signing.keys import public_key_line
from edgeveil.trainer.sealing.keys import keygen
from edgeveil.trainer.sealing.trust_file import TrustFolder
from tests.support import bundles
from tests.support.boards import sshd

pytestmark = pytest.mark.programs

PASSPHRASE = "correct horse"  # noqa: S105


def test_root_keys_are_rotated_on_all_boards(hall, edgeveil, tmp_path):
    assert edgeveil("flash", hall)[0] == 0
    assert edgeveil("trust")[1] == {"one": "already", "two": "already", "three": "already"}
    keygen(tmp_path / "new", passphrase=PASSPHRASE)
    folder = TrustFolder.open(tmp_path / "root")
    folder = folder.rotate([tmp_path / "new/signing.pub"], passphrase=PASSPHRASE)
    folder = folder.sign(str(tmp_path / "new/signing.key"), passphrase=PASSPHRASE)
    assert folder.pending is None, "both have signed"
    assert edgeveil("trust")[1] == {"one": "done", "two": "done", "three": "done"}
    for name in ("one", "two", "three"):
        assert TrustFolder.open(tmp_path / name / "opt/trust").file.version == 2
    # The old root key alone changes nothing any more: a version that it signs is not taken anywhere.
    assert edgeveil("flash", tmp_path / "second.veil")[0] == 0, "and bundles are taken as before"


def test_without_its_chain_a_trust_folder_is_sent_to_nobody(hall, edgeveil, tmp_path):
    (tmp_path / "root/trust-chain.json").unlink()
    code, found, out = edgeveil("trust")
    assert (code, found["one"]) == (2, "refused")
    assert "trust-chain.json" in out.out


@pytest.fixture
def successor(hall, edgeveil, tmp_path):
    """The fleet runs the bundle; then ``two`` breaks, and an empty board with another host key has its address."""
    assert edgeveil("flash", hall)[0] == 0
    text = (tmp_path / "hall.toml").read_text()
    with sshd.running(new := _folder(tmp_path / "new"), home=new / "home") as up:
        old = load(tmp_path / "hall.toml").boards[1]
        text = text.replace(old.target, up.target).replace(str(tmp_path / "two/opt"), str(new / "opt"))
        (tmp_path / "hall.toml").write_text(text.replace('identity = "two/user"', 'identity = "new/user"'))
        key = (tmp_path / "one/host.pub").read_text().split()[:2]
        known = f"[127.0.0.1]:{up.port} {' '.join(key)}\nother.example {' '.join(key)}\n"
        (tmp_path / "two/known_hosts").write_text(known)
        yield up


def _folder(path):
    (path / "opt").mkdir(parents=True)
    return path


def test_a_new_board_takes_the_place_of_a_broken_one(hall, successor, edgeveil, tmp_path):
    known = tmp_path / "two/known_hosts"
    before = known.read_text()
    code, _, out = edgeveil("status")
    assert (code, "shows another host key than before" in out.out) == (2, True)
    code, _, out = edgeveil("replace", "two", hall)
    assert (code, "--host-key" in out.err) == (2, True)
    new = ["--host-key", tmp_path / "new/host.pub"]
    code, _, out = edgeveil("replace", "two", tmp_path / "second.veil", *new)
    assert (code, "give the fleet's bundle" in out.err) == (2, True)
    code, _, out = edgeveil("replace", "two", hall, *new, "--dry-run")
    assert (code, out.out) == (0, "two: would trust, upload, install\n")
    assert not (tmp_path / "new/opt/current").exists()
    assert known.read_text() == before

    code, _, out = edgeveil("replace", "two", hall, *new)
    assert code == 0, out.err
    assert out.out.startswith("two: in its place a board runs ")
    assert known.read_text().splitlines() == [
        before.splitlines()[1],
        f"[127.0.0.1]:{successor.port} {' '.join((tmp_path / 'new/host.pub').read_text().split()[:2])}",
    ]
    assert json.loads((tmp_path / "hall.state.json").read_text())["boards"]["two"]["said"].startswith("in its place")
    assert edgeveil("status")[1] == {"one": "done", "two": "done", "three": "done"}


def test_a_flash_that_fails_leaves_the_old_host_key(hall, successor, edgeveil, tmp_path):
    known = (tmp_path / "two/known_hosts").read_text()
    shutil.rmtree(tmp_path / "new/opt")
    (tmp_path / "new/opt").write_text("")  # no folder can be made there
    code, _, _ = edgeveil("replace", "two", hall, "--host-key", tmp_path / "new/host.pub")
    assert code in (2, 4)
    assert (tmp_path / "two/known_hosts").read_text() == known


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nobody", "--host-key", "one/host.pub"], "No board of the fleet is named 'nobody'"),
        (["one", "--host-key", "hall.toml"], "A public host key was expected"),
        (["one", "--host-key", "missing.pub"], "A public host key was expected"),
        (["one", "--host-key", "one/host.pub", "--card", "image:sd.img"], "leave it out for a card"),
        (["one", "--card", "sd.img"], "--card takes image:FILE or dir:FOLDER"),
        (["one", "--host-key", "one/host.pub", "--setup", "setup.toml"], "--setup is for a card"),
    ],
)
def test_wrong_words_are_one_sentence(hall, edgeveil, tmp_path, words, said, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "setup.toml").write_text('hostname = "hall-1"\n')
    code, _, out = edgeveil("replace", words[0], hall, *words[1:])
    assert (code, said in out.err) == (2, True), out.err


def test_a_card_gets_the_fleets_settings_of_the_board(hall, edgeveil, tmp_path):
    (tmp_path / "boot").mkdir()
    (tmp_path / "boot/cmdline.txt").write_text("console=tty1 root=/dev/mmcblk0p2 rootwait\n")
    text = (tmp_path / "hall.toml").read_text().replace(f'root = "{tmp_path / "one/opt"}"\n', "")
    (tmp_path / "hall.toml").write_text(text)
    code, _, out = edgeveil("replace", "one", hall, "--card", f"dir:{tmp_path / 'boot'}")
    assert code == 0, out.err
    assert out.out.startswith("one: its card was written with ")
    assert (tmp_path / "boot/edgeveil-first-boot/bundle.veil").read_bytes() == hall.read_bytes()
    assert not (tmp_path / "hall.state.json").exists(), "what a board runs is known once it has booted"


def test_known_hosts_keep_other_names_and_hashed_lines_go_too():
    from paramiko.hostkeys import HostKeys

    hashed = HostKeys.hash_host("pi.example")
    text = f"# mine\npi.example,10.0.0.7 ssh-rsa AAAA\n{hashed} ssh-ed25519 BBBB\nother ssh-ed25519 CCCC\n"
    assert host_keys.exchanged(text, "ssh://pi@pi.example", "ssh-ed25519 DDDD").splitlines() == [
        "# mine",
        "10.0.0.7 ssh-rsa AAAA",
        "other ssh-ed25519 CCCC",
        "pi.example ssh-ed25519 DDDD",
    ]
    assert host_keys.exchanged("", "ssh://pi@h:2200", "k v") == "[h]:2200 k v\n"
    with pytest.raises(BadInput):
        host_keys.known(host_keys.Path("/"))


def test_the_old_key_signs_no_further_version(tmp_path):
    (tmp_path / "test.pub").write_text(public_key_line(bundles.trusted()))
    folder = TrustFolder.init(tmp_path / "root", [tmp_path / "test.pub"], passphrase=PASSPHRASE)
    keygen(tmp_path / "new", passphrase=PASSPHRASE)
    folder = folder.rotate([tmp_path / "new/signing.pub"], passphrase=PASSPHRASE)
    assert folder.pending is not None, "the new key has not signed yet"
    folder = folder.sign(str(tmp_path / "new/signing.key"), passphrase=PASSPHRASE)
    assert folder.require(3, passphrase=PASSPHRASE).pending is not None, "the old root key is here, and signs nothing"
