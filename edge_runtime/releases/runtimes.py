"""The installed runtime: the code that verifies, tries, recovers and serves. It never comes out of a bundle.

::

    ROOT/runtime/<sha256>/                        edgeveil-edge.pyz, and runtime.json where it came as an update
    ROOT/runtime/current, ROOT/runtime/previous   links to two of them

A runtime update is an archive of ``runtime.json`` and ``edgeveil-edge.pyz``. The first is an envelope of kind
``runtime`` by the role ``runtime``, or by the root keys where no one has it; its payload has ``schema`` 1, ``name``,
``version`` (it only rises), ``sha256`` and ``bytes`` of the second. The first flash puts its own runtime there, and so
does the first command of a new runtime on a board of version 0.1, which ran that of the bundle. Where the root-signed
trust file names runtimes, no other one is installed, and none but these changes what the board runs.
"""

import contextlib
import grp
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from edgeveil.edge_runtime import config, ext, paths
from edgeveil.edge_runtime.bundle import aims
from edgeveil.edge_runtime.bundle.archive import read_archive
from edgeveil.edge_runtime.bundle.index_seen import index_seen
from edgeveil.edge_runtime.bundle.policy import LEAK, leaks
from edgeveil.edge_runtime.bundle.reader import Bundle
from edgeveil.edge_runtime.bundle.trust_file import RUNTIME, Trust
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.camera_address import on_network
from edgeveil.edge_runtime.config import TRIAL_FRAMES
from edgeveil.edge_runtime.device import CPU, check_device, hears_of_usb, open_limit_s
from edgeveil.edge_runtime.errors import BadInput, BundleRefused, DeviceFailed
from edgeveil.edge_runtime.machine import clock_word
from edgeveil.edge_runtime.manifest.schema import RUNTIME_MEMBER
from edgeveil.edge_runtime.releases import confinement
from edgeveil.edge_runtime.releases.settings import BoardSettings
from edgeveil.edge_runtime.releases.store import BUNDLE, Releases
from edgeveil.edge_runtime.releases.store import RUNTIME as store_RUNTIME
from edgeveil.edge_runtime.signing.envelope import parse, unverified, unwrap
from edgeveil.edge_runtime.signing.keys import Key, public_key_line
from edgeveil.edge_runtime.signing.roles import Role
from edgeveil.edge_runtime.util.filesystem import (
    Filesystem,
    names,
    read_strict,
    remove_tree,
    replace_folder,
    replace_link,
    target,
)
from edgeveil.edge_runtime.util.validate import check, identifier, record, sha256, whole

FOLDER, CURRENT, PREVIOUS = "runtime", "current", "previous"
FILE, NOTE, KIND = "edgeveil-edge.pyz", "runtime.json", "runtime"
MAX_BYTES = 32 * 2**20
START_LIMIT_S = 60
_NOTE = {
    "schema": whole(1, 1),
    "bytes": whole(1, MAX_BYTES),
    "version": whole(1, 2**31 - 1),
    "name": identifier(),
    "sha256": sha256(),
}


class Update(NamedTuple):
    """A verified runtime update. ``note`` is its ``runtime.json``, ``data`` the zipapp."""

    name: str
    version: int
    sha256: str
    note: bytes
    data: bytes


def makers(trust: Trust) -> Role:
    """Who may sign runtimes for a device of this trust."""
    return trust.role_or_root(RUNTIME)


def read_update(data: bytes, may_sign: Role) -> Update:
    """The content of a runtime update that enough keys of ``may_sign`` signed. Raises ``BundleRefused``."""
    if len(data) > MAX_BYTES:
        _refuse("too-large", "it has more than {} bytes".format(MAX_BYTES))
    members = read_archive(data)
    if [name for name, _ in members] != [NOTE, FILE]:
        _refuse("extra-member", "expected the members {} and {}".format(NOTE, FILE))
    (_, note), (_, content) = members
    payload = _checked(unwrap(KIND, note, lambda signers: may_sign.check(signers, "runtime update", KIND)))
    if (len(content), hashlib.sha256(content).hexdigest()) != (payload["bytes"], payload["sha256"]):
        _refuse("hash-mismatch", "{} is not what was signed".format(FILE))
    return Update(payload["name"], payload["version"], payload["sha256"], note, content)


