"""What a report says of its board: asked of real pages, of systemd's own words, and of the sensors' files."""

import json

import pytest

from edgeveil.edge_runtime import paths
from edgeveil.edge_runtime.outside import health
from edgeveil.edge_runtime.outside.event_log import Log
from edgeveil.edge_runtime.outside.host import board_health
from edgeveil.edge_runtime.outside.report import condition

TOKEN = "0123456789abcdef-token"  # noqa: S105 - of these tests alone


class State:
    """Of a service; ``problem`` is what its /readyz says is wrong."""

    problem = ""

    def __init__(self):
        self.log = Log("memory")

    def ready(self):
        return self.problem


@pytest.fixture
def board(tmp_path, monkeypatch):
    """A board without sensors, systemd or service; its folder of releases is ``opt``."""
    monkeypatch.setattr(board_health, "ZONES", str(tmp_path / "thermal"))
    monkeypatch.setattr(board_health, "THROTTLED", str(tmp_path / "throttled"))
    monkeypatch.setattr(board_health, "PLACES", (str(tmp_path),))
    monkeypatch.setattr(paths, "SYSTEMD", str(tmp_path / "systemd"))
    monkeypatch.setattr(paths, "DEFAULT_PATH", str(tmp_path / "settings.json"))
    return tmp_path


@pytest.fixture(params=["127.0.0.1:0", "127.0.0.1:0?token_file=FILE"])
def pages(request, board):
    """The health pages of a service on that board, and its state."""
    (board / "token").write_text(TOKEN + "\n")
    place, state = request.param.replace("FILE", str(board / "token")), State()
    made = health.HealthPages(health.place_of(place), state)
    (board / "settings.json").write_text(json.dumps({"health": place.replace(":0", f":{made.server_address[1]}", 1)}))
    yield made, state
    made.close()


def asked(board):
    return condition.condition(str(board / "opt"))


def test_what_is_not_there_is_unknown(board):
    found = asked(board)
    assert found.pop("disk_free_mb") > 0
    assert set(found.values()) == {None}
    assert condition.event_lines(str(board / "opt")) == []


def test_the_hottest_zone_and_whether_it_is_throttled_now(board):
    for number, heat in enumerate((48312, 61999)):
        zone = board / f"thermal/thermal_zone{number}"
        zone.mkdir(parents=True)
        (zone / "type").write_text("cpu\n")
        (zone / "temp").write_text(f"{heat}\n")
    for bits, throttled in (("50000", False), ("50005", True)):
        (board / "throttled").write_text(bits)
        found = asked(board)
        assert (found["temperature_c"], found["throttled"]) == (61, throttled)


def test_a_service_that_is_ready_or_not_and_its_log(board, pages):
    made, state = pages
    assert asked(board)["ready"] is True
    state.problem = "nothing new for 9 s"
    found = asked(board)
    assert found["ready"] is False
    assert "9" not in json.dumps({name: found[name] for name in ("ready", "service")})
    state.log.say("source", message="is there again")
    (line,) = condition.event_lines(str(board / "opt"))
    assert json.loads(line)["event"] == "source"
    made.close()
    assert asked(board)["ready"] is None


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("LoadState=loaded\nActiveState=active", "active"),
        ("LoadState=loaded\nActiveState=failed", "failed"),
        ("LoadState=not-found\nActiveState=inactive", "none"),
        ("", "none"),
    ],
)
def test_the_state_of_the_service_in_systemds_words(board, monkeypatch, said, state):
    (board / "systemd").mkdir()
    (board / "bin").mkdir()
    script = board / "bin/systemctl"
    script.write_text(f'#!/bin/sh\n[ "$3" = edgeveil.service ] && printf "{said}"\n'.replace("\nActive", "\\nActive"))
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{board / 'bin'}:/usr/bin:/bin")
    assert asked(board)["service"] == state
    script.write_text("#!/bin/sh\nexit 1\n")
    assert asked(board)["service"] is None
