"""An SD card as a 64-bit Raspberry Pi OS has it, in a file: a FAT boot partition with kernel and ``cmdline.txt``, and a
root file system; made without mounts or loop devices. A virtual board boots it (``vm.up_from_card``).
"""

from __future__ import annotations

import shutil
import struct
import tempfile
from pathlib import Path

from scripts.emulation import running, trees, vm

SECTOR, MIB = 512, 2**20
BOOT_AT, BOOT_SIZE = MIB, 96 * MIB
ROOT_AT = BOOT_AT + BOOT_SIZE
SIZES = {"vm": 1700 * MIB, "cloud": 2200 * MIB}
CMDLINE = "console=ttyAMA0,115200 root=/dev/vda2 rootwait"
# A virtual board on a busy machine can take minutes to see its own disk; systemd's 90 s end in its emergency mode.
FSTAB = (
    "/dev/vda1 /boot/firmware vfat defaults,x-systemd.device-timeout=900 0 2\n/dev/vda2 / ext4 defaults,noatime 0 1\n"
)
# As an image has them from its maker: what sets the board up is written over them.
CLOUD_INIT = {
    "user-data": "#cloud-config\n",
    "meta-data": "instance-id: image\n",
    "network-config": "network:\n  version: 2\n  ethernets:\n    eth0:\n      dhcp4: true\n      optional: true\n",
}
_TOOLS = ("mmdebstrap", trees.QEMU, "mke2fs", "cpio", "mformat", "mcopy", "ssh-keygen")


def make(cache: Path, out: Path, system: str) -> dict:
    """Write a card with the tree ``system`` to ``out``, and next to it the key that may log in. Raises ``NoBoard``."""
    trees.need(*_TOOLS)
    pristine, size = trees.tree(cache, system), SIZES[system]
    trees.register()
    part, key = out.with_name(out.name + ".part"), out.with_name(out.name + ".key")
    with part.open("wb") as file:
        file.truncate(size)
        file.seek(446)
        for kind, begin, end in ((0x0C, BOOT_AT, ROOT_AT), (0x83, ROOT_AT, size)):
            file.write(struct.pack("<B3xB3xII", 0, kind, begin // SECTOR, (end - begin) // SECTOR))
        file.seek(510)
        file.write(b"\x55\xaa")
    with tempfile.TemporaryDirectory(dir=out.parent) as folder:
        running.key(Path(folder), "user")
        _boot(pristine, Path(folder), part, CLOUD_INIT if system == "cloud" else {})
        _root(pristine, Path(folder), part, size)
        for ending in ("", ".pub"):
            shutil.move(str(Path(folder) / f"user{ending}"), f"{key}{ending}")
    part.rename(out)
    return {"card": str(out), "identity": str(key)}


def _boot(pristine: Path, folder: Path, card: Path, more: dict[str, str]) -> None:
    kernel = vm.kernel(pristine)
    vm.initramfs(pristine, kernel, folder / "initramfs8")
    (folder / "cmdline.txt").write_text(CMDLINE + "\n")
    shutil.copy(pristine / f"boot/vmlinuz-{kernel}", folder / "kernel8.img")
    image = f"{card}@@{BOOT_AT}"
    trees.run(["mformat", "-i", image, "-v", "bootfs", "-T", str(BOOT_SIZE // SECTOR), "-h", "64", "-s", "32", "::"])
    for name, text in more.items():
        (folder / name).write_text(text)
    names = ("cmdline.txt", "kernel8.img", "initramfs8", *more)
    trees.run(["mcopy", "-i", image, *(str(folder / name) for name in names), "::"])


def _root(pristine: Path, folder: Path, card: Path, size: int) -> None:
    """The tree, with what a set-up system has: a machine id and host keys."""
    root = folder / "root"
    trees.run(["cp", "-a", "--reflink=auto", str(pristine), str(root)])
    running.authorize(root, folder / "user.pub")
    (root / "boot/firmware").mkdir(exist_ok=True)
    (root / "etc/fstab").write_text(FSTAB)
    (root / "etc/machine-id").write_text("0123456789abcdef" * 2 + "\n")
    running.key(folder, "host")
    for ending in ("", ".pub"):
        shutil.copy(folder / f"host{ending}", root / f"etc/ssh/ssh_host_ed25519_key{ending}")
    # The kernel's own test camera, as others have one on a ribbon cable.
    (root / "etc/modules-load.d/camera.conf").write_text("vivid\n")
    blocks = f"{(size - ROOT_AT) // 1024}k"
    trees.run(["mke2fs", "-q", "-t", "ext4", "-d", str(root), "-E", f"offset={ROOT_AT}", str(card), blocks])
