"""edgeveil.edge_runtime.pipeline.camera_aid: coarse levels that a person can aim by, and nothing finer."""

import copy

import cv2
import numpy as np

from edgeveil.edge_runtime.ipc.notes import NAMES, only_levels
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.pipeline.camera_aid import BOTTOM, LEFT, RIGHT, TOP, CameraAid, focus_levels
from tests.support import bundles


def scene(rows=slice(150, 260), columns=slice(180, 300), background=40000, person=22000):
    raw = np.full((424, 512), background, np.uint16)
    raw[rows, columns] = person
    return raw


def levels(raw):
    return focus_levels(raw, low=0.0, high=65535.0)


def test_every_level_is_four_bits():
    rng = np.random.default_rng(0)
    for raw in (scene(), np.zeros((424, 512), np.uint16), rng.integers(0, 65536, (424, 512)).astype(np.uint16)):
        found = levels(raw)
        assert set(found) == set(NAMES)
        assert all(type(n) is int and 0 <= n <= 15 for n in found.values())
    assert set(focus_levels(np.zeros(37, np.float32), low=0.0, high=1.0).values()) == {0}


def test_a_blob_is_in_the_frame_or_cut_off_where_it_is():
    assert levels(scene())["cut"] == 0
    assert levels(scene())["blob"] > 0
    assert levels(scene(rows=slice(0, 200)))["cut"] == TOP
    assert levels(scene(columns=slice(400, 512)))["cut"] == RIGHT
    assert levels(scene(rows=slice(300, 424), columns=slice(0, 200)))["cut"] == BOTTOM | LEFT
    assert levels(scene(person=40000))["blob"] == levels(scene(person=40000))["cut"] == 0


def test_exposure_and_depth_range():
    found = levels(scene(background=52000, person=13000))
    assert (found["exposure"], found["near"], found["far"]) == (12, 3, 12)
    half = scene()
    half[:212] = 0
    assert levels(half)["dark"] == 8
    assert levels(scene())["dark"] == 0
    assert levels(scene(background=65535))["bright"] > 12


def test_focus_falls_with_every_blur_of_one_scene_with_noise():
    rng = np.random.default_rng(1)
    sharp = cv2.resize(
        rng.integers(5000, 60000, (20, 24)).astype(np.float32), (512, 424), interpolation=cv2.INTER_NEAREST
    )
    found = []
    for sigma in (0, 2, 5, 12):
        raw = cv2.GaussianBlur(sharp, (0, 0), sigma) if sigma else sharp
        found.append(levels((raw + rng.normal(0, 150, raw.shape)).clip(0, 65535).astype(np.uint16))["focus"])
    assert found == sorted(set(found), reverse=True)


def test_holes_without_a_reading_are_not_taken_for_sharpness():
    smooth = np.tile(np.linspace(20000, 40000, 512), (424, 1)).astype(np.uint16)
    holes = np.where(np.random.default_rng(2).random(smooth.shape) < 0.1, 0, smooth).astype(np.uint16)
    assert levels(holes)["focus"] == levels(smooth)["focus"]


def test_colour_and_floats_are_looked_at_too():
    raw = np.repeat(scene()[:, :, None], 3, axis=2)
    assert levels(raw) == levels(scene())
    metres = scene().astype(np.float32) / 65535 * 8
    metres[3, 5] = np.nan
    assert focus_levels(metres, low=0.0, high=8.0)["exposure"] == levels(scene())["exposure"]


def test_nothing_else_passes():
    assert only_levels({"exposure": 99, "focus": -1, "blob": 7, "pixels": 12345}) == {"exposure": 15, "blob": 7}


def test_the_camera_aid_looks_now_and_then_and_ends_by_itself():
    class Counters(dict):
        def set(self, name, level):
            self[name] = level

    now, counters = [0.0], Counters()
    manifest = copy.deepcopy(bundles.captured_example()[0])
    manifest["capture"]["frame"]["unit_mm"] = 0.25
    aid = CameraAid(parse(manifest), counters, clock=lambda: now[0])
    aid.observe(scene(background=24000))
    assert counters["level:exposure"] == 12
    aid.observe(scene(background=8000))
    assert counters["level:exposure"] == 12
    now[0] = 1.0
    aid.observe(scene(background=8000))
    assert counters["level:exposure"] == 4
    now[0] = 900.0
    aid.observe(scene())
    now[0] = 1000.0
    aid.observe(scene())
    assert set(counters.values()) == {-1}
    assert only_levels({name[6:]: level for name, level in counters.items()}) == {}
