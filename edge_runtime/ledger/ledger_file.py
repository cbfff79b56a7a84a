"""The file in which a device counts what its releases tell: one for all bundles, written anew for each charge.

A charge is on the disk before its releases leave. Whatever cannot be counted does not leave: without a ledger, with one
that is damaged, of another machine, or older than one that was read before, nothing is charged.
"""

import hashlib
import hmac
import os
from typing import Callable, Dict, NamedTuple, Optional, Sequence, Tuple

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.ledger import book as books
from edgeveil.edge_runtime.ledger.book import DEVICE, Account, Book, Limit
from edgeveil.edge_runtime.ledger.book_json import MOST_BYTES, decode, encode
from edgeveil.edge_runtime.machine import machine_id
from edgeveil.edge_runtime.storage import root_lock
from edgeveil.edge_runtime.storage.atomic import file_place, writing
from edgeveil.edge_runtime.storage.filesystem import Filesystem, read_strict
from edgeveil.edge_runtime.uptime import uptime

COUNT_EVERY_S = 600  # how often a device that only waits for its next period writes how long it was on
_MODE = 0o640
_NEW = "Make one: edgeveil-edge ledger new {}"


class LedgerUnfit(BadInput):
    """There is no ledger here that can be charged. Nothing may leave."""


class Charge(NamedTuple):
    """How many releases of each unit are paid for, and until when (seconds of the device's uptime, None: for ever)."""

    paid: Dict[Optional[int], int]
    until_s: Optional[float]


