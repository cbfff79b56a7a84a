"""Which release a board runs. A new one is staged next to the old one, switched to in one step, tried, then committed
or undone.

::

    ROOT/releases/<manifest sha256>/   bundle.veil, never changed once it has this name, and a link to the runtime
    ROOT/current, ROOT/previous        links to two of them
    ROOT/state.json, state-copy.json   what was committed, the floor, what failed
    ROOT/lock                          held by every command that changes any of this

``state.json`` decides (``bundle.board_state``). A release is *on trial* while ``current`` points to it and
``committed`` does not name it: the power may fail at any moment, and the next start (``recover``) goes back to what was
committed. A release is committed only after it has run here. The floor (the smallest ``security_version`` that is
accepted) rises in the same step, and the board never goes back below it.
"""

import contextlib
import os
from typing import Callable, Iterator, List, Optional, Tuple

from edgeveil.edge_runtime.bundle.board_state import (
    COPY_FILE,
    STATE_FILE,
    State,
    StateLost,
    accept,
    merged,
    read_one,
    read_state,
    write_state,
)
from edgeveil.edge_runtime.bundle.index_seen import forget_damaged, has_seen
from edgeveil.edge_runtime.bundle.reader import Bundle, read_bundle
from edgeveil.edge_runtime.bundle.trust_file import Trust
from edgeveil.edge_runtime.errors import BadInput, BundleRefused, DeviceFailed, EdgeVeilError
from edgeveil.edge_runtime.manifest.detector import MAX_BUNDLE_BYTES
from edgeveil.edge_runtime.util import root_lock
from edgeveil.edge_runtime.util.filesystem import Filesystem, names, read, remove_tree, replace_link, target

BUNDLE, RUNTIME = "bundle.veil", "edgeveil-edge.pyz"
RUNTIME_LINK = os.path.join("..", "..", "runtime", "current", RUNTIME)
MOST_FAILURES = 3  # of one release: after so many failed trials it is only tried again on request


class RolledBack(DeviceFailed):
    """The new release failed its trial; the board runs the old one again."""