def _checked(payload: Any) -> Dict[str, Any]:
    check(payload, "runtime", record(_NOTE), file=NOTE, cure="Make the update again (edgeveil update runtime).")
    checked: Dict[str, Any] = payload
    return checked


def check_running(trust: Trust) -> None:
    """Raise ``BundleRefused`` where the trust names runtimes, and the code that runs here is none of them."""
    path = paths.zipapp()
    if trust.runtimes:
        check_approved(hashlib.sha256(b"" if path is None else _zipapp(path)).hexdigest(), trust)


def _zipapp(path: str) -> bytes:
    return read_strict(os.path.realpath(path), MAX_BYTES) or b""


def check_approved(sha: str, trust: Trust) -> None:
    """Raise ``BundleRefused`` where the trust names runtimes, and none of that SHA-256."""
    if trust.runtimes and sha not in trust.runtimes:
        raise BundleRefused(
            "unapproved-runtime",
            "The runtime {:.16}... is none that this device's trust file names. Nothing was changed: install one that "
            "it names (edgeveil-edge runtime FILE), or send a trust file that names this one.".format(sha),
        )


class Runtimes(object):
    """The runtimes under ``root``. The caller holds the board's lock. ``filesystem`` makes all changes."""

    def __init__(self, root: str, filesystem: Optional[Filesystem] = None) -> None:
        self._folder, self._filesystem = os.path.join(root, FOLDER), filesystem or Filesystem()
        self._root = root

    @property
    def current(self) -> Optional[str]:
        """The SHA-256 of the installed runtime, or None."""
        return target(os.path.join(self._folder, CURRENT))

    @property
    def previous(self) -> Optional[str]:
        """The SHA-256 of the one before, or None."""
        return target(os.path.join(self._folder, PREVIOUS))

    def path(self, sha: str) -> str:
        """The zipapp of that SHA-256."""
        return os.path.join(self._folder, sha, FILE)

    def version(self, sha: Optional[str]) -> int:
        """The version of an installed runtime; 0 for one that came with a flash.

        It was verified when it was installed, maybe by keys that were replaced since.
        """
        note = read_strict(os.path.join(self._folder, sha, NOTE)) if sha else None
        return 0 if note is None else int(_checked(unverified(KIND, parse(KIND, note)))["version"])

    def adopt(self, trust: Trust) -> Optional[str]:
        """Install the runtime that runs here, where none is installed; returns its SHA-256, or None.

        Raises ``BundleRefused`` where the trust names others.
        """
        path = paths.zipapp()
        if path is None or self.current is not None:
            return None
        data = _zipapp(path)
        sha = hashlib.sha256(data).hexdigest()
        check_approved(sha, trust)
        self._stage(sha, data, None)
        self._switch(sha)
        return sha

    def install(self, update: Update, trust: Trust) -> bool:
        """Install a verified update next to the one before, which stays; False where it runs already.

        Raises ``BundleRefused`` for an older one or one that the trust does not name, ``DeviceFailed`` where it does
        not start here.
        """
        check_approved(update.sha256, trust)
        before = self.current
        if update.sha256 == before:
            return False
        if update.version <= self.version(before):
            raise BundleRefused(
                "rolled-back",
                "This runtime has version {}, and the device has {} already. Sign a newer one, or go back to the one "
                "before with edgeveil-edge runtime --previous.".format(update.version, self.version(before)),
            )
        self._stage(update.sha256, update.data, update.note)
        _check_starts(self.path(update.sha256), self._root)
        self._switch(update.sha256)
        return True

    def go_back(self, trust: Trust) -> str:
        """Make the one before the current one; returns its SHA-256. Raises ``BadInput`` or ``BundleRefused``."""
        back = self.previous
        if back is None or back == self.current:
            raise BadInput("There is no runtime before this one to go back to.")
        data = read_strict(self.path(back), MAX_BYTES)
        if data is None or hashlib.sha256(data).hexdigest() != back:
            raise BadInput("The runtime before this one is not whole: install one (edgeveil-edge runtime FILE).")
        check_approved(back, trust)
        self._switch(back)
        return back

    def fall_back(self, trust: Callable[[], Trust]) -> None:
        """Make the runtime that runs here the current one where it is the one before: at a start, the current one is
        tried first, and it did not work. Raises ``BundleRefused`` where the trust does not name it."""
        path = paths.zipapp()
        back = self.previous
        if path is None or back in (None, self.current):
            return
        check_approved(str(back), trust())
        if os.path.realpath(path) == os.path.realpath(self.path(str(back))):
            self._switch(str(back))

    def tidy(self) -> None:
        """Remove what a power cut left half-made, and all runtimes but the two."""
        for name in names(self._folder):
            if name not in (CURRENT, PREVIOUS, self.current, self.previous):
                remove_tree(self._filesystem, os.path.join(self._folder, name))

    def _stage(self, sha: str, data: bytes, note: Optional[bytes]) -> None:
        if not os.path.isdir(self._folder):
            self._filesystem.make_folder(self._folder)
            self._filesystem.sync_folder(self._root)
        files = [(FILE, data, 0o755)] + ([] if note is None else [(NOTE, note, 0o644)])
        replace_folder(self._filesystem, os.path.join(self._folder, sha), files)
        self._filesystem.sync_folder(self._folder)

    def _switch(self, sha: str) -> None:
        before = self.current
        if before is not None:
            replace_link(self._filesystem, before, os.path.join(self._folder, PREVIOUS))
        replace_link(self._filesystem, sha, os.path.join(self._folder, CURRENT))
        self._filesystem.sync_folder(self._folder)


