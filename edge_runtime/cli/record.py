"""``edgeveil-edge record``: raw samples of a site, for its owner alone: sealed to a public key before they are kept."""

import argparse
import glob
import os
import sys
from typing import Any

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


def _record(arguments: argparse.Namespace) -> int:
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
        refuse_production(folder)
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


def refuse_production(folder: str) -> None:
    """Raise ``BadInput`` unless all that this trust folder accepts are throw-away keys of development."""
    from edgeveil.edge_runtime.bundle.trust_store import open_trust

    try:
        reasons = [key.name for key in open_trust(folder).keys.values() if not key.development]
    except Exception as problem:
        reasons = [str(problem)]
    if reasons or any(os.path.lexists(os.path.join(folder, name)) for name in ("root.pub", "trust.json")):
        raise BadInput(
            "record is refused here: {} is a trust folder for production ({}). Raw frames are recorded on a board that "
            "trusts development keys alone (edgeveil key new --development)".format(
                folder, reasons[0] if reasons else "root.pub"
            )
        )
