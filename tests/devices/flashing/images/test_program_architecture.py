"""The wrong image for a board is found before a byte of it is changed."""

import struct
import sys
from pathlib import Path

import pytest

from edgeveil.devices.flashing.images.program_architecture import architecture_of
from edgeveil.devices.flashing.mounted_card import MountedCard
from edgeveil.devices.flashing.sd_card import write_card
from edgeveil.edge_runtime.errors import BadInput


def elf(machine):
    return b"\x7fELF" + bytes(14) + struct.pack("<H", machine) + bytes(40)


@pytest.mark.parametrize(("machine", "name"), [(0xB7, "aarch64"), (0x28, "armv7l"), (0x3E, "x86_64"), (0xF3, None)])
def test_the_architecture_of_a_program(machine, name):
    assert architecture_of(elf(machine)) == name


def test_this_machines_own_and_what_is_no_program():
    assert architecture_of(Path(sys.executable).resolve().read_bytes()) in ("x86_64", "aarch64")
    assert architecture_of(b"#!/bin/sh\n" + bytes(40)) is None
    assert architecture_of(None) is None


@pytest.mark.parametrize(("machine", "fits"), [(0x28, False), (0xB7, True)])
def test_a_32_bit_system_for_a_64_bit_board(tmp_path, machine, fits):
    for name in ("etc/ssh", "usr/bin", "etc/systemd/system", "opt"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "usr/bin/env").write_bytes(elf(machine))
    before = sorted(tmp_path.rglob("*"))
    if fits:
        assert write_card(MountedCard(tmp_path), {"job.json": b"{}"}, "aarch64")
        return
    with pytest.raises(BadInput, match=r"is for armv7l, and the board's profile for aarch64"):
        write_card(MountedCard(tmp_path), {"job.json": b"{}"}, "aarch64")
    assert sorted(tmp_path.rglob("*")) == before
