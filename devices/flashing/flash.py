"""``edgeveil flash``: a sealed bundle to a board or a card, by a plan that is made once and then executed."""

from __future__ import annotations

import hashlib
import json
import zoneinfo
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import tomli_w
from pydantic import AfterValidator, Field, model_validator

from edgeveil.devices.flashing import plan as planning
from edgeveil.devices.flashing import sd_card, service_files
from edgeveil.devices.flashing.board import Board, Say
from edgeveil.devices.flashing.connection import Connection
from edgeveil.devices.flashing.placement import Refused, compiled_artefact, possible_artefacts
from edgeveil.devices.flashing.plan import Flashed, Plan, ServiceFiles, plan
from edgeveil.devices.flashing.records import (
    PAHO,
    BundleFacts,
    InstallRelease,
    MakeLedger,
    PushBundle,
    StartService,
    Step,
    TrustFacts,
    TrustKeys,
    UnpackWheels,
    Wanted,
    Wheels,
    WriteService,
)
from edgeveil.devices.flashing.service_files import check_beside, check_folder, profile_for
from edgeveil.devices.flashing.wheels import Inputs, read_inputs
from edgeveil.devices.profiles import Profile
from edgeveil.devices.toml_tables import NO_REPEATS, Table, checked, matching, read_toml
from edgeveil.edge_runtime import camera_address
from edgeveil.edge_runtime.device import CPU
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.kinds import check_sensor, check_shape, check_sink, check_source
from edgeveil.edge_runtime.manifest.manifest import expected
from edgeveil.edge_runtime.manifest.schema import NO_MODEL
from edgeveil.edge_runtime.paths import FIRST, service_of

# What a new board is to be called, who may log in, and which Wi-Fi it joins: a TOML file of the owner's.
#
# And the files by which an image sets itself up so at its first boot, on its boot partition, as this image has it.
# Raspberry Pi OS of Debian 13 and Ubuntu have cloud-init, which reads ``user-data``, ``network-config`` and ``meta-
# data`` there (NoCloud). Raspberry Pi OS of Debian 12 has a first boot of its own that reads ``custom.toml`` (RPi-
# Distro/raspberrypi-sys-mods, ``init_config``). Either runs by itself, before or after EdgeVeil's own first boot.


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
        raise BadInput(_without_secrets(str(error), document)) from None


def _without_secrets(text: str, document: dict) -> str:
    for table in document.values():
        secret = table.get("password") if isinstance(table, dict) else None
        if secret:
            text = text.replace(repr(secret), "another text")
    return text


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


# ``edgeveil flash --on image:FILE``: a card whose board flashes itself at its first boot.


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
    made = plan_card(
        inputs.bundle,
        inputs.profile,
        wanted,
        trust=inputs.trust,
        wheels=inputs.wheels,
        service_files=partial(service_files.for_board, root, inputs.profile, wanted, None),
    )
    inputs.check_policy(None, None)
    tree = planning.tree(made, root, inputs.profile.service.environment)
    card = sd_card.open_media(target)
    # It looks for what an earlier flash wrote, so it comes before this one's.
    own = {} if setup is None else files(setup, card.read, card.name)
    show(f"{len(tree)} files for {card.name}; at its first boot the board does this:\n{made.text()}")
    if setup is not None:
        show(f"and it sets itself up, by {', '.join(path[1:] for path in own)}: {setup.text()}")
    for line in sd_card.write_card(card, tree, setup=own, dry_run=dry_run):
        show(line)
    return Flashed(made, inputs.bundle.sha)


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
    notes = wanted.notes
    if wanted.mqtt and (wheels is None or PAHO not in wheels.interpreters):
        notes += (f"the image needs python3-paho-mqtt, or wheels of edgeveil wheels {profile.name} --mqtt: for MQTT",)
    return Plan(tuple(steps), artefact, "found out at first boot", notes, device)


# The main part, described by the docstring.


def flash_target(
    bundle: Path,
    target: str,
    connection: Connection,
    profile: str,
    *,
    trust: Path,
    wanted: Wanted,
    wheels: Path | None = None,
    source_credentials: Path | None = None,
    setup: Path | None = None,
    dry_run: bool = False,
    show: Say = lambda _: None,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Flashed:
    """Install ``bundle`` on the board or card that ``target`` names. Raises ``EdgeVeilError``."""
    if wanted.source is not None:
        check_source(wanted.source)
    wanted = with_credentials(wanted, source_credentials)
    for sink in wanted.sinks:
        check_sink(sink)
    inputs = read_inputs(bundle, profile, trust, wheels)
    if wanted.source is not None:
        manifest = inputs.opened.manifest
        check_sensor(wanted.source, manifest.input.sensor)
        check_shape(wanted.source, expected(manifest.input, manifest.capture)["shape"])
    if target.startswith(sd_card.KINDS):
        if service_of(connection.root) != FIRST:
            raise BadInput(f"A card brings the first service, and --root {connection.root} is another: flash it later.")
        own = None if setup is None else read_setup(setup)
        return flash_card(inputs, target, wanted, root=connection.root, setup=own, dry_run=dry_run, show=show)
    if setup is not None:
        raise BadInput("--setup is for a card (image:FILE, dir:FOLDER): a board that is reached is set up already.")
    with connection.open(target, say=show) as board:
        wanted = replace(wanted, trusted_channel=board.transport.trusted)
        return flash(inputs, board, wanted, dry_run=dry_run, show=show, progress=progress)


def with_credentials(wanted: Wanted, file: Path | None) -> Wanted:
    """The same, with the name and password of ``file`` in the address of a network camera. Raises ``BadInput``."""
    source = wanted.source or ""
    networked = camera_address.on_network(source)
    if networked and camera_address.parse(source).user is not None:
        raise BadInput(
            "A password on the command line shows up in process lists: put USER:PASSWORD into a file that only you may "
            "read, and name it with --source-credentials FILE."
        )
    if wanted.accept_raw_on_network and not (networked and wanted.service):
        raise BadInput("--accept-raw-on-network is for the service of a camera on a network: leave it out.")
    if file is None:
        return wanted
    if not (networked and wanted.service):
        raise BadInput("--source-credentials is for the service of a camera on a network: leave it out.")
    return replace(wanted, source=camera_address.with_credentials(source, str(file)))


def flash(
    inputs: Inputs,
    board: Board,
    wanted: Wanted,
    *,
    dry_run: bool = False,
    show: Say = lambda _: None,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Flashed:
    """Plan from the board's facts, show the plan, and execute it unless this is a dry run. Raises ``EdgeVeilError``."""
    if wanted.service or wanted.source:
        board.sudo.allowed()  # asks for the password, where somebody sits there
    profile = profile_for(inputs.profile, board.root)
    board.environment = dict(profile.service.environment)
    facts = board.facts(profile.accelerator_path)
    notes = []
    if wanted.service:
        notes = check_beside(profile.service, wanted, facts.services, spends=inputs.bundle.spends)
    else:
        check_folder(board.root, facts.services)
    made = plan(
        facts,
        inputs.bundle,
        profile,
        wanted,
        trust=inputs.trust,
        wheels=inputs.wheels,
        service_files=partial(service_files.for_board, board.root, profile, wanted, facts),
    )
    inputs.check_policy(made.artefact, made.device)
    show("\n".join([made.text(), *notes, *inputs.audit_notes(made.artefact, made.device)]))
    if not dry_run:
        board.execute(made, progress)
    return Flashed(made, inputs.bundle.sha)
