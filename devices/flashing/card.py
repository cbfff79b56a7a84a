"""``edgeveil flash --on image:FILE``: a card whose board sets itself up, and flashes itself, at its first boot.

How a new board is to be called, who may log in, and which Wi-Fi it joins is a TOML file of the owner's. The files by
which an image sets itself up so at its first boot lie on its boot partition, as this image has it. Raspberry Pi OS of
Debian 13 and Ubuntu have cloud-init, which reads ``user-data``, ``network-config`` and ``meta-data`` there (NoCloud).
Raspberry Pi OS of Debian 12 has a first boot of its own that reads ``custom.toml`` (RPi-Distro/raspberrypi-sys-mods,
``init_config``). Either runs by itself, before or after EdgeVeil's own first boot.
"""

from __future__ import annotations

import hashlib
import json
import zoneinfo
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import tomli_w
from pydantic import AfterValidator, Field, model_validator

from edgeveil.devices.flashing import needs, sd_card, service_files
from edgeveil.devices.flashing.placement import compiled_artefact, possible_artefacts
from edgeveil.devices.flashing.plan import ServiceFiles, check_leak
from edgeveil.devices.flashing.records import BundleFacts, Refused, TrustFacts, Wanted, Wheels
from edgeveil.devices.flashing.steps import (
    Flashed,
    InstallRelease,
    MakeLedger,
    Plan,
    PushBundle,
    StartService,
    Step,
    TrustKeys,
    UnpackWheels,
    WriteService,
)
from edgeveil.devices.flashing.wheels import Inputs
from edgeveil.devices.profiles import Profile
from edgeveil.devices.toml_tables import NO_REPEATS, Table, checked, matching, read_toml
from edgeveil.edge_runtime.device import CPU
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.schema import NO_MODEL

PAGE = "docs/how-to/flash-a-board.md"
_KEY_TYPES = "ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521)|sk-(?:ssh-ed25519|ecdsa-sha2-nistp256)@openssh[.]com"


def _known_zone(value: str) -> str:
    known = zoneinfo.available_timezones()
    if known and value not in known:
        raise ValueError('the name of a time zone, such as "Europe/Vienna"')
    return value


