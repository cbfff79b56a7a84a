"""A draw is paid for once, and one that was forgotten again."""

from edgeveil.edge_runtime.ext.ledger.allowance import Payer
from edgeveil.edge_runtime.ipc.record import PaidDraws
from edgeveil.edge_runtime.manifest.manifest import AHEAD
from tests.support.promised.counted_bundles import Board, price


def test_what_is_not_named_is_always_paid_for_and_what_is_named_once():
    paid = PaidDraws(most=2)
    assert paid.unpaid([0, 0]) == 2
    assert paid.unpaid([7, 7, 8, 0]) == 3
    paid.add([7, 0])
    assert (7 in paid, 0 in paid) == (True, False)
    assert paid.unpaid([7, 8, 0]) == 2
    paid.add([8, 7, 9])  # 8 is now the one that was paid for longest ago
    assert [paid.unpaid([name]) for name in (7, 8, 9)] == [0, 1, 0]


def test_a_draw_that_is_released_again_costs_nothing_and_none_is_reserved(tmp_path):
    board = Board(tmp_path)
    paying = Payer(board.ledger(), price(2), by_subject=False, clock=board.clock)
    assert paying.pay([0] * 5, AHEAD, [7] * 5) == [True] * 5
    assert board.spent() == 1
    assert all(paying.pay([0], 1000, [7]) == [True] for _ in range(100))
    assert paying.pay([0] * 4, 0, [8, 7, 9, 8]) == [True, True, False, True]
    assert board.spent() == 2
    # What was not paid for stays unpaid, however often it comes.
    assert paying.pay([0] * 3, 0, [9, 9, 0]) == [False] * 3
    assert Payer(board.ledger(), price(2), by_subject=False, clock=board.clock).pay([0], 0, [7]) == [False]


def test_a_draw_is_charged_to_the_subject_that_it_is_of(tmp_path):
    board = Board(tmp_path)
    paying = Payer(board.ledger(), price(1), by_subject=True, clock=board.clock)
    assert paying.pay([5, 6, 5, 5], 0, [1, 2, 1, 3]) == [True, True, True, False]
    assert paying.pay([5, 6], 0, [1, 4]) == [True, False]
    assert board.spent() == 2