class Ledger(object):
    """The ledger at ``path``, which another process may charge too. Raises ``LedgerUnfit``, at first when it is made.

    A unit is the number of a subject (``RawFrame.track``), None for the device as a whole. ``uptime`` and ``machine``
    are those of this device; ``filesystem`` is the disk.
    """

    def __init__(
        self,
        path: str,
        *,
        filesystem: Optional[Filesystem] = None,
        uptime: Callable[[], Tuple[str, int]] = uptime,
        machine: Callable[[], str] = machine_id,
    ) -> None:
        # Behind a link: who charges by either name counts in one file, under one lock.
        self.path, self._disk, self._uptime = file_place(path), filesystem or Filesystem(), uptime
        self._machine = owner_of(machine())
        self._names: Dict[Optional[int], str] = {None: DEVICE}
        self._seen: Optional[Tuple[int, ...]] = None
        self._book: Optional[Book] = None
        self.book()

    def charge(self, wanted: Dict[Optional[int], int], micro_epsilon: int, limits: Sequence[Limit]) -> Charge:
        """Charge up to ``wanted`` releases of each unit at ``micro_epsilon`` each, as far as all ``limits`` allow.

        It is on the disk when this returns. Raises ``LedgerUnfit`` or ``DeviceFailed``: then nothing was paid for.
        """
        folder, name = os.path.split(self.path)
        with root_lock.held(folder, "a ledger's charge", name=name + ".lock"):
            found = self.book()
            boot, now_s = self._uptime()
            book = found.counted(boot, now_s)
            paid, accounts, ends = {}, {}, []
            for unit, count in wanted.items():
                account = found.accounts.get(self._name(unit), Account())
                paid[unit] = min(count, books.left(account, limits, book.on_s) // micro_epsilon)
                if paid[unit]:
                    account = books.charged(account, paid[unit] * micro_epsilon, limits, book.on_s)
                    accounts[self._name(unit)] = account
                ends += [books.ends_s(account, limit, book.on_s) for limit in limits]
            if accounts or book.on_s - found.on_s >= COUNT_EVERY_S:
                spent = sum(paid.values()) * micro_epsilon
                self._write(
                    book._replace(
                        number=book.number + 1,
                        lifetime=book.lifetime + spent,
                        accounts=dict(found.accounts, **accounts),
                    )
                )
        soonest = min([end for end in ends if end is not None], default=None)
        return Charge(paid, None if soonest is None else now_s + soonest - book.on_s)

    def left(self, limits: Sequence[Limit]) -> Sequence[Tuple[int, Optional[int]]]:
        """For each limit alone, what the device as a whole may still spend, and the seconds until its period ends."""
        book = self.book().counted(*self._uptime())
        account = book.accounts.get(DEVICE, Account())
        ends = [books.ends_s(account, limit, book.on_s) for limit in limits]
        return [
            (books.left(account, [limit], book.on_s), None if end is None else end - book.on_s)
            for limit, end in zip(limits, ends)
        ]

    def book(self) -> Book:
        """What the file holds now, checked."""
        try:
            seen = _look(self.path)
            if self._book is not None and seen == self._seen:
                return self._book
            data = read_strict(self.path)
        except OSError as error:
            raise LedgerUnfit(
                "the ledger {} cannot be read: {}. Nothing leaves without it: give this user the right to, or mend the "
                "disk.".format(self.path, (error.strerror or "").lower())
            ) from None
        if data is None:
            raise LedgerUnfit(
                "expected a ledger at {}: this bundle counts what it tells, and there is none. {}, or name another "
                "with --ledger.".format(self.path, _NEW.format(self.path))
            )
        self._book, self._seen = self._checked(data), seen
        return self._book

    def _checked(self, data: bytes) -> Book:
        try:
            book = decode(data)
        except ValueError:
            raise LedgerUnfit(
                "the ledger {} is damaged: what was spent is not known, so nothing leaves. Put a whole one there, or "
                "remove it and make a new one if its owner says so.".format(self.path)
            ) from None
        if book.machine != self._machine:
            raise LedgerUnfit(
                "the ledger {} is that of another machine, and each device counts for itself. {}.".format(
                    self.path, _NEW.format("FILE")
                )
            )
        before = self._book
        if before is not None and (book.key != before.key or book.number < before.number):
            raise LedgerUnfit(
                "the ledger {} is an older one than was read before: nothing leaves. Find out who put it there.".format(
                    self.path
                )
            )
        return book

    def _name(self, unit: Optional[int]) -> str:
        """The name of a unit's account: nobody can tell a subject from it without the ledger's key."""
        name = self._names.get(unit)
        if name is None:
            key = bytes.fromhex(self.book().key)
            name = hmac.new(key, str(unit).encode("ascii"), hashlib.sha256).hexdigest()[:32]
            self._names[unit] = name
        return name

    def _write(self, book: Book) -> None:
        data = encode(book)
        if len(data) > MOST_BYTES:
            raise LedgerUnfit("the ledger {} is full: it holds {} units".format(self.path, len(book.accounts)))
        with writing(self.path):
            replace(self._disk, self.path, data)
            self._seen = _look(self.path)
        self._book = book


def create(path: str, *, filesystem: Optional[Filesystem] = None, machine: Callable[[], str] = machine_id) -> None:
    """Make an empty ledger at ``path`` for this machine. Raises ``BadInput`` where a file is there already."""
    path, disk = os.path.abspath(path), filesystem or Filesystem()
    if os.path.lexists(path):
        raise BadInput(
            "there is a file at {} already, and a ledger that is made anew forgets what was spent: choose another "
            "place".format(path)
        )
    book = Book(machine=owner_of(machine()), key=os.urandom(32).hex())
    with writing(path):
        replace(disk, path, encode(book))


def owner_of(machine: str) -> str:
    """What a ledger says of its machine: not the identifier itself, which others use too."""
    return hashlib.sha256(b"edgeveil ledger\0" + machine.encode("ascii")).hexdigest()


def replace(disk: Filesystem, path: str, data: bytes) -> None:
    """Replace a file: whole or not at all, and on the disk when this returns. Raises ``OSError``."""
    disk.write(path + ".tmp", data, _MODE)
    disk.sync(path + ".tmp")
    disk.rename(path + ".tmp", path)
    disk.sync_folder(os.path.dirname(path))


def _look(path: str) -> Optional[Tuple[int, ...]]:
    """What tells a changed file without reading it; None where there is none."""
    try:
        facts = os.stat(path)
    except FileNotFoundError:
        return None
    return facts.st_ino, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size
