"""The pages of the boards say what the profiles say."""

import pytest

from edgeveil.devices import profiles
from scripts.reproduce.pages.boards import board_pages
from tests.support.checkout import ROOT

FOLDER = ROOT / board_pages.FOLDER


@pytest.mark.parametrize("name", profiles.names())
def test_a_page_is_that_of_its_profile(name):
    profile = profiles.load(name)
    text = (FOLDER / f"{name}.md").read_text()
    assert text == board_pages.page(profile), "run python -m scripts.reproduce.pages.write_pages boards"
    assert all(f"| {fact} | unchecked |" in text for fact in profile.unchecked)
    assert ("Published by others" in text) == bool(profile.calibration)


def test_every_board_is_in_the_list_and_no_other():
    assert (FOLDER / board_pages.INDEX).read_text() == board_pages.index()
    assert {path.stem for path in FOLDER.glob("*.md")} == {*profiles.names(), "README"}
