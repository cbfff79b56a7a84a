"""simulate:depth: the same scene for the same seed, people where they are said to be, noise as measured, a label."""

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput, Unsupported
from edgeveil.edge_runtime.manifest.manifest import Input
from edgeveil.edge_runtime.sources import open_source
from edgeveil.edge_runtime.sources.simulate import SimulatedSource
from edgeveil.edge_runtime.util.simulated_scene import EDGE_MM, NOISE_AT, NOISE_MM, Scene

DEPTH = Input("x", "image", (424, 512, 1), "uint16", 0, 5000)


def test_the_same_seed_gives_the_same_scene_and_another_seed_another():
    first, again, other = (open_source(f"simulate:depth?seed={seed}&fps=0", DEPTH) for seed in (3, 3, 4))
    frames = [[source.next()._data for _ in range(3)] for source in (first, again, other)]
    assert np.array_equal(frames[0], frames[1])
    assert not np.array_equal(frames[0], frames[2])
    assert frames[0][0].dtype == np.uint16
    assert frames[0][0].shape == (424, 512, 1)


def test_it_is_always_called_simulated():
    source = open_source("simulate:depth", DEPTH)
    assert source.simulated
    assert source.live
    assert "SIMULATED" in source.name


def test_heads_are_where_and_as_high_as_the_scene_says():
    scene = Scene(seed=1, people=2)
    seen = set()
    for tick in range(150):
        frame = scene.frame(tick / 2.5)
        for walker in scene.walkers:
            row, column = (round(v) for v in scene.pixel(walker))
            if not (60 < row < 364 and 60 < column < 452):
                continue
            seen.add((walker.who, walker.inward))
            around = frame[row - 9 : row + 10, column - 9 : column + 10]
            top = scene.floor_mm - np.percentile(around[around > 0], 5)
            assert abs(top - scene.cast[walker.who].height) < 40
    assert len({who for who, _ in seen}) >= 5
    assert {inward for _, inward in seen} == {True, False}


def test_an_empty_scene_is_a_floor_with_the_noise_of_a_kinect_v2():
    scene = Scene(people=0)
    frames = np.stack([scene.frame(tick / 30) for tick in range(40)]).astype(np.float64)
    away = np.hypot(*np.mgrid[-211.5:212.5, -255.5:256.5])
    for at in (45.0, 195.0, 255.0):
        ring = frames[:, abs(away - at) < 6]
        ring = ring[ring > 0]
        assert abs(ring.mean() - scene.floor_mm) < 2
        assert abs(ring.std() / np.interp(at, NOISE_AT, NOISE_MM) - 1) < 0.15
    assert 0.05 < (frames == 0).mean() < 0.15  # 9.5 % in the recording


def test_there_is_no_reading_along_the_edge_of_a_body():
    scene = Scene(seed=0, people=1)
    frame = next(f for f in (scene.frame(t / 10) for t in range(200)) if (f[100:300, 150:350] < 2000).mean() > 0.1)
    middle = frame[100:300, 150:350].astype(int)
    step = abs(np.diff(middle, axis=1))[(middle[:, 1:] > 0) & (middle[:, :-1] > 0)]
    assert step.max() < EDGE_MM + 40


def test_it_takes_the_size_and_depth_of_a_small_bundle():
    small = SimulatedSource("depth?fps=0", {"kind": "image", "shape": [28, 28, 1], "dtype": "uint8", "unit_mm": None})
    picture = small.next()._data
    assert picture.shape == (28, 28, 1)
    assert picture.dtype == np.uint8
    assert picture.max() == 255


@pytest.mark.parametrize("place", ["rgb", "depth?people=-1", "depth?fps=fast", "depth?sed=1", "depth?fps=nan"])
def test_what_it_does_not_know_is_refused(place):
    with pytest.raises(BadInput, match="simulate:depth"):
        open_source("simulate:" + place, DEPTH)


def test_a_bundle_for_vectors_cannot_be_simulated():
    spec = Input("x", "vector", (520,), "uint8", 0, 1)
    with pytest.raises(Unsupported, match="npz:FILE"):
        open_source("simulate:depth", spec)


@pytest.mark.parametrize(
    ("source", "sensor"), [("simulate:depth", "camera"), ("camera:0", "depth"), ("rtsp://h/1", "wifi")]
)
def test_a_source_of_another_sensor_is_refused(source, sensor):
    with pytest.raises(BadInput, match="its output would mean nothing"):
        open_source(source, DEPTH._replace(sensor=sensor))


@pytest.mark.parametrize("sensor", [None, "depth"])
def test_a_bundle_for_this_sensor_or_for_none_runs(sensor):
    assert open_source("simulate:depth", DEPTH._replace(sensor=sensor)).next() is not None
