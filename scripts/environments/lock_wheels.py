"""Write devices/profiles/wheels.txt: the hashes of what profiles' recipes name, and sources and sinks need.

    .venv/bin/python -m scripts.environments.lock_wheels

The hashes cover every wheel of a release, for all processors; `edgeveil board wheels` takes nothing else.
"""

from __future__ import annotations

import subprocess
import sys

from edgeveil.devices import profiles
from edgeveil.devices.flashing.needs import COLLECTED
from edgeveil.devices.flashing.wheels import HASHES
from scripts.environments.pythons import ROOT

HEAD = "# Written by scripts/environments/lock_wheels.py: packages of the profiles' recipes, of sources and sinks.\n"


def main() -> int:
    pinned = {
        pin: one.python for name in profiles.names() for one in profiles.load(name).install for pin in one.packages
    }
    pinned |= dict.fromkeys([one.pin for one in COLLECTED.values()], "3.11")
    locked = []
    for pin, version in sorted(pinned.items()):
        command = [str(ROOT / ".venv/bin/uv"), "pip", "compile", "-", "--quiet", "--python-version", version]
        command += ["--only-binary", ":all:", "--no-deps", "--generate-hashes", "--no-header", "--no-annotate"]
        command += ["--no-config", "--no-emit-index-url", "--no-emit-find-links"]
        done = subprocess.run(command, input=pin, capture_output=True, text=True, check=False)
        if done.returncode:  # it has no wheel for a workstation: ask as a board would
            command += ["--python-platform", "aarch64-manylinux_2_28"]
            done = subprocess.run(command, input=pin, capture_output=True, text=True, check=True)
        locked.append(done.stdout.strip() + "\n")
    HASHES.write_text(HEAD + "".join(locked))
    print(f"{HASHES.relative_to(ROOT)}: {len(locked)} packages", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
