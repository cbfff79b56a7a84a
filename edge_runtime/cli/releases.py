"""The commands of ``edgeveil-edge`` about what is installed: install, update, rollback, status, trust, policy,
runtime.
"""

import argparse
import collections
import contextlib
import itertools
import os
import subprocess
import sys
import time
from typing import Any, Callable, Dict, Iterator, Optional

from edgeveil.edge_runtime import paths
from edgeveil.edge_runtime.cli import options
from edgeveil.edge_runtime.cli.options import Call, add_json
from edgeveil.edge_runtime.config import TRIAL_FRAMES
from edgeveil.edge_runtime.device import CPU
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed, EdgeVeilError, shown
from edgeveil.edge_runtime.paths import ROOT

# As long as both trials of an update may take: no service starts without it, and none would be tried again.
RECOVER_WAIT_S = 700.0


def add_commands(commands: Any) -> None:
    """Add them to the parser of ``edgeveil-edge``."""

    def command(name: str, call: Call, summary: str, example: str) -> argparse.ArgumentParser:
        added = options.add_command(commands, name, call, summary, example)
        added.add_argument("--root", default=ROOT, metavar="DIR", help="folder of the releases ({})".format(ROOT))
        return added

    install = command(
        "install",
        _install,
        "verify a bundle, try it on this board and run it from now on, or keep the current one",
        "edgeveil-edge install new.veil",
    )
    install.add_argument("bundle", metavar="BUNDLE", help="the .veil file")
    _add_trial(install)
    install.add_argument("--device", metavar="WORD", help="try it on that (that of the service's settings, else cpu)")
    install.add_argument("--again", action="store_true", help="install it even if it failed here three times")
    update = command(
        "update",
        _update,
        "fetch a newer release by a signed index, try it and run it, or keep the current one; for a timer",
        "edgeveil-edge update --from https://updates.example/hall",
    )
    update.add_argument(
        "--from", dest="place", required=True, metavar="WHERE", help="https://HOST/FOLDER or dir:FOLDER with index.json"
    )
    _add_trial(update)
    recover = command(
        "recover", _recover, "repair the releases after a power cut; runs at every start", "edgeveil-edge recover"
    )
    recover.add_argument(
        "--repair", action="store_true", help="write lost or damaged state anew, from what is left of it"
    )
    recover.add_argument(
        "--settings", action="store_true", help="take back settings that were on trial when the power failed, alone"
    )
    recover.add_argument(
        "--new-ledger", action="store_true", help="count in the ledger that is there now; what was spent is forgotten"
    )
    runtime = command(
        "runtime",
        _runtime,
        "install a newer runtime, signed by this board's root key, next to the one before",
        "edgeveil-edge runtime edgeveil-edge.veilrt",
    )
    runtime.add_argument("file", metavar="FILE", nargs="?", help="the file of edgeveil update runtime")
    runtime.add_argument("--previous", action="store_true", help="go back to the runtime before")
    back = "run the previous release again"
    command("rollback", lambda arguments: roll_back(arguments.root), back, "edgeveil-edge rollback")
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
    signed = {"trust": "trust.json of edgeveil trust", "policy": "policy-signed.json of edgeveil trust policy"}
    for name, file in signed.items():
        summary = "take a newer {} file, signed by this board's root key".format(name)
        taken = command(name, _take, summary, "edgeveil-edge {} new.json".format(name))
        taken.add_argument("file", metavar="FILE", help=file)


def _add_trial(command: argparse.ArgumentParser) -> None:
    command.add_argument("--source", metavar="KIND:WHERE", help="try it on frames of this source (synthetic ones)")
    command.add_argument(
        "--frames", type=int, default=TRIAL_FRAMES, metavar="N", help="frames to try it on ({})".format(TRIAL_FRAMES)
    )


def _install(arguments: argparse.Namespace) -> None:
    how = {"device": arguments.device, "source": arguments.source, "frames": arguments.frames}
    install_bundle(arguments.root, arguments.bundle, again=arguments.again, **how)


