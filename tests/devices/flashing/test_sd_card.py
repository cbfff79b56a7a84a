"""Cards: real FAT file systems in files, written and read back by the tools; and the board's first boot."""

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

from edgeveil.devices.flashing import sd_card
from edgeveil.devices.flashing.card import flash_card
from edgeveil.devices.flashing.placement import Refused
from edgeveil.devices.flashing.records import Wanted
from edgeveil.devices.flashing.sd_card import MountedCard
from edgeveil.devices.flashing.wheels import read_inputs
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.releases.store import Releases
from edgeveil.edge_runtime.signing.keys import public_key_line
from edgeveil.trainer.cli.main import app
from tests.support import bundles, programs
from tests.support.boards import owners

pytestmark = pytest.mark.programs

MIB = 2**20
START = 2048 * 512
LINE = "console=tty1 root=/dev/mmcblk0p2 rootwait\n"


@pytest.fixture(scope="module")
def owner(tmp_path_factory):
    """A trust folder and a bundle with the real runtime in it."""
    folder = tmp_path_factory.mktemp("owner")
    owners.trust(folder)
    return folder, owners.bundle(folder).path


def tool(name, *arguments, data=None):
    subprocess.run([programs.need(name), *map(str, arguments)], input=data, check=True, capture_output=True, timeout=60)


@pytest.fixture
def boot(tmp_path):
    """A mounted boot partition."""
    folder = tmp_path / "boot"
    folder.mkdir()
    (folder / "cmdline.txt").write_text(LINE)
    return folder


