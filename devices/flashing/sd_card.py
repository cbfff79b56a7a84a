"""The boot partition of a card: the files by which its board flashes itself, and how they are written there."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from edgeveil.devices.agents import read_agent
from edgeveil.devices.flashing import service_files
from edgeveil.devices.flashing.steps import InstallRelease, MakeLedger, Plan, TrustKeys, UnpackWheels, WriteService
from edgeveil.devices.transports.base import digest
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed, reason
from edgeveil.edge_runtime.paths import LEDGER

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class MountedCard:
    """A boot partition that is mounted: ``dir:/media/bootfs``.

    An earlier owner of the card may have put links on it that lead into this machine. Each part of each path is opened
    from the descriptor of the one before and no link is followed, so nothing is read or written outside the card.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self.name = folder, str(folder)

    def free_bytes(self) -> int:
        """Free space."""
        try:
            return shutil.disk_usage(self._folder).free
        except OSError as error:
            raise self._failed(error) from None

    def read(self, path: str) -> bytes | None:
        """A file's bytes, or None if there is no such file."""
        with contextlib.suppress(FileNotFoundError), self._parent(path) as (folder, last):
            self._refuse_link(path, folder, last)
            if not stat.S_ISREG(os.lstat(last, dir_fd=folder).st_mode):
                return None
            # Without O_NONBLOCK, opening a pipe would wait for its other end.
            handle = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            with os.fdopen(handle, "rb") as file:
                return file.read()
        return None

    def write(self, files: dict[str, bytes]) -> None:
        """Write files, and create their folders. A file that is there is replaced, not changed."""
        try:
            for path, data in files.items():
                with self._parent(path, make=True) as (folder, last):
                    self._refuse_link(path, folder, last)
                    _replace(folder, last, data)
        except OSError as error:
            raise self._failed(error) from None

    def refuse_links(self, paths: list[str]) -> None:
        """Raise ``BadInput`` if a part of a path is a symbolic link, or a folder has the name of a file."""
        for path in paths:
            with contextlib.suppress(FileNotFoundError), self._parent(path) as (folder, last):
                self._refuse_link(path, folder, last)
                if last != "." and stat.S_ISDIR(os.lstat(last, dir_fd=folder).st_mode):
                    raise BadInput(f"Expected a file or nothing at {path} on {self.name}; it is a folder. Remove it.")

    def check(self) -> None:
        """Raises ``BadInput`` where this user may not write the folder."""
        if not os.access(self._folder, os.W_OK):
            raise BadInput(
                f"Expected a card that can be written at {self.name}; it is mounted read-only, or for another user. "
                "Mount it for writing, or look at the lock on its side."
            )

    @contextlib.contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """A descriptor of the folder that holds ``path``, and the last part of it. ``make``: make missing folders.

        Raises ``DeviceFailed`` for whatever fails while it is used, but ``FileNotFoundError`` for what is not there.
        """
        *folders, last = path.strip("/").split("/")
        try:
            handle = os.open(self._folder, _FOLDER)
        except OSError as error:
            raise self._failed(error) from None
        try:
            for depth, name in enumerate(folders, 1):
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(name, 0o755, dir_fd=handle)
                try:
                    inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=handle)
                except OSError as error:
                    if error.errno in (errno.ELOOP, errno.ENOTDIR):
                        refuse_link(self.name, "/" + "/".join(folders[:depth]))
                    raise
                os.close(handle)
                handle = inner
            yield handle, last
        except FileNotFoundError:
            raise  # the caller knows what that means
        except OSError as error:
            raise self._failed(error) from None
        finally:
            os.close(handle)

    def _failed(self, error: OSError) -> DeviceFailed:
        return DeviceFailed(
            f"{self.name} cannot be read or written any more ({error.strerror}). If the card was pulled, put it back "
            "and write it again: it starts nothing of EdgeVeil until it is complete."
        )

    def _refuse_link(self, path: str, folder: int, last: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISLNK(os.lstat(last, dir_fd=folder).st_mode):
                refuse_link(self.name, path)


def _replace(folder: int, name: str, data: bytes) -> None:
    """A new file under this name: what was there may be a pipe, or have a second name outside the card."""
    part = name + ".edgeveil-part"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(part, dir_fd=folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(part, flags, 0o644, dir_fd=folder), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)


def refuse_link(card: str, path: str) -> NoReturn:
    """Raise ``BadInput`` for a link on a card."""
    raise BadInput(
        f"{path} on {card} is a link or no folder, and could lead out of the card. Nothing follows it: write a fresh "
        "image to the card, then flash again."
    )


# ``image:FILE`` and ``dir:FOLDER``: the boot partition of a card is written without root or mount, and read back.
#
# It is FAT, in the image of a card (written by mtools) or mounted in a folder. It gets the tree of ``first_boot`` and a
# first run in its ``cmdline.txt``. What starts it is written last: a half-written card does nothing.


SPARE_BYTES = 8 * 2**20
KINDS = ("image:", "dir:")
SECTOR = 512  # of every SD card


def open_media(target: str) -> MountedCard | _Fat:
    """The boot partition that ``image:FILE`` or ``dir:FOLDER`` names. Raises ``BadInput``."""
    kind, _, place = target.partition(":")
    path = Path(place)
    if kind == "dir":
        if not path.is_dir():
            raise BadInput(f"Expected the folder of a mounted boot partition at {place}; there is none.")
        return MountedCard(path)
    if not path.is_file():
        raise BadInput(f"Expected an image of a card at {place}; there is no such file.")
    try:
        start = _boot_partition(path)
    except OSError as error:
        raise BadInput(f"{place} cannot be read: {reason(error)}.") from None
    if start is None:
        raise BadInput(
            f"Expected the image of a card with a FAT boot partition in its MBR in {place}; there is none. Boot that "
            "system as it is, then flash the board over SSH."
        )
    return _Fat(path, start)


def _boot_partition(image: Path) -> int | None:
    """Where the first FAT file system begins, in bytes: at the start of the image, or where its MBR says."""
    with image.open("rb") as file:
        head = file.read(SECTOR)
        entries = range(446, 510, 16) if head[510:] == b"\x55\xaa" else ()
        for start in (0, *(int.from_bytes(head[at + 8 : at + 12], "little") * SECTOR for at in entries)):
            file.seek(start)
            sector = file.read(SECTOR)
            if sector[510:] == b"\x55\xaa" and (sector[54:57] == b"FAT" or sector[82:85] == b"FAT"):
                return start
    return None


def write_card(
    media: MountedCard | _Fat,
    files: dict[str, bytes],
    *,
    setup: Mapping[str, bytes] | None = None,
    dry_run: bool = False,
) -> list[str]:
    """Write the tree ``files`` and what starts it; returns lines to show. Raises ``BadInput``, ``DeviceFailed``.

    ``setup`` are the files by which the image sets itself up. Everything is checked before the first change, and a dry
    run ends there.
    """
    own = dict(setup or {})
    media.refuse_links([*own])
    media.check()
    needed, free = sum(map(len, [*files.values(), *own.values()])) + SPARE_BYTES, media.free_bytes()
    if free < needed:
        raise BadInput(
            f"{needed >> 20} MiB free were expected in {media.name}; there are {free >> 20}. Make room there."
        )
    cmdline = media.read("/cmdline.txt")
    if cmdline is None:
        raise BadInput(
            f"Expected a Raspberry Pi's boot partition in {media.name}; it has no cmdline.txt. Boot a system that is "
            "not configured there as it is, then flash the board over SSH."
        )
    changed, before = with_run(cmdline)
    if changed is None:
        raise BadInput(
            f"Expected a line of plain words in cmdline.txt of {media.name}, with no first run or one like Raspberry "
            "Pi Imager's (systemd.run=/boot/firstrun.sh); it has another. Boot the board once without EdgeVeil, then "
            "flash it over SSH."
        )
    placed = {f"/{TREE}/{name}": data for name, data in files.items()}
    if before is not None:
        placed[f"/{TREE}/{BEFORE}"] = before.encode()
    media.refuse_links([*placed])
    if dry_run:
        return []
    _write_and_compare(media, own)
    _write_and_compare(media, placed)
    _write_and_compare(media, {"/cmdline.txt": changed})
    chained = [f"Imager's first run, {before}, runs first, then EdgeVeil's"] if before else []
    return [*chained, "a boot partition: host keys and machine id are in the other partition, and stay unchanged"]


def _write_and_compare(media: MountedCard | _Fat, files: dict[str, bytes]) -> None:
    """Write and read back."""
    media.write(files)
    for path, data in files.items():
        if media.read(path) != data:
            raise DeviceFailed(
                f"{path} differs from what was written to {media.name}: it has no space, or its disk is bad."
            )


class _Fat:
    """A FAT file system in a file, from byte ``offset``, by mtools; with the methods of a ``MountedCard``."""

    def __init__(self, image: Path, offset: int) -> None:
        self.name = str(image)
        self._image = f"{image}@@{offset}"

    def free_bytes(self) -> int:
        text = _run(["mdir", "-i", self._image, "::"]).stdout.decode("utf-8", "replace")
        match = re.search(r"([\d ]+) bytes free", text)
        return int(match.group(1).replace(" ", "")) if match else 0

    def read(self, path: str) -> bytes | None:
        done = _run(["mtype", "-i", self._image, "::" + path], codes=range(256))
        return done.stdout if done.returncode == 0 else None

    def write(self, files: dict[str, bytes]) -> None:
        folders = {str(parent): None for path in files for parent in reversed(Path(path).parents)}
        for folder in folders:
            if folder != "/":
                _run(["mmd", "-i", self._image, "-D", "s", "::" + folder], codes=(0, 1))
        with tempfile.TemporaryDirectory() as folder:
            for path, data in files.items():
                place = Path(folder, "in")
                place.write_bytes(data)
                _run(["mcopy", "-i", self._image, "-o", str(place), "::" + path], codes=(0, 1))

    def refuse_links(self, paths: list[str]) -> None:
        """A FAT file system has none."""

    def check(self) -> None:
        if not os.access(self.name, os.W_OK):
            raise BadInput(f"Expected an image that can be written at {self.name}; this user may not write it.")


def _run(command: list[str], *, codes: range | tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "MTOOLS_SKIP_CHECK": "1", "LC_ALL": "C"}
    try:
        done = subprocess.run(  # noqa: S603 - fixed programs, no shell
            command, stdin=subprocess.DEVNULL, capture_output=True, env=environment, timeout=600
        )
    except FileNotFoundError:
        raise BadInput(
            f"mtools writes into an image, and its {command[0]} is not on this machine: apt-get install mtools, or "
            "mount the boot partition and name dir:FOLDER."
        ) from None
    if done.returncode not in codes:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no message"]
        raise DeviceFailed(f"{command[0]} failed with code {done.returncode}: {last[0][:200]}")
    return done


# The files by which a board flashes itself at its first boot; a pure function of the plan's steps.
#
# The board then does what a flash over a connection does: the runtime on the card verifies the bundle, tries it and
# commits it. ``files.json`` has every file's SHA-256, so a damaged card is found before anything is changed.


TREE = "edgeveil-first-boot"
RUN = (
    f"systemd.run=/boot/firmware/{TREE}/run.sh systemd.run_success_action=reboot "
    "systemd.unit=kernel-command-line.target"
)
BEFORE = "before"  # in the tree: the program of another first run
_PROGRAM = re.compile(r"/boot/[A-Za-z0-9._/-]+")
_WITH_A_RUN = {"systemd.run_success_action=reboot", "systemd.unit=kernel-command-line.target"}


def tree(plan: Plan, root: str, environment: Mapping[str, str]) -> dict[str, bytes]:
    """The files of the tree by their names in it (``bundle.veil``, ``trust/root.pub``, ...).

    ``environment`` is what this board's libraries need, of its profile.
    """
    blobs: dict[str, bytes] = {}
    places: dict[str, str] = {}
    job: dict[str, Any] = {"root": root, "places": places, "site": None, "users": [], "enabling": []}
    job |= {"groups": {}, "removed": [], "ledger": None, "environment": dict(environment)}
    for step in plan.steps:
        match step:
            case TrustKeys(trust):
                for name, data in trust.files.items():
                    blobs[f"trust/{name}"], places[f"trust/{name}"] = data, f"{root}/trust/{name}"
            case UnpackWheels(wheels):
                blobs["site.zip"] = wheels.archive
                blobs["unpack_wheels.py"] = read_agent("unpack_wheels")
                job["site"] = {"sha256": digest(wheels.archive), "place": f"{root}/{wheels.name}"}
            case InstallRelease():
                blobs |= {"bundle.veil": step.bundle.data, "edgeveil-edge.pyz": step.bundle.runtime}
                job["trial"] = step.options
            case WriteService(files, owner):
                for path, data in files.items():
                    name = "system/" + path.rsplit("/", 1)[1]
                    blobs[name], places[name] = data, path
                job["users"] = [[user, command] for user, command in service_files.user_commands(owner, files).items()]
                job |= {
                    "enabling": service_files.enable_commands(files),
                    "groups": service_files.groups(owner),
                    "removed": service_files.left_over(files),
                }
            case MakeLedger(owner):
                job["ledger"] = {"place": LEDGER, "owner": owner.user}
                blobs["make_ledger.py"] = read_agent("make_ledger")
    blobs["job.json"] = json.dumps(job, indent=1, sort_keys=True).encode()
    blobs["first_boot.py"], blobs["run.sh"] = read_agent("boot_from_card"), _RUN_SH.encode()
    blobs["files.json"] = json.dumps({name: digest(data) for name, data in sorted(blobs.items())}, indent=1).encode()
    return blobs


def with_run(cmdline: bytes) -> tuple[bytes | None, str | None]:
    """The kernel's command line with the first run added, and the program of another first run that it replaces.

    Raspberry Pi Imager writes one for users, host name and Wi-Fi. ``run.sh`` runs it before EdgeVeil's. The program is
    "" where there is none, and None where the first run was added before. The line is None if it is not understood.
    """
    line = cmdline.decode("utf-8", "replace").strip()
    if RUN in line:
        return cmdline, None
    words = line.split(" ")
    runs = [word for word in words if word.startswith("systemd.run=")]
    others = {word for word in words if word.startswith("systemd.run_") or word.startswith("systemd.unit=")}
    if "\n" in line or not line or len(runs) > 1 or not others <= _WITH_A_RUN:
        return None, ""
    before = runs[0].partition("=")[2] if runs else ""
    if (runs and not _PROGRAM.fullmatch(before)) or (others and not runs):
        return None, ""
    rest = " ".join(word for word in words if word not in others and word not in runs)
    return f"{rest} {RUN}\n".encode(), before


_RUN_SH = f"""#!/bin/sh
# Run once by systemd.run= in cmdline.txt, which is restored in any case, so that the board boots as usual.
here=/boot/firmware/{TREE}
line=/boot/firmware/cmdline.txt
before=$(cat $here/{BEFORE} 2>/dev/null)
# Imager names /boot/firstrun.sh also where that lies in /boot/firmware. It takes its words out of the line.
[ -f "$before" ] || before="/boot/firmware/${{before##*/}}"
if [ -f "$before" ]; then
    /bin/bash "$before" < /dev/null > /boot/firmware/{TREE}-{BEFORE}.log 2>&1
    rm -f "$before" $here/{BEFORE}
    # A power cut from here on runs EdgeVeil's alone again.
    grep -q systemd.run= $line || sed -i 's|$| {RUN}|' $line
fi
/usr/bin/python3 $here/first_boot.py > /boot/firmware/{TREE}.log 2>&1
echo "ended with code $?" >> /boot/firmware/{TREE}.log
sed -i 's| systemd\\.run=.*||' $line
sync
exit 0
"""