def install_bundle(
    root: str,
    bundle: str,
    *,
    device: Optional[str] = None,
    source: Optional[str] = None,
    frames: int = TRIAL_FRAMES,
    again: bool = False,
) -> None:
    """Verify, try and commit the bundle at a path, or keep the current one; says which runs. Raises ``EdgeVeilError``.

    The options are those of ``edgeveil-edge install``.
    """
    from edgeveil.edge_runtime.releases.index import count_up_unless_updating
    from edgeveil.edge_runtime.releases.runtimes import open_releases, service_stopped, trial, trial_device

    releases, runs_on = open_releases(root), trial_device(device, root)
    with releases.changing("install"):
        data = _read_bundle(root, bundle, releases.state().floor)
        _adopt(root)
        with service_stopped(root, runs_on, _note):
            changed = releases.install(data, trial(root, source, frames, runs_on, _note), again=again)
        _make_key(root)
    count_up_unless_updating(root)
    state = releases.state()
    runs = "now runs" if changed else "runs already:"
    sys.stdout.write("{} {}, security version {} or later from now on\n".format(runs, state.committed, state.floor))


def _update(arguments: argparse.Namespace) -> None:
    from edgeveil.edge_runtime.releases.index import update
    from edgeveil.edge_runtime.releases.runtimes import open_releases, service_stopped, trial, trial_device

    releases, device = open_releases(arguments.root), trial_device(None, arguments.root)
    with releases.changing("update"):
        _adopt(arguments.root)
        releases.recover()
        state = releases.state()
    refused = _update_settings(releases, arguments.place)

    def install(path: str) -> bool:
        with releases.changing("update"), service_stopped(arguments.root, device, _note):
            data = _read_bundle(arguments.root, path, releases.state().floor)
            return releases.install(data, trial(arguments.root, arguments.source, arguments.frames, device, _note))

    try:
        trust = _trust(arguments.root, state.floor)
        changed = update(arguments.root, arguments.place, trust, install, committed=state.committed, say=_note)
    except EdgeVeilError:
        if refused is not None:
            _note("note: no new settings: {}".format(refused))
        raise
    sys.stdout.write("{} {}\n".format("now runs" if changed else "runs already:", releases.state().committed))
    if changed:
        restart_service(arguments.root)
    if refused is not None:
        raise refused


def _update_settings(releases: Any, place: str) -> Optional[EdgeVeilError]:
    """Take the settings for this board that lie at ``place``; the error where that fails: a release comes anyway."""
    from edgeveil.edge_runtime.releases.index import LOCK_FILE, open_origin
    from edgeveil.edge_runtime.releases.runtimes import open_settings, restarted
    from edgeveil.edge_runtime.releases.settings import board_key, file_name
    from edgeveil.edge_runtime.util import root_lock

    root = releases.root
    if not os.path.isdir(paths.SYSTEMD):
        return None  # no one would start the service again
    try:
        with root_lock.held(root, "update", name=LOCK_FILE):
            data = open_origin(place).read_if_there(file_name(board_key(root)))
            if data is None:
                return None
            with releases.changing("update"):
                if open_settings(root).take(data, _trust(root), lambda: restarted(root)):
                    _note("the service runs with new settings")
    except EdgeVeilError as error:
        return error
    return None


def restart_service(root: str) -> None:
    """Have the service of ``root``, which still runs the release before, start again where there is one.

    Raises ``DeviceFailed``.
    """
    from edgeveil.edge_runtime.releases.runtimes import units

    if not os.path.isdir(paths.SYSTEMD):
        return
    code = subprocess.call(["systemctl", "try-restart", units(root)[0]], stdin=subprocess.DEVNULL)  # noqa: S603, S607 - ours; found as every shell would
    if code:
        raise DeviceFailed("the release was changed, but its service was not restarted (code {})".format(code))


def _trust(root: str, floor: int = 0) -> Any:
    """The board's trust, for bundles of this security version or later. Raises as ``open_trust``."""
    from edgeveil.edge_runtime.bundle.trust_store import open_trust

    return open_trust(os.path.join(root, "trust"), floor=floor)


def _read_bundle(root: str, path: str, floor: int) -> bytes:
    """The bytes of a bundle that a key trusted here signed; of any other one, its beginning alone is read."""
    from edgeveil.edge_runtime.bundle.reader import check_beginning, read_file
    from edgeveil.edge_runtime.releases.runtimes import check_running

    trust = _trust(root, floor)
    check_running(trust)
    return read_file(path, lambda handle: check_beginning(handle, trust))


def _make_key(root: str) -> None:
    """Make the board's own key where there is none; a damaged one stops no release."""
    from edgeveil.edge_runtime.releases.settings import board_key

    try:
        board_key(root)
    except EdgeVeilError as refused:
        _note("note: {}".format(refused))


def _adopt(root: str) -> None:
    """Install this runtime where none is: at the first flash, and on a board of version 0.1. The lock is held."""
    from edgeveil.edge_runtime.releases.runtimes import Runtimes

    adopted = Runtimes(root).adopt(_trust(root))
    if adopted:
        _note("installed this runtime, {:.16}...".format(adopted))


