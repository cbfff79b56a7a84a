"""Reads a running service's trust again, so that a key that was revoked meanwhile ends it."""

import contextlib
import os
from typing import Any, Callable, Dict, Optional, Tuple

from edgeveil.edge_runtime.bundle import aims
from edgeveil.edge_runtime.bundle.index_seen import SeenDamaged, index_seen, read_offered
from edgeveil.edge_runtime.bundle.reader import Bundle
from edgeveil.edge_runtime.bundle.trust_file import Trust
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.errors import BundleRefused, EdgeVeilError, PrivacyStop
from edgeveil.edge_runtime.machine import up_s

EVERY_S, DAY_S = 60.0, 86400


class TrustWatch(object):
    """Reads the trust in ``folder``, and holds a verified bundle that runs against it.

    ``say(event, **facts)`` logs. ``clock`` gives seconds. ``problem`` is why the trust cannot be read today; empty
    where it can. Without it nothing new is accepted, and what runs goes on: a fault alone must not end a service.
    ``index`` is what the board last saw of its update index (``bundle.index_seen``), None where nothing is known;
    ``offered`` the manifest's hash of the release that it offers. ``aims``: whether a person aims the camera.
    """

    def __init__(self, folder: str, say: Callable[..., None], clock: Callable[[], float]) -> None:
        self.folder, self.problem = folder, ""
        self._root = os.path.dirname(os.path.abspath(folder))
        self._trust: Optional[Trust] = None
        self._say, self._clock = say, clock
        self.index: Optional[Dict[str, Any]] = None
        self.offered = read_offered(self._root)
        self.aims = aims.Watch(self._root, clock)
        self._stale_days: Optional[int] = None
        self._seen: Optional[Tuple[Tuple[str, int, int, int], ...]] = None
        self._due_s = clock() + EVERY_S

    def read(self) -> Trust:
        """The trust, read and verified: once at a start and once at a reload. Raises as ``open_trust`` does."""
        trust = self._read()
        if trust.index_stale_days is not None:
            with contextlib.suppress(SeenDamaged):
                index_seen(self._root)  # without both records a board does not start
        return trust

    def _read(self) -> Trust:
        self._seen = None
        seen = self._look()
        self._trust = open_trust(self.folder)
        self._seen = seen
        return self._trust

    def check(self, bundle: Bundle, *, now: bool = False) -> None:
        """Read the trust where it changed since it was read, at most once a minute, or at once for ``now``.

        Raises ``PrivacyStop`` where it does not take the running ``bundle`` any more: its key was revoked or removed,
        or the least security version or the audience is another; and where it wants a newer index than there is. The
        policy is held at the next start.
        """
        if not now and self._clock() < self._due_s:
            return
        self._due_s = self._clock() + EVERY_S
        problem = ""
        try:
            trust = self._trust
            if self._look() != self._seen or trust is None or self.problem:
                trust = self._read()
            self._hold(trust, bundle)
        except PrivacyStop:
            raise
        except EdgeVeilError as error:
            problem = str(error)
        try:
            self.index = index_seen(self._root)
        except EdgeVeilError as error:
            self.index, problem = None, problem or str(error)
        if problem and not self.problem:
            self._say("trust-unreadable", message="{} What runs goes on; nothing new is accepted.".format(problem))
        self.problem, self.offered = problem, read_offered(self._root)
        self._hold_fresh()

    def gauges(self) -> Dict[str, float]:
        """For /metrics: whether the trust can be read, the age of the update index, and the one that ends the service.

        The ages are in seconds, and left out where nothing is known of the first, or no second one was set.
        """
        values = {"trust-readable": float(not self.problem)}
        if self.index is not None:
            values["index-age-seconds"] = float(self.index["age_s"])
        if self._stale_days is not None:
            values["index-stale-seconds"] = float(self._stale_days * DAY_S)
        return values

    def _hold(self, trust: Trust, bundle: Bundle) -> None:
        self._stale_days = trust.index_stale_days
        try:
            trust.check_claims(bundle.manifest, trust.key_of(bundle.key))
        except BundleRefused as error:
            raise PrivacyStop(
                "This device's trust does not take the running bundle any more: {}".format(error)
            ) from None

    def _hold_fresh(self) -> None:
        """Its age is counted from the first flash on, and by the time that the board is up (``bundle.index_seen``).

        Where that cannot be read, it is the time since the board's start: damage must not stop the count.
        """
        index = self.index or {"name": "", "version": 0, "age_s": up_s()}
        if self._stale_days is None or index["age_s"] <= self._stale_days * DAY_S:
            return
        what = "The update index of this board is of version {}".format(index["version"])
        raise PrivacyStop(
            "{} for {:.0f} days, and its trust file allows {}. It may be kept from newer ones. Run edgeveil-edge "
            "update, or ask the owner for a newer index.".format(
                what if index["name"] else "No update index came to this board",
                index["age_s"] / DAY_S,
                self._stale_days,
            )
        )

    def _look(self) -> Tuple[Tuple[str, int, int, int], ...]:
        """What tells a changed folder without reading it: verifying costs a small board tens of milliseconds."""
        entries = []
        try:
            for entry in sorted(os.listdir(self.folder)):
                facts = os.stat(os.path.join(self.folder, entry))
                entries.append((entry, facts.st_ino, facts.st_mtime_ns, facts.st_size))
        except OSError:
            return ()
        return tuple(entries)
