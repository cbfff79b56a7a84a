"""The files by which an image sets itself up at its first boot, on its boot partition: as this image has it.

Raspberry Pi OS of Debian 13 and Ubuntu have cloud-init, which reads ``user-data``, ``network-config`` and ``meta-data``
there (NoCloud). Raspberry Pi OS of Debian 12 has a first boot of its own that reads ``custom.toml``
(RPi-Distro/raspberrypi-sys-mods, ``init_config``). Either runs by itself, before or after EdgeVeil's own first boot.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import tomli_w

from edgeveil.devices.flashing.provisioning.card_setup import CardSetup
from edgeveil.edge_runtime.errors import BadInput

CLOUD_INIT, CUSTOM = "/user-data", "/custom.toml"
# What the first boot leaves readable to all: a FAT file system has no owners, and cloud-init logs the network's key.
# The password's hash has a line of its own. cloud-init needs neither again: it knows the instance by its meta-data.
_CLEAN = (
    "umask 077; cd /boot/firmware && rm -f network-config && sed -i '/\"passwd\": /d' user-data; cd /var/log && "
    "sed -E \"s/('password': ')[0-9a-f]{64}/\\1/\" cloud-init.log > /run/edgeveil-log && "
    "cat /run/edgeveil-log > cloud-init.log; rm -f /run/edgeveil-log"
)
_FIRST_BOOT = "init=/usr/lib/raspberrypi-sys-mods/firstboot"
# Of those that an image may not have, cloud-init makes the missing ones.
_GROUPS = "adm,dialout,plugdev,sudo,video"


def files(setup: CardSetup, read: Callable[[str], bytes | None], name: str) -> dict[str, bytes]:
    """The files by their paths on the boot partition ``name``, of which ``read`` reads one. Raises ``BadInput``."""
    line = (read("/cmdline.txt") or b"").decode("utf-8", "replace").split()
    custom = tomli_w.dumps(_custom(setup)).encode()
    # A flash that was cut off may have left the same file.
    if any(word.startswith(("systemd.run=", "ds=nocloud;")) for word in line) or read(CUSTOM) not in (None, custom):
        raise BadInput(
            f"{name} was set up before, by Raspberry Pi Imager or a flash: leave --setup out, or write a fresh image."
        )
    if read(CLOUD_INIT) is not None:
        return _cloud_init(setup)
    if _FIRST_BOOT in line:
        return {CUSTOM: custom}
    raise BadInput(
        f"Expected an image in {name} that sets itself up at its first boot (user-data for cloud-init, or "
        f"{_FIRST_BOOT} in cmdline.txt); it has neither, or has booted before. Leave --setup out and set the board up "
        "by hand."
    )


def _cloud_init(setup: CardSetup) -> dict[str, bytes]:
    data: dict[str, Any] = {}
    if setup.hostname:
        data |= {"hostname": setup.hostname, "manage_etc_hosts": True}
    if setup.timezone:
        data["timezone"] = setup.timezone
    if setup.user:
        user: dict[str, Any] = {"name": setup.user.name, "groups": _GROUPS, "shell": "/bin/bash"}
        # Without a password, sudo could not be asked for one.
        user |= {"passwd": setup.user.password} if setup.user.password else {"sudo": "ALL=(ALL) NOPASSWD:ALL"}
        user |= {"lock_passwd": setup.user.password is None, "ssh_authorized_keys": list(setup.user.ssh_keys)}
        data |= {"users": [user], "ssh_pwauth": setup.user.password is not None}
        data["runcmd"] = [["systemctl", "enable", "--now", "ssh"]]
    if setup.wifi or (setup.user and setup.user.password):
        data["runcmd"] = [*data.get("runcmd", []), ["sh", "-c", _CLEAN]]
    made = {CLOUD_INIT: b"#cloud-config\n" + _yaml(data)}
    if setup.wifi:
        point = {"dhcp4": True, "optional": True, "regulatory-domain": setup.wifi.country}
        point["access-points"] = {setup.wifi.ssid: {"password": setup.wifi.psk}}
        wired = {"eth0": {"dhcp4": True, "optional": True}}
        made["/network-config"] = _yaml({"version": 2, "ethernets": wired, "wifis": {"wlan0": point}})
    # cloud-init does nothing for an instance that it knows.
    name = hashlib.sha256(b"".join(made.values())).hexdigest()[:16]
    return {**made, "/meta-data": _yaml({"instance-id": f"edgeveil-{name}"})}


def _yaml(document: dict[str, Any]) -> bytes:
    """JSON, all of which is YAML."""
    return json.dumps(document, indent=1).encode() + b"\n"


def _custom(setup: CardSetup) -> dict[str, Any]:
    made: dict[str, Any] = {"config_version": 1}
    if setup.hostname:
        made["system"] = {"hostname": setup.hostname}
    if setup.user:
        password = {"password": setup.user.password, "password_encrypted": True} if setup.user.password else {}
        made["user"] = {"name": setup.user.name, **password}
        made["ssh"] = {"enabled": True, "password_authentication": bool(password)}
        made["ssh"]["authorized_keys"] = list(setup.user.ssh_keys)
    if setup.wifi:
        made["wlan"] = {"ssid": setup.wifi.ssid, "password": setup.wifi.psk, "password_encrypted": True}
        made["wlan"] |= {"hidden": False, "country": setup.wifi.country}
    if setup.timezone:
        made["locale"] = {"timezone": setup.timezone}
    return made