def _try(arguments: argparse.Namespace) -> None:
    from edgeveil.edge_runtime.bench.protocol import synthetic_frames
    from edgeveil.edge_runtime.errors import FrameDropped
    from edgeveil.edge_runtime.pipeline.crops import Capture
    from edgeveil.edge_runtime.pipeline.perturber import Perturber
    from edgeveil.edge_runtime.sources import open_source

    done = 0
    dropped: Dict[str, int] = collections.Counter()
    with contextlib.ExitStack() as stack:
        opened = Perturber.open(arguments.bundle, trust=arguments.trust, device=arguments.device)
        perturber = stack.enter_context(opened)
        manifest, capture = perturber.manifest, None
        next_frame: Callable[[], Any] = itertools.cycle(synthetic_frames(manifest.input)).__next__
        if arguments.source:
            source = open_source(arguments.source, manifest.input, manifest.capture)
            next_frame, capture = stack.enter_context(source).next, Capture(manifest)
        for _ in range(arguments.frames):
            try:
                frame = next_frame()
                if frame is None:
                    break
                # Synthetic frames are of the pipeline's input: nothing to crop.
                for _slot, crop in capture.frames(frame) if capture else [(0, frame)]:
                    perturber.perturb(crop)
                    done += 1
            except FrameDropped as drop:
                dropped[drop.reason] += 1
    # An empty scene may give no crop to perturb; a frame that came and was dropped is a failure.
    if dropped:
        reasons = ", ".join("{} x {}".format(count, reason) for reason, count in sorted(dropped.items()))
        raise DeviceFailed("of {} frames some were dropped: {}".format(arguments.frames, reasons))
    sys.stdout.write("passed: {} frames with {} on {}\n".format(done, perturber.artefact, arguments.device))


def _recover(arguments: argparse.Namespace) -> None:
    from edgeveil.edge_runtime.releases import try_settings
    from edgeveil.edge_runtime.releases.index import count_up_unless_updating
    from edgeveil.edge_runtime.releases.runtimes import Runtimes, open_releases, open_settings

    releases, runtimes = open_releases(arguments.root), Runtimes(arguments.root)
    with releases.changing("recover", wait_s=RECOVER_WAIT_S):
        if arguments.settings:
            if try_settings.after_boot(os.path.join(arguments.root, try_settings.KEPT)):
                sys.stdout.write("The settings before are back: the power failed before a flash had tried new ones.\n")
            done = open_settings(arguments.root).recover()
            sys.stdout.write(done + "\n" if done else "")
            return
        if arguments.repair:
            sys.stdout.write(releases.repair() + "\n")
        try:
            _adopt(arguments.root)
        except BadInput as refused:
            _note("note: {}".format(refused))  # a board comes up with what it has
        if arguments.new_ledger:
            releases.count_anew()
        done = releases.recover()
        _make_key(arguments.root)
        runtimes.tidy()
        try:
            runtimes.fall_back(lambda: _trust(arguments.root))
        except EdgeVeilError as refused:
            _note("note: the runtime before stays the one before: {}".format(refused))
    count_up_unless_updating(arguments.root)
    if done:
        sys.stdout.write(done + "\n")


def _runtime(arguments: argparse.Namespace) -> None:
    from edgeveil.edge_runtime.bundle.reader import read_file
    from edgeveil.edge_runtime.releases.runtimes import Runtimes, makers, open_releases, read_update

    if bool(arguments.file) == arguments.previous:
        raise BadInput("expected the file of a runtime update, or --previous: give one of the two")
    releases, runtimes = open_releases(arguments.root), Runtimes(arguments.root)
    with releases.changing("runtime"):
        releases.state()  # a board that lost its state takes nothing new
        trust = _trust(arguments.root)
        if arguments.previous:
            sys.stdout.write("now runs the runtime {}\n".format(runtimes.go_back(trust)))
            return
        new = read_update(read_file(arguments.file), makers(trust))
        taken = runtimes.install(new, trust)
        runtimes.tidy()
    sys.stdout.write("{} {} version {}\n".format("installed" if taken else "runs already:", new.name, new.version))
    if taken:
        service = paths.service_of(arguments.root)
        _note("the service runs it after its next start: systemctl restart {0}-recover {0}".format(service))


def roll_back(root: str) -> None:
    """Run the previous release again, and say so. Raises ``EdgeVeilError``."""
    from edgeveil.edge_runtime.releases.runtimes import check_running, open_releases

    releases = open_releases(root)
    check_running(_trust(root))
    sys.stdout.write("now runs {}\n".format(releases.rollback()))


