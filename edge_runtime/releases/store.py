"""Which release a board runs. A new one is staged next to the old one, switched to in one step, tried, then committed
or undone.

::

    ROOT/releases/<manifest sha256>/   bundle.veil and edgeveil-edge.pyz, never changed once they have this name
    ROOT/current, ROOT/previous        links to two of them
    ROOT/state.json                    what was committed, the floor, what failed

``state.json`` decides, and is replaced in one step. A release is *on trial* while ``current`` points to it and
``committed`` does not name it: the power may fail at any moment, and the next start (``recover``) goes back to what was
committed. A release is committed only after it has run here. The floor (the smallest ``security_version`` that is
accepted) rises in the same step, and the board never goes back below it.
"""

import os
from typing import Callable, Dict, List, NamedTuple, Optional

from edgeveil.edge_runtime.bundle.reader import Bundle, read_bundle
from edgeveil.edge_runtime.bundle.trust import Trust
from edgeveil.edge_runtime.errors import BadInput, BundleRefused, DeviceFailed, EdgeVeilError
from edgeveil.edge_runtime.formats import strict_json
from edgeveil.edge_runtime.manifest.schema import RUNTIME_MEMBER
from edgeveil.edge_runtime.storage.filesystem import Filesystem, names, read, remove_tree, target

BUNDLE, RUNTIME = "bundle.veil", "edgeveil-edge.pyz"
MOST_FAILURES = 3  # of one release: after so many failed trials it is only tried again on request
_STATE_KEYS = ("committed", "failed", "floor", "previous", "reason", "schema")


class RolledBack(DeviceFailed):
    """The new release failed its trial; the board runs the old one again."""


class State(NamedTuple):
    """``state.json``. ``failed`` counts the failed trials of each release, ``reason`` is why the last one failed."""

    committed: Optional[str] = None
    previous: Optional[str] = None
    floor: int = 0
    failed: Dict[str, int] = {}  # noqa: RUF012 - never changed in place
    reason: str = ""


