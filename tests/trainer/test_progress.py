"""Progress without a terminal: a line now and then however long one piece takes, and one at the end."""

import re
import time

import pytest

from edgeveil.trainer import progress as module
from edgeveil.trainer.progress import progress, transfer
from tests.support.output import PROGRESS, on_terminal, seen


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(module, "LINE_EVERY_S", 0.02)


def wait_for_lines(capsys, count):
    """What was printed until it has ``count`` lines."""
    text, limit = "", time.monotonic() + 10
    while text.count("\n") < count:
        assert time.monotonic() < limit, text
        time.sleep(0.01)
        text += capsys.readouterr().err
    return text


def test_one_long_piece_is_said_again_and_again(capsys):
    with progress("export", total=2) as advance:
        first = wait_for_lines(capsys, 2)
        advance(acc_y=0.5)
        wait_for_lines(capsys, 1)
    assert set(first.splitlines()) == {"export: 0/2, 0 s"}
    last = capsys.readouterr().err.splitlines()[-1]
    assert re.fullmatch(r"export: 1/2, \d s  acc y 0.5", last)
    assert re.fullmatch(PROGRESS, last)


def test_nothing_goes_on_after_a_failure(capsys):
    with pytest.raises(ValueError, match="broken"), progress("export", total=2):
        raise ValueError("broken")
    before = capsys.readouterr().err
    time.sleep(0.1)
    assert capsys.readouterr().err == ""
    assert "1/2" not in before


def test_a_transfer_says_bytes_and_no_rate_at_first(capsys):
    with transfer("sending") as report:
        report(500, 1000)
        lines = wait_for_lines(capsys, 2).splitlines()
    assert lines[-1] == "sending: 500 of 1000 bytes"


def test_a_transfer_says_its_rate_once_it_is_known(capsys, monkeypatch):
    monkeypatch.setattr(module, "QUIET_S", 0.01)
    with transfer("sending") as report:
        report(100, 1000)
        time.sleep(0.05)
        report(500, 1000)
        capsys.readouterr()
        lines = wait_for_lines(capsys, 2).splitlines()
    assert re.fullmatch(r"sending: 500 of 1000 bytes, [\d.]+ kB/s, \d+ s left", lines[-1])


def test_between_two_transfers_nothing_is_said_and_each_has_its_own_rate(capsys, monkeypatch):
    monkeypatch.setattr(module, "QUIET_S", 0.01)
    with transfer("sending") as report:
        report(0, 10**6)
        time.sleep(0.05)
        report(10**6, 10**6)
        time.sleep(0.2)
        capsys.readouterr()
        time.sleep(0.2)
        assert capsys.readouterr().err == "", "other steps run, and say so"
        report(100, 1000)
        time.sleep(0.05)
        report(500, 1000)
        assert "-" not in wait_for_lines(capsys, 2)


def test_a_rate_is_that_of_the_last_seconds_and_not_of_the_first():
    now = 0.0
    rate = module.Rate(lambda: now)
    for second in (0, 1):  # a slow start, of which nothing is said
        now = float(second)
        rate.see(second + 1)
        assert rate.left(1000) == ""
    for second in range(2, 100):
        now = float(second)
        rate.see(second)
    for second in range(100, 120):  # ten times as fast
        now = float(second)
        rate.see(100 + 10 * (second - 100))
    assert rate.per_s() == pytest.approx(10)
    assert rate.left(390) == ", 10 s left"
    now = 1e6
    assert rate.per_s() < 1  # it stands still now


def test_it_says_what_runs_for_how_long_and_how_long_the_rest_may_take():
    now = 0.0
    steps = module.Steps(10, clock=lambda: now)
    steps.begin("forest")
    now = 1.5
    assert steps.text() == "2 s, forest for 2 s"
    for seconds in (1.5, 4, 1, 0.5):
        now += seconds
        steps(right=0.5)
    # The quicker half took 0.75 s on average, the slower one 3.5 s, and six are left.
    assert steps.text() == "8 s, 4 to 21 s left  right 0.5"
    for _ in range(3):
        steps()  # taken from an audit that was broken off: they say nothing of the others
    assert steps.text() == "8 s, 2 to 10 s left"


def test_nothing_is_said_of_the_time_left_before_enough_has_been_seen():
    now = 0.0
    steps = module.Steps(10, clock=lambda: now)
    for _ in range(4):
        now += 0.4
        steps()
    assert "left" not in steps.text()  # it is too early
    now = 2.5
    assert "left" in steps.text()
    few = module.Steps(10, clock=lambda: now)
    now = 200.0
    few()
    assert "left" not in few.text()


def test_a_bar_on_a_terminal_ends_with_all_that_is_done(tmp_path):
    (tmp_path / "work.py").write_text(
        "from edgeveil.trainer.progress import progress\n"
        "with progress('export', total=3) as advance:\n"
        "    for _ in range(3):\n"
        "        advance(right=0.5)\n"
    )
    code, written = on_terminal(tmp_path / "work.py")
    assert code == 0
    assert re.search(r"export .* 3/3 0 s  right 0.5", "\n".join(seen(written)))


def test_the_time_left_is_not_told_once_a_piece_has_taken_longer_than_that():
    now = 0.0
    steps = module.Steps(6, clock=lambda: now)
    for _ in range(4):
        now += 1
        steps()
    steps.begin("label-only")
    assert steps.text() == "4 s, label-only for 0 s, 2 to 2 s left"
    now += 3
    assert steps.text() == "7 s, label-only for 3 s"
