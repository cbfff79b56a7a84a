"""The pages of the boards say what the profiles say."""

import json

import pytest

from edgeveil.devices import profiles
from scripts.reproduce.pages.boards import board_pages, boards_page, matrix
from tests.support.checkout import ROOT

FOLDER = ROOT / boards_page.FOLDER


@pytest.mark.parametrize("name", profiles.names())
def test_a_page_is_that_of_its_profile(name):
    profile = profiles.load(name)
    text = (FOLDER / f"{name}.md").read_text()
    assert text == board_pages.page(profile), "run python -m scripts.reproduce.pages.write_pages boards"
    assert all(f"| {fact} | unchecked |" in text for fact in profile.unchecked)
    assert ("Published by others" in text) == bool(profile.calibration or profile.published)


def test_every_board_is_in_the_list_and_no_other():
    assert (FOLDER / boards_page.INDEX).read_text() == boards_page.index()
    assert {path.stem for path in FOLDER.glob("*.md")} == {*profiles.names(), "README"}


def test_the_matrix_is_that_of_the_profiles_and_a_cell_is_as_good_as_its_weaker_part():
    recorded = json.loads((ROOT / matrix.RESULT).read_text())
    assert recorded["cells"] == matrix.now(), "run python -m scripts.reproduce.pages.boards.matrix, then the pages"
    assert recorded["counts"] == matrix.counts(recorded["cells"])
    assert sum(recorded["counts"].values()) > sum(recorded["counts_0_1"].values())
    states = {(row["board"], row["device"], row["camera"].partition(":")[0]): row["state"] for row in recorded["cells"]}
    assert states["raspberry-pi-cpu", "cpu", "camera"] == "run here"
    assert states["raspberry-pi-cpu", "cpu", "libcamera"] == "simulated"
    assert states["coral-dev-board", "edgetpu", "camera"] == "simulated"
    assert states["jetson-nano", "tensorrt", "camera"] == "unchecked"
    assert states["rockchip-rk3588", "rk3588", "camera"] == "simulated"
    (made_up,) = matrix.cells({"x": {"backends": [{"name": "new", "device": "npu"}]}})
    assert made_up["state"] == "unchecked", "nothing is claimed of what nobody wrote down"


def test_what_ran_is_read_from_records_or_stands_in_a_test(tmp_path):
    found = matrix.recorded()
    assert set(found) == {("ai-edge-litert", "cpu"), "camera", "rtsps", ("rknn-toolkit-lite2", "rk3588")}
    for one in matrix.TESTED.values():
        assert (ROOT / one.by).is_file()
    for one in found.values():
        (tmp_path / one.by).write_bytes((ROOT / matrix.RESULT.parent / one.by).read_bytes())
    assert matrix.recorded(tmp_path) == found
    failed = json.loads((tmp_path / "rk3588.json").read_text())
    failed["rows"][0]["not_compiled"] = "a word of the toolkit's"
    (tmp_path / "rk3588.json").write_text(json.dumps(failed))
    (tmp_path / "vivid.json").unlink()
    assert set(matrix.recorded(tmp_path)) == {("ai-edge-litert", "cpu"), "rtsps"}