class Releases(object):
    """The releases under ``root``. ``trust`` gives the ``Trust`` for a floor; ``filesystem`` makes all changes."""

    def __init__(self, root: str, trust: Callable[[int], Trust], filesystem: Optional[Filesystem] = None) -> None:
        self.root, self._trust, self._filesystem = root, trust, filesystem or Filesystem()

    def folder(self, sha: str) -> str:
        """Where the release of that manifest hash lies, or would."""
        return os.path.join(self.root, "releases", sha)

    @property
    def current(self) -> Optional[str]:
        """The manifest hash of the release that ``current`` points to, or None."""
        place = target(os.path.join(self.root, "current"))
        return None if place is None else os.path.basename(place)

    def state(self) -> State:
        """What was committed. Raises ``DeviceFailed`` where the file is not one that this module wrote."""
        path = os.path.join(self.root, "state.json")
        data = read(path)
        if data is None:
            return State()
        try:
            document = strict_json.loads(data)
            if sorted(document) != list(_STATE_KEYS) or document.pop("schema") != 1:
                raise ValueError("other keys")
            return State(**document)
        except (ValueError, TypeError, AttributeError):
            raise DeviceFailed("{} is damaged: flash the board again over a channel you trust.".format(path)) from None

    def read(self, sha: str) -> Optional[Bundle]:
        """The release ``sha`` if it is there whole, signed by a key trusted today; else None. No floor is applied."""
        data = read(os.path.join(self.folder(sha), BUNDLE))
        if data is None:
            return None
        try:
            bundle = read_bundle(data, self._trust(0))
        except EdgeVeilError:
            return None
        runtime = read(os.path.join(self.folder(sha), RUNTIME))
        return bundle if bundle.manifest_sha256 == sha and runtime == bundle.members[RUNTIME_MEMBER] else None

    def install(self, data: bytes, trial: Callable[[str, Bundle], None], *, again: bool = False) -> bool:
        """Verify a bundle's bytes, stage them, switch, try and commit. False where it runs already.

        ``trial`` gets the release's folder and the bundle, and raises ``EdgeVeilError`` where it does not run here.
        ``again`` tries even what failed ``MOST_FAILURES`` times. Raises ``BundleRefused`` before anything is changed,
        ``RolledBack`` where the trial failed and the old release is current again.
        """
        self.recover()
        state = self.state()
        bundle = read_bundle(data, self._trust(state.floor))
        sha = bundle.manifest_sha256
        if sha == state.committed == self.current and self.read(sha) is not None:
            return False
        if state.failed.get(sha, 0) >= MOST_FAILURES and not again:
            raise BundleRefused(
                "failed-before",
                "This release has failed its trial here {} times ({}). Remove the cause, then install it "
                "with --again.".format(state.failed[sha], state.reason),
            )
        self._stage(sha, data, bundle.members[RUNTIME_MEMBER])
        self._set_link("current", sha)
        reason = self._run_trial(trial, sha, bundle)
        if reason is not None:
            self._undo(state, sha, reason)
            raise RolledBack(_rollback_message(sha, reason, state.committed))
        self._commit(state, sha, bundle)
        return True

    def recover(self) -> Optional[str]:
        """Repair what a power cut left; called first at every start. Returns what was done, or None.

        A release on trial is undone and its failure counted; links and half-made folders are repaired.
        """
        for name in names(os.path.join(self.root, "releases")):
            if name.endswith(".new"):
                remove_tree(self._filesystem, self.folder(name))
        for name in names(self.root):
            if name.endswith(".tmp"):
                self._filesystem.remove(os.path.join(self.root, name))
        state, current = self.state(), self.current
        if current != state.committed:
            # The previous one is current where the power failed in the middle of a commit.
            if current is None or current == state.previous or self.read(current) is None:
                self._sync_links(state)
            else:
                self._undo(state, current, "it was interrupted on trial")
            return "The release {:.12} is current again: another was when the power failed.".format(
                state.committed or "none"
            )
        self._sync_links(state)
        return None

    def rollback(self) -> str:
        """Go back to the previous release, for good; returns its hash. Raises ``BundleRefused`` or ``BadInput``."""
        self.recover()
        state = self.state()
        if state.previous is None:
            raise BadInput("There is no previous release to go back to.")
        # Verified as a new one would be: with today's keys, floor and policy.
        data = read(os.path.join(self.folder(state.previous), BUNDLE))
        if data is not None:
            read_bundle(data, self._trust(state.floor))
        if self.read(state.previous) is None:
            raise BundleRefused(
                "no-previous",
                "The previous release {:.12} is not whole, or no longer trusted.".format(state.previous),
            )
        back = state._replace(committed=state.previous, previous=state.committed, reason="rolled back on request")
        self._write_state(back)
        self._sync_links(back)
        return state.previous

    def prune(self, keep: int) -> List[str]:
        """Remove all releases but the newest ``keep``; the committed and the previous one always stay."""
        state = self.state()
        folder = os.path.join(self.root, "releases")
        by_age = sorted(names(folder), key=lambda name: os.lstat(os.path.join(folder, name)).st_mtime, reverse=True)
        stay = {state.committed, state.previous, self.current}
        spare = max(keep - len([name for name in by_age if name in stay]), 0)
        gone = [name for name in by_age if name not in stay][spare:]
        for name in gone:
            # Under another name first: a release's name is never that of half a release.
            self._filesystem.rename(self.folder(name), self.folder(name + ".new"))
            remove_tree(self._filesystem, self.folder(name + ".new"))
        return gone

    def _stage(self, sha: str, data: bytes, runtime: bytes) -> None:
        filesystem, releases, final = self._filesystem, os.path.join(self.root, "releases"), self.folder(sha)
        # A process that was killed may have left a release that is not all on the disk.
        there = self.read(sha) is not None
        folder = final if there else self.folder(sha + ".new")
        if not there:
            remove_tree(filesystem, final)
            for missing in (releases, folder):
                if not os.path.isdir(missing):
                    filesystem.make_folder(missing)
        for name, content, mode in ((BUNDLE, data, 0o644), (RUNTIME, runtime, 0o755)):
            path = os.path.join(folder, name)
            if not there:
                filesystem.write(path, content, mode)
            filesystem.sync(path)
        filesystem.sync_folder(folder)
        if not there:
            filesystem.rename(folder, final)
        filesystem.sync_folder(releases)

    def _set_link(self, link: str, sha: Optional[str]) -> None:
        """Make a link point to a release in one step, or remove it."""
        path = os.path.join(self.root, link)
        if sha is None:
            if target(path) is not None:
                self._filesystem.remove(path)
        elif target(path) != os.path.join("releases", sha):
            self._filesystem.link(os.path.join("releases", sha), path + ".tmp")
            self._filesystem.rename(path + ".tmp", path)

    def _run_trial(self, trial: Callable[[str, Bundle], None], sha: str, bundle: Bundle) -> Optional[str]:
        """Why the release failed its trial, or None."""
        try:
            trial(self.folder(sha), bundle)
        except EdgeVeilError as error:
            return str(error)
        except Exception as error:
            return "an unexpected {}".format(type(error).__name__)
        return None

    def _commit(self, state: State, sha: str, bundle: Bundle) -> None:
        failed = {name: count for name, count in state.failed.items() if name != sha}
        previous = state.committed if state.committed != sha else state.previous
        floor = max(state.floor, bundle.manifest.security_version)
        committed = State(sha, previous, floor, failed, "")
        self._write_state(committed)
        self._sync_links(committed)

    def _undo(self, state: State, sha: str, reason: str) -> None:
        failed = dict(state.failed)
        failed[sha] = failed.get(sha, 0) + 1
        undone = state._replace(failed=failed, reason=reason)
        self._set_link("current", state.committed)
        self._write_state(undone)
        self._sync_links(undone)

    def _write_state(self, state: State) -> None:
        """Replace ``state.json``; it lasts when ``_sync_links`` has returned."""
        path = os.path.join(self.root, "state.json")
        self._filesystem.write(path + ".tmp", strict_json.dumps(dict(state._asdict(), schema=1)))
        self._filesystem.sync(path + ".tmp")
        self._filesystem.rename(path + ".tmp", path)

    def _sync_links(self, state: State) -> None:
        """Both links as the state says, and all of it on the disk."""
        self._set_link("current", state.committed)
        self._set_link("previous", state.previous)
        self._filesystem.sync_folder(self.root)


def _rollback_message(sha: str, reason: str, committed: Optional[str]) -> str:
    what = "the board runs {:.12} again".format(committed) if committed else "the board has no release yet"
    return "The release {:.12} was taken back: {}. {}.".format(sha, reason, what[0].upper() + what[1:])
