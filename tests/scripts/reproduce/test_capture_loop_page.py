"""docs/results/capture-loop.md says what its records say."""

import pytest

from edgeveil.edge_runtime.errors import BadInput
from scripts.reproduce.pages import capture_loop_page
from tests.support.checkout import ROOT


def test_the_page_and_its_records_agree():
    text = (ROOT / "docs/results/capture-loop.md").read_text()
    assert text.count("<!-- recorded: ") == 8
    assert capture_loop_page.page(text, ROOT / "docs/results/bench") == text


def test_a_part_nobody_makes_and_a_record_that_is_not_there_are_one_sentence(tmp_path):
    with pytest.raises(BadInput, match="no table called other; there are loop, apart"):
        capture_loop_page.page("<!-- recorded: other -->\n<!-- end -->", tmp_path)
    with pytest.raises(BadInput, match=r"loop\.json is not there; record it first"):
        capture_loop_page.page("<!-- recorded: loop -->\n<!-- end -->", tmp_path)