def formatted(card, at, size):
    tool("mformat", "-i", f"{card}@@{at}", "-T", str(size // 512), "-h", "16", "-s", "32", "::")
    tool("mcopy", "-i", f"{card}@@{at}", "-", "::cmdline.txt", data=LINE.encode())


def table(*parts):
    """The first sector of a card with these partitions, as (kind, offset, bytes)."""
    entries = [struct.pack("<B3xB3xII", 0, kind, start // 512, size // 512) for kind, start, size in parts]
    return bytes(446) + b"".join(entries).ljust(64, b"\0") + b"\x55\xaa"


@pytest.fixture
def image(tmp_path):
    """A card as Raspberry Pi OS has it: a table, a FAT boot partition, another file system behind it."""
    card = tmp_path / "card.img"
    card.write_bytes(bytes(24 * MIB))
    with card.open("r+b") as file:
        file.write(table((0x0C, START, 16 * MIB), (0x83, START + 16 * MIB, 7 * MIB)))
        file.seek(START + 16 * MIB)
        file.write(os.urandom(7 * MIB))
    formatted(card, START, 16 * MIB)
    return card


@pytest.fixture
def boot_image(tmp_path):
    """A boot partition alone."""
    card = tmp_path / "boot.img"
    card.write_bytes(bytes(16 * MIB))
    formatted(card, 0, 16 * MIB)
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


def test_the_boot_partition_in_the_image_of_a_card(owner, image, boot):
    before, said = image.read_bytes(), []
    write(owner, f"image:{image}", said=said)
    card = sd_card.open_media(f"image:{image}")
    tree = json.loads(card.read(f"/{sd_card.TREE}/files.json"))
    assert {"bundle.veil", "edgeveil-edge.pyz", "trust/root.pub", "trust/trust.json", "system/edge.json"} < set(tree)
    assert not any("signing.key" in name for name in tree)
    assert "host keys" in said[-1]
    after = image.read_bytes()
    assert (after[:START], after[START + 16 * MIB :]) == (before[:START], before[START + 16 * MIB :])
    write(owner, f"dir:{boot}")
    mounted = everything(boot)
    assert {str(path): card.read(f"/{path}") for path in mounted} == {str(p): data for p, data in mounted.items()}


def test_a_boot_partition_in_an_image(owner, boot_image):
    write(owner, f"image:{boot_image}")
    card = sd_card.open_media(f"image:{boot_image}")
    assert card.read(f"/{sd_card.TREE}/bundle.veil") == owner[1].read_bytes()
    line = card.read("/cmdline.txt").decode()
    assert line.startswith("console=tty1 root=/dev/mmcblk0p2 rootwait systemd.run=/boot/firmware/")
    assert line.count("\n") == 1
    write(owner, f"image:{boot_image}")
    assert card.read("/cmdline.txt").decode() == line


def test_a_system_that_is_not_configured_from_its_boot_partition_is_refused_and_left_as_it_is(owner, tmp_path):
    images = {
        "ext4.img": bytes(1080) + b"\x53\xef" + bytes(MIB),
        "linux.img": table((0x83, START, MIB)) + bytes(2 * MIB),
        "gpt.img": table((0xEE, 512, 2 * MIB)) + b"EFI PART" + bytes(2 * MIB),
        "short.img": table((0x0C, 2**40, MIB)),
    }
    for name, data in images.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(BadInput, match=r"FAT boot partition in its MBR.*flash the board over SSH"):
            write(owner, f"image:{tmp_path / name}")
        assert (tmp_path / name).read_bytes() == data


def test_without_mtools_an_image_is_refused_and_a_mounted_one_is_written(owner, image, boot, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    before = image.read_bytes()
    with pytest.raises(BadInput, match="apt-get install mtools, or mount"):
        write(owner, f"image:{image}")
    assert image.read_bytes() == before
    write(owner, f"dir:{boot}")


def test_what_is_no_card_or_has_no_room_is_left_alone(owner, image, boot_image, tmp_path, monkeypatch):
    (tmp_path / "none.img").write_bytes(bytes(MIB))
    with pytest.raises(BadInput, match="FAT boot partition"):
        write(owner, f"image:{tmp_path / 'none.img'}")
    with pytest.raises(BadInput, match="no such file"):
        write(owner, f"image:{tmp_path / 'nowhere.img'}")
    before = [path.read_bytes() for path in (image, boot_image)]
    monkeypatch.setattr(sd_card, "SPARE_BYTES", 100 * MIB)
    for card in (image, boot_image):
        for dry_run in (True, False):
            with pytest.raises(BadInput, match="MiB free were expected"):
                write(owner, f"image:{card}", dry_run=dry_run)
    assert [path.read_bytes() for path in (image, boot_image)] == before


LINKS = [sd_card.TREE, f"{sd_card.TREE}/bundle.veil", f"{sd_card.TREE}/trust", "cmdline.txt"]


def everything(folder):
    """All files with their bytes, and all links with their targets."""
    return {
        path.relative_to(folder): path.readlink() if path.is_symlink() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def outside(tmp_path, boot, name):
    """Move a part of the card to another folder and put a link to it in its place; returns that folder."""
    mine, place = tmp_path / "mine", boot / name
    mine.mkdir()
    (mine / "authorized_keys").write_text("mine")
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_dir():
        shutil.move(place, mine / "moved")
        place.symlink_to(mine / "moved")
    else:
        place.unlink(missing_ok=True)
        place.symlink_to(mine / "authorized_keys" if "." in name else mine)
    return mine


@pytest.mark.parametrize("name", LINKS)
def test_a_link_anywhere_on_a_card_is_refused_by_name_and_nothing_is_changed(owner, boot, tmp_path, name):
    mine = outside(tmp_path, boot, name)
    before = everything(mine), everything(boot)
    with pytest.raises(BadInput, match=f"/{name} on .* is a link"):
        write(owner, f"dir:{boot}")
    assert (everything(mine), everything(boot)) == before


@pytest.mark.parametrize("name", LINKS)
def test_each_step_that_writes_a_card_follows_no_link(boot, tmp_path, name):
    """Without the look at all of them before: a link may come in between."""
    mine = outside(tmp_path, boot, name)
    before = everything(mine)
    card = sd_card.open_media(f"dir:{boot}")
    for path in (f"/{name}", f"/{name}/below"):
        with pytest.raises(BadInput, match=f"/{name} on .* is a link"):
            card.write({path: b"x"})
        with pytest.raises(BadInput, match=f"/{name} on .* is a link"):
            card.read(path)
    assert everything(mine) == before


def test_a_file_with_a_second_name_outside_the_card_is_replaced_there_alone(owner, boot, tmp_path):
    mine = tmp_path / "mine"
    (boot / "cmdline.txt").rename(mine)
    os.link(mine, boot / "cmdline.txt")
    write(owner, f"dir:{boot}")
    assert mine.read_text() == LINE
    assert sd_card.RUN in (boot / "cmdline.txt").read_text()


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
def test_a_card_that_is_pulled_while_it_is_written_is_one_sentence_and_starts_nothing(owner, boot, monkeypatch, after):
    opened, real = [0], os.open

    def pulled(path, *arguments, **more):
        opened[0] += path == boot or "dir_fd" in more  # on the card
        if opened[0] > after:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(path, *arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", pulled)
        with pytest.raises(DeviceFailed, match=re.escape(f"{boot} cannot be")):
            write(owner, f"dir:{boot}")
    assert (boot / "cmdline.txt").read_text() == LINE


def test_a_card_needs_trust_and_something_to_perturb(owner, boot):
    with pytest.raises(Refused, match="edgeveil trust init"):
        write(owner, f"dir:{boot}", trust=owner[0] / "trust")
    with pytest.raises(BadInput, match="give --source and --sink"):
        write(owner, f"dir:{boot}", wanted=Wanted())


def booted(tree):
    return subprocess.run([sys.executable, tree / "first_boot.py"], capture_output=True, timeout=120)


def test_the_board_flashes_itself_when_it_comes_up(owner, boot, tmp_path):
    """The script of the card, run for real, in another root than a board's and without its service."""
    root, tree = tmp_path / "board", boot / sd_card.TREE
    write(owner, f"dir:{boot}", root=str(root), wanted=Wanted(service=False))
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


def test_the_wheels_of_a_card_are_unpacked_when_it_comes_up(owner, boot, tmp_path):
    """A folder that only looks like wheels: what matters is where its files lie when the release is installed."""
    wheels, root, tree = tmp_path / "wheels", tmp_path / "board", boot / sd_card.TREE
    wheels.mkdir()
    with zipfile.ZipFile(wheels / "site.zip", "w") as archive:
        archive.writestr("brought.py", "here = True\n")
    data = (wheels / "site.zip").read_bytes()
    facts = {"name": "site-77", "architecture": "aarch64", "python": "3.11", "glibc": None, "interpreters": {}}
    (wheels / "site.json").write_text(json.dumps({**facts, "sha256": hashlib.sha256(data).hexdigest()}))
    inputs = read_inputs(owner[1], "raspberry-pi-cpu", owner[0] / "root", wheels)
    flash_card(inputs, f"dir:{boot}", Wanted(service=False), root=str(root))
    done = booted(tree)
    assert done.returncode == 0, done.stderr
    assert (root / "site").resolve() == root / "site-77"
    assert (root / "site/brought.py").read_text() == "here = True\n"
    assert (root / "current/edgeveil-edge.pyz").exists()


def test_the_command(owner, boot, capsys):
    more = ["--for", "raspberry-pi-cpu", "--trust", str(owner[0] / "root"), "--no-service", "--json"]
    app(["flash", str(owner[1]), "--on", f"dir:{boot}", *more], standalone_mode=False)
    out = capsys.readouterr()
    assert json.loads(out.out)["steps"] == ["trust", "upload", "install"]
    assert "a boot partition: " in out.err
    assert (boot / sd_card.TREE / "bundle.veil").exists()
