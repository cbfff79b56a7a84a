"""Where the file systems of a card's image begin: at its start, or as a table of an MBR or a GPT says."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import BinaryIO

SECTOR = 512  # of every SD card; a GPT counts in it, too
_GPT, _PROTECTIVE = b"EFI PART", 0xEE
MOST_ENTRIES = 256  # twice what a GPT has by default: more is damage


def file_systems(image: Path) -> tuple[int | None, int | None]:
    """Offsets in bytes: of the ext file system that is the root, and of the first FAT one; None where there is none.

    The root is the last ext partition of an MBR, as on a Raspberry Pi. NVIDIA's GPT images have it first, with what
    the bootloader needs behind it (L4T's flash_l4t_sdcard.xml): of a GPT it is the largest.
    """
    with image.open("rb") as file:
        head = file.read(4096)
        if _is_ext(head):
            return 0, None
        if _is_fat(head):
            return None, 0
        gpt = _gpt(file)
        parts = _mbr(head) if gpt is None else gpt
        ext = [(size, start) for start, size in parts if _is_ext(_beginning(file, start))]
        fat = [start for start, _ in parts if _is_fat(_beginning(file, start))]
    root = None if not ext else ext[-1][1] if gpt is None else max(ext)[1]
    return root, fat[0] if fat else None


def _mbr(head: bytes) -> list[tuple[int, int]]:
    """(offset, size) of each partition, in bytes."""
    if head[510:512] != b"\x55\xaa":
        return []
    entries = [head[place : place + 16] for place in range(446, 510, 16)]
    found = [(entry[4], *struct.unpack_from("<II", entry, 8)) for entry in entries]
    return [(start * SECTOR, size * SECTOR) for kind, start, size in found if start and kind not in (0, _PROTECTIVE)]


def _gpt(file: BinaryIO) -> list[tuple[int, int]] | None:
    """(offset, size) of each partition, in bytes; None without a GPT (UEFI specification, section 5.3)."""
    file.seek(SECTOR)
    header = file.read(92)
    if header[:8] != _GPT:
        return None
    (first,) = struct.unpack_from("<Q", header, 72)
    count, size = struct.unpack_from("<II", header, 80)
    if size < 128 or size > 4096:
        return []
    if first * SECTOR > file.seek(0, os.SEEK_END):
        return []
    file.seek(first * SECTOR)
    table = file.read(min(count, MOST_ENTRIES) * size)
    found = []
    for at in range(0, len(table) - 127, size):
        begin, end = struct.unpack_from("<QQ", table, at + 32)
        if any(table[at : at + 16]) and 0 < begin <= end:
            found.append((begin * SECTOR, (end - begin + 1) * SECTOR))
    return found


def _beginning(file: BinaryIO, start: int) -> bytes:
    if start > file.seek(0, os.SEEK_END):
        return b""
    file.seek(start)
    return file.read(4096)


def _is_ext(head: bytes) -> bool:
    return head[1080:1082] == b"\x53\xef"


def _is_fat(head: bytes) -> bool:
    return head[510:512] == b"\x55\xaa" and (head[54:57] == b"FAT" or head[82:85] == b"FAT")
