"""What a ledger holds, and what a charge does to it: integers of 1e-6 epsilon, and no clock of its own.

An account is the budget of one unit. Limits without a period hold for its life. A period begins with the first charge
after the one before has ended, and is counted in seconds that the device was on. Several limits, of the bundle and of
the device's policy, of one bundle or of several, hold at the same time: each period has its own count in each account.
"""

from typing import Dict, NamedTuple, Optional, Sequence, Tuple

DEVICE = "device"  # the account that every release counts to where nothing tells its unit
SPENT = "budget-spent"  # why a release was dropped


class Limit(NamedTuple):
    """The most that one unit may spend in each period; ``period_s`` None: ever."""

    most_micro_epsilon: int
    period_s: Optional[float]


class Price(NamedTuple):
    """What one release costs, and the limits that hold for its unit."""

    micro_epsilon: int
    limits: Sequence[Limit]


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


def _spent(account: Account, period_s: Optional[float], on_s: int) -> int:
    """Spent in the running period. One that no limit named before may hold all that was spent until now."""
    if period_s is None:
        return account.total
    begin, spent = account.periods.get(period_name(period_s), (account.last_s, account.total))
    return spent if on_s < _end(begin, period_s) else 0


def _end(begin_s: int, period_s: float) -> int:
    # Seconds are rounded down: the next one is certainly after the end.
    return begin_s + int(-(-period_s // 1)) + 1
