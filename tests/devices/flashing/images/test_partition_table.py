"""Images as vendors make them: GPT cards of Jetsons, MBR cards of Raspberry Pis, with real file systems in them."""

import struct
import subprocess
import uuid

import pytest

from edgeveil.devices.flashing import sd_card
from edgeveil.devices.flashing.images.partition_table import SECTOR, file_systems
from edgeveil.edge_runtime.errors import BadInput
from tests.support import programs

pytestmark = pytest.mark.programs

MIB = 2**20
LINUX = uuid.UUID("0FC63DAF-8483-4772-8E79-3D69D8477DE4").bytes_le


def gpt(path, parts, *, size=24 * MIB, entry=128, count=128):
    """An image with a protective MBR and a GPT of ``parts``, as (offset, bytes), both in bytes."""
    header = bytearray(92)
    header[:8] = b"EFI PART"
    struct.pack_into("<Q", header, 72, 2)
    struct.pack_into("<II", header, 80, count, entry)
    with path.open("wb") as file:
        file.truncate(size)
        file.seek(446)
        file.write(struct.pack("<B3xB3xII", 0, 0xEE, 1, size // SECTOR - 1) + bytes(48) + b"\x55\xaa")
        file.seek(SECTOR)
        file.write(header)
        for number, (start, length) in enumerate(parts):
            file.seek(2 * SECTOR + number * entry)
            ends = struct.pack("<QQ", start // SECTOR, (start + length) // SECTOR - 1)
            file.write(LINUX + uuid.uuid4().bytes + ends)
    return path


def ext(path, start, size, tree=None):
    more = ["-d", str(tree)] if tree else []
    command = [
        programs.need("mke2fs", "debugfs"),
        "-q",
        "-t",
        "ext4",
        *more,
        "-E",
        f"offset={start}",
        str(path),
        f"{size // 1024}k",
    ]
    subprocess.run(command, check=True, capture_output=True)


def test_a_jetsons_card_has_its_root_first_and_smaller_ones_behind(tmp_path):
    """L4T's table: APP is the first entry, what the bootloader needs comes after it."""
    tree = tmp_path / "tree"
    (tree / "usr").mkdir(parents=True)
    (tree / "etc").mkdir()
    (tree / "etc/nv_tegra_release").write_text("# R32 (release), REVISION: 7.1\n")
    image = gpt(tmp_path / "jetson.img", [(12 * MIB, 10 * MIB), (MIB, 4 * MIB), (6 * MIB, 2 * MIB)])
    ext(image, 12 * MIB, 10 * MIB, tree)
    ext(image, MIB, 4 * MIB)
    assert file_systems(image) == (12 * MIB, None)
    media = sd_card.open_media(f"image:{image}")
    assert media.is_root
    assert media.read("/etc/nv_tegra_release").startswith(b"# R32")


def test_a_table_that_is_damaged_or_huge_is_no_card_and_no_crash(tmp_path):
    for name, more in (("entries", {"count": 2**32 - 1}), ("size", {"entry": 64}), ("wide", {"entry": 2**31})):
        damaged = {**{"count": 128, "entry": 128}, **more}
        image = gpt(tmp_path / name, [])
        with image.open("r+b") as file:
            file.seek(SECTOR + 80)
            file.write(struct.pack("<II", damaged["count"], damaged["entry"]))
        assert file_systems(image) == (None, None)
        with pytest.raises(BadInput, match="Expected an ext4 or FAT file system"):
            sd_card.open_media(f"image:{image}")


def test_a_partition_that_lies_behind_the_end_is_none(tmp_path):
    assert file_systems(gpt(tmp_path / "short", [(2**60, MIB)])) == (None, None)
