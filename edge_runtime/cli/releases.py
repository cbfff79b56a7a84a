"""The commands of ``edgeveil-edge`` about what is installed: install, update, rollback, status, trust, policy."""

import argparse
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Callable, Dict, Tuple

from edgeveil.edge_runtime import paths
from edgeveil.edge_runtime.cli import options
from edgeveil.edge_runtime.cli.options import Call, add_json
from edgeveil.edge_runtime.device import CPU
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.paths import ROOT

if TYPE_CHECKING:
    from edgeveil.edge_runtime.pipeline.perturber import Perturber

TRIAL_FRAMES = 30


def add_commands(commands: Any) -> None:
    """Add them to the parser of ``edgeveil-edge``."""

    def command(name: str, call: Call, summary: str, example: str) -> argparse.ArgumentParser:
        added = options.add_command(commands, name, call, summary, example)
        added.add_argument("--root", default=ROOT, metavar="DIR", help="where the releases lie ({})".format(ROOT))
        return added

    install = command(
        "install",
        _install,
        "verify a bundle, try it on this board and run it from now on, or keep the old one",
        "edgeveil-edge install new.veil",
    )
    install.add_argument("bundle", metavar="BUNDLE", help="the .veil file")
    _add_trial(install)
    install.add_argument("--device", metavar="WORD", help="try it on that (what the service's settings say, else cpu)")
    install.add_argument("--again", action="store_true", help="even if it failed here three times")
    update = command(
        "update",
        _update,
        "fetch a newer release by a signed index, try it and run it, or keep the old one; for a timer",
        "edgeveil-edge update --from https://updates.example/hall",
    )
    update.add_argument(
        "--from", dest="place", required=True, metavar="WHERE", help="https://HOST/FOLDER or dir:FOLDER with index.json"
    )
    _add_trial(update)
    command("recover", _recover, "put right what a power cut left; called at every start", "edgeveil-edge recover")
    command("rollback", _rollback, "run the previous release again", "edgeveil-edge rollback")
    tried = command(
        "try",
        _try,
        "verify a bundle, test it and perturb some frames: what install does before it commits",
        "edgeveil-edge try new.veil --trust /opt/edgeveil/trust",
    )
    tried.add_argument("bundle", metavar="BUNDLE", help="the .veil file")
    tried.add_argument("--trust", required=True, metavar="DIR", help="the device's trust")
    tried.add_argument("--device", default=CPU, metavar="WORD", help="what runs the model (cpu)")
    _add_trial(tried)
    status = command("status", _status, "show what runs here and what failed", "edgeveil-edge status --json")
    add_json(status)
    releases = command("releases", _releases, "list the releases on this board", "edgeveil-edge releases --keep 3")
    releases.add_argument("--keep", type=int, metavar="N", help="remove all but the newest N")
    trust = command(
        "trust", _trust, "take a newer trust file, signed by this board's root key", "edgeveil-edge trust new.json"
    )
    trust.add_argument("file", metavar="FILE", help="trust.json of edgeveil trust")
    policy = command(
        "policy",
        _policy,
        "take a newer policy, signed by this board's root key",
        "edgeveil-edge policy policy-signed.json",
    )
    policy.add_argument("file", metavar="FILE", help="policy-signed.json of edgeveil trust policy")


def _add_trial(command: argparse.ArgumentParser) -> None:
    command.add_argument("--source", metavar="KIND:WHERE", help="try it on frames of this source (synthetic ones)")
    command.add_argument(
        "--frames", type=int, default=TRIAL_FRAMES, metavar="N", help="frames to try it on ({})".format(TRIAL_FRAMES)
    )


def _install(arguments: argparse.Namespace) -> None:
    from edgeveil.edge_runtime.bundle.reader import read_file
    from edgeveil.edge_runtime.releases.trial import open_releases, service_stopped, trial, trial_device

    releases = open_releases(arguments.root)
    data = read_file(arguments.bundle)
    device = trial_device(arguments.device)
    with service_stopped(device, _note):
        tried = trial(arguments.root, arguments.source, arguments.frames, device)
        changed = releases.install(data, tried, again=arguments.again)
    state = releases.state()
    sys.stdout.write(
        "{} {}, security version {} or later from now on\n".format(
            "now runs" if changed else "runs already:", state.committed, state.floor
        )
    )


def _update(arguments: argparse.Namespace) -> None:
    from edgeveil.edge_runtime.bundle.trust_store import open_trust
    from edgeveil.edge_runtime.releases.trial import open_releases, service_stopped, trial, trial_device
    from edgeveil.edge_runtime.releases.update import update

    releases = open_releases(arguments.root)
    releases.recover()
    state = releases.state()
    device = trial_device(None)

    def install(data: bytes) -> bool:
        with service_stopped(device, _note):
            return releases.install(data, trial(arguments.root, arguments.source, arguments.frames, device))

    changed = update(
        arguments.root,
        arguments.place,
        open_trust(os.path.join(arguments.root, "trust"), floor=state.floor),
        install,
        committed=state.committed,
        say=_note,
    )
    sys.stdout.write("{} {}\n".format("now runs" if changed else "runs already:", releases.state().committed))
    if changed and os.path.isdir(paths.SYSTEMD):
        # The service still runs the old release; a board without the service has nothing to restart.
        code = subprocess.call(["systemctl", "try-restart", "edgeveil.service"], stdin=subprocess.DEVNULL)  # noqa: S607 - found as every shell would
        if code:
            raise DeviceFailed("the new release is installed, but its service was not restarted (code {})".format(code))


