"""The audit's part about streams."""

from dataclasses import replace

import numpy as np
import pytest

from edgeveil.trainer.attacks.findings import Scored
from edgeveil.trainer.attacks.problem import Released
from edgeveil.trainer.audit.sections import streams as streaming
from edgeveil.trainer.datasets.base import Dataset, InputSpec, Slices
from tests.support import audit_documents

TRACK = {"hold": "track", "votes": 7, "period_s": None, "acknowledged": None}
FRAME = {"hold": "frame", "votes": None, "period_s": None, "acknowledged": "code-per-frame leaks"}


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
    one, _, many, *longer = found["tracks"]
    assert [row["not_run"].split(" of ")[0] for row in longer] == ["12 linked samples", "0 recordings"]
    assert (one["of"], many["of"]) == (streaming.RECORDINGS, streaming.RECORDINGS)
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
    short = streaming.section(TRACK, recordings(length=5), leaky, trees=10, seed=0)
    assert "0 recordings of 16 readings" in short["tracks"][2]["not_run"]


def test_the_headline_is_of_the_longest_tracks_with_their_interval():
    """A code that tells z one time in ten: nothing of one reading, nearly all of 256."""

    def seldom(x, track):
        rng = np.random.default_rng(len(x))
        return {"code": np.where(rng.random(len(x)) < 0.1, x[:, 1], rng.integers(0, 3, len(x)))}

    found = streaming.section(None, recordings(1200, cluster=False), seldom, trees=20, seed=0)
    assert found["hold"] == "none"
    assert [row["releases"] for row in found["tracks"]] == [1, 4, 16, 64, 256]
    assert found["headline"].startswith("Over 256 readings of one track")
    first, last = (row["auc"]["sum of log-posteriors"] for row in (found["tracks"][0], found["tracks"][-1]))
    assert first["low"] < 0.56 < 0.75 < last["low"] <= last["mean"] <= last["high"]


def test_where_outputs_are_no_codes_the_best_attacks_answers_add_up():
    """Frames of many values, and an attack that is a little right about each of them."""
    data = recordings(1200, cluster=False)
    rng = np.random.default_rng(1)
    test = data.part("test")
    sure = np.full((len(test), 3), 0.3)
    sure[np.arange(len(test)), np.where(rng.random(len(test)) < 0.45, test.z, rng.integers(0, 3, len(test)))] = 0.4
    left = Released(test.x, test.y, test.z, row=test.index)
    row = replace(audit_documents.row("BatchNorm MLP", "adaptive", 0.5), learned_on="both")
    attack = Scored(row, {"test": sure}, {"test": sure}, left, left)
    sent = {"frame": rng.normal(size=(len(data.y), 2))}
    found = streaming.section(None, data, None, trees=20, seed=0, attack=attack, sent=sent)
    rights = [next(iter(one["right"].values())) for one in found["tracks"]]
    assert rights[0] < 0.75 < 0.95 < rights[2] <= rights[3]
    assert "sum of BatchNorm MLP on both rows" in found["headline"]
