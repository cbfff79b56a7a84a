"""A whole virtual arm64 board: Debian's kernel and systemd under qemu-system-aarch64, ssh on loopback, no way out."""

from __future__ import annotations

import gzip
import shutil
import tempfile
import uuid
from pathlib import Path

from emulation import running, trees

# What the root disk and the network card need before there is a root; udev loads the rest.
MODULES = ("virtio_mmio", "virtio_blk", "ext4")
SIZE = "1600M"
INIT = """#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
for module in $($b cat /modules/order); do $b insmod /modules/$module; done
tries=0
while [ ! -b /dev/vda ] && [ $tries -lt 100 ]; do $b usleep 100000; tries=$((tries + 1)); done
$b mount -t ext4 /dev/vda /root || exec $b poweroff -f
$b mount --move /dev /root/dev
$b umount /proc /sys
exec $b switch_root /root /sbin/init
"""


def up(cache: Path, state: Path, port: int) -> dict:
    """Boot it from a fresh image, about a minute and a half. Raises ``NoBoard``."""
    trees.need("mmdebstrap", trees.QEMU, "qemu-system-aarch64", "qemu-img", "mke2fs", "cpio", "ssh-keygen")
    pristine = trees.tree(cache, "vm")
    trees.register()
    shutil.rmtree(state, ignore_errors=True)
    state.mkdir(mode=0o700)
    port = running.free_port(port)
    running.keys(state)
    kernel = next((pristine / "lib/modules").iterdir()).name
    _initramfs(pristine, kernel, state / "initrd.gz")
    _disk(pristine, state)
    console = state / "console.log"
    command = ["qemu-system-aarch64", "-M", "virt", "-cpu", "cortex-a53", "-smp", "2", "-m", "1024"]
    command += ["-accel", "tcg,thread=multi", "-display", "none", "-monitor", "none", "-no-reboot"]
    command += ["-serial", f"file:{console}", "-kernel", str(pristine / f"boot/vmlinuz-{kernel}")]
    command += ["-initrd", str(state / "initrd.gz"), "-append", "root=/dev/vda rw console=ttyAMA0,115200"]
    command += [
        "-drive",
        f"if=none,id=disk,format=raw,file={state / 'disk.ext4'}",
        "-device",
        "virtio-blk-device,drive=disk",
    ]
    # restrict: the guest reaches nothing, the host reaches its ssh.
    command += ["-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22"]
    command += ["-device", "virtio-net-device,netdev=net"]
    command += ["-object", "rng-random,id=rng,filename=/dev/urandom", "-device", "virtio-rng-device,rng=rng"]
    return running.begin(command, state, port, console, None, patience_s=300)


def _disk(pristine: Path, state: Path) -> None:
    """The tree with this board's keys in it, as an ext4 image; made without mounting anything."""
    with tempfile.TemporaryDirectory(dir=state) as folder:
        root = Path(folder) / "root"
        trees.run(["cp", "-a", "--reflink=auto", str(pristine), str(root)])
        running.authorize(root, state)
        # One that knows who it is asks no questions at its first boot.
        (root / "etc/machine-id").write_text(uuid.uuid4().hex + "\n")
        for ending in ("", ".pub"):
            shutil.copy(state / f"host{ending}", root / f"etc/ssh/ssh_host_ed25519_key{ending}")
        trees.run(["mke2fs", "-q", "-t", "ext4", "-d", str(root), str(state / "disk.ext4"), SIZE])


def _initramfs(tree: Path, kernel: str, out: Path) -> None:
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
            shutil.copy(path, root / "modules")
        (root / "modules/order").write_text("".join(path.name + "\n" for path in order))
        (root / "init").write_text(INIT)
        (root / "init").chmod(0o755)
        trees.run(
            ["bash", "-c", 'cd "$1" && find . | cpio -o -H newc --quiet > "$2"', "pack", str(root), f"{out}.cpio"]
        )
    out.write_bytes(gzip.compress(Path(f"{out}.cpio").read_bytes(), 1))
    Path(f"{out}.cpio").unlink()
