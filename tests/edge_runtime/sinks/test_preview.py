"""preview: the perturbed stream and its figures, to this device or to who has the token, and never anything raw."""

import http.client
import json
import re
import subprocess
import threading
import time

import cv2
import numpy as np
import pytest

from edgeveil.edge_runtime.bundle.audit_document import read_audit
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.frames import PerturbedFrame
from edgeveil.edge_runtime.manifest.count import CountRules, Line, Zone
from edgeveil.edge_runtime.manifest.manifest import Privacy, parse
from edgeveil.edge_runtime.manifest.schema import PRIVACY_MEMBER
from edgeveil.edge_runtime.sinks import open_sink
from edgeveil.edge_runtime.sinks.count_report import CountReport
from edgeveil.edge_runtime.sinks.uri import without_secrets
from edgeveil.edge_runtime.util.png import STRIP
from edgeveil.edge_runtime.util.simulated_scene import Scene, redrawn
from tests.edge_runtime.sources import series_example
from tests.support import network_receivers, programs

pytestmark = pytest.mark.programs

TOKEN = "0123456789abcdef-token"  # noqa: S105 - of these tests alone


def opened(query="", **options):
    return open_sink("preview:0" + query, network_receivers.OUTPUTS, network_receivers.MANIFEST, options)


def get(sink, path, **headers):
    client = http.client.HTTPConnection("127.0.0.1", sink.port, timeout=5)
    client.request("GET", path, headers=headers)
    answer = client.getresponse()
    body = answer.read()
    client.close()
    return answer, body


@pytest.fixture
def sink():
    made = opened()
    yield made
    made.close()


def state(sink):
    return json.loads(get(sink, "/state.json")[1])


def test_the_latest_frame_is_shown_as_it_left(sink):
    assert state(sink)["tick"] is None
    assert get(sink, "/frame.png?slot=0")[0].status == 404
    for n in range(4):
        sink.write(network_receivers.frame(n))
    picture = cv2.imdecode(np.frombuffer(get(sink, "/frame.png?slot=0")[1], np.uint8), cv2.IMREAD_UNCHANGED)
    assert np.array_equal(picture, network_receivers.frame(3).data[:, :, 0])
    now = state(sink)
    assert now["tick"] == 3
    assert now["slots"] == [{"slot": 0, "width": 5, "height": 4, "label": "walking"}]
    assert now["camera_aid"] == {}
    sink.announce("degraded", 0)
    assert state(sink)["state"] == "degraded"


def test_windows_of_a_series_are_a_strip_chart(tmp_path):
    manifest = parse(series_example.example()[0])
    sink = open_sink("preview:0", manifest.outputs, manifest, {})
    steps = np.linspace(0, 1, series_example.STEPS)
    low, high = (np.array(end) for end in (series_example.LOW, series_example.HIGH))
    window = (low + (high - low) * np.stack([steps, 1 - steps], axis=1)).astype(np.float32)
    outputs = {manifest.outputs[0].name: window, **{one.name: np.int64(0) for one in manifest.outputs[1:]}}
    sink.write(PerturbedFrame(0, outputs, network_receivers._PIPELINE, tick_ns=10**18))
    shown = cv2.imdecode(np.frombuffer(get(sink, "/frame.png?slot=0")[1], np.uint8), cv2.IMREAD_UNCHANGED)
    (slot,) = state(sink)["slots"]
    sink.close()
    assert (slot["height"], slot["width"]) == shown.shape == (2 * STRIP, series_example.STEPS)
    rising, falling = shown[:STRIP] > 200, shown[STRIP:] > 200
    assert [rising[-1, 0], rising[0, -1], falling[0, 0], falling[-1, -1]] == [True] * 4
    assert not rising[0, 0]
    assert not falling[0, -1]
    assert rising.any(axis=0).all()  # no step is without its line


def test_drops_latency_and_aiming_figures_are_shown_where_they_are_given(sink):
    sink.local({"late": 3}, {"focus": 9, "secret": 3}, 12.5)
    now = state(sink)
    assert now["drops"] == {"late": 3}
    assert now["camera_aid"] == {"focus": 9}
    assert now["latency_ms"] == 12.5
    assert now["age_s"] is None  # no frame yet
    sink.write(network_receivers.frame(3))
    assert 0 <= state(sink)["age_s"] < 60