def _check_starts(path: str, root: str) -> None:
    command = [sys.executable, path, "status", "--root", root]
    try:
        done = subprocess.run(  # noqa: S603 - root signed it
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=START_LIMIT_S
        )
    except subprocess.TimeoutExpired:
        raise DeviceFailed(
            "The new runtime does not answer within {} s; the old one stays.".format(START_LIMIT_S)
        ) from None
    if done.returncode:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["without a message"]
        raise DeviceFailed("The new runtime does not start here ({}); the old one stays.".format(last[0][:300]))


def _refuse(reason: str, what: str) -> None:
    raise BundleRefused(
        reason, "This is no runtime update: {}. Get it again from the owner of this device's keys.".format(what)
    )


# The trial of a release on this board, by two runtimes, both as a user that may change nothing.
#
# The installed runtime verifies the bundle, runs its golden vectors and perturbs some frames: that decides. The
# bundle's own runtime does the same on synthetic frames, and must come to the same verdict. It is code that a signing
# key brought: it never runs as root, sees no raw frame and has no network (``releases.confinement``).


TRIAL_FRAMES_S = 120  # for its frames, besides what opening may take
# Groups that may open cameras and accelerators, by the names that the boards' systems give them.
_DEVICE_GROUPS = ("apex", "dialout", "plugdev", "render", "users", "video")


def open_settings(root: str) -> BoardSettings:
    """The ``BoardSettings`` of the service of ``root``."""
    return BoardSettings(root, paths.named(paths.DEFAULT_PATH, paths.service_of(root)))


def open_releases(root: str) -> Releases:
    """The ``Releases`` under ``root``, with the device's own trust and policy. Raises ``BadInput``."""
    if not os.path.isdir(root):
        raise BadInput("There is no {} on this board: flash it first, over a channel you trust.".format(root))
    service = paths.service_of(root)
    return Releases(
        root,
        lambda floor: open_trust(os.path.join(root, "trust"), floor=floor),
        ledger=lambda: ext.book.of_service(service),
    )


