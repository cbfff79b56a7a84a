"""Cards: real ext4 and FAT file systems in files, written and read back by the tools; and the board's first boot."""

import errno
import hashlib
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from edgeveil.devices.flashing import first_boot, sd_card
from edgeveil.devices.flashing.card import flash_card
from edgeveil.devices.flashing.checks import Refused
from edgeveil.devices.flashing.inputs import read_inputs
from edgeveil.devices.flashing.mounted_card import MountedCard
from edgeveil.devices.flashing.records import Wanted
from edgeveil.devices.zipapp import zipapp_bytes
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.releases.store import Releases
from edgeveil.edge_runtime.signing.keys import public_key_line
from edgeveil.trainer.cli.main import app
from edgeveil.trainer.sealing.trust_file import TrustFolder
from tests.support import bundles, programs

pytestmark = pytest.mark.programs

SECRET = "correct horse"  # noqa: S105 - opens nothing but keys made here
MIB = 2**20
START = 2048 * 512


@pytest.fixture(scope="module")
def owner(tmp_path_factory):
    """A trust folder and a bundle with the real runtime in it."""
    folder = tmp_path_factory.mktemp("owner")
    (folder / "test.pub").write_text(public_key_line(bundles.trusted()))
    TrustFolder.init(folder / "root", [folder / "test.pub"], passphrase=SECRET)
    runtime = zipapp_bytes()

    def change(_manifest, members):
        members["runtime/edgeveil-edge.pyz"] = runtime

    return folder, bundles.make_bundle(folder, change=change, name="one.veil").path


def tool(name, *arguments, data=None):
    subprocess.run(
        [programs.need(name, "debugfs"), *map(str, arguments)], input=data, check=True, capture_output=True, timeout=60
    )


@pytest.fixture
def root_tree(tmp_path):
    """What of a root file system matters here."""
    tree = tmp_path / "tree"
    for name, text in {
        "etc/machine-id": "0" * 32,
        "etc/ssh/ssh_host_rsa_key": "everybody's",
        "etc/ssh/ssh_host_rsa_key.pub": "everybody's",
        "etc/ssh/sshd_config": "keep",
        "usr/keep": "",
        "var/lib/systemd/random-seed": "x" * 512,
    }.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    return tree