def test_what_may_depend_on_the_scene_is_for_this_device_alone(sink):
    sink.local({"late": 3}, {}, 12.5)
    elsewhere = json.loads(sink._answer("/state.json", {}, False).data)
    assert elsewhere["drops"] is None
    assert elsewhere["latency_ms"] is None


def test_the_page_needs_nothing_from_elsewhere_and_says_so_to_the_browser(sink):
    answer, body = get(sink, "/")
    assert answer.status == 200
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert "unsafe" not in answer.headers["Content-Security-Policy"]
    assert answer.headers["Cache-Control"] == "no-store"
    for text in (body, get(sink, "/page.js")[1], get(sink, "/page.css")[1]):
        assert not re.search(rb"https?://|//cdn|@import|url\(", text)
    assert not re.search(rb"<script>|style=|onclick", body)


def test_the_page_has_words_for_what_it_shows_and_follows_a_dark_screen(sink):
    page = get(sink, "/")[1].decode()
    assert all(' alt="' in image for image in re.findall("<img[^>]*>", page))
    assert all("scope=" in cell for cell in re.findall("<th[^>]*>", page))
    bars = re.findall("<meter[^>]*>", page)
    assert bars
    assert all(re.search('aria-label="[a-z]', bar) for bar in bars)
    assert b"prefers-color-scheme:dark" in get(sink, "/page.css")[1]


def test_counts_of_a_period_and_their_places_are_shown():
    line, zone = Line("door", (0.0, 2.0), (4.0, 2.0)), Zone("<hall>", [(0.0, 0.0), (4.0, 0.0), (4.0, 3.0)])
    counts = CountRules([line], [zone], 60, [], 1.0, None)
    made = open_sink("preview:0", network_receivers.OUTPUTS, network_receivers.MANIFEST._replace(counts=counts), {})
    page = get(made, "/")[1].decode()
    assert re.findall(r"<th scope=\"row\">((?:line|zone) .*?)</th>", page) == [
        "line door in",
        "line door out",
        "zone &lt;hall&gt; occupancy",
    ]
    assert 'viewBox="0 0 5 4"' in page
    assert '<polyline class="line" points="2,0 2,4"/>' in page
    assert '<polygon class="gon" points="0,0 0,4 3,4"/>' in page
    assert state(made)["counted"] is None
    made.write_count(CountReport(7, "counted", [2, 1, 3], 40, 10**18))
    assert state(made)["counted"] == {"state": "counted", "period": 7, "values": [2, 1, 3]}
    made.write_count(CountReport(8, "missing", None, 80, 10**18))
    assert state(made)["counted"] == {"state": "missing", "period": 8, "values": None}
    made.close()
    plain = opened()
    assert b'id="counts"' not in get(plain, "/")[1]
    plain.close()


def test_a_simulated_scene_is_drawn_again_beside_what_is_sent():
    made = opened(source=without_secrets("simulate:depth?seed=1&people=2&fps=30"))  # as the service gives it
    answer, body = get(made, "/scene.png")
    assert answer.status == 200
    assert cv2.imdecode(np.frombuffer(body, np.uint8), cv2.IMREAD_UNCHANGED).shape == (2, 3)  # half of 4 x 5
    page = get(made, "/")[1]
    assert b"what an attacker would see" in page
    assert b"all that an attacker sees" in page
    made.close()


@pytest.mark.parametrize(
    "source", ["camera:0", "npz:simulate:depth", "rtsp://simulate:depth@cam/", "simulate:depth?fps=0", ""]
)
def test_no_other_source_has_a_raw_side(source):
    made = opened(source=source)
    assert get(made, "/scene.png")[0].status == 404
    assert b'id="scene"' not in get(made, "/")[1]
    made.close()


def test_samples_that_are_no_pictures_have_no_scene():
    assert redrawn("simulate:depth", (64,)) is None


def test_the_scene_is_that_of_the_source():
    """Drawn apart from the source, of the same seed and moment, but for noise."""
    again, times = redrawn("simulate:depth?seed=3&people=2&fps=30", (106, 128)), iter([2.0, 4.0])
    again._began_s, again._clock = 0.0, lambda: next(times)
    scene = Scene(seed=3, people=2, shape=(106, 128))
    for seconds in (2.0, 4.0):
        shown = cv2.imdecode(np.frombuffer(again.png(), np.uint8), cv2.IMREAD_UNCHANGED)
        depth = scene.frame(seconds)[::2, ::2]
        assert scene.walkers
        assert np.array_equal(shown == 0, depth == 0)
        assert np.corrcoef(shown[depth > 0], depth[depth > 0])[0, 1] < -0.99


