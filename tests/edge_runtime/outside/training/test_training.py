"""What the outside makes of published rounds: each asked once, in turn, of one run, and again where nothing left."""

import os
from types import SimpleNamespace

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.ipc import rendezvous
from edgeveil.edge_runtime.ipc.counters import Counters
from edgeveil.edge_runtime.ipc.record import Layout
from edgeveil.edge_runtime.ipc.rounds import Round, RoundFormat, RoundReader, RoundWriter
from edgeveil.edge_runtime.manifest.count import parse_count
from edgeveil.edge_runtime.outside.link.external_inside import ExternalInside
from edgeveil.edge_runtime.outside.link.inside_link import LinkOwner
from edgeveil.edge_runtime.outside.training.gradient_settings import check_gradients
from edgeveil.edge_runtime.outside.training.training import Training
from tests.support.promised.counting_bundle import COUNT
from tests.support.promised.gradient_examples import FORM, asked, manifest

QUESTION = 7 * 2**32


class Feed:
    """A broker that the test is."""

    handle = 0

    def __init__(self):
        self.data = None

    def newest(self):
        data, self.data = self.data, None
        return data


class Device:
    def __init__(self, turn=None):
        self.feed, self.counters, self.said, self.offered = Feed(), Counters(), [], []
        say = lambda event, message: self.said.append((event, message))  # noqa: E731
        self.training = Training(self.feed, FORM, turn, self.counters, say)
        self.takes = True

    def hear(self, data=None):
        """What is offered to the inside after this was published."""
        self.feed.data = data
        self.offered = []
        self.training.step(lambda one: self.takes and not (one and self.offered.append(one)))
        return self.offered


@pytest.fixture
def device():
    return Device()


def test_a_round_is_asked_once_and_closed_by_its_report(device):
    assert device.hear(asked(1)) == [asked(1)]
    assert device.hear(asked(1)) == []  # the broker came back
    assert device.training.expects(QUESTION + 1)
    assert not device.training.expects(QUESTION + 2)
    device.training.answered()
    assert not device.training.expects(QUESTION + 1)
    device.training.restarted()
    assert device.hear() == []
    assert device.hear(asked(4)) == [asked(4)]


def test_a_full_pipe_and_a_spent_subject_are_tried_again(device):
    device.takes = False
    device.hear(asked(1))
    device.takes = True
    assert device.hear() == [asked(1)]
    assert device.hear() == []
    device.training.ask_again()
    assert device.hear() == [asked(1)]


def test_an_inside_that_restarted_hears_of_the_open_round(device):
    device.hear(asked(1))
    device.training.restarted()
    assert device.hear() == [asked(1)]


@pytest.mark.parametrize("data", [b"x", asked(1)[:-1], asked(2, run=8), asked(1)[:-1] + b"\0"])
def test_what_is_no_round_of_this_run_is_refused_and_counted(device, data):
    assert device.hear(asked(1))
    device.training.answered()
    assert device.hear(data) == []
    assert device.counters.get("fault:round") == 1
    assert device.said[0][0] == "round-refused"
    assert device.hear(asked(2)) == [asked(2)]


def test_an_earlier_round_is_not_asked(device):
    device.hear(asked(5))
    assert device.hear(asked(4)) == []
    assert device.training.expects(QUESTION + 5)


def test_only_a_device_whose_turn_it_is_asks():
    for turn, rounds in ((0, [1, 3]), (1, [1, 3]), (2, [2, 4]), (3, [2, 4])):
        device = Device(turn)
        assert [number for number in (1, 2, 3, 4) if device.hear(asked(number, lot=2, devices=4))] == rounds
    device = Device(1)
    assert device.hear(asked(1, lot=2, devices=4))
    assert not device.hear(asked(2, lot=2, devices=4))
    assert not device.training.expects(QUESTION + 1)  # its report would be late


@pytest.mark.parametrize("turn", [None, 4])
def test_a_device_without_a_number_says_what_to_do(turn):
    device = Device(turn)
    assert not device.hear(asked(1, lot=2, devices=4))
    assert "--turn" in device.said[0][1]
    assert device.hear(asked(2, lot=4, devices=4)) == ([asked(2, lot=4, devices=4)])


def test_two_units_meet_in_a_folder_and_the_next_inside_takes_the_pipe(tmp_path):
    """As systemd starts them: the pipe stays, whichever of the two starts again."""
    folder = str(tmp_path)
    link = ExternalInside(folder, LinkOwner(Layout([]), Counters(), print, "", on_end=lambda: None, rounds=True))
    assert not link.offer(asked(1))  # nobody has opened it yet
    link.start()
    for number in (1, 2):
        found = rendezvous.open_for_inside(folder)
        heard = RoundReader(found["rounds"], FORM, pytest.fail)
        assert link.offer(asked(number))
        assert heard.newest().number == number
        assert heard.newest() is None
        assert not heard.ended
        for handle in found.values():
            os.close(handle)
    again = ExternalInside(folder, LinkOwner(Layout([]), Counters(), print, "", on_end=lambda: None, rounds=True))
    again.start()
    found = rendezvous.open_for_inside(folder)
    assert again.offer(asked(3))
    assert RoundReader(found["rounds"], FORM, pytest.fail).newest().number == 3


def test_an_inside_without_a_training_has_no_such_pipe(tmp_path):
    link = ExternalInside(
        str(tmp_path), LinkOwner(Layout([]), Counters(), print, "", on_end=lambda: None, rounds=False)
    )
    link.start()
    assert set(rendezvous.open_for_inside(str(tmp_path))) == {"records", "notes", "counters"}
    assert not link.offer(asked(1))


def test_what_a_full_pipe_cut_off_goes_on_without_another_round():
    end, ours = os.pipe()
    form = RoundFormat(4096, 1.0)
    writer, reader, feed = RoundWriter(ours), RoundReader(end, form, pytest.fail), Feed()
    training = Training(feed, form, None, Counters(), print)
    number = 0
    while not writer._left:
        number += 1
        feed.data = form.pack(Round(7, number, 2, 2, np.zeros(4096)))
        training.step(writer.offer)
    assert reader.newest().number == number - 1
    training.step(writer.offer)
    assert reader.newest().number == number


def test_a_bundle_that_reports_gradients_and_counts_people_is_refused():
    made = manifest()
    settings = SimpleNamespace(model="mqtt://localhost/tally", source="csv:lines.csv", realtime=False, repeat=False)
    settings.subject_column = None
    check_gradients(settings, made)
    with pytest.raises(BadInput, match="gradients or counts people, not both"):
        check_gradients(settings, made._replace(counts=parse_count(COUNT)))
