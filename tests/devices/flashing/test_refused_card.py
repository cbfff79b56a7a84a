"""A card that is refused is not changed by a byte: all checks come before the first write, those of a dry run too."""

import os

import pytest

from edgeveil.devices.flashing import sd_card
from edgeveil.devices.flashing.card import flash_card, read_setup
from edgeveil.devices.flashing.records import Wanted
from edgeveil.devices.flashing.sd_card import MountedCard
from edgeveil.devices.flashing.wheels import read_inputs
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from tests.support.boards import owners

LINE = b"console=tty1 root=PARTUUID=1-02 quiet init=/usr/lib/raspberrypi-sys-mods/firstboot\n"
SETUP = """
hostname = "edgepi"
[user]
name = "ada"
ssh_keys = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGz3hv7bY0ZJb0Y0 ada@desk"]
[wifi]
ssid = "IEEE"
password = "password"
country = "AT"
"""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("owner")
    return read_inputs(owners.bundle(folder).path, "raspberry-pi-cpu", owners.trust(folder), None)


@pytest.fixture
def setup(tmp_path):
    (tmp_path / "setup.toml").write_text(SETUP)
    return read_setup(tmp_path / "setup.toml")


def boot(card):
    """A boot partition as Raspberry Pi OS of Debian 12 has it."""
    card.mkdir(parents=True, exist_ok=True)
    (card / "cmdline.txt").write_bytes(LINE)


def cloud(card):
    boot(card)
    (card / "cmdline.txt").write_bytes(b"root=PARTUUID=1-02\n")
    (card / "user-data").write_bytes(b"#cloud-config\n")


def root(card):
    for name in ("etc/ssh", "usr"):
        (card / name).mkdir(parents=True)
    (card / "etc/machine-id").write_text("0" * 32)
    (card / "etc/ssh/ssh_host_rsa_key").write_text("everybody's")


def another(kind, name, data=None, link=False):
    """A card of that kind where ``name`` is a file of ``data``, a link or a folder."""

    def made(card):
        kind(card)
        place = card / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        if link:
            place.symlink_to("/etc")
        elif data is None:
            place.mkdir()
        else:
            place.write_bytes(data)

    return made


TREE = sd_card.TREE
REFUSED = {
    "a line of two": (another(boot, "cmdline.txt", LINE * 2), "a line of plain words in cmdline.txt"),
    "two first runs": (
        another(boot, "cmdline.txt", LINE.strip() + b" systemd.unit=x.target\n"),
        "a line of plain words",
    ),
    "nothing": (lambda card: card.mkdir(), "it has neither, or has booted before"),
    "no line": (lambda card: card.mkdir(), "it has no cmdline.txt"),
    "a folder for the line": (another(cloud, "cmdline.txt"), "it has no cmdline.txt"),
    "set up by another": (another(boot, "custom.toml", b"config_version = 1\n"), "was set up before"),
    "cannot set itself up": (another(boot, "cmdline.txt", b"root=1\n"), "it has neither, or has booted before"),
    "a link for the setup": (another(boot, "custom.toml", link=True), "is a link or no folder"),
    "a folder for the setup": (another(boot, "custom.toml"), "it is a folder"),
    "a link for the network": (another(cloud, "network-config", link=True), "is a link or no folder"),
    "a link for the tree": (another(boot, TREE, link=True), "is a link or no folder"),
    "a file for the tree": (another(boot, TREE, b"x"), "is a link or no folder"),
    "a link in the tree": (another(boot, f"{TREE}/bundle.veil", link=True), "is a link or no folder"),
    "a folder in the tree": (another(boot, f"{TREE}/bundle.veil"), "it is a folder"),
    "a root file system": (root, "it has no cmdline.txt"),
}
WITHOUT_SETUP = ("no line", "a root file system")


def contents(folder):
    found = {}
    for path in sorted(folder.rglob("*")):
        what = path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(folder))] = (what, path.lstat().st_mtime_ns, path.lstat().st_ino)
    return found, folder.stat().st_mtime_ns


def both(inputs, card, setup):
    """The sentences of a flash, a dry run and another flash, none of which changes the card."""
    before, said = contents(card), set()
    for dry_run in (False, True, False):
        with pytest.raises(BadInput) as refused:
            flash_card(inputs, f"dir:{card}", WANTED, root="/opt/edgeveil", setup=setup, dry_run=dry_run)
        said.add(str(refused.value))
        assert contents(card) == before
    assert len(said) == 1
    return said.pop()


WANTED = Wanted("camera:0", ("tcp://host:1",))


@pytest.mark.parametrize("name", REFUSED)
def test_a_card_that_is_refused_stays_as_it_is(inputs, setup, tmp_path, name):
    make, words = REFUSED[name]
    make(tmp_path / "card")
    assert words in both(inputs, tmp_path / "card", None if name in WITHOUT_SETUP else setup)


@pytest.mark.parametrize("kind", [boot, cloud])
def test_a_card_without_space_stays_as_it_is(inputs, setup, tmp_path, monkeypatch, kind):
    kind(tmp_path / "card")
    monkeypatch.setattr(MountedCard, "free_bytes", lambda _: sd_card.SPARE_BYTES)
    assert "MiB free were expected" in both(inputs, tmp_path / "card", setup)


@pytest.mark.parametrize("kind", [boot, cloud])
def test_a_card_that_cannot_be_written_stays_as_it_is(inputs, setup, tmp_path, monkeypatch, kind):
    kind(tmp_path / "card")
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    assert "mounted read-only" in both(inputs, tmp_path / "card", setup)


@pytest.mark.parametrize("kind", [boot, cloud])
def test_a_dry_run_of_a_good_card_changes_nothing_and_the_flash_works(inputs, setup, tmp_path, kind):
    card = tmp_path / "card"
    kind(card)
    before, said = contents(card), []
    for dry_run in (True, False):
        flash_card(inputs, f"dir:{card}", WANTED, root="/opt/edgeveil", setup=setup, dry_run=dry_run, show=said.append)
        assert (contents(card) == before) == dry_run
    assert (card / TREE / "bundle.veil").exists()


@pytest.mark.parametrize("kind", [boot, cloud])
def test_a_flash_that_was_cut_off_can_be_repeated(inputs, setup, tmp_path, monkeypatch, kind):
    """The card is pulled when its setup is written: that is its own, so it was not set up by another."""
    card = tmp_path / "card"
    kind(card)
    real, calls = MountedCard.write, []

    def pulled(self, files, **more):
        calls.append(files)
        if len(calls) == 2:
            raise DeviceFailed("pulled")
        return real(self, files, **more)

    with monkeypatch.context() as patch:
        patch.setattr(MountedCard, "write", pulled)
        with pytest.raises(DeviceFailed, match="pulled"):
            flash_card(inputs, f"dir:{card}", WANTED, root="/opt/edgeveil", setup=setup)
    flash_card(inputs, f"dir:{card}", WANTED, root="/opt/edgeveil", setup=setup)
    assert sd_card.RUN in (card / "cmdline.txt").read_text()
