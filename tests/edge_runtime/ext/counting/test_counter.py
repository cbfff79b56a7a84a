"""Lines with hysteresis, the picture's border, zones and stays, periods, and what one track adds at most with noise."""

import numpy as np
import pytest

from edgeveil.edge_runtime.ext.counting.inside import Counter, two_sided_geometric
from edgeveil.edge_runtime.manifest.count import CountNoise, CountRules, Line, Zone

SHAPE = (424, 512)
DOWN = Line("door", (0, 256), (424, 256))  # looking down the picture, its right is the left half
SHORT = Line("gap", (100, 256), (200, 256))
ROOM = Zone("room", [(0, 300), (0, 512), (424, 512), (424, 300)])


class Room:
    """A counter with a clock of its own, at ten frames a second."""

    def __init__(self, lines=(DOWN,), zones=(), dwell=(), noise=None, drawn=None):
        self.now = 5.0
        rules = CountRules(list(lines), list(zones), 60, list(dwell), 16.0, noise)
        draw = (lambda count, *_: [0] * count) if drawn is None else drawn
        self.counter = Counter(rules, SHAPE, step_px=60, gone_frames=3, clock=lambda: self.now, noise=draw)

    def walk(self, *ways):
        """People along rows of places at the same time; None: not seen."""
        for places in zip(*ways, strict=True):
            self.now += 0.1
            self.counter.people([place for place in places if place is not None])

    def leave(self):
        for _ in range(5):
            self.now += 0.1
            self.counter.people([])

    def close(self):
        self.now = (self.now // 60 + 1) * 60 + 0.1
        return self.counter.close()

    def values(self):
        return list(self.close().values)


def along(row, start, end, step=10):
    """Places from one column to another."""
    columns = np.arange(start, end + np.sign(end - start), step * np.sign(end - start))
    return [(float(row), float(column)) for column in columns]


@pytest.mark.parametrize(("start", "end", "expected"), [(150, 350, [0, 1]), (350, 150, [1, 0])])
def test_in_is_to_the_right_of_who_looks_along_the_line(start, end, expected):
    room = Room()
    room.walk(along(200, start, end))
    assert room.values() == expected


def test_no_number_is_more_than_sixteen_people_make():
    room = Room(zones=[ROOM])
    room.counter._values[:2] = [16 * 60, 16 * 60 - 1]
    room.walk(along(200, 150, 350), along(300, 350, 150))
    room.walk(*[[(20.0 * n, 400.0)] for n in range(20)])
    assert room.values() == [960, 960, 16]


def test_who_stands_on_a_line_or_turns_round_on_it_has_not_crossed():
    room = Room()
    room.walk(along(200, 150, 250) + [(200.0, 250.0 + 12 * (n % 2)) for n in range(60)] + along(200, 250, 150))
    assert room.values() == [0, 0]


def test_there_and_back_are_two_crossings():
    room = Room()
    room.walk(along(200, 200, 320) + along(200, 320, 200))
    assert room.values() == [1, 1]


def test_who_goes_round_the_end_of_a_line_has_not_crossed_it():
    room = Room(lines=[SHORT])
    room.walk(along(300, 150, 350) + [(row, 350.0) for row in range(300, 150, -10)])
    assert room.values() == [0, 0]
    room.walk(along(150, 350, 150))
    assert room.values() == [1, 0]


def test_who_is_first_seen_behind_a_line_by_the_border_has_crossed_it():
    room = Room(lines=[Line("edge", (0, 30), (424, 30))])
    room.walk(along(200, 50, 300))
    room.leave()
    assert room.values() == [0, 1]
    room.walk(along(200, 270, 45))
    room.leave()
    assert room.values() == [1, 0]
    # Far from the border nobody comes in: they were not seen until now.
    room.walk(along(200, 150, 300))
    assert room.values() == [0, 0]


def test_somebody_not_seen_for_a_moment_goes_on():
    way = along(200, 150, 350)
    way[9:12] = [None] * 3
    room = Room()
    room.walk(way)
    assert room.values() == [0, 1]
    assert len(room.counter._walks.alive) == 1


def test_two_who_pass_each_other_are_not_mixed_up():
    room = Room()
    room.walk(along(200, 150, 350), along(225, 350, 150))
    assert room.values() == [1, 1]


def test_occupancy_is_that_of_the_end_and_stays_go_to_their_bins():
    room = Room(lines=[], zones=[ROOM], dwell=[2.0, 30.0])
    room.walk([(200.0, 350.0)] * 10, [(50.0, 400.0)] * 10)
    room.walk([(200.0, 350.0)] * 310, [None] * 310)
    assert room.values() == [1, 1, 0, 0]  # one is there, one left after a second
    room = Room(lines=[], zones=[ROOM], dwell=[2.0, 30.0])
    room.walk([(200.0, 350.0)] * 310)
    room.leave()
    assert room.values() == [0, 0, 0, 1]


def test_a_period_is_handed_out_once_and_the_first_is_but_a_part():
    room = Room()
    assert room.counter.close() is None
    first = room.close()
    assert (first.period, first.whole) == (0, False)
    assert room.counter.close() is None
    second = room.close()
    assert (second.period, second.whole) == (1, True)
    room.counter.restart()
    assert not room.close().whole
    room.now += 200  # nobody asked: the periods between are skipped, and the next one is not whole
    assert room.counter.close() is not None
    assert not room.close().whole


def test_with_noise_one_track_adds_no_more_than_the_sensitivity():
    noise = CountNoise(500_000, 2, 10**7)
    back_and_forth = (along(200, 200, 340) + along(200, 340, 200)) * 6
    plain, capped = [Room(zones=[ROOM], dwell=[1.0], noise=given) for given in (None, noise)]
    for room in (plain, capped):
        room.walk(back_and_forth)
    without, with_noise = plain.values(), capped.values()
    assert without[:2] == [6, 6]
    assert with_noise[:2] == [2, 2]
    assert sum(with_noise) <= capped.counter._rules.sensitivity == 2 * 2 + 1 + 2


def test_the_noise_is_drawn_at_the_scale_that_the_manifest_means():
    asked = []
    noise = CountNoise(250_000, 1, 10**7)
    room = Room(zones=[ROOM], noise=noise, drawn=lambda *given: asked.append(given) or [7, -7, 1])
    assert room.values() == [7, -7, 1]
    assert asked == [(3, 3 * 10**6, 250_000)]


def test_the_noise_of_the_operating_system_has_the_law():
    """Two-sided geometric: P(0) = (1 - a) / (1 + a) with a = exp(-epsilon / sensitivity); 4000 draws of each number."""
    drawn = np.array(two_sided_geometric(4000, 2 * 10**6, 10**6))
    a = np.exp(-0.5)
    share = (1 - a) / (1 + a)
    # Hoeffding: off by 0.045 less than once in a million.
    assert abs((drawn == 0).mean() - share) < 0.045
    assert abs((drawn > 0).mean() - (drawn < 0).mean()) < 0.09
