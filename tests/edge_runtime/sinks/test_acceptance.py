"""An operator taps what is there: sums alone come out, and nobody else's page can tap."""

import http.client
import json

import numpy as np
import pytest

from edgeveil.edge_runtime.acceptance.shift import Reference
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.frames import _PIPELINE, PerturbedFrame
from edgeveil.edge_runtime.manifest.count import CountRules, Line
from edgeveil.edge_runtime.sinks import open_sink
from edgeveil.edge_runtime.sinks.count_report import CountReport
from edgeveil.edge_runtime.sinks.preview.tallies import Tallies
from tests.support import network_receivers

RULES = CountRules([Line("door", (0, 2), (4, 2))], [], 60, [], 1.0, None)
MANIFEST = network_receivers.MANIFEST._replace(counts=RULES)
OURS = {"X-EdgeVeil": "tap"}


class Clock:
    now = 90.0  # in the middle of a period

    def __call__(self):
        return self.now


@pytest.fixture
def tallies():
    clock = Clock()
    made = Tallies(MANIFEST, Reference("label", [50, 50, 0], 100.0, None), length_s=600, clock=clock)
    return made, clock


def frame(label):
    outputs = {"frame": np.zeros((4, 5, 1), np.uint8), "label": np.int64(label)}
    return PerturbedFrame(0, outputs, _PIPELINE)


def test_y_is_held_against_what_was_out_when_it_was_tapped(tallies):
    made, clock = tallies
    assert not made.tap_class(0)  # nothing has left yet
    for y_hat, y in ((1, 1), (1, 0), (1, 1)):
        made.write(frame(y_hat))
        assert made.tap_class(y)
        assert not made.tap_class(y)  # one tap for one release
    clock.now += 61
    made.write(frame(0))
    assert not made.tap_class(2)  # there are two classes
    assert made.tap_class(0)
    assert made.document()["y"] == [
        {"minute": 0, "y": 0, "y_hat": 1, "taps": 1},
        {"minute": 0, "y": 1, "y_hat": 1, "taps": 2},
        {"minute": 1, "y": 0, "y_hat": 0, "taps": 1},
    ]
    assert made.document()["histogram"]["counts"] == [1, 3, 0]


def test_crossings_are_summed_by_whole_periods(tallies):
    made, clock = tallies
    assert made.tap_passage("door", "in")  # in the period that had begun before
    for _ in range(3):
        clock.now += 60
        assert made.tap_passage("door", "in")
        assert made.tap_passage("door", "out")
        assert made.undo()
    assert not made.tap_passage("window", "in")
    assert not made.tap_passage("door", "up")
    for period, state, values in (
        (1, "counted", [9, 9]),
        (2, "counted", [1, 0]),
        (3, "missing", None),
        (4, "part", [7, 7]),
    ):
        made.write_count(CountReport(period, state, values, 0, None))
    assert made.document()["counts"] == [{"period": 0, "line": "door", "tapped": [1, 0], "counted": [1, 0]}]


def test_when_it_is_over_nothing_changes(tallies):
    made, clock = tallies
    made.write(frame(1))
    clock.now += 600
    before = made.document()
    made.write(frame(1))
    made.write_count(CountReport(2, "counted", [1, 0], 0, None))
    assert [made.tap_class(1), made.tap_passage("door", "in"), made.undo()] == [False] * 3
    assert made.document() == before
    assert before["seconds"] == 600


def test_where_several_people_are_told_apart_y_is_not_tapped():
    capture = type("Capture", (), {"slots": 2})()
    made = Tallies(MANIFEST._replace(capture=capture), None, length_s=60, clock=Clock())
    assert made.classes == ()
    assert made.document()["histogram"] is None


@pytest.fixture
def sink():
    made = open_sink("preview:0?accept=30m", MANIFEST.outputs, MANIFEST, {"manifest_sha256": "ab" * 32})
    yield made
    made.close()


def ask(sink, method, path, **headers):
    client = http.client.HTTPConnection("127.0.0.1", sink.port, timeout=5)
    client.request(method, path, headers=headers)
    answer = client.getresponse()
    body = answer.read()
    client.close()
    return answer.status, body


def test_the_whole_way_over_the_pages(sink):
    page = ask(sink, "GET", "/accept")[1].decode()
    for words in ("line=door&amp;way=in", "line=door&amp;way=out", "y=0", "y=1", "empty", "walking"):
        assert words in page
    sink.write(frame(1))
    for words, taken in (("y=1", True), ("y=x", False), ("line=door&way=in", True), ("line=door", False)):
        status, body = ask(sink, "POST", "/tap?" + words, **OURS)
        assert (status, json.loads(body)["taken"]) == (200, taken)
    document = json.loads(ask(sink, "GET", "/acceptance.json")[1])
    assert document["taps"] == 2
    assert document["manifest_sha256"] == "ab" * 32
    assert json.loads(ask(sink, "POST", "/tap?undo=1", **OURS)[1])["taps"] == 1
    assert ask(sink, "POST", "/else", **OURS)[0] == 404


@pytest.mark.parametrize(
    ("headers", "status"), [({}, 501), ({"X-EdgeVeil": "no"}, 501), ({**OURS, "Host": "evil.example"}, 403)]
)
def test_a_page_from_elsewhere_cannot_tap(sink, headers, status):
    assert ask(sink, "POST", "/tap?line=door&way=in", **headers)[0] == status
    assert ask(sink, "OPTIONS", "/tap")[0] == 501  # what a browser asks first
    assert json.loads(ask(sink, "GET", "/acceptance.json")[1])["taps"] == 0


def test_a_preview_takes_no_taps():
    made = open_sink("preview:0", MANIFEST.outputs, MANIFEST, {})
    assert ask(made, "POST", "/tap?line=door&way=in", **OURS)[0] == 501
    assert ask(made, "GET", "/acceptance.json")[0] == 404
    made.close()


def test_a_bundle_that_sends_nothing_to_tap_is_refused():
    bare = MANIFEST._replace(counts=None, outputs=MANIFEST.outputs[:1])
    with pytest.raises(BadInput, match="sends neither"):
        open_sink("preview:0?accept=30m", bare.outputs, bare, {})
    with pytest.raises(BadInput, match="expected a duration"):
        open_sink("preview:0?accept=0", MANIFEST.outputs, MANIFEST, {})
