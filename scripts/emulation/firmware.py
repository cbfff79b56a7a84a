"""What a board's firmware does, for a card in a virtual board: it reads kernel, initramfs and the kernel's command line
out of the boot partition and starts them, again after each reboot or reset; it ends when the board is switched off.

    python3 firmware.py CARD CONSOLE.LOG QEMU ARGUMENTS...
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

BOOT_AT = 2**20
FILES = ("cmdline.txt", "kernel8.img", "initramfs8")


def boot(card: str, console: Path, command: list[str]) -> bool:
    """One boot, as long as it lasts; whether another follows: the board was not switched off."""
    with tempfile.TemporaryDirectory() as folder:
        for name in FILES:
            subprocess.run(["mcopy", "-n", "-i", f"{card}@@{BOOT_AT}", "::" + name, folder], check=True)
        line = Path(folder, "cmdline.txt").read_text().strip()
        print(f"boots with: {line}", flush=True)
        before = console.stat().st_size if console.exists() else 0
        more = ["-kernel", f"{folder}/kernel8.img", "-initrd", f"{folder}/initramfs8", "-append", line]
        subprocess.run([*command, *more], check=True)
    with console.open("rb") as file:
        file.seek(before)
        return b"reboot: Power down" not in file.read()


if __name__ == "__main__":
    while boot(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]):
        pass
