"""The ledger's file: never over a limit, whatever is started, set or put back; without a whole one, nothing."""

import json
import os
import stat
import threading
import zlib
from pathlib import Path

import pytest

from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.ext.ledger import book as ledger_file
from edgeveil.edge_runtime.ext.ledger.book import Book, LedgerUnfit, create, decode, encode
from edgeveil.edge_runtime.manifest.manifest import Limit
from edgeveil.edge_runtime.util import strict_json
from tests.support.promised.counted_bundles import COST, Board, price

HOUR = 3600


@pytest.fixture
def board(tmp_path):
    return Board(tmp_path)


def paid(ledger, count, most=10, period_s=None, unit=None):
    return ledger.charge({unit: count}, *price(most, period_s)).paid[unit]


def test_what_is_over_the_limit_is_not_paid_for(board):
    ledger = board.ledger()
    assert [paid(ledger, count) for count in (4, 4, 4, 1)] == [4, 4, 2, 0]
    assert board.spent() == 10


def test_by_a_link_the_same_ledger_is_charged(board):
    ledger, link = board.ledger(), board.path.with_name("link")
    link.symlink_to(board.path)
    board.path, real = link, board.path
    assert paid(board.ledger(), 7) == 7
    assert link.readlink() == real
    assert paid(ledger, 7) == 3


def test_a_restart_of_program_or_machine_renews_nothing(board):
    paid(board.ledger(), 7)
    board.restart()
    assert paid(board.ledger(), 7) == 3
    board.up_s += 400 * 86400
    assert paid(board.ledger(), 7) == 0


def test_a_period_begins_with_its_first_charge_and_ends_by_the_time_the_device_was_on(board):
    ledger = board.ledger()
    assert paid(ledger, 20, period_s=HOUR) == 10
    board.up_s += HOUR
    assert paid(ledger, 1, period_s=HOUR) == 0  # seconds are whole: not a second too early
    board.up_s += 1
    assert paid(ledger, 20, period_s=HOUR) == 10
    board.up_s += 100
    assert paid(ledger, 20, period_s=HOUR) == 0


@pytest.mark.parametrize("to_s", [0.0, 4e9], ids=["1970", "the future"])
def test_a_clock_that_is_set_back_or_forward_renews_nothing(board, monkeypatch, to_s):
    """By this machine's own time since its start, and after another one."""
    own = ledger_file.Ledger(str(board.path), machine=lambda: board.machine)
    assert paid(own, 20, period_s=HOUR) == 10
    monkeypatch.setattr("time.time", lambda: to_s)
    monkeypatch.setattr("time.time_ns", lambda: int(to_s * 1e9))
    again = ledger_file.Ledger(str(board.path), machine=lambda: board.machine)
    assert [paid(one, 20, period_s=HOUR) for one in (own, again)] == [0, 0]
    board.restart()
    assert paid(board.ledger(), 20, period_s=HOUR) == 0


def test_time_on_is_counted_over_starts_and_time_off_is_not(board):
    paid(board.ledger(), 20, period_s=HOUR)
    for _ in range(3):
        board.restart()
        board.up_s = 1199
        assert paid(board.ledger(), 20, period_s=HOUR) == 0
    board.restart()
    board.up_s = 1199
    assert paid(board.ledger(), 20, period_s=HOUR) == 10


def test_where_a_start_has_no_name_no_time_is_counted(board):
    board.boot = ""
    paid(board.ledger(), 20, period_s=HOUR)
    board.up_s += 10 * HOUR
    assert paid(board.ledger(), 20, period_s=HOUR) == 0


def test_two_bundles_share_one_budget(board):
    one, other = board.ledger(), board.ledger()
    assert paid(one, 6) == 6
    assert paid(other, 6) == 4
    assert paid(one, 6) == 0
    assert paid(other, 6, most=12) == 2  # its own limit is higher


def test_a_period_that_nobody_counted_before_holds_what_was_spent(board):
    ledger = board.ledger()
    assert paid(ledger, 6) == 6
    assert paid(ledger, 10, period_s=HOUR) == 4
    board.up_s += HOUR + 1
    assert paid(ledger, 10, period_s=HOUR) == 10
    assert paid(ledger, 1) == 0


def test_bundle_and_policy_hold_at_the_same_time(board):
    ledger = board.ledger()
    limits = [Limit(20 * COST, None), Limit(6 * COST, HOUR)]
    charges = []
    for _ in range(5):
        charges.append(ledger.charge({None: 100}, COST, limits).paid[None])
        board.up_s += HOUR + 1
    assert charges == [6, 6, 6, 2, 0]


def test_the_end_of_the_first_period_is_told(board):
    ledger = board.ledger()
    assert ledger.charge({None: 1}, *price(9)).until_s is None
    limits = [Limit(50 * COST, 2 * HOUR), Limit(50 * COST, HOUR)]
    assert ledger.charge({None: 1}, COST, limits).until_s == board.up_s + HOUR + 1


