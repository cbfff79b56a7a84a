"""What a ledger holds, and what a charge does to it: integers of 1e-6 epsilon, and no clock of its own.

An account is the budget of one unit. Limits without a period hold for its life. A period begins with the first charge
after the one before has ended, and is counted in seconds that the device was on. Several limits, of the bundle and of
the device's policy, of one bundle or of several, hold at the same time: each period has its own count in each account.
"""

import hashlib
import hmac
import os
import re
import zlib
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from edgeveil.edge_runtime import config
from edgeveil.edge_runtime.errors import BadInput, EdgeVeilError
from edgeveil.edge_runtime.machine import machine_id, uptime
from edgeveil.edge_runtime.manifest.manifest import Limit
from edgeveil.edge_runtime.paths import DEFAULT_PATH, LEDGER, is_service, named
from edgeveil.edge_runtime.util import root_lock, strict_json
from edgeveil.edge_runtime.util.atomic import file_place, writing
from edgeveil.edge_runtime.util.filesystem import Filesystem, read_strict

DEVICE = "device"  # the account that every release counts to where nothing tells its unit


class Account(NamedTuple):
    """What one unit spent: ever, and in each period that a limit named, as (second of its begin, spent since).

    ``last_s`` is the second of the last charge; the periods are by their length in seconds.
    """

    total: int = 0
    last_s: int = 0
    periods: Dict[str, Tuple[int, int]] = {}  # noqa: RUF012 - never changed in place


class Book(NamedTuple):
    """A whole ledger. ``number`` counts its writes, ``lifetime`` is the sum of all accounts.

    ``machine`` is the device it belongs to, ``key`` the secret that hides its subjects, both as hexadecimal digits.
    ``on_s`` are the seconds that the device was on since it was made, counted until ``counted_s`` of ``boot``.
    """

    machine: str
    key: str
    number: int = 0
    lifetime: int = 0
    on_s: int = 0
    boot: str = ""
    counted_s: int = 0
    accounts: Dict[str, Account] = {}  # noqa: RUF012 - never changed in place

    def counted(self, boot: str, now_s: int) -> "Book":
        """With the time that the device was on until ``now_s`` of this ``boot``."""
        same = boot == self.boot and boot != ""
        more = max(now_s - self.counted_s, 0) if same else (now_s if self.boot and boot else 0)
        return self._replace(on_s=self.on_s + more, boot=boot, counted_s=now_s)


def period_name(period_s: float) -> str:
    """How a period is called in an account."""
    return repr(float(period_s))


def left(account: Account, limits: Sequence[Limit], on_s: int) -> int:
    """What the account may still spend now under all of ``limits``, at least 0."""
    return max(min(limit.most_micro_epsilon - _spent(account, limit.period_s, on_s) for limit in limits), 0)


def ends_s(account: Account, limit: Limit, on_s: int) -> Optional[int]:
    """The first second of the next period of this limit, where one runs; None where nothing is counted in one."""
    if limit.period_s is None or not _spent(account, limit.period_s, on_s):
        return None
    begin, _ = account.periods.get(period_name(limit.period_s), (account.last_s, 0))
    return _end(begin, limit.period_s)


def charged(account: Account, micro_epsilon: int, limits: Sequence[Limit], on_s: int) -> Account:
    """The account after a charge. It counts in the periods of all limits that ever held, not in these alone."""
    lengths = {float(name) for name in account.periods} | {
        float(limit.period_s) for limit in limits if limit.period_s is not None
    }
    periods = {}
    for length in lengths:
        before = _spent(account, length, on_s)
        begin = account.periods.get(period_name(length), (on_s, 0))[0] if before else on_s
        periods[period_name(length)] = (begin, before + micro_epsilon)
    return Account(account.total + micro_epsilon, on_s, periods)


def together(one: Account, two: Account, on_s: int) -> Account:
    """The account of a unit that two accounts are of. A period ends with the later of theirs."""
    periods = {}
    for name in {*one.periods, *two.periods}:
        spent = [_spent(each, float(name), on_s) for each in (one, two)]
        begins = [each.periods.get(name, (each.last_s, 0))[0] for each, of in zip((one, two), spent) if of]
        periods[name] = (max(begins, default=on_s), sum(spent))
    return Account(one.total + two.total, max(one.last_s, two.last_s), periods)


def _spent(account: Account, period_s: Optional[float], on_s: int) -> int:
    """Spent in the running period. One that no limit named before may hold all that was spent until now."""
    if period_s is None:
        return account.total
    begin, spent = account.periods.get(period_name(period_s), (account.last_s, account.total))
    return spent if on_s < _end(begin, period_s) else 0


