"""The audit's part about streams, and the page that puts splits together."""

import json

import numpy as np
import pytest

from edgeveil.trainer.audit.sections import streams as streaming
from edgeveil.trainer.datasets.base import Dataset, InputSpec, Slices
from scripts.reproduce.pages import streams_page
from tests.support.checkout import ROOT

TRACK = {"hold": "track", "votes": 7, "period_s": None, "acknowledged": None}
FRAME = {"hold": "frame", "votes": None, "period_s": None, "acknowledged": "code-per-frame leaks"}


def recorded():
    return json.loads((ROOT / "docs" / "results" / "privacy" / "streams.json").read_text())


def recordings(n=180, length=16, cluster=True):
    """x is (y, z); every recording is one person's doing one thing."""
    rng = np.random.default_rng(0)
    track = np.repeat(np.arange(n), length)
    y, z = track % 2, track // 2 % 3
    third = np.array_split(np.arange(n * length), 3)
    slices = Slices(*(rng.permutation(rows) for rows in third))
    spec = InputSpec("vector", (2,), "int64", 0.0, 3.0)
    x = np.stack([y, z], axis=1)
    of = (track, "session") if cluster else (None, None)
    return Dataset("made", x, y, z, ("a", "b"), ("u", "v", "w"), np.full((2, 3), 1 / 3), spec, slices, *of)


def leaky(x, track):
    """A code that tells z one time in three; the label is y."""
    rng = np.random.default_rng(len(x))
    assert (np.diff(track) >= 0).all()  # in order of time
    code = np.where(rng.random(len(x)) < 1 / 3, x[:, 1], rng.integers(0, 3, len(x)))
    return {"label": x[:, 0], "code": code}


def test_releases_of_a_track_add_up_and_shuffled_people_do_not():
    found = streaming.section(FRAME, recordings(), leaky, trees=40, seed=0)
    assert found["acknowledged"] == "code-per-frame leaks"
    one, _, many = found["tracks"]
    assert (one["releases"], many["releases"], many["tracks"]) == (1, 16, 60)
    assert max(many["right"].values()) > 0.85 > max(one["right"].values())
    # One shuffle of 60 tracks may lie near the truth for one family, where sixteen releases add up a little.
    assert np.median(list(many["people_shuffled"].values())) < 0.55
    assert "certificate" not in found


def test_a_held_track_is_certified_for_all_of_its_releases():
    def held(x, track):
        return {"label": x[:, 0], "code": np.repeat(np.random.default_rng(0).integers(0, 3, 160), 16)}

    found = streaming.section(TRACK, recordings(480), held, trees=20, seed=0)
    assert max(found["tracks"][2]["right"].values()) < 0.45
    assert found["certificate"]["given"]
    assert found["certificate"]["units"] == 160
    assert found["certificate"]["plug_in"] == pytest.approx(1 / 3, abs=0.01)
    assert found["sentence"].startswith("For all releases of one track together, an adversary who knows y")


def test_data_without_sessions_and_short_recordings_say_so():
    found = streaming.section(TRACK, recordings(cluster=False), leaky, trees=10, seed=0)
    assert "neither subjects nor sessions" in found["not_run"]
    short = streaming.section(FRAME, recordings(length=5), leaky, trees=10, seed=0)
    assert "0 recordings of 16 readings" in short["tracks"][2]["not_run"]


def split(held, true):
    row = {"a": held, "b": 0.2}
    ways = {"held": {"T=16": row}, "held, true class": {"T=16": {"a": 0.1, "b": true}}}
    return {"populations": {"unseen": {"ways": ways}}, "linkage": {"held": {"a": 0.5, "b": 0.4}}}


def test_the_best_family_is_that_of_all_splits_and_stands_against_the_best_where_nothing_is():
    record = {"splits": {"1": split(0.3, 0.3), "2": split(0.5, 0.4)}}
    assert streams_page.best(record, "unseen", "held", "T=16").family == "a"
    assert streams_page.best(record, "unseen", "held", "T=16").right.estimate == pytest.approx(0.4)
    over = streams_page.over_baseline(record, "unseen", "held", "T=16")
    assert over.estimate == pytest.approx(0.05)
    assert over.low < 0 < over.high
    assert streams_page.linkage(record, "held").family == "b"


def test_the_page_is_what_the_record_says():
    assert (ROOT / streams_page.PAGE).read_text() == streams_page.page(recorded())


@pytest.mark.parametrize("target", ["movement", "action"])
def test_the_record_says_that_held_streams_tell_nothing_of_the_calibrated_and_the_others_do(target):
    record = recorded()["targets"][target]
    held = {name: streams_page.over_baseline(record, name, "held", "T=16") for name in streams_page.POPULATIONS}
    assert held["calibrated"].estimate <= 0.03
    for way in ("lp", "independent", "learned"):
        assert streams_page.over_baseline(record, "unseen", way, "T=16").low > max(0.03, held["unseen"].estimate)
    assert streams_page.over_baseline(record, "calibrated", "learned", "T=16").low > 0.03


def test_the_record_says_that_movement_tells_nothing_of_people_never_seen():
    record = recorded()
    movement = record["targets"]["movement"]
    assert len(movement["splits"]) == 56
    for found in (movement, streams_page.without_first(movement, record["settings"]["looked_at"])):
        assert streams_page.over_baseline(found, "unseen", "held", "T=16").high <= 0.03


def test_where_the_class_of_everybody_is_read_a_held_stream_tells_nothing_of_new_people():
    for record in recorded()["targets"].values():
        ranges = list(streams_page.by_worst_person(record, "held", "T=16"))
        assert sum(splits for _, splits, _ in ranges) + 1 >= len(record["splits"])  # a lone split has no interval
        assert ranges[-1][0] == "85 to 100"
        assert ranges[-1][2].estimate <= 0.03


def test_splits_that_were_looked_at_can_be_left_out():
    record = {"splits": {"1": 1, "2": 2, "3": 3}, "more": 4}
    assert streams_page.without_first(record, 2) == {"splits": {"3": 3}, "more": 4}
