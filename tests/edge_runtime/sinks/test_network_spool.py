"""edgeveil.edge_runtime.sinks.spool: bounded, oldest dropped first and counted, there again after a restart."""

import errno
import os

import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.sinks.spool import Spool


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def record(n, size=100):
    return b"%06d" % n + b"." * (size - 6)


def spool(folder=None, clock=None, **settings):
    clock = clock or Clock()
    given = {"most_bytes": 10**6, "ttl_s": 60.0, "clock": clock, "wall": lambda: clock() + 18 * 10**8, **settings}
    return Spool(folder=folder and str(folder), **given)


def taken(queue):
    """All that waits, as delivered."""
    out = []
    while (entry := queue.take()) is not None:
        out.append(int(entry.data[:6]))
        queue.done(entry)
    return out


@pytest.fixture(params=["memory", "disk"])
def folder(request, tmp_path):
    return tmp_path / "spool" if request.param == "disk" else None


def test_first_in_first_out_and_counted(folder):
    queue = spool(folder)
    for n in range(5):
        queue.put(record(n))
    assert taken(queue) == [0, 1, 2, 3, 4]
    counts = queue.counts()
    assert (counts["put"], counts["done"], counts["waiting"], counts["waiting_bytes"]) == (5, 5, 0, 0)


def test_the_oldest_go_first_when_it_is_full(folder):
    queue = spool(folder, most_bytes=1000)
    for n in range(25):
        queue.put(record(n))
    assert queue.counts()["full"] == 15
    assert taken(queue) == list(range(15, 25))


def test_what_is_too_old_goes_uncalled(folder):
    clock = Clock()
    queue = spool(folder, clock)
    queue.put(record(0))
    clock.now += 40
    queue.put(record(1))
    clock.now += 40
    assert taken(queue) == [1]
    assert queue.counts()["expired"] == 1


def test_what_was_given_back_comes_first_and_in_order(folder):
    clock = Clock()
    queue = spool(folder, clock)
    for n in range(4):
        queue.put(record(n))
    clock.now += 10
    queue.put(record(4))
    queue.take()
    second = queue.take()
    queue.take()
    queue.done(second)
    queue.give_back()
    assert taken(queue) == [0, 2, 3, 4]
    assert queue.counts()["done"] == 5


def test_a_disk_is_left_alone_while_all_goes_well(tmp_path):
    clock = Clock()
    queue = spool(tmp_path / "s", clock)
    for n in range(50):
        queue.put(record(n))
        clock.now += 0.1
        taken(queue)
    queue.close()
    assert [path.name for path in (tmp_path / "s").iterdir()] == ["lock"]


def test_it_is_there_again_after_a_restart_and_files_go_with_their_last_record(tmp_path):
    clock = Clock()
    queue = spool(tmp_path / "s", clock, most_bytes=10**8)
    for n in range(3000):
        queue.put(record(n, 1000))
    queue.close()
    assert len(list((tmp_path / "s").glob("*.spool"))) == 3
    again = spool(tmp_path / "s", clock, most_bytes=10**8)
    assert again.counts()["restored"] == 3000
    again.put(record(3000, 1000))
    assert taken(again) == list(range(3001))
    again.close()
    assert list((tmp_path / "s").glob("*.spool")) == []


def test_after_a_kill_what_had_waited_is_there(tmp_path):
    clock = Clock()
    queue = spool(tmp_path / "s", clock, write_after_s=2.0)
    for n in range(100):
        queue.put(record(n))
        clock.now += 0.1
    # Nothing is closed: the process is gone, and with it its lock.
    os.close(queue._disk._lock)
    assert taken(spool(tmp_path / "s", clock)) == list(range(80))


def test_an_hour_without_a_network_costs_nothing_and_little_memory(tmp_path):
    clock = Clock()
    queue = spool(tmp_path / "s", clock, most_bytes=256 * 10**6, ttl_s=3700.0)
    for n in range(36000):
        queue.put(record(n, 832))
        clock.now += 0.1
    assert queue._in_memory <= 25 * 832
    assert taken(queue) == list(range(36000))