def _end(begin_s: int, period_s: float) -> int:
    # Seconds are rounded down: the next one is certainly after the end.
    return begin_s + int(-(-period_s // 1)) + 1


# A ledger as bytes: one strict JSON object with a CRC-32 over all the rest, in canonical spelling.


SCHEMA = 1
MOST_BYTES = 1 << 24  # some 100,000 units
_NAME = re.compile(DEVICE + "|[0-9a-f]{32}")
_HEX = re.compile("[0-9a-f]{64}")
_KEYS = {"crc", "ledger", "schema"}


def encode(book: Book) -> bytes:
    """The bytes of a ledger."""
    accounts = {name: [one.total, one.last_s, one.periods] for name, one in book.accounts.items()}
    document = {"schema": SCHEMA, "ledger": dict(book._asdict(), accounts=accounts)}
    rest = strict_json.dumps(document)
    # Sorted, the CRC's key comes first.
    return b'{"crc":%d,' % zlib.crc32(rest) + rest[1:] + b"\n"


def decode(data: bytes) -> Book:
    """The ledger in these bytes. Raises ``ValueError`` for anything that ``encode`` did not write."""
    try:
        document: Any = strict_json.loads(data)
        if set(document) != _KEYS or document["schema"] != SCHEMA or set(document["ledger"]) != set(Book._fields):
            raise ValueError("other keys")
        accounts: Dict[str, Account] = {}
        for name, (total, last_s, periods) in document["ledger"].pop("accounts").items():
            spans = {length: (begin, spent) for length, (begin, spent) in periods.items()}
            _check(_NAME.fullmatch(name) and all(repr(float(one)) == one and 0 < float(one) <= 1e30 for one in spans))
            _check_whole(total, last_s, *[number for span in spans.values() for number in span])
            accounts[name] = Account(total, last_s, spans)
        book = Book(accounts=accounts, **document["ledger"])
        _check_whole(book.number, book.lifetime, book.on_s, book.counted_s)
        _check(type(book.boot) is str and _HEX.fullmatch(book.machine) and _HEX.fullmatch(book.key))
        _check(book.lifetime == sum(account.total for account in accounts.values()))
    except (TypeError, AttributeError, KeyError, RecursionError) as error:
        raise ValueError("no ledger") from error
    _check(encode(book) == data)  # its CRC too
    return book


def _check_whole(*numbers: Any) -> None:
    _check(all(type(number) is int and number >= 0 for number in numbers))


def _check(right: Any) -> None:
    if not right:
        raise ValueError("no ledger")


# The file in which a device counts what its releases tell: one for all bundles, written anew for each charge.
#
# A charge is on the disk before its releases leave. Whatever cannot be counted does not leave: without a ledger, with
# one that is damaged, of another machine, or older than one that was read before, nothing is charged.


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
    are those of this device; ``filesystem`` is the disk. ``known`` is the ``identity`` of the only one that is taken.
    """

    def __init__(
        self,
        path: str,
        *,
        filesystem: Optional[Filesystem] = None,
        uptime: Callable[[], Tuple[str, int]] = uptime,
        machine: Callable[[], str] = machine_id,
        known: str = "",
    ) -> None:
        self._known = known
        self._former: Dict[Optional[int], Set[int]] = {}
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
            stored = self.book()
            boot, now_s = self._uptime()
            book = stored.counted(boot, now_s)
            paid, accounts, ends = {}, {}, []
            gone: Set[str] = set()
            for unit, count in wanted.items():
                account, former = self._account(stored, unit, book.on_s)
                if former:
                    accounts[self._name(unit)] = account
                    gone |= former
                paid[unit] = min(count, left(account, limits, book.on_s) // micro_epsilon)
                if paid[unit]:
                    account = charged(account, paid[unit] * micro_epsilon, limits, book.on_s)
                    accounts[self._name(unit)] = account
                ends += [ends_s(account, limit, book.on_s) for limit in limits]
            if accounts or book.on_s - stored.on_s >= COUNT_EVERY_S:
                spent = sum(paid.values()) * micro_epsilon
                self._write(
                    book._replace(
                        number=book.number + 1,
                        lifetime=book.lifetime + spent,
                        accounts={k: v for k, v in dict(stored.accounts, **accounts).items() if k not in gone},
                    )
                )
        soonest = min([end for end in ends if end is not None], default=None)
        return Charge(paid, None if soonest is None else now_s + soonest - book.on_s)

    def join(self, unit: Optional[int]) -> None:
        """Count what an older runtime charged to a spelling of a ``Subject``'s name to that subject."""
        former: Optional[int] = getattr(unit, "former", unit)
        if former is not None and former != unit:
            self._former.setdefault(unit, set()).add(former)

    def _account(self, book: Book, unit: Optional[int], on_s: int) -> Tuple[Account, Set[str]]:
        """The account of a unit, and the names of those of its former spellings, which are in it."""
        account = book.accounts.get(self._name(unit), Account())
        former = {self._name(one) for one in self._former.get(unit, ())} & set(book.accounts)
        for name in sorted(former):
            account = together(account, book.accounts[name], on_s)
        return account, former

    def left(self, limits: Sequence[Limit]) -> Sequence[Tuple[int, Optional[int]]]:
        """For each limit alone, what the device as a whole may still spend, and the seconds until its period ends."""
        book = self.book().counted(*self._uptime())
        account = book.accounts.get(DEVICE, Account())
        ends = [ends_s(account, limit, book.on_s) for limit in limits]
        return [
            (left(account, [limit], book.on_s), None if end is None else end - book.on_s)
            for limit, end in zip(limits, ends)
        ]

    def book(self) -> Book:
        """What the file holds now, checked."""
        try:
            seen = _look(self.path)
            if self._book is not None and seen == self._seen:
                return self._book
            data = read_strict(self.path, MOST_BYTES)
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
        if self._known not in ("", identity(book)):
            raise LedgerUnfit(
                "the ledger {} is not the one that this board counted in: nothing leaves. Put that one back; where it "
                "is lost, edgeveil flash --accept new-ledger, or edgeveil-edge recover --new-ledger here, forgets what "
                "was spent.".format(self.path)
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
        """The name of a unit's account: no one can tell a subject from it without the ledger's key."""
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


def identity(book: Book) -> str:
    """What tells one ledger from another, and nothing of its subjects."""
    return hashlib.sha256(b"edgeveil ledger's identity\0" + book.key.encode("ascii")).hexdigest()[:32]


def of_service(service: str, top: str = "/") -> Tuple[str, int]:
    """The identity of a service's ledger and the 1e-6 epsilon in it; ``("", 0)`` where there is none that is whole."""
    try:
        book = Ledger(ledger_of(service, top) or os.devnull).book()
    except EdgeVeilError:
        return "", 0
    return identity(book), book.lifetime


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
        facts = os.lstat(path)
    except FileNotFoundError:
        return None
    return facts.st_ino, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size


# What the services of one board have told of one person: each counts in a ledger of its own, and epsilons add up.
#
# No limit holds for the sum: the bundle's and the policy's are those of one service.


_MICRO = 1e6


def board_total(top: str = "/") -> Dict[str, Any]:
    """``services``: each with its ``epsilon``, and the sum as ``epsilon``; both None where a ledger cannot be read.

    It is the most that was told of one person since the ledgers were made. ``uncounted`` names the services that have
    no ledger: what they tell is in no sum. ``top`` is the folder that paths of the board lie in.
    """
    counted: List[Dict[str, Any]] = []
    uncounted: List[str] = []
    seen: List[str] = []
    for service in _services(top):
        path = ledger_of(service, top)
        if path is None:
            counted.append({"service": service, "epsilon": None})
        elif not os.path.lexists(path):
            uncounted.append(service)
        elif os.path.realpath(path) not in seen:
            seen.append(os.path.realpath(path))
            counted.append({"service": service, "epsilon": _told(path)})
    known = [one["epsilon"] for one in counted if one["epsilon"] is not None]
    return {"services": counted, "epsilon": sum(known) if len(known) == len(counted) else None, "uncounted": uncounted}


def board_total_text(document: Dict[str, Any]) -> str:
    """The document of ``board_total`` in a line."""
    parts = ["{} {}".format(one["service"], _epsilon(one["epsilon"])) for one in document["services"]]
    most = "epsilon {} of one person at most".format(_epsilon(document["epsilon"])) if parts else "no service counts it"
    together = " before all cameras ({})".format(", ".join(parts)) if len(parts) > 1 else ""
    without = "; not counted: {}".format(", ".join(document["uncounted"])) if parts and document["uncounted"] else ""
    return most + together + without


def _services(top: str) -> List[str]:
    """The services that have settings or a ledger on this board."""
    services = set()
    for path in (DEFAULT_PATH, LEDGER):
        folder = _at(top, os.path.dirname(os.path.dirname(path)))
        names = os.listdir(folder) if os.path.isdir(folder) else []
        services |= {name for name in names if is_service(name) and os.path.lexists(_at(top, named(path, name)))}
    return sorted(services)


def ledger_of(service: str, top: str = "/") -> Optional[str]:
    """Where the service's ledger is by its settings; None where they cannot be read."""
    settings = _at(top, named(DEFAULT_PATH, service))
    own = named(LEDGER, service)
    try:
        return _at(top, config.read(settings).get("ledger", own) if os.path.lexists(settings) else own)
    except BadInput:
        return None


def _told(path: str) -> Optional[float]:
    """The most of one unit: releases of the device as one unit tell of everybody, those of a subject of that one."""
    try:
        accounts = Ledger(path).book().accounts
    except EdgeVeilError:
        return None
    subjects = [account.total for name, account in accounts.items() if name != DEVICE]
    return (accounts.get(DEVICE, Account()).total + max(subjects, default=0)) / _MICRO


def _at(top: str, path: str) -> str:
    return os.path.join(top, path.lstrip("/"))


def _epsilon(value: Optional[float]) -> str:
    return "unknown" if value is None else "{:g}".format(value)
