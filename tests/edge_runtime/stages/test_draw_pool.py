"""pipeline.draw_pool: each draw is handed out once, and nothing of it stays."""

from __future__ import annotations

import threading

import numpy as np

from edgeveil.edge_runtime.stages.draw import MOST_BYTES, MOST_ROWS, Pool
from tests.support.promised import local_examples as local


class Numbers:
    """Draws 1, 2, 3, ... and remembers how many at a time."""

    def __init__(self):
        self.count, self.calls, self.made = 0, [], []

    def __call__(self, shape):
        size = int(np.prod(shape))
        drawn = np.arange(self.count + 1, self.count + size + 1).reshape(shape)
        self.count += size
        self.calls.append(shape[0])
        self.made.append(drawn)
        return drawn


def test_each_draw_comes_out_once_and_is_overwritten():
    numbers = Numbers()
    pool = Pool(numbers, (2,))
    seen = []
    for n in (1, 3, MOST_ROWS, 0, 5, 1):
        pool.fill()
        assert pool._have == MOST_ROWS
        out = pool.take(n)
        assert out.shape == (n, 2)
        assert (pool._kept[pool._have :] == 0).all()
        seen += out.ravel().tolist()
    assert len(set(seen)) == len(seen)
    assert 0 not in seen
    assert all((drawn == 0).all() for drawn in numbers.made)  # what was put into the pool lies nowhere else


def test_what_it_lacks_is_drawn_fresh():
    numbers = Numbers()
    pool = Pool(numbers, ())
    assert pool.take(3).tolist() == [1, 2, 3]
    pool.fill()
    assert len(set(pool.take(MOST_ROWS + 2).tolist())) == MOST_ROWS + 2
    assert numbers.calls == [0, 3, MOST_ROWS, 2]


def test_it_is_bounded_in_bytes():
    pool = Pool(lambda shape: np.zeros(shape), (MOST_BYTES // 8 // 3,))
    pool.fill()
    assert len(pool._kept) == 3
    large = Pool(lambda shape: np.zeros(shape), (MOST_BYTES,))
    large.fill()
    assert len(large._kept) == 1


def test_a_full_pool_draws_nothing():
    numbers = Numbers()
    pool = Pool(numbers, ())
    pool.fill()
    pool.fill()
    assert numbers.calls == [0, MOST_ROWS]


def test_two_threads_share_nothing():
    pool, seen = Pool(Numbers(), ()), []

    def use():
        for _ in range(2000):
            pool.fill()
            seen.extend(pool.take(2).tolist())

    threads = [threading.Thread(target=use) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == len(seen) == 8000


def test_a_pipeline_draws_ahead_and_reports_are_as_private():
    parts, _ = local.document("hrr", 1, 4)
    pipeline = local.pipeline(parts, {})
    x = np.array([[0, 16, 0, 0]], np.uint8)
    sent = []
    for _ in range(400):
        pipeline.draw_ahead()
        sent.append(int(pipeline.run(x)["report"][0]))
    counts = np.bincount(sent, minlength=8)
    assert (counts > 10).all()  # 27 expected of the rarer ones


def test_recorded_draws_leave_the_pool_alone():
    parts, _ = local.document("duchi-linf", 1, 4)
    pipeline = local.pipeline(parts, {})
    pipeline.draw_ahead()
    before = [pool._kept.copy() for pool in pipeline.pools]
    x = np.zeros((2, 4), np.uint8)
    pipeline.run(x, local.recorded(parts["stages"], 2))
    assert all((pool._kept == kept).all() for pool, kept in zip(pipeline.pools, before, strict=True))