@pytest.fixture
def image(tmp_path, root_tree):
    """A card with a table, one ext4 partition in it."""
    card = tmp_path / "card.img"
    with card.open("wb") as file:
        file.truncate(24 * MIB)
        file.seek(446)
        file.write(struct.pack("<B3xB3xII", 0, 0x83, 2048, 20 * MIB // 512) + bytes(48) + b"\x55\xaa")
    tool("mke2fs", "-q", "-t", "ext4", "-d", root_tree, "-E", f"offset={START}", card, "20M")
    return card


@pytest.fixture
def boot_image(tmp_path):
    """A boot partition alone."""
    card = tmp_path / "boot.img"
    with card.open("wb") as file:
        file.truncate(16 * MIB)
    tool("mformat", "-i", card, "-T", str(16 * MIB // 512), "-h", "16", "-s", "32", "::")
    tool("mcopy", "-i", card, "-", "::cmdline.txt", data=b"console=tty1 root=/dev/mmcblk0p2 rootwait\n")
    return card


def write(owner, target, *, said=None, **more):
    wanted = more.pop("wanted", Wanted("camera:0", ("none",)))
    return flash_card(
        read_inputs(owner[1], "raspberry-pi-cpu", more.pop("trust", owner[0] / "root"), None),
        target,
        wanted,
        root=more.pop("root", "/opt/edgeveil"),
        show=(said if said is not None else []).append,
        **more,
    )


def test_a_root_file_system_in_an_image(owner, image):
    said = []
    write(owner, f"image:{image}", said=said)
    card = sd_card.open_media(f"image:{image}")
    tree = json.loads(card.read("/opt/edgeveil-first-boot/files.json"))
    assert {"bundle.veil", "edgeveil-edge.pyz", "trust/root.pub", "trust/trust.json", "system/edge.json"} < set(tree)
    assert card.read("/opt/edgeveil-first-boot/bundle.veil") == owner[1].read_bytes()
    assert card.read("/etc/machine-id") == b""
    assert card.names("/etc/ssh") == [".", "..", "sshd_config"]
    assert card.read("/var/lib/systemd/random-seed") is None
    assert "ssh_host_rsa_key" in said[-1]
    assert not any("signing.key" in name for name in tree)
    assert first_boot.UNIT in card.names("/etc/systemd/system/multi-user.target.wants")
    card.check()
    # The same again: nothing is there twice, and it is as whole as before.
    write(owner, f"image:{image}")
    card.check()


def test_a_boot_partition_in_an_image(owner, boot_image):
    write(owner, f"image:{boot_image}")
    card = sd_card.open_media(f"image:{boot_image}")
    assert card.read(f"/{first_boot.TREE}/bundle.veil") == owner[1].read_bytes()
    line = card.read("/cmdline.txt").decode()
    assert line.startswith("console=tty1 root=/dev/mmcblk0p2 rootwait systemd.run=/boot/firmware/")
    assert line.count("\n") == 1
    write(owner, f"image:{boot_image}")
    assert card.read("/cmdline.txt").decode() == line


def test_a_blank_file_system_is_no_board_and_is_left_as_it_is(owner, tmp_path):
    blank = tmp_path / "blank.img"
    with blank.open("wb") as file:
        file.truncate(20 * MIB)
    tool("mke2fs", "-q", "-t", "ext4", blank)
    before, said = blank.read_bytes(), []
    with pytest.raises(BadInput, match=r"there is no /etc and no /usr: it is blank.*Write the board's own image first"):
        write(owner, f"image:{blank}", said=said)
    assert blank.read_bytes() == before
    assert not any("cleared" in line for line in said)


def test_what_is_no_card_or_has_no_room_is_left_alone(owner, image, boot_image, tmp_path, monkeypatch):
    (tmp_path / "none.img").write_bytes(bytes(MIB))
    with pytest.raises(BadInput, match="Expected an ext4 or FAT"):
        write(owner, f"image:{tmp_path / 'none.img'}")
    with pytest.raises(BadInput, match="no such file"):
        write(owner, f"image:{tmp_path / 'nowhere.img'}")
    before = [path.read_bytes() for path in (image, boot_image)]
    monkeypatch.setattr(sd_card, "SPARE_BYTES", 100 * MIB)
    for card in (image, boot_image):
        with pytest.raises(BadInput, match="MiB free were expected"):
            write(owner, f"image:{card}")
        write(owner, f"image:{card}", dry_run=True)
    monkeypatch.undo()
    with image.open("r+b") as file:
        file.seek(START + 1024 + 58)
        file.write(struct.pack("<H", 2))  # "has errors"
    with pytest.raises(BadInput, match="not clean"):
        write(owner, f"image:{image}")
    with image.open("r+b") as file:
        file.seek(START + 1024 + 58)
        file.write(struct.pack("<H", 1))
    assert [path.read_bytes() for path in (image, boot_image)] == before


def test_a_mounted_root_file_system(owner, root_tree, tmp_path):
    write(owner, f"dir:{root_tree}")
    assert (root_tree / "etc/machine-id").read_bytes() == b""
    assert [path.name for path in (root_tree / "etc/ssh").iterdir()] == ["sshd_config"]
    link = root_tree / "etc/systemd/system/multi-user.target.wants" / first_boot.UNIT
    assert str(link.readlink()) == f"/etc/systemd/system/{first_boot.UNIT}"


LINKS = [
    "opt",
    f"opt/{first_boot.TREE}",
    f"opt/{first_boot.TREE}/bundle.veil",
    f"opt/{first_boot.TREE}/trust",
    "etc",
    "etc/machine-id",
    "etc/ssh",
    "etc/systemd",
    f"etc/systemd/system/{first_boot.UNIT}",
    "etc/systemd/system/multi-user.target.wants",
]


def everything(folder):
    """All files with their bytes, and all links with their targets."""
    return {
        path.relative_to(folder): path.readlink() if path.is_symlink() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def outside(tmp_path, root_tree, name):
    """Move a part of the card to another folder and put a link to it in its place; returns that folder."""
    mine, place = tmp_path / "mine", root_tree / name
    mine.mkdir()
    (mine / "authorized_keys").write_text("mine")
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_dir():
        shutil.move(place, mine / "moved")
        place.symlink_to(mine / "moved")
    else:
        place.unlink(missing_ok=True)
        place.symlink_to(mine / "authorized_keys" if "." in name or "id" in name else mine)
    return mine


@pytest.mark.parametrize("name", LINKS)
def test_a_link_anywhere_on_a_card_is_refused_by_name_and_nothing_is_changed(owner, root_tree, tmp_path, name):
    mine = outside(tmp_path, root_tree, name)
    before = everything(mine), everything(root_tree)
    expected = "no cmdline.txt" if name == "etc" else f"/{name} on .* is a link"
    with pytest.raises(BadInput, match=expected):
        write(owner, f"dir:{root_tree}")
    assert (everything(mine), everything(root_tree)) == before


@pytest.mark.parametrize("name", LINKS)
def test_each_step_that_writes_a_card_follows_no_link(root_tree, tmp_path, name):
    """Without the look at all of them before: a link may come in between."""
    mine = outside(tmp_path, root_tree, name)
    before = everything(mine)
    card = sd_card.open_media(f"dir:{root_tree}")
    for path in (f"/{name}", f"/{name}/below"):
        with pytest.raises(BadInput, match=f"/{name} on .* is a link"):
            card.write({path: b"x"})
        with pytest.raises(BadInput, match=f"/{name} on .* is a link"):
            card.read(path)
    with pytest.raises(BadInput, match=f"/{name} on .* is a link"):
        card.remove([f"/{name}/authorized_keys"])
    with pytest.raises(BadInput, match=f"/{name} on .* is a link"):
        card.names(f"/{name}")
    assert everything(mine) == before


def test_a_host_key_or_a_seed_that_is_a_link_is_removed_and_its_target_stays(owner, root_tree, tmp_path):
    mine = tmp_path / "mine"
    mine.write_text("mine")
    for name in ("etc/ssh/ssh_host_rsa_key", "var/lib/systemd/random-seed"):
        (root_tree / name).unlink()
        (root_tree / name).symlink_to(mine)
    write(owner, f"dir:{root_tree}")
    assert mine.read_text() == "mine"
    assert not (root_tree / "etc/ssh/ssh_host_rsa_key").is_symlink()
    assert not (root_tree / "var/lib/systemd/random-seed").is_symlink()


def test_a_file_with_a_second_name_outside_the_card_is_replaced_there_alone(owner, root_tree, tmp_path):
    mine = tmp_path / "mine"
    mine.write_text("mine")
    (root_tree / "etc/machine-id").unlink()
    os.link(mine, root_tree / "etc/machine-id")
    write(owner, f"dir:{root_tree}")
    assert mine.read_text() == "mine"
    assert (root_tree / "etc/machine-id").read_bytes() == b""


def test_a_link_on_an_image_is_refused_by_name(owner, image):
    before = image.read_bytes()
    tool("debugfs", "-w", "-R", "symlink /opt /var", f"{image}?offset={START}")
    changed = image.read_bytes()
    assert changed != before
    with pytest.raises(BadInput, match=r"/opt on .* is a link"):
        write(owner, f"image:{image}")
    assert image.read_bytes() == changed


def test_a_mounted_boot_partition_and_one_with_a_first_run_of_another(owner, tmp_path):
    boot = tmp_path / "boot"
    boot.mkdir()
    with pytest.raises(BadInput, match=r"no cmdline\.txt"):
        write(owner, f"dir:{boot}")
    (boot / "cmdline.txt").write_text("root=/dev/x systemd.run=/usr/bin/other\n")
    before = (boot / "cmdline.txt").read_bytes()
    with pytest.raises(BadInput, match="one like Raspberry"):
        write(owner, f"dir:{boot}")
    assert (boot / "cmdline.txt").read_bytes() == before
    (boot / "cmdline.txt").write_text("root=/dev/x\n")
    write(owner, f"dir:{boot}")
    assert (boot / first_boot.TREE / "first_boot.py").exists()


def test_what_came_out_different_is_seen(owner, tmp_path, monkeypatch):
    (tmp_path / "cmdline.txt").write_text("root=/dev/x\n")
    real = MountedCard.write
    monkeypatch.setattr(
        MountedCard, "write", lambda self, files, **more: real(self, {n: d[:-1] for n, d in files.items()}, **more)
    )
    with pytest.raises(DeviceFailed, match="differs from what was written"):
        write(owner, f"dir:{tmp_path}")
    assert (tmp_path / "cmdline.txt").read_text() == "root=/dev/x\n"


@pytest.mark.parametrize("after", [0, 3, 20, 60])
def test_a_card_that_is_pulled_while_it_is_written_is_one_sentence_and_starts_nothing(
    owner, tmp_path, root_tree, monkeypatch, after
):
    (tmp_path / "boot").mkdir()
    (tmp_path / "boot/cmdline.txt").write_text("root=/dev/x\n")
    cards, opened, real = (tmp_path / "boot", root_tree), [0], os.open

    def pulled(path, *arguments, **more):
        opened[0] += path in cards or "dir_fd" in more  # on the card
        if opened[0] > after:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(path, *arguments, **more)

    for card in cards:
        opened[0] = 0
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", pulled)
            with pytest.raises(DeviceFailed, match=re.escape(f"{card} cannot be")):
                write(owner, f"dir:{card}")
    assert (tmp_path / "boot/cmdline.txt").read_text() == "root=/dev/x\n"
    assert not (root_tree / "etc/systemd/system/multi-user.target.wants").exists()


def test_a_card_needs_trust_and_something_to_perturb(owner, root_tree):
    with pytest.raises(Refused, match="edgeveil trust init"):
        write(owner, f"dir:{root_tree}", trust=owner[0] / "trust")
    with pytest.raises(BadInput, match="give --source and --sink"):
        write(owner, f"dir:{root_tree}", wanted=Wanted())


def booted(tree):
    return subprocess.run([sys.executable, tree / "first_boot.py"], capture_output=True, timeout=120)


def test_the_board_flashes_itself_when_it_comes_up(owner, root_tree, tmp_path):
    """The script of the card, run for real, in another root than a board's and without its service."""
    root, tree = tmp_path / "board", root_tree / "opt" / first_boot.TREE
    write(owner, f"dir:{root_tree}", root=str(root), wanted=Wanted(service=False))
    kept = tmp_path / "kept"
    shutil.copytree(tree, kept)
    done = booted(tree)
    assert done.returncode == 0, done.stderr
    releases = Releases(str(root), lambda floor: open_trust(root / "trust", floor=floor))
    assert releases.current == releases.state().committed is not None
    assert not tree.exists()

    data = bytearray((kept / "bundle.veil").read_bytes())
    data[-9] ^= 1
    good = (kept / "bundle.veil").read_bytes()
    (kept / "bundle.veil").write_bytes(data)
    assert b"write the card again" in booted(kept).stderr
    (kept / "bundle.veil").write_bytes(good)
    (root / "trust" / "root.pub").write_text(public_key_line(bundles.trusted(bundles.STRANGER)))
    assert b"another root key" in booted(kept).stderr
    assert Path(kept).exists()


def test_the_wheels_of_a_card_are_unpacked_when_it_comes_up(owner, root_tree, tmp_path):
    """A folder that only looks like wheels: what matters is where its files lie when the release is installed."""
    wheels, root, tree = tmp_path / "wheels", tmp_path / "board", root_tree / "opt" / first_boot.TREE
    wheels.mkdir()
    with zipfile.ZipFile(wheels / "site.zip", "w") as archive:
        archive.writestr("brought.py", "here = True\n")
    data = (wheels / "site.zip").read_bytes()
    facts = {"name": "site-77", "architecture": "aarch64", "python": "3.11", "glibc": None, "interpreters": {}}
    (wheels / "site.json").write_text(json.dumps({**facts, "sha256": hashlib.sha256(data).hexdigest()}))
    inputs = read_inputs(owner[1], "raspberry-pi-cpu", owner[0] / "root", wheels)
    flash_card(inputs, f"dir:{root_tree}", Wanted(service=False), root=str(root))
    done = booted(tree)
    assert done.returncode == 0, done.stderr
    assert (root / "site").resolve() == root / "site-77"
    assert (root / "site/brought.py").read_text() == "here = True\n"
    assert (root / "current/edgeveil-edge.pyz").exists()


def test_the_command(owner, root_tree, capsys):
    more = ["--for", "raspberry-pi-cpu", "--trust", str(owner[0] / "root"), "--no-service", "--json"]
    app(["flash", str(owner[1]), "--on", f"dir:{root_tree}", *more], standalone_mode=False)
    out = capsys.readouterr()
    assert json.loads(out.out)["steps"] == ["trust", "upload", "install"]
    assert "cleared: " in out.err
    assert (root_tree / "opt" / first_boot.TREE / "bundle.veil").exists()
