"""The unit of the process that gets a camera's frames for the inside: over a network, or from a camera's daemon."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from edgeveil.devices.profiles import Profile
from edgeveil.edge_runtime import camera_address
from edgeveil.edge_runtime.kinds import needs_daemon

UNIT = "edgeveil-camera.service"
FOLDER = "/run/edgeveil-camera"
_DEVICE = re.compile(r"/dev/[A-Za-z0-9._/-]+")


def by_another_process(source: str) -> bool:
    """Whether the inside, which has no network and no socket, gets this source's frames from another process."""
    return camera_address.on_network(source) or needs_daemon(source)


def for_others(source: str) -> str:
    """The source as the inside and the sending process know it: without credentials, path and query."""
    return camera_address.parse(source).shown if camera_address.on_network(source) else source


def settings(root: str, source: str) -> bytes:
    """The settings of the unit, which its own user alone may read; ``root`` is EdgeVeil's folder on the board."""
    document = {"bundle": f"{root}/current/bundle.veil", "trust": f"{root}/trust", "source": source}
    return (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()


def words(source: str, profile: Profile, accepted: bool) -> dict[str, str]:
    """What is filled into the unit, besides the devices. ``accepted``: raw pictures may cross a network unencrypted.

    Raises ``BadInput`` where they would, and nobody accepted it.
    """
    if needs_daemon(source):
        groups = [profile.camera.group, *([profile.accelerator_group] if profile.accelerator_group else [])]
        return {
            "@ACCEPT@": "",
            "@NAMESPACE@": "yes",
            "@FAMILIES@": "AF_UNIX AF_NETLINK",
            "@TMP@": "no",  # nvargus-daemon's socket lies there
            "@SPACES@": "user net",
            "@GROUP@": " ".join(dict.fromkeys(groups)),
        }
    camera_address.check_private(source, accepted)
    return {
        "@ACCEPT@": "" if camera_address.is_private(source) else " --accept-raw-on-network",
        "@NAMESPACE@": "no",
        "@FAMILIES@": "AF_INET AF_INET6 AF_NETLINK",
        "@TMP@": "yes",
        "@SPACES@": "yes",
        "@GROUP@": "",
    }


def devices(source: str, profile: Profile) -> list[str]:
    """The device files that the unit may open: those of the processor that a camera's daemon shares frames through."""
    place = profile.accelerator_path
    if not needs_daemon(source) or place is None or not _DEVICE.fullmatch(place):
        return []
    return [place, *profile.accelerator_devices]


# A service that a board has, as its probe found it.


FIRST_PORT = 9464  # of its pages, where no setting names another


@dataclass(frozen=True)
class OnBoard:
    """A service that a board has: its folder, and what its settings say; ``health`` as in --health.

    ``users`` are those that its units run as, ``counts`` says whether it has a ledger.
    """

    name: str
    root: str
    source: str = ""
    health: str = ""
    users: tuple[str, ...] = ()
    counts: bool = False

    @property
    def port(self) -> int:
        """The port of its pages; 0 where it has none."""
        port = self.health.partition("?")[0].rpartition(":")[2] if self.health else str(FIRST_PORT)
        return int(port) if port.isdigit() else 0
