"""``edgeveil-edge record`` and ``aim``: raw samples of a site for its owner alone, sealed to a public key before they
are kept; and edges of the raw picture on a terminal, to aim a camera.
"""

import argparse
import glob
import os
import sys
import time
from typing import Any

from edgeveil.edge_runtime import paths
from edgeveil.edge_runtime.camera_address import on_network
from edgeveil.edge_runtime.cli.options import add_bundle, add_command, add_setting
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.kinds import check_source, needs_daemon
from edgeveil.edge_runtime.paths import ROOT
from edgeveil.edge_runtime.util.validate import counted

LOUD = """\
RECORDING RAW FRAMES of {source}: as they are, not perturbed. Everyone in view must know and agree.
They are sealed to the key {key} and kept in {out}; who has its private key sees everyone.
Ctrl-C ends the recording.
"""


def add_commands(commands: Any) -> None:
    """Add it to the parser of ``edgeveil-edge``."""
    record = add_command(
        commands,
        "record",
        _record,
        "record RAW samples, as a bundle's capture makes them, sealed to the owner's public key: to train on a site's "
        "own data; refused on a board that trusts keys for production",
        "edgeveil-edge record demo.veil --trust trust --source camera:0 --key owner.pub --out hall.age "
        '--labels "page:8080?y=sit,stand&z=ann,ben"',
    )
    add_bundle(record)
    add_setting(record, "source")
    record.add_argument("--key", required=True, metavar="FILE", help="public key (*.pub) of the owner, who can open it")
    record.add_argument(
        "--labels", metavar="CSV|page:PORT?y=A,B", help="a CSV: seconds, y, z, ...; or a page of buttons"
    )
    record.add_argument("--out", required=True, metavar="FILE", help="the sealed file; edgeveil data open opens it")

    aim = add_command(
        commands,
        "aim",
        _aim,
        "show edges of the camera's RAW picture on this terminal for some minutes, to aim it, where the owner's policy "
        "allows that; the service goes on without its camera, and says so",
        "edgeveil-edge aim --minutes 5",
    )
    aim.add_argument(
        "--minutes", type=int, metavar="N", help="for how long at most, up to 15 (5, or as the policy has it)"
    )
    aim.add_argument("--root", default=ROOT, metavar="DIR", help="folder of the releases ({})".format(ROOT))


def _record(arguments: argparse.Namespace) -> int:
    from edgeveil.edge_runtime.bundle.aims import refuse_production
    from edgeveil.edge_runtime.bundle.policy import announce
    from edgeveil.edge_runtime.bundle.reader import read_bundle
    from edgeveil.edge_runtime.bundle.trust_store import open_trust
    from edgeveil.edge_runtime.outside import recording
    from edgeveil.edge_runtime.signing.keys import read_public_key

    source = arguments.source or ""
    check_source(source)
    if on_network(source) or needs_daemon(source):
        raise BadInput(
            "expected a sensor of this board, a film or pictures; record takes no camera on a network or of a daemon"
        )
    key, labels = read_public_key(arguments.key), recording.parse_labels(arguments.labels)
    trust = open_trust(arguments.trust)
    for folder in [arguments.trust] + installed():
        refuse_production(folder, "record", "Raw frames are recorded on a board")
    bundle = read_bundle(arguments.bundle, trust)
    announce(bundle)
    if os.path.lexists(arguments.out):
        raise BadInput("{} exists; it is not overwritten. Choose another --out".format(arguments.out))
    sys.stderr.write(LOUD.format(source=source, key=key.name, out=arguments.out))

    def inside(ends: Any) -> int:
        from edgeveil.edge_runtime.inside import recording as inner

        return inner.run(bundle.manifest, source, bytes.fromhex(key.key), inner.Ends(*ends), labels)

    done = recording.run(inside, arguments.out, labels)
    dropped = "".join(", {} dropped ({})".format(count, reason) for reason, count in sorted(done["dropped"].items()))
    sys.stdout.write("{} in {}{}\n".format(counted(done["frames"], "frame"), arguments.out, dropped))
    sys.stdout.write(
        "Next, on the workstation: edgeveil data open {} --key KEY\n".format(os.path.basename(arguments.out))
    )
    return 0


def installed() -> "list[str]":
    """The trust folders of the services on this board."""
    return [path for path in glob.glob(ROOT + "*/trust") if os.path.isdir(path)] + glob.glob("/etc/edgeveil*/trust")


def _aim(arguments: argparse.Namespace) -> int:
    from edgeveil.edge_runtime import config
    from edgeveil.edge_runtime.bundle import aims
    from edgeveil.edge_runtime.bundle.reader import read_bundle, read_file
    from edgeveil.edge_runtime.bundle.trust_store import open_trust
    from edgeveil.edge_runtime.manifest.manifest import expected
    from edgeveil.edge_runtime.outside import aiming
    from edgeveil.edge_runtime.releases.runtimes import inside_lent, inside_returned
    from edgeveil.edge_runtime.sinks.uri import without_secrets

    root = arguments.root
    trust = os.path.join(root, "trust")
    most_s = aims.most_s(trust)
    seconds = min(300, most_s) if arguments.minutes is None else 60 * arguments.minutes
    if not 0 < seconds <= most_s:
        raise BadInput("expected --minutes from 1 to {}; got {}".format(most_s // 60, arguments.minutes))
    if not os.isatty(1):
        raise BadInput("expected a terminal, as ssh -t has one: the picture is shown there, and kept nowhere")
    source = config.read(paths.named(paths.DEFAULT_PATH, paths.service_of(root))).get("source", "")
    check_source(source)
    manifest = read_bundle(read_file(os.path.join(root, "current", "bundle.veil")), open_trust(trust)).manifest
    if on_network(source) or needs_daemon(source) or len(expected(manifest.input, manifest.capture)["shape"]) < 2:
        raise BadInput(
            "expected a camera of this board, with pictures; {} has its own way".format(without_secrets(source))
        )
    until_s = time.monotonic() + seconds
    aims.begin(root, seconds, time.monotonic())

    def inside(ends: Any) -> int:
        from edgeveil.edge_runtime.inside import aiming as inner

        return inner.run(manifest, source, inner.Ends(*ends), until_s)

    def give_back() -> None:
        try:
            inside_returned(root)
        finally:
            aims.end(root, time.monotonic())

    aiming.run(inside, aiming.Camera(lambda: inside_lent(root), give_back), 1, until_s, time.monotonic)
    seen = aims.read_aims(root)
    sys.stdout.write(
        "The service has its camera again. Aims so far: {}, {} s in all\n".format(seen.times, seen.seconds)
    )
    return 0
