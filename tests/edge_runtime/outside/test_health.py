"""The health pages: for this device alone, by its name, or for who has the token."""

import http.client

import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.outside import status
from edgeveil.edge_runtime.outside.status import Log

TOKEN = "0123456789abcdef-token"  # noqa: S105 - of these tests alone


class State:
    """Of a service that runs."""

    log = Log("memory")

    def live(self):
        return ""

    ready = live

    def healthz(self):
        return {"dropped": {"late": 3}}

    def metrics(self):
        return ["edgeveil_ready 1"]


def get(pages, path, **headers):
    client = http.client.HTTPConnection("127.0.0.1", pages.server_address[1], timeout=5)
    client.request("GET", path, headers=headers)
    answer = client.getresponse()
    seen = answer.status, answer.read()
    client.close()
    return seen


@pytest.fixture
def pages(request, tmp_path):
    (tmp_path / "token").write_text(TOKEN + "\n")
    text = getattr(request, "param", "127.0.0.1:0").replace("FILE", str(tmp_path / "token"))
    made = status.HealthPages(status.place_of(text), State())
    yield made
    made.close()


ODD = (  # names of elsewhere in which urlsplit finds this device
    *("[::1].evil.example", "[::1]evil.example", "evil.example\\@localhost", "evil.example@localhost"),
    *("localhost/.evil.example", "localhost?.evil.example", "localhost#x", "localhost:1.evil.example", "localhost\t"),
)


def test_the_pages_answer_to_the_name_of_this_device_alone(pages):
    """A page on the web that makes a browser here ask 127.0.0.1 by another name (DNS rebinding) reads nothing."""
    for path in ("/healthz", "/metrics", "/logs", "/livez", "/readyz"):
        assert get(pages, path)[0] == 200
        assert get(pages, path, Host=f"localhost:{pages.server_address[1]}")[0] == 200
        for host in (
            "evil.example",
            f"evil.example:{pages.server_address[1]}",
            "127.0.0.1.evil.example",
            "",
            "[",
            *ODD,
        ):
            code, text = get(pages, path, Host=host)
            assert (code, b"late" in text) == (403, False)
    assert get(pages, "/other")[0] == 404


@pytest.mark.parametrize("pages", ["0.0.0.0:0?token_file=FILE", "127.0.0.1:0?token_file=FILE"], indirect=True)
def test_with_a_token_every_page_needs_it(pages):
    for path in ("/healthz", "/metrics", "/logs", "/livez", "/readyz"):
        assert get(pages, path)[0] == 403
        assert get(pages, path, Authorization="Bearer " + TOKEN[:-1])[0] == 403
        assert get(pages, path, Authorization="Bearer " + TOKEN, Host="board.example")[0] == 200
    assert get(pages, "/healthz?token=" + TOKEN)[0] == 303


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0.0.0.0:9464", r"needs a token: --health '0\.0\.0\.0:9464\?token_file=FILE'"),
        ("[::]:9464", "needs a token"),
        ("192.168.1.7:9464", "needs a token"),
        ("hall:9464", "address of this device"),
        ("0.0.0.0:9464?token_file=/nonexistent", "was expected in /nonexistent"),
        ("0.0.0.0:9464?token=abc", "expected options of token_file"),
        ("9464x", "HOST:PORT"),
    ],
)
def test_what_others_could_read_is_refused(text, words):
    with pytest.raises(BadInput, match=words) as refused:
        status.place_of(text)
    assert "abc" not in str(refused.value)


def test_what_is_for_this_device_alone_needs_no_token():
    assert status.place_of("off") is None
    assert status.place_of(":9464") == ("127.0.0.1", 9464, None)
    assert status.place_of("localhost:1") == ("127.0.0.1", 1, None)
    assert status.place_of("[::1]:9464") == ("::1", 9464, None)


METRICS = """# HELP edgeveil_frames_out_total Frames.
edgeveil_frames_out_total 1200
edgeveil_dropped_total{reason="late"} 3
edgeveil_dropped_total{reason="dtype"} 4
edgeveil_tick_seconds 0.5
edgeveil_fresh_age_seconds 0.25
edgeveil_board_temperature_celsius{zone="cpu"} 51.5
edgeveil_board_temperature_celsius{zone="gpu"} 49
edgeveil_board_throttled{since="now"} 1
edgeveil_board_throttled{since="boot"} 0
edgeveil_audit_attack 0.6
edgeveil_sink_connected{sink="mqtt://a/b"} 0
edgeveil_sink_connected{sink="tcp://c:1"} 1
edgeveil_bad one
not a sample
"""


def test_some_figures_of_the_metrics_are_in_the_state_of_a_service(monkeypatch, tmp_path):
    """What a workstation shows of a board: frames out, drops, temperature, how old the last set is."""

    class Busy(State):
        def metrics(self):
            return METRICS.splitlines()

    made = status.HealthPages(status.place_of("127.0.0.1:0"), Busy())
    try:
        units = tmp_path / "units"
        units.mkdir()
        (units / "edgeveil.service").write_text("")
        monkeypatch.setattr(status.paths, "UNITS", str(units))
        monkeypatch.setattr(status, "_unit_state", lambda _: "active")
        monkeypatch.setattr(status.config, "read", lambda _: {"health": f"127.0.0.1:{made.server_address[1]}"})
        found = status.service_state(status.paths.ROOT)
    finally:
        made.close()
    figures = {"frames_out": 1200, "dropped": 7, "tick_s": 0.5, "fresh_age_s": 0.25, "temperature_c": 51.5}
    figures["receivers_away"] = 1
    assert found["figures"] == dict(figures, throttled=1)
    assert found["well"]
    again = status.service_state(status.paths.ROOT)  # nothing answers now
    assert (again["figures"], again["ready"]) == ({}, f"no answer at 127.0.0.1:{made.server_address[1]}")
