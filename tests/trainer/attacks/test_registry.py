"""Which families attack which kind of sample."""

from edgeveil.trainer.attacks.registry import adversaries, meant_for

OF_SERIES = {"series CNN", "series GRU", "boosted signal features", "nearest by DTW"}


def test_what_reads_a_signal_in_time_is_asked_of_series_alone():
    every = {family.name for family in adversaries()}
    assert {family.name for family in meant_for(adversaries(), "series")} == every
    for kind in ("image", "vector"):
        assert every - {family.name for family in meant_for(adversaries(), kind)} == OF_SERIES