def trial(
    root: str,
    source: Optional[str] = None,
    frames: int = TRIAL_FRAMES,
    device: str = CPU,
    say: Callable[[str], None] = lambda _: None,
) -> Callable[[str, Bundle], None]:
    """A function that tries the release in a folder, in processes of their own. It raises ``DeviceFailed``."""
    root = os.path.realpath(root)
    words = ["--frames", str(frames)] + (["--device", device] if device != CPU else [])

    def run(folder: str, bundle: Bundle) -> None:
        if leaks(bundle.audit):
            say("note: {}: {}".format(bundle.manifest.name, LEAK))
        command, environment = _installed_runtime(root)
        place = os.path.join(os.path.realpath(folder), BUNDLE)
        more = ["--source", source] if source else []
        begin = command + ["try", place, "--trust", os.path.join(root, "trust")]
        _passes("its trial", begin + words + more, root, device, source, environment)
        if os.geteuid() != 0:
            say("note: the bundle's own runtime was not tried: only root can give it another user")
            return
        if device != CPU:
            # It would get the devices of this board, and with some of them its network.
            say("note: the bundle's own runtime was not tried: nothing of a bundle is given the {}".format(device))
            return
        with _own_runtime(root, bundle) as (own, trust):
            begin = [sys.executable, own, "try", place, "--trust", trust]
            _passes("the trial by its own runtime", begin + words, root, device, None, ())

    return run


def _passes(
    what: str, command: List[str], root: str, device: str, source: Optional[str], environment: Sequence[Tuple[str, str]]
) -> None:
    limit_s = TRIAL_FRAMES_S + int(open_limit_s(device))
    ended = confinement.run(
        command,
        root=root,
        limit_s=limit_s,
        groups=[one.gr_gid for one in grp.getgrall() if one.gr_name in _DEVICE_GROUPS and (source or device != CPU)],
        network=hears_of_usb(device) or (source is not None and on_network(source)),
        environment=environment,
    )
    if ended.code is None:
        raise DeviceFailed("{} took more than {} s".format(what, limit_s))
    if ended.code:
        killed = ended.code in (-signal.SIGKILL, 128 + signal.SIGKILL)
        silent = "killed: there may be too little memory" if killed else "without a message"
        last = ended.error.strip().splitlines()[-1:] or [silent]
        raise DeviceFailed("{} ended with code {} ({})".format(what, ended.code, last[0][:300]))


def _installed_runtime(root: str) -> Tuple[List[str], List[Tuple[str, str]]]:
    """The command that starts it, and what it needs in its environment."""
    runtimes = Runtimes(root)
    if runtimes.current is not None:
        return [sys.executable, runtimes.path(runtimes.current)], []
    zipapp = paths.zipapp()
    if zipapp is not None:
        return [sys.executable, zipapp], []
    where = os.pathsep.join(os.path.realpath(path) for path in sys.path if path)
    return [sys.executable, "-m", "edgeveil.edge_runtime"], [("PYTHONPATH", where)]


@contextlib.contextmanager
def _own_runtime(root: str, bundle: Bundle) -> Iterator[Tuple[str, str]]:
    """The bundle's own runtime as a file, and a trust folder of the one key that was found to have signed the bundle.

    It may be older or newer than this one, and need not understand this board's trust file.
    """
    folder = tempfile.mkdtemp(prefix="trial-", suffix=".tmp", dir=root)
    try:
        os.chmod(folder, 0o755)  # noqa: S103 - another user runs it
        for name in ("own", "trust"):
            os.mkdir(os.path.join(folder, name))
        # Two folders deep, as an installed one is: it looks for wheels in ../../site.
        own, trust = os.path.join(folder, "own", store_RUNTIME), os.path.join(folder, "trust")
        key = public_key_line(Key(bundle.key, "signer", bundle.development)).encode("ascii")
        for path, data in ((own, bundle.members[RUNTIME_MEMBER]), (os.path.join(trust, "signer.pub"), key)):
            with open(path, "wb") as file:
                file.write(data)
        for path in (os.path.dirname(own), trust, own, os.path.join(trust, "signer.pub")):
            os.chmod(path, 0o755)  # noqa: S103
        yield own, trust
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def trial_device(word: Optional[str], root: str) -> str:
    """The device to try a release on: ``word``, else the one in the settings of the service of ``root``."""
    if word:
        return check_device(word)
    service = paths.service_of(root)
    own = None if service == paths.FIRST else paths.named(paths.DEFAULT_PATH, service)
    return str(config.read(own).get("device", CPU)) if own is None or os.path.lexists(own) else CPU


