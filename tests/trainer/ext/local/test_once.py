"""Each key once, whatever the blocks are that it comes in."""

import numpy as np

from edgeveil.trainer.ext.local.collect import Seen, keys


def test_as_a_set_of_tuples_would():
    rng = np.random.default_rng(0)
    seen, known = Seen(), set()
    for size in (0, 1, 50, 1000, 3):
        sender = rng.integers(0, 5, size).astype(">u8").view("S8")
        number = rng.integers(0, 2**8, size).astype(np.uint64) << np.uint64(56)  # zero bytes at their ends
        wanted = []
        for pair in zip(sender.tolist(), number.tolist(), strict=True):
            wanted.append(pair not in known)
            known.add(pair)
        assert seen.first_seen(keys(sender, number)).tolist() == wanted


def test_columns_do_not_run_together():
    one = keys(np.array([1, 0], np.uint16), np.array([0, 1], np.int64))
    assert one[0] != one[1]
    assert len({*keys(np.arange(-70000, 70000)).tolist()}) == 140_000
