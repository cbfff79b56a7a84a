"""What others do on this machine while something is timed: counted from the system's ticks, waited for, refused."""

import os
import subprocess
import sys

import pytest

from edgeveil.devices.compare import Use, Watch
from scripts import record

TICKS = os.sysconf("SC_CLK_TCK")
FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")


class Machine:
    """A /proc/stat and a clock that a test moves."""

    def __init__(self, folder):
        self.path, self.time, self.ticks = folder / "stat", 0.0, dict.fromkeys(FIELDS, 0)
        self.pass_s(0.0)

    def pass_s(self, seconds, **cores):
        self.time += seconds
        for name, used in cores.items():
            self.ticks[name] += int(used * seconds * TICKS)
        self.path.write_text("cpu  " + " ".join(map(str, self.ticks.values())) + "\ncpu0 1 1\n")

    def watch(self):
        return Watch(self.path, lambda: self.time)


@pytest.mark.parametrize(("kind", "counts"), [("user", 1), ("nice", 1), ("steal", 1), ("idle", 0), ("iowait", 0)])
def test_every_tick_that_a_core_was_gone_counts_and_idle_ones_do_not(tmp_path, kind, counts):
    machine = Machine(tmp_path)
    watch = machine.watch()
    machine.pass_s(1000.0, **{kind: 1.0})  # so long that this process's own milliseconds are nothing
    assert watch.use().others == pytest.approx(counts, abs=0.01)


def test_a_child_that_has_ended_is_our_own():
    watch = Watch()
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 1: pass"], check=True)
    use = watch.use()
    assert use.own * use.seconds > 0.9


def test_where_the_system_does_not_say_nothing_is_made_up(tmp_path):
    use = Watch(tmp_path / "none").use()
    assert use.others is None
    assert use.document()["other_cores"] == "not measured"
    assert use.reasons() == []


def test_a_busy_machine_and_a_process_that_was_kept_waiting_are_reasons():
    assert Use(10, 1.0, 0.05).reasons(alone=True) == []
    assert "others used 0.90 cores" in Use(10, 1.0, 0.9).reasons()[0]
    assert "had 50% of a core" in Use(10, 0.5, 0.0).reasons(alone=True)[0]
    assert Use(10, 0.5, 0.0).reasons() == []


def test_it_waits_for_a_quiet_machine_and_says_what_is_in_the_way(tmp_path, capsys):
    machine, busy = Machine(tmp_path), iter([1.0, 1.0, 0.0])

    def sleep(seconds):
        machine.pass_s(500 * seconds, user=next(busy))

    still = {"sleep": sleep, "clock": lambda: machine.time, "watch": machine.watch}
    assert record.wait(1e9, load=lambda: 0.1, **still) is None
    assert "waiting" in capsys.readouterr().err
    busy = iter([1.0])
    assert "others use 1.00 cores" in record.wait(1.0, load=lambda: 0.1, **still)
    busy = iter([0.0])
    assert "load of this machine is 99.0" in record.wait(1.0, load=lambda: 99.0, **still)
