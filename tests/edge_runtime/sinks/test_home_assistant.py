"""Home Assistant itself, behind a real broker, finds every entity and trigger that a stream has, with its state."""

import base64
import datetime
import json
import re
import subprocess

import pytest
from jinja2 import Environment

from edgeveil.edge_runtime.late_imports import decoded
from edgeveil.edge_runtime.manifest.count import CountNoise, CountRules, Line, Zone
from edgeveil.edge_runtime.sinks.count_report import CountReport
from edgeveil.edge_runtime.sinks.mqtt import MqttSink
from edgeveil.edge_runtime.sinks.wire import Discovery, Labels, about
from scripts.environments import home_assistant
from tests.support import network_receivers, programs
from tests.support.checkout import ROOT

pytestmark = pytest.mark.programs

RULES = CountRules(
    [Line("door", (0, 100), (424, 100))], [Zone("hall", [(0, 0), (0, 200), (200, 200)])], 10, [5.0, 60.0], 16.0, None
)
MANIFEST = network_receivers.MANIFEST._replace(counts=RULES)
STATES = {
    "sensor.edgeveil_hall_door_label_0": "walking",
    "sensor.edgeveil_hall_door_line_door_in": "2",
    "sensor.edgeveil_hall_door_line_door_out": "1",
    "sensor.edgeveil_hall_door_zone_hall_occupancy": "3",
    "binary_sensor.edgeveil_hall_door_zone_hall_occupied": "on",
    "sensor.edgeveil_hall_door_zone_hall_dwell_0": "4",
    "sensor.edgeveil_hall_door_zone_hall_dwell_1": "5",
    "sensor.edgeveil_hall_door_zone_hall_dwell_2": "6",
    "sensor.edgeveil_hall_door_state": "running",
    "sensor.edgeveil_hall_door_version": "hall 2026-11-21T12:00:00Z",
    "sensor.edgeveil_hall_door_attack": "unknown",  # nobody measured it
    "image.edgeveil_hall_door_picture_0": "when it came",
    "update.edgeveil_hall_door_update": "on",
}


def documents(rules=RULES, **facts):
    labels = Labels("hall/door", network_receivers.OUTPUTS, MANIFEST)
    told = {**about(MANIFEST, None, {}), **facts}
    return dict(Discovery("hall/door", "homeassistant", labels, told, rules, pictures=True).documents())


def test_no_document_has_what_home_assistant_no_longer_takes():
    found = documents()
    assert len(found) == len(STATES) + 5
    for topic, document in found.items():
        component = topic.split("/")[1]
        assert "object_id" not in document
        assert document["device"]["identifiers"] == ["edgeveil_hall_door"]
        if component != "device_automation":
            assert re.fullmatch(component + r"\.[a-z0-9_]+", document["default_entity_id"])
    assert len({d["unique_id"] for d in found.values() if "unique_id" in d}) == len(STATES)


def test_with_noise_nothing_says_that_a_zone_is_occupied():
    noisy = documents(RULES._replace(noise=CountNoise(500_000, 1, 10**9)))
    assert not [topic for topic in noisy if "binary_sensor" in topic]
    assert [topic for topic in documents() if "binary_sensor" in topic]


def test_a_class_is_never_a_word_that_means_no_state():
    """Home Assistant renders the template to text, and takes the text "None" for no state."""
    classes = ["None", "none", "unknown", "a'b"]
    labels = Labels("t", network_receivers.OUTPUTS, MANIFEST)
    labels.classes = classes
    (document,) = dict(list(Discovery("t", "ha", labels, about(MANIFEST, None, {}), None).documents())[:1]).values()
    show = Environment(autoescape=False).from_string(document["value_template"]).render  # noqa: S701 - no page
    shown = [show(value_json={"name": name}) for name in [*classes, None]]
    assert shown == [*document["options"], "None"] == ["(None)", "none", "(unknown)", "a'b", "None"]


def test_a_stream_that_is_watched_shows_its_shift():
    more = {topic: document for topic, document in documents(watched=True).items() if topic not in documents()}
    assert {document["state_topic"] for document in more.values()} == {"hall/door/shift"}
    assert {document["name"] for document in more.values()} == {"shift from the audit", "shifted"}


def test_counts_that_no_longer_come_are_not_shown():
    counts = [document for document in documents().values() if document.get("state_topic") == "hall/door/count"]
    assert {document["expire_after"] for document in counts} == {50}
    assert {document["availability_topic"] for document in counts} == {"hall/door/status"}


@pytest.mark.homeassistant
def test_home_assistant_finds_all_of_it(tmp_path):
    programs.need("mosquitto")
    python = home_assistant.python(home_assistant.folder())
    if python is None:
        pytest.skip(
            "NO HOME ASSISTANT HERE: nothing was discovered (python -m scripts.environments.home_assistant makes it)"
        )
    broker = network_receivers.Broker(tmp_path)
    (tmp_path / "config").mkdir()
    probe = ROOT / "tests/support/home_assistant/probe.py"
    words = [str(python), str(probe), str(tmp_path / "config"), str(broker.port), str(len(STATES))]
    sink = MqttSink(f"mqtt://127.0.0.1:{broker.port}/hall/door?picture=1s", network_receivers.OUTPUTS, MANIFEST, {})
    sink.releases("ab" * 32, "01" * 32)
    said = (tmp_path / "said").open("w")
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True) as process:
        try:
            lines = _lines(process, sink)
            first = json.loads(next(lines))
            sink.announce("degraded", 7)
            second = json.loads(next(lines))
        finally:
            process.stdin.close()
            process.wait(30)
            sink.close()
            broker.kill()
    assert first["flow"] == "create_entry"
    came = first["states"].pop("image.edgeveil_hall_door_picture_0")
    assert datetime.datetime.now(datetime.timezone.utc) - datetime.datetime.fromisoformat(came) < datetime.timedelta(
        0, 60
    )
    assert {**first["states"], "image.edgeveil_hall_door_picture_0": "when it came"} == STATES
    assert len(set(decoded(base64.b64decode(first["picture"])).ravel().tolist())) == 1  # a frame of the stream
    assert [first["update"][name] for name in ("installed_version", "latest_version", "title")] == [
        "sha256:" + "ab" * 6,
        "sha256:" + "01" * 6,
        "hall",
    ]
    assert len(first["unique"]) == len(STATES)
    assert first["device"] == ["hall/door", "hall", "2026-11-21T12:00:00Z"]
    assert first["triggers"] == ["aiming", "degraded", "offline", "running", "spent"]
    assert [json.loads(payload)["state"] for payload in second["fired"]] == ["degraded"]
    assert second["states"]["sensor.edgeveil_hall_door_state"] == "degraded"
    assert second["states"]["sensor.edgeveil_hall_door_line_door_in"] == "unavailable"
    assert "hall/door" not in (tmp_path / "said").read_text()  # no complaint about any of it


def _lines(process, sink):
    """What the probe says; meanwhile the stream goes on."""
    import select

    number = 0
    while process.poll() is None:
        sink.write(network_receivers.frame(2 * number + 1))
        sink.write_count(CountReport(number, "counted", [2, 1, 3, 4, 5, 6], number, 10**18 + number))
        number += 1
        if select.select([process.stdout], [], [], 0.3)[0]:
            yield process.stdout.readline()
