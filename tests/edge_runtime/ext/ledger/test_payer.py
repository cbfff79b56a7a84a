"""Who may leave of a file, in order, and how seldom the disk is asked."""

import pytest

from edgeveil.edge_runtime.ext.ledger import book
from edgeveil.edge_runtime.ext.ledger.allowance import Payer
from edgeveil.edge_runtime.ext.ledger.book import LedgerUnfit
from edgeveil.edge_runtime.frames import Subject, one_spelling
from edgeveil.edge_runtime.manifest.manifest import AHEAD
from edgeveil.trainer.ext.publish.master_key import normalised
from tests.support.promised.counted_bundles import COST, Board, price


@pytest.fixture
def board(tmp_path):
    return Board(tmp_path)


def payer(board, releases, period_s=None, by_subject=False):
    return Payer(board.ledger(), price(releases, period_s), by_subject=by_subject, clock=board.clock)


def test_a_block_is_charged_at_once_and_what_is_over_does_not_leave(board):
    paying = payer(board, 10)
    assert paying.pay([0] * 7) == [True] * 7
    assert board.spent() == 7
    assert paying.pay([0] * 7) == [True] * 3 + [False] * 4
    assert paying.pay([0]) == [False]
    assert board.spent() == 10


def test_one_by_one_they_are_reserved_ahead_and_the_rest_is_lost(board):
    paying = payer(board, 100)
    assert paying.pay([0], 1000) == [True]
    assert board.spent() == AHEAD
    assert all(paying.pay([0], 1000) == [True] for _ in range(AHEAD - 1))
    assert board.spent() == AHEAD
    assert payer(board, 100).pay([0], 1000) == [True]  # a restart: nothing is given back
    assert board.spent() == 100
    assert paying.pay([0], 1000) == [False]


def test_of_a_short_file_no_more_is_reserved_than_can_follow(board):
    paying = payer(board, 100)
    assert [paying.pay([0], more)[0] for more in (2, 1, 0)] == [True] * 3
    assert board.spent() == 3


def test_each_subject_in_a_block_stops_for_itself(board):
    paying = payer(board, 2, by_subject=True)
    assert paying.pay([5, 6, 5, 5, 6, 7]) == [True, True, True, False, True, True]
    assert paying.pay([5, 7, 7]) == [False, True, False]
    assert board.spent() == 6


def test_without_a_column_all_are_one_unit(board):
    assert payer(board, 2).pay([5, 6, 7]) == [True, True, False]


def test_what_was_reserved_in_one_period_does_not_leave_in_the_next(board):
    paying = payer(board, 70, period_s=60)
    assert paying.pay([0], 1000) == [True]
    board.up_s += 61
    assert sum(paying.pay([0], 1000)[0] for _ in range(100)) == 70


def test_without_a_ledger_nothing_is_paid_for(board):
    paying = payer(board, 10)
    board.path.write_bytes(b"{}")
    with pytest.raises(LedgerUnfit):
        paying.pay([0])


SPELLINGS = {
    "Zo\u00eb": ["Zo\u00eb", "zo\u00eb", "ZO\u00cb ", " Zo\u0065\u0308", "\uff3ao\u00eb"],
    "Ann Lee": ["Ann Lee", "ann  lee", "ANN\tLEE"],
    "7": ["7", "007", "7.0", "\uff17", "7."],
    "Bo": ["Bo", "B\u00ado", "\ufeffBo", "B\u200do", "Bo\ufe0f", "B\u034fo", "Bo\x7f", "\u202aBo\u202c"],
    "\u0390": ["\u0390", "\u03aa\u0301", "\u03b9\u0308\u0301"],  # folded once, two of them differ
}


def test_a_subject_has_one_budget_however_its_name_is_spelled(board):
    names = [name for every in SPELLINGS.values() for name in every]
    paying = payer(board, 1, by_subject=True)
    assert sum(paying.pay([Subject.from_name(name) for name in names])) == board.spent() == len(SPELLINGS)
    assert len(book.decode(board.path.read_bytes()).accounts) == len(SPELLINGS)
    assert len({Subject.from_name(name) for name in ("Ann", "Anne", "7", "70", "-7", "7.5", "")}) == 7


def test_it_is_the_spelling_in_which_tables_are_published():
    for every in (SPELLINGS["Zo\u00eb"], SPELLINGS["Ann Lee"], ["\ufb01x", "STRASSE", "\u0130"]):
        for name in every:
            assert one_spelling(name) == normalised(name, ["nfkc", "case", "spaces"])


@pytest.mark.parametrize("period_s", [None, 3600.0])
def test_a_ledger_of_before_keeps_what_it_counted_of_each_spelling(board, period_s):
    """It has an account for each: they are one when the name is seen, and nothing of them is forgotten."""
    former = [Subject.from_name(name).former for name in ("Ann", "ann", "ANN")]
    board.ledger().charge(dict.fromkeys(former, 2), COST, price(10, period_s).limits)
    assert board.spent() == 6
    paying = payer(board, 8, period_s, by_subject=True)
    assert (
        paying.pay([Subject.from_name("ANN"), Subject.from_name("Ann")] + [Subject.from_name("ann")] * 3)
        == [True, True] + [False] * 3
    )
    found = book.decode(board.path.read_bytes())
    assert [account.total for account in found.accounts.values()] == [8 * COST]
    assert found.lifetime == 8 * COST
    assert payer(board, 8, period_s, by_subject=True).pay([Subject.from_name("ann")]) == [False]
