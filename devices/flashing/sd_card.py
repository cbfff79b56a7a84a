"""``image:FILE`` and ``dir:FOLDER``: a card is written without root, loop device or mount, and read back.

A root file system (ext4 in an image, by debugfs; a mounted one) gets the tree of ``first_boot`` and a unit that runs
it, and loses what must not be the same on two boards. A boot partition (FAT, by mtools; a mounted one) gets the tree
and a first run in its ``cmdline.txt``. What starts it is written last: a half-written card does nothing.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from edgeveil.devices.flashing import first_boot
from edgeveil.devices.flashing.images.partition_table import file_systems
from edgeveil.devices.flashing.images.program_architecture import PROGRAM, architecture_of
from edgeveil.devices.flashing.mounted_card import MountedCard, refuse_link
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed

SPARE_BYTES = 8 * 2**20
KINDS = ("image:", "dir:")
_TREE = "/opt/" + first_boot.TREE
_UNITS = "/etc/systemd/system"
_WANTS = f"{_UNITS}/multi-user.target.wants"
_SYSTEM = ("/etc", "/usr")  # what every root file system has
_HOST_KEY = re.compile(r"ssh_host_[A-Za-z0-9_.-]*")  # a name that is safe in a command of debugfs


class Media(Protocol):
    """A file system that can be written: paths begin with a slash."""

    name: str
    is_root: bool  # a root file system, not a boot partition

    def free_bytes(self) -> int:
        """Free space."""
        ...

    def read(self, path: str) -> bytes | None:
        """A file's bytes, or None if there is no such file."""
        ...

    def write(self, files: dict[str, bytes], *, links: dict[str, str] | None = None) -> None:
        """Write files, then symbolic links, and create their folders."""
        ...

    def remove(self, paths: list[str]) -> None:
        """Remove files; one that does not exist is no error."""
        ...

    def names(self, folder: str) -> list[str]:
        """The names in a folder."""
        ...

    def has(self, path: str) -> bool:
        """Whether there is anything of that name."""
        ...

    def refuse_links(self, paths: list[str]) -> None:
        """Raise ``BadInput`` if a part of a path is a symbolic link."""
        ...

    def check(self) -> None:
        """Raise ``BadInput`` or ``DeviceFailed`` if the file system is damaged."""
        ...


def open_media(target: str) -> Media:
    """The file system that ``image:FILE`` or ``dir:FOLDER`` names. Raises ``BadInput``."""
    kind, _, place = target.partition(":")
    path = Path(place)
    if kind == "dir":
        if not path.is_dir():
            raise BadInput(f"Expected the folder of a mounted card at {place}; there is none.")
        return MountedCard(path)
    if not path.is_file():
        raise BadInput(f"Expected an image of a card at {place}; there is no such file.")
    ext, fat = file_systems(path)
    if ext is not None:
        return _Ext(path, ext)
    if fat is not None:
        return _Fat(path, fat)
    raise BadInput(f"Expected an ext4 or FAT file system in {place}, at its beginning or by its table; there is none.")


def open_boot(target: str, media: Media) -> Media:
    """The boot partition of the card that ``media`` is of. Raises ``BadInput`` where it is not reached."""
    if not media.is_root:
        return media
    kind, _, place = target.partition(":")
    fat = file_systems(Path(place))[1] if kind == "image" else None
    if fat is None:
        raise BadInput(
            f"Expected a boot partition (FAT) with {place}: --setup is written there. Name the image of the whole "
            "card, or the folder where its boot partition is mounted."
        )
    return _Fat(Path(place), fat)


def write_card(
    media: Media,
    files: dict[str, bytes],
    architecture: str | None = None,
    *,
    boot: Media | None = None,
    setup: Mapping[str, bytes] | None = None,
    dry_run: bool = False,
) -> list[str]:
    """Write the tree ``files`` and what starts it; returns lines to show. Raises ``BadInput``, ``DeviceFailed``.

    ``architecture`` is the board's: a root file system for another one is refused. ``setup`` are the files on the boot
    partition ``boot`` by which the image sets itself up. Everything is checked before the first change, and a dry run
    ends there.
    """
    own, boot = dict(setup or {}), media if boot is None else boot
    boot.refuse_links([*own])
    media.check()
    needed, free = sum(map(len, [*files.values(), *own.values()])) + SPARE_BYTES, media.free_bytes()
    if free < needed:
        raise BadInput(
            f"{needed >> 20} MiB free were expected in {media.name}; there are {free >> 20}. Make room there."
        )
    write = _root_writer(media, files, architecture) if media.is_root else _boot_writer(media, files)
    if dry_run:
        return []
    _write_and_compare(boot, own)
    return write()


