"""The distance between what leaves here and what the audit counted: seen where it is there, silent where it is not."""

import numpy as np
import pytest

from edgeveil.edge_runtime.ext.shift.distance import (
    BLOCK_S,
    Histogram,
    Reference,
    effective_number,
    reference_of,
    shift_of,
)
from edgeveil.edge_runtime.frames import _PIPELINE, PerturbedFrame

P = np.array([0.4, 0.3, 0.2, 0.1])
REFERENCE = Reference("code", [400, 300, 200, 100, 0], 1000.0, None)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def frame(code, slot=0):
    return PerturbedFrame(0, {"code": np.int64(code)}, _PIPELINE, slot=slot)


def sent(codes, *, per_minute=60, reference=REFERENCE, most_blocks=1000):
    clock = Clock()
    found = Histogram(reference, clock=clock, most_blocks=most_blocks)
    for code in codes:
        found.add([frame(code)])
        clock.now += BLOCK_S / per_minute
    return found


def look(histogram, most=0.25, error=1e-6):
    return shift_of(REFERENCE, histogram.counts(), histogram.effective(), most=most, error=error)


def test_the_same_codes_are_as_audited_and_others_are_not():
    rng = np.random.default_rng(0)
    same = look(sent(rng.choice(4, 3000, p=P)))
    assert same.state == "as audited"
    assert same.low == 0 < same.distance < same.high < 0.25
    other = look(sent(rng.choice(4, 3000, p=P[::-1])))
    assert other.state == "shifted"
    assert other.low <= 0.4 <= other.high  # the distance between the two laws


def test_the_interval_holds_the_true_distance_as_often_as_it_says():
    rng, held, false_alarms = np.random.default_rng(1), 0, 0
    for _ in range(400):
        law = rng.dirichlet(10 * P)
        true = float(np.abs(law - P).sum() / 2)
        known = Reference("code", [*rng.multinomial(300, P), 0], 300.0, None)
        shift = shift_of(known, [*rng.multinomial(200, law), 0], 200.0, most=true + 1e-9, error=0.05)
        held += shift.low <= true <= shift.high
        false_alarms += shift.state == "shifted"
    assert held >= 400 * 0.95
    assert false_alarms <= 400 * 0.05


def test_one_person_who_stands_still_for_an_hour_is_one_release():
    assert sent([2] * 3600).effective() == 1.0
    assert look(sent([2] * 3600)).state == "unknown"


def test_people_who_stay_for_minutes_count_as_people():
    rng = np.random.default_rng(2)
    codes = np.repeat(rng.choice(4, 200, p=P), 300)  # five minutes each
    assert 30 < sent(codes).effective() < 210


def test_only_the_last_minutes_are_looked_at():
    rng = np.random.default_rng(3)
    early, late = rng.choice(4, 3600, p=P[::-1]), rng.choice(4, 3600, p=P)
    histogram = sent([*early, *late], most_blocks=60)
    assert sum(histogram.counts()) == 3600
    assert look(histogram).state == "as audited"
    assert look(sent(early, most_blocks=60)).state == "shifted"


def test_a_code_that_the_audit_never_saw_is_counted_apart():
    assert sent([0, 9, -1]).counts() == [1, 0, 0, 0, 2]


def test_an_empty_place_is_counted_nowhere():
    audit = {"histogram": {"output": "code", "counts": [5, 0, 7], "effective": 12.0, "blank": 2}}
    assert reference_of(audit, crops=True) == Reference("code", [5, 0, 0, 0], 12.0, 2)
    assert reference_of(audit, crops=False) == Reference("code", [5, 0, 7, 0], 12.0, None)
    assert sent([0, 2, 2], reference=reference_of(audit, crops=True)).counts() == [1, 0, 0, 0]


@pytest.mark.parametrize("audit", [None, {}, {"histogram": None}])
def test_without_a_histogram_nothing_is_compared(audit):
    assert reference_of(audit, crops=False) is None


def test_where_empty_places_send_any_code_nothing_is_compared():
    audit = {"histogram": {"output": "code", "counts": [5], "effective": 5.0, "blank": None}}
    assert reference_of(audit, crops=True) is None
    assert reference_of(audit, crops=False) is not None


def test_clusters_that_agree_within_are_worth_less_than_their_rows():
    rng = np.random.default_rng(4)
    alike = np.zeros((40, 4))
    alike[np.arange(40), rng.choice(4, 40, p=P)] = 50
    mixed = rng.multinomial(50, P, size=40)
    assert effective_number(alike) == pytest.approx(40, rel=0.1)
    assert effective_number(mixed) > 1000
    assert effective_number(np.array([[50, 0]] * 7)) == 7.0
