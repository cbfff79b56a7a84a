"""``edgeveil-edge camera``: gets the frames of a camera for an inside without a network, as a unit of its own."""

import argparse
from typing import Any

from edgeveil.edge_runtime import camera_address, config
from edgeveil.edge_runtime.cli.options import add_bundle, add_command, add_setting
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.kinds import needs_daemon
from edgeveil.edge_runtime.paths import CAMERA_PATH


def add_commands(commands: Any) -> None:
    """Add it to the parser of ``edgeveil-edge``."""
    camera = add_command(
        commands,
        "camera",
        _camera,
        "run only the process that fetches the frames of a network camera, or asks a camera's daemon for them, as a "
        "systemd unit of its own; inside --frames-at DIR is the other",
        "edgeveil-edge camera --config {} --frames-at /run/edgeveil-camera".format(CAMERA_PATH),
    )
    add_bundle(camera, optional=True)
    for name in ("source", "source-credentials", "frames-at", "accept-raw-on-network"):
        add_setting(camera, name)
    camera.add_argument("--config", metavar="FILE", help="settings ({})".format(CAMERA_PATH))


def _camera(arguments: argparse.Namespace) -> int:
    """The bundle says what the sensor must give; after that this process has the camera and the pipe alone."""
    from edgeveil.edge_runtime.bundle.reader import read_bundle, read_file
    from edgeveil.edge_runtime.bundle.trust_store import open_trust
    from edgeveil.edge_runtime.ipc.frames_pipe import open_for_camera
    from edgeveil.edge_runtime.manifest.sensor import expected
    from edgeveil.edge_runtime.sandbox import hardening

    file = config.read(arguments.config or CAMERA_PATH)
    settings = config.merged(vars(arguments), dict({"sink": ["none"]}, **file))
    source = settings.source
    if not settings.frames_at:
        raise BadInput("expected --frames-at DIR, the folder where the inside takes the frames")
    if camera_address.on_network(source):
        from edgeveil.edge_runtime.sources.network.fetch import run

        camera_address.check_private(source, settings.accept_raw_on_network)
        if settings.source_credentials is not None:
            source = camera_address.with_credentials(source, settings.source_credentials)
    elif needs_daemon(source):
        from edgeveil.edge_runtime.sources.daemon_feed import run
    else:
        raise BadInput("expected a camera on a network or of a daemon; the inside opens this source itself")
    manifest = read_bundle(read_file(settings.bundle), open_trust(settings.trust)).manifest
    handle = open_for_camera(settings.frames_at)
    hardening.no_core_dumps()
    # What a library prints may hold the camera's address, and with it a password.
    hardening.close_outputs()
    return run({"source": source, "sensor": expected(manifest.input, manifest.capture)}, handle)