def _boot_writer(media: Media, files: dict[str, bytes]) -> Callable[[], list[str]]:
    """What writes a boot partition, after its checks."""
    cmdline = media.read("/cmdline.txt")
    if cmdline is None:
        raise BadInput(
            f"Expected a root file system or a Raspberry Pi's boot partition in {media.name}: it has no cmdline.txt."
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

    def write() -> list[str]:
        _write_and_compare(media, placed)
        _write_and_compare(media, {"/cmdline.txt": changed})
        media.check()
        chained = [f"Imager's first run, {before}, runs first, then EdgeVeil's"] if before else []
        return [*chained, "a boot partition: host keys and machine id are in the other partition, and stay unchanged"]

    return write


def _root_writer(media: Media, files: dict[str, bytes], architecture: str | None) -> Callable[[], list[str]]:
    """What writes a root file system, after its checks."""
    blank = [folder for folder in _SYSTEM if not media.has(folder)]
    if blank:
        raise BadInput(
            f"Expected a board's system in {media.name}; there is no {' and no '.join(blank)}: it is blank, or "
            "holds something else. Write the board's own image first (docs/how-to/flash-a-board.md), then flash."
        )
    made_for = architecture_of(media.read(PROGRAM))
    if architecture is not None and made_for not in (None, architecture):
        raise BadInput(
            f"The system in {media.name} is for {made_for}, and the board's profile for {architecture}: name the "
            "profile of that board (edgeveil devices list), or write the right image."
        )
    placed = {f"{_TREE}/{name}": data for name, data in files.items()}
    units = {f"{_UNITS}/{name}": data for name, data in first_boot.units(_TREE).items()}
    placed |= dict.fromkeys(first_boot.EMPTIED, b"")
    # The entries of the last folder are links, which are replaced.
    media.refuse_links([*placed, *units, f"{_WANTS}/.", f"{first_boot.HOST_KEYS}/."])
    return lambda: _write_root(media, placed, units)


def _write_root(media: Media, placed: dict[str, bytes], units: dict[str, bytes]) -> list[str]:
    keys = [f"{first_boot.HOST_KEYS}/{n}" for n in media.names(first_boot.HOST_KEYS) if _HOST_KEY.fullmatch(n)]
    gone = [path for path in (*first_boot.REMOVED, *keys) if media.has(path)]
    media.remove(gone)
    _write_and_compare(media, {**placed, **units})
    media.write({}, links={f"{_WANTS}/{path.rsplit('/', 1)[1]}": path for path in units})
    left = [path for path in gone if media.has(path)]
    left += sorted(set(first_boot.units(_TREE)) - set(media.names(_WANTS)))
    if left:
        raise DeviceFailed(f"{media.name} was not written completely: {', '.join(left)}. Write the card again.")
    media.check()
    return [f"cleared: {', '.join([*gone, *first_boot.EMPTIED])}"]


def _write_and_compare(media: Media, files: dict[str, bytes]) -> None:
    """Write and read back."""
    media.write(files)
    for path, data in files.items():
        if media.read(path) != data:
            raise DeviceFailed(
                f"{path} differs from what was written to {media.name}: it has no space, or its disk is bad."
            )


class _Ext:
    """An ext4 file system in a file, from byte ``offset``, by debugfs."""

    is_root = True

    def __init__(self, image: Path, offset: int) -> None:
        self.name = str(image)
        self._image = f"{image}?offset={offset}"

    def free_bytes(self) -> int:
        text = _run(["dumpe2fs", "-h", self._image]).stdout.decode("utf-8", "replace")
        found = {key: int(value) for key, value in re.findall(r"(Free blocks|Block size):\s+(\d+)", text)}
        return found["Free blocks"] * found["Block size"]

    def read(self, path: str) -> bytes | None:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder, "out")
            self._debugfs([f'dump {path} "{place}"'], write=False)
            if "Type: regular" not in self._debugfs([f"stat {path}"], write=False):
                return None
            return place.read_bytes()

    def write(self, files: dict[str, bytes], *, links: dict[str, str] | None = None) -> None:
        folders = {str(parent): None for path in (*files, *(links or {})) for parent in reversed(Path(path).parents)}
        # Where one is there already, debugfs's mkdir leaves a stray inode behind.
        commands = [f"mkdir {f}" for f in folders if "Type: dir" not in self._debugfs([f"stat {f}"], write=False)]
        with tempfile.TemporaryDirectory() as folder:
            for number, (path, data) in enumerate(files.items()):
                place = Path(folder, str(number))
                place.write_bytes(data)
                place.chmod(0o755 if path.endswith(".sh") else 0o644)
                commands += [f"rm {path}", f'write "{place}" {path}']
            for path, target in (links or {}).items():
                commands += [f"rm {path}", f"symlink {path} {target}"]
            self._debugfs(commands, write=True)

    def remove(self, paths: list[str]) -> None:
        self._debugfs([f"rm {path}" for path in paths], write=True)

    def names(self, folder: str) -> list[str]:
        text = self._debugfs([f"ls -p {folder}"], write=False)
        return sorted(line.split("/")[5] for line in text.splitlines() if line.count("/") >= 6)

    def has(self, path: str) -> bool:
        return "Inode:" in self._debugfs([f"stat {path}"], write=False)

    def refuse_links(self, paths: list[str]) -> None:
        parts = {str(part): None for path in paths for part in (*reversed(Path(path).parents), Path(path))}
        for part in parts:
            if "Type: symlink" in self._debugfs([f"stat {part}"], write=False):
                refuse_link(self.name, part)

    def check(self) -> None:
        done = _run(["e2fsck", "-fn", self._image], codes=range(256))
        if done.returncode:
            raise BadInput(f"The ext4 file system in {self.name} is not clean: run e2fsck on it, or use a fresh image.")

    def _debugfs(self, commands: list[str], *, write: bool) -> str:
        # A failure is found when the file is read back: debugfs itself always ends with code 0.
        with tempfile.NamedTemporaryFile("w", suffix=".debugfs") as script:
            script.write("\n".join(commands) + "\n")
            script.flush()
            done = _run(["debugfs", *(["-w"] if write else []), "-f", script.name, self._image])
        return done.stdout.decode("utf-8", "replace")