def _try(arguments: argparse.Namespace) -> None:
    from edgeveil.edge_runtime.bench.protocol import synthetic_frames
    from edgeveil.edge_runtime.errors import FrameDropped
    from edgeveil.edge_runtime.pipeline.perturber import Perturber

    dropped: Dict[str, int] = {}
    with Perturber.open(arguments.bundle, trust=arguments.trust, device=arguments.device) as perturber:
        if arguments.source:
            done, dropped = _perturb_source(arguments.source, perturber, arguments.frames)
        else:
            done, frames = 0, synthetic_frames(perturber.manifest.input)
            for number in range(arguments.frames):
                try:
                    perturber.perturb(frames[number % len(frames)])
                    done += 1
                except FrameDropped as drop:
                    dropped[drop.reason] = dropped.get(drop.reason, 0) + 1
        name = perturber.artefact
    # An empty scene may give no crop to perturb; a frame that came and was dropped is a failure.
    if dropped:
        reasons = ", ".join("{} x {}".format(count, reason) for reason, count in sorted(dropped.items()))
        raise DeviceFailed("of {} frames some were dropped: {}".format(arguments.frames, reasons))
    sys.stdout.write("passed: {} frames with {} on {}\n".format(done, name, arguments.device))


def _perturb_source(text: str, perturber: "Perturber", count: int) -> Tuple[int, Dict[str, int]]:
    """How many of the first ``count`` frames of a source were perturbed, and why others were dropped."""
    from edgeveil.edge_runtime.capture.crops import Capture
    from edgeveil.edge_runtime.errors import FrameDropped
    from edgeveil.edge_runtime.sources import open_source

    manifest, done = perturber.manifest, 0
    dropped: Dict[str, int] = {}
    capture = Capture(manifest)
    with open_source(text, manifest.input, manifest.capture) as source:
        for _ in range(count):
            try:
                frame = source.next()
                if frame is None:
                    break
                for _slot, crop in capture.frames(frame):
                    perturber.perturb(crop)
                    done += 1
            except FrameDropped as drop:
                dropped[drop.reason] = dropped.get(drop.reason, 0) + 1
    return done, dropped


def _recover(arguments: argparse.Namespace) -> None:
    from edgeveil.edge_runtime.releases.trial import open_releases

    done = open_releases(arguments.root).recover()
    if done:
        sys.stdout.write(done + "\n")


def _rollback(arguments: argparse.Namespace) -> None:
    from edgeveil.edge_runtime.releases.trial import open_releases

    sys.stdout.write("now runs {}\n".format(open_releases(arguments.root).rollback()))


def _status(arguments: argparse.Namespace) -> None:
    import json

    from edgeveil.edge_runtime.releases.trial import status

    document = status(arguments.root)
    if arguments.json:
        sys.stdout.write(json.dumps(document, sort_keys=True) + "\n")
        return
    lines = ["{}: {}".format(name, document[name]) for name in ("committed", "name", "previous", "floor", "reason")]
    sys.stdout.write(
        "\n".join(lines + ["  failed: {} x {}".format(n, s) for s, n in document["failed"].items()]) + "\n"
    )


def _releases(arguments: argparse.Namespace) -> None:
    from edgeveil.edge_runtime.releases.trial import open_releases

    releases = open_releases(arguments.root)
    gone = releases.prune(arguments.keep) if arguments.keep is not None else []
    state = releases.state()
    marks = {state.committed: "  current", state.previous: "  previous"}
    for sha in sorted(os.listdir(os.path.join(arguments.root, "releases"))):
        sys.stdout.write("{}{}\n".format(sha, marks.get(sha, "")))
    for sha in gone:
        sys.stdout.write("{}  removed\n".format(sha))


def _trust(arguments: argparse.Namespace) -> None:
    from edgeveil.edge_runtime.bundle.trust_store import update_trust

    _take(arguments, update_trust)


def _policy(arguments: argparse.Namespace) -> None:
    from edgeveil.edge_runtime.bundle.trust_store import update_policy

    _take(arguments, update_policy)


def _take(arguments: argparse.Namespace, update: Callable[[str, bytes], bool]) -> None:
    """Update the trust folder with a signed file, and print whether it was new."""
    try:
        with open(arguments.file, "rb") as file:
            data = file.read(2**20 + 1)
    except OSError as error:
        raise BadInput("There is no file to read at {}: {}.".format(arguments.file, error.strerror)) from None
    taken = update(os.path.join(arguments.root, "trust"), data)
    sys.stdout.write("taken\n" if taken else "this board has it already\n")


def _note(text: str) -> None:
    sys.stderr.write(text + "\n")
