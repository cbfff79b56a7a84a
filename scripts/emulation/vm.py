"""A whole virtual arm64 board: Debian's kernel and systemd under qemu-system-aarch64, ssh on loopback, no way out."""

from __future__ import annotations

import gzip
import lzma
import shutil
import sys
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path

from scripts.emulation import running, trees

# What the root disk needs before there is a root, in memory too, and what a Raspberry Pi's kernel has built in: its
# watchdog. udev loads the rest.
MODULES = ("virtio_mmio", "virtio_blk", "ext4", "overlay", "i6300esb")
SIZE = "1600M"
INIT = """#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
for module in $($b cat /modules/order); do $b insmod /modules/$module; done
root=$($b sed 's/.*root=\\([^ ]*\\).*/\\1/' /proc/cmdline)
tries=0
while [ ! -b $root ] && [ $tries -lt 100 ]; do $b usleep 100000; tries=$((tries + 1)); done
$b mount -t ext4 $root /root || exec $b poweroff -f
if $b grep -q boot=overlay /proc/cmdline; then
    # As raspi-config's overlay has it: the card below, and what is written in memory.
    $b mkdir /memory
    $b mount -t tmpfs memory /memory
    $b mkdir /memory/card /memory/upper /memory/work
    $b mount --move /root /memory/card
    $b mount -t overlay -o lowerdir=/memory/card,upperdir=/memory/upper,workdir=/memory/work overlay /root
fi
$b mount --move /dev /root/dev
$b umount /proc /sys
exec $b switch_root /root /sbin/init
"""


def up(cache: Path, state: Path, port: int, *, reach: Mapping[str, int]) -> dict:
    """Boot it from a fresh image, about a minute and a half. Raises ``NoBoard``.

    ``reach``: ports of this machine's loopback, each by the address (10.0.2.x:PORT) at which the board reaches it; it
    reaches nothing else.
    """
    trees.need("mmdebstrap", trees.QEMU, "qemu-system-aarch64", "mke2fs", "cpio", "ssh-keygen")
    trees.need(*(["nc"] if reach else []))
    pristine = trees.tree(cache, "vm")
    trees.register()
    port = _new(state, port)
    for name in ("host", "user"):
        running.key(state, name)
    initramfs(pristine, kernel(pristine), state / "initrd.gz")
    _disk(pristine, state)
    command = _machine(state / "disk.ext4", state / "console.log", port, reach)
    command += ["-kernel", str(pristine / f"boot/vmlinuz-{kernel(pristine)}"), "-initrd", str(state / "initrd.gz")]
    command += ["-append", "console=ttyAMA0,115200 root=/dev/vda rw"]
    return running.begin(command, state, port, state / "console.log", None, patience_s=300)


def up_from_card(card: Path, state: Path, port: int, *, reach: Mapping[str, int], watchdog: bool = False) -> dict:
    """Boot a card of ``card.make``; what the board writes stays on it. Raises ``NoBoard``.

    ``reach`` is that of ``up``. ``watchdog``: with a hardware watchdog, which resets the board once a system that began
    to feed it stops.
    """
    trees.need("qemu-system-aarch64", "mcopy", "ssh-keygen", "ssh-keyscan", *(["nc"] if reach else []))
    port = _new(state, port)
    for ending in ("", ".pub"):
        shutil.copy(f"{card}.key{ending}", state / f"user{ending}")
    console = state / "console.log"
    machine = _machine(card, console, port, reach) + (["-device", "i6300esb"] if watchdog else [])
    firmware = [sys.executable, str(Path(__file__).with_name("firmware.py")), str(card), str(console)]
    return running.begin([*firmware, *machine], state, port, console, None, patience_s=1800)


def _new(state: Path, port: int) -> int:
    shutil.rmtree(state, ignore_errors=True)
    state.mkdir(mode=0o700)
    return running.free_port(port)


def _machine(disk: Path, console: Path, port: int, reach: Mapping[str, int]) -> list[str]:
    command = ["qemu-system-aarch64", "-M", "virt", "-cpu", "cortex-a53", "-smp", "2", "-m", "1024"]
    command += ["-accel", "tcg,thread=multi", "-display", "none", "-monitor", "none", "-no-reboot"]
    command += ["-chardev", f"file,id=console,path={console},append=on", "-serial", "chardev:console"]
    command += ["-drive", f"if=none,id=disk,format=raw,file={disk}", "-device", "virtio-blk-device,drive=disk"]
    # restrict: the guest reaches nothing but these; the host reaches its ssh.
    forwards = "".join(f",guestfwd=tcp:{at}-cmd:nc 127.0.0.1 {own}" for at, own in reach.items())
    command += ["-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22{forwards}"]
    command += ["-device", "virtio-net-device,netdev=net"]
    return [*command, "-object", "rng-random,id=rng,filename=/dev/urandom", "-device", "virtio-rng-device,rng=rng"]


def _disk(pristine: Path, state: Path) -> None:
    """The tree with this board's keys in it, as an ext4 image; made without mounting anything."""
    with tempfile.TemporaryDirectory(dir=state) as folder:
        root = Path(folder) / "root"
        trees.run(["cp", "-a", "--reflink=auto", str(pristine), str(root)])
        running.authorize(root, state / "user.pub")
        # One that knows who it is asks no questions at its first boot.
        (root / "etc/machine-id").write_text(uuid.uuid4().hex + "\n")
        for ending in ("", ".pub"):
            shutil.copy(state / f"host{ending}", root / f"etc/ssh/ssh_host_ed25519_key{ending}")
        trees.run(["mke2fs", "-q", "-t", "ext4", "-d", str(root), str(state / "disk.ext4"), SIZE])


def kernel(tree: Path) -> str:
    """The version of the tree's kernel."""
    return next((tree / "lib/modules").iterdir()).name


def initramfs(tree: Path, kernel: str, out: Path) -> None:
    """BusyBox and the modules, in the order in which they need each other."""
    order: list[Path] = []
    for module in MODULES:
        shown = trees.run(["chroot", str(tree), "modprobe", "-S", kernel, "--show-depends", module])
        for line in shown.splitlines():
            if line.startswith("insmod "):
                path = tree / line.split()[1].lstrip("/")
                order += [path] if path not in order else []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name in ("bin", "modules", "proc", "sys", "dev", "root"):
            (root / name).mkdir()
        shutil.copy(tree / "bin/busybox", root / "bin")
        for path in order:
            data = path.read_bytes()
            plain = lzma.decompress(data) if path.suffix == ".xz" else data
            (root / "modules" / path.name.removesuffix(".xz")).write_bytes(plain)
        (root / "modules/order").write_text("".join(path.name.removesuffix(".xz") + "\n" for path in order))
        (root / "init").write_text(INIT)
        (root / "init").chmod(0o755)
        trees.run(
            ["bash", "-c", 'cd "$1" && find . | cpio -o -H newc --quiet > "$2"', "pack", str(root), f"{out}.cpio"]
        )
    out.write_bytes(gzip.compress(Path(f"{out}.cpio").read_bytes(), 1))
    Path(f"{out}.cpio").unlink()
