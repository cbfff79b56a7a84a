"""The files of an SD card whose board flashes itself when it first comes up; a pure function of the plan's steps.

The board does then what a flash over a line does: the runtime that came along verifies the bundle, tries it and commits
it. ``files.json`` has every file's SHA-256, and a card that lost a bit is seen before anything is done.
"""

from __future__ import annotations

import json
from typing import Any

from edgeveil.devices.agents import read_agent
from edgeveil.devices.flashing import service_files
from edgeveil.devices.flashing.plan import Plan
from edgeveil.devices.flashing.steps import InstallRelease, TrustKeys, UnpackWheels, WriteService
from edgeveil.devices.transports.base import digest

TREE, UNIT, KEYS_UNIT = "edgeveil-first-boot", "edgeveil-first-boot.service", "edgeveil-host-keys.service"
RUN = (
    f"systemd.run=/boot/firmware/{TREE}/run.sh systemd.run_success_action=reboot "
    "systemd.unit=kernel-command-line.target"
)
# A root file system that is copied to many boards must not give them all one identity.
EMPTIED = ("/etc/machine-id",)
REMOVED = ("/var/lib/dbus/machine-id", "/var/lib/systemd/random-seed", "/var/lib/systemd/credential.secret")
HOST_KEYS = "/etc/ssh"  # and in it ssh_host_*


def tree(plan: Plan, root: str) -> dict[str, bytes]:
    """The files of the tree by their names in it (``bundle.veil``, ``trust/root.pub``, ...)."""
    made: dict[str, bytes] = {}
    places: dict[str, str] = {}
    job: dict[str, Any] = {"root": root, "places": places, "site": None, "users": [], "enabling": [], "units": []}
    job |= {"config": service_files.CONFIG, "group": ""}
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
                job["users"] = [[user, command] for user, command in service_files.user_commands(owner).items()]
                job |= {
                    "enabling": service_files.enable_commands(files),
                    "units": service_files.UNITS,
                    "group": owner.user,
                }
    made["job.json"] = json.dumps(job, indent=1, sort_keys=True).encode()
    made["first_boot.py"], made["run.sh"] = read_agent("boot_from_card"), _RUN_SH.encode()
    made["files.json"] = json.dumps({name: digest(data) for name, data in sorted(made.items())}, indent=1).encode()
    return made


def units(folder: str) -> dict[str, bytes]:
    """The units of a root file system, by name: new host keys before sshd starts, then what has it flash itself."""
    return {KEYS_UNIT: _KEYS_UNIT.encode(), UNIT: _UNIT.format(folder=folder).encode()}


def with_run(cmdline: bytes) -> bytes | None:
    """The kernel's command line with the first run added; None where another first run stands there already."""
    line = cmdline.decode("utf-8", "replace").strip()
    if RUN in line:
        return cmdline
    if "systemd.run" in line or "\n" in line or not line:
        return None
    return f"{line} {RUN}\n".encode()


_UNIT = """[Unit]
Description=EdgeVeil, what this card brought
ConditionPathExists={folder}/files.json
After=local-fs.target
Before=edgeveil-recover.service edgeveil.service

[Service]
Type=oneshot
ExecStart=/usr/bin/python3 {folder}/first_boot.py --start
TimeoutStartSec=900

[Install]
WantedBy=multi-user.target
"""

# Not in the script: sshd starts beside it, fails without keys, and gives up before the script is through.
_KEYS_UNIT = """[Unit]
Description=EdgeVeil, host keys of this board's own
ConditionPathExists=/usr/bin/ssh-keygen
ConditionPathExists=!/etc/ssh/ssh_host_ed25519_key
After=local-fs.target
Before=ssh.service sshd.service

[Service]
Type=oneshot
ExecStart=/usr/bin/ssh-keygen -A

[Install]
WantedBy=multi-user.target
"""

_RUN_SH = f"""#!/bin/sh
# Run once by systemd.run= in cmdline.txt, which is mended whatever happens, so that the board boots as ever.
here=/boot/firmware/{TREE}
/usr/bin/python3 $here/first_boot.py > /boot/firmware/{TREE}.log 2>&1
echo "ended with code $?" >> /boot/firmware/{TREE}.log
sed -i 's| systemd\\.run=.*||' /boot/firmware/cmdline.txt
sync
exit 0
"""
