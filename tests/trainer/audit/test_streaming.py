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
    """A code that equals z one time in three; the label is y."""
    rng = np.random.default_rng(len(x))
    assert (np.diff(track) >= 0).all()  # in order of time
    code = np.where(rng.random(len(x)) < 1 / 3, x[:, 1], rng.integers(0, 3, len(x)))
    return {"label": x[:, 0], "code": code}


def rows(found, figure="right"):
    """The findings of each length by family, or why there are none."""
    made = {}
    for one in found:
        if "releases" in one.more and one.not_run:
            made[one.more["releases"]] = one.not_run
        elif "releases" in one.more and one.figure == figure:
            made.setdefault(one.more["releases"], {})[one.name] = one
    return made


def best(row):
    return max(one.value for one in row.values())


def test_releases_of_a_track_add_up_and_shuffled_people_do_not():
    found = streaming.section(FRAME, recordings(), leaky, trees=40, seed=0)
    made = rows(found)
    assert list(made) == [1, 4, 16, 64, 256]
    assert [made[length].split(" of ")[0] for length in (64, 256)] == ["12 linked samples", "0 recordings"]
    assert {(one.rows, one.more["of"]) for one in made[16].values()} == {(60, streaming.RECORDINGS)}
    assert best(made[16]) > 0.85 > best(made[1])
    # One shuffle of 60 tracks may lie near the truth for one family, where sixteen releases add up a little.
    assert np.median([one.more["shuffled"] for one in made[16].values()]) < 0.55
    assert not any(one.bound for one in found)


def test_a_held_track_is_certified_for_all_of_its_releases():
    def held(x, track):
        return {"label": x[:, 0], "code": np.repeat(np.random.default_rng(0).integers(0, 3, 160), 16)}

    found = streaming.section(TRACK, recordings(480), held, trees=20, seed=0, one_release="label")
    assert best(rows(found)[16]) < 0.45
    (counted,) = (one for one in found if one.bound)
    assert counted.rows == 160
    assert counted.more["plug_in"] == pytest.approx(1 / 3, abs=0.01)
    assert counted.text.startswith("For all samples of one track together, an adversary who knows y")


def test_a_track_that_is_its_first_frames_release_is_certified_by_its_code():
    """The code is z's: a certificate of the label, which says nothing of z, would be wrong."""

    def held(x, track):
        return {"label": x[:, 0], "code": 3 * x[:, 0] + x[:, 1]}

    found = streaming.section(TRACK, recordings(480), held, trees=20, seed=0, one_release="code")
    (counted,) = (one for one in found if one.bound)
    assert counted.more["plug_in"] == 1.0
    assert not [one for one in streaming.section(TRACK, recordings(480), held, trees=20, seed=0) if one.bound]


def test_data_without_sessions_and_short_recordings_say_so():
    (none,) = streaming.section(TRACK, recordings(cluster=False), leaky, trees=10, seed=0)
    assert "neither subjects nor sessions" in none.not_run
    short = streaming.section(TRACK, recordings(length=5), leaky, trees=10, seed=0)
    assert "0 recordings of 16 readings" in rows(short)[16]


def test_the_headline_is_of_the_longest_tracks_with_their_interval():
    """A code that equals z one time in ten: z is hidden in one reading and read from 256."""

    def seldom(x, track):
        rng = np.random.default_rng(len(x))
        return {"code": np.where(rng.random(len(x)) < 0.1, x[:, 1], rng.integers(0, 3, len(x)))}

    found = streaming.section(None, recordings(1200, cluster=False), seldom, trees=20, seed=0)
    areas = [row["sum of log-posteriors"] for row in rows(found, "auc").values()]
    assert len(areas) == 5
    assert areas[0].interval[0] < 0.56 < 0.75 < areas[-1].interval[0] <= areas[-1].value <= areas[-1].interval[1]
    (most,) = (one for one in found if one.more.get("headline"))
    assert most.text.startswith("Over 256 readings of one track")


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
    rights = [best(row) for row in rows(found).values()]
    assert rights[0] < 0.75 < 0.95 < rights[2] <= rights[3]
    assert any("sum of BatchNorm MLP on both rows" in one.text for one in found)