def test_each_subject_has_its_own_and_none_is_named(board):
    ledger = board.ledger()
    assert ledger.charge({11: 3, 12: 30}, *price(10)).paid == {11: 3, 12: 10}
    assert ledger.charge({11: 30, 12: 1}, *price(10)).paid == {11: 7, 12: 0}
    names = decode(board.path.read_bytes()).accounts
    assert len(names) == 2
    assert board.spent() == 20
    create(str(board.path) + "-2", machine=lambda: board.machine)
    other = ledger_file.Ledger(str(board.path) + "-2", machine=lambda: board.machine)
    other.charge({11: 3, 12: 30}, *price(10))
    assert not set(names) & set(other.book().accounts)  # the key of each ledger is its own


def test_no_ledger(tmp_path):
    with pytest.raises(LedgerUnfit, match="Make one: edgeveil-edge ledger new"):
        ledger_file.Ledger(str(tmp_path / "none"))


def test_it_is_not_made_anew(board):
    with pytest.raises(BadInput, match="forgets what was spent"):
        create(str(board.path))


def test_one_of_another_machine(board):
    paid(board.ledger(), 3)
    board.machine = "f" * 32
    with pytest.raises(LedgerUnfit, match="another machine"):
        board.ledger()


def test_an_older_one_than_was_read(board):
    ledger = board.ledger()
    paid(ledger, 3)
    before = board.path.read_bytes()
    paid(ledger, 3)
    board.path.write_bytes(before)
    with pytest.raises(LedgerUnfit, match="older"):
        paid(ledger, 1)


def test_one_that_was_made_anew_meanwhile(board):
    ledger = board.ledger()
    board.path.unlink()
    with pytest.raises(LedgerUnfit, match="there is none"):
        paid(ledger, 1)
    create(str(board.path), machine=lambda: board.machine)
    with pytest.raises(LedgerUnfit, match="older"):
        paid(ledger, 1)


def _with(board, **changes):
    document = strict_json.loads(board.path.read_bytes())
    document["ledger"].update(changes)
    document.pop("crc")
    return strict_json.dumps(dict(document, crc=zlib.crc32(strict_json.dumps(document)))) + b"\n"


def test_a_damaged_one(board):
    paid(board.ledger(), 3)
    whole = board.path.read_bytes()
    flipped = [whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :] for place in range(len(whole))]
    for data in [b"", b"{}", b"[]", b"null", whole[:-1], whole + b" ", *flipped]:
        with pytest.raises(ValueError):  # noqa: PT011 - of any kind: the reader's own says what
            decode(data)
    for changes in (
        {"lifetime": 1},
        {"number": -1},
        {"key": "0"},
        {"boot": 1},
        {"on_s": 1.0},
        {"accounts": {"x": [0]}},
        *({"accounts": {"device": [7, 0, {length: [0, 7]}]}, "lifetime": 7} for length in ("inf", "nan", "-5.0")),
    ):
        board.path.write_bytes(_with(board, **changes))
        with pytest.raises(LedgerUnfit, match="damaged"):
            board.ledger()
        board.path.write_bytes(whole)


def test_it_comes_back_as_it_was_written(board):
    ledger = board.ledger()
    ledger.charge({None: 2, 7: 1}, COST, [Limit(9 * COST, 60.5), Limit(9 * COST, None)])
    book = decode(board.path.read_bytes())
    assert encode(book) == board.path.read_bytes()
    assert json.loads(encode(Book("0" * 64, "1" * 64)))["schema"] == 1


def test_it_is_for_the_service_and_its_group_alone(board):
    paid(board.ledger(), 1)
    assert stat.S_IMODE(board.path.stat().st_mode) == 0o640


def test_a_disk_that_takes_nothing_pays_for_nothing(board, monkeypatch):
    ledger = board.ledger()

    def full(*_):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(ledger._disk, "sync", full)
    with pytest.raises(DeviceFailed, match="free some space"):
        paid(ledger, 1)
    assert board.spent() == 0


def test_many_at_once_are_never_over(board):
    counts = []

    def work():
        ledger = board.ledger()
        counts.extend(paid(ledger, 1, most=50) for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(counts) == 50 == board.spent()


def test_a_device_that_only_waits_writes_how_long_it_was_on(board):
    ledger = board.ledger()
    paid(ledger, 20, period_s=HOUR)
    number = decode(board.path.read_bytes()).number
    for _ in range(10):
        board.up_s += 61
        paid(ledger, 1, period_s=HOUR)
    assert decode(board.path.read_bytes()).number == number + 1


def test_an_odd_machine_identifier_is_none(tmp_path, monkeypatch):
    from edgeveil.edge_runtime import machine

    path = Path(tmp_path / "machine-id")
    monkeypatch.setattr(machine, "_MACHINE_IDS", (str(path),))
    for text in ("", "uninitialized\n", "0123"):
        path.write_text(text)
        with pytest.raises(BadInput, match="systemd-machine-id-setup"):
            machine.machine_id()
    path.write_text("a" * 32 + "\n")
    assert machine.machine_id() == "a" * 32
