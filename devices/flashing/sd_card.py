"""``image:FILE`` and ``dir:FOLDER``: the boot partition of a card is written without root or mount, and read back.

It is FAT, in the image of a card (written by mtools) or mounted in a folder. It gets the tree of ``first_boot`` and a
first run in its ``cmdline.txt``. What starts it is written last: a half-written card does nothing.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from edgeveil.devices.flashing import first_boot
from edgeveil.devices.flashing.mounted_card import MountedCard
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed, reason

SPARE_BYTES = 8 * 2**20
KINDS = ("image:", "dir:")
SECTOR = 512  # of every SD card


class Media(Protocol):
    """A boot partition that can be written: paths begin with a slash."""

    name: str

    def free_bytes(self) -> int:
        """Free space."""
        ...

    def read(self, path: str) -> bytes | None:
        """A file's bytes, or None if there is no such file."""
        ...

    def write(self, files: dict[str, bytes]) -> None:
        """Write files, and create their folders."""
        ...

    def refuse_links(self, paths: list[str]) -> None:
        """Raise ``BadInput`` if a part of a path is a symbolic link, or a folder has the name of a file."""
        ...

    def check(self) -> None:
        """Raise ``BadInput`` where this user may not write it."""
        ...


def open_media(target: str) -> Media:
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
            found = file.read(SECTOR)
            if found[510:] == b"\x55\xaa" and (found[54:57] == b"FAT" or found[82:85] == b"FAT"):
                return start
    return None


def write_card(
    media: Media, files: dict[str, bytes], *, setup: Mapping[str, bytes] | None = None, dry_run: bool = False
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
    changed, before = first_boot.with_run(cmdline)
    if changed is None:
        raise BadInput(
            f"Expected a line of plain words in cmdline.txt of {media.name}, with no first run or one like Raspberry "
            "Pi Imager's (systemd.run=/boot/firstrun.sh); it has another. Boot the board once without EdgeVeil, then "
            "flash it over SSH."
        )
    placed = {f"/{first_boot.TREE}/{name}": data for name, data in files.items()}
    if before is not None:
        placed[f"/{first_boot.TREE}/{first_boot.BEFORE}"] = before.encode()
    media.refuse_links([*placed])
    if dry_run:
        return []
    _write_and_compare(media, own)
    _write_and_compare(media, placed)
    _write_and_compare(media, {"/cmdline.txt": changed})
    chained = [f"Imager's first run, {before}, runs first, then EdgeVeil's"] if before else []
    return [*chained, "a boot partition: host keys and machine id are in the other partition, and stay unchanged"]


def _write_and_compare(media: Media, files: dict[str, bytes]) -> None:
    """Write and read back."""
    media.write(files)
    for path, data in files.items():
        if media.read(path) != data:
            raise DeviceFailed(
                f"{path} differs from what was written to {media.name}: it has no space, or its disk is bad."
            )


class _Fat:
    """A FAT file system in a file, from byte ``offset``, by mtools."""

    def __init__(self, image: Path, offset: int) -> None:
        self.name = str(image)
        self._image = f"{image}@@{offset}"

    def free_bytes(self) -> int:
        text = _run(["mdir", "-i", self._image, "::"]).stdout.decode("utf-8", "replace")
        found = re.search(r"([\d ]+) bytes free", text)
        return int(found.group(1).replace(" ", "")) if found else 0

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
