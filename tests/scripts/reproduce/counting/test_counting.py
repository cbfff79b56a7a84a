"""The record of counting is what the code does today, its page is made from it, and a wrong count would be seen."""

import json

import pytest

from edgeveil.edge_runtime.manifest.count import Line
from scripts.reproduce.counting import count_people, counting_page
from scripts.reproduce.counting.truth import Crossing, crossings, match, nearest
from tests.support.checkout import ROOT

RECORD = json.loads((ROOT / count_people.RESULT).read_text())


def test_the_page_and_its_picture_are_those_of_the_record(tmp_path):
    assert counting_page.page(RECORD) == (ROOT / counting_page.PAGE).read_text()
    counting_page.draw(RECORD, tmp_path / "counting.svg")
    assert (tmp_path / "counting.svg").read_bytes() == (ROOT / counting_page.PICTURE).read_bytes()


def test_the_goals_are_met_where_the_page_says_so():
    simulated, replayed = RECORD["simulated"], RECORD["replayed"]
    assert simulated["right"] >= 0.995
    assert simulated["judged"] > 400
    assert simulated["occupancy_but_for_the_border"] >= 0.99
    assert len(simulated["scenes"]) >= 20
    assert replayed["right"] >= 0.97 * replayed["judged"] > 30


def test_a_scene_counts_today_as_it_was_recorded():
    """Five seconds, through all of the code that counts; the record has more."""
    scene = count_people.simulated(1, 2, 5)
    assert scene["missed"] == scene["extra"] == scene["switches"] == 0
    assert scene["judged"] == 2
    assert scene["occupancy_but_for_the_border"] == scene["frames"] == 150


@pytest.mark.data
def test_the_recording_counts_today_as_it_was_recorded(data_folder):
    assert count_people.replayed(data_folder / count_people.RECORDING) == RECORD["replayed"]


def test_a_lost_and_an_invented_crossing_are_seen():
    line = Line("a", (0, 50), (100, 50))
    head = [(50.0, float(column)) for column in range(0, 100, 5)]
    true = crossings(line, head, 16.0)
    assert [one.way for one in true] == [-1]
    assert match(true, true, 5) == (true, [], [])
    assert match(true, [], 5) == ([], true, [])
    other = [Crossing(true[0].frame + 6, -1), Crossing(true[0].frame, 1)]
    assert match(true, other, 5) == ([], true, other)
    assert crossings(line, head[:11], 16.0) == []
    assert nearest((0.0, 0.0), {1: (3.0, 4.0), 2: (30.0, 40.0)}, 5) == 1
    assert nearest((0.0, 0.0), {2: (30.0, 40.0)}, 5) is None
