"""The allowance of a stream: reserved ahead by a thread that no tick waits for, and ended by a bad ledger."""

import time

import pytest

from edgeveil.edge_runtime.errors import PrivacyStop
from edgeveil.edge_runtime.ext.ledger import allowance as module
from edgeveil.edge_runtime.ext.ledger.allowance import Allowance, InsideCount
from edgeveil.edge_runtime.ipc.counters import Counters
from edgeveil.edge_runtime.manifest.manifest import AHEAD
from tests.support.promised.counted_bundles import Board, price


@pytest.fixture
def board(tmp_path):
    return Board(tmp_path)


def allowance(board, releases, period_s=None, slots=1, tick_s=0.1, page=None, **options):
    limits = price(releases, period_s)
    made = Allowance(board.ledger(), limits, slots=slots, tick_s=tick_s, clock=board.clock, **options)
    made.start(Counters() if page is None else page)
    return made


def taken(made, most, releases=1):
    """How many sets leave of ``most``; the thread gets the time that it needs."""
    count = 0
    for _ in range(most):
        until = time.monotonic() + 10
        while not made.take(releases):
            if made.spent() or time.monotonic() > until:
                return count
            time.sleep(0.001)
        count += 1
    return count


@pytest.mark.parametrize(
    ("tick_s", "slots", "ahead"), [(0.1, 1, AHEAD), (10.0, 1, 6), (3600.0, 1, 1), (3600.0, 4, 4), (0.1, 100, 100)]
)
def test_64_releases_or_a_minutes_are_reserved_and_at_least_a_ticks(board, tick_s, slots, ahead):
    allowance(board, 1000, tick_s=tick_s, slots=slots)
    assert board.spent() == ahead


def test_of_answers_that_are_kept_a_ticks_are_reserved_and_more_when_they_are_missing(board):
    made = allowance(board, 1000, slots=4, repeats=True)
    assert board.spent() == 4
    assert made.take(1)
    assert taken(made, 3, releases=4) == 3  # the first of these was one short
    assert 13 <= board.spent() <= 17


def test_it_goes_on_to_the_limit_and_no_further(board):
    made = allowance(board, 150)
    assert taken(made, 1000) == 150
    assert made.spent()
    assert not made.take(1)
    assert board.spent() == 150


def test_a_set_of_several_slots_leaves_whole_or_not_at_all(board):
    made = allowance(board, 10, slots=3)
    assert taken(made, 10, releases=3) == 3
    assert made.spent()


def test_what_was_released_is_never_more_than_what_the_disk_says(board):
    made = allowance(board, 200)
    for count in range(1, 201):
        assert taken(made, 1) == 1
        assert count <= board.spent()


def test_a_tick_does_not_wait_for_the_disk(board, monkeypatch):
    made = allowance(board, 1000, tick_s=10.0)
    monkeypatch.setattr(made._ledger._disk, "sync", lambda _path: time.sleep(1))
    since = time.monotonic()
    assert sum(made.take(1) for _ in range(10)) == 6
    assert time.monotonic() - since < 0.5
    assert not made.spent()
    assert made.take_one()  # for a file, which has no ticks


def test_the_next_period_is_noticed(board, monkeypatch):
    monkeypatch.setattr(module, "AGAIN_S", 0.01)
    made = allowance(board, 10, period_s=600)
    assert taken(made, 100) == 10
    board.up_s += 601
    until = time.monotonic() + 10
    while made.spent() and time.monotonic() < until:
        time.sleep(0.01)
    assert taken(made, 100) == 10


def test_what_was_reserved_in_one_period_is_lost_in_the_next(board):
    made = allowance(board, 70, period_s=600)
    assert made.take(1)
    board.up_s += 601
    assert taken(made, 100) == 70


@pytest.mark.parametrize("data", [b"", b"{}"])
def test_a_ledger_that_breaks_stops_everything(board, data):
    made = allowance(board, 1000)
    board.path.write_bytes(data)
    with pytest.raises(PrivacyStop, match="damaged: what was spent is not known"):
        taken(made, 100)
    with pytest.raises(PrivacyStop):
        made.take(1)


def test_the_inside_is_told_what_is_left_and_makes_no_more(board):
    page = Counters()
    made = allowance(board, 100, page=page)
    assert taken(made, 40) == 40
    until = time.monotonic() + 10
    while page.get("left:0") == 100 and time.monotonic() < until:
        time.sleep(0.01)
    inside = InsideCount(page, price(100))
    assert 60 <= sum(inside.take(1) for _ in range(200)) <= 68
    assert made.spent()
