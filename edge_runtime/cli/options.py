"""The options that several commands of ``edgeveil-edge`` share."""

import argparse
import json
import os
import sys
from typing import Any, Callable, Dict, Iterable, Optional, TextIO

from edgeveil.edge_runtime import camera_address, config
from edgeveil.edge_runtime.errors import BadInput, shown
from edgeveil.edge_runtime.kinds import SOURCES, fact_of, needs_daemon
from edgeveil.edge_runtime.paths import CAMERA_PATH

# The output of commands: one JSON document, or lines for people.


EXIT_CODES = "exit codes: 0 done, 2 your mistake, 3 figures not valid, 4 the device failed, 70 stopped, 130 interrupted"
Document = Dict[str, Any]


def print_document(
    document: Document, lines: Callable[[Document], Iterable[str]], *, as_json: bool, file: Optional[TextIO] = None
) -> None:
    """Print one document on stdout (or ``file``): as JSON, or as the ``lines`` made of it."""
    file = file or sys.stdout
    text = json.dumps(document, sort_keys=True, allow_nan=False) if as_json else shown("\n".join(lines(document)))
    encoding = file.encoding or "utf-8"  # a path need not be text in it
    file.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")


# What units, updaters and edgeveil flash call: no line of --help.
PLUMBING = ("inside", "camera", "recover", "try", "runtime", "policy", "rauc")
Call = Callable[[argparse.Namespace], Any]


def add_command(commands: Any, name: str, call: Call, summary: str, example: str) -> argparse.ArgumentParser:
    """Add a command with its help page; ``call`` gets its arguments and returns an exit code or None."""
    shown = {} if name in PLUMBING else {"help": summary}
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        description=summary[0].upper() + summary[1:] + ".",
        epilog="example:\n  {}\n\n{}".format(example, EXIT_CODES),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        **shown,
    )
    command.set_defaults(call=call)
    return command


def add_bundle(command: argparse.ArgumentParser, *, optional: bool = False) -> None:
    """The bundle and the keys to trust; ``optional`` if the configuration file may name them."""
    command.add_argument("bundle", metavar="BUNDLE", help="the .veil file", nargs="?" if optional else None)
    command.add_argument(
        "--trust", required=not optional, metavar="DIR", help="folder of public keys that may sign (*.pub)"
    )


def add_setting(command: argparse.ArgumentParser, name: str) -> None:
    """The flag of a setting; None if it is not given, so that the configuration file can give it."""
    setting = config.SETTINGS[name]
    options: Dict[str, Any] = {"default": None, "help": setting.help}
    if setting.kind is bool:
        options["action"] = "store_true"
    elif setting.kind is list:
        options.update(action="append", metavar=setting.metavar)
    else:
        options.update(type=setting.kind, metavar=setting.metavar)
    if name in ("source", "sink"):
        options["type"] = with_kind
    command.add_argument("--" + name, **options)


def with_kind(text: str) -> str:
    """A source or sink that is a path alone, with its kind: FILE.npz as npz:FILE.npz, a folder as images:FOLDER."""
    kind = os.path.splitext(text)[1][1:]
    if ":" in text or text == "none":
        return text
    if kind + ":FILE" in (fact_of(SOURCES, kind + ":", "forms") or ()):
        return kind + ":" + text
    return "images:" + text if text.endswith("/") or os.path.isdir(text) else text


def add_json(command: argparse.ArgumentParser) -> None:
    """``--json``."""
    command.add_argument("--json", action="store_true", help="print one JSON document on stdout")


# ``edgeveil-edge camera``: gets the frames of a camera for an inside without a network, as a unit of its own.


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
    from edgeveil.edge_runtime.ipc.pipes import open_for_camera
    from edgeveil.edge_runtime.manifest.manifest import expected
    from edgeveil.edge_runtime.sandbox import hardening
    from edgeveil.edge_runtime.sources.feeding import run

    file = config.read(arguments.config or CAMERA_PATH)
    settings = config.merged(vars(arguments), dict({"sink": ["none"]}, **file))
    source = settings.source
    if not settings.frames_at:
        raise BadInput("expected --frames-at DIR, the folder where the inside takes the frames")
    if camera_address.on_network(source):
        source = camera_address.to_fetch(source, settings.source_credentials, accepted=settings.accept_raw_on_network)
    elif not needs_daemon(source):
        raise BadInput("expected a camera on a network or of a daemon; the inside opens this source itself")
    manifest = read_bundle(read_file(settings.bundle), open_trust(settings.trust)).manifest
    handle = open_for_camera(settings.frames_at)
    hardening.no_core_dumps()
    # What a library prints may hold the camera's address, and with it a password.
    hardening.close_outputs()
    return run({"source": source, "sensor": expected(manifest.input, manifest.capture)}, handle)
