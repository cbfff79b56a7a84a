"""WiFi, faces and depth as the paper's stand-ins are defined: counts on the real files, rules on made ones."""

import functools

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer import datasets
from edgeveil.trainer.datasets import readings as downloads
from edgeveil.trainer.datasets import slicing
from edgeveil.trainer.datasets.loaders import depth, faces, wifi
from edgeveil.trainer.recipe.schema import Recipe

# Reading and clustering WiFi takes ten seconds; the first test shows that it does the same again.
wifi._rows = functools.cache(wifi._rows)  # seconds of parsing each time
WIFI, DEPTH = functools.cache(wifi.load), functools.cache(depth.load)


@pytest.fixture
def real(data_folder, monkeypatch):
    monkeypatch.setenv(downloads.VARIABLE, str(data_folder))


def best_guess(readings) -> float:
    """How often the best guess of z from y is right."""
    table = np.zeros((len(readings.y_names), len(readings.z_names)))
    np.add.at(table, (readings.y, readings.z), 1)
    return table.max(axis=1).sum() / len(readings.y)


@pytest.mark.data
@pytest.mark.nightly
def test_wifi_is_104_regions_of_13_floors_without_doubles(real):
    found = WIFI(target="floor", sensitive="region")
    assert found.x.shape == (20_411, 520)
    assert set(np.unique(found.x)) == {0, 1}
    assert (len(found.y_names), len(found.z_names)) == (13, 104)
    assert (found.z // 8 == found.y).all()  # a region says its floor
    assert 0.195 < best_guess(found) < 0.215
    assert np.bincount(found.z).min() >= 30
    assert (found.attributes["access-points"] == found.x.sum(axis=1)).all()
    nothing = found.attributes["access-points"] == 0
    assert (found.attributes["strongest"][nothing] == wifi.UNHEARD_DBM).all()
    assert (found.attributes["mean"] <= found.attributes["strongest"]).all()
    assert (found.attributes["user"] == 0).sum() == 1_111
    again = wifi.load(target="floor", sensitive="region")
    assert (again.z == found.z).all()


@pytest.mark.data
@pytest.mark.nightly
def test_wifi_strengths_are_the_same_records_as_measured(real):
    seen = WIFI(target="floor", sensitive="region")
    strength = WIFI(target="floor", sensitive="region", strength=True)
    assert ((strength.x > 0) == (seen.x > 0)).all()
    assert strength.x.max() == 105
    assert (strength.x.max(axis=1) - 105.0 == seen.attributes["strongest"]).all()
    assert (strength.z == seen.z).all()


@pytest.mark.data
@pytest.mark.nightly
def test_wifi_buildings_are_three(real):
    found = wifi.load(target="building", sensitive="region")
    assert found.y_names == ("building-0", "building-1", "building-2")
    assert (found.y == found.attributes["building"]).all()


@pytest.mark.data
def test_two_targets_of_faces_are_nine_classes_and_the_height_is_there_where_it_is_named(real):
    recipe = Recipe.find("faces-label-only")
    assert "height" not in datasets.load(recipe).known  # or audits of recipes that do not name it would differ
    table = recipe.model_dump(exclude_none=True)
    table["data"]["target"] = ["light", "height"]
    found = datasets.load(Recipe.check(table))
    assert (len(found.y_names), len(found.z_names), found.y_names[0]) == (9, 38, "left and below")
    heights = found.joint["y"].of[found.y][:, 1]
    assert (np.digitize(found.attributes["elevation"], [0, faces.LEVEL_BELOW]) == heights).all()


@pytest.mark.data
@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name in Recipe.names() if name.startswith("wifi")])
def test_the_quick_budget_leaves_rows_enough_of_every_region(real, name, monkeypatch):
    monkeypatch.setattr(wifi, "load", WIFI)
    slices = datasets.load(Recipe.find(name).with_budget("quick")).slices
    assert 3_000 < len(slices.perturber) < 4_000


@pytest.mark.data
@pytest.mark.nightly
def test_faces_are_1844_pictures_in_three_lights(real):
    found = faces.load(target="light", sensitive="person")
    assert found.x.shape == (1844, 48, 42, 1)
    assert found.x.dtype == np.uint8
    assert len(found.z_names) == 38
    azimuth = found.attributes["azimuth"]
    for number, inside in enumerate((azimuth <= -25, abs(azimuth) <= 15, azimuth >= 25)):
        assert ((found.y == number) == inside).all()
    assert abs(azimuth).max() < 120
    assert found.attributes["elevation"].max() < 60
    assert 20 not in abs(azimuth)