class Releases(object):
    """The releases under ``root``. ``trust`` gives the ``Trust`` for a floor; ``filesystem`` makes all changes.

    ``ledger`` gives identity and content of the board's ledger (``ext.ledger.book.of_service``).
    """

    def __init__(
        self,
        root: str,
        trust: Callable[[int], Trust],
        filesystem: Optional[Filesystem] = None,
        ledger: Callable[[], Tuple[str, int]] = lambda: ("", 0),
    ) -> None:
        self.root, self._trust, self._filesystem = root, trust, filesystem or Filesystem()
        self._ledger = ledger
        self._holding = False

    @contextlib.contextmanager
    def changing(self, what: str, *, wait_s: float = root_lock.WAIT_S) -> Iterator[None]:
        """Hold the board's lock while the command ``what`` changes it, for which it waits so long.

        Raises ``DeviceFailed`` where it cannot.
        """
        if self._holding:
            yield
            return
        with root_lock.held(self.root, what, wait_s=wait_s):
            self._holding = True
            try:
                yield
            except OSError as error:
                problem = "{} cannot be changed: {} ({}). Check the disk, then run edgeveil-edge recover."
                raise DeviceFailed(problem.format(self.root, error.strerror, error.filename)) from None
            finally:
                self._holding = False

    def folder(self, sha: str) -> str:
        """Where the release of that manifest hash lies, or would."""
        return os.path.join(self.root, "releases", sha)

    @property
    def current(self) -> Optional[str]:
        """The manifest hash of the release that ``current`` points to, or None."""
        place = target(os.path.join(self.root, "current"))
        return None if place is None else os.path.basename(place)

    def state(self) -> State:
        """What was committed. Raises ``StateLost`` where that cannot be known for certain."""
        return read_state(self.root)

    def read(self, sha: str) -> Optional[Bundle]:
        """The release ``sha`` if it is there whole, signed by a key trusted today; else None. No floor is applied."""
        data = read(os.path.join(self.folder(sha), BUNDLE), MAX_BUNDLE_BYTES)
        if data is None:
            return None
        try:
            bundle = read_bundle(data, self._trust(0))
        except EdgeVeilError:
            return None
        return bundle if bundle.manifest_sha256 == sha else None

    def install(self, data: bytes, trial: Callable[[str, Bundle], None], *, again: bool = False) -> bool:
        """Verify a bundle's bytes, stage them, switch, try and commit. False where it runs already.

        ``trial`` gets the release's folder and the bundle, and raises ``EdgeVeilError`` where it does not run here.
        ``again`` tries even what failed ``MOST_FAILURES`` times. Raises ``BundleRefused`` before anything is changed,
        ``RolledBack`` where the trial failed and the old release is current again.
        """
        with self.changing("install"):
            return self._install(data, trial, again)

    def recover(self) -> Optional[str]:
        """Repair what a power cut left; called first at every start. Returns what was done, or None.

        A release on trial is undone and its failure counted; links and half-made folders are repaired.
        """
        with self.changing("recover"):
            return self._recover()

    def count_anew(self) -> None:
        """From now on the ledger that is there is the board's: what another one counted is forgotten."""
        with self.changing("recover --new-ledger"):
            identity, spent = self._ledger()
            write_state(self._filesystem, self.root, self.state()._replace(ledger=identity, spent=spent))
            self._filesystem.sync_folder(self.root)

    def rollback(self) -> str:
        """Go back to the previous release, for good; returns its hash. Raises ``BundleRefused`` or ``BadInput``."""
        with self.changing("rollback"):
            return self._rollback()

    def prune(self, keep: int) -> List[str]:
        """Remove all releases but the newest ``keep``; the committed and the previous one always stay.

        Raises ``BadInput`` for fewer than none.
        """
        if keep < 0:
            raise BadInput("--keep: 0 or more releases were expected; got {}. Nothing was removed.".format(keep))
        with self.changing("releases --keep"):
            return self._prune(keep)

    def repair(self) -> str:
        """Write the state anew from what is left of it, and of the releases; returns what was done.

        The floor is the highest that any file or any whole release here tells of.
        """
        with self.changing("recover --repair"):
            return self._repair()

    def _install(self, data: bytes, trial: Callable[[str, Bundle], None], again: bool) -> bool:
        self._recover()
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
        if state == State():
            # From now on this board had a release: without its state it is a board that lost it.
            write_state(self._filesystem, self.root, state)
        self._stage(sha, data)
        self._set_link("current", sha)
        reason = self._run_trial(trial, sha, bundle)
        # A runtime of version 0.1 takes no lock: what it committed during the trial stands, and so does its floor.
        now = self.state()
        if now != state:
            reason = "another command changed the releases during its trial"
        if reason is not None:
            self._undo(now, sha, reason)
            raise RolledBack(_rollback_message(sha, reason, now.committed))
        self._commit(state, sha, bundle)
        return True

    def _recover(self) -> Optional[str]:
        state, current = self.state(), self.current
        for name in names(os.path.join(self.root, "releases")):
            if name.endswith(".new"):
                remove_tree(self._filesystem, self.folder(name))
        for name in names(self.root):
            if name.endswith(".tmp"):
                remove_tree(self._filesystem, os.path.join(self.root, name))
        self._link_runtimes()
        state = self._remembering(self._with_trust(state))
        if state != State() and [read_one(self.root, name) for name in (STATE_FILE, COPY_FILE)] != [state, state]:
            write_state(self._filesystem, self.root, state)
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

    def _with_trust(self, state: State) -> State:
        """With the trust and policy that are in place, which from now on are the last that this board took."""
        try:
            trust = self._trust(0)
        except EdgeVeilError:
            return state  # a board comes up with what it has, and remembers what it lacks
        return accept(state, trust.accepted, trust.floor_reset) if trust.accepted.trust else state

    def _remembering(self, state: State) -> State:
        """With what this board has besides: once it was there, its loss is no new beginning."""
        if state.committed is None:
            return state
        identity, spent = self._ledger()
        if state.ledger in ("", identity):
            state = state._replace(ledger=identity, spent=spent)
        return state._replace(has_index=state.has_index or has_seen(self.root))

    def _rollback(self) -> str:
        self._recover()
        state = self.state()
        if state.previous is None:
            raise BadInput("There is no previous release to go back to.")
        # Verified as a new one would be: with today's keys, floor and policy.
        data = read(os.path.join(self.folder(state.previous), BUNDLE), MAX_BUNDLE_BYTES)
        if data is not None:
            read_bundle(data, self._trust(state.floor))
        if self.read(state.previous) is None:
            raise BundleRefused(
                "no-previous", "The previous release {:.12} is not whole, or no longer trusted.".format(state.previous)
            )
        back = state._replace(committed=state.previous, previous=state.committed, reason="rolled back on request")
        write_state(self._filesystem, self.root, back)
        self._sync_links(back)
        return state.previous

    def _prune(self, keep: int) -> List[str]:
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

    def _repair(self) -> str:
        states: List[State] = []
        for name in (STATE_FILE, COPY_FILE):
            try:
                one = read_one(self.root, name)
            except StateLost:
                continue
            states += [] if one is None else [one]
        trust = self._trust(0)  # raises where it cannot be opened: then no release could be judged
        whole = {sha: self.read(sha) for sha in names(os.path.join(self.root, "releases"))}
        unread = sorted(sha for sha, bundle in whole.items() if bundle is None)
        if not states and unread:
            raise StateLost(
                "The release {:.12} is not whole, or not trusted any more, so that the floor of this board cannot be "
                "told from it. Nothing was changed: flash the board again over a channel you trust.".format(unread[0])
            )
        versions = [bundle.manifest.security_version for bundle in whole.values() if bundle is not None]
        current = self.current
        if states:
            state = merged(states[0], states[-1])
        else:
            reset = 0 if trust.floor_reset is None else trust.floor_reset.version  # it was here before, and is no news
            accepted = trust.accepted._replace(floor_reset=reset)
            state = State(committed=current if current and whole.get(current) else None, accepted=accepted)
        forget_damaged(self.root)
        floor = max([one.floor for one in states] + versions + [0])
        state = state._replace(floor=floor, has_index=has_seen(self.root))
        write_state(self._filesystem, self.root, state)
        self._sync_links(state)
        return "The state was written anew from {}: release {:.12}, floor {}, trust of version {}, {} policy.".format(
            "what is left of it" if states else "the releases alone",
            state.committed or "none",
            state.floor,
            trust.version,
            "no" if trust.policy is None else "a",
        )

    def _stage(self, sha: str, data: bytes) -> None:
        filesystem, releases, final = self._filesystem, os.path.join(self.root, "releases"), self.folder(sha)
        # A process that was killed may have left a release that is not all on the disk.
        present = self.read(sha) is not None
        folder = final if present else self.folder(sha + ".new")
        path = os.path.join(folder, BUNDLE)
        if not present:
            remove_tree(filesystem, final)
            for missing in (releases, folder):
                if not os.path.isdir(missing):
                    filesystem.make_folder(missing)
            filesystem.write(path, data)
            # For units and scripts of version 0.1, which run the runtime of the release.
            filesystem.link(RUNTIME_LINK, os.path.join(folder, RUNTIME))
        filesystem.sync(path)
        filesystem.sync_folder(folder)
        if not present:
            filesystem.rename(folder, final)
        filesystem.sync_folder(releases)

    def _link_runtimes(self) -> None:
        """Where version 0.1 put a bundle's own runtime next to it, put a link to the installed one."""
        if not os.path.exists(os.path.join(self.root, "runtime", "current", RUNTIME)):
            return
        for sha in names(os.path.join(self.root, "releases")):
            path = os.path.join(self.folder(sha), RUNTIME)
            if os.path.isdir(self.folder(sha)) and target(path) != RUNTIME_LINK:
                replace_link(self._filesystem, RUNTIME_LINK, path)
                self._filesystem.sync_folder(self.folder(sha))

    def _set_link(self, link: str, sha: Optional[str]) -> None:
        """Make a link point to a release in one step, or remove it."""
        path = os.path.join(self.root, link)
        if sha is None:
            if target(path) is not None:
                self._filesystem.remove(path)
        elif target(path) != os.path.join("releases", sha):
            replace_link(self._filesystem, os.path.join("releases", sha), path)

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
        committed = state._replace(committed=sha, previous=previous, floor=floor, failed=failed, reason="")
        write_state(self._filesystem, self.root, committed)
        self._sync_links(committed)

    def _undo(self, state: State, sha: str, reason: str) -> None:
        failed = dict(state.failed)
        failed[sha] = failed.get(sha, 0) + 1
        undone = state._replace(failed=failed, reason=reason)
        self._set_link("current", state.committed)
        write_state(self._filesystem, self.root, undone)
        self._sync_links(undone)

    def _sync_links(self, state: State) -> None:
        """Both links as the state says, and all of it on the disk."""
        self._set_link("current", state.committed)
        self._set_link("previous", state.previous)
        self._filesystem.sync_folder(self.root)


def _rollback_message(sha: str, reason: str, committed: Optional[str]) -> str:
    what = "the board runs {:.12} again".format(committed) if committed else "the board has no release yet"
    return "The release {:.12} was taken back: {}. {}.".format(sha, reason, what[0].upper() + what[1:])