def units(root: str) -> List[str]:
    """The sending and the perturbing unit of the service of ``root``.

    Both by name: the inside holds the accelerator even while the outside starts, and stop ends only the units named.
    """
    service = paths.service_of(root)
    return ["{}.service".format(service), "{}-inside.service".format(service)]


@contextlib.contextmanager
def service_stopped(root: str, device: str, say: Callable[[str], None]) -> Iterator[None]:
    """Stop the service of ``root`` while a release is tried on an accelerator: only one process can open it.

    A service that systemd does not run must be stopped by its user.
    """
    both = units(root)
    if device == CPU or not os.path.isdir(paths.SYSTEMD) or _exit_code(["systemctl", "--quiet", "is-active"] + both):
        yield
        return
    if _exit_code(["systemctl", "stop"] + both) != 0:
        raise DeviceFailed("the service could not be stopped, and it uses the {}: stop it by hand".format(device))
    try:
        yield
    finally:
        if _exit_code(["systemctl", "start", both[0]]) != 0:
            say(
                "the service was stopped for the trial and did not start again: see edgeveil board logs, or its journal"
            )


def restarted(root: str) -> Optional[str]:
    """Start the service of ``root`` again; why it is not ready in its time, or None."""
    both = units(root)
    _exit_code(["systemctl", "reset-failed"] + both)
    code = _exit_code(["systemctl", "restart"] + both)
    return None if code == 0 else "the service was not ready in its time (code {}; see its journal)".format(code)


def inside_lent(root: str) -> None:
    """Have the service of ``root`` give its camera up, and go on. Raises ``DeviceFailed``.

    Killed, and not asked to end: the end of its stream would be that of the service.
    """
    unit = units(root)[1]
    if not os.path.isdir(paths.SYSTEMD) or _exit_code(["systemctl", "--quiet", "is-active", unit]):
        return
    _exit_code(["systemctl", "kill", "--signal=SIGKILL", unit])
    if _exit_code(["systemctl", "stop", unit]):  # which keeps it from coming back
        raise DeviceFailed("the service does not give its camera up: see edgeveil board logs")


def inside_returned(root: str) -> None:
    """Have the service of ``root`` take its camera back, where there is one."""
    main, unit = units(root)
    if os.path.isdir(paths.SYSTEMD) and not _exit_code(["systemctl", "--quiet", "is-active", main]):
        _exit_code(["systemctl", "start", unit])


def _exit_code(command: List[str]) -> int:
    """The exit code of a system command; 127 where there is none."""
    try:
        return subprocess.call(  # noqa: S603 - words of ours
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    except OSError:
        return 127


def status(root: str) -> Dict[str, Any]:
    """What runs under ``root``, as a JSON document."""
    releases = open_releases(root)
    state = releases.state()
    bundle = releases.read(state.committed) if state.committed else None
    return {
        "schema": 1,
        "committed": state.committed,
        "current": releases.current,
        "name": bundle.manifest.name if bundle else None,
        "security_version": bundle.manifest.security_version if bundle else None,
        "previous": state.previous,
        "floor": state.floor,
        "failed": state.failed,
        "reason": state.reason,
        "runtime": Runtimes(root).current,
        "index": index_seen(root),
        "settings": open_settings(root).document(),
        "aims": aims.document(aims.read_aims(root), time.monotonic()),
        "spent": ext.book.board_total(),
        "clock": clock_word(),
    }