def test_the_card_says_whose_records_leave():
    perturber = network_receivers.MANIFEST.perturber
    for substituted in (False, True):
        manifest = network_receivers.MANIFEST._replace(perturber=perturber._replace(substituted=substituted))
        made = open_sink("preview:0", network_receivers.OUTPUTS, manifest, {})
        assert (b"records of other people" in get(made, "/")[1]) is substituted
        made.close()


def shown(**verdict):
    """A preview of an audited bundle: the best attack is right 31.2 % of the time, chance is 25 %."""
    attack = {"name": "forest", "kind": "adaptive", "accuracy": 0.312, "low": 0.29, "high": 0.33, "bits_counted": 0.0}
    row = {**attack, "bits_counted_high": 0.01}
    perturber, hashes = network_receivers.MANIFEST.perturber, {"tflite-int8": {"generator": "0" * 64}}
    attributes = {"target": perturber.target, "sensitive": perturber.sensitive, "y_classes": 2, "z_classes": 4}
    audit = {
        "schema": 1,
        "kind": "edgeveil-audit",
        "artefact": "tflite-int8",
        "speaks_of": hashes,
        "pipeline": {"tflite-int8": "1" * 64},
        "data": {**attributes, "rows": {"test": 500}},
        "adversaries": [row],
        "worst_adaptive": row,
        "most_bits": row,
        "chance": {"prior": 0.25, "majority": 0.26},
        "target": {"accuracy": 0.97, "low": 0.96, "high": 0.98},
        **verdict,
    }
    privacy = Privacy(file=PRIVACY_MEMBER, speaks_of=hashes, pipeline=audit["pipeline"])
    manifest = network_receivers.MANIFEST._replace(privacy=privacy)
    audit = read_audit(manifest, {PRIVACY_MEMBER: json.dumps(audit).encode()})
    options = {"audit": audit, "notes": ["<simulated>"]}
    return open_sink("preview:0", network_receivers.OUTPUTS, manifest, options)


def test_the_card_says_what_the_audit_said():
    plain, audited = opened(), shown()
    assert b"not audited" in get(plain, "/")[1]
    page = get(audited, "/")[1]
    for text in (b"31.2 %", b"25.0 %", b"97.0 %", b"best attack found", b"posture", b"&lt;simulated&gt;"):
        assert text in page
    assert b"not audited" not in page
    assert b"made before verdicts by the upper end" in page
    plain.close()
    audited.close()


@pytest.mark.parametrize(
    ("word", "text"), [("leaks", b"leaks"), ("holds", b"nothing found"), ("cannot tell", b"cannot tell: too few rows")]
)
def test_the_card_says_the_verdict(word, text):
    """The word "holds" of schema 1 is read as "nothing found"."""
    limit = {"points": 8.0, "bits": 0.05}
    made = shown(
        verdict={"word": word, "reasons": ["too few rows"], "limit": limit, "upper": {"points": 7.0, "bits": 0.01}}
    )
    assert text in get(made, "/")[1]
    made.close()


def test_a_token_is_asked_for_once_and_leaves_the_address(tmp_path):
    (tmp_path / "token").write_text(TOKEN + "\n")
    sink = opened(f"?bind=0.0.0.0&token_file={tmp_path}/token")
    for path in ("/", "/state.json", "/frame.png?slot=0", "/?token=" + TOKEN[:-1], "/?token=" + TOKEN + "x"):
        assert get(sink, path)[0].status == 403
    name = f"edgeveil_{sink.port}="
    assert get(sink, "/", Cookie=name + TOKEN[:-1])[0].status == 403
    assert get(sink, "/", Authorization="Bearer " + TOKEN[:-1])[0].status == 403
    answer, _ = get(sink, "/?token=" + TOKEN)
    assert (answer.status, answer.headers["Location"]) == (303, "/")
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert cookie.startswith(name + TOKEN)
    for path in ("//evil.example/", "/\\evil.example/", "\\\\evil.example/", "//\\/evil.example/"):
        assert get(sink, path + "?token=" + TOKEN)[0].headers["Location"] == "/evil.example/"
    assert get(sink, "/%09/evil.example/?token=" + TOKEN)[0].headers["Location"] == "/"
    assert get(sink, "/state.json", Cookie=cookie.partition(";")[0], Host="door.example")[0].status == 200
    sink.close()


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("preview:page", "preview:PORT"),
        ("preview:65536", "preview:PORT"),
        ("preview:0?bind=0.0.0.0", "needs a token"),
        ("preview:0?bind=::", "needs a token"),
        ("preview:0?bind=hall", "address of this device"),
        ("preview:0?token=short", "16 to 128"),
        ("preview:0?token=" + "a" * 16 + "%0d%0ax", "16 to 128"),
        ("preview:0?tokens=x", "expected options"),
    ],
)
def test_what_cannot_be_meant_is_refused(text, match):
    with pytest.raises(BadInput, match=match):
        open_sink(text, network_receivers.OUTPUTS, network_receivers.MANIFEST)