def test_a_torn_end_is_not_believed(tmp_path):
    queue = spool(tmp_path / "s")
    for n in range(10):
        queue.put(record(n))
    queue.close()
    (path,) = (tmp_path / "s").glob("*.spool")
    path.write_bytes(path.read_bytes()[:-30])
    assert taken(spool(tmp_path / "s")) == list(range(9))


def test_a_changed_byte_ends_a_file(tmp_path):
    queue = spool(tmp_path / "s")
    for n in range(10):
        queue.put(record(n))
    queue.close()
    (path,) = (tmp_path / "s").glob("*.spool")
    data = bytearray(path.read_bytes())
    data[len(data) // 2 + 40] ^= 1
    path.write_bytes(bytes(data))
    assert taken(spool(tmp_path / "s")) == list(range(5))


def test_time_to_live_goes_on_while_the_device_is_off(tmp_path):
    clock = Clock()
    queue = spool(tmp_path / "s", clock)
    queue.put(record(0))
    clock.now += 30
    queue.put(record(1))
    queue.close()
    clock.now += 45
    assert taken(spool(tmp_path / "s", clock)) == [1]


def test_a_clock_that_went_back_keeps_what_there_is(tmp_path):
    queue = spool(tmp_path / "s")
    queue.put(record(7))
    queue.close()
    assert taken(spool(tmp_path / "s", wall=lambda: 12.0)) == [7]


def test_a_record_of_a_clock_that_was_not_set_counts_as_new(tmp_path):
    first = spool(tmp_path / "s", wall=lambda: 12.0)
    first.put(record(7))
    first.close()
    assert taken(spool(tmp_path / "s", wall=lambda: 1.8e9)) == [7], "the clock was set meanwhile"


def test_what_another_bundle_left_is_not_sent(tmp_path):
    queue = spool(tmp_path / "s")
    for n in range(4):
        queue.put(record(n))
    queue.close()
    again = spool(tmp_path / "s", accept=lambda data: int(data[:6]) % 2 == 1)
    assert again.counts()["unlike"] == 2
    assert taken(again) == [1, 3]


def test_one_spool_one_sink(tmp_path):
    first = spool(tmp_path / "s")
    with pytest.raises(BadInput, match="in use"):
        spool(tmp_path / "s")
    first.close()


def test_a_full_disk_keeps_records_in_memory_and_says_so_once(tmp_path, monkeypatch):
    clock, said = Clock(), []
    queue = spool(tmp_path / "s", clock, memory_bytes=2000, say=said.append)

    class Full:
        def __init__(self, file):
            self._file = file

        def write(self, data):
            self._file.write(data[:17])
            raise OSError(errno.ENOSPC, "No space left on device")

        def __getattr__(self, name):
            return getattr(self._file, name)

    queue.put(record(0))
    clock.now += 3
    queue.put(record(1))
    queue._disk._writes = Full(queue._disk._writes)
    for n in range(2, 40):
        clock.now += 0.01
        queue.put(record(n))
    clock.now += 3
    queue.put(record(40))
    counts = queue.counts()
    assert counts["disk_errors"] == 1
    assert len(said) == 1
    assert "no space left" in said[0]
    assert counts["full"] == 41 - counts["waiting"] > 0
    # What had been written is whole, nothing is half-done behind it, and when there is space again it goes on.
    queue._disk._writes = queue._disk._writes._file
    clock.now += 6
    queue.put(record(41))
    queue.close()
    left = taken(spool(tmp_path / "s", clock))
    assert left[0] == 0
    assert left[-1] == 41
    assert len(left) == counts["waiting"] + 1


def test_discard_leaves_nothing(folder):
    clock = Clock()
    queue = spool(folder, clock)
    for n in range(5):
        queue.put(record(n))
        clock.now += 3
    queue.take()
    queue.discard()
    assert queue.take() is None
    assert queue.counts()["waiting"] == 0
    assert folder is None or list(folder.glob("*.spool")) == []
