"""The processes that a service starts, as a table: what runs, as which user, with a network or without."""

import os
import sys
from typing import Any, Dict, List, NamedTuple, Optional

from edgeveil.edge_runtime import camera_address, config
from edgeveil.edge_runtime.config import Settings
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.kinds import needs_daemon
from edgeveil.edge_runtime.late_imports import ONE_THREAD
from edgeveil.edge_runtime.manifest.manifest import Manifest, expected
from edgeveil.edge_runtime.paths import zipapp
from edgeveil.edge_runtime.sandbox import isolation
from edgeveil.edge_runtime.sandbox.isolation import Account, find_account

Process = NamedTuple(
    "Process",
    [
        ("command", List[str]),
        ("user", Optional[Account]),  # None: the user of the service
        ("network", bool),  # whether it stays in the system's network namespace
        ("settings", Dict[str, Any]),  # JSON that it reads from its pipe ``settings``
    ],
)


def process_table(settings: Settings, manifest: Manifest) -> List[Process]:
    """The inside, and before it the process that gets its frames from a network, or from a camera's daemon.

    Raises ``BadInput`` if raw pictures would cross a network unencrypted, or if the user does not exist.
    """
    user = find_account(settings.inside_user) if settings.inside_user else None
    inside_settings = config.for_inside(settings)
    network = isolation.needs_network(inside_settings.source, inside_settings.device)
    inside = Process(command("inside.process"), user, network, inside_settings._asdict())
    fetched = fetch_settings(settings, manifest)
    if needs_daemon(settings.source):
        feed_settings = {"source": settings.source, "sensor": expected(manifest.input, manifest.capture)}
        return [Process(command("sources.feeding"), user, False, feed_settings), inside]
    if fetched is None:
        return [inside]
    return [Process(command("sources.feeding"), user, True, fetched), inside]


def fetch_settings(settings: Settings, manifest: Manifest) -> Optional[Dict[str, Any]]:
    """The settings of the fetching process; None for a source on this device. Raises ``BadInput``."""
    source = settings.source
    if not camera_address.on_network(source):
        if settings.source_credentials is not None:
            raise BadInput("--source-credentials is for a camera on a network: leave it out for this source")
        return None
    source = camera_address.to_fetch(source, settings.source_credentials, accepted=settings.accept_raw_on_network)
    return {"source": source, "sensor": expected(manifest.input, manifest.capture)}


def command(module: str) -> List[str]:
    """The command that runs a module of this runtime, from the same zipapp or folder as this process."""
    app = zipapp()
    python_path = [] if app is None else [app]
    site = os.path.join(os.path.dirname(os.path.realpath(app or "")), "..", "..", "site")
    if app is not None and os.path.isdir(site):
        # The wheels that were flashed, as the zipapp's own start finds them.
        python_path.insert(0, os.path.realpath(site))
    code = "import sys; sys.path[:1] = {!r}; from edgeveil.edge_runtime.{} import main; sys.exit(main(sys.argv[1:]))"
    return [sys.executable, "-c", code.format(python_path, module)]


def environment() -> Dict[str, str]:
    """What a process of the table needs of this one's environment, and nothing else: this one may hold the password of
    a broker or the token of the preview. numpy gets one thread.
    """
    ours = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith(_KEPT_FAMILIES)}
    ours.update(ONE_THREAD)
    return ours


_KEPT = (
    "HOME",
    "LANG",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "OPENBLAS_CORETYPE",
    "PATH",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TMPDIR",
    "TZ",
)
# Of Python, of the interpreters and of what opens cameras. None of these takes a password.
_KEPT_FAMILIES = (
    *("LC_", "PYTHON", "CUDA_", "INTEL_", "NVIDIA_", "OPENVINO_", "ORT_", "TF_"),
    *("FAKENECT_", "GST_", "LIBCAMERA_", "LIBUSB_", "OPENCV_", "OPENNI2_"),
)