class _Fat:
    """A FAT file system in a file, from byte ``offset``, by mtools."""

    is_root = False

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

    def write(self, files: dict[str, bytes], *, links: dict[str, str] | None = None) -> None:
        if links:
            raise BadInput("A FAT file system has no links.")
        folders = {str(parent): None for path in files for parent in reversed(Path(path).parents)}
        for folder in folders:
            if folder != "/":
                _run(["mmd", "-i", self._image, "-D", "s", "::" + folder], codes=(0, 1))
        with tempfile.TemporaryDirectory() as folder:
            for path, data in files.items():
                place = Path(folder, "in")
                place.write_bytes(data)
                _run(["mcopy", "-i", self._image, "-o", str(place), "::" + path], codes=(0, 1))

    def remove(self, paths: list[str]) -> None:
        for path in paths:
            _run(["mdel", "-i", self._image, "::" + path], codes=(0, 1))

    def names(self, folder: str) -> list[str]:
        done = _run(["mdir", "-i", self._image, "-b", "::" + folder], codes=(0, 1))
        return sorted(line.rstrip("/").rsplit("/", 1)[1] for line in done.stdout.decode().splitlines() if "/" in line)

    def has(self, path: str) -> bool:
        return self.read(path) is not None

    def refuse_links(self, paths: list[str]) -> None:
        """A FAT file system has none."""

    def check(self) -> None:
        """mtools reads each file's chain of clusters when it is read back."""


def _run(command: list[str], *, codes: range | tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin", "MTOOLS_SKIP_CHECK": "1"}
    try:
        done = subprocess.run(  # noqa: S603 - fixed programs, no shell
            command, stdin=subprocess.DEVNULL, capture_output=True, env={**environment, "LC_ALL": "C"}, timeout=600
        )
    except FileNotFoundError:
        raise BadInput(f"{command[0]} was expected on this machine: apt-get install e2fsprogs mtools.") from None
    if done.returncode not in codes:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no message"]
        raise DeviceFailed(f"{command[0]} failed with code {done.returncode}: {last[0][:200]}")
    return done
