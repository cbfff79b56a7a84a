"""The files of an SD card whose board flashes itself at its first boot; a pure function of the plan's steps.

The board then does what a flash over a connection does: the runtime on the card verifies the bundle, tries it and
commits it. ``files.json`` has every file's SHA-256, so a damaged card is found before anything is changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from edgeveil.devices.agents import read_agent
from edgeveil.devices.flashing import service_files
from edgeveil.devices.flashing.plan import Plan
from edgeveil.devices.flashing.steps import InstallRelease, MakeLedger, TrustKeys, UnpackWheels, WriteService
from edgeveil.devices.transports.base import digest
from edgeveil.edge_runtime.paths import LEDGER

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
    made: dict[str, bytes] = {}
    places: dict[str, str] = {}
    job: dict[str, Any] = {"root": root, "places": places, "site": None, "users": [], "enabling": []}
    job |= {"groups": {}, "removed": [], "ledger": None, "environment": dict(environment)}
    for step in plan.steps:
        match step:
            case TrustKeys(trust):
                for name, data in trust.files.items():
                    made[f"trust/{name}"], places[f"trust/{name}"] = data, f"{root}/trust/{name}"
            case UnpackWheels(wheels):
                made["site.zip"] = wheels.archive
                made["unpack_wheels.py"] = read_agent("unpack_wheels")
                job["site"] = {"sha256": digest(wheels.archive), "place": f"{root}/{wheels.name}"}
            case InstallRelease():
                made |= {"bundle.veil": step.bundle.data, "edgeveil-edge.pyz": step.bundle.runtime}
                job["trial"] = step.options
            case WriteService(files, owner):
                for path, data in files.items():
                    name = "system/" + path.rsplit("/", 1)[1]
                    made[name], places[name] = data, path
                job["users"] = [[user, command] for user, command in service_files.user_commands(owner, files).items()]
                job |= {
                    "enabling": service_files.enable_commands(files),
                    "groups": service_files.groups(owner),
                    "removed": service_files.left_over(files),
                }
            case MakeLedger(owner):
                job["ledger"] = {"place": LEDGER, "owner": owner.user}
                made["make_ledger.py"] = read_agent("make_ledger")
    made["job.json"] = json.dumps(job, indent=1, sort_keys=True).encode()
    made["first_boot.py"], made["run.sh"] = read_agent("boot_from_card"), _RUN_SH.encode()
    made["files.json"] = json.dumps({name: digest(data) for name, data in sorted(made.items())}, indent=1).encode()
    return made


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
    kept = " ".join(word for word in words if word not in others and word not in runs)
    return f"{kept} {RUN}\n".encode(), before


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
