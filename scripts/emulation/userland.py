"""An arm64 userland under qemu's user emulation with its own sshd: right numbers, the host's kernel, no speed."""

from __future__ import annotations

import shutil
from pathlib import Path

from scripts.emulation import running, trees

CORE = """processor\t: {}
BogoMIPS\t: 38.40
Features\t: fp asimd evtstrm crc32 cpuid
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x0
CPU part\t: 0xd03
CPU revision\t: 4

"""
CPUINFO = "".join(CORE.format(n) for n in range(4)) + "Hardware\t: BCM2835\nModel\t\t: Raspberry Pi 3 Model B Rev 1.2\n"

# Runs in mount and process namespaces of its own, so that nothing stays mounted and all of it ends together. The
# host's /sys stays outside: next to /proc it tells programs of a processor that is not there.
ENTER = """
set -e
root=$1; shift
mount --make-rprivate /
mount -t proc proc "$root/proc"
mount --bind "$root/etc/board-cpuinfo" "$root/proc/cpuinfo"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for name in null zero full random urandom tty; do
  : > "$root/dev/$name"
  mount --bind "/dev/$name" "$root/dev/$name"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 QEMU_CPU="$PROCESSOR" "$@"
"""


def up(cache: Path, state: Path, port: int) -> dict:
    """Start it, from a fresh copy of the tree. Raises ``NoBoard``."""
    trees.need("mmdebstrap", trees.QEMU, "ssh-keygen", "unshare", "chroot")
    pristine = trees.tree(cache, "userland")
    trees.register()
    shutil.rmtree(state, ignore_errors=True)
    state.mkdir(mode=0o700)
    port = running.free_port(port)
    root = state / "root"
    trees.run(["cp", "-a", "--reflink=auto", str(pristine), str(root)])
    (root / "etc/board-cpuinfo").write_text(CPUINFO)
    for name in ("host", "user"):
        running.key(state, name)
    running.authorize(root, state / "user.pub")
    for name in ("host", "host.pub"):
        shutil.copy(state / name, root / "etc/ssh" / name)
    # sshd clears the environment of a session; without SetEnv its programs would have qemu's default processor.
    (root / "etc/ssh/sshd_config").write_text(
        f"ListenAddress 127.0.0.1\nPort {port}\nHostKey /etc/ssh/host\nUsePAM no\nPidFile none\nUseDNS no\n"
        f"PasswordAuthentication no\nPermitRootLogin yes\nSubsystem sftp internal-sftp\n"
        f"SetEnv QEMU_CPU={trees.PROCESSOR}\n"
    )
    enter = ["/usr/bin/env", f"PROCESSOR={trees.PROCESSOR}", "unshare", "--mount", "--pid", "--fork", "--kill-child"]
    enter += ["bash", "-c", ENTER, "board", str(root), "/usr/sbin/sshd", "-D", "-e"]
    return running.begin(enter, state, port, state / "process.log", root, patience_s=60)
