"""Programs and libraries that tests need and a bare Debian 12 lacks, with the package that brings each.

    python3 -m tests.support.programs     the packages of those that are not here, for apt-get install

A test asks with ``need`` and carries the marker ``programs``; without them it is skipped, and the reason has the line
that installs them. ``tests/test_programs.py`` finds programs that are started in any other way.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

# Those of Debian's required packages, and Python: they are everywhere.
EVERYWHERE = frozenset({"bash", "cat", "chroot", "cp", "mount", "python3", "sh", "true", "umount", "unshare"})
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
marked = False  # does the running test have the marker? conftest.py keeps it


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
    path = os.environ["PATH"]
    bare = "/usr/bin" not in path.split(os.pathsep)
    if name in PROGRAMS:
        # Not on the PATH of an ordinary user.
        return shutil.which(name, path=path if bare else f"{path}:/usr/sbin:/sbin")
    return None if bare else next(map(str, Path("/").glob(LIBRARIES[name][0])), None)


def need(*names: str) -> str:
    """Where the first of them is; skips the test that runs where one is missing. Raises unless it is marked."""
    import pytest

    if not marked:
        raise RuntimeError(f"a test that needs {', '.join(names)} has the marker programs")
    missing = [name for name in names if find(name) is None]
    if missing:
        pytest.skip(f"NO {', '.join(missing)} HERE: {INSTALL} {packages(missing)}")
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
    print(packages(name for name in [*PROGRAMS, *LIBRARIES] if find(name) is None))