def _status(arguments: argparse.Namespace) -> None:
    from edgeveil.edge_runtime.outside.status import service_state
    from edgeveil.edge_runtime.releases.runtimes import status

    document = dict(status(arguments.root), service=service_state(arguments.root))
    options.print_document(document, status_lines, as_json=arguments.json)


def status_lines(document: Dict[str, Any]) -> Iterator[str]:
    """The lines that show a board's status to people; an earlier runtime's document has fewer fields."""
    from edgeveil.edge_runtime import ext

    for name in ("committed", "name", "previous", "floor", "reason", "runtime"):
        value = document.get(name)
        yield "{}: {}".format(name, "none" if value in (None, "") else value)
    if "clock" in document:
        yield "clock: {}".format(document["clock"])
    if "service" in document:
        yield "service: " + _service_text(document["service"])
        for name, said in sorted(((document["service"] or {}).get("receivers") or {}).items()):
            yield "receiver: {}: {}".format(name, said)
    if "index" in document:
        yield "index: " + _index_text(document["index"])
    if "settings" in document:
        yield from _settings_lines(document["settings"])
    if "aims" in document:
        seen = document["aims"]
        now = ", and one goes on for {} s more at most".format(seen["left_s"]) if seen["left_s"] else ""
        yield "aims: {}, {} s in all{}".format(seen["count"], seen["seconds"], now)
    if "spent" in document:
        yield "spent: " + ext.book.board_total_text(document["spent"])
    for sha, count in document["failed"].items():
        yield "  failed: {} x {}".format(count, sha)


def _service_text(service: Optional[Dict[str, Any]]) -> str:
    if service is None:
        return "none"
    units = ", ".join("{} {}".format(name, state) for name, state in sorted(service["units"].items()))
    away = service["figures"].get("receivers_away")
    note = "; receivers not connected: {:.0f} (edgeveil board logs)".format(away) if away else ""
    return units + ("" if service["ready"] is None else "; ready: {}".format(service["ready"])) + note


def _settings_lines(settings: Dict[str, Any]) -> Iterator[str]:
    number = settings["number"]
    back = "; {highest} failed {failures} times: {reason}".format(**settings) if settings["failures"] else ""
    yield "settings: {}{}".format("number {}".format(number) if number else "of the last flash", back)
    yield "key: {}".format(settings["key"] or "none")


def _index_text(index: Any) -> str:
    if index is None or not index["name"]:
        days = 0 if index is None else index["age_s"] // 86400
        since = ", for {} days".format(days) if days else ""
        return "none was ever accepted" + since
    changed, last_seen = (
        time.strftime("%Y-%m-%d %H:%M", time.gmtime(index[name])) if index[name] else "unknown"
        for name in ("changed_at", "asked_at")
    )
    told = "{} version {}, changed {}, last seen {} (UTC, by the clock of this board), the newest for {} days"
    return told.format(index["name"], index["version"], changed, last_seen, index["age_s"] // 86400)


def _releases(arguments: argparse.Namespace) -> None:
    from edgeveil.edge_runtime.releases.runtimes import open_releases

    releases = open_releases(arguments.root)
    gone = releases.prune(arguments.keep) if arguments.keep is not None else []
    state = releases.state()
    marks = {state.committed: "  current", state.previous: "  previous"}
    folder = os.path.join(arguments.root, "releases")
    if not os.path.isdir(folder):
        _note("No release was ever installed in {}.".format(arguments.root))
        return
    for sha in sorted(os.listdir(folder)):
        sys.stdout.write("{}{}\n".format(sha, marks.get(sha, "")))
    for sha in gone:
        sys.stdout.write("{}  removed\n".format(sha))


def _take(arguments: argparse.Namespace) -> None:
    """``trust`` and ``policy``: update the trust folder with a signed file, and print whether it was new."""
    from edgeveil.edge_runtime.bundle.trust_store import update_policy, update_trust
    from edgeveil.edge_runtime.releases.runtimes import open_releases

    update = update_trust if arguments.command == "trust" else update_policy
    try:
        with open(arguments.file, "rb") as file:
            data = file.read(2**20 + 1)
    except OSError as error:
        raise BadInput("expected a signed file at {}: {}".format(arguments.file, error.strerror)) from None
    with open_releases(arguments.root).changing(arguments.command):
        taken = update(os.path.join(arguments.root, "trust"), data)
    sys.stdout.write("taken\n" if taken else "this board has it already\n")


def _note(text: str) -> None:
    sys.stderr.write(shown(text) + "\n")
