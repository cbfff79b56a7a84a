"""What the settings of ``edgeveil-edge run`` ask of each process, and how of them may be printed."""

import os
import re
from typing import Any, Dict, Optional

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.schema import PRIVACY_MEMBER

FILES = ("npz", "csv", "arff", "images", "video")  # sources and sinks that keep numbers; all others are live


def wanted(settings: Dict[str, Any]) -> bool:
    """Whether these settings ask for the service; else it is file to file, in one process."""
    if settings["inside-at"]:
        return True
    live = [text for text in [settings["source"]] + settings["sink"] if text.partition(":")[0] not in FILES]
    return bool(live) or settings["realtime"] or settings["repeat"]


def inside_settings(settings: Dict[str, Any]) -> Dict[str, Any]:
    """What the inside is told of the settings; nothing about sinks."""
    from edgeveil.edge_runtime.camera_address import on_network

    source = settings["source"]
    return {
        # What fetches it knows the credentials; the inside has no use for them.
        "source": without_secrets(source) if on_network(source) else source,
        "trust": os.path.abspath(settings["trust"]),
        "backend": settings["backend"],
        "artefact": settings["artefact"],
        "threads": settings["threads"],
        "device": settings["device"],
        "strict": settings["strict"],
        "realtime": settings["realtime"],
        "repeat": settings["repeat"],
        "fps": settings["fps"],
        "frames": settings["frames"],
        "aim": settings["aim"],
        "max_latency_s": settings["max-latency"],
        "recheck_s": settings["recheck"],
        "hang_after_s": settings["hang-after"],
    }


def fetch_settings(settings: Dict[str, Any], manifest: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    """What the fetching process is told, None where the source needs none.

    Raises ``BadInput`` where raw pictures would travel so that others can read them, and nobody said that they may.
    """
    from edgeveil.edge_runtime import camera_address as addresses
    from edgeveil.edge_runtime.camera_address import on_network
    from edgeveil.edge_runtime.manifest.sensor import expected

    source = settings["source"]
    if not on_network(source):
        return None
    if not (addresses.is_private(source) or settings["accept-raw-on-network"]):
        raise BadInput(
            "raw pictures from {} would cross a network where others can read them: use a camera on this device, "
            "https://, or say --accept-raw-on-network".format(addresses.parse(source).shown)
        )
    return {"source": source, "sensor": expected(manifest["input"], manifest["capture"])}


def without_secrets(text: str) -> str:
    """A source or sink as it may be printed: what stands before an @ or behind a ? of an address is left out."""
    if "://" not in text:
        return text.partition("?")[0] if text.startswith("preview:") else text
    return re.sub("//[^/]*@", "//", text.partition("?")[0])


def address(text: str) -> Any:
    """``HOST:PORT`` as a pair; raises ``BadInput``."""
    host, _, port = text.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise BadInput("expected --health as HOST:PORT, such as 127.0.0.1:9464, or off; got {!r}".format(text))
    return host.strip("[]") or "127.0.0.1", int(port)


def open_bundle(settings: Dict[str, Any]) -> Any:
    """A descriptor of the bundle's file, and what was verified of its bytes."""
    from edgeveil.edge_runtime.bundle.reader import read_all, read_bundle
    from edgeveil.edge_runtime.bundle.trust_store import open_trust

    trust = open_trust(settings["trust"])
    # Verified by its path first: that says best what is wrong with it.
    bundle = read_bundle(settings["bundle"], trust)
    handle = os.open(settings["bundle"], os.O_RDONLY | os.O_CLOEXEC)
    if read_bundle(read_all(handle), trust).manifest_sha256 != bundle.manifest_sha256:
        raise BadInput("the bundle {} is being written to: try again".format(settings["bundle"]))
    # The models are the inside's business, and their bytes need not be in memory twice.
    kept = {name: data for name, data in bundle.members.items() if name == PRIVACY_MEMBER}
    return handle, bundle._replace(members=kept)