@pytest.mark.data
@pytest.mark.nightly
def test_depth_keeps_recordings_whole_and_the_unseen_apart(real):
    found = DEPTH(target="action", sensitive="person")
    assert found.x.shape[1:] == (40, 32, 1)
    assert found.z_names == tuple(f"person-{n}" for n in (1, 2, 3, 4, 5))
    assert (found.z[1:][np.diff(found.session) == 0] == found.z[:-1][np.diff(found.session) == 0]).all()
    cluster, kind = slicing.clusters(found.z, subject=found.subject, session=found.session)
    slices = slicing.cut(found.y, found.z, cluster=cluster, rng=np.random.default_rng(0))
    assert kind == "session"
    whole = [set(cluster[part]) for part in (slices.classifiers, slices.perturber, slices.test)]
    assert not whole[0] & whole[1]
    assert not whole[0] & whole[2]
    unseen = depth.load(target="action", sensitive="person", people=(6, 7, 8))
    assert unseen.z_names == ("person-6", "person-7", "person-8")
    together = depth.load(target="action", sensitive="person", people=depth.PEOPLE)
    assert len(together.x) == len(found.x) + len(unseen.x)


@pytest.mark.data
@pytest.mark.nightly
def test_movement_is_what_moves_the_whole_body(real):
    action = DEPTH(target="action", sensitive="person")
    found = depth.load(target="movement", sensitive="person")
    assert (action.y_names, found.y_names) == (("arms", "walk", "sit", "step"), ("walk", "sit", "step"))
    whole = action.y > 0
    assert (found.y == action.y[whole] - 1).all()
    assert (found.x == action.x[whole]).all()
    assert len(np.unique(found.session)) == len(np.unique(action.session[whole]))


@pytest.mark.data
@pytest.mark.nightly
def test_standing_position_does_not_give_a_person_away(real):
    found = DEPTH(target="action", sensitive="person")
    person = found.x[..., 0] > 0
    centre = (person.sum(axis=1) * np.arange(32)).sum(axis=1) / person.sum(axis=(1, 2))
    assert abs(centre - 15.5).max() < 1.0
    mean = np.array([frame[there].mean() for frame, there in zip(found.x[..., 0], person, strict=True)])
    assert abs(mean - 128).max() < 4  # clipped limbs may move it a little


def test_centring_moves_a_person_to_the_middle_and_to_grey():
    frame = np.zeros((2, 80, 64), np.uint16)
    frame[0, 20:60, 4:8] = 3000
    frame[0, 20:60, 4:6] = 3016
    found = depth.centred(frame)
    assert found.shape == (2, 40, 32)
    assert not found[1].any()  # nobody there
    assert np.unique(np.nonzero(found[0])[1]).tolist() == [15, 16]
    assert np.unique(found[0]).tolist() == [0, 127, 129]


@pytest.mark.parametrize(
    ("load", "asked"),
    [
        (wifi.load, {"target": "room", "sensitive": "region"}),
        (wifi.load, {"target": "building", "sensitive": "building"}),
        (faces.load, {"target": "light", "sensitive": "gender"}),
        (depth.load, {"target": "facing", "sensitive": "person"}),
        (depth.load, {"target": "action", "sensitive": "person", "people": (0, 1)}),
    ],
)
def test_unknown_attributes_are_refused_by_name(load, asked):
    with pytest.raises(BadInput, match=r"`data\.(target|sensitive|people)`: expected"):
        load(**asked)


def test_a_file_is_taken_with_the_right_checksum_only(tmp_path, monkeypatch):
    monkeypatch.delenv(downloads.VARIABLE, raising=False)
    wanted = {"sha256": "0" * 64, "source": "its publisher"}
    with pytest.raises(BadInput, match=r"is not set\. Get the file from its publisher"):
        downloads.checked_path("a/b.npz", **wanted)
    monkeypatch.setenv(downloads.VARIABLE, str(tmp_path))
    with pytest.raises(BadInput, match="No such file"):
        downloads.checked_path("a/b.npz", **wanted)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.npz").write_bytes(b"other")
    with pytest.raises(BadInput, match="Get it again"):
        downloads.checked_path("a/b.npz", **wanted)