def test_a_port_in_use_is_a_sentence(sink):
    with pytest.raises(BadInput, match=f"cannot have port {sink.port}"):
        open_sink(f"preview:{sink.port}", network_receivers.OUTPUTS, network_receivers.MANIFEST)


def test_after_a_privacy_stop_nobody_is_answered(sink):
    sink.write(network_receivers.frame(0))
    port, made = sink.port, sink
    made.discard()
    with pytest.raises(OSError, match="refused"):
        http.client.HTTPConnection("127.0.0.1", port, timeout=5).request("GET", "/")


def test_browsers_that_only_hold_on_do_not_stop_the_stream(sink):
    idle = [http.client.HTTPConnection("127.0.0.1", sink.port, timeout=5) for _ in range(40)]
    for client in idle:
        client.connect()
    start = time.monotonic()
    for n in range(100):
        sink.write(network_receivers.frame(n))
    assert time.monotonic() - start < 5.0  # waited for, each would cost the 10 s that a browser has to ask
    for client in idle:
        client.close()
    assert network_receivers.eventually(lambda: _answers(sink))


def _answers(sink):
    try:
        return get(sink, "/state.json")[0].status == 200
    except (OSError, http.client.HTTPException):
        return False


BROWSER = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--virtual-time-budget=1500",
]


def browse(folder, url, *arguments):
    command = [programs.need("chromium"), *BROWSER, f"--user-data-dir={folder}/profile", *arguments, url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    # What the page or its policy had to complain about is logged as CONSOLE; the rest is about the missing desktop.
    assert "CONSOLE" not in done.stderr, done.stderr
    return done.stdout


def figures(document):
    shown = dict(re.findall(r'id="(fps|tick|state|drops|focus-level|cut)"[^>]*>([^<]*)<', document))
    return shown


@pytest.mark.nightly  # by day what the page gets: its figures, pictures and headers, above
@pytest.mark.cameras
def test_a_real_browser_shows_live_figures_and_no_error(tmp_path):
    sink, stop, slower = opened("?token=" + TOKEN), threading.Event(), threading.Event()

    def feed():
        n = 0
        while not stop.is_set():
            sink.write(network_receivers.frame(n))
            sink.local({"late": n // 20}, {"focus": 9, "cut": 3, "blob": 2}, 4.2)
            n += 1
            stop.wait(0.1 if slower.is_set() else 0.02)

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        url = f"http://127.0.0.1:{sink.port}/?token={TOKEN}"
        first = figures(browse(tmp_path, url, "--dump-dom"))
        slower.set()
        time.sleep(3)
        second = figures(browse(tmp_path, url, "--dump-dom"))
        browse(tmp_path, url, "--window-size=1300,900", f"--screenshot={tmp_path}/page.png")
    finally:
        stop.set()
        feeder.join()
        sink.close()
    assert first["state"] == second["state"] == "running"
    assert float(first["fps"]) > 0
    assert float(second["fps"]) > 0
    assert float(first["fps"]) > 1.3 * float(second["fps"])
    assert int(second["tick"]) > int(first["tick"])
    assert second["cut"] == "top, right"
    assert second["focus-level"] == "9"
    picture = cv2.imread(str(tmp_path / "page.png"))
    assert picture.shape[:2] == (900, 1300)
    # The frame is one gray all over, enlarged; the page around it is light.
    assert (picture.std(axis=2) < 2).mean() > 0.2
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 50