_Host = Annotated[str, matching(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", "small letters, digits and '-' (63 at most)")]
_Zone = Annotated[
    str,
    matching(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+){0,2}", 'the name of a time zone, such as "Europe/Vienna"'),
    AfterValidator(_known_zone),
]
_Name = Annotated[str, matching(r"(?!root$)[a-z_][a-z0-9_-]{0,30}", "the name of a user other than root")]
_Key = Annotated[str, matching(rf"(?:{_KEY_TYPES}) [A-Za-z0-9+/]+=*( [ -~]*)?", "a line of ssh-keygen's .pub file")]
_Hash = Annotated[str, matching(r"\$(5|6|y)\$[A-Za-z0-9./$=,]+", "a hash, as `openssl passwd -6` prints it")]
_Ssid = Annotated[str, matching(r"[ -~]{1,32}", "1 to 32 printable characters of ASCII")]
_Passphrase = Annotated[str, matching(r"[ -~]{8,63}", "8 to 63 printable characters of ASCII")]
_Country = Annotated[str, matching(r"[A-Z]{2}", 'two capital letters, such as "AT"')]


class User(Table):
    """Who may log in: by keys, by a password, or both. Without a password, ``sudo`` asks for none."""

    name: _Name
    ssh_keys: Annotated[tuple[_Key, ...], Field(strict=False), NO_REPEATS] = ()
    password: _Hash | None = None

    @model_validator(mode="after")
    def _somebody_can_log_in(self) -> User:
        if not (self.ssh_keys or self.password):
            raise ValueError("[user] needs ssh_keys or password: without one, no login is possible.")
        return self


class Wifi(Table):
    """A network with WPA2 or WPA3 in its mixed mode; ``country`` says which channels are allowed."""

    ssid: _Ssid
    password: _Passphrase
    country: _Country

    @property
    def psk(self) -> str:
        """The key that follows from the password and this name alone (IEEE 802.11i, H.4), as 64 digits."""
        return hashlib.pbkdf2_hmac("sha1", self.password.encode(), self.ssid.encode(), 4096, 32).hex()


class CardSetup(Table):
    """The whole file; what it leaves out stays as the image has it."""

    hostname: _Host | None = None
    timezone: _Zone | None = None
    user: User | None = None
    wifi: Wifi | None = None

    @model_validator(mode="after")
    def _says_something(self) -> CardSetup:
        if self == CardSetup.model_construct():
            raise ValueError("expected hostname, timezone, [user] or [wifi]; there is none.")
        return self

    def text(self) -> str:
        """What is set up, for people; no secret."""
        parts = [f"host name {self.hostname}"] if self.hostname else []
        parts += [f"time zone {self.timezone}"] if self.timezone else []
        parts += [f"user {self.user.name}"] if self.user else []
        parts += [f"Wi-Fi {self.wifi.ssid}"] if self.wifi else []
        return ", ".join(parts)


def read_setup(path: Path) -> CardSetup:
    """The checked setup of a TOML file. Raises ``BadInput``, which quotes no password."""
    document = read_toml(path, "setup", PAGE)
    try:
        return checked(CardSetup, document, f"setup {path}", PAGE)
    except BadInput as error:
        text = str(error)
        for table in document.values():
            if isinstance(table, dict) and table.get("password"):
                text = text.replace(repr(table["password"]), "another text")
        raise BadInput(text) from None


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
    files = {CLOUD_INIT: b"#cloud-config\n" + _yaml(data)}
    if setup.wifi:
        point = {"dhcp4": True, "optional": True, "regulatory-domain": setup.wifi.country}
        point["access-points"] = {setup.wifi.ssid: {"password": setup.wifi.psk}}
        wired = {"eth0": {"dhcp4": True, "optional": True}}
        files["/network-config"] = _yaml({"version": 2, "ethernets": wired, "wifis": {"wlan0": point}})
    # cloud-init does nothing for an instance that it knows.
    name = hashlib.sha256(b"".join(files.values())).hexdigest()[:16]
    return {**files, "/meta-data": _yaml({"instance-id": f"edgeveil-{name}"})}


def _yaml(document: dict[str, Any]) -> bytes:
    """JSON, all of which is YAML."""
    return json.dumps(document, indent=1).encode() + b"\n"


def _custom(setup: CardSetup) -> dict[str, Any]:
    config: dict[str, Any] = {"config_version": 1}
    if setup.hostname:
        config["system"] = {"hostname": setup.hostname}
    if setup.user:
        password = {"password": setup.user.password, "password_encrypted": True} if setup.user.password else {}
        config["user"] = {"name": setup.user.name, **password}
        config["ssh"] = {"enabled": True, "password_authentication": bool(password)}
        config["ssh"]["authorized_keys"] = list(setup.user.ssh_keys)
    if setup.wifi:
        config["wlan"] = {"ssid": setup.wifi.ssid, "password": setup.wifi.psk, "password_encrypted": True}
        config["wlan"] |= {"hidden": False, "country": setup.wifi.country}
    if setup.timezone:
        config["locale"] = {"timezone": setup.timezone}
    return config


def flash_card(
    inputs: Inputs,
    target: str,
    wanted: Wanted,
    *,
    root: str,
    setup: CardSetup | None = None,
    dry_run: bool = False,
    show: Callable[[str], None] = lambda _: None,
) -> Flashed:
    """Write a card (``image:FILE``, ``dir:FOLDER``) whose board flashes itself at its first boot.

    What only the board knows, such as its interpreters, is checked there. Raises ``EdgeVeilError``.
    """
    profile = inputs.profile.at(root)
    plan = plan_card(
        inputs.bundle,
        profile,
        wanted,
        trust=inputs.trust,
        wheels=inputs.wheels,
        service_files=partial(service_files.for_board, root, profile, wanted, None),
    )
    if inputs.policy is not None:
        inputs.policy.check(inputs.opened.manifest, inputs.opened.audit, None, None)
    tree = sd_card.tree(plan, root, inputs.profile.service.environment)
    card = sd_card.open_media(target)
    # It looks for what an earlier flash wrote, so it comes before this one's.
    own = {} if setup is None else files(setup, card.read, card.name)
    show(f"{len(tree)} files for {card.name}; at its first boot the board does this:\n{plan.text()}")
    if setup is not None:
        show(f"and it sets itself up, by {', '.join(path[1:] for path in own)}: {setup.text()}")
    for line in sd_card.write_card(card, tree, setup=own, dry_run=dry_run):
        show(line)
    return Flashed(plan, inputs.bundle.sha)


def plan_card(
    bundle: BundleFacts,
    profile: Profile,
    wanted: Wanted,
    *,
    trust: TrustFacts | None,
    wheels: Wheels | None = None,
    service_files: ServiceFiles = lambda _device: {},
) -> Plan:
    """The steps that a board with a new card takes by itself at its first boot. Raises ``Refused``.

    What only the board knows, such as its interpreters, is checked there. The model runs on the processor unless an
    accelerator was named.
    """
    if trust is None:
        raise Refused("no-trust", "A card needs the board's trust: give the folder of edgeveil trust init.")
    notes = [*wanted.notes, *check_leak(bundle, trust, wanted)]
    artefact = possible_artefacts(bundle, profile)[0] if bundle.artefacts else NO_MODEL
    device = wanted.device or CPU
    backends = [backend for backend in profile.backends if backend.device == device]
    artefact = compiled_artefact(bundle, profile, artefact, backends[0] if backends else None, device)
    if wheels is not None and wheels.architecture != profile.architecture:
        raise Refused(
            "architecture",
            f"The wheels given are for {wheels.architecture}, and {profile.name} is {profile.architecture}.",
        )
    steps: list[Step] = [TrustKeys(trust)]
    steps += [UnpackWheels(wheels)] if wheels else []
    steps.append(PushBundle(bundle))
    steps.append(
        InstallRelease(
            bundle, artefact, device, wanted.frames, source=wanted.trial_source, device=wanted.device, first=True
        )
    )
    if wanted.service:
        steps.append(WriteService(service_files(device), profile.service))
        steps += [MakeLedger(profile.service)] if bundle.spends else []
        steps.append(StartService())
    # A path that no unit can reach is refused here too; what the image has is known to its board alone.
    for need in needs.of_wanted(wanted, profile.service):
        if need.library and need.wheel not in (wheels.interpreters if wheels is not None else ()):
            notes.append(f"the image needs {need.what} for {need.of}: {need.cured(profile)}")
    return Plan(tuple(steps), artefact, "found out at first boot", tuple(notes), device)
