"""What a new board is to be called, who may log in, and which Wi-Fi it joins: a TOML file of the owner's."""

from __future__ import annotations

import hashlib
import zoneinfo
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from edgeveil.devices.toml_tables import NO_REPEATS, Table, checked, matching, read_toml
from edgeveil.edge_runtime.errors import BadInput

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
            raise ValueError("[user] needs ssh_keys or password: nobody could log in.")
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
