"""What the plan says of a sink is what it sends, byte for byte, and its spool holds for as long as was said."""

import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.ipc.counters import schedule
from edgeveil.edge_runtime.sinks import forms, traffic, wire
from edgeveil.edge_runtime.sinks.spool import Spool
from tests.edge_runtime.sinks.test_forms import bundle, record, scenes

SHAPE = (24, 20, 3)
HALL = bundle(SHAPE)
FORM = wire.Format(HALL.outputs, HALL)
PLAN = schedule(HALL)  # ten ticks a second, of one slot: it signs no schedule


def of(uri, plan=PLAN, manifest=HALL):
    return traffic.traffic(uri, manifest.outputs, manifest, plan)


def frame_record(scene):
    one = record(scene)
    frame = type("Frame", (), {"tick_ns": one.tick_ns, "index": one.index, "slot": one.slot, "outputs": one.outputs})
    return FORM.encode(frame, b"12345678", 5)


def test_a_record_has_the_bytes_that_were_said():
    one = of("tcp://10.0.0.2:9")
    assert one.sent_bytes == one.record_bytes == len(frame_record(scenes(SHAPE)[1]))
    assert (one.records_per_s, one.bytes_per_s) == (10.0, 10 * one.record_bytes)


@pytest.mark.parametrize("name", forms.FORMS)
def test_a_form_has_the_bytes_that_were_said(name):
    form = forms.FORMS[name](HALL.outputs, HALL)
    for scene in scenes(SHAPE):
        assert len(form.encode(record(scene))) == of(f"https://a.example/x?as={name}").sent_bytes
    assert of(f"nats://a.example/x?as={name}").record_bytes == FORM.record_bytes, "what its spool holds"


def test_mqtt_sends_a_label_with_each_record_and_a_picture_of_each_period():
    plain = of("mqtt://a.example/x")
    ((_, message),) = wire.Labels("x", HALL.outputs, HALL).events(record(scenes(SHAPE)[0], label=1))
    assert plain.sent_bytes == FORM.record_bytes + len(message)
    picture = len(forms.PngForm(HALL.outputs, HALL).encode(record(scenes(SHAPE)[0])))
    more = of("mqtts://a.example/x?picture=10s")
    assert more.bytes_per_s == pytest.approx(plain.bytes_per_s + picture / 10)


def test_rtsp_sends_a_picture_in_colour_of_one_slot():
    three = PLAN._replace(slots=3)
    one = of("rtsp://a.example/x", three)
    form = forms.JpegForm(HALL.outputs, HALL, rgb=True, whole=8)
    assert (one.sent_bytes, one.records_per_s, one.outage_s) == (form.size, 10.0, 2.0)
    assert of("tcp://a.example:9", three).records_per_s == pytest.approx(30.0)


@pytest.mark.parametrize(
    ("options", "most_bytes"), [("", 16 * 10**6), ("?spool=/x", 256 * 10**6), ("?spool=/x&spool_size=1MB", 10**6)]
)
def test_the_spool_holds_until_then_and_not_for_a_record_more(options, most_bytes):
    """The runtime's own spool, with the limits that its sinks give it, and a clock of ours."""
    one = of(f"tcp://10.0.0.2:9{options}{'&' if options else '?'}ttl=999h")
    limits = {"spool": "/x" if "/x" in options else None, "spool_size": most_bytes if "size" in options else None}
    assert traffic.spool_limits(limits)[0] == one.spool_bytes == most_bytes
    size = most_bytes // 100  # a hundred records, for the test's own time
    held = traffic.Traffic(size, size, 10.0, most_bytes, 999 * 3600.0)
    now = [0.0]
    spool = Spool(most_bytes=most_bytes, ttl_s=held.ttl_s, clock=lambda: now[0])
    for _ in range(int(held.outage_s * 10)):
        spool.put(b"." * size)
        now[0] += 0.1
    assert spool.counts()["full"] == 0
    spool.put(b"." * size)
    assert spool.counts()["full"] == 1
    assert one.outage_s == one.spool_bytes // one.record_bytes / 10


def test_a_record_that_is_too_old_ends_it_sooner():
    assert of("tcp://10.0.0.2:9?spool=/x").outage_s == traffic.TTL_S
    assert of("tcp://10.0.0.2:9?ttl=30s").outage_s == 30.0
    with pytest.raises(BadInput, match="a duration as 30s"):
        of("tcp://10.0.0.2:9?ttl=soon")


def test_the_lines_have_no_secret_and_files_their_values():
    sinks = ["https://a.example/hook/secret?as=json", "npz:/var/lib/edgeveil/x.npz", "csv:-", "preview:8080"]
    first, second = traffic.lines(sinks, HALL, PLAN)
    assert "secret" not in first
    assert first.startswith("https://a.example/...: ")
    assert first.endswith("its spool of 16 MB covers an outage of 0.297 h, until it is full")
    assert second.startswith(
        f"npz:/var/lib/edgeveil/x.npz: {FORM.payload_bytes:,} bytes a record, 10 a second: 14.5 kB"
    )
    assert second.endswith("1.25 GB a day, before the form of its file")


def test_in_words():
    alone = [one for one in HALL.outputs if one.kind == "label"]
    one = traffic.traffic("tcp://10.0.0.2:9", alone, HALL, PLAN)
    assert one.text() == (
        "56 bytes a record, 10 a second: 560 bytes a second, 48.4 MB a day, before its protocol's headers; its spool "
        "of 16 MB covers an outage of 1 h, until records are older than ttl"
    )
