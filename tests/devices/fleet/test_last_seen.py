"""Who of a fleet is silent, and since when."""

import json

import pytest

from edgeveil.devices.fleet.inventory import load
from edgeveil.devices.fleet.last_seen import LastSeen
from edgeveil.devices.fleet.rollout import DONE, REFUSED, Outcome
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed

pytestmark = pytest.mark.programs

HOUR = 3600.0


def test_a_board_that_is_off_is_silent_since_it_last_answered(hall, edgeveil, tmp_path):
    assert edgeveil("flash", hall)[0] == 0
    assert edgeveil("status")[0] == 0
    assert set(json.loads((tmp_path / "hall.seen.json").read_text())) == {"one", "two", "three"}
    fleet = tmp_path / "hall.toml"
    target = load(fleet).boards[1].target
    fleet.write_text(fleet.read_text().replace(target, "ssh://pi@127.0.0.1:9"))  # nobody listens there
    before = (tmp_path / "hall.seen.json").read_text()
    code, found, out = edgeveil("status")
    assert (code, found) == (4, {"one": "done", "two": "failed", "three": "done"})
    assert "Silent for 0 hours: it last answered at 20" in out.out
    assert json.loads(before)["two"] == json.loads((tmp_path / "hall.seen.json").read_text())["two"]


def test_how_long_it_is_silent_and_one_that_never_answered(tmp_path):
    now = [100 * 24 * HOUR]
    seen = LastSeen(tmp_path / "hall.toml", lambda: now[0])
    seen.keep(Outcome("a", DONE, ""))
    seen.keep(Outcome("b", REFUSED, ""))

    def work(board, say):
        raise DeviceFailed("No answer.")

    class Board:
        name = "a"

    told = []
    for hours in (5, 24 * 12 + 3):
        now[0] = (100 * 24 + hours) * HOUR
        with pytest.raises(DeviceFailed) as error:
            LastSeen(tmp_path / "hall.toml", lambda: now[0]).asking(work)(Board, print)
        told.append(str(error.value))
    assert told[0].startswith("No answer. Silent for 5 hours: it last answered at 1970-04-11T")
    assert "Silent for 12 days" in told[1]
    Board.name = "b"
    with pytest.raises(DeviceFailed, match="It never answered"):
        seen.asking(work)(Board, print)


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 3}', '{"a": "yesterday"}'])
def test_a_file_that_says_something_else_is_one_sentence(tmp_path, text):
    (tmp_path / "hall.seen.json").write_text(text)
    with pytest.raises(BadInput, match="Remove it"):
        LastSeen(tmp_path / "hall.toml")
