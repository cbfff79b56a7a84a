"""For which processor a root file system is made, by the header of a program that every one has."""

from __future__ import annotations

import struct

PROGRAM = "/usr/bin/env"
# ELF's e_machine: AArch64, 32-bit ARM, x86-64.
_MACHINES = {0xB7: "aarch64", 0x28: "armv7l", 0x3E: "x86_64"}


def architecture_of(program: bytes | None) -> str | None:
    """The architecture of an ELF program, as profiles name it; None for what is no ELF, or for another processor."""
    if program is None or program[:4] != b"\x7fELF" or len(program) < 20:
        return None
    return _MACHINES.get(struct.unpack_from("<H", program, 18)[0])
