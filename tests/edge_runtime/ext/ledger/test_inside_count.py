"""The inside's own count: what it was told once, and never more than bundle and policy allow."""

from edgeveil.edge_runtime.ext.ledger.allowance import INSIDE_SPENT, InsideCount, tell
from edgeveil.edge_runtime.ipc.counters import Counters, shared_page
from edgeveil.edge_runtime.manifest.manifest import Limit, Price


def count(told, *limits, now=None):
    page = Counters()
    tell(page, told)
    now = now if now is not None else [0.0]
    return InsideCount(page, Price(10, [Limit(most, period) for most, period in limits]), clock=lambda: now[0]), page


def made(inside, most=1000):
    return sum(inside.take(1) for _ in range(most))


def test_it_makes_what_it_was_told_and_says_when_it_is_over():
    inside, page = count([(7, None)], (1000, None))
    assert inside.take(4)
    assert page.get(INSIDE_SPENT) == 0
    assert not inside.take(4)
    assert page.get(INSIDE_SPENT) == 1
    assert made(inside) == 3


def test_nothing_told_is_nothing_made():
    assert made(InsideCount(Counters(), Price(10, [Limit(1000, None)]))) == 0


def test_no_word_of_the_other_side_is_more_than_the_bundle_allows():
    assert made(count([(10**9, None)], (1000, None))[0]) == 100


def test_it_is_told_once():
    inside, page = count([(7, None)], (1000, None))
    tell(page, [(90, None)])
    assert made(inside) == 7


def test_every_limit_holds_and_a_period_renews_its_own():
    now = [0.0]
    inside, _ = count([(150, None), (5, 30)], (2000, None), (400, 60.0), now=now)
    assert made(inside) == 5
    now[0] = 30.0
    assert made(inside) == 40
    now[0] = 89.0
    assert made(inside) == 0
    now[0] = 90.0
    assert made(inside) == 40
    now[0] = 1000.0
    assert made(inside) == 40
    now[0] = 2000.0
    assert made(inside) == 25


def test_a_period_that_did_not_begin_begins_with_the_first():
    now = [0.0]
    inside, _ = count([(4, None)], (40, 60.0), now=now)
    now[0] = 500.0
    assert made(inside) == 4
    now[0] = 559.0
    assert made(inside) == 0
    now[0] = 560.0
    assert made(inside) == 4


def test_it_goes_through_the_memory_that_both_have():
    handle = shared_page()
    tell(Counters(handle), [(3, None)])
    assert made(InsideCount(Counters(handle), Price(10, [Limit(1000, None)]))) == 3
