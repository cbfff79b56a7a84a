"""Programs and libraries that tests need and a bare Debian 12 lacks, with the package that brings each.

    python3 -m tests.support.programs            the packages of those that are not here, for apt-get install
    python3 -m tests.support.programs FOLDER     fills a folder for PATH with what a bare Debian has

A test asks with ``need`` and carries the marker ``programs``; without them it is skipped, and the reason has the line
that installs them. Until it asks, such a test has the PATH of a bare Debian (``hide``). ``tests/test_programs.py``
finds programs that are started in any other way.
"""

from __future__ import annotations

import atexit
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

# Those of Debian's required packages, and Python: they are everywhere.
EVERYWHERE = frozenset({"bash", "cat", "chroot", "cp", "mount", "python3", "sh", "true", "umount", "unshare"})
# Packages whose programs a bare Debian has, or README names.
REQUIRED = "bash coreutils dash debianutils findutils grep hostname mount passwd sed tar util-linux"
PROGRAMS = {
    "cc": "gcc libc6-dev",
    "chromium": "chromium",
    "dbus-run-session": "dbus-daemon",
    "debugfs": "e2fsprogs",
    "ffmpeg": "ffmpeg",
    "gdbus": "libglib2.0-bin",
    "git": "git",
    "mcopy": "mtools",
    "mender": "mender-client",
    "mender-artifact": "mender-artifact",
    "mformat": "mtools",
    "mke2fs": "e2fsprogs",
    "mksquashfs": "squashfs-tools",
    "mmdebstrap": "mmdebstrap",
    "mosquitto": "mosquitto",
    "mosquitto_passwd": "mosquitto",
    "node": "nodejs",
    "nats-server": "nats-server",
    "openssl": "openssl",
    "qemu-aarch64-static": "qemu-user-static",
    "qemu-x86_64-static": "qemu-user-static",
    "rauc": "rauc",
    "scmp_sys_resolver": "seccomp",
    "softhsm2-util": "softhsm2",
    "ssh": "openssh-client",
    "ssh-add": "openssh-client",
    "ssh-agent": "openssh-client",
    "ssh-keygen": "openssh-client",
    "ssh-keyscan": "openssh-client",
    "sshd": "openssh-server",
    "strace": "strace",
    "sudo": "sudo",
    "systemd-analyze": "systemd",
    "tcsh": "tcsh",
    "unzip": "unzip",
}
# Found as files.
LIBRARIES = {
    "machine-id": ("etc/machine-id", "systemd"),
    "fakenect": ("usr/lib/*/fakenect", "libfreenect-bin"),
    "libfreenect": ("usr/lib/*/libfreenect.so.0.5", "libfreenect0.5"),
    "OpenNI2": ("usr/lib/*/OpenNI2/Drivers/libDummyDevice.so.0", "libopenni2-0"),
    "PyGObject": ("usr/lib/python3/dist-packages/gi", "python3-gi"),
    "GStreamer": ("usr/lib/*/girepository-1.0/GstApp-1.0.typelib", "gir1.2-gst-plugins-base-1.0"),
    "GStreamer's plugins": ("usr/lib/*/gstreamer-1.0/libgstrtp.so", "gstreamer1.0-plugins-good"),
    "GstRtspServer": ("usr/lib/*/girepository-1.0/GstRtspServer-1.0.typelib", "gir1.2-gst-rtsp-server-1.0"),
}
RTSP_SERVER = ("PyGObject", "GStreamer", "GStreamer's plugins", "GstRtspServer")
INSTALL = "apt-get install --no-install-recommends"
# A reason to skip, as ``need`` gives it; what scripts/emulation asks for ends like it.
REASON = re.compile(rf"(?:NO (?P<names>[^:]+) HERE: |needs: ){INSTALL} (?P<packages>[a-z0-9.+ -]+)")
FULL = os.environ.get("PATH", os.defpath)
marked = False  # does the running test have the marker? conftest.py keeps it
asked = False  # for a program, since conftest.py cleared it


def package(name: str) -> str:
    """The Debian package, or several, that bring a program or library."""
    return PROGRAMS[name] if name in PROGRAMS else LIBRARIES[name][1]


def packages(names: Iterable[str]) -> str:
    """Their packages for ``INSTALL``, each once."""
    return " ".join(sorted({one for name in names for one in package(name).split()}))


def find(name: str) -> str | None:
    """Where a program or library of the tables is; None where it is not here.

    Without /usr/bin on PATH, libraries are not here either: so a test run can hide them all.
    """
    path = os.environ["PATH"].replace(bare_path(), FULL)
    bare = "/usr/bin" not in path.split(os.pathsep)
    if name in PROGRAMS:
        # Not on the PATH of an ordinary user.
        return shutil.which(name, path=path if bare else f"{path}:/usr/sbin:/sbin")
    return None if bare else next(map(str, Path("/").glob(LIBRARIES[name][0])), None)


def fill(folder: Path) -> bool:
    """Make links in ``folder`` to what a bare Debian has, and to this Python; whether there is a dpkg to ask."""
    dpkg = shutil.which("dpkg", path=FULL)
    if dpkg is None:
        return False
    listed = subprocess.run([dpkg, "-L", *REQUIRED.split()], stdout=subprocess.PIPE, check=False).stdout.decode()
    for name in re.findall(r"^(?:/usr)?/s?bin/[^/\n]+$", listed, re.MULTILINE):
        link = folder / Path(name).name
        if not link.is_symlink():
            link.symlink_to(name)
    (folder / "python3").symlink_to(os.path.realpath(sys.executable))
    return True


@functools.cache
def bare_path() -> str:
    """A PATH with what a bare Debian has, made once for this process; the whole one where that cannot be asked."""
    folder = tempfile.mkdtemp(prefix="edgeveil-bare-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    Path(folder).chmod(0o755)  # for other users too
    return folder if fill(Path(folder)) else FULL


def hide(hidden: bool) -> None:
    """Leave what a bare Debian lacks out of PATH, or put it back; what a test put before it stays."""
    path, ways = os.environ.get("PATH", ""), (FULL, bare_path())
    os.environ["PATH"] = path.replace(*ways) if hidden else path.replace(*reversed(ways))


def need(*names: str) -> str:
    """Where the first of them is; skips the test that runs where one is missing. Raises unless it is marked."""
    import pytest

    if not marked:
        raise RuntimeError(f"a test that needs {', '.join(names)} has the marker programs")
    missing = [name for name in names if find(name) is None]
    if missing:
        pytest.skip(f"NO {', '.join(missing)} HERE: {INSTALL} {packages(missing)}")
    global asked
    asked = True
    hide(False)
    return str(find(names[0]))


def summary(reasons: Iterable[str]) -> str:
    """One line about the tests that were skipped for these reasons; empty where none was for want of a program."""
    found = [match for match in map(REASON.search, reasons) if match]
    if not found:
        return ""
    named = {name for match in found if match["names"] for name in match["names"].split(", ")}
    wanted = {one for match in found for one in match["packages"].split()}
    others = wanted - set(packages(named).split())
    tests = "1 test was" if len(found) == 1 else f"{len(found)} tests were"
    return f"{tests} skipped for want of {', '.join(sorted(named | others))}: {INSTALL} {' '.join(sorted(wanted))}"


if __name__ == "__main__":
    if sys.argv[1:]:
        fill(Path(sys.argv[1]))
    else:
        print(packages(name for name in [*PROGRAMS, *LIBRARIES] if find(name) is None))
