"""Which families attack which kind of sample."""

from edgeveil.trainer.attacks.registry import FAMILIES, adversaries, meant_for
from scripts import reference

OF_SERIES = {"series CNN", "series GRU", "boosted signal features", "nearest by DTW"}


def test_what_reads_a_signal_in_time_is_asked_of_series_alone():
    every = {family.name for family in adversaries()}
    assert {family.name for family in meant_for(adversaries(), "series")} == every
    for kind in ("image", "vector"):
        assert every - {family.name for family in meant_for(adversaries(), kind)} == OF_SERIES


def test_the_order_is_that_of_the_classes_and_no_two_share_a_place():
    orders = {name: kind.facts["order"] for name, kind in FAMILIES[0].kinds().items()}
    assert sorted(orders.values()) == list(range(1, len(orders) + 1))
    assert [family.name for family in adversaries()] == sorted(orders, key=orders.__getitem__)


def test_the_page_lists_the_families_as_their_classes_do():
    text = reference.ATTACKS.read_text()
    assert reference.filled(text, {"families": reference.families}) == text, reference.HOW
